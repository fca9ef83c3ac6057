"""Signs, absolute values, and the classes of floats: by comparisons and by the bits."""

from __future__ import annotations

from raido.algo.recipes.builder import Value, bits_of, where


def neg(x: Value) -> Value:
    """0 - x, for integers."""
    return x.lift(0) - x


def absolute(x: Value) -> Value:
    """|x| for integers, where that of the smallest wraps to itself; a boolean as it is."""
    return where(x < 0, -x, x) if x.dtype.kind == "i" else x


def sign(x: Value) -> Value:
    """-1, 0 or 1; of NaN, NaN."""
    if x.dtype.kind == "u":
        return where(x.equals(0), x.lift(0), 1)
    rest = where(x.equals(0), x.lift(0), x)
    return where(x > 0, x.lift(1), where(x < 0, x.lift(-1), rest))


def copysign(x: Value, y: Value) -> Value:
    """|x| with the sign of y."""
    sign = -1 << (x.dtype.bits - 1)
    return ((bits_of(x) & ~sign) | (bits_of(y) & sign)).bitcast(x.dtype)


def signbit(x: Value) -> Value:
    """Whether the sign is a minus, that of a zero or NaN, too."""
    return bits_of(x) < 0


def isnan(x: Value) -> Value:
    """Whether `x` is no number."""
    return x.differs(x)


def isinf(x: Value) -> Value:
    """Whether `x` is infinite."""
    return abs(x).equals(float("inf"))


def isfinite(x: Value) -> Value:
    """Whether `x` is neither infinite nor NaN."""
    return abs(x) < float("inf")
