"""Reads that a selection takes only where their index is within bounds: under the selection's mask, without clamps, the same values."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd


def _gang(algorithm):
    return algorithm.compile().source("gang")


def _lagged(inside, clip, other):
    """Sums of products with elements `r` before, those outside an array replaced."""
    term = lambda a, b, i, r: rd.where(inside(i - r, a.shape[0]), a[clip(i - r, a.shape[0])], other) * b[r]
    return rd.algorithm(
        lambda a, b: rd.tabulate(
            (a.shape[0] + b.shape[0] - 1,), lambda i: rd.sum(rd.tabulate((b.shape[0],), lambda r: term(a, b, i, r)))
        ),
        a="f32[n]",
        b="f32[m]",
    )


CLIPS = {
    "clip": lambda e, n: rd.clip(e, 0, n - 1),
    "minimum of maximum": lambda e, n: rd.minimum(rd.maximum(e, 0), n - 1),
    "maximum of minimum": lambda e, n: rd.maximum(rd.minimum(e, n - 1), 0),
}
TESTS = {
    "ge, lt": lambda e, n: (e >= 0) & (e < n),
    "le, le": lambda e, n: (e <= n - 1) & (e >= 0),
    "not outside": lambda e, n: ~((e < 0) | (e >= n)),
    "narrower": lambda e, n: (e >= 2) & (e < n - 1),
}


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("test", TESTS)
def test_products_with_elements_inside(clip, test):
    lagged = _lagged(TESTS[test], CLIPS[clip], 0)
    text = _gang(lagged)
    assert "gather" not in text and "any_lanes" not in text and "where" in text
    for n, m in ((1, 1), (3, 8), (40, 7), (100, 33), (7, 100)):
        chance = np.random.default_rng(n)
        a, b = (chance.integers(1, 9, size).astype(np.float32) for size in (n, m))
        low, high = (2, n - 1) if test == "narrower" else (0, n)
        inside = np.where((np.arange(n) >= low) & (np.arange(n) < high), a, 0)
        assert np.array_equal(lagged(a, b), np.convolve(inside, b)), (n, m)


def test_another_value_for_elements_outside_stays():
    """Lanes that are off read 0."""
    lagged = _lagged(TESTS["ge, lt"], CLIPS["clip"], 3)
    assert "any_lanes" not in _gang(lagged)
    for n, m in ((1, 1), (3, 8), (40, 7), (7, 100)):
        a, b = np.arange(1, n + 1, dtype=np.float32), np.arange(m, dtype=np.float32)
        outside = np.pad(a, m - 1, constant_values=3)
        wanted = [outside[i : i + m] @ b[::-1] for i in range(n + m - 1)]
        assert np.array_equal(lagged(a, b), np.array(wanted, np.float32)), (n, m)


def test_a_choice_that_says_less_keeps_the_clamp():
    """Of an index that is known on one side only, lanes on the other side read the last element."""
    late = rd.algorithm(
        lambda a: rd.map(lambda i: rd.where(i + 3 >= 5, a[rd.clip(i + 3, 0, a.shape[0] - 1)], 0), rd.iota(a.shape[0])),
        a="f32[n]",
    )
    a = np.arange(1, 41, dtype=np.float32)
    places = np.arange(40) + 3
    assert np.array_equal(late(a), np.where(places >= 5, a[np.minimum(places, 39)], 0))


def test_constants_around_an_array_are_choices_under_masks():
    around = rd.algorithm(
        lambda a: rd.stencil(lambda p: p[0, -1] + 2 * p[0, 0] + 4 * p[1, 1], a, boundary=rd.constant(0), name="out"),
        a="i32[h, w]",
    )
    s = around.schedule()
    s["out"].vectorize("x")  # boundaries in the lanes: no loop of its own for the interior
    compiled = around.compile(schedule=s)
    assert "any_lanes" not in compiled.source("gang")
    for h, w in ((1, 1), (2, 3), (5, 16), (6, 100)):
        a = np.random.default_rng(w).integers(1, 99, (h, w)).astype(np.int32)
        p = np.pad(a, 1)
        assert np.array_equal(compiled(a), p[1:-1, :-2] + 2 * a + 4 * p[2:, 2:]), (h, w)
