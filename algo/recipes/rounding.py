"""Rounding to integers by an addition and a subtraction, for devices whose own rounding is wrong: a number so large that it has no bits
below 1 is added and subtracted again, so the sum is rounded to the nearest integer, ties to even (IEEE 754; Hacker's Delight, "Rounding to
integers").
"""

from __future__ import annotations

from raido.algo.recipes.builder import Value, where, with_sign_of

_WHOLE = {32: 2.0**23, 64: 2.0**52}
"""The magnitude from which on all floats are integers, by width in bits."""


def rint(x: Value) -> Value:
    """The nearest integer, ties to even, with the sign of x, also for zeros."""
    return with_sign_of(_nearest(abs(x)), x)


def trunc(x: Value) -> Value:
    """The integer next to x towards zero."""
    size = abs(x)
    near = _nearest(size)
    return with_sign_of(where(near > size, near - 1.0, near), x)


def _nearest(size: Value) -> Value:
    """The integer nearest to a number that is not negative, ties to even."""
    whole = _WHOLE[size.dtype.bits]
    return where(size < whole, (size + whole) - whole, size)
