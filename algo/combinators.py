"""`map`, `elementwise`, `tabulate` and `reduce`: functions of elements made into arrays.

Functions run once, on symbolic elements; what they return becomes the body of one `Generate`. A nested combinator inside makes a
`Generate` of its own that is open in the outer axes; a reduction inside a function, unless named, is part of the function's body.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from raido.algo import index
from raido.algo.building import (
    call,
    check_result,
    collect,
    elements,
    make_axes,
    outer_extent,
    reduction_names,
    structure,
)
from raido.algo.building import elementwise as _elementwise
from raido.algo.context import current, is_size, load
from raido.algo.dtypes import i64
from raido.algo.errors import DTypeError, ShapeError, TraceError
from raido.algo.expr import (
    Axis,
    Expr,
    Generate,
    Item,
    Load,
    Op,
    Reduce,
    Result,
    Var,
    fresh,
    fresh_parameter,
)
from raido.algo.locations import complaint
from raido.algo.promotion import lift
from raido.algo.rewrite import topological, transform
from raido.algo.scalars import cast
from raido.algo.trees import leaves, map_leaves, same_nesting, unflatten
from raido.algo.types import describe
from raido.algo.value import COUNTER, LITERAL, Array, is_scalar

COMMUTATIVE = frozenset(
    ["add", "mul", "minimum", "maximum", "logical_and", "logical_or", "logical_xor", "bit_and", "bit_or", "bit_xor"],
)


def map(f: Callable[..., Any], *arrays: Any, name: str | None = None, axes: Sequence[str] | None = None) -> Any:
    """`f` of every element along the outermost dimension of the arrays: `[f(a[0], b[0]), f(a[1], b[1]), …]`.

    Elements are scalars, or rows of arrays of higher rank. `f` may return a scalar, an array (its shape is appended) or a tuple.
    ShapeError when the outer sizes provably differ.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def row_sums(a: rd.f32["n", "m"]):
        ...     return rd.map(lambda row: rd.sum(row), a)
        >>> row_sums.interpret(np.ones((2, 3), np.float32))
        array([3., 3.], dtype=float32)
    """
    given = [structure(a) for a in arrays]
    own = make_axes([outer_extent(given, "rd.map")], axes)
    value = call(f, *(elements(a, [own[0].var]) for a in given))
    return collect(own, value, "map", name, named_axes=axes is not None)


def elementwise(f: Callable[..., Any], *arrays: Any, name: str | None = None, axes: Sequence[str] | None = None) -> Any:
    """`f` of the elements at every index of all dimensions, with broadcasting of dimensions whose size is the literal 1.

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


