"""Sizes in messages and representations: in a person's notation, without the bounds that keep them from being negative."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.graph import index
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Expr, Op, SizeVar, const
from raido.algo.graph.read_sizes import read_extent, read_size
from raido.schedule.nest.expression_text import ExpressionText
from raido.targets.signature import OPERATIONS, size_text

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
    "2*(n//2)": ("*", ("//", "n", 2), 2),
    "3*(n%4) + m": ("+", ("*", ("%", "n", 4), 3), "m"),
    "-(n//2) - 1": ("-", ("-", 0, ("//", "n", 2)), 1),
    "5 - n//2": ("-", 5, ("//", "n", 2)),
    "(min(n, m) + 1)*m": ("*", ("+", ("min", "n", "m"), 1), "m"),
    "2*n*m": ("*", ("*", "n", "m"), 2),
}


@pytest.mark.parametrize("text", READ)
def test_sizes_read_as_a_person_writes_them(text: str) -> None:
    assert read_size(READ[text]) == text


def random_size(rng: random.Random, depth: int) -> Any:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(("n", "m", "k", rng.randint(-3, 5)))
    op = rng.choice(("+", "-", "*", "*", "//", "//", "%", "min", "max"))
    return op, random_size(rng, depth - 1), random_size(rng, depth - 1)


class NoSize(Exception):
    """Raised for a division by zero, and where a bound below is no size: `max(0, n - 2)` reads `n - 2`."""


def value_of(size: Any, sizes: dict[str, int], bounds_are_sizes: bool) -> int:
    if not isinstance(size, tuple):
        return sizes.get(size, size)
    left, right = (value_of(part, sizes, bounds_are_sizes) for part in size[1:])
    if (size[0] in ("//", "%") and right == 0) or (bounds_are_sizes and size[0] == "max" and min(left, right) < 0):
        raise NoSize
    return OPERATIONS[size[0]](left, right)


def as_expression(size: Any) -> Expr:
    """The size as nodes just as they stand, in no canonical form."""
    if not isinstance(size, tuple):
        return SizeVar(size) if isinstance(size, str) else const(i64, size)
    return Op(NODES[size[0]], i64, tuple(map(as_expression, size[1:])))


NODES = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod", "min": "minimum", "max": "maximum"}


@pytest.mark.parametrize("write", ["read_size", "size_text", "text", "canonical text", "extent", "nest"])
def test_the_text_of_a_size_has_its_value(write: str) -> None:
    as_read = write in ("read_size", "extent")
    writers: dict[str, Callable[[Any], str]] = {
        "read_size": read_size,
        "size_text": size_text,
        "text": lambda size: index.text(as_expression(size)),
        "canonical text": lambda size: index.text(index.canonical(as_expression(size))),
        "extent": lambda size: read_extent(as_expression(size)),
        "nest": lambda size: ExpressionText().text(as_expression(size)),
    }
    rng, compared = random.Random(0), 0
    for _ in range(3000):
        size = random_size(rng, rng.randint(1, 4))
        sizes = {name: rng.randint(0, 9) for name in "nmk"}
        try:
            expected = value_of(size, sizes, as_read)
            text = writers[write](size)
        except (NoSize, ZeroDivisionError):
            continue
        assert eval(text, {"min": min, "max": max}, dict(sizes)) == expected, (size, text, sizes)
        compared += 1
    assert compared > 1000


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
