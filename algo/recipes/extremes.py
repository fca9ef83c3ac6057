"""`minimum` and `maximum` of floats by IEEE 754-2019: NaN propagates, and −0.0 is below 0.0."""

from __future__ import annotations

from raido.algo.recipes.builder import Value, where
from raido.algo.recipes.signs import isnan, signbit


def minimum(x: Value, y: Value) -> Value:
    """The smaller number; NaN if either is NaN."""
    return where((x < y) | isnan(x) | (x.equals(y) & signbit(x)), x, y)


def maximum(x: Value, y: Value) -> Value:
    """The larger number; NaN if either is NaN."""
    return where((x > y) | isnan(x) | (x.equals(y) & signbit(y)), x, y)
