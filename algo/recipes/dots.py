"""Sums over the parts of integers: products of halves or quarters, and absolute differences of bytes."""

from __future__ import annotations

from raido.algo.graph.dtypes import signed, unsigned
from raido.algo.recipes.builder import Value, operate


def dot_halves(total: Value, a: Value, b: Value) -> Value:
    """`total` and the products of the halves, as signed integers."""
    return _dot(total, a, b, 2, signed(a.dtype.bits))


def dot_quarters(total: Value, a: Value, b: Value) -> Value:
    """`total` and the products of the quarters, unsigned ones of `a` and signed ones of `b`."""
    return _dot(total, a, b, 4, unsigned(a.dtype.bits))


def _dot(total: Value, a: Value, b: Value, count: int, first: object) -> Value:
    bits = a.dtype.bits // count
    for k in range(count):
        total = total + _part(a.bitcast(first), k, bits).bitcast(a.dtype) * _part(b, k, bits)  # type: ignore[arg-type]
    return total


def byte_differences(a: Value, b: Value) -> Value:
    """The sum of the absolute differences of bytes."""
    total = a.lift(0)
    for k in range(a.dtype.bits // 8):
        x, y = _part(a, k, 8), _part(b, k, 8)
        total = total + operate("maximum", a.dtype, x, y) - operate("minimum", a.dtype, x, y)
    return total


def _part(x: Value, k: int, bits: int) -> Value:
    """Bits k · bits … (k + 1) · bits − 1, extended by the sign of signed integers."""
    width = x.dtype.bits
    return x.shift_left(width - (k + 1) * bits).shift_right(width - bits)
