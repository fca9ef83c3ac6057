"""Array loops whose iterations are independent by row run row by row; others are unchanged; results are those of the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.graph import index as ix
from raido.schedule.lower import lower
from raido.schedule.machine import USUAL
from raido.schedule.nest.nodes import Alloc, For, Nest, Statement
from raido.schedule.nest.walk import blocks_of, statements_within
from raido.schedule.oracles.interpret import interpret_nest


def recurrence(u: Any) -> Any:
    return rd.map(lambda row: rd.loop(row.shape[0] - 1, lambda i, y: y.at[i + 1].set(y[i + 1] - 0.5 * y[i]), row), u)


def prefix_sums(u: Any) -> Any:
    """The whole row changes, and every iteration reads one element of it."""
    return rd.map(lambda row: rd.loop(3, lambda i, y: y.at[3:].add(y[i]), row), u)


def neighbouring_rows(u: Any) -> Any:
    """Every row reads the one before, as it was."""
    return rd.loop(u.shape[1] - 1, lambda i, y: y.at[1:, i + 1].set(y[:-1, i]), u)


def columns(u: Any) -> Any:
    """Each iteration changes another row, and keeps to columns, which lie side by side."""
    return rd.loop(u.shape[0] - 1, lambda i, y: y.at[i + 1].set(y[i] * 0.5 + y[i + 1]), u)


def down_columns(u: Any) -> Any:
    """The same of every column by itself, with a number that goes along."""

    def column(v: Any) -> Any:
        step = lambda i, s: (v[i], s[1].at[i + 1].set(s[1][i] * 0.5 + v[i + 1] - s[0]))
        return rd.loop(v.shape[0] - 1, step, (rd.f32(0), v))[1]

    return rd.map(column, u.T).T


def halved_rows(u: Any) -> Any:
    """The loop over rows has iterations that depend on the iteration."""
    return rd.loop(u.shape[0], lambda i, y: y.at[i:, 0].add(1.0), u)


def elements(u: Any) -> Any:
    """Two states of elements, which change places."""
    return rd.loop(3, lambda i, s: (s[1] * 0.5 + i, s[0] - s[1]), (u, u + 1))[0]


def series(u: Any) -> Any:
    """A number and a small matrix for each row, and a row of results."""

    def one(row: Any) -> Any:
        def step(i: Any, s: Any) -> Any:
            x, p, out = s
            gain = p * 0.5 + 0.1
            new = x + gain[0, 1] * (row[i] - x)
            return new, gain, out.at[i].set(new)

        start = (rd.f32(0), rd.full((2, 2), rd.f32(0.5)), rd.full(row.shape, rd.f32(0)))
        return rd.loop(row.shape[0], step, start)[2]

    return rd.map(one, u)


ROWS, LANES, PIECES = "parallel row", "lanes of rows", "pieces of rows"


@pytest.mark.parametrize(
    ("function", "how"),
    [
        (recurrence, ROWS),
        (prefix_sums, ROWS),
        (neighbouring_rows, ""),
        (columns, PIECES),
        (down_columns, PIECES),
        (halved_rows, ""),
        (elements, LANES),
        (series, LANES),
    ],
)
def test_rounds_of_a_row_stay_together(function: Callable[[Any], Any], how: str) -> None:
    algorithm = rd.algorithm(function)
    u = np.arange(42, dtype=np.float32).reshape(6, 7) ** 1.5
    complete = algorithm.schedule(rd.f32["n", "m"]).complete()
    nest = lower(complete.graph, complete.variants())
    assert kind_of(nest) == how, complete.nest_text()
    want = algorithm.interpret(u)
    np.testing.assert_allclose(interpret_nest(nest, [u], seed=3)[0], want, rtol=1e-5)
    for rows in (u, u[:1], u[:0], u[:, :3], np.tile(u, (1, 300) if how == PIECES else (300, 1))):
        np.testing.assert_allclose(algorithm(rows), algorithm.interpret(rows), rtol=1e-5)


def sums_down_columns(u: Any) -> Any:
    """Beside this, scans of few columns go along each of them."""
    return rd.map(lambda v: rd.cumsum(v * v[0]), u.T).T


def systems_down_columns(u: Any) -> Any:
    """Tridiagonal systems: the second loop reads both results of the first."""

    def solved(d: Any) -> Any:
        m = d.shape[0]
        down = lambda i, s: (
            s[0].at[i + 1].set(1 / (4 - s[0][i])),
            s[1].at[i + 1].set((d[i + 1] + s[1][i]) / (4 - s[0][i])),
        )
        c, e = rd.loop(m - 1, down, (rd.full_like(d, 0.25), d / 4))
        return rd.loop(m - 1, lambda i, x: x.at[m - 2 - i].set(e[m - 2 - i] + c[m - 2 - i] * x[m - 1 - i]), e)

    return rd.map(solved, u.T).T


def in_planes(u: Any) -> Any:
    return rd.map(down_columns, rd.map(sums_down_columns, u))


@pytest.mark.parametrize("function", [down_columns, sums_down_columns, systems_down_columns, in_planes])
def test_maps_down_columns_turn_nothing(function: Callable[[Any], Any]) -> None:
    """Lanes make neighbouring columns, in arrays that have their rows."""
    algorithm = rd.algorithm(function)
    shape = ("k", "n", "m") if function is in_planes else ("n", "m")
    complete = algorithm.schedule(rd.f32[shape]).complete()
    assert "transpose" not in complete.nest_text() and "xii" not in str(complete), complete
    allocated = [
        s.buffer for s in statements_within(lower(complete.graph, complete.variants()).body) if isinstance(s, Alloc)
    ]
    sizes = [str(extent) for extent in complete.graph.program.parameters[0].shape]
    assert [str(e) for b in allocated if len(b.shape) == len(sizes) for e in b.shape] in ([], sizes)
    u = np.arange(np.prod(range(5, 5 + len(shape)))).reshape(range(5, 5 + len(shape))).astype(np.float32) % 7
    assert ('when("x <= 4")' in str(complete)) == (function is sums_down_columns)
    for values in (u, u[..., :3], u[..., :0]):
        np.testing.assert_allclose(algorithm(values), algorithm.interpret(values), rtol=1e-5)


@pytest.mark.parametrize(("l1", "extents"), [(1 << 13, [39, 20]), (1 << 12, [20, 39])])
def test_inner_rows_go_through_an_iteration_together(l1: int, extents: list[int]) -> None:
    """Twenty rows of forty numbers: where the cache holds twice as many, the loop over iterations stands around that over the rows."""

    @rd.algorithm
    def in_blocks(u: rd.f32["n", 20, 40]):
        step = lambda t, row: row.at[t + 1].set(row[t + 1] - 0.5 * row[t])
        return rd.map(lambda block: rd.map(lambda row: rd.loop(39, step, row), block), u)

    machine = replace(USUAL, l1=l1)
    complete = in_blocks.schedule().complete(machine)
    nest = lower(complete.graph, complete.variants(), machine)
    loops = [s for s in statements_within(nest.body) if isinstance(s, For)]
    around = next(s for s in loops if ix.constant_value(s.high) == extents[0])
    inside = [ix.constant_value(s.high) for s in statements_within(around.body) if isinstance(s, For)]
    assert extents[1] in inside, complete.nest_text()
    assert kind_of(nest) == ROWS
    u = np.arange(1600, dtype=np.float32).reshape(2, 20, 40) % 5
    np.testing.assert_allclose(interpret_nest(nest, [u], seed=3)[0], in_blocks.interpret(u), rtol=1e-4)


def test_states_with_rows_at_different_places_are_swapped() -> None:
    """What an iteration makes of an element goes to another place of the next state."""

    @rd.algorithm
    def turned(a: rd.f32["n", "n"]):
        n = a.shape[0]
        return rd.loop(3, lambda i, a: rd.tabulate((n, n), lambda y, x: a[x, y] * 2, name="turn"), a)

    schedule = turned.schedule()
    schedule["loop_1/turn"].root().vectorize(schedule["loop_1/turn"].axes[1])
    a = np.arange(16, dtype=np.float32).reshape(4, 4)
    np.testing.assert_array_equal(turned.compile(schedule=schedule)(a), turned.interpret(a))


def test_states_that_change_places_keep_what_both_hold() -> None:
    """Each iteration changes one row of a state, which is the other state in the next."""

    @rd.algorithm
    def exchanged(a: rd.f32[2, "n"], b: rd.f32[2, "n"]):
        return rd.loop(3, lambda i, s: (s[1], s[0].at[0].add(s[1][1])), (a, b))

    complete = exchanged.schedule().complete()
    nest = lower(complete.graph, complete.variants())
    assert kind_of(nest) == LANES
    a, b = np.arange(20, dtype=np.float32).reshape(2, 2, 5)
    for got, want in zip(interpret_nest(nest, [a, b], seed=3), exchanged.interpret(a, b), strict=True):
        np.testing.assert_array_equal(got, want)


def kind_of(nest: Nest) -> str:
    """Where the iterations of the array loop stand among the loops around and inside them."""
    around: list[For] = []

    def find(statement: Statement) -> str | None:
        if isinstance(statement, For):
            if statement.stage == "loop_1" and statement.loop == "t":
                inside = any(isinstance(s, For) and s.kind == "vector" for s in statements_within(statement))
                if not around:
                    return ""
                return LANES if around[-1].kind == "vector" else PIECES if inside and around[-1].step > 1 else ROWS
            around.append(statement)
        found = next(
            (
                kind
                for block in reversed(tuple(blocks_of(statement)))
                for s in block.statements
                if (kind := find(s)) is not None
            ),
            None,
        )
        if isinstance(statement, For):
            around.pop()
        return found

    return next(kind for s in nest.body.statements if (kind := find(s)) is not None)
