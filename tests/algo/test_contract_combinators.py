"""The contract's table of combinators, remaining rows: making, moving, reducing, looping; interpreted and compiled."""

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
C = rng.standard_normal((2, 3, 4)).astype("f")
V = rng.standard_normal(7).astype("f")
W = rng.standard_normal(7).astype("f")
J = rng.integers(-9, 9, 9)


def iterations(n: int, step: Callable[[Any, int], Any], state: Any) -> Any:
    for t in range(n):
        state = step(state, t)
    return state


def until(done: Callable[[Any], Any], step: Callable[[Any], Any], state: Any) -> Any:
    while not done(state):
        state = step(state)
    return state


MADE: dict[str, Row] = {
    "iota and replicate": row(
        lambda n: (
            rd.iota(n),
            rd.iota(n, rd.f32),
            rd.replicate(n, 3),
            rd.replicate((n, 2), 1.5),
            rd.full((2, n), True),
        ),
        lambda n: (np.arange(n), np.arange(n, dtype="f"), np.full(n, 3), np.full((n, 2), 1.5), np.full((2, n), True)),
        5,
        n="size",
    ),
    "of size 0": row(lambda n: (rd.iota(n), rd.sum(rd.iota(n))), lambda n: (np.arange(n), np.int64(0)), 0, n="size"),
    "copies of rows": row(lambda x: rd.replicate(3, x), lambda x: np.stack([x] * 3), V),
    "elementwise broadcasts": row(lambda x, v: rd.elementwise(lambda a, b: a - b, x, v), lambda x, v: x - v, A, V),
    "elementwise of scalars": row(lambda x: rd.elementwise(rd.add, x, x), lambda x: x + x, np.float32(3)),
    "NumPy's names": row(
        lambda x, i: (rd.exp(x), rd.where(x > 0, x, 0), rd.clip(x, -1, 1), rd.popcount(i), rd.bitwise_count(i)),
        lambda x, i: (np.exp(x), np.where(x > 0, x, 0), np.clip(x, -1, 1), np.bitwise_count(i), np.bitwise_count(i)),
        V,
        J,
    ),
}

MOVED: dict[str, Row] = {
    "transpose": row(
        lambda x: (x.T, rd.transpose(x, (1, 2, 0)), rd.swapaxes(x, 0, 2), x.transpose(0, 2, 1)),
        lambda x: (x.T, x.transpose(1, 2, 0), x.swapaxes(0, 2), x.transpose(0, 2, 1)),
        C,
    ),
    "reshape": row(
        lambda x: (x.reshape(-1), x.reshape(4, -1), rd.reshape(x, (3, 8)), x.flatten(), rd.flatten(x)),
        lambda x: (x.reshape(-1), x.reshape(4, -1), x.reshape(3, 8), x.flatten(), x.flatten()),
        C,
    ),
    "reshape by sizes": row(
        lambda x: (x.reshape(x.shape[1], x.shape[0]), x.reshape(-1, 1), rd.reshape(x, (1, -1))),
        lambda x: (x.reshape(7, 5), x.reshape(-1, 1), x.reshape(1, -1)),
        A,
    ),
    "concat and stack": row(
        lambda x, y: (rd.concat([x, y]), rd.concat((y, x, y)), rd.stack([x, y]), rd.stack([x, y], axis=1)),
        lambda x, y: (np.concatenate([x, y]), np.concatenate([y, x, y]), np.stack([x, y]), np.stack([x, y], 1)),
        V,
        W[:7],
    ),
    "concat along an axis": row(
        lambda x, y: (rd.concat([x, y], axis=1), rd.concat([x, y], axis=-1)),
        lambda x, y: (np.concatenate([x, y], 1),) * 2,
        A,
        A[:, :3].copy(),
    ),
    "concat of nothing": row(lambda x, y: rd.concat([x, y]), lambda x, y: np.concatenate([x, y]), V[:0], W),
    "roll": row(
        lambda x, k: (rd.roll(x, 2), rd.roll(x, -30, axis=1), rd.roll(x, (1, 2), axis=(0, 1)), rd.roll(x, k, axis=0)),
        lambda x, k: (np.roll(x, 2), np.roll(x, -30, 1), np.roll(x, (1, 2), (0, 1)), np.roll(x, k, 0)),
        A,
        np.int64(-3),
    ),
    "shift": row(
        lambda x: (rd.shift(x, 2), rd.shift(x, -2, fill=9), rd.shift(x, 20)),
        lambda x: (np.r_[np.zeros(2, "f"), x[:-2]], np.r_[x[2:], np.full(2, 9, "f")], x * 0),
        V,
    ),
    "pad": row(
        lambda x: (
            *(rd.pad(x, 2), rd.pad(x, (1, 2)), rd.pad(x, ((1, 0), (0, 3))), rd.pad(x, 1, constant_values=5)),
            *(rd.pad(x, 1, mode="edge"), rd.pad(x, 3, mode="reflect"), rd.pad(x, 9, mode="wrap")),
            rd.pad(x, 8, mode="symmetric"),
        ),
        lambda x: (
            *(np.pad(x, 2), np.pad(x, (1, 2)), np.pad(x, ((1, 0), (0, 3))), np.pad(x, 1, constant_values=5)),
            *(np.pad(x, 1, mode="edge"), np.pad(x, 3, mode="reflect"), np.pad(x, 9, mode="wrap")),
            np.pad(x, 8, mode="symmetric"),
        ),
        A,
    ),
    "astype": row(
        lambda x: (x.astype(rd.f64), rd.astype(x, rd.i32)), lambda x: (x.astype("f8"), x.astype("i4")), A * 9
    ),
}


