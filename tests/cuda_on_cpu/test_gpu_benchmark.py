"""The benchmark command for machines with a GPU, at tiny sizes over the driver without one: every part, its results and its table."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_driver import load_driver
from twin_compiler import twin_compiler

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "benchmarks"))

import gpu
import gpu_programs
import gpu_ranking
import gpu_sides
import gpu_steps
import gpu_tuner
import store
from rows.gpu import PEERS, SHORT_NAMES
from typer.testing import CliRunner

import raido as rd
from raido.algo.errors import TargetError
from raido.targets.cuda.nvrtc import compile_source
from raido.targets.cuda.opened import open_device

BENCHMARKS = str(Path(gpu.__file__).parent)
ROWS = ("copy", "jacobi2d_5")


class Imagined:
    """An array of a library that can copy it, and no more."""

    def __init__(self, array: rd.DeviceArray) -> None:
        self.array = array

    def copy(self) -> rd.DeviceArray:
        return rd.device_array(self.array, "cuda")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The programs, compiled for the driver."""
    made = tmp_path_factory.mktemp("gpu")
    with twin_compiler(load_driver()) as compiler, pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_programs, "make_kernels", compiler.make_kernels)
        patch.setattr(gpu_programs, "version", lambda: "none")
        patch.setattr(gpu_ranking, "CANDIDATES", 6)
        patch.setattr(gpu_tuner, "OPTIONS", {"rows": [8, 16], "own": [1, 2], "columns": [32]})
        patch.setattr(gpu_tuner, "TRIALS", 3)
        gpu_programs.prepare(made, "sm_90", range(1, 2), ROWS, 2, lambda said: None)
        compiler.build()
        yield made
    open_device().close()


