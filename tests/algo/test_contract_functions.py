"""The contract on functions, tuples, static parameters, algorithms in algorithms, and the names of stages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from agreement import Row, hold, row

import raido as rd

rng = np.random.default_rng(0)
A = rng.standard_normal((5, 7)).astype("f")
C = rng.standard_normal((2, 3, 4)).astype("f")
V = rng.standard_normal(7).astype("f")
W = rng.standard_normal(7).astype("f")
TABLE = np.array([10, 20, 30], "f")


class Point(NamedTuple):
    x: Any
    y: Any


@rd.algorithm
def scaled(img: rd.f32["h", "w"], *, radius=4, flag):
    return img * radius + (1 if flag else 0)


@rd.algorithm
def twice(v: rd.f32["n"]):
    return (v * 2).named("doubled")


@rd.algorithm
def total(v: rd.f32["n"]):
    return rd.sum(v, name="all")


TUPLES: dict[str, Row] = {
    "a tuple of arrays is the zipped array": row(
        lambda x, y: rd.map(lambda p: p[0] - p[1], (x, y)), lambda x, y: x - y, V, W
    ),
    "tuples nest": row(
        lambda x, y: rd.map(lambda p: p[0] + p[1][0] - p[1][1], (x, (y, x))), lambda x, y: x + y - x, V, W
    ),
    "functions take one argument for each array": row(
        lambda x, y: rd.map(lambda p, q: p[0] - p[1] + q, rd.zip(x, y), x), lambda x, y: x - y + x, V, W
    ),
    "an element of rd.zip is a tuple": row(lambda x, y: rd.zip(x, y)[2], lambda x, y: (x[2], y[2]), V, W),
    "rd.unzip": row(lambda x, y: rd.unzip(rd.zip(x, y)), lambda x, y: (x, y), V, W),
    "named tuples as results": row(lambda x: rd.map(lambda v: Point(v, v * 2), x), lambda x: (x, x * 2), V),
    "named tuples as elements": row(
        lambda x: rd.map(lambda p: p.x + p.y, rd.map(lambda v: Point(v, v * 2), x)), lambda x: x * 3, V
    ),
    "named tuples as state": row(
        lambda x: rd.loop(3, lambda i, s: Point(s.x + s.y, s.y * 2), Point(rd.f32(0), x[0])),
        lambda x: (np.float32(x[0] * 7), np.float32(x[0] * 8)),
        V,
    ),
    "tuples as arguments": row(
        rd.algorithm(lambda p: p[0] + p[1], p="(f32[n], f32[n])"), lambda p: p[0] + p[1], (V, W)
    ),
    "operators take tuples": row(
        lambda x, y: rd.reduce(lambda a, b: (a[0] + b[0], rd.minimum(a[1], b[1])), (0, 9.0), x, y),
        lambda x, y: (x.sum(), y.min()),
        V,
        W,
    ),
}

FUNCTIONS: dict[str, Row] = {
    "rows are elements, and their shape is appended": row(
        lambda x: rd.map(lambda r: (rd.max(r), r[::-1], rd.iota(3) * r[0]), x),
        lambda x: (x.max(1), x[:, ::-1], x[:, :1] * np.arange(3, dtype="f")),
        A,
    ),
    "values of enclosing scopes": row(
        lambda x, v: rd.map(lambda r: r * v + rd.sum(v), x), lambda x, v: x * v + v.sum(), A, V
    ),
    "maps nest": row(
        lambda c: rd.map(lambda m: rd.map(lambda r: rd.map(lambda v: v - rd.mean(r), r), m), c),
        lambda c: c - c.mean(2, keepdims=True),
        C,
    ),
    "a perfect nest around a reduction": row(
        lambda a, b: rd.tabulate((a.shape[0], b.shape[1]), lambda i, j: rd.sum(a[i] * b[:, j])),
        lambda a, b: a @ b,
        A,
        A.T.copy(),
        a="f32[n, k]",
        b="f32[k, m]",
    ),
    "reductions in maps in reductions": row(
        lambda c: rd.reduce(rd.add, 0, rd.map(lambda m: rd.max(rd.map(lambda r: rd.sum(r), m)), c)),
        lambda c: c.sum(2).max(1).sum(),
        C,
    ),
    "static parameters": row(rd.capture(scaled, radius=2, flag=True), lambda x: x * 2 + 1, A),
    "static parameters without a default are needed": row(scaled, rd.ArgumentError, A),
    "an algorithm in another": row(lambda x, y: twice(x)[:3] + twice(y[:3]), lambda x, y: x[:3] * 2 + y[:3] * 2, V, W),
    "an algorithm as a function of elements": row(lambda x: rd.map(twice, x), lambda x: x * 2, A),
    "algorithms in functions of elements": row(
        lambda x: rd.map(lambda r: total(twice(r)) * r, x), lambda x: x.sum(1, keepdims=True) * 2 * x, A
    ),
    "constants": row(lambda i: rd.array(TABLE)[i] * TABLE[0], lambda i: TABLE[i] * 10, np.array([2, 0, 1])),
    "arrays of scalars": row(lambda x: rd.array([x[0], x[1], 2.0]), lambda x: np.array([x[0], x[1], 2], "f"), V),
    "the type of an argument where none is declared": row(lambda x: x + x, lambda x: x + x, C.astype("f8")),
    "ordinary Python while tracing": row(
        lambda x: sum(x * k for k in range(4)) if x.ndim == 1 else x, lambda x: x * 6, V
    ),
}


@pytest.mark.parametrize("case", TUPLES)
def test_tuples(case: str) -> None:
    hold(TUPLES[case])


@pytest.mark.parametrize("case", FUNCTIONS)
def test_functions(case: str) -> None:
    hold(FUNCTIONS[case])


def test_an_algorithm_is_traced_once_for_each_signature_and_static_value() -> None:
    traced = []

    @rd.algorithm
    def program(x, *, k=1):
        traced.append(k)
        return x * k

    for _ in range(2):
        program.interpret(V)
        program.interpret(V[:3])
        program.interpret(V.astype("f8"))
        program.interpret(V, k=2)
    assert traced == [1, 1, 2]


def test_what_an_algorithm_mentions_is_frozen_when_it_is_traced() -> None:
    factor = [2.0]
    table = np.array([1.0, 2.0, 3.0])
    program = rd.algorithm(lambda i: rd.array(table)[i] * factor[0], i="i64[n]")
    assert program(np.array([2])) == 6
    factor[0], table[2] = 5.0, 99.0
    assert program(np.array([2])) == 6


def test_stages_have_the_names_of_the_contract() -> None:
    def program(x: rd.f32["h", "w"], v: rd.f32["n"]):
        rows = rd.stencil(lambda p: p[0, 1] + p[1, 0], x, name="rows")
        again = rd.stencil(lambda p: p[0, 1] * p[1, 0], rows, name="rows")
        steps = rd.loop(3, lambda t, s: rd.stencil(lambda p: p[-1] + p[1], s, name="life"), v, name="steps")
        mean = rd.sum(v * v).named("energy")
        return again, steps, twice(v), twice(v * 3, name="other"), total(v), mean, rd.map(lambda r: rd.sum(r), x)

    s = rd.algorithm(program).schedule()
    assert {"rows", "rows_2", "steps", "steps/life", "energy", "total/all"} <= set(s.stages)
    assert {"twice/doubled", "other/doubled"} <= set(s.stages)
    assert any(name.startswith(("map_", "reduce_")) for name in s.stages)
    assert s["rows"].axes == ("y", "x") and s["energy"].axes == ("r",)
    assert s["life"].axes == s["steps/life"].axes == ("x",)


def test_equal_expressions_are_one_stage_that_answers_to_all_its_names() -> None:
    def program(v: rd.f32["n"]):
        return rd.roll(v * 2, 1).named("one") + rd.roll(v * 2, 1).named("two"), rd.sum(v * 2, name="three")

    s = rd.algorithm(program).schedule()
    assert s["one"].axes == s["two"].axes
    s["two"].vectorize("x")
    with pytest.raises(rd.ScheduleError):
        s["one"].vectorize("x")


def test_axes_are_named_by_parameters_or_by_hand() -> None:
    def program(c: rd.f32["a", "b", "c", "d"], n: rd.size):
        table = rd.tabulate((n, n), lambda row, column: row * column, name="table")
        return rd.map(lambda m: m * 2, c, name="four"), table, rd.elementwise(rd.exp, c, name="hand", axes="ixyr")

    s = rd.algorithm(program).schedule()
    assert s["four"].axes == ("d0", "z", "y", "x") and s["table"].axes == ("row", "column")
    assert s["hand"].axes == ("i", "x", "y", "r")
