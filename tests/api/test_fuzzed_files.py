"""Every kind of file that raido reads, damaged in a thousand ways: each is one clear error of the right class, or is read.

`python tests/api/test_fuzzed_files.py --cases 20000 [DOOR…]` is the long run; it prints the seed of every file with another outcome.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import io
import os
import random
import signal
import sqlite3
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
from mutations import JUNK, json_text, mutated, mutated_bytes, mutated_text, mutated_value

import raido as rd
from raido.autotune.model.cost_model import SHIPPED, CostModel
from raido.autotune.records.database import Database, JobState
from raido.autotune.records.exchange import export, merge, read_text
from raido.autotune.records.lookup import best_schedule
from raido.autotune.records.record import COLUMNS, Record
from raido.cli import main
from raido.files import read_array
from raido.job_file import read_job_file
from raido.locate import load_module
from raido.targets.cache import Cache, key_of
from raido.targets.compile import Compilation
from raido.targets.signature import Signature
from raido.targets.target import Target

_LIMIT = 60  # seconds that one file may take, on a machine that has other work too


@rd.algorithm
def blur(img: rd.f32["h", "w"]):
    rows = rd.stencil(lambda p: p[0, -1] + p[0, 0] + p[0, 1], img, boundary="clamp", name="rows")
    return rd.stencil(lambda p: p[-1, 0] + p[0, 0] + p[1, 0], rows, boundary="clamp", name="cols")


@rd.algorithm
def running(x: rd.f32["n"]):
    return rd.scan(rd.add, 0.0, x, name="run"), rd.filter(lambda v: v > 0, x, name="kept")


@rd.algorithm
def product(a: rd.f32["n", "k"], b: rd.f32["k", "m"]):
    return (a @ b).named("c")


@functools.cache
def schedules() -> list[tuple[Any, Any]]:
    """Algorithms with the documents of schedules of theirs that hold every kind of step."""
    import json

    plain = blur.schedule()
    plain["cols"].tile(y=32, x=64).parallel("yo").vectorize("xi").partition_boundaries()
    plain["rows"].compute_at("cols", "yo").vectorize("x", 8)
    open_ = blur.schedule()
    open_["cols"].split("y", rd.choose("ty", [8, 16]), names=("a", "b")).reorder("b", "a")
    open_.choose("place", at=lambda s: s["rows"].compute_at("cols", "x"), root=lambda s: s["rows"].root())
    branched = blur.schedule()
    branched["rows"].inline()
    branch = branched.when("w % 16 == 0 and h > 64")
    branch["cols"].vectorize("x")
    scans = running.schedule()
    scans["run"].strategy("three_phase").part("totals").vectorize("xi")
    scans["kept"].strategy("count_write")
    packed = product.schedule()
    packed["c"].tile(y=8, x=16)
    packed["c"].cache("b", "c", None, layout=("xo", "r", "xi"))
    pairs = [(blur, plain), (blur, open_), (blur, branched), (running, scans), (product, packed)]
    return [(algorithm, json.loads(schedule.to_json())) for algorithm, schedule in pairs]


RECORD = Record(
    program="p" * 64, name="blur", sizes={"h": 480, "w": 640}, dtypes=("float32",), target="llvm:znver4", machine="here",
    host={"model": "some processor", "cores": 2}, job="j1", number=0, kind="final", key="k1", schedule="{}",
    seconds=(0.1, 0.2, 1 / 3), features=(0.5, -1.25), features_version=2, predicted=0.125, versions={"raido": "0.1.0"}, at=1.0,
)  # fmt: skip
JOBS = {
    "db": "tuning.db",
    "trials": 5,
    "limits": {"run": 2.5},
    "job": [
        {"program": "a.py:blur", "sizes": [{"h": 4, "w": 5}], "set": {"by": 2}, "target": "llvm", "seed": 3},
        {"program": "a.py:blur", "inputs": ["a.npy"], "minutes": 1.5, "search": "random", "ranges": {"img": [0, 1]}},
    ],
}
PROGRAM = """
import raido as rd

@rd.algorithm
def blur(img: rd.f32["h", "w"], *, by=3):
    return rd.stencil(lambda p: (p[0, -1] + p[0, 0] + p[0, 1]) / by, img, boundary="clamp", name="rows")

def wide(algorithm):
    return algorithm.schedule()
