"""NumPy's statistics of sorted elements: `median quantile percentile`, their variants without NaN, and `lexsort`.

Elements are sorted along the reduced axes; a quantile lies at a fractional index between two of them, which the method decides. Methods are
those of Hyndman and Fan (Sample quantiles in statistical packages, 1996), by NumPy's names. A NaN among the elements makes the result NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raido.algo.errors import DTypeError, ShapeError, TraceError
from raido.algo.graph.dtypes import bool_, computed_in, f64, i64
from raido.algo.language import reductions, ufuncs
from raido.algo.language.complexes import Complex
from raido.algo.language.moves import astype, normal_axis, reshape, transpose
from raido.algo.language.pure import without_out
from raido.algo.language.reductions import normal_axes, not_empty
from raido.algo.language.sorting import argsort, sort
from raido.algo.library.operands import numbers_of
from raido.algo.library.searching import real_of
from raido.algo.trace.building import elementwise, structure
from raido.algo.trace.locations import complaint
from raido.algo.trace.promotion import common_type, lift
from raido.algo.trace.trees import leaves
from raido.algo.trace.value import Array
from raido.algo.trace.weak import as_weak

if TYPE_CHECKING:
    from raido.algo.language.parameters import Axes

Place = Callable[[Any, Any], Any]


def _between(alpha: float, beta: float) -> Place:
    return lambda n, q: _share(n, q) + (alpha + q * (1 - alpha - beta)) - 1


def _share(n: Any, q: Any) -> Any:
    """The product n * q, bounded by n: the bound keeps it from being fused with a subtraction, which would miss ties."""
    return ufuncs.minimum(n * q, n)


BETWEEN: dict[str, Place] = {  # fractional indices in 0 … n - 1 of the quantile q of n elements, for interpolation
    "averaged_inverted_cdf": lambda n, q: _share(n, q) - 1,
    "hazen": _between(0.5, 0.5),
    "interpolated_inverted_cdf": _between(0, 1),
    "linear": lambda n, q: (n - 1) * q,
    "median_unbiased": _between(1 / 3.0, 1 / 3.0),
    "midpoint": lambda n, q: 0.5 * (ufuncs.floor((n - 1) * q) + ufuncs.ceil((n - 1) * q)),
    "normal_unbiased": _between(3 / 8.0, 3 / 8.0),
    "weibull": _between(0, 0),
}
AT: dict[str, Place] = {  # indices of one element
    "closest_observation": lambda n, q: _closest(_share(n, q) - 1.5),
    "higher": lambda n, q: ufuncs.ceil((n - 1) * q),
    "inverted_cdf": lambda n, q: ufuncs.ceil(_share(n, q) - 1),
    "lower": lambda n, q: ufuncs.floor((n - 1) * q),
    "nearest": lambda n, q: ufuncs.rint((n - 1) * q),
}


def _closest(position: Any) -> Any:
    """The smallest integer above `position`, or `position` itself where it is an odd integer."""
    down = ufuncs.floor(position)
    return ufuncs.where((position == down) & (down % 2.0 == 1.0), down, down + 1.0)


@without_out
def median(a: Any, axis: Axes = None, *, keepdims: bool = False, name: str | None = None) -> Array:
    """The middle element along `axis` (None: of all; an int or a tuple), or the mean of the two middle ones.

    Floats keep their dtype; integers give f64. NaN where there is a NaN; an empty axis is an error.

    Example:
        >>> rd.algorithm(lambda a: rd.median(a, axis=1)).interpret(np.array([[9, 1, 2], [4, 6, 5]]))
        array([2., 5.])
    """
    return _median(a, axis, keepdims, name, "rd.median", skips=False)


@without_out
def nanmedian(a: Any, axis: Axes = None, *, keepdims: bool = False, name: str | None = None) -> Array:
    """The median `rd.median` of the elements that are not NaN; NaN where there is none.

    Example:
        >>> rd.algorithm(lambda a: rd.nanmedian(a)).interpret(np.array([9.0, np.nan, 1.0]))
        np.float64(5.0)
    """
    return _median(a, axis, keepdims, name, "rd.nanmedian", skips=True)


def _median(a: Any, axis: Any, keepdims: bool, name: str | None, what: str, *, skips: bool) -> Array:
    value = real_of(a, what)
    line, after_check = _sorted(value, axis, what)
    result = value.dtype if value.dtype.is_float else f64
    wide = computed_in(result)

    def middle(row: Array) -> Array:
        n = _number_in(row, skips)
        low, high = (astype(row[_at_least_zero(k) if skips else k], wide) for k in ((n - 1) // 2, n // 2))
        one = isinstance(n, int) and n % 2
        mean = low if one else ufuncs.where(low == high, low, (low + high) / 2)
        return after_check(_unless_nan(row, astype(mean, result), skips))

    return as_weak(_finished(line, middle, (), value.ndim, axis, keepdims, name), value)


@without_out
def quantile(
    a: Any, q: Any, axis: Axes = None, *, method: str = "linear", keepdims: bool = False, name: str | None = None
) -> Array:
    """The quantiles `q`, in 0 … 1, of the elements along `axis` (None: of all; an int or a tuple).

    `q` is a scalar or an array, whose dimensions come first in the result. `method` is the rule between two elements: "linear", "lower",
    "higher", "midpoint", "nearest", or another of NumPy's. Dtypes are NumPy's: floats keep their own where `q` is a Python number; integers
    give f64, except with "lower", "higher" and "nearest" (and the other methods that choose an element), which keep the dtype. NaN where
    there is a NaN; an empty axis is an error. TraceError for another method or a `q` out of range; a traced `q` is clamped to the range.

    Example:
        >>> rd.algorithm(lambda a: rd.quantile(a, [0.0, 0.25, 1.0])).interpret(np.array([4.0, 1.0, 3.0, 2.0, 9.0]))
        array([1., 2., 9.])
    """
    return _quantile(a, q, 1.0, axis, method, keepdims, name, "rd.quantile")


@without_out
def nanquantile(
    a: Any, q: Any, axis: Axes = None, *, method: str = "linear", keepdims: bool = False, name: str | None = None
) -> Array:
    """The quantiles `rd.quantile` of the elements that are not NaN; NaN where there is none.

    Example:
        >>> rd.algorithm(lambda a: rd.nanquantile(a, 0.5)).interpret(np.array([4.0, np.nan, 3.0]))
        np.float64(3.5)
    """
    return _quantile(a, q, 1.0, axis, method, keepdims, name, "rd.nanquantile", skips=True)


@without_out
def percentile(
    a: Any, q: Any, axis: Axes = None, *, method: str = "linear", keepdims: bool = False, name: str | None = None
) -> Array:
    """The percentiles `q`, in 0 … 100, along `axis`: `rd.quantile` of `q / 100`.

    Example:
        >>> rd.algorithm(lambda a: rd.percentile(a, 50, method="lower")).interpret(np.array([4, 1, 3, 2]))
        np.int64(2)
    """
    return _quantile(a, q, 100.0, axis, method, keepdims, name, "rd.percentile")


@without_out
def nanpercentile(
    a: Any, q: Any, axis: Axes = None, *, method: str = "linear", keepdims: bool = False, name: str | None = None
) -> Array:
    """The percentiles `rd.percentile` of the elements that are not NaN; NaN where there is none.

    Example:
        >>> rd.algorithm(lambda a: rd.nanpercentile(a, 50)).interpret(np.array([4.0, np.nan, 3.0]))
        np.float64(3.5)
    """
    return _quantile(a, q, 100.0, axis, method, keepdims, name, "rd.nanpercentile", skips=True)


def _quantile(
    a: Any,
    q: Any,
    whole: float,
    axis: Any,
    method: str,
    keepdims: bool,
    name: str | None,
    what: str,
    *,
    skips: bool = False,
) -> Any:
    value = real_of(a, what)
    if method not in BETWEEN and method not in AT:
        known = ", ".join(sorted({*BETWEEN, *AT}))
        raise TraceError(complaint(f"no method {method!r} of {what}", remedy=f"one of {known}"))
    parts = real_of(q, f"the quantiles of {what}")
    if isinstance(q, (int, float)) and not 0 <= q <= whole:
        raise TraceError(complaint(f"a quantile of {what} lies in 0 … {whole:g}, not at {q}"))
    result = _type_of(value, parts, type(q) in (int, float), method, what)
    part = astype(parts, f64)
    part = ufuncs.clip(part / whole if whole != 1 else part, 0.0, 1.0)
    line, after_check = _sorted(value, axis, what)

    def at(row: Array, p: Array) -> Array:
        number = astype(lift(_number_in(row, skips)), i64)
        n, last = astype(number, f64), ufuncs.maximum(number - 1, 0) if skips else number - 1
        element = lambda i: row[ufuncs.clip(i, 0, last)]
        if method in AT:
            return after_check(_unless_nan(row, element(astype(AT[method](n, p), i64)), skips))
        position = BETWEEN[method](n, p)
        down = astype(ufuncs.floor(position), i64)
        low, high = element(down), element(down + 1)
        share = position - ufuncs.floor(position)
        if method == "averaged_inverted_cdf":
            share = ufuncs.where(share == 0, 0.5, 1.0)
        share = astype(share, result)
        difference = astype(high - low, result)
        low, high = astype(low, result), astype(high, result)
        value = ufuncs.where(share >= 0.5, high - difference * (1 - share), low + difference * share)
        return after_check(_unless_nan(row, value, skips))

    every = lambda row: elementwise(lambda p: at(row, p), [part])
    found = _finished(line, every, tuple(range(parts.ndim)), value.ndim, axis, keepdims, name)
    return as_weak(found, value, parts)


def _type_of(value: Array, parts: Array, weak: bool, method: str, what: str) -> Any:
    """The dtype of the interpolation, and of the result."""
    if method in AT:
        return value.dtype
    if value.dtype is bool_:
        raise DTypeError(complaint(f"{what} of bool_ between elements", remedy=".astype(rd.f64), or method='nearest'"))
    if weak:
        return value.dtype if value.dtype.is_float else f64
    return common_type([value, parts if parts.dtype.is_float else f64(0)])[0]


def _sorted(value: Array, axis: Any, what: str) -> tuple[Array, Callable[[Array], Array]]:
    """The elements sorted along the reduced axes, in one last dimension; and a function that puts the check for emptiness before a
    result."""
    after_check = not_empty(value, axis, what)
    axes = normal_axes(axis, value.ndim)
    if not axes:
        return value[..., None], after_check
    rest = [k for k in range(value.ndim) if k not in axes]
    moved = transpose(value, [*rest, *axes])
    if len(axes) > 1:
        count: Any = 1
        for k in axes:
            count = count * value.shape[k]
        moved = reshape(moved, (*(value.shape[k] for k in rest), count))
    return sort(moved), after_check


def _number_in(row: Array, skips: bool) -> Any:
    """The number of elements of a sorted row; of those that are not NaN with `skips`."""
    if not skips or not row.dtype.is_float:
        return row.shape[0]
    return reductions.sum(ufuncs.logical_not(ufuncs.isnan(row)))


def _at_least_zero(position: Any) -> Any:
    return max(position, 0) if isinstance(position, int) else ufuncs.maximum(position, 0)


def _unless_nan(row: Array, value: Array, skips: bool) -> Array:
    """The value, or NaN where the last element of the sorted row is NaN; the value always with `skips`."""
    if skips or not row.dtype.is_float:
        return value
    return ufuncs.where(ufuncs.isnan(row[-1]), value.dtype(math.nan), value)


def _finished(
    line: Array,
    function: Callable[[Array], Array],
    front: tuple[int, ...],
    rank: int,
    axis: Any,
    keepdims: bool,
    name: str | None,
) -> Any:
    """The array of `function` of each row of sorted elements; the dimensions `front` of its result are moved to the front."""
    from raido.algo.language.combinators import map

    call = function
    for _ in range(line.ndim - 1):
        call = lambda rows, inner=call: map(inner, rows)
    result = call(line)
    rest = line.ndim - 1
    if front and rest:
        result = transpose(result, [*(rest + k for k in front), *range(rest)])
    if keepdims:
        axes = normal_axes(axis, rank)
        result = result[(*(slice(None) for _ in front), *(None if k in axes else slice(None) for k in range(rank)))]
    return result if name is None else result.named(name)


def lexsort(keys: Any, axis: int = -1, *, name: str | None = None) -> Array:
    """The indices (i64) that sort by several keys, of which the last one is the primary: a stable `argsort` of tuples.

    `keys` is a tuple or list of arrays of one shape, or an array with the keys along its first dimension; they are sorted along `axis`.
    The result has the shape of one key. ShapeError where there is none.

    Example:
        >>> rd.algorithm(lambda a, b: rd.lexsort((b, a))).interpret(np.array([1, 0, 1]), np.array([5, 6, 4]))
        array([1, 2, 0])
    """
    if isinstance(keys, (tuple, list)) and not isinstance(keys, Complex):
        parts = [numbers_of(key, "rd.lexsort") for key in keys]
    else:
        parts = list(numbers_of(keys, "rd.lexsort"))
    if not parts:
        raise ShapeError(complaint("rd.lexsort without keys"))
    along = normal_axis(axis, leaves(parts[0])[0].ndim)
    return argsort(structure(tuple(reversed(parts))), along, name=name)