def test_everything_is_run_and_kept(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imagined", SimpleNamespace(from_dlpack=Imagined))
    libraries = {
        name: gpu_sides.Library(module, lambda module: 0)
        for name, module in (("CuPy", "imagined"), ("PyTorch", "nowhere"))
    }
    monkeypatch.setattr(gpu_sides, "LIBRARIES", libraries)
    monkeypatch.setattr(gpu_sides, "to_cpu", lambda array: array.to("cpu"))
    sanitizer = tmp_path / "compute-sanitizer"
    sanitizer.write_text('#!/bin/sh\necho "========= ERROR SUMMARY: 0 errors"\n')
    sanitizer.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    out = tmp_path / "results.json"
    arguments = [f"--folder={folder}", f"--out={out}", "--scale=50000", "--samples=2", "--budget=600", "--here"]
    done = CliRunner().invoke(app(), arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    ((name, found),) = json.loads(out.read_text()).items()
    assert name == "Imagined GPU 0" and found["compiled for"] == "sm_90"
    assert found["corpus"] == {"programs": 2, "wrong": []} and found["law"] == {"programs": 1, "wrong": []}
    assert found["sanitizer"] == dict.fromkeys(("memcheck", "racecheck"), "ERROR SUMMARY: 0 errors")
    rows = found["table"]
    assert [list(row["seconds"]) for row in rows.values()] == [
        ["raido", gpu.COPY, gpu.BY_HAND, "CuPy"],
        ["raido", "raido, in shared memory", gpu.COPY, gpu.BY_HAND, gpu.TILED],
    ]
    (ranked,) = found["ranking"].values()
    assert len(ranked["candidates"]) + len(ranked["refused"]) == 6 and len(ranked["candidates"]) > 3
    assert all(each["seconds"] > 0 and each["features"] for each in ranked["candidates"])
    assert -1 <= ranked["rank correlation"] <= 1
    (tuned,) = found["tuner"].values()
    assert tuned["candidates"] == 5 and tuned["best / default"] > 0
    kinds = [each["kind"] for each in tuned["records"]]
    assert kinds.count("default") == 1 and kinds.count("trial") == 3 and kinds.count("final") >= 2
    assert all(len(each["seconds"]) == gpu_tuner.RUNS and not each["failure"] for each in tuned["records"])
    (scaled,) = found["cpu"].values()
    assert "1" in scaled["seconds"] and "1.0 × on 1" in gpu.scaling(found["cpu"])
    assert all(seconds > 0 for row in rows.values() for seconds in row["seconds"].values())
    assert all("Vulkan" in row["absent"] for row in rows.values())
    assert "No module named 'nowhere'" in rows["copy"]["absent"]["PyTorch"]
    text = gpu.table(rows)
    assert text.splitlines()[0].startswith("| row | raido, ms | GB/s | of a copy | raido / CUDA by hand |")
    assert "raido, in shared memory: " in text.splitlines()[-1]
    assert len(text.splitlines()) == 4 and "| copy of 10⁸ f32 |" in text


def test_what_is_wrong_is_said(folder: Path) -> None:
    corpus = gpu_programs.read_part(folder, "corpus")
    wrong = gpu_programs.Checked("wrong", corpus[1].executable, corpus[1].arguments, corpus[1].want + 1, (True,))
    assert gpu.corpus_fault(corpus[0]) == "" and gpu.corpus_fault(wrong).startswith("AssertionError")
    law = gpu_programs.read_part(folder, "law")[0]
    other = gpu_programs.Checked("other", law.executable, law.arguments, ValueError, law.exact)
    assert "expected ValueError" in gpu.law_fault(other)
    found = gpu.gathered("law", gpu.gathered("law", None, "one", ""), "other", {"wrong": "TargetError: lost"})
    assert found == {"programs": 2, "wrong": [{"program": "other", "fault": "TargetError: lost"}]}
    text = gpu.table({"sum": {"wrong": "raido: 3 of 9 results are wrong"}})
    assert "| raido: 3 of 9 results are wrong |" in text


def test_a_side_that_fails_does_not_take_the_row_with_it(folder: Path) -> None:
    code = gpu_programs.read_part(folder, "table")["copy"]
    row = replace(gpu_programs.GPU_ROWS["copy"], cupy=None, torch=None, schedules={})
    found = gpu_sides.run_row(row, replace(code, by_hand={}), open_device(), 50000, 1)
    assert list(found["seconds"]) == ["raido", gpu.COPY] and gpu.BY_HAND in found["absent"]
    lost = gpu_sides.run_row(row, replace(code, executable=None), open_device(), 50000, 1)
    assert lost["wrong"] == lost["absent"]["raido"] and lost["seconds"][gpu.COPY] > 0


def test_a_side_that_fails_late_leaves_the_others_and_slow_ones_have_few_samples(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def side(name: str, seconds: float, good: int = 99) -> Any:
        def clock(number: int) -> float:
            calls.append(name)
            if calls.count(name) > good:
                raise RuntimeError(f"{name} is lost")
            return seconds * number

        return name, lambda: clock

    sides = [side("raido", 1e-3), side("CuPy", 1e-3, 2), side("PyTorch", 3.0)]
    monkeypatch.setattr(gpu_sides, "sides_of", lambda *of: iter(sides))
    told: list[Any] = []
    found = gpu_sides.run_row(
        gpu_programs.GPU_ROWS["copy"], None, None, 1 << 20, 5, lambda f: told.append(json.dumps(f))
    )  # type: ignore[arg-type]
    assert found["seconds"] == {"raido": pytest.approx(1e-3), "PyTorch": 3.0}
    assert found["absent"] == {"CuPy": "RuntimeError: CuPy is lost"} and calls.count("PyTorch") == 1 + 2
    assert json.loads(told[0])["seconds"] == {"raido": 1e-3} and len(told) == 3 + 5


@pytest.mark.parametrize("name", ["nbody", "black_scholes", "mandelbrot"])
def test_kernels_that_cupy_compiles_are_cuda_c(name: str) -> None:
    try:
        found = compile_source(SHORT_NAMES + (PEERS / "cuda" / f"{name}.cu").read_text("utf-8"), "sm_90")
    except TargetError as error:
        pytest.skip(str(error))
    assert found.resources[name].spill_bytes == 0


STEPS = """
import os, sys, time
sys.path.append(BENCHMARKS)
from gpu_steps import Step, tell, tell_so_far, tell_steps

def fail():
    raise ValueError("lost")

tell({"about": "here"})
print("a library says something")
print("and no line ends here; ", end="")
tell_steps(
    [
        Step("fine", lambda: 1),
        Step("fails", fail),
        Step("hangs", lambda: time.sleep(60)),
        Step("hangs late", lambda: (tell_so_far({"seconds": 1}), time.sleep(60))),
        Step("dies", lambda: os._exit(3)),
        Step("last", lambda: 2),
    ],
    int(sys.argv[1]),
)
"""


def test_a_step_that_hangs_or_dies_costs_itself_alone() -> None:
    text = STEPS.replace("BENCHMARKS", repr(BENCHMARKS))
    command = lambda begin: [sys.executable, "-c", text, str(begin)]
    told = [m for m in gpu_steps.follow(command, 5.0, time.monotonic() + 400) if "name" in m]
    assert {m["name"]: m["found"] for m in told} == {
        "fine": 1,
        "fails": {"wrong": "ValueError: lost"},
        "hangs": {"wrong": "no answer within 5 s"},
        "hangs late": {"seconds": 1, "unfinished": "no answer within 5 s"},
        "dies": {"wrong": "the process ended with status 3"},
        "last": 2,
    }
    assert len(told) == 6


def test_a_step_that_fails_behind_others_is_repeated_by_a_process_of_its_own() -> None:
    """As a device that an earlier one has lost is lost for all."""
    text = """
import sys
from gpu_steps import Step, tell_steps
lost = []
def use():
    assert not lost
    return "right"
tell_steps([Step("loses it", lambda: lost.append(1)), Step("uses it", use)], int(sys.argv[1]))
"""
    command = lambda begin: [sys.executable, "-c", f"import sys; sys.path.append({BENCHMARKS!r})" + text, str(begin)]
    told = [m for m in gpu_steps.follow(command, 10.0, time.monotonic() + 400) if "name" in m]
    assert told == [{"name": "loses it", "found": None}, {"name": "uses it", "found": "right"}]


def test_results_that_no_row_has_do_not_end_the_table(tmp_path: Path) -> None:
    assert "| the process | no device |" in gpu.table({"": {"wrong": "no device"}})
    assert gpu.scaling({"": {"wrong": "no device"}}).endswith(": no device\n")
    late = {"bytes": 8, "seconds": {"raido": 1.0}, "absent": {}, "unfinished": "no answer within 90 s"}
    assert "| then no answer within 90 s |" in gpu.table({"copy": late})
    file = tmp_path / "rows.json"
    store.write_rows(file, {"a": 1})
    with pytest.raises(TypeError):
        store.write_rows(file, {"a": open})
    assert store.read_rows(file) == {"a": 1}


def test_steps_end_with_the_time_and_with_a_process_that_cannot_begin() -> None:
    hangs = lambda begin: [sys.executable, "-c", "import time; time.sleep(60)"]
    (late,) = gpu_steps.follow(hangs, 60.0, time.monotonic() + 0.5)
    assert late == {"name": "", "found": {"wrong": "no time was left"}}
    fails = lambda begin: [sys.executable, "-c", "raise SystemExit('no device')"]
    (failed,) = gpu_steps.follow(fails, 60.0, time.monotonic() + 60)
    assert failed["found"]["wrong"] == "the process ended with status 1: no device"


def test_a_part_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"gpu\.py --prepare. where TVM and NVRTC are"):
        gpu_programs.read_part(tmp_path, "law")
    done = CliRunner().invoke(app(), ["--only=speed"])
    assert str(done.exception or done.output).startswith("no such part: speed") or "no such part" in done.output


def app() -> Any:
    import typer

    found = typer.Typer(add_completion=False)
    found.command()(gpu.main)
    return found
