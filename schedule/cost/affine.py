"""Integers as affine functions of loops: what an index amounts to, once sizes are known.

A `Form` is `constant + Σ terms[k] · (how far loop k has come from its first value)`. `rough` holds, as bits, the loops on which the
value depends in another way (bit 0: data read from memory).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

DATA = 1  # the bit of what is read from memory


class Form(NamedTuple):
    """An integer as a function of loops; `mask` has a bit for everything it depends on."""

    constant: float
    terms: Mapping[int, float]
    rough: int
    mask: int


_NO_TERMS: Mapping[int, float] = {}
ZERO = Form(0.0, _NO_TERMS, 0, 0)


def number(value: float) -> Form:
    """A constant."""
    return Form(value, _NO_TERMS, 0, 0)


def opaque(mask: int, typical: float = 0.0) -> Form:
    """A value of which only the dependences are known, and perhaps a typical size."""
    return Form(typical, _NO_TERMS, mask, mask)


def variable(loop: int) -> Form:
    """How far a loop has come."""
    return Form(0.0, {loop: 1.0}, 0, 1 << loop)


def plus(a: Form, b: Form, sign: float = 1.0) -> Form:
    """a + sign · b."""
    terms = a.terms
    if b.terms:
        merged = dict(terms)
        for loop, slope in b.terms.items():
            merged[loop] = merged.get(loop, 0.0) + sign * slope
            if merged[loop] == 0.0:
                del merged[loop]
        terms = merged
    return form_of(a.constant + sign * b.constant, terms, a.rough | b.rough)


def times(a: Form, factor: float) -> Form:
    """A form times a number."""
    if factor == 0.0:
        return ZERO
    return Form(a.constant * factor, {k: v * factor for k, v in a.terms.items()}, a.rough, a.mask)


def form_of(constant: float, terms: Mapping[int, float], rough: int) -> Form:
    """A form with the mask that its terms give."""
    mask = rough
    for loop in terms:
        mask |= 1 << loop
    return Form(constant, terms, rough, mask)
