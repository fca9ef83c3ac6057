"""The contract on indexing, gathering, updates and stencils, row by row: interpreted and compiled."""

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
V = rng.standard_normal(7).astype("f")
W = rng.standard_normal(7).astype("f")
FAR = np.array([-9, -1, 0, 6, 7, 20, 3])
ROWS, COLUMNS = np.array([0, 4, 2]), np.array([6, 1, 3])


def alike(function: Callable[..., Any], *arguments: Any, **types: str) -> Row:
    """The same function of traced arrays and of NumPy's."""
    return row(function, function, *arguments, **types)


def changed(change: Callable[[np.ndarray], None]) -> Callable[..., np.ndarray]:
    """A function of an array that gives a changed copy."""

    def function(x: np.ndarray, *_: Any) -> np.ndarray:
        copy = x.copy()
        change(copy)
        return copy

    return function


def assign(key: Any, value: Any) -> Callable[..., np.ndarray]:
    return changed(lambda y: y.__setitem__(key, value(y[key])))


INDEXING: dict[str, Row] = {
    "literals count from the end, `...` and None are NumPy's": alike(
        lambda x: (x[-1], x[-1, -2], x[..., -1], x[None, ..., 0], x[:, None], x[...], x[2:4, ..., 1]), A
    ),
    "negative steps": alike(lambda x: (x[::-1], x[:, ::-2], x[4:0:-1], x[-2::-3, 1:5:2], x[10:-100:-1]), A),
    "literal bounds clamp": alike(lambda x: (x[2:100], x[-100:2], x[3:1], x[:, 9:], x[-3:-1]), A),
    "size bounds clamp": alike(lambda x, n: (x[n:], x[:n], x[n : n + 2], x[::2][:n]), V, 3, x="f32[k]", n="size"),
    "size bounds beyond the end": alike(lambda x, n: (x[n:], x[:n], x[n : n + 2]), V, 30, x="f32[k]", n="size"),
    "a size as an index": alike(lambda x, n: x[n], V, 3, x="f32[k]", n="size"),
    "a size as an index is checked": row(lambda x, n: x[n], rd.IndexOutOfRange, V, 7, x="f32[k]", n="size"),
    "index arrays": alike(
        lambda x, i, j: (x[i, j], x[i], x[:, i], x[i, :, None], x[i[:, None], j[None]], x[0, j], x[i][:, 1]),
        A,
        ROWS,
        COLUMNS,
    ),
    "index arrays of any integer type": alike(lambda x, i: x[i], V, COLUMNS.astype("u1")),
    "an index array out of range": row(lambda x, i: x[i], rd.IndexOutOfRange, V, np.array([7])),
    "a negative traced index is out of range": row(lambda x, i: x[i], rd.IndexOutOfRange, V, np.array([-1])),
    "so is one beyond i64": row(lambda x, i: x[i], rd.IndexOutOfRange, V, np.array([2**63 + 1], "u8")),
    "constant index arrays count from the end": alike(lambda x: (x[ROWS, [-1, -2, 0]], x[[0, -1]], x[np.int64(-1)]), A),
    "views of elements": row(lambda x: (x.view(rd.i32), rd.view(x, rd.u32)), lambda x: (x.view("i4"), x.view("u4")), A),
}


def padded(mode: str) -> Callable[..., np.ndarray]:
    return lambda x, i: np.pad(x, 30, mode=mode)[i + 30]  # type: ignore[call-overload]


GATHER: dict[str, Row] = {
    "raise": row(lambda x, i: rd.gather(x, i), rd.IndexOutOfRange, V, FAR),
    "raise by name": row(lambda x, i: rd.gather(x, i, mode="raise"), lambda x, i: x[i], V, COLUMNS),
    "clamp": row(lambda x, i: rd.gather(x, i, mode="clamp"), padded("edge"), V, FAR),
    "wrap": row(lambda x, i: rd.gather(x, i, mode="wrap"), padded("wrap"), V, FAR),
    "mirror": row(lambda x, i: rd.gather(x, i, mode="mirror"), padded("reflect"), V, FAR),
    "symmetric": row(lambda x, i: rd.gather(x, i, mode="symmetric"), padded("symmetric"), V, FAR),
    "constant": row(
        lambda x, i: rd.gather(x, i, mode=rd.constant(-1)),
        lambda x, i: np.where((i < 0) | (i > 6), np.float32(-1), x[np.clip(i, 0, 6)]),
        V,
        FAR,
    ),
    "one for each axis": row(
        lambda x, i, j: rd.gather(x, (i, j), mode=("clamp", "wrap")),
        lambda x, i, j: x[np.clip(i, 0, 4), j % 7],
        A,
        FAR,
        FAR,
    ),
    "a scalar index": row(lambda x, i: rd.gather(x, i, mode="clamp"), lambda x, i: x[6], V, np.int64(99)),
    "from nothing": row(lambda x, i: rd.gather(x, i, mode="clamp"), rd.SizeMismatch, V[:0], FAR),
    "from nothing, of a constant": row(
        lambda x, i: rd.gather(x, i, mode=rd.constant(2.0)), lambda x, i: np.full(7, 2, "f"), V[:0], FAR
    ),
}

