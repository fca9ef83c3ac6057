"""Elements chosen by masks and functions, and arrays with some elements changed, by NumPy's names.

NumPy's `put_along_axis` and `fill_diagonal` change their argument; here they return a new array, which reuses the memory of the old one
where that is not read again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raido.algo.errors import ShapeError
from raido.algo.language.combinators import map as map_rows
from raido.algo.language.making import iota
from raido.algo.language.moves import astype, flatten, named, normal_axis, reshape
from raido.algo.language.pure import without_out
from raido.algo.language.ufuncs import not_equal, where
from raido.algo.library.moving import moveaxis
from raido.algo.library.operands import numbers_of
from raido.algo.trace.building import elementwise, structure
from raido.algo.trace.locations import complaint
from raido.algo.trace.trees import is_sequence, leaves
from raido.algo.trace.value import Array


@without_out
def compress(condition: Any, a: Any, axis: int | None = None, *, name: str | None = None) -> Array:
    """The elements (slices) along `axis`, of the flattened array for None, where `condition` holds, a line that may be shorter than the
    axis.

    The size of the result is decided by the data. ShapeError for a condition of more than one dimension.

    Example:
        >>> rd.algorithm(lambda a: rd.compress([True, False, True], a, axis=1)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([[1, 3],
               [4, 6]])
    """
    mask, given = numbers_of(condition, "rd.compress"), structure(a)
    if mask.ndim != 1:
        raise ShapeError(complaint(f"the conditions of rd.compress are a line, not an array of rank {mask.ndim}"))
    if axis is None:
        given, axis = flatten(given), 0
    rank = leaves(given)[0].ndim
    along = normal_axis(axis, rank)
    front = moveaxis(given, along, 0)
    kept = front[: mask.shape[0]][not_equal(mask, 0)]
    result = moveaxis(kept, 0, along)
    return result if name is None else named(result, name)


def extract(condition: Any, arr: Any, *, name: str | None = None) -> Array:
    """The elements of the flattened array where the flattened condition holds: `arr[condition]`. Their number is decided by the data.

    Example:
        >>> rd.algorithm(lambda a: rd.extract(a > 1, a)).interpret(np.array([3, 1, 2]))
        array([3, 2])
    """
    result = flatten(structure(arr))[not_equal(flatten(numbers_of(condition, "rd.extract")), 0)]
    return result if name is None else named(result, name)


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, name: str | None = None, **kw: Any) -> Array:
    """At every element, the function, or the scalar, of the last condition that holds there; the extra function, or 0, where none holds.

    Functions take elements, then `args` and `kw`; all are evaluated. The result has the dtype of `x`. ShapeError where the number of
    functions is neither that of conditions nor one more.

    Example:
        >>> rd.algorithm(lambda a: rd.piecewise(a, [a < 0, a >= 0], [lambda v: -v, 2])).interpret(np.array([-3, 1]))
        array([3, 2])
    """
    given = numbers_of(x, "rd.piecewise")
    conditions = list(condlist) if is_sequence(condlist) else [condlist]
    if len(funclist) not in (len(conditions), len(conditions) + 1):
        raise ShapeError(complaint(f"rd.piecewise of {len(conditions)} conditions for {len(funclist)} functions"))
    functions = list(funclist[: len(conditions)])
    otherwise = funclist[-1] if len(funclist) > len(conditions) else 0

    def value(function: Any) -> Any:
        found = elementwise(lambda v: function(v, *args, **kw), [given]) if callable(function) else function
        return elementwise(lambda v, _: v if isinstance(v, tuple) else astype(v, given.dtype), [found, given])

    result = value(otherwise)
    for condition, function in zip(conditions, functions, strict=True):
        result = where(not_equal(numbers_of(condition, "rd.piecewise"), 0), value(function), result)
    return result if name is None else named(result, name)


def ix_(*args: Any) -> tuple[Array, ...]:
    """Index lines that broadcast to a grid: `a[rd.ix_(rows, columns)]` are the elements at the crossings of these rows and columns.

    Example:
        >>> rd.algorithm(lambda a: a[rd.ix_([1, 0], [0, 2])]).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([[4, 6],
               [1, 3]])
    """
    lines = [numbers_of(a, "rd.ix_") for a in args]
    if any(line.ndim != 1 for line in lines):
        raise ShapeError(complaint("rd.ix_ takes lines of indices"))
    rank = len(lines)
    sizes = [tuple(line.shape[0] if j == k else 1 for j in range(rank)) for k, line in enumerate(lines)]
    return tuple(reshape(line, size) for line, size in zip(lines, sizes, strict=True))


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, name: str | None = None, **kwargs: Any
) -> Array:
    """The array of `func1d` of every line along `axis`, with `args` and `kwargs` after it; the dimensions of its result replace the axis.

    Example:
        >>> rd.algorithm(lambda a: rd.apply_along_axis(rd.cumsum, 0, a)).interpret(np.array([[1, 2], [3, 4]]))
        array([[1, 2],
               [4, 6]])
    """
    given = numbers_of(arr, "rd.apply_along_axis")
    along = normal_axis(axis, given.ndim)
    call: Callable[[Any], Any] = lambda line: func1d(line, *args, **kwargs)
    for _ in range(given.ndim - 1):
        call = lambda rows, inner=call: map_rows(inner, rows)
    result = call(moveaxis(given, along, -1))
    new = leaves(structure(result))[0].ndim - (given.ndim - 1)
    if new and given.ndim > 1:
        result = moveaxis(result, tuple(range(-new, 0)), tuple(range(along, along + new)))
    return result if name is None else named(result, name)


def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any, *, name: str | None = None) -> Array:
    """The result of `func(a, axis)` for each of `axes` in turn; a dimension that it drops is kept with size 1.

    Example:
        >>> rd.algorithm(lambda a: rd.apply_over_axes(rd.sum, a, [0, 1])).interpret(np.array([[1, 2], [3, 4]]))
        array([[10]])
    """
    value = numbers_of(a, "rd.apply_over_axes")
    rank = value.ndim
    for axis in axes if is_sequence(axes) else (axes,):
        along = normal_axis(axis, rank)
        result = func(value, along)
        value = result if result.ndim == rank else result[(*[slice(None)] * along, None)]
        if value.ndim != rank:
            raise ShapeError(complaint("the function of rd.apply_over_axes drops one dimension, or none"))
    return value if name is None else named(value, name)


def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None, *, name: str | None = None) -> Array:
    """The array with `values` at `indices` along `axis`, the elements that `rd.take_along_axis` reads; a new array, unlike NumPy's.

    Dimensions of `indices` and `values` broadcast. ShapeError for another rank, IndexOutOfRange for an index out of range.

    Example:
        >>> rd.algorithm(lambda a: rd.put_along_axis(a, rd.argmax(a, 1, keepdims=True), 0, 1)).interpret(np.array([[3, 1], [4, 6]]))
        array([[0, 1],
               [4, 0]])
    """
    given, positions = numbers_of(arr, "rd.put_along_axis"), numbers_of(indices, "rd.put_along_axis")
    if axis is None:
        changed = put_along_axis(flatten(given), flatten(positions), values, 0)
        return reshape(changed, given.shape, name=name)
    if positions.ndim != given.ndim:
        raise ShapeError(complaint(f"indices of rank {positions.ndim} for rd.put_along_axis of rank {given.ndim}"))
    along = normal_axis(axis, given.ndim)
    key: list[Any] = []
    for k, n in enumerate(given.shape):
        key.append(reshape(iota(n), tuple(n if j == k else 1 for j in range(given.ndim))))
    key[along] = positions
    return given.at[tuple(key)].set(_fitted(values, given), name=name)


def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, name: str | None = None) -> Array:
    """The array with `val`, a scalar or a line that repeats, on its main diagonal; a new array, unlike NumPy's.

    The array is a matrix, or of higher rank with equal sizes. `wrap`: the diagonal of a tall matrix restarts below its end, after one
    row without it.

    Example:
        >>> rd.algorithm(lambda a: rd.fill_diagonal(a, 0)).interpret(np.array([[1, 2], [3, 4]]))
        array([[0, 2],
               [3, 0]])
    """
    given = numbers_of(a, "rd.fill_diagonal")
    if given.ndim < 2:
        raise ShapeError(complaint(f"rd.fill_diagonal of an array of rank {given.ndim}, where at least 2 is due"))
    sizes = given.shape
    axes = [reshape(iota(n), tuple(n if j == k else 1 for j in range(given.ndim))) for k, n in enumerate(sizes)]
    across = sizes[1] + 1
    row = axes[0] % across if wrap and given.ndim == 2 else axes[0]
    on = row == axes[1]
    for other in axes[2:]:
        on = on & (row == other)
    value = structure(val) if not isinstance(val, list) else numbers_of(val, "rd.fill_diagonal")
    if value.ndim:
        line = flatten(value)
        order = axes[0] if row is axes[0] else axes[0] - axes[0] // across
        value = line[order % line.shape[0]]
    return where(on, _fitted(value, given), given, name=name)


def _fitted(values: Any, like: Any) -> Any:
    """The values converted to the dtype of `like`."""
    given = numbers_of(values, "values")
    return given if isinstance(given, tuple) else astype(given, like.dtype)
