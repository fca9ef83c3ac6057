"""A few long reductions side by side are computed in one pass over their elements."""

from __future__ import annotations

import re

import numpy as np
import pytest

import raido as rd


@rd.algorithm
def mean_of_points(p: rd.f64["n", 3]):
    return rd.mean(p, axis=0)


@rd.algorithm
def weighted(p: rd.f32["n", 3], m: rd.f32["n"]):
    return rd.sum(p * m[:, None], axis=0)


@rd.algorithm
def mean_colour(a: rd.u8["h", "w", 3]):
    return rd.mean(a.astype("f32"), axis=(0, 1))


@rd.algorithm
def covariance(p: rd.f64["n", 2]):
    d = p - rd.mean(p, axis=0)
    return rd.einsum("ni,nj->ij", d, d)


@rd.algorithm
def totals(a: rd.i32["n", 4]):
    return rd.sum(a, axis=0)


@rd.algorithm
def extremes(p: rd.i64["n", 2]):
    return rd.max(p, axis=0, initial=-1)


ALL = (mean_of_points, weighted, mean_colour, covariance, totals, extremes)


@pytest.mark.parametrize("algorithm", ALL, ids=lambda a: a.name)
def test_one_pass_makes_all_results(algorithm: rd.Algorithm) -> None:
    text = str(algorithm.schedule().complete())
    folds = [line for line in re.findall(r'reorder\(("r.*)\)\.parallel', text) if line.endswith('"x"')]
    assert len(folds) == 1 + (algorithm is covariance), text
    assert text.count('.unroll("x")') == len(folds), text


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 100, 70_000])
def test_results_are_those_of_numpy(n: int) -> None:
    rng = np.random.default_rng(n)
    p, m = rng.random((n, 3)), rng.random(n)
    if n:
        np.testing.assert_allclose(mean_of_points(p), p.mean(axis=0))
        colours = rng.integers(0, 256, (3, n, 3)).astype("uint8")
        np.testing.assert_allclose(mean_colour(colours), colours.mean(axis=(0, 1)), rtol=1e-3)
        q = p[:, :2].copy()
        np.testing.assert_allclose(covariance(q), (q - q.mean(axis=0)).T @ (q - q.mean(axis=0)), rtol=1e-9, atol=1e-9)
    single = (p.astype("f4"), m.astype("f4"))
    np.testing.assert_allclose(weighted(*single), (p * m[:, None]).sum(axis=0), rtol=1e-3)
    counts = rng.integers(-(2**31), 2**31, (n, 4)).astype("int32")
    np.testing.assert_array_equal(totals(counts), counts.sum(axis=0))
    places = rng.integers(0, 1 << 60, (n, 2))
    np.testing.assert_array_equal(extremes(places), places.max(axis=0, initial=-1))
