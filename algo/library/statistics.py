"""NumPy's statistics that are sums: `var std ptp average`.

`axis` is None (all), an int or a tuple, as in `rd.sum`. Deviations are summed in a second pass, from the mean of the first; f16
and bf16 are summed in f32, as NumPy does for f16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from raido.algo.errors import DTypeError, ShapeError, TraceError
from raido.algo.graph.dtypes import DType, computed_in, f64
from raido.algo.language import reductions, ufuncs
from raido.algo.language.complexes import Complex
from raido.algo.language.moves import astype
from raido.algo.language.pure import mask_over, without_out
from raido.algo.language.reductions import normal_axes
from raido.algo.library.operands import numbers_of
from raido.algo.trace.building import elementwise
from raido.algo.trace.dtype_reading import read_real
from raido.algo.trace.locations import complaint
from raido.algo.trace.promotion import lift
from raido.algo.trace.trees import leaves
from raido.algo.trace.value import Array
from raido.algo.trace.weak import as_weak

if TYPE_CHECKING:
    from raido.algo.language.parameters import Axes, DTypeLike


def size_along(value: Array, axis: Any) -> Any:
    """The number of elements along `axis`: an int, or a size."""
    count: Any = 1
    for k in normal_axes(axis, value.ndim):
        count = count * value.shape[k]
    return count


def kept(result: Any, axis: Any, rank: int) -> Any:
    """The result of a reduction over `axis` of an array of rank `rank`, with dimensions of size 1 in place of the reduced ones."""
    axes = normal_axes(axis, rank)
    return result[tuple(None if k in axes else slice(None) for k in range(rank))] if axes else result


@without_out
def var(
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
    """The variance along `axis`: the mean of the squared deviations from the mean, over `n - ddof` of n elements.

    The dtype is f64 for integers; f16 and bf16 are summed in f32; complex numbers give the real mean of squared magnitudes. `mean` is the
    mean, if already known, with the reduced dimensions kept at size 1; `correction` is another name of `ddof`. NaN for an empty axis; NaN
    or infinite where n is at most `ddof`. Elements where the mask `where` does not hold are left out.

    Example:
        >>> rd.algorithm(lambda a: rd.var(a, axis=1)).interpret(np.array([[1.0, 2.0, 3.0], [4.0, 4.0, 4.0]]))
        array([0.66666667, 0.        ])
    """
    by = _correction(ddof, correction)
    return _variance(a, axis, dtype, by, keepdims, mean, where, name, lambda total: total, "rd.var")


@without_out
def std(
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
    """The standard deviation along `axis`: the square root of `rd.var`, with its arguments.

    Example:
        >>> rd.algorithm(lambda a: rd.std(a)).interpret(np.array([1.0, 3.0, 1.0, 3.0]))
        np.float64(1.0)
    """
    by = _correction(ddof, correction)
    return _variance(a, axis, dtype, by, keepdims, mean, where, name, ufuncs.sqrt, "rd.std")


def _correction(ddof: Any, correction: Any) -> Any:
    if correction is None:
        return ddof
    if not (isinstance(ddof, int) and ddof == 0):
        raise TraceError(complaint("`ddof` and `correction` are one argument by two names", remedy="one of them"))
    return correction


def _variance(
    a: Any,
    axis: Any,
    dtype: Any,
    ddof: Any,
    keepdims: bool,
    mean: Any,
    where: Any,
    name: str | None,
    finish: Any,
    what: str,
) -> Any:
    value = numbers_of(a, what)
    array = leaves(value)[0]
    result = float_of(array, dtype, what)
    wide = computed_in(result) if dtype is None else result
    if not isinstance(value, Complex):
        value = as_weak(astype(value, wide), value)
    centre = reductions.mean(value, axis, keepdims=True, where=where) if mean is None else mean

    def squared(x: Any, y: Any) -> Any:
        distance = x - y
        if isinstance(distance, Complex):
            return distance.real * distance.real + distance.imag * distance.imag
        return astype(distance * distance, wide)

    total = reductions.sum(elementwise(squared, [value, centre]), axis, keepdims=keepdims, where=where)
    count = ufuncs.maximum(astype(_number_along(array, axis, keepdims, where, what), f64) - ddof, 0.0)
    divisor = astype(count, wide)
    found = elementwise(lambda s, d: astype(finish(s / d), result), [total, divisor], name=name)
    return as_weak(found, value) if dtype is None and mean is None else found


def _number_along(array: Array, axis: Any, keepdims: bool, where: Any, what: str) -> Array:
    """The number of elements along `axis` for which the mask `where` holds."""
    if where is True:
        return lift(size_along(array, axis))
    return reductions.sum(mask_over(where, array, what), axis, keepdims=keepdims)


def float_of(array: Array, dtype: DTypeLike | None, what: str) -> DType:
    """The float dtype of a mean: `dtype` if given, else that of a float array, else f64."""
    if dtype is None:
        return array.dtype if array.dtype.is_float else f64
    wished = read_real(dtype, f"the `dtype` of {what}")
    if not wished.is_float:
        raise DTypeError(complaint(f"the `dtype` of {what} is a float type, not {wished}"))
    return wished


@without_out
def ptp(a: Any, axis: Axes = None, *, keepdims: bool = False, name: str | None = None) -> Array:
    """The largest minus the smallest element along `axis`, in their dtype. An empty axis is an error.

    Example:
        >>> rd.algorithm(lambda a: rd.ptp(a, axis=0)).interpret(np.array([[1, 5, 3], [4, 4, 9]]))
        array([3, 1, 6])
    """
    value = numbers_of(a, "rd.ptp")
    most = reductions.max(value, axis, keepdims=keepdims)
    return ufuncs.subtract(most, reductions.min(value, axis, keepdims=keepdims), name=name)


@overload
def average(
    a: Any,
    axis: Axes = None,
    weights: Any = None,
    returned: Literal[False] = False,
    *,
    keepdims: bool = False,
    name: str | None = None,
) -> Array: ...
@overload
def average(
    a: Any,
    axis: Axes = None,
    weights: Any = None,
    *,
    returned: Literal[True],
    keepdims: bool = False,
    name: str | None = None,
) -> tuple[Array, Array]: ...
def average(
    a: Any,
    axis: Axes = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
    name: str | None = None,
) -> Any:
    """The mean along `axis`, weighted by `weights`: an array of the shape of `a`, or of the shape of its axes `axis`.

    The dtype is the common one of `a` and the weights, at least f64 for integers. `returned`: also the sums of the weights, as a pair.
    Where these are 0 the result is NaN or infinite. ShapeError for weights of another shape.

    Example:
        >>> rd.algorithm(lambda a: rd.average(a, weights=np.array([3.0, 1.0]))).interpret(np.array([1.0, 5.0]))
        np.float64(2.0)
    """
    value = numbers_of(a, "rd.average")
    array = leaves(value)[0]
    if weights is None:
        result = reductions.mean(value, axis, keepdims=keepdims, name=name)
        count = astype(lift(size_along(array, axis)), leaves(result)[0].dtype)
        return (result, elementwise(lambda r, n: n, [result, count])) if returned else result
    factors = _weights_for(numbers_of(weights, "rd.average"), array, axis)
    if not isinstance(value, Complex) and not array.dtype.is_float:
        value = astype(value, f64)
    products = ufuncs.multiply(value, factors)
    like = leaves(products)[0].dtype
    factors = elementwise(lambda w, _: w if isinstance(w, Complex) else astype(w, like), [factors, products])
    total = reductions.sum(factors, axis, keepdims=keepdims)
    result = ufuncs.divide(reductions.sum(products, axis, keepdims=keepdims), total, name=name)
    if returned and isinstance(products, Complex) and not isinstance(total, Complex):
        total = products.dtype(total)
    return (result, total) if returned else result


def _weights_for(weights: Any, array: Array, axis: Any) -> Any:
    """The weights as an array that broadcasts against the array, along the axes they belong to."""
    given = leaves(weights)[0]
    if given.ndim == array.ndim:
        return weights
    if axis is None:
        raise ShapeError(complaint("rd.average with weights of another rank than the array needs an `axis`"))
    axes = [k % array.ndim for k in (axis if isinstance(axis, tuple) else (axis,))]
    if given.ndim != len(axes):
        raise ShapeError(complaint(f"weights of rank {given.ndim} along {len(axes)} axes of rd.average"))
    order = sorted(range(len(axes)), key=axes.__getitem__)
    moved = weights.transpose(*order) if len(order) > 1 else weights
    return moved[tuple(slice(None) if k in axes else None for k in range(array.ndim))]
