"""Rounding to tf32: the nearest of 11 significant bits, ties to even, on every target."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd
from raido.algo.errors import DTypeError


@rd.algorithm(a="f32[n]")
def rounded(a: rd.Array) -> rd.Array:
    return rd.round_to_tf32(a)


def nearest(x: np.ndarray) -> np.ndarray:
    """The same by arithmetic in f64, of normal numbers that stay finite."""
    fraction, exponent = np.frexp(x.astype("f8"))
    return np.ldexp(np.rint(np.ldexp(fraction, 11)), exponent - 11).astype("f4")


def test_numbers_are_rounded_to_the_nearest() -> None:
    draw = np.random.default_rng(1)
    x = (draw.standard_normal(4000) * 2.0 ** draw.integers(-100, 100, 4000)).astype("f4")
    ties = (1 + (2 * np.arange(64) + 1) * 2.0**-11).astype("f4")
    given = np.concatenate([x, ties, -ties])
    for run in (rounded.interpret, rounded):
        np.testing.assert_array_equal(run(given), nearest(given))
        assert not np.any(run(given).view("u4") & 0x1FFF)


def test_what_has_no_nearest_stays_what_it_is() -> None:
    bits = np.array([0, 1 << 31, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 0x7F800001, 0x7FFFFFFF, 0xFFC00000, 1], "u4")
    for run in (rounded.interpret, rounded):
        got = run(bits.view("f4"))
        np.testing.assert_array_equal(got, np.array([0, -0.0, np.inf, -np.inf, np.inf, *[np.nan] * 3, 0], "f4"))
        np.testing.assert_array_equal(np.signbit(got[:5]), [False, True, False, True, False])


def test_other_types_are_refused() -> None:
    with pytest.raises(DTypeError, match=r"rd\.round_to_tf32 of f64"):
        rd.algorithm(a="f64[n]")(lambda a: rd.round_to_tf32(a)).trace()
