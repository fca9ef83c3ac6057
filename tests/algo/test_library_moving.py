"""NumPy's functions that move, join and split arrays give NumPy's results, to the bit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from numpy_twin import NUMBERS, alike, same, sample

import raido as rd
from raido.algo.graph.expr import SizeVar, fresh
from raido.algo.graph.index import add, as_index, floordiv, mod, mul, text
from raido.algo.language.moves import regrouped

SHAPES: tuple[tuple[int, ...], ...] = ((4,), (0,), (2, 3), (3, 0), (1, 4), (2, 3, 4), (1, 1, 3), (0, 2, 3))
ids = str


@pytest.mark.parametrize("shape", [(2, 3), (3, 0), (2, 3, 4), (2, 1, 3, 2)], ids=ids)
def test_axes_in_another_order(shape: tuple[int, ...]) -> None:
    a = sample(shape, np.float32)
    same(
        lambda a: (rd.moveaxis(a, 0, -1), rd.moveaxis(a, [0, -1], [-1, 0]), rd.swapaxes(a, axis1=0, axis2=-1)),
        lambda a: (np.moveaxis(a, 0, -1), np.moveaxis(a, [0, -1], [-1, 0]), np.swapaxes(a, axis1=0, axis2=-1)),
        a,
    )
    same(
        lambda a: (rd.expand_dims(a, 0), rd.expand_dims(a, -1), rd.expand_dims(a, axis=(0, 2)), a.swapaxes(0, 1)),
        lambda a: (np.expand_dims(a, 0), np.expand_dims(a, -1), np.expand_dims(a, axis=(0, 2)), a.swapaxes(0, 1)),
        a,
    )


@pytest.mark.parametrize("shape", SHAPES, ids=ids)
def test_elements_in_reverse_order(shape: tuple[int, ...]) -> None:
    same(
        lambda a: (
            rd.flip(a),
            rd.flip(a, 0),
            rd.flip(a, axis=-1),
            rd.flip(a, (0, -1) if a.ndim > 1 else 0),
            rd.flipud(a),
        ),
        lambda a: (
            np.flip(a),
            np.flip(a, 0),
            np.flip(a, axis=-1),
            np.flip(a, (0, -1) if a.ndim > 1 else 0),
            np.flipud(a),
        ),
        sample(shape, np.int16),
    )
    if len(shape) > 1:
        same(lambda a: rd.fliplr(a), np.fliplr, sample(shape, np.int16))


@pytest.mark.parametrize("k", range(-3, 6))
def test_rot90(k: int) -> None:
    same(lambda a: rd.rot90(a, k), lambda a: np.rot90(a, k), sample((2, 3), np.int16))
    same(lambda a: rd.rot90(a, k, (2, 0)), lambda a: np.rot90(a, k, (2, 0)), sample((2, 3, 4), np.int16))


@pytest.mark.parametrize("shape", SHAPES, ids=ids)
def test_one_dimension(shape: tuple[int, ...]) -> None:
    same(
        lambda a: (rd.ravel(a), rd.ravel(a, order="F"), a.ravel("F"), a.flatten(), a.flatten(order="F"), rd.flatten(a)),
        lambda a: (np.ravel(a), np.ravel(a, order="F"), a.ravel("F"), a.flatten(), a.flatten(order="F"), a.flatten()),
        sample(shape, np.float64),
    )


def test_reshape_joins_axes_apart_where_sizes_are_rounded_down() -> None:
    """Channels in groups and back: indices of rows and columns stay what they are, whatever the number of channels."""
    groups = rd.algorithm(x="f32[n, c, h, w]")(
        lambda x: (x.reshape(x.shape[0], 4, x.shape[1] // 4, *x.shape[2:]) * 2).reshape(*x.shape)
    )
    same(groups, lambda x: x * 2, sample((3, 8, 2, 5), np.float32), compiled=True)
    text = groups.compile().source("gang")
    assert text.count("//h") == 0 and "gather" not in text and "x[0, 0, 0, c*d0*h*w + " in text
    with pytest.raises(rd.SizeMismatch):
        groups(sample((3, 9, 2, 5), np.float32))


@pytest.mark.parametrize("shape", [(6,), (2, 3), (3, 2, 4)], ids=ids)
def test_reshape_in_column_major_order(shape: tuple[int, ...]) -> None:
    same(
        lambda a: (rd.reshape(a, (2, -1), order="F"), a.reshape(-1, 3, order="F"), a.reshape((3, 2, -1), order="F")),
        lambda a: (np.reshape(a, (2, -1), order="F"), a.reshape(-1, 3, order="F"), a.reshape((3, 2, -1), order="F")),
        sample(shape, np.int32),
    )


def test_axes_of_one_element_take_no_remainder() -> None:
    x = fresh("x")
    places = regrouped((x,), [as_index(12)], [*map(as_index, (1, 3, 4))])
    assert places == (as_index(0), floordiv(x, 4), mod(x, 4))


def test_axes_cut_into_whole_parts_are_regrouped_apart() -> None:
    h, w, k = SizeVar("h"), SizeVar("w"), as_index(4)
    parts = (floordiv(h, 2), as_index(2), floordiv(w, 4), k)
    a, b, c, d = map(fresh, "abcd")
    assert regrouped((a, b, c, d), parts, (h, w)) == (add(mul(a, 2), b), add(mul(c, 4), d))
    pooled = rd.algorithm(x=rd.f32["h", "w"])(
        lambda x: rd.max(x.reshape(x.shape[0] // 2, 2, x.shape[1] // 4, 4), (1, 3))
    )
    same(pooled, lambda x: x.reshape(3, 2, 2, 4).max(axis=(1, 3)), sample((6, 8), np.float32), compiled=True)
    with pytest.raises(rd.SizeMismatch):
        pooled(np.zeros((6, 7), "f"))
    with pytest.raises(rd.SizeMismatch):
        pooled(np.zeros((9, 8), "f"))


@pytest.mark.parametrize("whole", [lambda n, k: n // k * k, lambda n, k: n - n % k])
def test_a_crop_to_whole_parts_is_regrouped_axis_by_axis(whole: Callable[[Any, int], Any]) -> None:
    """The extent of `x[: w // 4 * 4]` is that number, not what is the least of it and w; `w - w % 4` is the same number."""
    cut = rd.algorithm(x=rd.f32["h", "w"])(
        lambda x: x[: whole(x.shape[0], 2), : whole(x.shape[1], 4)].reshape(x.shape[0] // 2, 2, x.shape[1] // 4, 4)
    )
    (result,) = cut.trace().results
    (element,) = result.form.bodies
    assert not any("//" in text(i) or "%" in text(i) for i in element.indices)
    same(cut, lambda x: x[:6, :8].reshape(3, 2, 2, 4), sample((7, 11), np.float32), compiled=True)


def test_squeeze() -> None:
    row = rd.algorithm(a="f32[1, n, 1]")
    a = sample((1, 3, 1), np.float32)
    same(
        row(
            lambda a: (rd.squeeze(a), rd.squeeze(a, 0), rd.squeeze(a, axis=(0, -1)), a.squeeze(2), rd.squeeze(a[0, 1]))
        ),
        lambda a: (np.squeeze(a), np.squeeze(a, 0), np.squeeze(a, axis=(0, -1)), a.squeeze(2), np.squeeze(a[0, 1])),
        a,
    )
    same(row(lambda a: rd.squeeze(a[:, 0])), lambda a: np.squeeze(a[:, 0]), a)


def test_squeeze_checks_the_size() -> None:
    rows = rd.algorithm(a="f32[n, m]")(lambda a: rd.squeeze(a, 0))
    same(rows, lambda a: np.squeeze(a, 0), sample((1, 3), np.float32), compiled=True)
    for run in (rows.interpret, rows):
        with pytest.raises(rd.SizeMismatch):
            run(np.zeros((2, 3), "f"))
        with pytest.raises(rd.SizeMismatch):
            run(np.zeros((2, 0), "f"))
    with pytest.raises(rd.ShapeError):
        rd.algorithm(a="f32[2, m]")(lambda a: rd.squeeze(a, 0)).trace()


@pytest.mark.parametrize("shape", [(), *SHAPES], ids=ids)
@pytest.mark.parametrize("reps", [2, (2,), (1, 3), (2, 1, 2), 0, (3, 0)], ids=ids)
def test_tile(shape: tuple[int, ...], reps: Any) -> None:
    same(lambda a: rd.tile(a, reps), lambda a: np.tile(a, reps), sample(shape, np.int32))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4)], ids=ids)
def test_rank_at_least(shape: tuple[int, ...]) -> None:
    same(
        lambda a: (rd.atleast_1d(a), rd.atleast_2d(a), rd.atleast_3d(a), rd.atleast_1d(a, 3)),
        lambda a: (np.atleast_1d(a), np.atleast_2d(a), np.atleast_3d(a), np.atleast_1d(a, 3)),
        sample(shape, np.float32),
    )


@pytest.mark.parametrize("dtype", NUMBERS)
def test_moves_keep_every_element(dtype: Any) -> None:
    same(
        lambda a: (rd.flip(a, 1), rd.rot90(a), rd.tile(a, (1, 2)), rd.ravel(a, "F"), rd.moveaxis(a, 1, 0)),
        lambda a: (np.flip(a, 1), np.rot90(a), np.tile(a, (1, 2)), np.ravel(a, "F"), np.moveaxis(a, 1, 0)),
        sample((2, 6), dtype),
    )
    same(
        lambda a, b: (rd.concatenate([a, b], 1), rd.vstack((a, b)), rd.array_split(a, 4, axis=1)),
        lambda a, b: (np.concatenate([a, b], 1), np.vstack((a, b)), np.array_split(a, 4, axis=1)),
        sample((2, 6), dtype, 1),
        sample((2, 6), dtype, 2),
    )


def test_joining() -> None:
    a, b, v, w = (sample(s, np.float32, k) for k, s in enumerate([(2, 3), (2, 3), (3,), (3,)]))
    same(
        lambda a, b, v, w: (
            rd.concatenate((a, b)),
            rd.concatenate([a, v], axis=None),
            rd.concatenate((v, w, [1.0, 2.0]), dtype=rd.f64),
            rd.vstack([a, v]),
            rd.hstack([a, b]),
            rd.hstack([v, w]),
            rd.hstack([v[0], w]),
            rd.dstack([a, b]),
            rd.dstack([v, w]),
            rd.column_stack([v, w]),
            rd.stack([v, w], axis=-1),
        ),
        lambda a, b, v, w: (
            np.concatenate((a, b)),
            np.concatenate([a, v], axis=None),
            np.concatenate((v, w, [1.0, 2.0]), dtype=np.float64),
            np.vstack([a, v]),
            np.hstack([a, b]),
            np.hstack([v, w]),
            np.hstack([v[0], w]),
            np.dstack([a, b]),
            np.dstack([v, w]),
            np.column_stack([v, w]),
            np.stack([v, w], axis=-1),
        ),
        *(a, b, v, w),
    )


def test_joining_promotes() -> None:
    same(
        lambda a, b: (rd.concatenate([a, b]), rd.vstack([a, b])),
        lambda a, b: (np.concatenate([a, b]), np.vstack([a, b])),
        sample((3,), np.int16),
        sample((3,), np.complex64),
    )


@pytest.mark.parametrize("shape", [(6,), (0,), (6, 2), (6, 0)], ids=ids)
@pytest.mark.parametrize("cut", [1, 2, 3, [2, 4], [1], [0, 9], [-2], [], [4, 2]], ids=ids)
def test_split(shape: tuple[int, ...], cut: Any) -> None:
    same(
        lambda a: rd.split(a, cut) + rd.array_split(a, cut),
        lambda a: tuple(np.split(a, cut)) + tuple(np.array_split(a, cut)),
        sample(shape, np.int32),
    )


def test_split_along_axes() -> None:
    same(
        lambda a: (*rd.hsplit(a, 2), *rd.vsplit(a, [1]), *rd.dsplit(a, 3), *rd.split(a, 2, axis=-2)),
        lambda a: (*np.hsplit(a, 2), *np.vsplit(a, [1]), *np.dsplit(a, 3), *np.split(a, 2, axis=-2)),
        sample((2, 4, 3), np.float32),
    )
    same(lambda a: rd.hsplit(a, 2), lambda a: tuple(np.hsplit(a, 2)), sample((4,), np.complex64))


@pytest.mark.parametrize("size", [0, 1, 4, 5, 6, 7])
def test_array_split_into_sections_that_differ(size: int) -> None:
    parts = rd.algorithm(a="i64[n]")(lambda a: rd.array_split(a, 3))
    same(parts, lambda a: tuple(np.array_split(a, 3)), np.arange(size), compiled=True)


def test_split_checks_that_sections_are_equal() -> None:
    halves = rd.algorithm(a="i64[n]")(lambda a: rd.split(a, 2))
    for run in (halves.interpret, halves):
        with pytest.raises(rd.SizeMismatch):
            run(np.arange(5))
    with pytest.raises(rd.ShapeError):
        rd.algorithm(a="i64[5]")(lambda a: rd.split(a, 2)).trace()


def test_shapes_that_do_not_fit_are_refused() -> None:
    refused = (
        lambda a: rd.expand_dims(a, 4),
        lambda a: rd.expand_dims(a, (0, 0)),
        lambda a: rd.moveaxis(a, 0, (0, 1)),
        lambda a: rd.moveaxis(a, (0, 0), (0, 1)),
        lambda a: rd.rot90(a, 1, (0, 0)),
        lambda a: rd.flip(a, 2),
        lambda a: rd.stack([a, a], 4),
        lambda a: rd.vstack([a, a[None]]),
        lambda a: rd.dsplit(a, 2),
        lambda a: rd.split(a, 0),
    )
    for program in refused:
        with pytest.raises(rd.ShapeError):
            rd.algorithm(a="f32[n, m]")(program).trace()
    with pytest.raises(rd.TraceError, match="'C' or 'F'"):
        rd.algorithm(a="f32[n, m]")(lambda a: rd.ravel(a, "X")).trace()


@rd.algorithm
def of_sizes(a: rd.f32["n", "m"], v: rd.f32["m"], k: rd.size):
    moved = rd.moveaxis(a, 0, 1), rd.flip(a), rd.rot90(a, 3), rd.ravel(a), rd.tile(a, (2, k)), rd.tile(v, k)
    joined = rd.vstack([a, v]), rd.hstack([a, a]), rd.dstack([a, a]), rd.concatenate([a, v], axis=None)
    return moved, joined, rd.split(a, [k], axis=1), rd.array_split(v, 2)


def of_sizes_in_numpy(a: Any, v: Any, k: int) -> Any:
    moved = np.moveaxis(a, 0, 1), np.flip(a), np.rot90(a, 3), np.ravel(a), np.tile(a, (2, k)), np.tile(v, k)
    joined = np.vstack([a, v]), np.hstack([a, a]), np.dstack([a, a]), np.concatenate([a, v], axis=None)
    return moved, joined, tuple(np.split(a, [k], axis=1)), tuple(np.array_split(v, 2))


@pytest.mark.parametrize("sizes", [(2, 3, 2), (1, 1, 1), (0, 3, 1), (2, 0, 3), (3, 5, 0)], ids=ids)
def test_sizes_need_not_be_known_while_tracing(sizes: tuple[int, int, int]) -> None:
    n, m, k = sizes
    same(of_sizes, of_sizes_in_numpy, sample((n, m), np.float32), sample((m,), np.float32), k, compiled=True)


def test_structures_are_moved_array_by_array() -> None:
    program = rd.algorithm(lambda a, b: (rd.flip((a, b), 0), *rd.split((a, b), 2)))
    a, b = np.arange(4), np.arange(8.0).reshape(4, 2)
    (fa, fb), (a0, b0), (a1, b1) = program.interpret(a, b)
    alike((fa, fb, a0, b0, a1, b1), (a[::-1], b[::-1], a[:2], b[:2], a[2:], b[2:]))


def test_moves_are_no_stages() -> None:
    used = rd.algorithm(a="f32[n, m]")(lambda a: rd.tile(rd.flip(rd.concatenate([a, a]), 1), (1, 2)) + 1)
    assert used.compile().source("nest").count("produce") == 1


def test_numpys_parameter_names_are_accepted() -> None:
    same(
        lambda a: (
            rd.pad(array=a, pad_width=1),
            rd.broadcast_to(array=a, shape=(2, 3)),
            rd.flip(m=a, axis=0),
            rd.tile(A=a, reps=2),
        ),
        lambda a: (
            np.pad(array=a, pad_width=1),
            np.broadcast_to(array=a, shape=(2, 3)),
            np.flip(m=a, axis=0),
            np.tile(A=a, reps=2),
        ),
        np.array([1, 2, 3]),
    )
