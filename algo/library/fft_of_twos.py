"""Fourier transforms along a last axis whose size is known only when the program runs, which must then be a power of two.

Stockham's steps of radix 2 in a loop (`fft_steps.py` has a step for each radix of a known size); roots of unity are computed in f64, in
the first octant, and rounded once. They are an unchanging part of the loop's state, so that they are computed once, before the loop.
"""

from __future__ import annotations

import math
from typing import Any

from raido.algo.graph.dtypes import f64, i64
from raido.algo.language.combinators import tabulate
from raido.algo.language.complexes import Complex
from raido.algo.language.control import loop
from raido.algo.language.moves import astype
from raido.algo.language.ufuncs import cos, ctz, left_shift, right_shift, sin, where
from raido.algo.trace.building import structure
from raido.algo.trace.context import load
from raido.algo.trace.existential import checked
from raido.algo.trace.promotion import lift
from raido.algo.trace.trees import map_leaves
from raido.algo.trace.value import Array, size_value


def transformed_by_twos(numbers: Any, count: Array) -> Any:
    """The transform of `count` complex numbers along the last axis; a runtime fault for a count that is not a power of two."""
    lead = tuple(size_value(extent) for extent in numbers.real.extents[:-1])
    half, roots = count // 2, _roots(count, numbers.dtype)

    def step(level: Any, state: Any) -> Any:
        """One Stockham step of radix 2, from [2, m, done] to [m, 2, done] with `done` = 2**level; returns the roots unchanged."""
        given, roots = state
        done = left_shift(lift(1), level)

        def turned(*indices: Any) -> Complex:
            *outer, o = indices
            p, second = right_shift(o, level + 1), (right_shift(o, level) & 1) != 0
            place = left_shift(p, level) + (o & (done - 1))
            a, b = (_at(given, (*outer, k)) for k in (place, place + half))
            total, rest = a + b, (a - b) * _at(roots, (left_shift(p, level),))
            return Complex._make(where(second, y, x) for x, y in zip(_parts(total), _parts(rest), strict=True))

        return tabulate((*lead, count), turned), roots

    return loop(_levels(count), step, (structure(numbers), roots))[0]


def half_of_whole(whole: Any, count: Array) -> Any:
    """The first count // 2 + 1 of `count` elements, in a size that other arrays can share (a slice's size could be smaller for count 0)."""
    lead = tuple(size_value(extent) for extent in whole.real.extents[:-1])
    return tabulate((*lead, count // 2 + 1), lambda *places: _at(whole, places))


def whole_of_half(half: Any, count: Array) -> Any:
    """The `count` elements of the transform of real numbers, from the first count // 2 + 1: the others are conjugates of these."""
    lead = tuple(size_value(extent) for extent in half.real.extents[:-1])

    def at(*indices: Any) -> Complex:
        *outer, k = indices
        given = k <= count // 2
        value = _at(half, (*outer, where(given, k, count - k)))
        return Complex._make((value.real, where(given, value.imag, -value.imag)))

    return tabulate((*lead, count), at)


def _levels(count: Array) -> Array:
    """The base-2 logarithm of a count, checked to be a power of two."""
    number = astype(count, i64)
    holds = (number > 0) & ((number & (number - 1)) == 0)
    return Array(checked(ctz(number).node, holds.node, "power_of_two", (number.node,)))


def _roots(count: Array, dtype: Any) -> Any:
    """The roots of unity exp(−2πi·k / count) for 0 ≤ k < count / 2."""

    def root(k: Any) -> Complex:
        octant = 8 * k // count
        rest = 8 * k - octant * count
        odd, upper = (octant & 1) != 0, (octant == 1) | (octant == 2)
        angle = f64(where(odd, count - rest, rest)) * math.pi / f64(4 * count)
        x, y = cos(angle), sin(angle)
        re = where(upper, y, x)
        return dtype(Complex._make((where(octant >= 2, -re, re), -where(upper, x, y))))

    return tabulate((count // 2,), root, name="roots")


def _at(numbers: Any, places: tuple[Any, ...]) -> Any:
    """The element at indices that are known to be within bounds."""
    return map_leaves(lambda leaf: Array(load(leaf.node, tuple(structure(k).node for k in places))), numbers)


def _parts(z: Complex) -> tuple[Array, Array]:
    return z.real, z.imag