def every_reduction(m: Any, x: Any, i: Any, axis: Any) -> tuple[Any, ...]:
    floats = (m.sum(x, axis=axis), m.prod(x, axis), m.min(x, axis), m.max(x, axis, keepdims=True), m.mean(x, axis))
    return (*floats, m.any(x > 1, axis), m.all(i > 0, axis), m.mean(i, axis), m.sum(i, axis), m.prod(i, axis))


REDUCED: dict[str, Row] = {
    f"axis={axis}": row(
        rd.capture(rd.algorithm(lambda x, i, *, axis: every_reduction(rd, x, i, axis)), axis=axis),
        lambda x, i, axis=axis: every_reduction(np, x, i, axis),
        C,
        (C * 9).astype("i2"),
    )
    for axis in (None, 0, 1, -1, (0, 1), (0, 2))
} | {
    "dtype": row(
        lambda x: (rd.sum(x, dtype=rd.f64), rd.sum(x, axis=0, dtype=rd.i32)),
        lambda x: (x.sum(dtype="f8"), x.sum(0, dtype="i4")),
        (C * 9).astype("i2"),
    ),
    "widening": row(
        lambda a, b, c, d: (rd.sum(a), rd.sum(b), rd.sum(c), rd.sum(d), rd.mean(d)),
        lambda a, b, c, d: (a.sum(dtype="i8"), b.sum(), c.sum(), d.sum(), d.mean()),
        np.array([True, True]),
        np.array([200, 200], "u1"),
        np.array([100, 100], "i1"),
        np.array([1000, 3000], "f2"),
    ),
    "ties and NaN": row(
        lambda x: (rd.argmin(x), rd.argmax(x), rd.argmin(x, axis=0), rd.argmax(x, axis=1, keepdims=True)),
        lambda x: (np.argmin(x), np.argmax(x), np.argmin(x, 0), np.argmax(x, 1, keepdims=True)),
        np.array([[1, 1, np.nan], [0, 0, 5]], "f"),
    ),
    "an axis named twice": row(lambda x: rd.sum(x, axis=(0, 0)), rd.ShapeError, A),
    "rd.reduce along axes": row(
        lambda x: (
            rd.reduce(rd.add, 0, x),
            rd.reduce(rd.add, 0, x, axis=1),
            rd.reduce(rd.maximum, -np.inf, x, axis=-1),
        ),
        lambda x: (x.sum(0), x.sum(1), x.max(1)),
        A,
    ),
    "neutral broadcasts to the element": row(
        lambda x, v: (rd.reduce(rd.maximum, v, x), rd.reduce(rd.maximum, -np.inf, x)),
        lambda x, v: (np.maximum(x.max(0), v), x.max(0)),
        A,
        V,
    ),
    "operators by NumPy's names": row(
        lambda x, b: (
            *(rd.reduce(rd.logical_and, True, b), rd.reduce(rd.bitwise_xor, 0, x)),
            *(rd.reduce(rd.multiply, 1, x), rd.reduce(rd.minimum, 99, x)),
        ),
        lambda x, b: (b.all(), np.bitwise_xor.reduce(x), np.multiply.reduce(x), np.minimum.reduce(x)),
        J,
        J > 0,
    ),
    "matrix products": row(
        lambda a, b, v, c: (a @ b, a @ v, rd.dot(v, v), rd.matmul(a, b), c @ rd.swapaxes(c, 1, 2)),
        lambda a, b, v, c: (a @ b, a @ v, v @ v, a @ b, c @ c.swapaxes(1, 2)),
        A,
        A.T.copy(),
        V,
        C,
    ),
}

