"""NumPy's arrays made of sizes and scalars give NumPy's results, to the bit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from numpy_twin import NUMBERS, REAL, alike, same, sample

import raido as rd

SHAPES: tuple[Any, ...] = (3, (), (0,), (2, 0), (2, 3), (2, 1, 3))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_zeros_ones_full(shape: Any) -> None:
    same(lambda: rd.zeros(shape), lambda: np.zeros(shape))
    same(lambda: rd.ones(shape), lambda: np.ones(shape))


@pytest.mark.parametrize("value", [7, -2.5, True, 1.5 - 2j, -0.0, np.nan, np.float32(2)], ids=str)
def test_full(value: Any) -> None:
    same(lambda: (rd.full((2, 3), value), rd.full((), value)), lambda: (np.full((2, 3), value), np.full((), value)))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_the_type_may_be_given(dtype: Any) -> None:
    same(
        lambda: (rd.zeros((2, 3), dtype), rd.ones(3, dtype=dtype), rd.full((1, 2), fill_value=1, dtype=dtype)),
        lambda: (np.zeros((2, 3), dtype), np.ones(3, dtype), np.full((1, 2), 1, dtype)),
    )
    same(
        lambda: (rd.eye(3, 4, k=-1, dtype=dtype), rd.identity(2, dtype)),
        lambda: (np.eye(3, 4, k=-1, dtype=dtype), np.identity(2, dtype)),
    )


@pytest.mark.parametrize("dtype", NUMBERS)
def test_like_another_array(dtype: Any) -> None:
    for shape in ((), (0, 3), (2, 3)):
        same(
            lambda a: (rd.zeros_like(a), rd.ones_like(a), rd.full_like(a, 1), rd.full_like(a, True, shape=(2,))),
            lambda a: (np.zeros_like(a), np.ones_like(a), np.full_like(a, 1), np.full_like(a, True, shape=(2,))),
            sample(shape, dtype),
        )
    same(
        lambda a: (rd.zeros_like(a, rd.f32), rd.ones_like(a, shape=(3, 1))),
        lambda a: (np.zeros_like(a, np.float32), np.ones_like(a, shape=(3, 1))),
        sample((2, 3), dtype),
    )


def test_full_broadcasts_an_array() -> None:
    same(lambda a: rd.full((2, 3), a), lambda a: np.full((2, 3), a), np.float32([1, 2, 3]))
    column = rd.algorithm(a="f32[2, 1]")(lambda a: rd.full((2, 3), a, rd.i16))
    same(column, lambda a: np.full((2, 3), a, np.int16), np.float32([[1], [2]]))


def test_full_of_structures_is_one() -> None:
    parts = rd.algorithm(lambda: rd.full(2, (1, 0.5))).interpret()
    alike(parts, (np.array([1, 1]), np.array([0.5, 0.5])))
    Point = rd.record(x=rd.f32, n=rd.i32)
    zeros = rd.algorithm(p=Point["n"])(lambda p: rd.zeros_like(p)).interpret(
        {"x": np.ones(2, "f"), "n": np.ones(2, np.int32)}
    )
    alike((zeros["x"], zeros["n"]), (np.zeros(2, "f"), np.zeros(2, np.int32)))


def test_a_literal_that_does_not_fit_is_refused() -> None:
    with pytest.raises(rd.DTypeError, match="300 does not fit i8"):
        rd.algorithm(lambda: rd.full(3, 300, rd.i8)).interpret()


RANGES = ((5,), (0,), (-3,), (2, 7), (7, 2), (7, 2, -2), (0, 10, 3), (-5, 5, 4), (10, 0, -3))
FLOAT_RANGES = ((1.0, 2, 0.1), (0.5,), (0, 1, 0.1), (3, 0, -0.7), (1, 2, 0.3), (0.1, 1.3, 0.1), (2.0, 1.0))


@pytest.mark.parametrize("bounds", RANGES + FLOAT_RANGES, ids=str)
def test_arange(bounds: Any) -> None:
    same(lambda: rd.arange(*bounds), lambda: np.arange(*bounds))


@pytest.mark.parametrize("bounds", RANGES + FLOAT_RANGES, ids=str)
@pytest.mark.parametrize("dtype", [np.int16, np.int64, np.float16, np.float32, np.float64])
def test_arange_in_a_type(bounds: Any, dtype: Any) -> None:
    same(lambda: rd.arange(*bounds, dtype=dtype), lambda: np.arange(*bounds, dtype=dtype))


@pytest.mark.parametrize("dtype", [d for d in REAL if d not in (np.bool_, np.uint64)])
def test_arange_between_traced_bounds(dtype: Any) -> None:
    wide = np.float64 if np.dtype(dtype).kind == "f" else np.int64
    low, high, by = dtype(2), dtype(9), dtype(3)
    same(
        lambda a, b, s: (rd.arange(b), rd.arange(a, b), rd.arange(a, b, s), rd.arange(b, a), rd.arange(b, a, -2)),
        lambda a, b, s: tuple(
            np.arange(*(x.astype(wide) if isinstance(x, np.generic) else x for x in bounds))
            for bounds in ((b,), (a, b), (a, b, s), (b, a), (b, a, -2))
        ),
        low,
        high,
        by,
    )


def test_arange_by_keyword() -> None:
    same(lambda: rd.arange(start=1, stop=7, step=2), lambda: np.arange(1, 7, 2))


def test_arange_refuses_a_step_of_zero() -> None:
    with pytest.raises(rd.ShapeError, match=r"step of rd\.arange is 0"):
        rd.algorithm(lambda: rd.arange(1, 2, 0)).interpret()


LINES: tuple[tuple[Any, ...], ...] = (
    *((0, 1, 5), (3, -7, 11), (0, 1), (0.1, 0.7, 13), (2, 3, 1), (2, 3, 0), (0, 10, 7), (0, -10, 7), (0, 1j, 7)),
    *((0, 5e-324, 4), (4, 4, 3), (np.inf, 1, 3), (0, np.float32(1), 7), (-0.0, 0.0, 3)),
)


@pytest.mark.parametrize("bounds", LINES, ids=str)
@pytest.mark.parametrize("endpoint", [True, False])
def test_linspace(bounds: Any, endpoint: bool) -> None:
    same(
        lambda: rd.linspace(*bounds, endpoint=endpoint, retstep=True),
        lambda: np.linspace(*bounds, endpoint=endpoint, retstep=True),
    )


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float16, np.float32])
def test_linspace_in_a_type(dtype: Any) -> None:
    same(lambda: rd.linspace(0, 10, 7, dtype=dtype), lambda: np.linspace(0, 10, 7, dtype=dtype))
    same(lambda: rd.linspace(9, 0.5, 4, False, dtype=dtype), lambda: np.linspace(9, 0.5, 4, False, dtype=dtype))


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float16, np.float32, np.float64, np.complex64, np.complex128])
def test_linspace_between_traced_bounds(dtype: Any) -> None:
    a, b = np.array([[0, 1, 2], [3, 4, 5.5]]).astype(dtype), np.array([7, 3, 1.25]).astype(dtype)
    same(
        lambda a, b: tuple(rd.linspace(a, b, 6, axis=axis) for axis in (0, 1, -1)),
        lambda a, b: tuple(np.linspace(a, b, 6, axis=axis) for axis in (0, 1, -1)),
        a,
        b,
    )
    same(lambda a, b: rd.linspace(a, b, 6), lambda a, b: np.linspace(a, b, 6), a[0, 0], b[0])


@rd.algorithm
def of_sizes(n: rd.size, m: rd.size):
    made = rd.zeros((n, m)), rd.ones(n, rd.i16), rd.full((m, 2), 7), rd.eye(n), rd.eye(n, m, -1), rd.identity(m, rd.f32)
    counted = rd.arange(n), rd.arange(n, m), rd.arange(n, m, 2), rd.arange(m, n, -3), rd.arange(0.5, n)
    lines = rd.linspace(0, 1, n), rd.linspace(0, 1, n, endpoint=False), rd.linspace(0, 3, num=m, retstep=True)
    return made, counted, lines


def of_sizes_in_numpy(n: int, m: int) -> Any:
    made = np.zeros((n, m)), np.ones(n, "i2"), np.full((m, 2), 7), np.eye(n), np.eye(n, m, -1), np.identity(m, "f")
    counted = np.arange(n), np.arange(n, m), np.arange(n, m, 2), np.arange(m, n, -3), np.arange(0.5, n)
    lines = np.linspace(0, 1, n), np.linspace(0, 1, n, endpoint=False), np.linspace(0, 3, num=m, retstep=True)
    return made, counted, lines


@pytest.mark.parametrize("sizes", [(5, 9), (9, 5), (0, 3), (1, 0), (1, 1), (2, 2)], ids=str)
def test_sizes_need_not_be_known_while_tracing(sizes: tuple[int, int]) -> None:
    same(of_sizes, of_sizes_in_numpy, *sizes, compiled=True)


def test_a_range_is_as_long_as_its_size() -> None:
    @rd.algorithm
    def shape(a: rd.f32["n"]):
        assert rd.arange(a.shape[0]).extents == rd.ones_like(a).extents == a.extents
        return a[rd.arange(a.shape[0])] + rd.linspace(0, 1, a.shape[0])

    assert shape.interpret(np.zeros(3, "f")).tolist() == [0, 0.5, 1]


def test_made_arrays_are_no_stages_unless_named() -> None:
    used = rd.algorithm(a="f64[n, m]")(
        lambda a: (a + rd.zeros(a.shape)) * rd.eye(a.shape[0], a.shape[1]) + rd.full(a.shape, 2)
    )
    assert used.compile().source("nest").count("produce") == 1
    named = rd.algorithm(a="f64[n, 5]")(lambda a: a + rd.linspace(0, 1, 5, name="line"))
    assert "line" in named.schedule().stages


MADE: dict[str, Any] = {
    "zeros": (lambda n: rd.zeros(n), np.float64),
    "ones": (lambda n: rd.ones((n,)), np.float64),
    "full": (lambda n: rd.full(n, 0.5), np.float64),
    "full of integers": (lambda n: rd.full(n, 7), np.int64),
    "arange": (lambda n: rd.arange(n), np.int64),
    "arange between": (lambda n: rd.arange(1, n + 1), np.int64),
    "arange of floats": (lambda n: rd.arange(0.0, 3.0), np.float64),
    "linspace": (lambda n: rd.linspace(0, 1, n), np.float64),
    "eye": (lambda n: rd.eye(n), np.float64),
    "tri": (lambda n: rd.tri(n), np.float64),
    "zeros like indices": (lambda n: rd.zeros_like(rd.arange(n)), np.int64),
}


@pytest.mark.parametrize(("made", "alone"), MADE.values(), ids=MADE)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64])
def test_arrays_of_python_numbers_take_the_type_they_meet(made: Any, alone: Any, dtype: Any) -> None:
    program = rd.algorithm(lambda a: (a + made(a.shape[0]), 2.5 * made(a.shape[0]) * a, made(a.shape[0])))
    *met, own = program.interpret(np.ones(3, dtype))
    assert [m.dtype for m in met] == [dtype, dtype]
    assert own.dtype == alone


@rd.algorithm
def states(x: rd.f32["n"], i: rd.i64["m"]):
    n = x.shape[0]
    looped = rd.loop(3, lambda t, s: s + x, rd.zeros(n))
    changed = x.at[:].set(rd.linspace(0, 1, n))
    put = rd.scatter(rd.zeros(n), i, rd.ones(i.shape[0], rd.f32))
    chosen = rd.cond(n > 2, lambda: rd.full(n, 0.5), lambda: x)
    return looped, changed, put, chosen


def test_arrays_of_python_numbers_take_the_type_of_states_and_branches() -> None:
    for result in states.interpret(np.ones(3, "f"), np.array([1])):
        assert result.dtype == np.float32
