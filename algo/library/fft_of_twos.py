"""Fourier transforms along a last axis whose size is known only when the program runs, which must then be a power of two.

Steps of constant geometry (M. C. Pease, "An adaptation of the fast Fourier transform for parallel processing", J. ACM 1968): step t reads
the numbers at i and i + n / 2, wherever the butterfly of the original algorithm is, and stores its results at 2i and 2i + 1; lanes load whole
vectors and store interleaved ones in all steps alike. A loop takes two steps at a time, so that half as many pass through memory; the
results are in bit-reversed order. Roots of unity are computed in f64, in the first octant, and rounded once. They are an unchanging part
of the loop's state, so that they are computed once, before the loop.
"""

from __future__ import annotations

import math
from typing import Any

from raido.algo.graph.dtypes import f64, i64, u64
from raido.algo.language.combinators import tabulate
from raido.algo.language.complexes import Complex
from raido.algo.language.control import loop
from raido.algo.language.moves import astype
from raido.algo.language.ufuncs import cos, ctz, left_shift, right_shift, sin, where
from raido.algo.trace.building import structure
from raido.algo.trace.context import load
from raido.algo.trace.existential import checked
from raido.algo.trace.trees import map_leaves
from raido.algo.trace.value import Array, size_value


def transformed_by_twos(numbers: Any, count: Array) -> Any:
    """The transform of `count` complex numbers along the last axis; a runtime fault for a count that is not a power of two."""
    lead = tuple(size_value(extent) for extent in numbers.real.extents[:-1])
    half, quarter, levels = count // 2, count // 4, _levels(count)
    roots = _roots(count, numbers.dtype)

    def two_steps(k: Any, state: Any) -> Any:
        """Steps 2k and 2k + 1, of four numbers a quarter of the whole apart; returns the roots unchanged."""
        given, roots = state

        def made(*indices: Any) -> Complex:
            *outer, o = indices
            i, part = o // 4, o % 4
            turn = left_shift(right_shift(i, 2 * k), 2 * k)
            a, b, c, d = (_at(given, (*outer, i + part * quarter)) for part in range(4))
            once, twice = _at(roots, (turn,)), _at(roots, (2 * turn,))
            difference = b - d
            even, odd = (a - c, Complex._make((difference.imag, -difference.real)))
            results = (a + c) + (b + d), ((a + c) - (b + d)) * twice, (even + odd) * once, (even - odd) * once * twice
            return _chosen(part, results)

        return tabulate((*lead, count), made), roots

    def last_step(_: Any, given: Any) -> Any:
        """The last one of an odd number of steps, whose roots are all 1."""

        def made(*indices: Any) -> Complex:
            *outer, o = indices
            a, b = _at(given, (*outer, o // 2)), _at(given, (*outer, o // 2 + half))
            return _chosen(o % 2, (a + b, a - b))

        return tabulate((*lead, count), made)

    numbers, _ = loop(levels // 2, two_steps, (structure(numbers), roots))
    numbers = loop(levels % 2, last_step, numbers)
    return tabulate((*lead, count), lambda *indices: _at(numbers, (*indices[:-1], _reversed(indices[-1], levels))))


def _chosen(part: Any, results: tuple[Complex, ...]) -> Complex:
    """The result with the number `part`."""
    chosen = results[-1]
    for k in reversed(range(len(results) - 1)):
        chosen = Complex._make(where(part == k, x, y) for x, y in zip(_parts(results[k]), _parts(chosen), strict=True))
    return chosen


def _reversed(position: Any, levels: Any) -> Any:
    """The index whose lowest `levels` bits are those of another one in reverse order, by exchanging ever longer runs of bits."""
    bits = u64(position)
    for k in range(6):
        run = 1 << k
        mask = sum(((1 << run) - 1) << start for start in range(0, 64, 2 * run))
        bits = (right_shift(bits, run) & mask) | left_shift(bits & mask, run)
    return i64(right_shift(bits, 64 - levels))


def half_of_whole(whole: Any, count: Array) -> Any:
    """The first count // 2 + 1 of `count` elements, in a size that other arrays can share (a slice's size could be smaller for count 0)."""
    lead = tuple(size_value(extent) for extent in whole.real.extents[:-1])
    at = lambda *indices: map_leaves(lambda part: _for_power_of_two(part, count), _at(whole, indices))
    return tabulate((*lead, count // 2 + 1), at)  # of no elements, too, for which nothing else is evaluated


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
    return _for_power_of_two(ctz(astype(count, i64)), count)


def _for_power_of_two(value: Array, count: Array) -> Array:
    """The value, with a check that a count is a power of two."""
    number = astype(count, i64)
    holds = (number > 0) & ((number & (number - 1)) == 0)
    return Array(checked(value.node, holds.node, "power_of_two", (number.node,)))


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


def _at(numbers: Any, indices: tuple[Any, ...]) -> Any:
    """The element at indices that are known to be within bounds."""
    return map_leaves(lambda leaf: Array(load(leaf.node, tuple(structure(k).node for k in indices))), numbers)


def _parts(z: Complex) -> tuple[Array, Array]:
    return z.real, z.imag
