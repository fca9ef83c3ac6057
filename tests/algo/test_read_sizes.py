"""Sizes in messages and representations: as a person writes them, without the bounds that keep them from being negative."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.graph.read_sizes import read_size

READ: dict[str, Any] = {
    "3": 3,
    "n - 2": ("max", 0, ("+", ("min", ("max", 0, ("+", "n", -1)), "n"), -1)),
    "5 - n": ("-", 5, "n"),
    "-n": ("*", -1, "n"),
    "2*n - 1": ("+", ("max", 0, ("+", "n", -1)), "n"),
    "n*m + 3": ("+", ("*", "n", "m"), 3),
    "(n + 1)*m": ("*", ("+", "n", 1), "m"),
    "(n + 1)//2": ("max", ("//", ("+", "n", 1), 2), 0),
    "n%4 - 1": ("-", ("%", "n", 4), 1),
    "max(m, n) - min(m, n) + 1": ("+", ("-", ("max", "m", "n"), ("min", "m", "n")), 1),
    "max(1, n)": ("max", 1, "n"),
    "2*n - 3*m": ("-", ("*", 2, "n"), ("*", 3, "m")),
    "0": ("-", "n", "n"),
}


@pytest.mark.parametrize("text", READ)
def test_sizes_read_as_a_person_writes_them(text: str) -> None:
    assert read_size(READ[text]) == text


def test_representations_and_messages_have_such_sizes() -> None:
    inner = rd.algorithm(lambda x: x[1:-1, 1:-1], x="f32[h, w]", name="inner")
    assert repr(inner.trace()) == "<Program inner(x: f32[h, w]) -> f32[h - 2, w - 2]>"
    assert repr(inner.compile()) == "<Executable inner(x: f32[h, w]) -> f32[h - 2, w - 2]>"
    unlike = rd.algorithm(lambda x: x[1:-1] + x, x="f32[n]", name="unlike")
    for run, words in ((unlike, "has size 4 (n - 2), "), (unlike.interpret, "is n - 2 = 4, ")):
        with pytest.raises(rd.SizeMismatch, match=re.escape(words)):
            run(np.ones(6, np.float32))


def test_a_size_that_is_cut_off_at_0_says_so() -> None:
    unlike = rd.algorithm(lambda x: x[3:] + x, x="f32[n]")
    for run in (unlike, unlike.interpret):
        with pytest.raises(rd.SizeMismatch, match=re.escape("max(0, n - 3)")):
            run(np.ones(2, np.float32))
