"""Rows as values: loops whose state is a row inside mapped functions, operators that mix the elements of rows, branches that return
arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from agreement import Row, hold, row

import raido as rd

rng = np.random.default_rng(0)
A = rng.standard_normal((5, 7)).astype("f")
B = rng.standard_normal((5, 3)).astype("f")
C = rng.standard_normal((2, 3, 4)).astype("f")
V = rng.standard_normal(5).astype("f")
K = np.array([0, 99, 2, 7, 6])
SQUARES = rng.integers(-2, 3, (6, 2, 2))
MANY = rng.integers(-2, 3, (4, 3, 2, 2))


def iterations(n: int, step: Callable[[Any, int], Any], state: Any) -> Any:
    for t in range(n):
        state = step(state, t)
    return state


def until(done: Callable[[Any], Any], step: Callable[[Any], Any], state: Any) -> Any:
    while not done(state):
        state = step(state)
    return state


def each(f: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    return np.stack([f(*elements) for elements in zip(*arrays, strict=True)])


def product(matrices: np.ndarray) -> np.ndarray:
    return iterations(len(matrices), lambda m, t: m @ matrices[t], np.eye(matrices.shape[-1], dtype=matrices.dtype))


def neighbours(row: np.ndarray) -> np.ndarray:
    padded = np.pad(row, 1, mode="edge")
    return padded[:-2] + padded[2:]


def affine(matrices: np.ndarray, offsets: np.ndarray) -> Any:
    start = (np.eye(2, dtype="i8"), np.zeros(2, "i8"))
    return iterations(len(offsets), lambda s, t: (s[0] @ matrices[t], s[0] @ offsets[t] + s[1]), start)


def doubled(s: Any) -> Any:
    return s + rd.roll(s, 1)


def sorted_in_rounds(r: Any) -> Any:
    """Odd–even transposition: as many iterations as elements."""

    def exchange(t: Any, s: Any) -> Any:
        def pick(j: Any) -> Any:
            low, high = rd.gather(s, j - 1, "clamp"), rd.gather(s, j + 1, "clamp")
            return rd.where((j + t) % 2 == 0, rd.minimum(s[j], high), rd.maximum(low, s[j]))

        return rd.tabulate(s.shape[0], pick)

    return rd.loop(r.shape[0] * 2, exchange, r)


LOOPS: dict[str, Row] = {
    "small rows": row(
        lambda x: rd.map(lambda r: rd.loop(4, lambda t, s: doubled(s), r), x),
        lambda x: iterations(4, lambda s, t: s + np.roll(s, 1, 1), x),
        B,
        x="f32[n, 3]",
    ),
    "small rows beside scalars": row(
        lambda x: rd.map(lambda r: rd.loop(4, lambda t, s: (s[0] + s[1][0] * t, s[1][::-1]), (0.0, r)), x),
        lambda x: iterations(4, lambda s, t: (s[0] + s[1][:, 0] * np.float32(t), s[1][:, ::-1]), (x[:, 0] * 0, x)),
        B,
        x="f32[n, 3]",
    ),
    "small rows that end by themselves": row(
        lambda x: rd.map(lambda r: rd.while_loop(lambda s: rd.sum(s) < 50, lambda s: s * 2, r), x),
        lambda x: each(lambda r: until(lambda s: s.sum() >= 50, lambda s: s * 2, r), x),
        abs(B),
        x="f32[n, 3]",
    ),
    "small rows updated": row(
        lambda x: rd.map(lambda r: rd.loop(3, lambda t, s: s.at[t].set(s[t] + t), r), x),
        lambda x: x + np.arange(3, dtype="f"),
        B,
        x="f32[n, 3]",
    ),
    "small rows read out of range": row(
        lambda x, k: rd.map(lambda r, i: rd.loop(3, lambda t, s: s + s[i], r), x, k),
        rd.IndexOutOfRange,
        B,
        np.array([0, 1, 2, 3, 0]),
        x="f32[n, 3]",
        k="i64[n]",
    ),
    "powers of matrices": row(
        lambda x: rd.map(lambda m: rd.loop(5, lambda t, s: s @ m, m), x),
        lambda x: each(lambda m: np.linalg.matrix_power(m, 6), x),
        SQUARES,
        x="i64[n, 2, 2]",
    ),
    "rows": row(
        lambda x: rd.map(lambda r: rd.loop(3, lambda t, s: doubled(s).named("up"), r, name="steps"), x),
        lambda x: iterations(3, lambda s, t: s + np.roll(s, 1, 1), x),
        A,
    ),
    "rows that end by themselves": row(
        lambda x: rd.map(lambda r: rd.while_loop(lambda s: rd.sum(s) < 50, lambda s: s * 2, r), x),
        lambda x: each(lambda r: until(lambda s: s.sum() >= 50, lambda s: s * 2, r), x),
        abs(A),
    ),
    "as many iterations as the element says": row(
        lambda x, k: rd.map(lambda r, n: rd.loop(n, lambda t, s: s + rd.roll(s, 1) * t, r), x, k),
        lambda x, k: each(lambda r, n: iterations(n, lambda s, t: s + np.roll(s, 1) * np.float32(t), r), x, k),
        A,
        np.array([0, 3, -2, 5, 1]),
    ),
    "what is done reads nothing": row(
        lambda x, k: rd.map(lambda r, n: rd.loop(n, lambda t, s: s + (r[t] * s).named("z"), r), x, k),
        lambda x, k: each(lambda r, n: iterations(n, lambda s, t: s + r[t] * s, r), x, k),
        A,
        np.array([7, 1, 0, 3, 7]),
    ),
    "rows beside scalars": row(
        lambda x: rd.map(
            lambda r: rd.while_loop(lambda s: s[0] < 6, lambda s: (s[0] + 1, s[1] + r[s[0]]), (0, r))[1], x
        ),
        lambda x: each(lambda r: iterations(6, lambda s, t: s + r[t], r), x),
        A,
    ),
    "loops in loops": row(
        lambda x: rd.map(
            lambda r: rd.loop(2, lambda t, s: rd.loop(2, lambda u, q: q + rd.roll(q, 1) * u, s) + t, r), x
        ),
        lambda x: iterations(
            2,
            lambda s, t: iterations(2, lambda q, u: q + np.roll(q, 1, 1) * np.float32(u), s) + np.float32(t),
            x,
        ),
        A,
    ),
    "loops in maps in loops in maps": row(
        lambda x: rd.map(
            lambda m: rd.loop(2, lambda t, s: rd.map(lambda r: rd.loop(2, lambda u, q: doubled(q), r), s) + s, m), x
        ),
        lambda x: iterations(2, lambda s, t: iterations(2, lambda q, u: q + np.roll(q, 1, 2), s) + s, x),
        C,
    ),
    "a loop of scalars around": row(
        lambda x: rd.map(
            lambda r: rd.loop(3, lambda t, a: a + rd.sum(rd.loop(2, lambda u, s: rd.roll(s, 1) + a, r)), 1.0), x
        ),
        lambda x: each(lambda r: iterations(3, lambda a, t: a + (r + a + a).sum(dtype="f"), np.float32(1)), x),
        A,
    ),
    "prefixes": row(
        lambda x: rd.map(lambda r: rd.loop(r.shape[0] - 1, lambda t, s: s.at[t + 1].add(s[t]), r), x),
        lambda x: np.cumsum(x, 1, dtype="f"),
        A,
    ),
    "sorting": row(lambda x: rd.map(sorted_in_rounds, x), lambda x: np.sort(x, 1), A),
    "no rows": row(lambda x: rd.map(lambda r: rd.loop(3, lambda t, s: doubled(s), r), x), lambda x: x, A[:0]),
    "empty rows": row(
        lambda x: rd.map(lambda r: rd.while_loop(lambda s: rd.sum(s) > 1, doubled, r), x), lambda x: x, A[:, :0]
    ),
}

OPERATORS: dict[str, Row] = {
    "products of matrices": row(
        lambda m: rd.reduce(lambda a, b: a @ b, np.eye(2, dtype="i8"), m), product, SQUARES, m="i64[n, 2, 2]"
    ),
    "products of no matrices": row(
        lambda m: rd.reduce(lambda a, b: a @ b, np.eye(2, dtype="i8"), m), product, SQUARES[:0], m="i64[n, 2, 2]"
    ),
    "several rows each": row(
        lambda m, v: rd.reduce(lambda a, b: (a[0] @ b[0], a[0] @ b[1] + a[1]), (np.eye(2, dtype="i8"), 0), m, v),
        affine,
        SQUARES,
        rng.integers(-2, 3, (6, 2)),
        m="i64[n, 2, 2]",
        v="i64[n, 2]",
    ),
    "along a later axis": row(
        lambda m: rd.reduce(lambda a, b: a @ b, np.eye(2, dtype="i8"), m, axis=1, name="chain"),
        lambda m: each(product, m),
        MANY,
        m="i64[k, n, 2, 2]",
    ),
    "inside a map": row(
        lambda m: rd.map(lambda c: rd.reduce(lambda a, b: a @ b, np.eye(2, dtype="i8"), c), m),
        lambda m: each(product, m),
        MANY,
        m="i64[k, n, 2, 2]",
    ),
    "the longest of some vectors": row(
        lambda m: rd.reduce(lambda a, b: rd.where(rd.sum(a) >= rd.sum(b), a, b), -99, m),
        lambda m: m[np.argmax(m.sum(1))],
        rng.integers(-9, 9, (8, 6)),
    ),
    "products of larger matrices": row(
        lambda m: rd.reduce(lambda a, b: a @ b, 1, m, axis=1),
        lambda m: each(lambda c: np.ones((5, 5), "i8") @ product(c), m),
        rng.integers(-2, 3, (4, 3, 5, 5)),
    ),
    "scalars beside rows": row(
        lambda x, v: rd.reduce(lambda a, b: (a[0] + b[0], a[1] + b[1]), (0, 0), v, x),
        lambda x, v: (v.sum(), x.sum(0)),
        A,
        V,
    ),
}

BRANCHES: dict[str, Row] = {
    "rows": row(
        lambda x: rd.map(lambda r: rd.cond(r[0] > 0, lambda: rd.sum(r) * r, lambda: rd.roll(r, 1)), x),
        lambda x: np.where(x[:, :1] > 0, x.sum(1, keepdims=True) * x, np.roll(x, 1, 1)),
        A,
    ),
    "rows that only one branch may make": row(
        lambda x, k: rd.map(
            lambda r, i: rd.cond(i < 7, lambda: rd.stencil(lambda p: p[-1] + p[1], r * r[i]), lambda: r), x, k
        ),
        lambda x, k: each(lambda r, i: neighbours(r * r[i]) if i < 7 else r, x, k),
        A,
        K,
    ),
    "arrays that nobody needs": row(
        lambda x, k, d: rd.map(lambda i: rd.cond(i < 0, lambda: (x // d).named("q")[i], lambda: x[0]), k),
        lambda x, k, d: np.full(5, x[0]),
        K,
        K,
        K * 0,
    ),
    "loops of no iterations": row(
        lambda x, d, n: rd.map(lambda r, m: rd.loop(m, lambda i, s: s + (r // d).named("q")[i], 0), x, n),
        lambda x, d, n: n * 0,
        rng.integers(0, 9, (5, 7)).astype("i4"),
        np.int32(0),
        np.zeros(5, "i4"),
    ),
    "loops": row(
        lambda x, k: rd.map(lambda r, i: rd.cond(i < 7, lambda: rd.loop(3, lambda t, s: s + r[i], r), lambda: r), x, k),
        lambda x, k: each(lambda r, i: r + 3 * r[i] if i < 7 else r, x, k),
        A,
        K,
    ),
    "loops that would not end": row(
        lambda x, k: rd.map(
            lambda r, i: rd.cond(
                i < 7, lambda: rd.while_loop(lambda s: s[0] < 99, lambda s: rd.roll(s, 1) + (7 - i), r), lambda: r
            ),
            x,
            k,
        ),
        lambda x, k: each(
            lambda r, i: until(lambda s: s[0] >= 99, lambda s: np.roll(s, 1) + (7 - i), r) if i < 7 else r, x, k
        ),
        rng.integers(0, 9, (5, 7)),
        K,
    ),
    "scans": row(
        lambda x, k: rd.map(lambda r, i: rd.cond(i < 7, lambda: rd.scan(rd.add, 0, r * r[i]), lambda: r), x, k),
        lambda x, k: each(lambda r, i: np.cumsum(r * r[i], dtype="f") if i < 7 else r, x, k),
        A,
        K,
    ),
    "updates": row(
        lambda x, k: rd.map(lambda r, i: rd.cond(i < 7, lambda: r.at[rd.iota(2) + i - 1].set(0), lambda: r), x, k),
        lambda x, k: each(lambda r, i: np.where(abs(2 * np.arange(7) - 2 * i + 1) == 1, np.float32(0), r), x, k),
        A,
        np.array([1, 99, 2, 6, 5]),
    ),
    "arrays of a loop's state, read out of range": row(
        lambda x, k: rd.map(lambda v, i: rd.loop(2, lambda t, s: s + rd.tabulate(4, lambda j: s * j)[i], v), x, k),
        rd.IndexOutOfRange,
        V,
        np.array([0, 1, 4, 2, 0]),
    ),
}


@pytest.mark.parametrize("case", LOOPS)
def test_loops_of_rows_run_for_each_element(case: str) -> None:
    hold(LOOPS[case])


@pytest.mark.parametrize("case", OPERATORS)
def test_operators_may_mix_the_elements_of_rows(case: str) -> None:
    hold(OPERATORS[case])


@pytest.mark.parametrize("case", BRANCHES)
def test_branches_not_taken_are_not_evaluated(case: str) -> None:
    hold(BRANCHES[case])


def test_rows_in_registers_are_stages_like_any_other() -> None:
    chain = OPERATORS["along a later axis"].program
    schedule = chain.schedule()
    assert schedule["chain"].axes == ("x", "r")
    schedule["chain"].vectorize("x")
    np.testing.assert_array_equal(chain.compile(schedule=schedule)(MANY), each(product, MANY))
    steps = LOOPS["rows"].program.schedule(A)
    assert "steps/up" in steps.stages
