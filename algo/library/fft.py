"""Discrete Fourier transforms, `rd.fft.fft` and the others, with NumPy's signatures: along one axis, or along several in turn.

The size is known while tracing, from the type or as `n`, or is a power of two when the program runs. `fft_steps.py` has the
transforms themselves; this module moves, cuts and pads axes, and scales results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from raido.algo.errors import DTypeError, ShapeError, TraceError
from raido.algo.graph import index
from raido.algo.graph.dtypes import f32, f64
from raido.algo.language.combinators import tabulate
from raido.algo.language.complex_functions import conj
from raido.algo.language.complexes import Complex, as_complex
from raido.algo.language.joining import concat, roll
from raido.algo.language.making import replicate
from raido.algo.language.moves import astype, named, normal_axis, transpose
from raido.algo.language.pure import without_out
from raido.algo.language.ufuncs import sqrt, where
from raido.algo.library.fft_steps import half_of_real, inverse, real_of_half, times, transformed
from raido.algo.library.operands import numbers_of
from raido.algo.trace.locations import complaint, plain_int
from raido.algo.trace.trees import is_sequence, leaves, map_leaves
from raido.algo.trace.value import LITERAL, Array, size_value

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]


@without_out
def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, *, name: str | None = None) -> Array:
    """The Fourier transform along `axis`: X[k] = Σ x[j]·exp(−2πi·j·k / n), NumPy's `np.fft.fft`.

    The elements may be real or complex; f16, bf16, f32 and complex64 give complex64, others complex128. `n` cuts the axis to that
    size, or pads it with zeros. Without `n`, a size that is not known while tracing must be a power of two when the program runs: else
    SizeMismatch. `norm` is "backward" (None), "ortho" (times 1 / √n) or "forward" (times 1 / n). ShapeError for a size of 0; TraceError
    for another `norm`.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.fft(x, 4)).interpret(np.array([1.0, 2.0, 0.0, -2.0]))
        array([1.+0.j, 1.-4.j, 1.+0.j, 1.+4.j])
    """
    numbers, count = _along(a, n, axis, "rd.fft.fft")
    numbers = transformed(_complex(numbers), count, _is_across(numbers, axis))
    return _finished(numbers, _scale(norm, count, forward=True), axis, name)


@without_out
def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, *, name: str | None = None) -> Array:
    """The inverse of `fft`: x[j] = Σ X[k]·exp(2πi·j·k / n) / n; without the division for `norm="forward"`. Arguments are those of `fft`.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.ifft(x, 4)).interpret(np.array([4.0, 0.0, 0.0, 0.0]))
        array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    """
    numbers, count = _along(a, n, axis, "rd.fft.ifft")
    numbers = inverse(_complex(numbers), count, _is_across(numbers, axis))
    return _finished(numbers, _scale(norm, count, forward=False), axis, name)


@without_out
def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, *, name: str | None = None) -> Array:
    """The first n // 2 + 1 elements of `fft` of real numbers; the others are their conjugates. DTypeError for complex numbers.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.rfft(x, 4)).interpret(np.array([1.0, 2.0, 0.0, -2.0]))
        array([1.+0.j, 1.-4.j, 1.+0.j])
    """
    if isinstance(numbers_of(a, "rd.fft.rfft"), Complex):
        raise DTypeError(complaint("rd.fft.rfft of complex numbers", remedy="rd.fft.fft, or .real"))
    numbers, count = _along(a, n, axis, "rd.fft.rfft")
    return _finished(half_of_real(numbers, count), _scale(norm, count, forward=True), axis, name)


@without_out
def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, *, name: str | None = None) -> Array:
    """The inverse of `rfft`: `n` real numbers, by default 2·(m − 1) for m complex ones, of f32 or f64.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.irfft(x, 4)).interpret(np.array([1, 1 - 4j, 1]))
        array([ 1.,  2.,  0., -2.])
    """
    what = "rd.fft.irfft"
    count = _positive(2 * (_size(a, axis, what) - 1) if n is None else n, what)
    half, _ = _along(a, None if isinstance(count, Array) else count // 2 + 1, axis, what)
    return _finished(real_of_half(_complex(half), count), _scale(norm, count, forward=False), axis, name)


@without_out
def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, *, name: str | None = None) -> Array:
    """The transform, `n` real numbers, of a Hermitian-symmetric line of which only the first half is given.

    The missing elements are the conjugates of the given ones in reverse order. `n` is by default 2·(m − 1) for m elements.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.hfft(x, 4)).interpret(np.array([1, 1 - 4j, 1]))
        array([ 4., -8.,  0.,  8.])
    """
    return irfft(conj(numbers_of(a, "rd.fft.hfft")), n, axis, _SWAPPED.get(norm, norm), name=name)


@without_out
def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, *, name: str | None = None) -> Array:
    """The inverse of `hfft`: the first n // 2 + 1 elements of `ifft` of real ones. DTypeError for complex numbers.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.ihfft(x, 4)).interpret(np.array([4.0, -8.0, 0.0, 8.0]))
        array([1.-0.j, 1.-4.j, 1.-0.j])
    """
    return conj(rfft(a, n, axis, _SWAPPED.get(norm, norm)), name=name)


@without_out
def fftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None, *, name: str | None = None) -> Array:
    """The transform `fft` along each of `axes` (all, or the last ones that `s` has sizes for), from the last one to the first.

    `s` holds a size for each axis, −1 to keep its size. ShapeError where `s` and `axes` have different lengths.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.fftn(x, (2, 2))).interpret(np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([[10.+0.j, -2.+0.j],
               [-4.+0.j,  0.+0.j]])
    """
    return _along_each(fft, a, s, axes, norm, name, "rd.fft.fftn")


@without_out
def ifftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None, *, name: str | None = None) -> Array:
    """The transform `ifft` along each of `axes`, with the arguments of `fftn`.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.ifftn(x, (2, 2))).interpret(np.array([[10.0, -2.0], [-4.0, 0.0]]))
        array([[1.+0.j, 2.+0.j],
               [3.+0.j, 4.+0.j]])
    """
    return _along_each(ifft, a, s, axes, norm, name, "rd.fft.ifftn")


@without_out
def rfftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None, *, name: str | None = None) -> Array:
    """The transform `rfft` along the last of `axes`, then `fft` along the others; arguments are those of `fftn`.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.rfftn(x, (2, 2))).interpret(np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([[10.+0.j, -2.+0.j],
               [-4.+0.j,  0.+0.j]])
    """
    what = "rd.fft.rfftn"
    plan = _plan(a, s, axes, what, at_least_one=True)
    (size, axis), rest = plan[-1], plan[:-1]
    result = rfft(a, size, axis, norm, name=None if rest else name)
    return _one_by_one(fft, result, rest[::-1], norm, name)


@without_out
def irfftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None, *, name: str | None = None) -> Array:
    """The inverse of `rfftn`: `ifft` along all of `axes` but the last, then `irfft` along the last.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.irfftn(x, (2, 2))).interpret(np.array([[10.0, -2.0], [-4.0, 0.0]]))
        array([[1., 2.],
               [3., 4.]])
    """
    what = "rd.fft.irfftn"
    plan = _plan(a, s, axes, what, at_least_one=True)
    (size, axis), rest = plan[-1], plan[:-1]
    if size is None and s is not None:
        size = _size(a, axis, what)
    return irfft(_one_by_one(ifft, a, rest, norm, None), size, axis, norm, name=name)


@without_out
def fft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None, *, name: str | None = None) -> Array:
    """The transform `fft` along each of two axes; `s` holds the size for each of them.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.fft2(x, (2, 2))).interpret(np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([[10.+0.j, -2.+0.j],
               [-4.+0.j,  0.+0.j]])
    """
    return _along_each(fft, a, s, axes, norm, name, "rd.fft.fft2")


@without_out
def ifft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None, *, name: str | None = None) -> Array:
    """The transform `ifft` along each of two axes; `s` holds the size for each of them.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.ifft2(x, (2, 2))).interpret(np.array([[10.0, -2.0], [-4.0, 0.0]]))
        array([[1.+0.j, 2.+0.j],
               [3.+0.j, 4.+0.j]])
    """
    return _along_each(ifft, a, s, axes, norm, name, "rd.fft.ifft2")


@without_out
def rfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None, *, name: str | None = None) -> Array:
    """The transform `rfft` along the last of two axes, `fft` along the other.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.rfft2(x, (2, 2))).interpret(np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([[10.+0.j, -2.+0.j],
               [-4.+0.j,  0.+0.j]])
    """
    return rfftn(a, s, axes, norm, name=name)


@without_out
def irfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None, *, name: str | None = None) -> Array:
    """The inverse of `rfft2`.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.irfft2(x, (2, 2))).interpret(np.array([[10.0, -2.0], [-4.0, 0.0]]))
        array([[1., 2.],
               [3., 4.]])
    """
    return irfftn(a, s, axes, norm, name=name)


def fftfreq(n: Any, d: Any = 1.0, *, name: str | None = None) -> Array:
    """The frequencies of the `n` elements of `fft`, for samples `d` apart: 0, 1, …, −2, −1 times 1 / (n·d); `n` is an int or a size.

    The dtype is that of `d`: weak f64 for a Python number.

    Example:
        >>> rd.algorithm(lambda n: rd.fft.fftfreq(n, 0.5), n="size").interpret(5)
        array([ 0. ,  0.4,  0.8, -0.8, -0.4])
    """
    first = 1.0 / (n * d)
    return tabulate((n,), lambda i: where(2 * i < n, i, i - n) * first, name=name)


def rfftfreq(n: Any, d: Any = 1.0, *, name: str | None = None) -> Array:
    """The frequencies of the n // 2 + 1 elements of `rfft`, for samples `d` apart: 0, 1, … times 1 / (n·d); `n` is an int or a size.

    The dtype is that of `d`: weak f64 for a Python number.

    Example:
        >>> rd.algorithm(lambda n: rd.fft.rfftfreq(n, 0.5), n="size").interpret(5)
        array([0. , 0.4, 0.8])
    """
    first = 1.0 / (n * d)
    return tabulate((n // 2 + 1,), lambda i: i * first, name=name)


def fftshift(x: Any, axes: Any = None, *, name: str | None = None) -> Array:
    """The elements rolled by half the size of each of `axes` (an int or a tuple; None: all), so that frequency 0 is in the middle.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.fftshift(x)).interpret(np.array([0, 1, 2, -2, -1]))
        array([-2, -1,  0,  1,  2])
    """
    return _rolled(x, axes, 1, name)


def ifftshift(x: Any, axes: Any = None, *, name: str | None = None) -> Array:
    """The inverse of `fftshift`; it differs from `fftshift` for odd sizes.

    Example:
        >>> rd.algorithm(lambda x: rd.fft.ifftshift(x)).interpret(np.array([-2, -1, 0, 1, 2]))
        array([ 0,  1,  2, -2, -1])
    """
    return _rolled(x, axes, -1, name)


_SWAPPED = {None: "forward", "backward": "forward", "forward": "backward"}  # a transform's norm as that of its inverse


def _rolled(x: Any, axes: Any, sign: int, name: str | None) -> Any:
    given = numbers_of(x, "rd.fft.fftshift")
    chosen = range(given.ndim) if axes is None else tuple(axes) if is_sequence(axes) else (axes,)
    chosen = tuple(normal_axis(k, given.ndim) for k in chosen)
    if not chosen:
        return given if name is None else named(given, name)
    return roll(given, tuple(sign * (given.shape[k] // 2) for k in chosen), chosen, name=name)


def _along_each(
    one: Callable[..., Any], a: Any, s: Any, axes: Any, norm: str | None, name: str | None, what: str
) -> Any:
    return _one_by_one(one, a, _plan(a, s, axes, what)[::-1], norm, name)


def _one_by_one(
    one: Callable[..., Any], value: Any, plan: list[tuple[Any, int]], norm: str | None, name: str | None
) -> Any:
    """Applies the transforms of a plan in order; the last one has the name."""
    for k, (size, axis) in enumerate(plan):
        value = one(value, size, axis, norm, name=name if k == len(plan) - 1 else None)
    return value


def _plan(a: Any, s: Any, axes: Any, what: str, at_least_one: bool = False) -> list[tuple[Any, int]]:
    """The size (None: the whole axis) and the axis of each transform."""
    rank = leaves(numbers_of(a, what))[0].ndim
    if s is not None and not is_sequence(s):
        raise ShapeError(complaint(f"the sizes `s` of {what} are a tuple of ints, not {s!r}"))
    if axes is None:
        axes = range(rank) if s is None else range(-len(s), 0)
    elif not is_sequence(axes):
        raise ShapeError(complaint(f"the axes of {what} are a tuple of ints, not {axes!r}"))
    sizes = [None] * len(axes) if s is None else [None if n is None or n == -1 else n for n in s]
    if len(sizes) != len(axes):
        raise ShapeError(complaint(f"{what} of {len(sizes)} sizes along {len(axes)} axes"))
    if at_least_one and not sizes:
        raise ShapeError(complaint(f"{what} along no axis"))
    return list(zip(sizes, (normal_axis(k, rank) for k in axes), strict=True))


def _size(a: Any, axis: int, what: str) -> Any:
    """The size of an axis: an int, or a traced size where it is not known while tracing."""
    first = leaves(numbers_of(a, what))[0]
    if first.ndim == 0:
        raise ShapeError(complaint(f"{what} needs an array of numbers"))
    return size_value(first.extents[normal_axis(axis, first.ndim)])


def _positive(n: Any, what: str) -> Any:
    if isinstance(n, Array):
        return n
    if n < 1:
        raise ShapeError(complaint(f"{what} of {n} numbers"))
    return n


def _along(a: Any, n: Any, axis: int, what: str) -> tuple[Any, Any]:
    """The elements in the float dtype of their transform, with `axis` moved to the end and cut or padded to its size; and that size."""
    known = _size(a, axis, what)
    if isinstance(n, Array) and isinstance(known, Array) and n.node is known.node:
        n = None  # the whole axis
    if isinstance(n, Array):
        remedy = (
            "no n, for the whole axis, whose size is a power of two then; a number for an axis that is cut or filled up"
        )
        raise TraceError(complaint(f"n of {what} is an int that is known while tracing", remedy=remedy))
    count = _positive(known if n is None else plain_int(n, f"n of {what}"), what)
    given = numbers_of(a, what)
    kind = leaves(given)[0].dtype
    narrow = kind.is_float and kind is not f64 and given.weak != LITERAL
    part = f32 if narrow else f64
    numbers = map_leaves(lambda leaf: astype(leaf, part), given)
    last = _axis_last(numbers, normal_axis(axis, given.ndim))
    return (last if n is None else map_leaves(lambda leaf: _resized(leaf, count), last)), count


def _resized(leaf: Array, count: int) -> Array:
    """The elements along the last axis, cut or padded with zeros to `count`."""
    known = index.constant_value(leaf.extents[-1])
    if known == count:
        return leaf
    missing = count if known is None else max(count - known, 0)
    if missing:
        zeros = replicate((*(size_value(extent) for extent in leaf.extents[:-1]), missing), leaf.dtype(0))
        leaf = concat([leaf, zeros], axis=-1)
    return leaf[..., :count]


def _complex(numbers: Any) -> Any:
    return numbers if isinstance(numbers, Complex) else as_complex(numbers)


def _axis_last(numbers: Any, axis: int) -> Any:
    rank = numbers.ndim
    return numbers if axis == rank - 1 else transpose(numbers, [k for k in range(rank) if k != axis] + [axis])


def _is_across(numbers: Any, axis: int) -> bool:
    return normal_axis(axis, numbers.ndim) < numbers.ndim - 1


def _finished(numbers: Any, scale: Any, axis: int, name: str | None) -> Any:
    """The elements times `scale`, with the last axis moved back to `axis`."""
    if isinstance(scale, Array) or scale != 1.0:
        numbers = times(numbers, scale)
    rank = numbers.ndim
    along = normal_axis(axis, rank)
    if along != rank - 1:
        order = list(range(rank - 1))
        order.insert(along, rank - 1)
        numbers = transpose(numbers, order)
    return numbers if name is None else named(numbers, name)


def _scale(norm: str | None, count: Any, *, forward: bool) -> Any:
    if norm not in (None, "backward", "ortho", "forward"):
        raise TraceError(complaint(f"there is no norm {norm!r}", remedy='"backward", "ortho" or "forward"'))
    if norm == "ortho":
        return 1.0 / (sqrt(count) if isinstance(count, Array) else math.sqrt(count))
    return 1.0 / count if (norm == "forward") == forward else 1.0
