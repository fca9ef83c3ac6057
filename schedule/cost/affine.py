"""Indices as affine functions of loop variables, for known sizes.

A `Form` is `constant + Σ terms[k] · v_k`, where v_k is the distance of loop k's variable from its first value. `rough` is a bit set of the
loops on which the value depends non-affinely (bit 0: on data).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

DATA = 1  # the bit of a dependence on memory


class Form(NamedTuple):
    """An integer as an affine function of loop variables; `mask` is the bit set of all loops (and data) that it depends on."""

    constant: float
    terms: Mapping[int, float]
    rough: int
    mask: int


_NO_TERMS: Mapping[int, float] = {}
ZERO = Form(0.0, _NO_TERMS, 0, 0)


def number(value: float) -> Form:
    """Returns a constant form."""
    return Form(value, _NO_TERMS, 0, 0)


def opaque(mask: int, typical: float = 0.0) -> Form:
    """Returns a form of which only the dependences are known, with a typical value."""
    return Form(typical, _NO_TERMS, mask, mask)


def variable(loop: int) -> Form:
    """Returns the form of a loop's variable, counted from its first value."""
    return Form(0.0, {loop: 1.0}, 0, 1 << loop)


def plus(a: Form, b: Form, sign: float = 1.0) -> Form:
    """Returns the form a + sign · b."""
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
    """Returns the form a · factor."""
    if factor == 0.0:
        return ZERO
    return Form(a.constant * factor, {k: v * factor for k, v in a.terms.items()}, a.rough, a.mask)


def form_of(constant: float, terms: Mapping[int, float], rough: int) -> Form:
    """Returns a form, with the mask that follows from its terms."""
    mask = rough
    for loop in terms:
        mask |= 1 << loop
    return Form(constant, terms, rough, mask)
