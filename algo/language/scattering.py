"""`rd.reduce_by_index`, `rd.bincount` and `rd.scatter`: arrays with elements combined with, or replaced by, values at given indices.

Each is one `Update`. Indices are an integer array, or a tuple of them for the leading dimensions of `dest`; the remaining dimensions are
rows, which the values then have too. An index that is negative or too large is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from raido.algo.errors import DTypeError, ShapeError, TraceError
from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Axis, Expr, Update, fresh
from raido.algo.language import reductions
from raido.algo.language.complexes import fitted, kind_of
from raido.algo.language.making import replicate
from raido.algo.language.moves import array_of, astype
from raido.algo.language.ufuncs import add, maximum
from raido.algo.trace.building import (
    Value,
    broadcast,
    broadcast_element,
    form_results,
    make_axes,
    nesting_text,
    structure,
)
from raido.algo.trace.combining import RowsMixed, starting_values, trace_operator
from raido.algo.trace.context import current
from raido.algo.trace.existential import joined_size
from raido.algo.trace.locations import complaint
from raido.algo.trace.promotion import lift, named, takes
from raido.algo.trace.scalars import cast
from raido.algo.trace.trees import leaves, map_leaves, same_nesting, unflatten
from raido.algo.trace.types import describe
from raido.algo.trace.value import STRONG, Array
from raido.algo.trace.weak import each_weakness, strengthened, weakness_of


def reduce_by_index(
    dest: Any, op: Callable[[Any, Any], Value], neutral: Any, index: Any, *values: Any, name: str | None = None
) -> Value:
    """Returns `dest` with `dest[index[i]] = op(dest[index[i]], values[i])` for every i; a histogram, with any operator.

    `op` is associative and commutative, and `neutral` is neutral for it, at least beside the values that occur (`n` for the minimum of
    numbers below n). `index` is an integer array (any rank), or a tuple of them for the leading dimensions of `dest`; an index out of range
    is ignored. Values are elements or, where `dest` has more dimensions, rows; they have the shape of `index` followed by that of a row, or
    broadcast to it, and the dtype of `dest`. With a tuple of arrays as `dest`, `neutral` and the operands of `op` are tuples too. Results
    have the shapes of `dest`.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def weights(bins: rd.i64["n"], w: rd.f64["n"]):
        ...     return rd.reduce_by_index(rd.full(3, rd.f64(0)), rd.add, 0, bins, w)
        >>> weights.interpret(np.array([2, 0, 2, 7]), np.array([1.0, 2.0, 3.0, 4.0]))
        array([2., 0., 4.])
    """
    what = "rd.reduce_by_index"
    given, flat, own, coordinates, rows, elements, weak = _operands(dest, index, values, what)
    like = unflatten(given, [Array(fresh("old", leaf.dtype), own) for leaf, own in zip(flat, weak, strict=True)])
    tables = current().snapshot()
    try:
        operator = trace_operator(op, like, rows, what)
    except RowsMixed:
        from raido.algo.language.row_updates import update_rows

        current().restore(tables)
        return update_rows(given, op, neutral, coordinates[: len(coordinates) - len(rows)], own, elements, name)
    start = starting_values(neutral, like, rows)
    nodes = tuple(leaf.node for leaf in flat)
    form = Update(nodes, own, coordinates, *operator.fields, start, elements, "combine", False, operator.monoid)
    return unflatten(given, form_results(form, "reduce_by_index", name, operator.weak))


def bincount(
    index: Any, length: Any = None, weights: Any = None, minlength: Any = 0, *, name: str | None = None
) -> Array:
    """The number of occurrences of each of 0 … length − 1 in an integer array of any rank, as i64; or the sums of its `weights`, in their
    dtype.

    Elements that are negative or too large are ignored. Without `length`, it depends on data, as in NumPy: one more than the largest
    element, and at least `minlength`.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def histogram(a: rd.u8["n"]):
        ...     return rd.bincount(a // 64, 4)
        >>> histogram.interpret(np.array([0, 63, 64, 255], np.uint8))
        array([2, 1, 0, 1])
    """
    coordinates = array_of(index, "rd.bincount")
    if not coordinates.dtype.is_integer:
        raise DTypeError(
            complaint(
                f"rd.bincount counts integers, not {coordinates.dtype}",
                remedy="rd.histogram(a, bins), or a.astype(rd.i64)",
            )
        )
    value = lift(1) if weights is None else structure(weights)
    if not isinstance(value, Array):
        why = "rd.bincount adds one array of weights"
        raise TraceError(
            complaint(f"{kind_of(value)} as the weights of rd.bincount", why=why, remedy="rd.reduce_by_index")
        )
    dtype, weak = (i64, STRONG) if weights is None else (value.dtype, weakness_of([value]))
    return reduce_by_index(
        replicate(_bins(coordinates, length, minlength), Array(cast(lift(0), dtype), weak)),
        add,
        0,
        index,
        value,
        name=name,
    )


def _bins(coordinates: Array, length: Any, minlength: Any) -> Any:
    """Returns the number of bins of `rd.bincount`: `length`, or one more than the largest of the indices, and at least `minlength`."""
    if length is None:
        return maximum(reductions.max(astype(coordinates, i64), initial=-1) + 1, minlength)
    if not isinstance(minlength, int) or minlength:
        raise TraceError(
            complaint("rd.bincount takes `length`, or `minlength`, which data may exceed", remedy="one of them")
        )
    number = structure(length)
    if not isinstance(number, Array) or number.ndim:
        headline = f"rd.bincount(a, length): {nesting_text(number)} is no number of bins"
        raise ShapeError(complaint(headline, remedy="rd.bincount(a, weights=…) for NumPy's second argument"))
    return length


def scatter(dest: Any, index: Any, values: Any, unique_indices: bool = False, *, name: str | None = None) -> Array:
    """Returns `dest` with `dest[index[i]] = values[i]`; where an index occurs more than once, the last value wins.

    `index`, `values` and tuples of arrays are as for `rd.reduce_by_index`: an index out of range is ignored. `unique_indices=True` promises
    that no index in range occurs twice: the order of writes then does not matter, and a broken promise stores any of the values.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def inverse(permutation: rd.i64["n"]):
        ...     n = permutation.shape[0]
        ...     return rd.scatter(rd.replicate(n, rd.i64(0)), permutation, rd.iota(n), unique_indices=True)
        >>> inverse.interpret(np.array([2, 0, 1]))
        array([1, 2, 0])
    """
    given, flat, own, coordinates, _, elements, weak = _operands(dest, index, (values,), "rd.scatter")
    mode = "unique" if unique_indices else "set"
    nodes = tuple(leaf.node for leaf in flat)
    form = Update(nodes, own, coordinates, (), (), (), (), elements, mode, False, "")
    return unflatten(given, form_results(form, "scatter", name, weak))


def _operands(
    dest: Any, index: Any, values: Sequence[Any], what: str
) -> tuple[Any, list[Array], tuple[Axis, ...], tuple[Expr, ...], tuple[Axis, ...], tuple[Expr, ...], list[int]]:
    """Returns `dest` and its leaves, the axes of an update, its indices, its axes that are rows, its values, and the weakness of each
    result."""
    trace = current()
    given = structure(dest)
    flat: list[Array] = leaves(given)
    if any(leaf.ndim == 0 for leaf in flat):
        raise TraceError(complaint(f"{what} into a scalar", remedy="an array such as rd.replicate(n, value)"))
    shape = flat[0].extents
    for leaf in flat[1:]:
        if leaf.ndim != len(shape):
            raise ShapeError(complaint(f"{what} into arrays of rank {len(shape)} and {leaf.ndim}"))
        for k, (a, b) in enumerate(zip(shape, leaf.extents, strict=True)):
            trace.equal_sizes(a, b, f"dimension {k} of one array of `dest`", f"dimension {k} of another")
    indices = [_index(i, what) for i in (index if isinstance(index, tuple) else (index,))]
    if not 0 < len(indices) <= len(shape):
        raise ShapeError(complaint(f"{len(indices)} indices into {describe(flat[0].dtype, shape)}"))
    where = broadcast(indices, "the indices")
    value = fitted(values[0] if len(values) == 1 else tuple(values), given, f"a value of {what}", to_all=True)
    if not same_nesting(value, given):
        raise TraceError(complaint(f"the values of {what} have another structure than `dest`"))
    given = map_leaves(_met, given, value)
    flat = leaves(given)
    extents = [*where, *shape[len(indices) :]]
    for leaf, array in zip(leaves(value), flat, strict=True):
        extents = _fitting(leaf, array, extents, what)
    own = make_axes(extents)
    variables = [axis.var for axis in own]
    rows = own[len(where) :]
    chosen = [broadcast_element(i, variables[: len(where)]) for i in indices]
    coordinates = tuple(ix.canonical(cast(Array(i.node, STRONG), i64)) for i in chosen)
    coordinates += tuple(axis.var for axis in rows)
    pairs = zip(leaves(value), flat, strict=True)
    elements = tuple(cast(Array(broadcast_element(v, variables).node, v.weak), d.dtype) for v, d in pairs)
    return given, flat, own, coordinates, rows, elements, each_weakness(flat, leaves(value))


def _met(dest: Array, value: Array) -> Array:
    """Returns a weak array in the type of the strong values to be stored in it; other arrays unchanged."""
    meets = dest.weak != STRONG and value.weak == STRONG and takes(dest, value.dtype)
    return strengthened(dest, value.dtype) if meets else dest


def _index(value: Any, what: str) -> Array:
    array = structure(value)
    if isinstance(array, tuple):
        raise TraceError(complaint(f"{kind_of(array)} among the indices of {what}"))
    if not array.dtype.is_integer:
        raise DTypeError(complaint(f"an index of {what} is an integer, not {array.dtype}"))
    return array


def _fitting(value: Array, dest: Array, extents: list[Expr], what: str) -> list[Expr]:
    """Returns the shape of the indices, joined with that of a value; raises `DTypeError` or `ShapeError` where the value does not fit."""
    if not takes(value, dest.dtype):
        raise DTypeError(
            complaint(
                f"{what} of {named(value)} into an array of {dest.dtype}",
                remedy=f".astype(rd.{dest.dtype}) on the values",
            )
        )
    expected, actual = describe(dest.dtype, tuple(extents)), describe(value.dtype, value.extents)
    if value.ndim > len(extents):
        raise ShapeError(complaint(f"{what} of {actual} where {expected} fits"))
    known = list(extents)
    for k, extent in enumerate(value.extents, len(extents) - value.ndim):
        if ix.constant_value(extent) != 1:
            owners = "a dimension of the indices or rows", f"a dimension of the values of {what}"
            known[k] = joined_size(known[k], extent, *owners, f"{actual} and {expected}")
    return known
