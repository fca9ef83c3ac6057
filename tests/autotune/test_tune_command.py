"""`raido tune` and `raido db` from a user's view: jobs from options and files, reports, plots, one line for each failure."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_jobs import Dice, made_up_job
from tuning_programs import QUICK

import raido as rd
from raido.autotune.jobs import autotune as front
from raido.autotune.jobs.job import Progress
from raido.autotune.jobs.live import live_view, render, sparkline
from raido.autotune.measure import local
from raido.autotune.measure.local import Request
from raido.autotune.measure.measurement import Measurement
from raido.autotune.records.database import Database
from raido.cli import main
from raido.job_file import read_job_file

PROGRAM = """
import raido as rd

@rd.algorithm
def blur(img: rd.f32["h", "w"], *, by=3):
    return rd.stencil(lambda p: (p[0, -1] + p[0, 0] + p[0, 1]) / by, img, boundary="clamp", name="rows")

def holes(algorithm):
    s = algorithm.schedule()
    s["rows"].split("y", rd.choose("ty", [4, 8])).parallel("yo").vectorize("x")
    return s
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / f"{tmp_path.name}.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def dice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are made up, so that only what is around them is tried."""
    monkeypatch.setattr(front, "LocalMeasurer", lambda task, builders, ahead: Dice(spares_first=True))