def tabulate(shape: Any, f: Callable[..., Any], *, name: str | None = None, axes: Sequence[str] | None = None) -> Any:
    """The array of `shape` with `f(i, j, …)` at index i, j, …. The parameter names of `f` name the axes.

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


def shape_of(shape: Any) -> list[Expr]:
    """A shape argument (an int, a size, or a tuple of them) as expressions."""
    dims = shape if isinstance(shape, (tuple, list)) else (shape,)
    return [extent_of(dim) for dim in dims]


def extent_of(dim: Any) -> Expr:
    """One size as an expression; TraceError for one that depends on data."""
    if isinstance(dim, bool) or not (isinstance(dim, (int, Array)) or hasattr(dim, "__index__")):
        raise ShapeError(complaint(f"a size is an int or a size of an array, not {dim!r}"))
    if not isinstance(dim, Array):
        if int(dim) < 0:
            raise ShapeError(complaint(f"a size cannot be negative: {int(dim)}"))
        return index.as_index(int(dim))
    if not dim.dtype.is_integer or dim.ndim:
        raise ShapeError(complaint(f"a size is an integer, not {describe(dim.dtype, dim.extents)}"))
    node = dim.node if dim.dtype is i64 else cast(dim, i64)
    node = index.canonical(node)
    if not is_size(node):
        raise TraceError(
            complaint(
                "a size that depends on the data",
                why="sizes are made of ints, sizes of arguments and rd.size parameters",
                remedy="declare the parameter as rd.size",
            )
        )
    if current().facts.nonnegative(node):
        return node
    return index.maximum(node, 0)


def reduce(
    op: Callable[..., Any],
    neutral: Any,
    *arrays: Any,
    axis: int = 0,
    commutative: bool | None = None,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Any:
    """The elements along `axis`, combined by the associative `op(x, y)`, starting from `neutral`.

    Leading dimensions are mapped over, trailing ones belong to the element. With k arrays, operands and `neutral` are k-tuples:
    `op((a, b), (c, d))`. The type of the elements is kept. `commutative` promises that operands may also be exchanged; it is known
    for single operators such as `rd.add`. An `op` on rows must work on each element of the row by itself.

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
        raise TraceError(complaint("rd.reduce needs an array"))
    rank = min(leaf.ndim for leaf in flat)
    if not -rank <= axis < rank:
        raise ShapeError(complaint(f"axis {axis} of an array of rank {rank}"))
    return reduce_axes(
        op, neutral, value, (axis % rank,), commutative=commutative, name=name, kind="reduce", names=axes
    )


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
    """Every leaf of `value` reduced over the axes `reduced`; the other axes stay.

    `read(elements, indices of the reduced axes)` may change what is folded; `finish` is applied to the result of each element.
    Where `keep` is false, axes behind the reduced ones are mapped over like those in front: `op` sees scalars.
    """
    trace = current()
    flat = leaves(value)
    first = flat[0]
    for leaf in flat[1:]:
        for k in range(max(reduced) + 1):
            trace.equal_sizes(
                first.extents[k], leaf.extents[k], f"dimension {k} of one array", f"dimension {k} of another"
            )
    rank = first.ndim
    if any(leaf.ndim != rank for leaf in flat):
        raise TraceError(complaint("rd.reduce over arrays of different rank"))
    pure = [k for k in range(rank) if k not in reduced]
    own = make_axes([first.extents[k] for k in pure], names)
    over = make_axes([first.extents[k] for k in reduced], reduction_names(len(reduced)))
    where: dict[int, Expr] = {k: a.var for k, a in zip(pure, own, strict=True)}
    where |= {k: a.var for k, a in zip(reduced, over, strict=True)}
    places = [where[k] for k in range(rank)]
    with trace.deeper():
        inner = elements(value, places)
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
    flat = leaves(inner)
    left = tuple(fresh("a", leaf.dtype) for leaf in flat)
    right = tuple(fresh("b", leaf.dtype) for leaf in flat)
    if rows:
        combined = _pointwise_rows(op, inner, left, right, rows)
    else:
        sides = [unflatten(inner, [Array(v) for v in side]) for side in (left, right)]
        combined = call(op, *sides)
    start = _starting(neutral, inner, rows)
    if not same_nesting(combined, inner):
        raise TraceError(complaint("the operator of rd.reduce returns another structure than its operands"))
    bodies = tuple(_operator_result(leaf, v.dtype) for leaf, v in zip(leaves(combined), left, strict=True))
    monoid = _monoid(bodies, left, right)
    known = commutative if commutative is not None else monoid in COMMUTATIVE
    values = tuple(leaf.node for leaf in flat)
    form = Reduce(over, left, right, bodies, start, values, bool(known), monoid)
    return unflatten(inner, [Array(Item(form, k)) for k in range(len(flat))])


def _operator_result(leaf: Array, dtype: Any) -> Expr:
    if not is_scalar(leaf):
        raise TraceError(complaint("the operator of rd.reduce returns an array where its operands are scalars"))
    if leaf.dtype is not dtype and leaf.weak != LITERAL:
        raise DTypeError(
            complaint(
                f"the operator of rd.reduce returns {leaf.dtype} for elements of {dtype}",
                why="a reduction never widens",
                remedy=f".astype(rd.{leaf.dtype}) on the array, or .astype(rd.{dtype}) on the result",
            )
        )
    return cast(leaf, dtype)


def _monoid(bodies: tuple[Expr, ...], left: tuple[Var, ...], right: tuple[Var, ...]) -> str:
    if len(bodies) == 1 and isinstance(bodies[0], Op) and len(bodies[0].args) == 2:
        if set(bodies[0].args) == {left[0], right[0]} and bodies[0].name in COMMUTATIVE:
            return bodies[0].name
        if bodies[0].args == (left[0], right[0]):
            return bodies[0].name
    return ""


