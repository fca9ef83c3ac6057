"""Bad requests to tune: each is one clear error, raised before anything is compiled or measured."""

from __future__ import annotations

import inspect
import pydoc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.cli import main

SIZES = {"h": 4, "w": 4}
IMAGE = np.zeros((4, 4), "f4")


@rd.algorithm
def blur(img: rd.f32["h", "w"]):
    return rd.stencil(lambda p: p[0, -1] + p[0, 1], img, boundary="clamp", name="rows")


@rd.algorithm
def untyped(a, b):
    return a + b


REQUESTS: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "no algorithm": (3, SIZES, {}, "rd.autotune takes an algorithm, made by @rd.algorithm, not 3"),
    "no types": (untyped, SIZES, {}, "the type of 'a' is not declared"),
    "a size too few": (blur, {"h": 4}, {}, "blur needs the size 'w'; its sizes: h, w"),
    "a size too many": (blur, {**SIZES, "z": 3}, {}, "blur has no size 'z'; its sizes: h, w"),
    "a size that is no number": (blur, {"h": 4.5, "w": 4}, {}, "the size h is a whole number, not 4.5"),
    "a negative size": (blur, {"h": -4, "w": 4}, {}, "the size h is a whole number, not -4"),
    "sizes as a text": (blur, "h=4,w=4", {}, 'sizes are written {"h": 480, "w": 640}, not \'h=4,w=4\''),
    "an array of another rank": (blur, (IMAGE[0],), {}, 'argument "img" must be f32[h, w]'),
    "arrays too many": (blur, (IMAGE, IMAGE), {}, "blur takes 1 argument (img), not 2"),
    "trials below 0": (blur, SIZES, {"trials": -1}, "trials must be at least 0, a whole number, not -1"),
    "trials as a text": (blur, SIZES, {"trials": "9"}, "trials must be at least 0, a whole number, not '9'"),
    "no minutes": (blur, SIZES, {"minutes": 0}, "minutes must be more than 0, not 0"),
    "minutes that are no number": (blur, SIZES, {"minutes": float("nan")}, "minutes must be more than 0, not nan"),
    "a seed as a text": (blur, SIZES, {"seed": "x"}, "seed must be at least 0, a whole number, not 'x'"),
    "a seed below 0": (blur, SIZES, {"seed": -1}, "seed must be at least 0, a whole number, not -1"),
    "a tolerance below 0": (
        blur,
        SIZES,
        {"tolerance": -1},
        "tolerance must be a number from 0 on, such as 1e-3, not -1",
    ),
    "builders below 0": (blur, SIZES, {"builders": -2}, "builders must be at least 0, a whole number, not -2"),
    "workers as a number": (blur, SIZES, {"workers": 4}, "the address of a dask scheduler"),
    "limits that are a number": (blur, SIZES, {"limits": 9}, 'limits is a table, such as {"compile": 1}, not 9'),
    "a limit that is none": (blur, SIZES, {"limits": {"ram": 9}}, "limits has no key 'ram'; its keys are compile, run"),
    "a limit as a text": (
        blur,
        SIZES,
        {"protocol": {"runs": "9"}},
        "protocol: runs must be at least 0, a whole number",
    ),
    "like as a number": (blur, SIZES, {"like": 9}, "like is a sequence of arguments, as for compile, not 9"),
    "another search": (blur, SIZES, {"search": "luck"}, "search='luck' is unknown; the searches are model"),
    "another target": (blur, SIZES, {"target": "abacus"}, 'unknown target "abacus"'),
    "a device that is not here": (blur, SIZES, {"target": "vulkan:any"}, "cannot run code for vulkan:any"),
    "a range of nothing": (blur, SIZES, {"ranges": {"z": (0, 1)}}, "blur has no array 'z'; it has img"),
    "a range that is none": (blur, SIZES, {"ranges": {"img": 3}}, "the range of img is 3: write ranges="),
    "ranges as a list": (blur, SIZES, {"ranges": ["img"]}, 'ranges is a table by name, such as {"img": (0, 10)}'),
    "a range without end": (
        blur,
        SIZES,
        {"ranges": {"img": (0, float("inf"))}},
        "the range of img is from 0 below inf",
    ),
    "ranges of given arrays": (
        blur,
        (IMAGE,),
        {"ranges": {"img": (0, 1)}},
        "the arrays are given: leave `ranges` out",
    ),
    "a database that is a number": (blur, SIZES, {"db": 3}, "the database is a path, not 3"),
    "a database that is a folder": (blur, SIZES, {"db": "."}, ". cannot be used as a database"),
    "a database nowhere": (blur, SIZES, {"db": "no/where.db"}, "there is no folder no"),
    "a database of something else": (blur, SIZES, {"db": "jobs.toml"}, "jobs.toml cannot be used as a database"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.toml").write_text("this is no database, and no job file either")
    return tmp_path


@pytest.mark.parametrize("name", REQUESTS)
def test_a_wrong_request_is_one_clear_error(name: str, folder: Path) -> None:
    algorithm, what, options, words = REQUESTS[name]
    with pytest.raises(rd.RaidoError) as caught:
        rd.autotune(algorithm, what, **{"trials": 1, "db": "tuning.db", **options})
    assert words in str(caught.value)


def test_a_processor_that_is_not_here_measures_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rd.Target, "runs_here", False)
    with pytest.raises(rd.TargetError, match="this machine cannot run code for llvm:"):
        rd.autotune(blur, SIZES, trials=1)
    assert rd.autotune(blur, SIZES, trials=0, search="random").tuned == blur.schedule().complete(sizes=SIZES)


