"""Fourier transforms along the last axis, of complex and of real numbers, for any size that is known while tracing;
powers of two that are not known are left to `fft_of_twos.py`.

Sizes with factors 2, 3 and 5 alone take Stockham's steps (T. G. Stockham, "High-speed convolution and correlation", AFIPS 1966; C. Van
Loan, "Computational Frameworks for the Fast Fourier Transform", 1992, section 1.7): each step is one stage, which transforms along
one radix and leaves the elements in order, with no permutation before or after. Other sizes are convolutions with a chirp
(L. Bluestein, "A linear filtering approach to the computation of discrete Fourier transform", 1970), through two transforms of the
next size that has only these factors. Columns are transformed in blocks as wide as two cache lines, each step of which has whole lines of
neighbouring columns in its lanes: a block fits a cache, and nothing is transposed. The work is O(n log n) either way. The transform of an
even number of real numbers is a complex one of half the size (W. H. Press et al., "Numerical Recipes", section 12.3). Roots of unity are
computed in f64 and rounded once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from raido.algo.graph.index import as_index, constant_value
from raido.algo.language.combinators import tabulate
from raido.algo.language.complex_functions import conj
from raido.algo.language.complexes import Complex, as_complex
from raido.algo.language.joining import concat, stack
from raido.algo.language.making import array, replicate
from raido.algo.language.moves import swapaxes
from raido.algo.language.ufuncs import where
from raido.algo.library.fft_of_twos import half_of_whole, transformed_by_twos, whole_of_half
from raido.algo.library.radix_plan import chirps, good_size, radices, roots_at, twiddles
from raido.algo.trace.trees import map_leaves
from raido.algo.trace.value import Array, size_value

_LARGEST_TABLE = (
    1 << 15
)  # roots: half a megabyte of complex128, which leaves room for the numbers in a second-level cache
_BLOCK = 128  # bytes: two cache lines, which processors fetch in pairs, and a vector at least
_SMALLEST_HALVED = 4  # real numbers; for fewer, the additional step costs more than it saves


def transformed(numbers: Any, count: Any, across: bool = False) -> Any:
    """The transform of `count` complex numbers along the last axis; `count` is an int, or a traced size that is a power of two.

    `across`: the lines are columns, whose neighbours lie along the axis before; blocks of columns are then transformed together.
    """
    if isinstance(count, Array):
        return transformed_by_twos(numbers, count)
    factors = radices(count)
    if factors is None:
        return _convolved(numbers, count)
    width = _columns_together(numbers) if across else 1
    lead = blocks = _lead(numbers.real)
    if width > 1:
        blocks = (*lead[:-1], lead[-1] // width)
        numbers = swapaxes(numbers.reshape(*blocks, width, count), -1, -2)
    left = count
    for radix in factors:
        left //= radix
        numbers = _step(numbers, blocks, left, radix, count * width // left // radix)
    if width > 1:
        numbers = swapaxes(numbers.reshape(*blocks, count, width), -1, -2).reshape(*lead, count)
    return numbers


def _columns_together(numbers: Any) -> int:
    """The columns of a block: as many as divide a row evenly, of at most `_BLOCK` bytes; 1 for rows that are too short, or not known."""
    row = numbers.real.extents[-2] if numbers.ndim > 1 else as_index(1)
    most = _BLOCK // numbers.dtype.itemsize
    known = constant_value(row) or 1
    width = max(k for k in range(1, most + 1) if known % k == 0)
    return width if 4 * width >= most else 1


def inverse(numbers: Any, count: Any, across: bool = False) -> Any:
    """The inverse transform along the last axis, times `count` (unscaled)."""
    return exchanged(transformed(exchanged(numbers), count, across))


def exchanged(numbers: Any) -> Any:
    """The numbers i·conj(z), real and imaginary part exchanged; the transform of these is i·conj of the unscaled inverse transform."""
    return Complex._make((numbers.imag, numbers.real))


def half_of_real(numbers: Array, count: Any) -> Any:
    """The first count // 2 + 1 elements of the transform of `count` real ones along the last axis.

    With z[j] = x[2j] + i·x[2j + 1] and its transform Z, of half the size m, X[k] = (Z[k] + conj(Z[m − k])) / 2 − i·exp(−2πi·k / n)·
    (Z[k] − conj(Z[m − k])) / 2.
    """
    if not _halved(count):
        whole = transformed(as_complex(numbers), count)
        return half_of_whole(whole, count) if isinstance(count, Array) else whole[..., : count // 2 + 1]
    m = count // 2
    lead = _lead(numbers)
    pairs = numbers.reshape(*lead, m, 2)
    spectrum = transformed(Complex._make((pairs[..., 0], pairs[..., 1])), m)
    root = _roots(count, m + 1, spectrum.dtype)

    def apart(*indices: Any) -> Complex:
        *outer, k = indices
        here, there = spectrum[(*outer, k % m)], conj(spectrum[(*outer, (m - k) % m)])
        return times(here + there - _quarter((here - there) * root(k)), 0.5)

    return tabulate((*lead, m + 1), apart, name="halves_apart")


def real_of_half(half: Any, count: Any) -> Array:
    """The `count` real numbers, times `count`, whose transform starts with the given count // 2 + 1 elements along the last axis.

    The imaginary parts of the first element and, for an even count, of the last one are ignored.
    """
    if isinstance(count, Array):
        return inverse(whole_of_half(half, count), count).real
    if not _halved(count):
        if count > 2:
            half = concat([half, conj(half[..., 1 : count - count // 2][..., ::-1])], axis=-1)
        return inverse(half[..., :count], count).real
    m = count // 2
    lead = _lead(half.real)
    root = _roots(count, m, half.dtype)

    def together(*indices: Any) -> Complex:
        *outer, k = indices
        here, there = half[(*outer, k)], conj(half[(*outer, m - k)])
        total, difference = here + there, here - there
        ends = k == 0
        total = Complex._make((total.real, where(ends, total.imag.dtype(0), total.imag)))
        difference = Complex._make((difference.real, where(ends, difference.imag.dtype(0), difference.imag)))
        return total + _quarter(difference * conj(root(k)))

    numbers = inverse(tabulate((*lead, m), together, name="halves_together"), m)
    return stack([numbers.real, numbers.imag], -1).reshape(*lead, count)


def _halved(count: Any) -> bool:
    """Whether `count` real numbers are transformed as half as many complex ones."""
    return isinstance(count, int) and count % 2 == 0 and count >= _SMALLEST_HALVED


def _lead(numbers: Array) -> tuple[Any, ...]:
    """The sizes of all axes but the last."""
    return tuple(size_value(extent) for extent in numbers.extents[:-1])


def _step(numbers: Any, lead: tuple[Any, ...], m: int, radix: int, done: int) -> Any:
    """One Stockham step, from [radix, m, done] to [m, radix, done] behind the axes `lead`: element j of each transform of `radix` numbers,
    at index p of `m`, is multiplied by exp(−2πi·p·j / (m·radix)).
    """
    given = numbers.reshape(*lead, radix, m, done)
    turns = _turns(m, radix, numbers.dtype)

    def turned(*indices: Any) -> Complex:
        *outer, p, j, q = indices
        results = butterfly([given[(*outer, k, p, q)] for k in range(radix)])
        chosen = results[-1]
        for k in reversed(range(radix - 1)):
            chosen = Complex._make(where(j == k, a, b) for a, b in _parts(results[k], chosen))
        return chosen if m == 1 else chosen * turns(p, j)

    stepped = tabulate((*lead, m, radix, done), turned, name=f"radix_{radix}")
    return stepped.reshape(*lead, m * radix * done)


def _parts(a: Complex, b: Complex) -> tuple[tuple[Array, Array], ...]:
    return (a.real, b.real), (a.imag, b.imag)


def _roots(n: int, count: int, dtype: Any) -> Any:
    """The function k ↦ exp(−2πi·k / n) for k < count: from one table, or, where that would be large, as a product from two tables in
    f64."""
    if count <= _LARGEST_TABLE:
        table = array(roots_at(np.arange(count), n).astype(dtype.numpy))
        return lambda k: table[k]
    low = math.isqrt(count - 1) + 1
    coarse, fine = array(roots_at(low * np.arange(low), n)), array(roots_at(np.arange(low), n))
    return lambda k: dtype(coarse[k // low] * fine[k % low])


def _turns(m: int, radix: int, dtype: Any) -> Any:
    """The function p, j ↦ exp(−2πi·p·j / (m·radix)): from one table, or, where that would be large, as a product from two tables in f64."""
    if m * radix <= _LARGEST_TABLE:
        table = array(twiddles(m, radix).astype(dtype.numpy))
        return lambda p, j: table[p, j]
    low = math.isqrt(m - 1) + 1
    p, j = np.arange(-(-m // low))[:, None], np.arange(radix)
    coarse = array(roots_at(low * p * j, m * radix))
    fine = array(roots_at(np.arange(low)[:, None] * j, m * radix))
    return lambda p, j: dtype(coarse[p // low, j] * fine[p % low, j])


def butterfly(x: list[Any]) -> list[Any]:
    """The Fourier transform of 2, 3, 4 or 5 numbers; of 2 and 4 numbers without products."""
    if len(x) == 2:
        return [x[0] + x[1], x[0] - x[1]]
    if len(x) == 4:
        (a, b), (c, d) = butterfly([x[0], x[2]]), butterfly([x[1], x[3]])
        return [a + c, b - _quarter(d), a - c, b + _quarter(d)]
    return _odd_butterfly(x)


def _odd_butterfly(x: list[Any]) -> list[Any]:
    """The Fourier transform of 3 or 5 numbers by the symmetry of the roots: sums of the numbers at k and n − k times cosines, their
    differences times sines.
    """
    n = len(x)
    pairs = [(x[k] + x[n - k], x[k] - x[n - k]) for k in range(1, n // 2 + 1)]
    results = [sum((total for total, _ in pairs), x[0])] + [x[0]] * (n - 1)
    for j in range(1, n // 2 + 1):
        even, odd = x[0], None
        for k, (total, difference) in enumerate(pairs, 1):
            angle = 2 * math.pi * (j * k % n) / n
            even = _plus(even, total, math.cos(angle))
            odd = times(difference, math.sin(angle)) if odd is None else _plus(odd, difference, math.sin(angle))
        assert odd is not None
        results[j], results[n - j] = even - _quarter(odd), even + _quarter(odd)
    return results


def _quarter(z: Any) -> Any:
    """The number i·z."""
    return Complex._make((-z.imag, z.real))


def times(z: Any, factor: Any) -> Any:
    """Real or complex numbers multiplied by a real one."""
    return map_leaves(lambda part: part * factor, z)


def _plus(total: Any, z: Any, factor: float) -> Any:
    return Complex._make((total.real + z.real * factor, total.imag + z.imag * factor))


def _convolved(numbers: Any, count: int) -> Any:
    """Bluestein's transform: j·k = (j² + k² − (k − j)²) / 2, so it is a convolution with a chirp, between products with its inverse."""
    size = good_size(2 * count - 1)
    chirp, kernel = (array(table.astype(numbers.dtype.numpy)) for table in chirps(count, size))
    zeros = replicate((*_lead(numbers.real), size - count), numbers.real.dtype(0))
    filled = concat([numbers * chirp, Complex._make((zeros, zeros))], axis=-1)
    product = transformed(filled, size) * kernel
    return inverse(product, size)[..., :count] * chirp
