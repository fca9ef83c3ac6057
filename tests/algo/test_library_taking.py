"""NumPy's functions that choose and find elements, and those of diagonals and grids, give NumPy's results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from numpy_twin import NUMBERS, same, sample

import raido as rd

ids = str


@pytest.mark.parametrize("axis", [None, 0, 1, -1], ids=ids)
@pytest.mark.parametrize("indices", [0, 2, [1, 0], [2, -1, -3], [[0, 1], [2, 2]], []], ids=ids)
def test_take(axis: Any, indices: Any) -> None:
    same(
        lambda a: (rd.take(a, indices, axis), a.take(indices, axis=axis)),
        lambda a: (np.take(a, np.array(indices, np.int64), axis), a.take(np.array(indices, np.int64), axis=axis)),
        sample((3, 4), np.float32),
    )


@pytest.mark.parametrize("mode", ["wrap", "clip"])
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16])
def test_take_of_indices_out_of_range(mode: str, dtype: Any) -> None:
    places = np.array([[-7, -1, 0], [3, 4, 11]]).astype(dtype)
    same(
        lambda a, i: (rd.take(a, i, 1, mode=mode), rd.take(a, i, mode=mode)),
        lambda a, i: (np.take(a, i.astype(np.int64), 1, mode=mode), np.take(a, i.astype(np.int64), mode=mode)),
        sample((3, 4), np.int16),
        places,
        compiled=dtype is np.int64,
    )


def test_take_checks_indices() -> None:
    program = rd.algorithm(lambda a, i: rd.take(a, i, 1))
    for run in (program.interpret, program):
        for place in (4, -1):
            with pytest.raises(rd.IndexOutOfRange):
                run(np.zeros((3, 4)), np.array([0, place]))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_take_along_axis(dtype: Any) -> None:
    a = sample((3, 4), dtype)
    places = np.random.default_rng(0).integers(0, 3, (2, 4))
    same(lambda a, i: rd.take_along_axis(a, i, 0), lambda a, i: np.take_along_axis(a, i, 0), a, places)
    if np.dtype(dtype).kind != "c":
        same(
            lambda a: (
                rd.take_along_axis(a, rd.argsort(a, 1), axis=1),
                rd.take_along_axis(a, rd.argsort(a, None), None),
            ),
            lambda a: (np.sort(a, 1), np.sort(a, None)),
            np.nan_to_num(a).round() + np.zeros_like(a),
        )


def test_take_along_axis_of_the_largest() -> None:
    same(
        lambda a: rd.take_along_axis(a, rd.argmax(a, axis=1, keepdims=True), 1),
        lambda a: a.max(axis=1, keepdims=True),
        sample((3, 4, 2), np.int32),
        compiled=True,
    )
    with pytest.raises(rd.ShapeError):
        rd.algorithm(lambda a: rd.take_along_axis(a, rd.argmax(a, axis=1), 1)).interpret(np.zeros((2, 2)))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_select(dtype: Any) -> None:
    a, b = sample((3, 4), dtype), sample((4,), dtype, 1)
    same(
        lambda a, b, p, q: (rd.select([p, q], [a, b]), rd.select((q, p), (a, b), default=a), rd.select([p], [a], b)),
        lambda a, b, p, q: (np.select([p, q], [a, b]), np.select((q, p), (a, b), default=a), np.select([p], [a], b)),
        *(a, b, sample((3, 4), np.bool_, 2), sample((3, 4), np.bool_, 3)),
    )


def test_select_needs_a_choice_for_each_condition() -> None:
    with pytest.raises(rd.ShapeError):
        rd.algorithm(lambda a: rd.select([a > 0, a < 0], [a])).interpret(np.zeros(2))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_elements_that_are_not_zero(dtype: Any) -> None:
    for shape in ((5,), (3, 4), (0,), (2, 0), (2, 3, 2)):
        a = np.where(sample(shape, np.bool_, 1), sample(shape, dtype), np.zeros((), dtype))
        same(
            lambda a: (rd.nonzero(a), a.nonzero(), rd.flatnonzero(a), rd.argwhere(a), rd.count_nonzero(a)),
            lambda a: (np.nonzero(a), a.nonzero(), np.flatnonzero(a), np.argwhere(a), np.int64(np.count_nonzero(a))),
            a,
        )


def test_count_nonzero_along_axes() -> None:
    same(
        lambda a: (rd.count_nonzero(a, 0), rd.count_nonzero(a, axis=(0, -1), keepdims=True)),
        lambda a: (np.count_nonzero(a, 0), np.count_nonzero(a, axis=(0, -1), keepdims=True)),
        sample((3, 4, 2), np.uint8) % 3,
    )


def test_places_index_the_array() -> None:
    same(lambda a: a[rd.nonzero(a > 1)], lambda a: a[np.nonzero(a > 1)], sample((3, 4), np.int32), compiled=True)
    with pytest.raises(rd.ShapeError):
        rd.algorithm(lambda a: rd.nonzero(a)).interpret(np.float64(1))


SHAPES = ((3, 3), (2, 4), (4, 2), (0, 3), (3, 0), (1, 1))


@pytest.mark.parametrize("k", [-4, -2, -1, 0, 1, 2, 5])
def test_triangles(k: int) -> None:
    for shape in SHAPES:
        same(
            lambda a: (rd.tril(a, k), rd.triu(a, k)), lambda a: (np.tril(a, k), np.triu(a, k)), sample(shape, np.int16)
        )
    same(
        lambda a, v: (rd.tril(a, k=k), rd.triu(v, k), rd.tri(3, 4, k), rd.tri(3, k=k, dtype=rd.i8)),
        lambda a, v: (np.tril(a, k=k), np.triu(v, k), np.tri(3, 4, k), np.tri(3, k=k, dtype=np.int8)),
        sample((2, 3, 4), np.float32),
        sample((3,), np.float32),
    )


@pytest.mark.parametrize("k", [-4, -2, -1, 0, 1, 2, 5])
def test_diagonals(k: int) -> None:
    for shape in SHAPES:
        same(
            lambda a: (rd.diagonal(a, k), rd.diag(a, k), a.diagonal(offset=k)),
            lambda a: (np.diagonal(a, k), np.diag(a, k), a.diagonal(offset=k)),
            sample(shape, np.float32),
        )
    same(lambda v: rd.diag(v, k), lambda v: np.diag(v, k), sample((3,), np.float32))
    same(lambda v: rd.diag(v, k), lambda v: np.diag(v, k), sample((0,), np.int8))
    same(
        lambda a: (rd.diagonal(a, k, 0, 2), rd.diagonal(a, k, axis1=-1, axis2=-2)),
        lambda a: (np.diagonal(a, k, 0, 2), np.diagonal(a, k, axis1=-1, axis2=-2)),
        sample((2, 3, 4), np.int16),
    )


@pytest.mark.parametrize("dtype", NUMBERS)
def test_diagonals_of_every_type(dtype: Any) -> None:
    same(
        lambda a, v: (rd.diag(v, 1), rd.diag(a), rd.tril(a), rd.triu(a, 1)),
        lambda a, v: (np.diag(v, 1), np.diag(a), np.tril(a), np.triu(a, 1)),
        sample((3, 4), dtype),
        sample((3,), dtype),
    )


def test_ranks_without_a_diagonal_are_refused() -> None:
    for program in (lambda a: rd.diag(a), lambda a: rd.diagonal(a, 0, 1, 1), lambda a: rd.tril(a[0, 0, 0])):
        with pytest.raises(rd.ShapeError):
            rd.algorithm(a="f32[n, m, k]")(program).trace()


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_meshgrid(indexing: str, count: int) -> None:
    x, y, z = np.arange(3.0), np.arange(4, dtype="f"), np.arange(2)
    same(
        lambda x, y, z: rd.meshgrid(*(x, y, z)[:count], indexing=indexing),
        lambda x, y, z: np.meshgrid(*(x, y, z)[:count], indexing=indexing),
        *(x, y, z),
    )
    same(
        lambda x, y, z: rd.meshgrid(x, y, z, sparse=True, indexing=indexing),
        lambda x, y, z: np.meshgrid(x, y, z, sparse=True, indexing=indexing),
        *(x, y, z),
    )


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 0), (2, 1, 3)], ids=ids)
def test_indices(shape: tuple[int, ...]) -> None:
    same(
        lambda: (rd.indices(shape), rd.indices(shape, dtype=rd.i32), rd.indices(shape, sparse=True)),
        lambda: (np.indices(shape), np.indices(shape, dtype=np.int32), np.indices(shape, sparse=True)),
    )


@pytest.mark.parametrize("order", ["C", "F"])
def test_flat_indices(order: str) -> None:
    shape, flat = (3, 4, 5), np.array([[0, 7, 59], [12, 30, 58]])
    same(
        lambda i: rd.unravel_index(i, shape, order=order),
        lambda i: np.unravel_index(i, shape, order=order),
        flat,
        compiled=True,
    )
    same(
        lambda i, j, k: rd.ravel_multi_index((i, j, k), shape, order=order),
        lambda i, j, k: np.ravel_multi_index((i, j, k), shape, order=order),
        *np.unravel_index(flat, shape),
        compiled=True,
    )
    same(
        lambda i, j, k: rd.ravel_multi_index((i, j, k), shape, ("clip", "wrap", "clip"), order),
        lambda i, j, k: np.ravel_multi_index((i, j, k), shape, ("clip", "wrap", "clip"), order),
        *(np.array([-1, 7]), np.array([-1, 9]), np.array([2, 5])),
    )
    same(lambda i: rd.unravel_index(i, 7), lambda i: np.unravel_index(i, 7), np.array(3))


def test_flat_indices_are_checked() -> None:
    apart = rd.algorithm(lambda i: rd.unravel_index(i, (2, 3)))
    flat = rd.algorithm(lambda i: rd.ravel_multi_index((i, i), (2, 3)))
    for program, place in ((apart, 6), (apart, -1), (flat, 2), (flat, -1)):
        for run in (program.interpret, program):
            with pytest.raises(rd.IndexOutOfRange):
                run(np.array([0, place]))
    with pytest.raises(rd.ShapeError):
        rd.algorithm(lambda i: rd.ravel_multi_index((i, i), (2, 3, 4))).interpret(np.array([0]))


@rd.algorithm
def of_sizes(a: rd.f32["n", "m"], i: rd.i64["k"]):
    chosen = rd.take(a, i, 1, mode="wrap"), rd.take(a, i, mode="clip"), rd.take_along_axis(a, rd.argsort(a, 0), 0)
    found = rd.nonzero(a), rd.argwhere(a), rd.count_nonzero(a, 1)
    parts = rd.tril(a), rd.triu(a, 1), rd.diagonal(a), rd.diag(a, -1), rd.diag(a[0], 1)
    grid = rd.meshgrid(a[0], a[:, 0]), rd.indices(a.shape), rd.unravel_index(rd.iota(a.size), a.shape)
    return chosen, found, parts, grid


def of_sizes_in_numpy(a: Any, i: Any) -> Any:
    chosen = np.take(a, i, 1, mode="wrap"), np.take(a, i, mode="clip"), np.sort(a, 0)
    found = np.nonzero(a), np.argwhere(a), np.count_nonzero(a, 1)
    parts = np.tril(a), np.triu(a, 1), np.diagonal(a), np.diag(a, -1), np.diag(a[0], 1)
    grid = np.meshgrid(a[0], a[:, 0]), np.indices(a.shape), np.unravel_index(np.arange(a.size), a.shape)
    return chosen, found, parts, grid


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (1, 1)], ids=ids)
def test_sizes_need_not_be_known_while_tracing(shape: tuple[int, int]) -> None:
    a = np.random.default_rng(0).integers(-2, 3, shape).astype("f")
    same(of_sizes, of_sizes_in_numpy, a, np.array([0, 9, -3]), compiled=True)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(axis: int) -> None:
    classes = np.array([[2, 0, 1], [-1, 3, 2]])
    for dtype in (np.int8, np.int64):
        same(
            lambda c: rd.one_hot(c, 3, dtype=rd.f32, axis=axis),
            lambda c: np.moveaxis((c[..., None] == np.arange(3)).astype(np.float32), -1, axis),
            classes.astype(dtype),
        )
    same(lambda c: rd.one_hot(c, 300), lambda c: np.eye(300)[c], np.array([3, 255], np.uint8))
    with pytest.raises(rd.DTypeError):
        rd.algorithm(lambda c: rd.one_hot(c, 3)).interpret(np.zeros(2))


@pytest.mark.parametrize("dtype", [np.int16, np.uint64, np.float32, np.complex64])
def test_segment_sum(dtype: Any) -> None:
    ids, data = np.array([2, 0, -1, 2, 5, 1]), np.arange(12).reshape(6, 2).astype(dtype)

    def sums(data: Any, ids: Any) -> Any:
        total = np.zeros((4, *data.shape[1:]), data.dtype)
        for row, k in zip(data, ids, strict=True):
            if 0 <= k < 4:
                total[k] += row
        return total

    same(lambda x, s: rd.segment_sum(x, s, 4), sums, data, ids, compiled=True)
    same(lambda x, s: rd.segment_sum(x[:, 0], s, 4), lambda x, s: sums(x[:, 0], s), data, ids)
    same(lambda x, s: rd.segment_sum(x, s % 4), lambda x, s: sums(x, s % 4), data, ids)


def test_segments_of_nothing_are_none() -> None:
    none = rd.algorithm(lambda x, s: rd.segment_sum(x, s)).interpret(np.zeros((0, 2)), np.zeros(0, np.int64))
    assert none.shape == (0, 2)
