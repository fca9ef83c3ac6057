"""Indices brought within bounds by arithmetic, selections or branches, and reductions over boundaries: NumPy's results without scalar
loads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import raido as rd


@rd.algorithm
def remainders(a: rd.f32["n"]):
    n, i = a.shape[0], rd.iota(a.shape[0])
    return a[(i + 1) % n] - a[(i - 1) % n]


@rd.algorithm
def clipped(a: rd.f32["n"]):
    n, i = a.shape[0], rd.iota(a.shape[0])
    return a[rd.clip(i + 2, 0, n - 1)] - a[rd.clip(i - 1, 0, n - 1)]


@rd.algorithm
def one_sided(a: rd.f32["n"]):
    n, i = a.shape[0], rd.iota(a.shape[0])
    return a[rd.minimum(i + 1, n - 1)] - a[rd.maximum(i - 1, 0)]


@rd.algorithm
def chosen_ends(a: rd.f32["n"]):
    n = a.shape[0]
    return rd.tabulate(n, lambda i: a[rd.where(i == 0, n - 1, i - 1)] - a[rd.where(i + 1 < n, i + 1, 0)])


@rd.algorithm
def chosen_nearest(a: rd.f32["n"]):
    n = a.shape[0]
    return rd.tabulate(n, lambda i: a[rd.where(i > 1, i - 2, 0)] - a[rd.where(i >= n - 1, n - 1, i + 1)])


@rd.algorithm
def in_a_branch(a: rd.f32["n"]):
    n = a.shape[0]
    return rd.tabulate(n, lambda i: rd.cond((i > 0) & (i < n - 1), lambda: a[i + 1] - a[i - 1], lambda: 0.0))


@rd.algorithm
def in_the_other_branch(a: rd.f32["n"]):
    n = a.shape[0]
    return rd.tabulate(n, lambda i: rd.cond((i == 0) | (i == n - 1), lambda: 0.0, lambda: a[i + 1] - a[i - 1]))


@rd.algorithm
def index_arrays(a: rd.f32["h", "w"]):
    h, w = a.shape
    return a[(rd.iota(h) + 1) % h] - a[:, (rd.iota(w) - 1) % w]


@rd.algorithm
def rolled_sum(a: rd.f32["n"]):
    return rd.sum(rd.roll(a, 3) * a)


@rd.algorithm
def clamped_maximum(a: rd.f32["n"]):
    return rd.max(rd.stencil(lambda p: p[1] - p[-2], a, boundary="clamp"))


@rd.algorithm
def rolled_rows(a: rd.f32["h", "w"]):
    return rd.sum(rd.roll(a, 1, axis=1) * a, axis=1)


@rd.algorithm
def lags(a: rd.f32["n"]):
    return rd.tabulate(16, lambda k: rd.sum(a * rd.roll(a, k)))


@rd.algorithm
def padded_flat(a: rd.f32["h", "w"]):
    return rd.pad(rd.ravel(a), 2)


def neighbours(a: np.ndarray, before: int, after: int, mode: str) -> np.ndarray:
    i = np.arange(a.size)
    return np.take(a, i + after, mode=mode) - np.take(a, i - before, mode=mode)


def inner(a: np.ndarray) -> np.ndarray:
    out = np.zeros_like(a)
    out[1:-1] = a[2:] - a[:-2]
    return out


def lagged(a: np.ndarray) -> np.ndarray:
    return np.stack([np.sum(a * np.roll(a, k)) for k in range(16)])


CASES: list[tuple[rd.Algorithm, Callable[[np.ndarray], np.ndarray]]] = [
    (remainders, lambda a: neighbours(a, 1, 1, "wrap")),
    (clipped, lambda a: neighbours(a, 1, 2, "clip")),
    (one_sided, lambda a: neighbours(a, 1, 1, "clip")),
    (chosen_ends, lambda a: -neighbours(a, 1, 1, "wrap")),
    (chosen_nearest, lambda a: -neighbours(a, 2, 1, "clip")),
    (in_a_branch, inner),
    (in_the_other_branch, inner),
    (rolled_sum, lambda a: np.sum(np.roll(a, 3) * a)),
    (clamped_maximum, lambda a: np.max(neighbours(a, 2, 1, "clip"), initial=-np.inf)),
    (lags, lagged),
]
TABLES: list[tuple[rd.Algorithm, Callable[[np.ndarray], np.ndarray]]] = [
    (index_arrays, lambda a: np.roll(a, -1, 0) - np.roll(a, 1, 1)),
    (padded_flat, lambda a: np.pad(a.ravel(), 2)),
    (rolled_rows, lambda a: np.sum(np.roll(a, 1, 1) * a, axis=1)),
]


def named(case: object) -> str | None:
    return case.name if isinstance(case, rd.Algorithm) else None


@pytest.mark.parametrize("n", [1, 2, 3, 5, 17, 300])
@pytest.mark.parametrize(("algorithm", "answer"), CASES, ids=named)
def test_lines_are_numpys(algorithm: rd.Algorithm, answer: Callable[[np.ndarray], np.ndarray], n: int) -> None:
    a = (np.arange(n, dtype=np.float32) * 7) % 11
    np.testing.assert_array_equal(algorithm(a), answer(a))
    np.testing.assert_array_equal(algorithm.interpret(a), answer(a))


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (2, 3), (5, 1), (19, 40)])
@pytest.mark.parametrize(("algorithm", "answer"), TABLES, ids=named)
def test_tables_are_numpys(
    algorithm: rd.Algorithm, answer: Callable[[np.ndarray], np.ndarray], shape: tuple[int, int]
) -> None:
    a = ((np.arange(shape[0] * shape[1], dtype=np.float32) * 7) % 11).reshape(shape)
    np.testing.assert_array_equal(algorithm(a), answer(a))


@pytest.mark.parametrize("algorithm", [algorithm for algorithm, _ in CASES + TABLES], ids=named)
def test_long_loops_load_whole_vectors(algorithm: rd.Algorithm) -> None:
    """No lane finds its index alone, and none is checked."""
    gangs = algorithm.compile().source("gang")
    assert " by vector" in algorithm.compile().source("nest")
    assert "gather" not in gangs and "index (" not in gangs


def test_arithmetic_on_no_elements_still_divides_by_zero() -> None:
    @rd.algorithm
    def other_size(a: rd.f32["n"], b: rd.f32["m"]):
        return b * a[(rd.iota(b.shape[0]) + 1) % a.shape[0]]

    with pytest.raises(rd.ArithmeticFault):
        other_size(np.zeros(0, np.float32), np.ones(3, np.float32))
    np.testing.assert_array_equal(other_size(np.arange(2, dtype=np.float32), np.ones(3, np.float32)), [1, 0, 1])


def test_a_branch_that_does_not_hold_an_index_inside_keeps_its_check() -> None:
    @rd.algorithm
    def beyond(a: rd.f32["n"]):
        return rd.tabulate(a.shape[0], lambda i: rd.cond(i > 0, lambda: a[i + 1], lambda: 0.0))

    with pytest.raises(rd.IndexOutOfRange):
        beyond(np.zeros(4, np.float32))


def test_two_folds_of_one_array_with_other_axes_stay_apart() -> None:
    """Folds that share a reader's array need not have as many axes."""

    @rd.algorithm
    def counts(a: rd.f32["n"]):
        return rd.bincount((rd.roll(a, 1) * 8).astype(rd.i32), minlength=8)

    a = np.linspace(0, 0.99, 40, dtype=np.float32)
    np.testing.assert_array_equal(counts(a), np.bincount((np.roll(a, 1) * 8).astype(np.int32), minlength=8))


