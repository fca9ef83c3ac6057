"""Eight hundred random programs in NumPy's language give NumPy's results; one in eight of them compiled too."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raido as rd
from numpy_law import near
from numpy_law.law import Broken, check, draw, hold
from numpy_law.writer import build

PROGRAMS, GROUPS, COMPILED = 500, 20, 8
HERE = Path(__file__).resolve().parent
GRAMMAR = ("elementwise", "reductions", "indexing", "moves", "stencils")
# names that NumPy has for other things, that make arrays of nothing, or that are dtypes; `angle` is not exact
NOT_DRAWN = {
    "array",
    "choose",
    "from_dlpack",
    "full",
    "load",
    "partition",
    "record",
    "size",
    "angle",
    "complex64",
    "complex128",
}


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_programs_give_what_numpy_gives(group: int) -> None:
    for seed in range(group, PROGRAMS, GROUPS):
        check(seed, compiled=seed // GROUPS % COMPILED == 0)


def test_every_name_shared_with_numpy_is_drawn() -> None:
    """Those of the library, which are made of the others, are compared with NumPy one by one."""
    assert not _shared(_words(HERE, GRAMMAR), of_library=False) - NOT_DRAWN
    assert not _shared(_words(HERE.parent / "algo", ("test_library_*",)), of_library=True)


def _words(folder: Path, patterns: tuple[str, ...]) -> set[str]:
    texts = (path.read_text() for pattern in patterns for path in folder.glob(f"{pattern}.py"))
    return {word for text in texts for word in re.findall(r"\w+", text)}


def _shared(words: set[str], of_library: bool) -> set[str]:
    """The names shared with NumPy that are not among these words, by any of their names."""
    drawn = {id(_own(name)) for name in rd.__all__ if name in words}
    shared = {name: _own(name) for name in rd.__all__ if hasattr(np, name)}
    homes = {
        name: value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", "")
        for name, value in shared.items()
    }
    library = {name for name, home in homes.items() if "library" in home or inspect.ismodule(shared[name])}
    return {name for name, value in shared.items() if (name in library) == of_library and id(value) not in drawn}


def _own(name: str) -> Any:
    """What stands behind a public name: several may be names of one function."""
    return inspect.unwrap(getattr(rd, name))


WRONG: list[tuple[str, Callable[..., Any]]] = [
    ("value", lambda x: x + np.array([0, 0, 1], np.float32)),
    ("sign of zero", lambda x: np.where(x == 0, -x, x)),
    ("NaN", lambda x: np.where(x == 2, np.float32(np.nan), x)),
    ("dtype", lambda x: x.astype(np.float64)),
    ("shape", lambda x: x[None]),
    ("bound", lambda x: near.near(x.astype(near.WIDE) * (1 + 2.0**-20), near.ulp(x, x.dtype), x.dtype)),
    ("fault", lambda x: 1 // 0),
]


@pytest.mark.parametrize(("what", "expected"), WRONG, ids=[what for what, _ in WRONG])
def test_a_difference_breaks_the_law(what: str, expected: Callable[..., Any]) -> None:
    program = rd.algorithm(x="f32[3]")(lambda x: rd.positive(x))
    x = np.array([0.0, 2.0, 3.0], np.float32)
    hold(program, [x], {"result": lambda x: x}, False)
    with pytest.raises(Broken):
        hold(program, [x], {"result": expected}, False)


def test_a_counter_example_is_a_program_that_runs(tmp_path: Path) -> None:
    drawn = build(draw(1).source(), "a program")
    file = tmp_path / "counter_example.py"
    file.write_text(drawn.script())
    path = f"import sys; sys.path.insert(0, {str(HERE.parent)!r}); import runpy; runpy.run_path({str(file)!r})"
    subprocess.run([sys.executable, "-W", "ignore", "-c", path], check=True)