"""


def toml_text(value: Any) -> str:
    """A job file of anything in TOML, or nearly."""
    if not isinstance(value, dict):
        return f"job = {_inline(value)}"
    rest = {k: v for k, v in value.items() if k != "job"}
    lines = [f"{_inline(str(k)) if not str(k).isidentifier() else k} = {_inline(v)}" for k, v in rest.items()]
    jobs = value.get("job", [])
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        return "\n".join([*lines, f"job = {_inline(jobs)}"])
    for job in jobs:
        lines += [
            "[[job]]",
            *(f"{_inline(str(k)) if not str(k).isidentifier() else k} = {_inline(v)}" for k, v in job.items()),
        ]
    return "\n".join(lines)


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_inline(str(k))} = {_inline(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return (
        "1979-05-27T07:32:00"
        if value is None
        else json_text(value).lower()
        if isinstance(value, float)
        else json_text(value)
    )


# --- doors: each reads one damaged file, and raises whatever raido does


_TESTS = (
    *(
        "",
        "w",
        "w > 1" + " and w > 1" * 3000,
        "w" + "+1" * 3000 + " > 1",
        "not " * 500 + "w > 1",
        "w < 1 < " * 300 + "2",
    ),
    *(
        "(" * 90 + "w" + ")" * 90 + " > 1",
        "-" * 400 + "w > 1",
        "w in h",
        "q > 1",
        "w > 99999999999999999999",
        "w > " + "9" * 3000,
    ),
    *(
        "lambda: 1",
        "f(w) > 1",
        "w % 0 == 1",
        "w // h > 1",
        "w > 1 or not (h == 2)",
        "w == True",
        "w > 1; h",
        "\x00",
        "w ** h > 1",
    ),
)


def schedule_file(rng: random.Random, folder: Path) -> None:
    algorithm, document = rng.choice(schedules())
    if rng.random() < 0.2:  # the one text in a schedule that is a language of its own
        algorithm, document = schedules()[2][0], copy.deepcopy(schedules()[2][1])
        for step in document["steps"]:
            if step["do"] == "when":
                step["branches"][0][0] = rng.choice((mutated_text("w % 16 == 0 and h > 64", rng), *_TESTS))
    text = mutated(document, rng).decode("utf-8", rng.choice(("replace", "surrogateescape", "ignore")))
    with expected(rd.ScheduleError):
        made = rd.Schedule.from_json(text, algorithm)
        assert rd.Schedule.from_json(made.to_json(), algorithm) == made
        str(made), repr(made), made.holes
        if not made.holes:
            made.complete().nest_text()


def job_file(rng: random.Random, folder: Path) -> None:
    kind = rng.choice((".toml", ".json"))
    path = folder / f"jobs{kind}"
    path.write_bytes(mutated(JOBS, rng, toml_text if kind == ".toml" else json_text))
    with expected(rd.ArgumentError, f"jobs{kind}"):
        read_job_file(path, {"trials": 2})


def text_of_measurements(rng: random.Random, folder: Path) -> None:
    path = folder / "a.jsonl"
    with Database(folder / "good.db") as database:
        database.add(RECORD)
        export(database, path)
    head, line = path.read_bytes().splitlines()
    import json

    path.write_bytes(head + b"\n" + line + b"\n" + mutated({**json.loads(line), "id": "other"}, rng) + b"\n")
    with expected(rd.TuningError, "a.jsonl"):
        found = read_text(path)
        with Database(folder / "b.db") as database:
            database.add_all(found)
            assert len(database.records()) == len({each.id for each in found})
        list_database(folder / "b.db")


def rows_of_a_database(rng: random.Random, folder: Path) -> None:
    path = database_file(folder)
    connection = sqlite3.connect(path, isolation_level=None)
    for _ in range(rng.choice((1, 2, 5))):
        table, names = rng.choice((("measurements", COLUMNS), ("jobs", ("id", "settings", "spent", "ended"))))
        value = rng.choice(JUNK)
        with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
            text = json_text(value) if isinstance(value, (list, dict)) or rng.random() < 0.3 else value
            which = rng.choice(("1", "rowid % 2 = 0", "rowid = 3"))
            connection.execute(f"UPDATE {table} SET {rng.choice(names)} = ? WHERE {which}", (text,))
    connection.close()
    read_database(path)


def bytes_of_a_database(rng: random.Random, folder: Path) -> None:
    path = database_file(folder)
    path.write_bytes(mutated_bytes(path.read_bytes(), rng))
    read_database(path)


def database_file(folder: Path) -> Path:
    from dataclasses import replace

    path = folder / "a.db"
    with Database(path) as database:
        kinds = ("default", "trial", "trial", "final", "final", "final")
        database.add_all(
            replace(RECORD, id=str(k), number=k % 3, kind=kind, at=float(k // 3)) for k, kind in enumerate(kinds)
        )
        database.set_job("j1", JobState({"trials": 5}, 2.5, "trials"))
    return path


def read_database(path: Path) -> None:
    with expected(rd.TuningError, "a.db"), Database(path, create=False) as database:
        database.records(), database.jobs(), database.job("j1")
    list_database(path)
    with expected(rd.TuningError, "a.db"):
        merge(path.with_name("new.db"), [path])
    list_database(path.with_name("new.db"))
    with expected(rd.TuningError, "a.db"):
        best_schedule(path, blur.schedule().graph, Target())


def list_database(path: Path) -> None:
    command("db", "list", str(path))


def cached_program(rng: random.Random, folder: Path) -> None:
    cache, key = Cache(folder / "cache"), key_of("a")
    cache.put(
        key, b"object" * 50, {"name": "blur", "sizes": {"h": 3}, "steps": 2, "target": "llvm", "source": "a.py:3"}
    )
    (path,) = (folder / "cache").rglob("*.entry")
    if rng.random() < 0.5:
        path.write_bytes(mutated_bytes(path.read_bytes(), rng))
    else:
        value = mutated_value(
            {"name": "blur", "sizes": {"h": 3}, "steps": 2, "target": "llvm", "source": "a.py:3"}, rng
        )
        with contextlib.suppress(UnicodeEncodeError):
            cache.put(key, b"object", value)
    os.environ["RAIDO_CACHE_DIR"] = str(folder / "cache")
    command("cache", "show")
    cache.describe(key), cache.get(key), cache.put(key, b"new", {})
    assert cache.get(key) == (b"new", {})


def signature(rng: random.Random, folder: Path) -> None:
    import json

    text = Compilation(running.trace(), Target(), None, {}).signature.to_json()
    with expected(rd.TargetError):
        Signature.from_json(mutated(json.loads(text), rng).decode("utf-8", "replace"))


def cost_model(rng: random.Random, folder: Path) -> None:
    import json
    import shutil

    for path in SHIPPED.iterdir():
        shutil.copy(path, folder / path.name)
    if rng.random() < 0.8:
        (folder / "model.json").write_bytes(mutated(json.loads((SHIPPED / "model.json").read_text()), rng))
    else:
        path = rng.choice(sorted(folder.glob("member_*")))
        path.write_bytes(mutated_bytes(path.read_bytes(), rng))
    with expected(rd.TuningError, str(folder)):
        CostModel.load(folder)


def array(rng: random.Random, folder: Path) -> None:
    path = folder / f"a{rng.choice(('.npy', '.png', '.jpg', '.tif', '.bmp', '.gif', '.ppm'))}"
    if path.suffix == ".npy":
        np.save(path, np.arange(12).reshape(3, 4).astype(rng.choice(("f4", "i8", "c8", "?"))))
    else:
        from PIL import Image

        Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(path)
    path.write_bytes(mutated_bytes(path.read_bytes(), rng))
    kind = rng.choice((rd.f32["h", "w"], rd.u8["h", "w", 3], rd.f32[3, "h", "w"], rd.i32["n"], rd.complex64["h", "w"]))
    with expected(rd.ArgumentError, path.name):
        assert isinstance(read_array(str(path), "img", kind), np.ndarray)


def python_file(rng: random.Random, folder: Path) -> None:
    path = folder / f"fuzzed_{rng.randrange(10**9)}.py"
    text = mutated_text(PROGRAM, rng)
    if "import raido" not in text and "import" in text:
        return  # it could import anything
    data = text.encode("utf-8", "surrogatepass")
    path.write_bytes(mutated_bytes(data, rng) if rng.random() < 0.3 else data)
    with expected(rd.RaidoError):
        load_module(path)
    command("show", f"{path}:blur", "--as", "schedule", of_users=True)


_WORDS = (
    *(
        "",
        "x",
        "h=4,w=5",
        "h=²",
        "h=99999999999999999999",
        "h=-1",
        "=",
        ",",
        "nan",
        "inf",
        "-1",
        "0",
        "1e400",
        "9" * 5000,
    ),
    *(
        "by=" + "(" * 500,
        "by=[1,2]",
        "by='\\ud800'",
        "by=nan",
        "out=3",
        "llvm:none",
        "cuda",
        "a\x00b",
        "\udcff",
        "\x1b[2J",
    ),
    *(
        "/",
        "/dev/null",
        "/dev/zero",
        "/proc/self/mem",
        "{folder}",
        "{folder}/pipe",
        "{folder}/none/x",
        "{folder}/loop",
        "{folder}/a.npy",
    ),
    *(
        "{program}",
        "{program}:blur",
        "{program}:none",
        "{folder}/jobs.toml",
        "{folder}/a.db",
        "{folder}/s.json",
        "{folder}/new.json",
    ),
    *(
        "img=0:1",
        "img=1:0",
        "img=h:",
        "run=5",
        "run=nan",
        "bad=1",
        "run=-1",
        "tcp://localhost:1",
        "1d",
        "1e9d",
        "5000000000000w",
    ),
)
_COMMANDS = (
    ("show", "{program}:blur"), ("show", "{program}:blur", "--as", "schedule"), ("db", "list"),
    ("db", "best", "{folder}/a.db", "{program}:blur"),
    ("db", "merge", "{folder}/b.db"), ("db", "export", "{folder}/a.db"), ("db", "import", "{folder}/b.db"), ("cache", "show"),
    ("cache", "clear", "--older", "1d"), ("targets",), ("tune", "{program}:blur", "--trials", "0"), ("run", "{program}:blur", "-i"), ("tune",),
    ("show", "{program}:blur", "--schedule"), ("build", "{program}:none", "-o"),
)  # fmt: skip
_OPTIONS = (
    *(
        "--sizes",
        "--set",
        "--target",
        "--schedule",
        "--db",
        "--as",
        "--html",
        "-i",
        "-o",
        "--older",
        "--trials",
        "--minutes",
        "--seed",
    ),
    *("--space", "--search", "--range", "--limit", "--tolerance", "--plot", "--repeat", "--json", "--full", "--output"),
)


def command_line(rng: random.Random, folder: Path) -> None:
    database_file(folder)
    (folder / "p.py").write_text(PROGRAM)
    (folder / "jobs.toml").write_bytes(mutated(JOBS, rng, toml_text))
    (folder / "s.json").write_bytes(mutated(rng.choice(schedules())[1], rng))
    np.save(folder / "a.npy", np.zeros((3, 4), "f"))
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    words = list(rng.choice(_COMMANDS))
    words += [rng.choice(_WORDS if rng.random() < 0.6 else _OPTIONS) for _ in range(rng.choice((0, 1, 1, 2, 4)))]
    if words[0] == "tune" and "--trials" not in words:
        words += ["--trials", "0"]
    os.environ["RAIDO_CACHE_DIR"] = str(folder / "cache")
    with contextlib.chdir(folder) if sys.version_info >= (3, 11) else contextlib.nullcontext():
        command(*(w.replace("{folder}", str(folder)).replace("{program}", str(folder / "p.py")) for w in words))


def command(*words: str, of_users: bool = False) -> None:
    """A command gives an answer, or an exit status and one line; of an error of the user's own program, its kind is part of that."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(words))
        except SystemExit as stop:
            status = int(stop.code or 0)
    text = err.getvalue()
    lines = [line for line in text.splitlines() if line.strip()]
    assert status in (0, 1, 2), (words, status, text)
    if status == 1:
        assert lines and lines[-1].startswith("raido: "), (words, text)
        internal = (
            "KeyError",
            "AssertionError",
            "AttributeError",
            "TypeError",
            "IndexError",
            "RecursionError",
            "OverflowError",
        )
        named = lines[-1].removeprefix("raido: ").partition(":")[0]
        assert of_users or named not in (
            *internal,
            "ValueError",
            "UnicodeDecodeError",
            "UnicodeEncodeError",
            "OSError",
        ), (
            words,
            text,
        )
    shown = out.getvalue() + text
    assert not any(c in shown for c in "\x1b\x00\x07\u202e\ud800\x9b"), (words, shown)