LOOPED: dict[str, Row] = {
    "over whole arrays": row(
        lambda x: rd.loop(3, lambda t, s: s + rd.roll(s, 1) * t, x),
        lambda x: iterations(3, lambda s, t: s + np.roll(s, 1) * np.float32(t), x),
        V,
    ),
    "as often as a size": row(
        lambda x, n: rd.loop(n, lambda t, s: s * 2, x), lambda x, n: x * 2**n, V, 3, x="f32[k]", n="size"
    ),
    "as often as data": row(lambda x, n: rd.loop(n, lambda t, s: s * 2, x), lambda x, n: x * 8, V, np.int32(3)),
    "not at all": row(
        lambda x, n: (rd.loop(n, lambda t, s: s * 2, x), rd.loop(0, lambda t, s: s * 2, x)),
        lambda x, n: (x, x),
        V,
        np.int32(-3),
    ),
    "tuples as state": row(
        lambda x: rd.loop(3, lambda t, s: (s[1], s[0] * 2), (x, x + 1)), lambda x: ((x + 1) * 2, x * 4), V
    ),
    "until the data say": row(
        lambda x: rd.while_loop(lambda s: rd.sum(s) < 100, lambda s: s * 2, x),
        lambda x: until(lambda s: s.sum() >= 100, lambda s: s * 2, x),
        abs(V),
    ),
    "until each element says": row(
        lambda x: rd.map(lambda v: rd.while_loop(lambda s: s[0] > 1, lambda s: (s[0] // 2, s[1] + 1), (v, 0))[1], x),
        np.array([0, 3, 3, 0]),
        np.array([1, 8, 9, 0]),
    ),
    "through the elements of a row": row(
        lambda x: rd.map(lambda r: rd.loop(r.shape[0], lambda i, s: s + r[i] * i, 0.0), x),
        lambda x: (x * np.arange(7, dtype="f")).sum(1),
        A,
    ),
    "cond over whole arrays": row(
        lambda x, p, q: (
            rd.cond(p, lambda: x * 2, lambda: x[::-1]),
            rd.cond(q, lambda: (x, rd.sum(x)), lambda: (-x, x[0])),
        ),
        lambda x, p, q: (x * 2, (-x, x[0])),
        V,
        True,
        False,
    ),
    "cond in a loop, a loop in cond": row(
        lambda x, p: (
            rd.loop(4, lambda t, s: rd.cond(t % 2 == 0, lambda: s * 2, lambda: s + 1), x),
            rd.cond(p, lambda: rd.loop(3, lambda t, s: s * 2, x), lambda: x),
        ),
        lambda x, p: ((x * 2 + 1) * 2 + 1, x * 8),
        V,
        True,
    ),
    "the branch not taken is not evaluated": row(
        lambda x, i: rd.cond(i > 9, lambda: x[i], lambda: x[0]), lambda x, i: x[0], V, np.int64(8)
    ),
    "rd.where evaluates both": row(lambda x, i: rd.where(i > 9, x[i], x[0]), rd.IndexOutOfRange, V, np.int64(8)),
}


@pytest.mark.parametrize("case", MADE)
def test_arrays_are_made(case: str) -> None:
    hold(MADE[case])


@pytest.mark.parametrize("case", MOVED)
def test_arrays_are_moved(case: str) -> None:
    hold(MOVED[case])


@pytest.mark.parametrize("case", REDUCED)
def test_arrays_are_reduced(case: str) -> None:
    hold(REDUCED[case])


@pytest.mark.parametrize("case", LOOPED)
def test_loops_and_branches(case: str) -> None:
    hold(LOOPED[case])
