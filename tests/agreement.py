"""A program with its expected outcome, interpreted and compiled: values, dtypes and shapes, or the error it raises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import raido as rd


@dataclass(frozen=True)
class Row:
    """A program with arguments, and `expected`: a value, a function of the arguments that gives it in NumPy, or an exception class."""

    program: Any
    expected: Any
    arguments: tuple[Any, ...]


def row(program: Callable[..., Any], expected: Any, *arguments: Any, **types: str) -> Row:
    """A row of a table; `types` are those of the parameters, where the arguments do not say enough."""
    algorithm = program if isinstance(program, rd.Algorithm) else rd.algorithm(**types)(program)
    return Row(algorithm, expected, arguments)


def hold(row: Row) -> None:
    """Both ways of running the program of a row give what it says."""
    for run in (row.program.interpret, row.program):
        if isinstance(row.expected, type):
            with pytest.raises(row.expected):
                run(*row.arguments)
            continue
        with np.errstate(all="ignore"):
            expected = row.expected(*row.arguments) if callable(row.expected) else row.expected
        agree(run(*row.arguments), expected)


def agree(got: Any, want: Any) -> None:
    """Equal structure, types, shapes and values; floats to a few units in the last place, since NumPy groups sums otherwise."""
    if isinstance(want, tuple):
        assert isinstance(got, tuple) and len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            agree(g, w)
        return
    assert not isinstance(got, tuple)
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape
    if want.dtype.kind in "fc":
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(got, want)