@pytest.mark.parametrize("lanes", [None, 8])
def test_a_border_of_constants_may_be_in_lanes_of_rows_that_are_not_cut(lanes: int | None) -> None:
    """Rows before the first are asked for by an index of −1, which is compared as it is."""

    @rd.algorithm
    def bordered(x: rd.f32["h", "w"]):
        return rd.pad(x, 1, name="p")

    s = bordered.schedule()
    s["p"].vectorize("x", lanes)
    a = np.arange(45, dtype=np.float32).reshape(5, 9)
    np.testing.assert_array_equal(bordered.compile(schedule=s)(a), np.pad(a, 1))


@rd.algorithm
def doubled(a: rd.u8["h", "w"]):
    """Every second element is the mean of two; the last one has one neighbour."""
    w = a.shape[1]

    def element(y, x):
        left, right = rd.i32(a[y, x // 2]), rd.i32(a[y, rd.minimum(x // 2 + 1, w - 1)])
        return rd.u8(rd.where(x % 2 == 0, left, (left + right + 1) >> 1))

    return rd.tabulate((a.shape[0], 2 * w), element)


@pytest.mark.parametrize("hidden", [(), ("avx512f", "avx_vnni")])
def test_one_bound_is_enough_beside_quotients(hidden):
    exe = doubled.compile(rd.Target("llvm", hidden=hidden))
    assert "gather" not in (text := exe.source("gang")) and "i32" not in text, text
    for n in (1, 31, 33, 200):
        a = np.random.default_rng(n).integers(0, 256, (3, n)).astype(np.uint8)
        means = (a.astype(int) + a[:, np.minimum(np.arange(n) + 1, n - 1)] + 1) >> 1
        np.testing.assert_array_equal(exe(a), np.stack([a, means], 2).reshape(3, -1))
