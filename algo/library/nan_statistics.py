"""NumPy's sums, means, deviations and extremes that leave out NaN, and running sums and products in which NaN counts as 0 or 1.

`axis` is None (all), an int or a tuple, as in `rd.sum`; integers have no NaN and are reduced as by the ordinary functions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from raido.algo.graph.dtypes import computed_in
from raido.algo.language import reductions, ufuncs
from raido.algo.language.combinators import reduce_axes
from raido.algo.language.complexes import Complex
from raido.algo.language.moves import astype
from raido.algo.language.pure import mask_over, needs_initial, taking_part, without_out
from raido.algo.language.reductions import normal_axes
from raido.algo.library.operands import numbers_of
from raido.algo.library.running import cumprod, cumsum
from raido.algo.library.statistics import float_of, kept, std, var
from raido.algo.trace.building import elementwise
from raido.algo.trace.trees import leaves
from raido.algo.trace.value import Array
from raido.algo.trace.weak import as_weak

if TYPE_CHECKING:
    from raido.algo.language.parameters import Axes, Axis, DTypeLike


@without_out
def nansum(
    a: Any,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
    name: str | None = None,
) -> Array:
    """The sum along `axis` of the elements that are not NaN, with the dtypes of `rd.sum`; 0 where there is none.

    Example:
        >>> rd.algorithm(lambda a: rd.nansum(a)).interpret(np.array([1.0, np.nan, 2.0]))
        np.float64(3.0)
    """
    value = _without_nan(numbers_of(a, "rd.nansum"))
    return reductions.sum(value, axis, dtype, keepdims=keepdims, initial=initial, where=where, name=name)


@without_out
def nanmean(
    a: Any,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    where: Any = True,
    name: str | None = None,
) -> Array:
    """The mean along `axis` of the elements that are not NaN, with the dtypes of `rd.mean`; NaN where there is none.

    Example:
        >>> rd.algorithm(lambda a: rd.nanmean(a)).interpret(np.array([1.0, np.nan, 2.0]))
        np.float64(1.5)
    """
    value = numbers_of(a, "rd.nanmean")
    array = leaves(value)[0]
    if not array.dtype.is_float:
        return reductions.mean(value, axis, dtype=dtype, keepdims=keepdims, where=where, name=name)
    result = float_of(array, dtype, "rd.nanmean")
    wide = computed_in(result) if dtype is None else result
    numbers = _without_nan(value)
    summed = numbers if isinstance(value, Complex) else astype(numbers, wide)
    total = reductions.sum(summed, axis, dtype=dtype, keepdims=keepdims, where=where)
    count = reductions.sum(ufuncs.logical_not(ufuncs.isnan(value)), axis, keepdims=keepdims, where=where)

    def divided(s: Any, n: Any) -> Any:
        if isinstance(s, Complex):
            return s / astype(n, s.real.dtype)
        return astype(s / astype(n, wide), result)

    found = elementwise(divided, [total, count], name=name)
    return as_weak(found, value) if dtype is None else found


def _without_nan(value: Any, instead: float = 0) -> Any:
    """The elements with NaN replaced by a number."""
    if not leaves(value)[0].dtype.is_float:
        return value
    number = lambda x: ufuncs.where(ufuncs.isnan(x), as_weak(x.dtype(instead), x), x)
    return elementwise(number, [value])


@without_out
def nanmin(
    a: Any,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
    name: str | None = None,
) -> Array:
    """The smallest element along `axis` that is not NaN; NaN where there is none. An empty axis is an error unless `initial` is given.

    Example:
        >>> rd.algorithm(lambda a: rd.nanmin(a)).interpret(np.array([3.0, np.nan, 2.0]))
        np.float64(2.0)
    """
    return _extreme(a, axis, keepdims, initial, where, name, ufuncs.fmin, reductions.min, "rd.nanmin")


@without_out
def nanmax(
    a: Any,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
    name: str | None = None,
) -> Array:
    """The largest element along `axis` that is not NaN; NaN where there is none. An empty axis is an error unless `initial` is given.

    Example:
        >>> rd.algorithm(lambda a: rd.nanmax(a, axis=0)).interpret(np.array([[3.0, np.nan], [2.0, np.nan]]))
        array([ 3., nan])
    """
    return _extreme(a, axis, keepdims, initial, where, name, ufuncs.fmax, reductions.max, "rd.nanmax")


def _extreme(
    a: Any, axis: Any, keepdims: bool, initial: Any, where: Any, name: str | None, pick: Any, plain: Any, what: str
) -> Any:
    value = numbers_of(a, what)
    array = leaves(value)[0]
    axes = normal_axes(axis, array.ndim)
    if isinstance(value, tuple) or not array.dtype.is_float or not axes:
        return plain(value, axis, keepdims=keepdims, initial=initial, where=where, name=name)
    needs_initial(where, initial, what)
    array = taking_part(array, where, lambda _: math.nan, what)
    finish = (lambda total: pick(initial, total)) if initial is not None else reductions.not_empty(array, axis, what)
    start = array.dtype(math.nan)
    result = reduce_axes(pick, start, array, axes, commutative=True, name=name, finish=finish, keep=False)
    return kept(result, axis, array.ndim) if keepdims else result


@without_out
def nanprod(
    a: Any,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
    name: str | None = None,
) -> Array:
    """The product along `axis` of the elements that are not NaN, with the dtypes of `rd.prod`; 1 where there is none.

    Example:
        >>> rd.algorithm(lambda a: rd.nanprod(a)).interpret(np.array([3.0, np.nan, 2.0]))
        np.float64(6.0)
    """
    value = _without_nan(numbers_of(a, "rd.nanprod"), 1)
    return reductions.prod(value, axis, dtype, keepdims=keepdims, initial=initial, where=where, name=name)


@without_out
def nanvar(
    a: Any,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    *,
    ddof: Any = 0,
    keepdims: bool = False,
    mean: Any = None,
    correction: Any = None,
    where: Any = True,
    name: str | None = None,
) -> Array:
    """The variance along `axis` of the elements that are not NaN, with the arguments of `rd.var`; NaN where there are at most `ddof` of
    them.

    Example:
        >>> rd.algorithm(lambda a: rd.nanvar(a)).interpret(np.array([1.0, np.nan, 3.0]))
        np.float64(1.0)
    """
    return _deviation(var, a, axis, dtype, ddof, keepdims, mean, correction, where, name, "rd.nanvar")


@without_out
def nanstd(
    a: Any,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    *,
    ddof: Any = 0,
    keepdims: bool = False,
    mean: Any = None,
    correction: Any = None,
    where: Any = True,
    name: str | None = None,
) -> Array:
    """The standard deviation along `axis` of the elements that are not NaN: the square root of `rd.nanvar`.

    Example:
        >>> rd.algorithm(lambda a: rd.nanstd(a)).interpret(np.array([1.0, np.nan, 3.0]))
        np.float64(1.0)
    """
    return _deviation(std, a, axis, dtype, ddof, keepdims, mean, correction, where, name, "rd.nanstd")


def _deviation(
    plain: Any,
    a: Any,
    axis: Any,
    dtype: Any,
    ddof: Any,
    keepdims: bool,
    mean: Any,
    correction: Any,
    where: Any,
    name: str | None,
    what: str,
) -> Array:
    value = numbers_of(a, what)
    options = {"ddof": ddof, "keepdims": keepdims, "mean": mean, "correction": correction}
    if not leaves(value)[0].dtype.is_float:
        return plain(value, axis, dtype, where=where, name=name, **options)
    numbers = ufuncs.logical_not(ufuncs.isnan(value))
    if where is not True:
        numbers = ufuncs.logical_and(numbers, mask_over(where, value, what))
    found = plain(value, axis, dtype, where=numbers, **options)
    count = reductions.sum(numbers, axis, keepdims=keepdims)
    lost = ddof if correction is None else correction
    enough = lambda v, n: ufuncs.where(n > lost, v, v.dtype(math.nan))
    return elementwise(enough, [found, count], name=name)


@without_out
def nanargmin(a: Any, axis: Axis = None, *, keepdims: bool = False, name: str | None = None) -> Array:
    """The index of the smallest element along `axis`, NaN counting as infinity: the first of equals, 0 where all are NaN.

    Example:
        >>> rd.algorithm(lambda a: rd.nanargmin(a)).interpret(np.array([np.nan, 3.0, 2.0]))
        np.int64(2)
    """
    value = _without_nan(numbers_of(a, "rd.nanargmin"), math.inf)
    return reductions.argmin(value, axis, keepdims=keepdims, name=name)


@without_out
def nanargmax(a: Any, axis: Axis = None, *, keepdims: bool = False, name: str | None = None) -> Array:
    """The index of the largest element along `axis`, NaN counting as −infinity: the first of equals, 0 where all are NaN.

    Example:
        >>> rd.algorithm(lambda a: rd.nanargmax(a)).interpret(np.array([np.nan, 3.0, 2.0]))
        np.int64(1)
    """
    value = _without_nan(numbers_of(a, "rd.nanargmax"), -math.inf)
    return reductions.argmax(value, axis, keepdims=keepdims, name=name)


@without_out
def nancumsum(a: Any, axis: Axis = None, dtype: DTypeLike | None = None, *, name: str | None = None) -> Array:
    """The running sums `rd.cumsum` with 0 in place of NaN.

    Example:
        >>> rd.algorithm(lambda a: rd.nancumsum(a)).interpret(np.array([1.0, np.nan, 2.0]))
        array([1., 1., 3.])
    """
    return cumsum(_without_nan(numbers_of(a, "rd.nancumsum")), axis, dtype, name=name)


@without_out
def nancumprod(a: Any, axis: Axis = None, dtype: DTypeLike | None = None, *, name: str | None = None) -> Array:
    """The running products `rd.cumprod` with 1 in place of NaN.

    Example:
        >>> rd.algorithm(lambda a: rd.nancumprod(a)).interpret(np.array([3.0, np.nan, 2.0]))
        array([3., 3., 6.])
    """
    return cumprod(_without_nan(numbers_of(a, "rd.nancumprod"), 1), axis, dtype, name=name)