def test_what_is_said_of_a_call_is_shown_where_a_user_looks() -> None:
    assert list(inspect.signature(rd.autotune).parameters)[:4] == ["algorithm", "inputs_or_sizes", "target", "trials"]
    shown = pydoc.render_doc(rd.autotune, renderer=pydoc.plaintext)
    for name in inspect.signature(rd.autotune).parameters:
        assert f"{name}:" in shown or name in ("algorithm", "target", "like", "static"), name


JOBS = {
    "no program": ("program = 3", "job 1: `program` is missing"),
    "sizes that are a number": ("sizes = 3", "job 1: `sizes` and `set` are tables"),
    "a database that is a number": ("db = 3", "job 1: `db` is a path, not 3"),
    "a space that is a number": (
        "space = 3",
        "job 1: `space` is a function of the program's file, or a schedule in JSON, not 3",
    ),
    "inputs that are no list": ("inputs = 3", "job 1: `inputs` is a list of paths, not 3"),
    "inputs that are no paths": ("inputs = [3]", "job 1: `inputs` is a list of paths, not [3]"),
    "ranges that are no table": ("ranges = 3", "job 1: `ranges` is a table, not 3"),
    "limits that are no table": ("limits = 3", "job 1: `limits` is a table, not 3"),
    "trials that are true": ("trials = true", "job 1: `trials` is a whole number, not True"),
    "minutes that are a list": ("minutes = [1]", "job 1: `minutes` is a number, not [1]"),
    "a program without an algorithm": ('program = "blur.py"', "job 1: 'blur.py' does not name an algorithm"),
    "no sizes at all": ("sizes = []", "job 1: `sizes` is an empty list"),
    "sizes and inputs": ('sizes = {h = 3}\ninputs = ["a.npy"]', "`sizes` and `inputs` both say what to run on"),
    "a key that is none": ("speed = 9", "job 1: there is no `speed`"),
}


@pytest.mark.parametrize("name", JOBS)
def test_a_wrong_job_is_one_line(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, words = JOBS[name]
    program = "" if text.startswith("program") else 'program = "blur.py:blur"\n'
    (folder / "jobs.toml").write_text(f"[[job]]\n{program}{text}\n")
    with pytest.raises(SystemExit) as stop:
        main(["tune", "jobs.toml"])
    said = capsys.readouterr().err.strip()
    assert stop.value.code == 1 and words in said and len(said.splitlines()) == 1


def test_a_static_parameter_with_the_name_of_an_option_is_fixed_first(tmp_path) -> None:
    @rd.algorithm
    def noisy(x: rd.f32["n"], *, seed=1):
        return x * seed

    with pytest.raises(rd.ArgumentError, match="'seed' is a static parameter of noisy and an option"):
        rd.autotune(noisy, {"n": 4}, trials=0, db=tmp_path / "t.db", seed=3)
    assert rd.autotune(rd.capture(noisy, seed=3), {"n": 4}, trials=0, db=tmp_path / "t.db", seed=3).best is not None
