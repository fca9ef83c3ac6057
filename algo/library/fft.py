"""Discrete Fourier transforms, `rd.fft.fft` and its like, for any size that is known while tracing.

Sizes of factors 2, 3 and 5 take Stockham's steps (T. G. Stockham, "High-speed convolution and correlation", AFIPS 1966, as C. Van Loan,
"Computational Frameworks for the Fast Fourier Transform", 1992, section 1.7, has them): each step is one stage, which transforms along
one radix and leaves the numbers in order, with no permutation before or after. Other sizes are convolutions with a chirp
(L. Bluestein, "A linear filtering approach to the computation of discrete Fourier transform", 1970), through two transforms of the
next size that has only these factors. The work is O(n log n) either way. Roots of unity are worked out in f64 and rounded once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from raido.algo.errors import DTypeError, ShapeError, TraceError
from raido.algo.graph import index
from raido.algo.graph.dtypes import f64
from raido.algo.language.combinators import tabulate
from raido.algo.language.complex_functions import conj
from raido.algo.language.complexes import Complex, as_complex, complex64, complex128
from raido.algo.language.joining import concat
from raido.algo.language.making import array, replicate
from raido.algo.language.moves import named, normal_axis, transpose
from raido.algo.language.ufuncs import where
from raido.algo.library.radix_plan import chirps, good_size, radices, roots_at, twiddles
from raido.algo.trace.building import structure
from raido.algo.trace.locations import complaint, plain_int
from raido.algo.trace.trees import is_sequence
from raido.algo.trace.value import LITERAL, Array, size_value

__all__ = ["fft", "fft2", "fftfreq", "ifft", "ifft2", "irfft", "rfft"]

_LARGEST_TABLE = (
    1 << 15
)  # roots: half a megabyte of complex128, which leaves room for the numbers in a second-level cache


def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, *, name: str | None = None) -> Any:
    """The Fourier transform along `axis`: X[k] = Σ x[j]·exp(−2πi·j·k / n), NumPy's `np.fft.fft`.

    The numbers may be real or complex; those of f16, bf16, f32 and complex64 give complex64, others complex128. `n` cuts the axis to that
    size, or fills it up with zeros; it is needed where the size is not known while tracing. `norm` is "backward" (None), "ortho"
    (times 1 / √n) or "forward" (times 1 / n). ShapeError for a size that is not known, or 0; TraceError for another `norm`.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.fft(x, 4)).interpret(np.array([1.0, 2.0, 0.0, -2.0]))
        array([1.+0.j, 1.-4.j, 1.+0.j, 1.+4.j])
    """
    numbers, count = _along(a, n, axis, "rd.fft.fft")
    return _finished(_transformed(numbers, count), _scale(norm, count, forward=True), axis, name)


def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, *, name: str | None = None) -> Any:
    """The inverse of `fft`: x[j] = Σ X[k]·exp(2πi·j·k / n) / n; without the division for `norm="forward"`. Arguments are those of `fft`.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.ifft(x, 4)).interpret(np.array([4.0, 0.0, 0.0, 0.0]))
        array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    """
    numbers, count = _along(a, n, axis, "rd.fft.ifft")
    return _finished(_inverse(numbers, count), _scale(norm, count, forward=False), axis, name)


def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, *, name: str | None = None) -> Any:
    """The first n // 2 + 1 numbers of `fft` of real numbers; the others are their conjugates. DTypeError for complex numbers.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.rfft(x, 4)).interpret(np.array([1.0, 2.0, 0.0, -2.0]))
        array([1.+0.j, 1.-4.j, 1.+0.j])
    """
    if isinstance(structure(a), Complex):
        raise DTypeError(complaint("rd.fft.rfft of complex numbers", remedy="rd.fft.fft, or .real"))
    numbers, count = _along(a, n, axis, "rd.fft.rfft")
    half = _transformed(numbers, count)[..., : count // 2 + 1]
    return _finished(half, _scale(norm, count, forward=True), axis, name)


def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, *, name: str | None = None) -> Any:
    """The inverse of `rfft`: `n` real numbers, 2·(m − 1) of m complex ones unless said, of f32 or f64.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.irfft(x, 4)).interpret(np.array([1, 1 - 4j, 1]))
        array([ 1.,  2.,  0., -2.])
    """
    if n is None:
        known = _known_size(a, axis, "rd.fft.irfft")
        n = 2 * (known - 1)
    count = _positive(n, "rd.fft.irfft")
    half, _ = _along(a, count // 2 + 1, axis, "rd.fft.irfft")
    if count > 2:
        half = concat([half, conj(half[..., 1 : count - count // 2][..., ::-1])], axis=-1)
    whole = half[..., :count]
    return _finished(_inverse(whole, count).real, _scale(norm, count, forward=False), axis, name)


def fft2(
    a: Any, s: Any = None, axes: tuple[int, int] = (-2, -1), norm: str | None = None, *, name: str | None = None
) -> Any:
    """`fft` along each of two axes; `s` holds the size for each of them.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.fft2(x, (2, 2))).interpret(np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([[10.+0.j, -2.+0.j],
               [-4.+0.j,  0.+0.j]])
    """
    return _along_both(fft, a, s, axes, norm, name)


def ifft2(
    a: Any, s: Any = None, axes: tuple[int, int] = (-2, -1), norm: str | None = None, *, name: str | None = None
) -> Any:
    """`ifft` along each of two axes; `s` holds the size for each of them.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.ifft2(x, (2, 2))).interpret(np.array([[10.0, -2.0], [-4.0, 0.0]]))
        array([[1.+0.j, 2.+0.j],
               [3.+0.j, 4.+0.j]])
    """
    return _along_both(ifft, a, s, axes, norm, name)


def fftfreq(n: Any, d: Any = 1.0, *, name: str | None = None) -> Array:
    """The frequencies of the `n` numbers of `fft`, for samples `d` apart: 0, 1, …, −2, −1 times 1 / (n·d), f64; `n` an int or a size.

    Example:
        >>> rd.algorithm(lambda n: rd.fft.fftfreq(n, 0.5), n="size").interpret(5)
        array([ 0. ,  0.4,  0.8, -0.8, -0.4])
    """
    first = 1.0 / (n * d)
    return tabulate((n,), lambda i: f64(where(2 * i < n, i, i - n)) * first, name=name)


def _along_both(one: Any, a: Any, s: Any, axes: Any, norm: str | None, name: str | None) -> Any:
    if not is_sequence(axes) or len(axes) != 2:
        raise ShapeError(complaint(f"axes are two ints, not {axes!r}"))
    sizes = (None, None) if s is None else s
    if not is_sequence(sizes) or len(sizes) != 2:
        raise ShapeError(complaint(f"sizes are two ints, not {s!r}"))
    inner = one(a, sizes[1], axes[1], norm)
    return one(inner, sizes[0], axes[0], norm, name=name)


def _known_size(a: Any, axis: int, what: str) -> int:
    """The size of an axis; ShapeError where it is not known while tracing."""
    given = structure(a)
    numbers = given.real if isinstance(given, Complex) else given
    if not isinstance(numbers, Array) or numbers.ndim == 0:
        raise ShapeError(complaint(f"{what} needs an array of numbers"))
    extent = numbers.extents[normal_axis(axis, numbers.ndim)]
    known = index.constant_value(extent)
    if known is None:
        raise ShapeError(
            complaint(
                f"{what} of {index.text(extent)} numbers: the size is not known while tracing",
                remedy=f"{what}(x, n=1024), or a number in the type of the parameter, such as rd.f32[1024]",
            )
        )
    return known


def _positive(n: Any, what: str) -> int:
    count = plain_int(n, f"n of {what}")
    if count < 1:
        raise ShapeError(complaint(f"{what} of {count} numbers"))
    return count


def _along(a: Any, n: int | None, axis: int, what: str) -> tuple[Any, int]:
    """The numbers as complex ones, the axis last, cut or filled up to its size; and the size."""
    count = _positive(_known_size(a, axis, what) if n is None else n, what)
    given = structure(a)
    if isinstance(given, tuple) and not isinstance(given, Complex):
        raise DTypeError(complaint(f"{what} of a tuple", remedy="apply it to each array"))
    if given.ndim == 0:
        raise ShapeError(complaint(f"{what} needs an array of numbers"))
    numbers = given if isinstance(given, Complex) else as_complex(given)
    kind = numbers.real.dtype
    narrow = kind.is_float and kind is not f64 and numbers.weak != LITERAL
    numbers = (complex64 if narrow else complex128)(numbers)
    last = _axis_last(numbers, normal_axis(axis, given.ndim))
    extent = last.extents[-1]
    known = index.constant_value(extent)
    if known == count:
        return last, count
    missing = count if known is None else max(count - known, 0)
    if missing:
        part = last.real.dtype
        zeros = replicate((*(size_value(e) for e in last.extents[:-1]), missing), part(0))
        last = concat([last, Complex._make((zeros, zeros))], axis=-1)
    return last[..., :count], count


def _axis_last(numbers: Any, axis: int) -> Any:
    rank = numbers.ndim
    return numbers if axis == rank - 1 else transpose(numbers, [k for k in range(rank) if k != axis] + [axis])


def _finished(numbers: Any, scale: float, axis: int, name: str | None) -> Any:
    """The numbers times a factor, the last axis back in its place."""
    if scale != 1.0:
        numbers = _times(numbers, scale)
    rank = numbers.ndim
    place = normal_axis(axis, rank)
    if place != rank - 1:
        order = list(range(rank - 1))
        order.insert(place, rank - 1)
        numbers = transpose(numbers, order)
    return numbers if name is None else named(numbers, name)


def _scale(norm: str | None, count: int, *, forward: bool) -> float:
    if norm not in (None, "backward", "ortho", "forward"):
        raise TraceError(complaint(f"there is no norm {norm!r}", remedy='"backward", "ortho" or "forward"'))
    if norm == "ortho":
        return 1.0 / math.sqrt(count)
    return 1.0 / count if (norm == "forward") == forward else 1.0


def _exchanged(numbers: Any) -> Any:
    """i·conj(z): the transform of this is that of the inverse transform."""
    return Complex._make((numbers.imag, numbers.real))


def _inverse(numbers: Any, count: int) -> Any:
    return _exchanged(_transformed(_exchanged(numbers), count))


def _transformed(numbers: Any, count: int) -> Any:
    """The transform along the last axis, of that size."""
    factors = radices(count)
    if factors is None:
        return _convolved(numbers, count)
    done = 1
    for radix in factors:
        numbers = _step(numbers, count // done // radix, radix, done)
        done *= radix
    return numbers


def _step(numbers: Any, m: int, radix: int, done: int) -> Any:
    """One of Stockham's steps: [radix, m, done] to [m, radix, done], where the j-th of the transform of each `radix` numbers is turned
    by exp(−2πi·p·j / (m·radix)) at the index p of `m`.
    """
    lead = tuple(size_value(extent) for extent in numbers.extents[:-1])
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


def _turns(m: int, radix: int, dtype: Any) -> Any:
    """exp(−2πi·p·j / (m·radix)), a function of p and j: from a table, or where that would be large, as a product out of two in f64."""
    if m * radix <= _LARGEST_TABLE:
        table = array(twiddles(m, radix).astype(dtype.numpy))
        return lambda p, j: table[p, j]
    low = math.isqrt(m - 1) + 1
    p, j = np.arange(-(-m // low))[:, None], np.arange(radix)
    coarse = array(roots_at(low * p * j, m * radix))
    fine = array(roots_at(np.arange(low)[:, None] * j, m * radix))
    return lambda p, j: dtype(coarse[p // low, j] * fine[p % low, j])


def butterfly(x: list[Any]) -> list[Any]:
    """The Fourier transform of 2, 3, 4 or 5 numbers, with no more products than it takes."""
    if len(x) == 2:
        return [x[0] + x[1], x[0] - x[1]]
    if len(x) == 4:
        (a, b), (c, d) = butterfly([x[0], x[2]]), butterfly([x[1], x[3]])
        return [a + c, b - _quarter(d), a - c, b + _quarter(d)]
    return _odd_butterfly(x)


def _odd_butterfly(x: list[Any]) -> list[Any]:
    """By the symmetry of the roots: cosines of sums, sines of differences, of the numbers at k and at n − k."""
    n = len(x)
    pairs = [(x[k] + x[n - k], x[k] - x[n - k]) for k in range(1, n // 2 + 1)]
    results = [sum((total for total, _ in pairs), x[0])] + [x[0]] * (n - 1)
    for j in range(1, n // 2 + 1):
        even, odd = x[0], None
        for k, (total, difference) in enumerate(pairs, 1):
            angle = 2 * math.pi * (j * k % n) / n
            even = _plus(even, total, math.cos(angle))
            odd = _times(difference, math.sin(angle)) if odd is None else _plus(odd, difference, math.sin(angle))
        assert odd is not None
        results[j], results[n - j] = even - _quarter(odd), even + _quarter(odd)
    return results


def _quarter(z: Any) -> Any:
    """i·z."""
    return Complex._make((-z.imag, z.real))


def _times(z: Any, factor: float) -> Any:
    """Real or complex numbers times a real one."""
    return z * factor if not isinstance(z, Complex) else Complex._make((z.real * factor, z.imag * factor))


def _plus(total: Any, z: Any, factor: float) -> Any:
    return Complex._make((total.real + z.real * factor, total.imag + z.imag * factor))


def _convolved(numbers: Any, count: int) -> Any:
    """Bluestein's transform: j·k = (j² + k² − (k − j)²) / 2, so it is a convolution with a chirp, between products with its inverse."""
    size = good_size(2 * count - 1)
    chirp, kernel = (array(table.astype(numbers.dtype.numpy)) for table in chirps(count, size))
    part, lead = numbers.real.dtype, tuple(size_value(extent) for extent in numbers.extents[:-1])
    zeros = replicate((*lead, size - count), part(0))
    filled = concat([numbers * chirp, Complex._make((zeros, zeros))], axis=-1)
    product = _transformed(filled, size) * kernel
    return _inverse(product, size)[..., :count] * chirp