def run(*arguments: str) -> int:
    try:
        main(list(arguments))
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def test_an_algorithm_is_tuned_measured_and_used(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole way once, with real processes and times."""
    program = f"{folder.name}.py:blur"
    assert run("tune", program, "--sizes", "h=30,w=40", "--space", "holes", "--search", "grid", "-o", "best.json") == 0
    said = capsys.readouterr().out
    assert "times as fast as the default; 2 trials" in said and 'sw["rows"].split("y"' in said
    np.save("in.npy", np.ones((30, 40), np.float32))
    assert run("run", program, "-i", "in.npy", "--schedule", "best.json") == 0
    assert run("run", program, "-i", "in.npy", "--db", "tuning.db") == 0
    assert "measured as compiled for these sizes (h=30,w=40)" in capsys.readouterr().err
    assert run("db", "best", "tuning.db", program, "--json") == 0
    assert json.loads(capsys.readouterr().out)["algorithm"] == "blur"
    assert run("show", program, "--db", "tuning.db", "--as", "schedule") == 0
    assert run("build", program, "--db", "tuning.db", "-o", "libblur.so") == 0
    with Database("tuning.db") as database:
        assert [r.failure for r in database.records()] == [None] * 6 and all(r.versions for r in database.records())


def test_a_job_file_lists_jobs_and_reports_are_written(
    dice: None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "jobs.toml").write_text(
        f"""
        trials = 6
        search = "random"
        db = "kept.db"
        [[job]]
        program = "{folder.name}.py:blur"
        sizes = [{{ h = 30, w = 40 }}, {{ h = 60, w = 40 }}]
        set = {{ by = 2 }}
        trials = 4
        """
    )
    assert run("tune", "jobs.toml", "--html", "report.html", "--plot", "plots.png") == 0
    out = capsys.readouterr().out
    assert out.count("times as fast") == out.count("; 4 trials") == 2
    for name in ("report.html", "report-2.html"):
        page = (folder / name).read_text()
        assert (
            page.startswith("<!doctype html>")
            and "<svg " in page
            and "Every trial" in page
            and f"{folder.name}.py:blur by=2<br>" in page
            and "http" not in page.split("<svg")[0]
        )
        assert (folder / name.replace("report", "plots").replace("html", "png")).read_bytes().startswith(b"\x89PNG")
    assert run("db", "list", "kept.db") == 0
    listed = capsys.readouterr().out.splitlines()
    assert listed[0].split()[:3] == ["PROGRAM", "SIZES", "TARGET"] and len(listed) == 4
    assert listed[-1].endswith("measurements in kept.db")
    assert run("db", "export", "kept.db", "all.jsonl") == run("db", "import", "b.db", "all.jsonl") == 0
    assert run("db", "merge", "c.db", "b.db", "kept.db") == 0
    with Database("kept.db") as one, Database("c.db") as other:
        assert one.records() == other.records() != []


def test_all_jobs_are_looked_at_before_the_first_is_run(
    dice: None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = f'program = "{folder.name}.py:blur"'
    (folder / "jobs.toml").write_text(
        f"[[job]]\n{program}\nsizes = {{ h = 3, w = 4 }}\n[[job]]\n{program}\nsizes = {{ h = 3 }}"
    )
    assert run("tune", "jobs.toml") == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err == "raido: jobs.toml, job 2: blur needs the size 'w'; its sizes: h, w\n"


def test_a_job_that_fails_does_not_keep_the_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Failing(Dice):
        def measure(
            self, requests: Sequence[Request], best: float | None = None, seconds: float = math.inf
        ) -> Iterator[Measurement]:
            raise rd.TuningError("blur faults under its default schedule\n  why       h is odd")

    made = iter([Dice(spares_first=True), Failing(), Dice(spares_first=True)])
    monkeypatch.setattr(front, "LocalMeasurer", lambda task, builders, ahead: next(made))
    sizes = [option for height in (2, 3, 4) for option in ("--sizes", f"h={height},w=4")]
    options = ["--trials", "3", "--search", "random", "-o", "best.json"]
    assert run("tune", f"{folder.name}.py:blur", *sizes, *options) == 1
    said = capsys.readouterr()
    assert said.out.count("times as fast") == 2
    first, last = said.err.splitlines()
    assert first.endswith("blur h=3 w=4: blur faults under its default schedule; why h is odd")
    assert last == "raido: 1 of 3 jobs failed; what the others found is in tuning.db"
    assert [path.name for path in sorted(folder.glob("best*"))] == ["best-3.json", "best.json"]
    assert {path.stat().st_mode & 0o777 for path in folder.glob("*.json")} == {
        folder.joinpath(f"{folder.name}.py").stat().st_mode & 0o777
    }


def test_json_says_the_same_as_toml(folder: Path) -> None:
    job = {"program": "a.py:f", "inputs": ["x.npy"], "minutes": 2, "ranges": {"i": [0, "n"]}, "space": "s.json"}
    (folder / "jobs.json").write_text(json.dumps({"job": [job], "seed": 5}))
    (work,) = read_job_file(folder / "jobs.json", {"trials": 7})
    assert (work.trials, work.minutes, work.seed, work.db) == (7, 2, 5, folder / "tuning.db")
    assert (
        work.program == f"{folder}/a.py:f" and work.inputs == (f"{folder}/x.npy",) and work.space == f"{folder}/s.json"
    )
    assert work.ranges == {"i": [0, "n"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{}", "--sizes", "h=3"), "blur needs the size 'w'"),
        (("{}", "--sizes", "h:3"), "write NAME=NUMBER,NAME=NUMBER"),
        (("{}", "--sizes", "h=3,w=4", "-i", "a.npy"), "give one of them"),
        (("{}", "--sizes", "h=3,w=4", "--range", "img=1"), "write NAME=LOW:HIGH"),
        (("{}", "--sizes", "h=3,w=4", "--limit", "run"), "--limit 'run': write NAME=NUMBER"),
        (
            ("{}", "--sizes", "h=3,w=4", "--limit", "jump=3"),
            "limits has no key 'jump'; its keys are compile, run, slower",
        ),
        (("{}", "--sizes", "h=3,w=4", "--tolerance", "-1"), "tolerance must be a number from 0 on"),
        (
            ("{}", "--sizes", "h=3,w=4", "--search", "magic"),
            "search='magic' is unknown; the searches are model, random, grid",
        ),
        (("{}", "--sizes", "h=3,w=4", "--db", "no/such.db"), "there is no folder no"),
        (("{}", "--sizes", "h=3,w=4", "--minutes", "0"), "minutes must be more than 0"),
        (("{}", "--sizes", "h=3,w=4", "--html", "no/page.html"), "no such folder: no"),
        (("{}", "--sizes", "h=3,w=4", "-o", "."), ". is a folder"),
        (("{}", "--sizes", "h=3,w=4", "--plot", "a.doc"), "a.doc: no kind of picture has the ending '.doc'; use .png"),
        (("{}", "--sizes", "h=3,w=4", "--trials", "0", "--html", "a.html"), "with 0 trials nothing is measured"),
        (("{}", "--sizes", "h=3,w=4", "--space", "no.json"), "cannot read the schedule no.json"),
        (("jobs.toml",), "cannot read jobs.toml"),
        (("bad.toml",), "bad.toml: job 1: there is no `trails`; there is program, sizes"),
        (("bad.toml", "--sizes", "h=3"), "are given in bad.toml"),
        (("empty.json",), "there is no [[job]]"),
        (("broken.toml",), "broken.toml: "),
    ],
)
def test_a_failure_is_one_line(
    dice: None, folder: Path, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.toml").write_text('[[job]]\nprogram = "a.py:f"\ntrails = 3')
    (folder / "empty.json").write_text("{}")
    (folder / "broken.toml").write_text("= 3")
    assert run("tune", *(each.format(f"{folder.name}.py:blur") for each in arguments)) == 1
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1


def test_one_trial_measured_by_two_processes_is_one(
    dice: None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    algorithm = rd.algorithm(a="f32[n]")(lambda a: (a + 1).named("out"))
    tuning = rd.autotune(algorithm, {"n": 1000}, trials=1, search="random")
    with Database("tuning.db") as database:
        database.add_all([replace(each, id=each.id + "2", at=each.at + 1) for each in tuning.history])
    again = rd.autotune(algorithm, {"n": 1000}, trials=1, search="random")
    assert len(again.records) == len(tuning.records) + 2 and len(again.history) == 2 and "; 1 trial" in str(again)
    assert run("db", "list", "tuning.db") == 0
    assert capsys.readouterr().out.splitlines()[1].split("made up")[1].split()[0] == "1"
    assert [repr(each).split(" ", 1)[0] for each in again.history] == ["<Record", "<Record"]


def test_programs_of_one_name_are_told_apart(dice: None, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = ("tune", f"{folder.name}.py:blur", "--sizes", "h=30,w=40", "--trials", "1", "--search", "random")
    listed: list[list[str]] = []
    for by in "23":
        assert run(*job, "--set", f"by={by}") == 0
        capsys.readouterr()
        assert run("db", "list", "tuning.db") == 0
        listed.append([line.partition("  ")[0] for line in capsys.readouterr().out.splitlines()[1:-1]])
    assert listed[0] == ["blur"]
    assert len(set(listed[1])) == 2 and all(len(each.removeprefix("blur ")) == 8 for each in listed[1])


def test_limits_and_tolerance_reach_the_job(dice: None, folder: Path) -> None:
    job = f'program = "{folder.name}.py:blur"\nsizes = {{ h = 30, w = 40 }}\nlimits = {{ run = 7 }}\ntolerance = 0.5'
    (folder / "jobs.toml").write_text(f"[[job]]\n{job}")
    more = ("--limit", "first=300", "--limit", "memory=1000000000")
    for options in ((), more):
        assert run("tune", "jobs.toml", "--trials", "1", "--search", "random", *options) == 0
    with Database("tuning.db") as database:
        found = [state.settings for state in database.jobs().values()]
    assert [settings["tolerance"] for settings in found] == [0.5, 0.5]
    assert sorted(
        (limits["run"], limits["first"], limits["memory"]) for limits in (settings["limits"] for settings in found)
    ) == [(5.0, 300, 1000000000), (7, 120.0, 0)]


def test_a_size_that_a_program_has_not_is_not_nearest(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Database("a.db").close()
    assert run("db", "best", "a.db", f"{folder.name}.py:blur", "--sizes", "q=3") == 1
    assert capsys.readouterr().err == "raido: blur has no size 'q'; its sizes: h, w\n"


def test_a_missing_database_is_not_made(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("db", "list", "absent.db") == 1 and run("db", "merge", "a.db", "absent.db") == 1
    assert capsys.readouterr().err.count("there is no database absent.db") == 2
    assert not (folder / "absent.db").exists()


def test_a_text_that_holds_no_measurements_makes_no_database(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "text").write_text("{}")
    assert run("db", "import", "new.db", "text") == 1 and "holds no measurements" in capsys.readouterr().err
    assert not (folder / "new.db").exists()


def test_ctrl_c_says_how_to_go_on(folder: Path) -> None:
    """As on a terminal: the signal goes to the whole group; no process stays behind, and what was measured is there."""
    command = [
        sys.executable,
        "-m",
        "raido.cli",
        "tune",
        f"{folder.name}.py:blur",
        "--sizes",
        "h=30,w=40",
        "--search",
        "random",
    ]
    job = subprocess.Popen(
        command, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=_heed_signals
    )
    for _ in range(600):
        time.sleep(0.1)
        if (folder / "tuning.db").exists():
            with Database(folder / "tuning.db") as database:
                if len(database.records()) > 3:
                    break
    os.killpg(job.pid, signal.SIGINT)
    _, said = job.communicate(timeout=60)
    assert job.returncode == 130
    assert "trials, which are kept in tuning.db; the same command continues the job" in said and "Traceback" not in said
    assert not [place for place in Path("/proc").glob("[0-9]*") if _group(place) == job.pid]


def _heed_signals() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _group(process: Path) -> int:
    """The process group; 0 for a process that has ended."""
    try:
        state, _, group = (process / "stat").read_text().rpartition(")")[2].split()[:3]
    except OSError:
        return 0
    return 0 if state == "Z" else int(group)


def test_the_live_view_shows_what_matters(dice: None, folder: Path) -> None:
    from rich.console import Console

    seen: list[Progress] = []
    algorithm = rd.algorithm(a="f32[n]")(lambda a: (a + 1).named("out"))
    rd.autotune(algorithm, {"n": 1000}, trials=20, search="random", progress=seen.append)
    assert seen[-1].phase == "done"
    console = Console(width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(render(seen[-1]))
    text = console.export_text()
    for part in ("20 of 20", "failed", "best", "times as fast as the default's", "last"):
        assert part in text
    assert sparkline([8, 8, 4, 1]) == "██▅▂" and len(sparkline([1.0] * 1000)) <= 48
    with live_view(False) as watch:
        assert watch is None


def test_plots_name_trials_by_their_numbers(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        tuning = made_up_job(database, 20).run()
    good = [record.number for record in tuning.history[1:] if record.failure is None]
    assert tuning.failures and good != list(range(len(good)))
    progress, quality, *_ = tuning.plot().axes
    assert list(quality.collections[0].get_array()) == good == list(progress.lines[0].get_xdata())


def test_arrays_of_the_user_are_what_is_run_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tasks: list[local.Task] = []
    monkeypatch.setattr(
        front, "LocalMeasurer", lambda task, builders, ahead: tasks.append(task) or Dice(spares_first=True)
    )
    algorithm = rd.algorithm(a="f32[n]")(lambda a: (a + 1).named("out"))
    x = np.arange(10, dtype=np.float32)
    tuning = rd.autotune(algorithm, (x,), trials=2, db=tmp_path / "a.db", search="random", protocol=QUICK)
    assert tasks[0].inputs.sizes == {"n": 10} and bytes(tasks[0].inputs.blobs[0]) == x.tobytes()
    assert repr(tuning).startswith("<Tuning algorithm on llvm:") and tuning.ended == "trials"
    again = rd.autotune(algorithm, (x,), trials=2, db=tmp_path / "a.db", search="random", protocol=QUICK)
    assert again.records == tuning.records and len(tasks) == 1
    rd.autotune(algorithm, (x + 1,), trials=2, db=tmp_path / "a.db", search="random", protocol=QUICK)
    assert len(tasks) == 2


def test_a_space_of_another_program_is_refused(tmp_path: Path) -> None:
    one = rd.algorithm(a="f32[n]")(lambda a: (a + 1).named("out"))
    other = rd.algorithm(a="f32[n]")(lambda a: (a + 2).named("out"))
    with pytest.raises(rd.ScheduleError, match="the space belongs to another program"):
        rd.autotune(one, {"n": 10}, db=tmp_path / "a.db", space=other.schedule())
    with pytest.raises(rd.ArgumentError, match="trials must be at least 0"):
        rd.autotune(one, {"n": 10}, trials=-1, db=tmp_path / "a.db")
