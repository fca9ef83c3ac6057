"""A program that was moved or copied uses its cached code; its reports name its own lines."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import raido as rd
from raido.targets.cache import Cache

TEXT = """import raido as rd


@rd.algorithm
def checked(a: rd.i64["n"], b: rd.i64["m"], i: rd.i64["k"]):
    quotient = a[i] // b[i]
    return quotient, a + b


@rd.algorithm
def copying(x: rd.i64["n"]):
    return rd.loop(3, lambda t, total: total + rd.sum(x.at[t].set(0)), rd.i64(0))
"""


def module(folder: Path, name: str, text: str) -> ModuleType:
    """A file of that text, imported."""
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_lines_are_those_of_the_program_that_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path / "cache")
    monkeypatch.setattr("raido.targets.compile._default_cache", lambda: cache)
    places = {
        "first": TEXT,
        "below": "# moved\n\n" + TEXT,
        "wider": TEXT.replace("    quotient", "    # one more line\n    quotient"),
    }
    a = np.arange(4)
    for name, text in places.items():
        executable = module(tmp_path, name, text).checked.compile()
        assert len(cache.entries()) == 1
        lines = text.splitlines()
        division, total = (
            1 + next(k for k, line in enumerate(lines) if part in line) for part in ("quotient =", "a + b")
        )
        for wrong, kind, line in (
            ((a, a + 1, np.array([9])), rd.IndexOutOfRange, division),
            ((a, a, np.array([0])), rd.ArithmeticFault, division),
            ((a, a[:3], np.array([1])), rd.SizeMismatch, total),
        ):
            with pytest.raises(kind, match=f"{name}.py:{line}"):
                executable(*wrong)


def test_other_divisions_on_one_line_are_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path / "cache")
    monkeypatch.setattr("raido.targets.compile._default_cache", lambda: cache)
    apart = TEXT.replace("    quotient = a[i] // b[i]", "    below = b[i]\n    quotient = a[i] // below")
    for name, text, line in (("together", TEXT, 6), ("apart", apart, 7)):
        executable = module(tmp_path, name, text).checked.compile()
        with pytest.raises(rd.IndexOutOfRange, match=f"{name}.py:{line}"):
            executable(np.arange(4), np.arange(4), np.array([5]))
    assert len(cache.entries()) == 2


def test_warnings_of_copies_move_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path / "cache")
    monkeypatch.setattr("raido.targets.compile._default_cache", lambda: cache)
    for name, text in {"before": TEXT, "after": "\n\n\n" + TEXT}.items():
        copying = module(tmp_path, name, text).copying
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            copying.compile()
        here = [each.lineno for each in seen if each.category is rd.CopyWarning]
        assert here and here == [text[: text.index("return rd.loop")].count("\n") + 1] * len(here)