DOORS: dict[str, Callable[[random.Random, Path], None]] = {
    door.__name__: door
    for door in (
        *(
            schedule_file,
            job_file,
            text_of_measurements,
            rows_of_a_database,
            bytes_of_a_database,
            cached_program,
            signature,
        ),
        *(cost_model, array, python_file, command_line),
    )
}


@contextlib.contextmanager
def expected(kind: type[Exception], names: str = "") -> Iterator[None]:
    """One error of a kind, which names the file, or none."""
    try:
        yield
    except kind as error:
        text = str(error)
        assert text.strip() and names in text and len(text) < 4000, text[:5000]
        text.encode()


class Late(BaseException):
    """A file took longer than any should."""


def _late(*_: object) -> None:
    raise Late


def try_case(door: str, seed: int) -> str | None:
    """What was wrong with the answer to one damaged file."""
    before = os.environ.get("RAIDO_CACHE_DIR")
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(_LIMIT)
    try:
        with tempfile.TemporaryDirectory() as folder:
            DOORS[door](random.Random(f"{door} {seed}"), Path(folder))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{door} {seed}: {''.join(traceback.format_exception(error)[-4:])[:6000]}"
    finally:
        signal.alarm(0)
        os.environ.pop("RAIDO_CACHE_DIR", None)
        if before is not None:
            os.environ["RAIDO_CACHE_DIR"] = before
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("door", DOORS)
def test_a_damaged_file_is_one_clear_error(door: str) -> None:
    for seed in range(15):
        wrong = try_case(door, seed)
        assert wrong is None, wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("doors", nargs="*", default=list(DOORS))
    options = parser.parse_args()
    for each in options.doors:
        count = 0
        for number in range(options.first, options.first + options.cases):
            found = try_case(each, number)
            if found:
                count += 1
                print(found, flush=True)
        print(f"{each}: {options.cases} files, {count} answered wrongly", flush=True)
