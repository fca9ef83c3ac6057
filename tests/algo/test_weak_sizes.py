"""Values computed from sizes, literals and counters alone are weak: they take the dtype they meet, and are f64 or i64 by themselves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import raido as rd

X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


def run(f: Any, *arrays: Any) -> Any:
    return rd.algorithm(f).interpret(*arrays)


SCALARS: dict[str, tuple[Any, Any]] = {
    "a root of a size": (lambda q: q / rd.sqrt(q.shape[-1]), lambda q: q / math.sqrt(3.0)),
    "a quotient": (lambda q: q * ((1 - 0.85) / q.shape[0]), lambda q: q * ((1 - 0.85) / 2)),
    "a comparison": (lambda q: q * ((q.shape[0] > 1) * 0.1), lambda q: q * 0.1),
    "a selection": (lambda q: q * rd.where(q.shape[0] > 1, 0.1, 0.2), lambda q: q * 0.1),
    "a power": (lambda q: q * 2.5 ** q.shape[0], lambda q: q * 6.25),
    "a shift": (lambda q: q * (1 << q.shape[0]), lambda q: q * 4),
    "a remainder": (lambda q: q * (7.5 % q.shape[0]), lambda q: q * 1.5),
    "a minimum": (lambda q: q * rd.minimum(q.shape[0], 0.5), lambda q: q * 0.5),
    "the absolute value": (lambda q: q * abs(0.5 - q.shape[0]), lambda q: q * 1.5),
    "a loop": (lambda q: q * rd.loop(3, lambda i, s: s * 0.5 + i, 1.0), lambda q: q * 2.625),
    "a branch": (lambda q: q * rd.cond(q.shape[0] > 1, lambda: 0.5, lambda: 2.5), lambda q: q * 0.5),
    "inside a map": (lambda q: rd.map(lambda r: r / rd.sqrt(r.shape[0]), q), lambda q: q / math.sqrt(3.0)),
    "counters": (lambda q: rd.tabulate(2, lambda i: q[i] * rd.exp(-(i + 0.5))), None),
}


@pytest.mark.parametrize("name", SCALARS)
def test_scalars_of_sizes_take_the_type_of_an_array(name: str) -> None:
    f, expected = SCALARS[name]
    result = run(f, X)
    assert result.dtype == np.float32
    if expected is not None:
        np.testing.assert_array_equal(result, expected(X))


def test_a_weak_scalar_is_rounded_once() -> None:
    third = run(lambda q: q[0, 0] * ((1 - 0.3) / (q.shape[-1] * 7.0)), X)
    assert third == np.float32((1 - 0.3) / 21.0)


def gaussian(q: Any) -> Any:
    weights = rd.exp(-((rd.iota(q.shape[-1]) - 1) ** 2) / (2 * 1.5**2))
    return q * (weights / rd.sum(weights))


ARRAYS: dict[str, Any] = {
    "a kernel that is normalised": gaussian,
    "iota": lambda q: q + rd.iota(3) / 2,
    "full": lambda q: q + rd.full(3, 0.5),
    "replicate": lambda q: q + rd.replicate(3, 2),
    "tabulate": lambda q: q + rd.tabulate(3, lambda i: rd.where(i > 1, 0.5, 0.25)),
    "map of literals": lambda q: q + rd.map(lambda _: 0.5, q[0]),
    "stack": lambda q: q[0, :2] / rd.stack([q.shape[0], q.shape[1]]),
    "concat of weak arrays": lambda q: q + rd.concat([rd.iota(1), rd.full(2, 0.5)]),
    "concat with a strong one": lambda q: rd.concat([rd.full(2, 0.5), q[0]]),
    "reshape": lambda q: q + rd.reshape(rd.full((3, 1), 0.5), (3,)),
    "mean": lambda q: q - rd.mean(rd.iota(4)),
    "scan": lambda q: q + rd.scan(rd.add, 0, rd.iota(3) / 2),
    "reduce": lambda q: q + rd.reduce(rd.maximum, 0.0, rd.iota(3) / 2),
    "set": lambda q: rd.full(3, 0.0).at[1].set(q[0, 0]),
    "set of weak values": lambda q: q + rd.full(3, 0.0).at[1].set(2.5),
    "set of a weak array": lambda q: q.at[0].set(rd.full(3, 0.1)),
    "add": lambda q: rd.full(3, 0.0).at[0:2].add(q[0, :2]),
    "scatter": lambda q: rd.scatter(rd.full(3, 0.0), rd.iota(3), q[0]),
    "reduce_by_index": lambda q: rd.reduce_by_index(rd.full(2, 0.0), rd.add, 0, rd.iota(3) % 2, q[0]),
    "loop state": lambda q: rd.loop(3, lambda i, s: s + q[0], rd.full(3, 0.0)),
    "a result of a loop's body": lambda q: rd.loop(3, lambda i, s: rd.full(3, 0.5), q[0]),
    "while state": lambda q: rd.while_loop(lambda s: rd.sum(s) < 9, lambda s: s + q[0], rd.full(3, 0)),
    "a size as state": lambda q: rd.loop(2, lambda i, s: s + q[0, 0], q.shape[0]),
    "a branch": lambda q: rd.cond(q[0, 0] > 0, lambda: rd.full(3, 0.5), lambda: q[0]),
    "rows of a map": lambda q: rd.map(lambda r: rd.loop(3, lambda i, s: s + r, rd.full(3, 0.0)), q),
    "zeros": lambda q: rd.where(q > 2, q, rd.zeros(q.shape)),
    "ones in a loop": lambda q: rd.loop(2, lambda i, s: s.at[i].set(q[0, i]), rd.ones(3)),
    "eye": lambda q: q @ rd.eye(3),
    "arange": lambda q: q * (rd.arange(3) / 3),
    "linspace": lambda q: rd.dot(q, rd.linspace(0, 1, 3)),
    "cumsum": lambda q: q + rd.cumsum(rd.linspace(0, 1, 3)),
    "std": lambda q: q / rd.std(rd.arange(3)),
    "median": lambda q: q / rd.median(rd.arange(4)),
    "sort": lambda q: q + rd.sort(rd.linspace(1, 0, 3)),
    "filter": lambda q: q[0, 0] * rd.filter(lambda v: v > 0.2, rd.linspace(0, 1, 3)),
    "filter of arrays of different rows": lambda q: q[0, 0] * rd.filter(lambda v, w: v > 0, rd.arange(3), rd.eye(3))[1],
    "partition": lambda q: q[0, 0] * rd.partition(lambda v: v > 0.2, rd.linspace(0, 1, 3))[1],
    "mask": lambda q: q[0, 0] * rd.linspace(0, 1, 3)[q[0] > 0],
    "unique": lambda q: q[0, 0] * rd.unique(rd.arange(3) / 2),
    "segmented_reduce": lambda q: q + rd.segmented_reduce(rd.add, 0.0, rd.ones(3), np.arange(4)),
    "segmented_scan": lambda q: q + rd.segmented_scan(rd.maximum, 0.0, rd.ones(3), np.array([0, 3])),
    "scatter of weak values": lambda q: q + rd.scatter(rd.zeros(3), rd.iota(2), rd.ones(2)),
    "reduce_by_index of weak values": lambda q: q + rd.reduce_by_index(rd.zeros(3), rd.add, 0, rd.iota(3), rd.ones(3)),
    "bincount of weak weights": lambda q: q + rd.bincount(rd.iota(3), 3, weights=rd.ones(3)),
    "matmul": lambda q: q @ (rd.eye(3) @ rd.ones((3, 3))),
    "norm": lambda q: q / rd.linalg.norm(rd.arange(3)),
    "average": lambda q: rd.average(q[0], weights=rd.arange(3)),
    "neutral": lambda q: rd.reduce(lambda x, y: x + y, rd.full(3, 0.0), q),
}


W = lambda: rd.linspace(0, 1, 3)  # weak
ONES = lambda: rd.ones((3, 3))
FUNCTIONS: dict[str, Any] = {
    "an operator of several operations": lambda: rd.reduce(lambda a, b: a + b * 2.0, 0.0, W()),
    "an operator on tuples": lambda: rd.scan(lambda a, b: (a[0] + b[0], a[1] * b[1]), (0, 1), W(), W())[1],
    "an operator on rows": lambda: rd.reduce(lambda a, b: a + b * 2, 0.0, ONES()),
    "an operator on segments": lambda: rd.segmented_reduce(lambda a, b: a + b * 2, 0.0, W(), np.arange(4)),
    "an operator on bins": lambda: rd.reduce_by_index(W(), lambda a, b: a + b - 0.0, 0.0, rd.iota(3), W()),
    "einsum": lambda: rd.einsum("ij,j->i", ONES(), W()),
    "inner": lambda: rd.inner(W(), W()),
    "diag": lambda: rd.diag(W()),
    "nan_to_num": lambda: rd.nan_to_num(W()),
    "frexp": lambda: rd.frexp(W())[0],
    "heaviside": lambda: rd.heaviside(W(), 0.5),
    "logaddexp2": lambda: rd.logaddexp2(W(), W()),
    "logsumexp": lambda: rd.logsumexp(W()),
    "segment_sum": lambda: rd.segment_sum(W(), rd.iota(3), 3),
    "convolve": lambda: rd.convolve(W(), W()),
    "quantile": lambda: rd.quantile(ONES(), 0.25, axis=0),
    "nanmax": lambda: rd.nanmax(ONES(), 0),
    "nanmean": lambda: rd.nanmean(ONES(), 0),
    "nansum": lambda: rd.nansum(ONES(), 0),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_weak_arrays_take_the_type_that_they_meet(name: str) -> None:
    assert run(ARRAYS[name], X).dtype == np.float32
    assert run(ARRAYS[name], X.astype(np.float64)).dtype == np.float64


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_weak_arrays_are_weak(name: str) -> None:
    assert rd.algorithm(lambda q: FUNCTIONS[name]() * q).trace(rd.f32).results[0].dtype is rd.f32
    assert rd.algorithm(FUNCTIONS[name]).trace().results[0].dtype is rd.f64


def test_strong_values_in_an_operator_are_strong() -> None:
    f = lambda q: (rd.reduce(lambda a, b: a + b * np.float64(2), 0.0, W()), rd.reduce(lambda a, b: a + b * q, 0.0, W()))
    scaled = rd.algorithm(lambda q, x: tuple(r * x for r in f(q)))
    assert [result.dtype for result in scaled.trace(rd.f64, rd.f32).results] == [rd.f64, rd.f64]


def test_compiled_code_agrees() -> None:
    functions = [f for f, _ in SCALARS.values()] + list(ARRAYS.values())
    together = rd.algorithm(lambda q: tuple(f(q) for f in functions))
    for compiled, interpreted in zip(together(X), together.interpret(X), strict=True):
        assert compiled.dtype == np.float32
        np.testing.assert_allclose(compiled, interpreted, rtol=1e-6)


def test_weak_results_are_of_numpys_types() -> None:
    f = lambda q: (rd.full(3, 0.5), rd.full(3, 1), rd.iota(3) / 2, rd.sqrt(q.shape[0]), q.shape[0], q.shape[0] > 1)
    dtypes = [result.dtype for result in run(f, X)]
    assert dtypes == [np.float64, np.int64, np.float64, np.float64, np.int64, np.bool_]


def test_places_that_data_decides_are_strong() -> None:
    f = lambda q: (
        rd.argsort(rd.linspace(1, 0, 3)) * q[0, 0],
        rd.unique(rd.arange(3), True)[1] * q[0, 0],
        rd.nonzero(q[0])[0] * q[0, 0],
    )
    assert {result.dtype for result in run(f, X)} == {np.dtype(np.float64)}


def test_weak_floats_beside_integers_are_f64() -> None:
    f = lambda a: (a * rd.sqrt(a.shape[0]), a + rd.full(3, 0.5), a + rd.full(3, 1), a + rd.iota(3))
    dtypes = [result.dtype for result in run(f, np.arange(3, dtype=np.int16))]
    assert dtypes == [np.float64, np.float64, np.int16, np.int64]


def test_arrays_of_an_integer_literal_must_fit() -> None:
    with pytest.raises(rd.DTypeError, match="the literal 300 does not fit u8"):
        rd.algorithm(lambda a: a + rd.full(3, 300)).trace(rd.u8[3])


def test_weak_values_become_complex_beside_complex_numbers() -> None:
    f = lambda q: (
        q * (1j * q.shape[0]),
        q * rd.exp(1j * rd.iota(3)),
        rd.full(3, 0.5) + q * 1j,
        rd.loop(3, lambda i, s: s + q * 1j, rd.zeros((2, 3))),
        rd.loop(3, lambda i, s: s + q[0, 0] * 1j, 0.5),
    )
    results = run(f, X)
    assert {result.dtype for result in results} == {np.dtype(np.complex64)}
    np.testing.assert_array_equal(results[3], X * 3j)


def test_numpys_arrays_and_scalars_are_strong() -> None:
    f = lambda q: (q * np.float64(2), q + np.ones(3), q * rd.f64(q.shape[0]), rd.iota(3, rd.f64) * q)
    assert {result.dtype for result in run(f, X)} == {np.dtype(np.float64)}


REFUSED: dict[str, Any] = {
    "loop": lambda a: rd.loop(3, lambda i, s: s + 0.5, a),
    "set": lambda a: a.at[0].set(a.shape[0] / 2),
    "neutral": lambda a: rd.reduce(rd.add, 0.5, a),
    "operator": lambda a: rd.reduce(lambda x, y: rd.where(x > y, 0.5, 1.5), 0, a),
    "scatter": lambda a: rd.scatter(a, rd.iota(2), rd.ones(2)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_weak_float_is_no_integer(name: str) -> None:
    with pytest.raises(rd.DTypeError):
        rd.algorithm(REFUSED[name]).trace(rd.i32["n"])


def test_arguments_of_inlined_algorithms_take_their_declared_type() -> None:
    scaled = rd.algorithm(a="f32[n]", by="f32")(lambda a, by: a * by)
    assert run(lambda q: scaled(rd.full(3, 0.5), 1 / q.shape[0]), X).dtype == np.float32
