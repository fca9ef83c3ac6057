"""The combinators `map`, `elementwise`, `tabulate` and `reduce`, which apply functions of elements over arrays.

A function is called once, on symbolic elements; its result becomes the body of one `Generate`. A combinator nested in the function makes a
`Generate` of its own, in which the outer axes are free; a reduction in it, unless named, is part of the function's body.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

from raido.algo.errors import ShapeError, TraceError
from raido.algo.graph import index
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import (
    Axis,
    Expr,
    Item,
    Reduce,
)
from raido.algo.graph.size_numbers import is_size
from raido.algo.trace.building import (
    Elementwise,
    Number,
    Several,
    Single,
    Tuples,
    Value,
    call,
    check_result,
    collect,
    elements,
    make_axes,
    outer_extent,
    reduction_names,
    structure,
)
from raido.algo.trace.building import elementwise as _elementwise
from raido.algo.trace.combining import COMMUTATIVE, RowsMixed, starting_values, trace_operator
from raido.algo.trace.context import current
from raido.algo.trace.existential import joined_size, size_from
from raido.algo.trace.locations import complaint, plain_size
from raido.algo.trace.remedies import ROUNDED_SIZE
from raido.algo.trace.scalars import cast, has_wrapped_sizes
from raido.algo.trace.trees import is_sequence, leaves, unflatten
from raido.algo.trace.types import describe
from raido.algo.trace.value import COUNTER, Array

if TYPE_CHECKING:
    from raido.algo.language.parameters import Shape, Size


@overload
def map(
    f: Callable[[Array], Value | Number],
    array: Single,
    /,
    *,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Value: ...
@overload
def map(
    f: Callable[[Array, Array], Value | Number],
    first: Single,
    second: Single,
    /,
    *,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Value: ...
@overload
def map(
    f: Callable[..., Value | Number],
    first: Tuples | list[Any],
    /,
    *arrays: Any,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Value: ...
@overload
def map(
    f: Callable[..., Value | Number],
    first: Any,
    second: Tuples | list[Any],
    /,
    *arrays: Any,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Value: ...
@overload
def map(
    f: Callable[..., Value | Number],
    first: Any,
    second: Any,
    third: Any,
    /,
    *arrays: Any,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Value: ...
def map(
    f: Callable[..., Value | Number], *arrays: Any, name: str | None = None, axes: Sequence[str] | None = None
) -> Value:
    """Applies `f` to every element along the outermost dimension of the arrays: `[f(a[0], b[0]), f(a[1], b[1]), …]`.

    Elements are scalars, or rows of arrays of higher rank. `f` may return a scalar, an array (its shape is appended) or a tuple. Raises
    `ShapeError` where the outer sizes provably differ. `axes` names the stage's own axis for schedules, as in `axes=("row",)`.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def row_sums(a: rd.f32["n", "m"]):
        ...     return rd.map(lambda row: rd.sum(row), a)
        >>> row_sums.interpret(np.ones((2, 3), np.float32))
        array([3., 3.], dtype=float32)
    """
    given = [structure(a) for a in arrays]
    own = make_axes([outer_extent(given, "rd.map", "rd.map(f, a)")], axes)
    value = call(f, *(elements(a, [own[0].var]) for a in given))
    return collect(own, value, "map", name, named_axes=axes is not None)


@overload
def elementwise(
    f: Callable[[Array], Value | Number],
    array: Single,
    /,
    *,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Value: ...
@overload
def elementwise(
    f: Callable[[Array, Array], Value | Number],
    first: Single,
    second: Single,
    /,
    *,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Value: ...
@overload
def elementwise(
    f: Callable[..., Value | Number],
    first: Any,
    /,
    *arrays: Any,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Value: ...
def elementwise(
    f: Callable[..., Value | Number], *arrays: Any, name: str | None = None, axes: Sequence[str] | None = None
) -> Value:
    """Applies `f` to the elements at every index of all dimensions; dimensions whose size is the literal 1 broadcast.

    `axes` names the stage's axes for schedules, outermost first, one for each dimension, as in `axes=("row", "column")`.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def distance(x: rd.f32["n"], y: rd.f32["n"]):
        ...     return rd.elementwise(lambda a, b: rd.sqrt(a * a + b * b), x, y)
        >>> distance.interpret(np.float32([3]), np.float32([4]))
        array([5.], dtype=float32)
    """
    if not arrays:
        raise TraceError(complaint("rd.elementwise needs an array"))
    return _elementwise(f, arrays, name=name, axes=axes)


@overload
def tabulate(
    shape: Size | tuple[Size],
    f: Callable[[Array], Value | Number],
    *,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Value: ...
@overload
def tabulate(
    shape: tuple[Size, Size],
    f: Callable[[Array, Array], Value | Number],
    *,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Value: ...
@overload
def tabulate(
    shape: tuple[Size, Size, Size],
    f: Callable[[Array, Array, Array], Value | Number],
    *,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Value: ...
@overload
def tabulate(
    shape: Shape,
    f: Elementwise[Value | Number],
    *,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Value: ...
def tabulate(
    shape: Shape, f: Callable[..., Value | Number], *, name: str | None = None, axes: Sequence[str] | None = None
) -> Value:
    """Returns the array of `shape` with `f(i, j, …)` at index i, j, …

    The axes are named by the parameters of `f`, or by `axes`, a sequence with one name for each.

    Example:
        >>> import raido as rd
        >>> @rd.algorithm
        ... def table(n: rd.size):
        ...     return rd.tabulate((n, n), lambda i, j: i * j)
        >>> table.interpret(3)
        array([[0, 0, 0],
               [0, 1, 2],
               [0, 2, 4]])
    """
    extents = shape_of(shape)
    names = list(axes) if axes is not None else _parameter_names(f, len(extents))
    own = make_axes(extents, names)
    value = call(f, *(Array(axis.var, COUNTER) for axis in own))
    return collect(own, value, "tabulate", name, named_axes=names is not None)


def _parameter_names(f: Callable[..., Any], rank: int) -> list[str] | None:
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return None
    names = [p.name for p in parameters[:rank] if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(names) != rank or any(name.startswith("_") for name in names):
        return None
    return names


def shape_of(shape: Shape) -> list[Expr]:
    """Returns a shape argument (an int, a size, or a tuple of them) as expressions."""
    dims = shape if is_sequence(shape) else (shape,)
    return [extent_of(dim) for dim in dims]


def extent_of(dim: Any) -> Expr:
    """Returns one size as an expression; a traced integer becomes a size that depends on data."""
    if isinstance(dim, (bool, tuple)) or not (isinstance(dim, (int, Array)) or hasattr(dim, "__index__")):
        if callable(dim):
            remedy = "the sizes first: rd.tabulate(shape, f), rd.full(shape, value)"
            raise ShapeError(complaint("a function where a size is expected", remedy=remedy))
        raise ShapeError(complaint(f"a size is an int or a size of an array, not {dim!r}"))
    if not isinstance(dim, Array):
        value = plain_size(dim, "a size")
        if value < 0:
            raise ShapeError(complaint(f"a size cannot be negative: {value}"))
        return index.as_index(value)
    if not dim.dtype.is_integer or dim.ndim:
        remedy = f"rd.i64(…), or of sizes {ROUNDED_SIZE}" if dim.dtype.is_float and not dim.ndim else None
        raise ShapeError(complaint(f"a size is an integer, not {describe(dim.dtype, dim.extents)}", remedy=remedy))
    node = dim.node if dim.dtype is i64 else cast(dim, i64)
    node = index.canonical(node)
    if not is_size(node):
        if has_wrapped_sizes(node):
            raise ShapeError(complaint("a size computed with so large a factor is larger than any array can be"))
        return size_from(node)
    if current().assumptions.nonnegative(node):
        return node
    return index.maximum(node, 0)


@overload
def reduce(
    op: Callable[[Several, Several], Several],
    neutral: Any,
    arrays: Tuples,
    /,
    *,
    axis: int = 0,
    commutative: bool | None = None,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Several: ...
@overload
def reduce(
    op: Callable[[Array, Array], Array | Number],
    neutral: Any,
    array: Single,
    /,
    *,
    axis: int = 0,
    commutative: bool | None = None,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Array: ...
@overload
def reduce(
    op: Callable[[Several, Several], Several],
    neutral: Any,
    first: Any,
    second: Any,
    /,
    *arrays: Any,
    axis: int = 0,
    commutative: bool | None = None,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Several: ...
def reduce(
    op: Callable[[Any, Any], Any],
    neutral: Any,
    *arrays: Any,
    axis: int = 0,
    commutative: bool | None = None,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Any:
    """Combines the elements along `axis` by the associative `op(x, y)`, starting from `neutral`, which is combined once, neutral or not.

    Leading dimensions are mapped over, trailing ones belong to the element. With k arrays, operands and `neutral` are k-tuples: `op((a, b),
    (c, d))`. The type of the elements is kept. `commutative` promises that operands may also be exchanged; it is known for single operators
    such as `rd.add`. An `op` on rows that mixes their elements is folded in registers where rows are small and of constant size (2 × 2
    matrices), else one row after the other. `axes` names the axes of the result for schedules, outermost first; the reduced axis is `r`.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def product(a: rd.i64["n"]):
        ...     return rd.reduce(rd.multiply, 1, a)
        >>> product.interpret(np.arange(1, 6))
        np.int64(120)
    """
    given = [structure(a) for a in arrays]
    value = given[0] if len(given) == 1 else tuple(given)
    flat = leaves(value)
    if not flat:
        raise TraceError(
            complaint("rd.reduce needs an array", remedy="rd.reduce(op, neutral, array), or rd.sum(array)")
        )
    rank = min(leaf.ndim for leaf in flat)
    if rank == 0:
        raise ShapeError(complaint("rd.reduce over a scalar", remedy="rd.reduce(op, neutral, array)"))
    if not -rank <= axis < rank:
        raise ShapeError(complaint(f"axis {axis} of an array of rank {rank}"))
    along, tables = axis % rank, current().snapshot()
    try:
        return reduce_axes(op, neutral, value, (along,), commutative=commutative, name=name, kind="reduce", names=axes)
    except RowsMixed:
        from raido.algo.language.row_reductions import reduce_rows

        current().restore(tables)
        return reduce_rows(op, neutral, value, along, commutative=bool(commutative), name=name, names=axes)


def reduce_axes(
    op: Callable[..., Any],
    neutral: Any,
    value: Any,
    reduced: tuple[int, ...],
    *,
    commutative: bool | None = None,
    name: str | None = None,
    kind: str = "reduce",
    names: Sequence[str] | None = None,
    finish: Callable[[Any], Any] | None = None,
    read: Callable[[Any, tuple[Expr, ...]], Any] | None = None,
    keep: bool = True,
) -> Any:
    """Reduces every leaf of `value` over the axes `reduced`; the other axes stay.

    `read(elements, indices of the reduced axes)` may change the reduced elements; `finish` is applied to each element of the result. Unless
    `keep` is set, axes behind the reduced ones are mapped over like the leading ones: `op` takes scalars.
    """
    trace = current()
    flat = leaves(value)
    first = flat[0]
    extents = list(first.extents)
    for leaf in flat[1:]:
        for k in range(max(reduced) + 1):
            owners = f"dimension {k} of one array", f"dimension {k} of another"
            extents[k] = joined_size(extents[k], leaf.extents[k], *owners)
    rank = first.ndim
    if any(leaf.extents[max(reduced) + 1 :] != first.extents[max(reduced) + 1 :] for leaf in flat):
        raise RowsMixed(complaint("rd.reduce over elements of different shapes"))
    pure = [k for k in range(rank) if k not in reduced]
    own = make_axes([extents[k] for k in pure], names)
    over = make_axes([extents[k] for k in reduced], reduction_names(len(reduced)))
    where: dict[int, Expr] = {k: a.var for k, a in zip(pure, own, strict=True)}
    where |= {k: a.var for k, a in zip(reduced, over, strict=True)}
    indices = [where[k] for k in range(rank)]
    with trace.deeper():
        inner = elements(value, indices)
        if read is not None:
            inner = read(inner, tuple(a.var for a in over))
    trailing = [k for k in pure if k > max(reduced)] if keep else []
    rows = tuple(own[pure.index(k)] for k in trailing)
    total = _fold(op, neutral, inner, over, commutative, rows)
    if finish is not None:
        with trace.deeper():
            total = check_result(finish(total))
    if not own and trace.depth > 0 and name is None:
        return total
    return collect(own, total, kind, name, named_axes=True)


def _fold(
    op: Callable[..., Any],
    neutral: Any,
    inner: Any,
    over: tuple[Axis, ...],
    commutative: bool | None,
    rows: tuple[Axis, ...],
) -> Any:
    operator = trace_operator(op, inner, rows, "rd.reduce")
    start = starting_values(neutral, inner, rows)
    known = commutative if commutative is not None else operator.monoid in COMMUTATIVE
    flat = leaves(inner)
    values = tuple(leaf.node for leaf in flat)
    form = Reduce(over, *operator.fields, start, values, bool(known), operator.monoid)
    return unflatten(inner, [Array(Item(form, k), weak) for k, weak in enumerate(operator.weak)])
