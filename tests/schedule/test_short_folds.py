"""Reductions of a few elements become part of their only reader, in stages as in results."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd

PROGRAMS = {
    "length": (lambda a: rd.sqrt(rd.sum(a * a, axis=1)), 1),
    "mean": (lambda a: rd.mean(a, axis=1) + 1.0, 1),
    "spread": (lambda a: rd.max(a, axis=1) - rd.min(a, axis=1), 2),  # one fold to a reader
    "scaled": (lambda a: a / rd.max(a, axis=1, keepdims=True), 2),  # read for each element of a row
    "named": (lambda a: rd.sum(a, axis=1, name="total") * 2.0, 2),
    "twice": (lambda a: rd.stack([rd.sum(a, axis=1) * 2.0, rd.sum(a, axis=1) + 1.0]), None),
    "scanned": (lambda a: rd.cumsum(rd.sum(a, axis=1)), 2),
}
NUMPY = {
    "length": lambda a: np.sqrt((a * a).sum(1)),
    "mean": lambda a: a.mean(1) + 1,
    "spread": lambda a: a.max(1) - a.min(1),
    "scaled": lambda a: a / a.max(1, keepdims=True),
    "named": lambda a: a.sum(1) * 2,
    "twice": lambda a: np.stack([a.sum(1) * 2, a.sum(1) + 1]),
    "scanned": lambda a: np.cumsum(a.sum(1)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_short_folds_join_what_reads_them_once(name):
    program, stages = PROGRAMS[name]
    for c in (2, 3, 7):
        algorithm = rd.algorithm(program, a=f"f64[n, {c}]")
        if stages is not None:
            assert len(algorithm.schedule().stages) == stages
        for n in (0, 1, 5, 40):
            a = np.random.default_rng(n).integers(1, 99, (n, c)).astype(np.float64)
            assert np.allclose(algorithm(a), NUMPY[name](a), rtol=1e-12)
            assert np.array_equal(algorithm(a), algorithm.interpret(a)) or name in ("mean", "length")


def test_long_folds_stay_stages():
    for shape in ("f64[n, 8]", "f64[n, m]"):
        assert len(rd.algorithm(PROGRAMS["length"][0], a=shape).schedule().stages) == 2


def test_squares_of_pixels_are_folded_where_they_are_read():
    algorithm = rd.algorithm(
        lambda a: (rd.sum(a.reshape(a.shape[0] // 2, 2, -1, 2), axis=(1, 3)) + 2) // 4, a="i32[2 * h, 2 * w]"
    )
    a = np.arange(6 * 70, dtype=np.int32).reshape(6, 70)
    assert len(algorithm.schedule().stages) == 1
    assert np.array_equal(algorithm(a), (a.reshape(3, 2, 35, 2).sum((1, 3)) + 2) // 4)


@pytest.mark.parametrize(("apart", "taps"), [(1, 9), (2, 8), (4, 16), (5, 16)])
def test_lanes_along_the_results_fold_short_windows(apart, taps):
    """Lanes along a window would be combined for each result, where neighbouring windows are loaded as whole vectors."""

    def filtered(a, weights):
        n = (a.shape[0] - taps) // apart + 1
        return rd.tabulate((n, 2), lambda i, p: rd.sum(rd.tabulate(taps, lambda k: weights[p, k] * a[apart * i + k])))

    algorithm = rd.algorithm(filtered, a="f64[n]", weights=f"f64[2, {taps}]")
    steps = str(algorithm.schedule().complete())
    assert ('vectorize("r"' in steps) == (apart > 4) and ('unroll("r")' in steps) == (1 < apart <= 4)
    a, weights = np.arange(300.0), np.arange(2.0 * taps).reshape(2, taps)
    windows = np.lib.stride_tricks.sliding_window_view(a, taps)[::apart]
    assert np.array_equal(algorithm(a, weights), windows @ weights.T)
