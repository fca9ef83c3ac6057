"""Rounding to whole numbers by additions, for devices whose own is wrong: what is added and taken away has no bits below 1, so the sum is
rounded there, to the nearest, ties to even (IEEE 754; Hacker's Delight, "Rounding to integers")."""

from __future__ import annotations

from raido.algo.recipes.builder import Value, where, with_sign_of

_WHOLE = {32: 2.0**23, 64: 2.0**52}
"""The magnitude from which on all floats are integers, by width in bits."""


def rint(x: Value) -> Value:
    """The nearest whole number, the even one of two; the sign is x's, of zeros too."""
    return with_sign_of(_nearest(abs(x)), x)


def trunc(x: Value) -> Value:
    """The whole number next to x towards zero."""
    size = abs(x)
    near = _nearest(size)
    return with_sign_of(where(near > size, near - 1.0, near), x)


def _nearest(size: Value) -> Value:
    """The whole number nearest to one that is not negative."""
    whole = _WHOLE[size.dtype.bits]
    return where(size < whole, (size + whole) - whole, size)