UPDATES: dict[str, Row] = {
    "set": row(lambda x: x.at[1].set(0), assign(1, lambda old: 0), A),
    "add to a slice": row(
        lambda x: x.at[1:3, ::2].add(5), assign((slice(1, 3), slice(None, None, 2)), lambda old: old + 5), A
    ),
    "multiply from the end": row(lambda x: x.at[-1, 2].multiply(3), assign((-1, 2), lambda old: old * 3), A),
    "min with an ellipsis": row(lambda x: x.at[..., 0].min(0), assign((..., 0), lambda old: np.minimum(old, 0)), A),
    "max backwards": row(lambda x: x.at[::-2].max(0), assign(slice(None, None, -2), lambda old: np.maximum(old, 0)), A),
    "set a column to another": row(
        lambda x: x.at[:, 1].set(x[:, 0]), changed(lambda y: y.__setitem__((slice(None), 1), y[:, 0])), A
    ),
    "at a traced index": row(lambda x, i: x.at[i].set(1), assign(2, lambda old: 1), A, np.int64(2)),
    "a traced index is checked": row(lambda x, i: x.at[i].set(1), rd.IndexOutOfRange, A, np.int64(5)),
    "a negative one too": row(lambda x, i: x.at[i].set(1), rd.IndexOutOfRange, A, np.int64(-1)),
    "in a function of elements": row(
        lambda x, k: rd.map(lambda r, i: r.at[i].add(9), x, k),
        lambda x, k: x + 9 * (np.arange(7) == k[:, None]).astype("f"),
        A,
        np.array([0, 6, 2, 2, 1]),
    ),
}


def around(x: np.ndarray, mode: str = "edge", **options: Any) -> np.ndarray:
    return np.pad(x, 1, mode=mode, **options)  # type: ignore[call-overload]


STENCILS: dict[str, Row] = {
    "a boundary for each axis": row(
        lambda x: rd.stencil(lambda p: p[-1, 0] + p[0, 1], x, boundary=("clamp", "wrap")),
        lambda x: around(x)[:-2, 1:-1] + np.roll(x, -1, 1),
        A,
    ),
    "a constant and valid": row(
        lambda x: rd.stencil(lambda p: p[-1, 0] + p[0, 1], x, boundary=(rd.constant(2), "valid")),
        lambda x: around(x, "constant", constant_values=2)[:-2, 1:-2] + x[:, 1:],
        A,
    ),
    "stride": row(
        lambda x: rd.stencil(lambda p: p[0, 0] + p[1, 1], x, stride=(2, 3)),
        lambda x: (x + around(x)[2:, 2:])[::2, ::3],
        A,
    ),
    "invariants": row(
        lambda x, y: rd.stencil(lambda p, c: p[0, 1] * c, x, invariant=(y,)),
        lambda x, y: around(x)[1:-1, 2:] * y,
        A,
        A[::-1].copy(),
    ),
    "several arrays, several results": row(
        lambda x, y: rd.stencil(lambda p, q: (p[0] + q[1], p[1] * q[0]), x, y),
        lambda x, y: (x + around(y)[2:], around(x)[2:] * y),
        V,
        W,
    ),
    "bytes": row(
        lambda x: rd.stencil(lambda p: (p[-1] + p[0] + p[1]) // 3, x),
        lambda x: (around(x)[:-2] + x + around(x)[2:]) // np.uint8(3),
        rng.integers(0, 256, 20).astype("u1"),
    ),
    "four dimensions": row(
        lambda x: rd.stencil(lambda p: p[-1, 0, 0, 1] + p[0, 1, -1, 0], x, boundary="wrap"),
        lambda x: np.roll(x, (1, -1), (0, 3)) + np.roll(x, (-1, 1), (1, 2)),
        rng.standard_normal((2, 3, 4, 5)).astype("f"),
    ),
    "in a function of elements": row(
        lambda x: rd.map(lambda r: rd.stencil(lambda p: p[-1] + p[1], r), x),
        lambda x: around(x)[1:-1, :-2] + around(x)[1:-1, 2:],
        A,
    ),
    "a window of another rank": row(lambda x: rd.stencil(lambda p: p[-1], x), rd.ShapeError, A),
}

BOUNDARIES = {"clamp": "edge", "wrap": "wrap", "mirror": "reflect", "symmetric": "symmetric"}
SMALLER: dict[str, Row] = {}
for size in (0, 1, 2, 3):
    x = np.arange(size, dtype="f") + 1
    for boundary, mode in BOUNDARIES.items():
        big = np.pad(x, 5, mode=mode) if size else np.zeros(10, "f")  # type: ignore[call-overload]
        want = big[:size] + 2 * big[9 : 9 + size]
        program = rd.algorithm(lambda x, *, b: rd.stencil(lambda p: p[-5] + 2 * p[4], x, boundary=b))
        SMALLER[f"{boundary} of {size}"] = row(rd.capture(program, b=boundary), want, x)
    program = rd.algorithm(lambda x: rd.stencil(lambda p: p[-5] + 2 * p[4], x, boundary=rd.constant(7)))
    SMALLER[f"a constant around {size}"] = row(program, np.full(size, 21, "f"), x)
    program = rd.algorithm(lambda x: rd.stencil(lambda p: p[-5] + 2 * p[4], x, boundary="valid"))
    SMALLER[f"valid in {size}"] = row(program, np.zeros(0, "f"), x)


@pytest.mark.parametrize("case", INDEXING)
def test_indexing_is_numpys_and_checked(case: str) -> None:
    hold(INDEXING[case])


@pytest.mark.parametrize("case", GATHER)
def test_gather_has_a_mode(case: str) -> None:
    hold(GATHER[case])


@pytest.mark.parametrize("case", UPDATES)
def test_updates_are_new_arrays(case: str) -> None:
    hold(UPDATES[case])


@pytest.mark.parametrize("case", STENCILS)
def test_stencils(case: str) -> None:
    hold(STENCILS[case])


@pytest.mark.parametrize("case", SMALLER)
def test_boundaries_hold_for_sizes_smaller_than_the_halo(case: str) -> None:
    hold(SMALLER[case])
