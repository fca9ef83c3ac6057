"""Signs, absolute values, and the classes of floats, by comparisons and bit operations."""

from __future__ import annotations

from raido.algo.recipes.builder import Value, bits_of, where


def neg(x: Value) -> Value:
    """The difference 0 - x of integers."""
    return x.lift(0) - x


def absolute(x: Value) -> Value:
    """The absolute value of an integer; that of the smallest one wraps to itself. A boolean is unchanged."""
    return where(x < 0, -x, x) if x.dtype.kind == "i" else x


def sign(x: Value) -> Value:
    """The sign −1, 0 or 1 of a number; NaN for NaN."""
    if x.dtype.kind == "u":
        return where(x.equals(0), x.lift(0), 1)
    rest = where(x.equals(0), x.lift(0), x)
    return where(x > 0, x.lift(1), where(x < 0, x.lift(-1), rest))


def copysign(x: Value, y: Value) -> Value:
    """The number |x| with the sign of y."""
    sign = -1 << (x.dtype.bits - 1)
    return ((bits_of(x) & ~sign) | (bits_of(y) & sign)).bitcast(x.dtype)


def signbit(x: Value) -> Value:
    """Whether the sign bit is set, also of zeros and NaN."""
    return bits_of(x) < 0


def isnan(x: Value) -> Value:
    """Whether `x` is NaN."""
    return x.differs(x)


def isinf(x: Value) -> Value:
    """Whether `x` is infinite."""
    return abs(x).equals(float("inf"))


def isfinite(x: Value) -> Value:
    """Whether `x` is neither infinite nor NaN."""
    return abs(x) < float("inf")