def _starting(neutral: Any, inner: Any, rows: tuple[Axis, ...]) -> tuple[Expr, ...]:
    given = structure(neutral)
    if isinstance(inner, tuple) and not isinstance(given, tuple):
        given = map_leaves(lambda _: given, inner)
    if not same_nesting(given, inner):
        raise TraceError(complaint("`neutral` has another structure than the elements"))
    start: list[Expr] = []
    for leaf, like in zip(leaves(given), leaves(inner), strict=True):
        if leaf.ndim > len(rows):
            raise ShapeError(complaint(f"`neutral` of rank {leaf.ndim} for elements of rank {len(rows)}"))
        if leaf.weak != LITERAL and leaf.dtype is not like.dtype:
            raise DTypeError(
                complaint(f"`neutral` is {leaf.dtype}, the elements are {like.dtype}", remedy=f"rd.{like.dtype}(…)")
            )
        if leaf.weak == LITERAL and leaf.dtype.is_float and not like.dtype.is_float:
            raise DTypeError(complaint(f"`neutral` is a float literal, the elements are {like.dtype}"))
        node: Expr
        if leaf.ndim:
            places = tuple(axis.var for axis in rows[len(rows) - leaf.ndim :])
            zero = index.as_index(0)
            ones = [index.constant_value(extent) == 1 for extent in leaf.extents]
            node = load(leaf.node, tuple(zero if one else v for one, v in zip(ones, places, strict=True)))
        else:
            node = cast(leaf, like.dtype)
        start.append(node)
    return tuple(start)


def _pointwise_rows(
    op: Callable[..., Any], inner: Any, left: tuple[Var, ...], right: tuple[Var, ...], rows: tuple[Axis, ...]
) -> Any:
    """The operator on rows, as an operator on their elements; TraceError when it mixes elements of a row."""
    extents = tuple(axis.extent for axis in rows)
    stand_ins: dict[Any, Var] = {}
    sides: list[Any] = []
    for side in (left, right):
        arrays = []
        for var in side:
            parameter = fresh_parameter(var.name, var.dtype, extents)
            stand_ins[parameter] = var
            arrays.append(Array(parameter))
        sides.append(unflatten(inner, arrays))
    combined = call(op, *sides)
    places = tuple(axis.var for axis in rows)

    def at_element(leaf: Array) -> Array:
        lifted = lift(leaf)
        node = lifted.node if is_scalar(lifted) else pull(lifted.node, places)
        node = transform(node, lambda n: _stand_in(n, stand_ins, places))
        if any(n in stand_ins for n in topological(node)):
            raise TraceError(
                complaint(
                    "this operator on rows mixes elements of a row",
                    why="rd.reduce takes operators that work on each element of a row by itself",
                    remedy="rd.loop with the row as its state",
                )
            )
        return Array(node, lifted.weak)

    return map_leaves(at_element, combined)


def _stand_in(node: Any, stand_ins: dict[Any, Var], places: tuple[Expr, ...]) -> Any:
    if not isinstance(node, Load) or node.array not in stand_ins:
        return node
    # Along an extent of 1 a broadcast reads index 0, whatever the place.
    sides = zip(node.indices, places, node.array.shape, strict=True)
    alone = all(e is place or index.constant_value(extent) == 1 for e, place, extent in sides)
    return stand_ins[node.array] if alone else node


def pull(array: Any, indices: tuple[Expr, ...]) -> Expr:
    """The element of an array as an expression, with every `Generate` behind it written out at its index."""
    trace = current()

    def written_out(node: Any) -> Any:
        if isinstance(node, Load) and isinstance(node.array, Result) and isinstance(node.array.form, Generate):
            form = node.array.form
            if form in trace.names or node.checked:
                return node
            places = {axis.var: e for axis, e in zip(form.axes, node.indices, strict=True)}
            return trace.substitute(form.bodies[node.array.index], places)
        return node

    return transform(Load(array, indices, False), written_out)
