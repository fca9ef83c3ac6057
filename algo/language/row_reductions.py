"""`rd.reduce` with an operator that mixes the elements of its rows: products of matrices, the longest of some vectors.

Rows of few elements of constant size become as many scalars of one `Reduce`, which is scheduled like any other. Larger ones are folded in
order by a loop whose state is the row: the operator is associative, and the work inside each iteration is still parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from raido.algo.errors import DTypeError, ShapeError, TraceError
from raido.algo.graph import index
from raido.algo.graph.expr import Expr, Item, Reduce, Var, fresh
from raido.algo.language.combinators import map as map_outermost
from raido.algo.language.complexes import fitted
from raido.algo.language.control import loop
from raido.algo.language.moves import moved
from raido.algo.trace.building import (
    broadcast_element,
    call,
    collect,
    element,
    elements,
    make_axes,
)
from raido.algo.trace.combining import SEQUENTIAL, refuse_open_loops
from raido.algo.trace.context import current, load
from raido.algo.trace.locations import complaint
from raido.algo.trace.promotion import takes
from raido.algo.trace.small_rows import MOST, choose, indices_of, row_of, scalars_of, small_shape
from raido.algo.trace.trees import leaves, map_leaves, same_nesting, unflatten
from raido.algo.trace.types import describe
from raido.algo.trace.value import Array, is_scalar
from raido.algo.trace.weak import strengthened


def reduce_rows(
    op: Callable[..., Any],
    neutral: Any,
    value: Any,
    axis: int,
    *,
    commutative: bool,
    name: str | None,
    names: Sequence[str] | None,
) -> Any:
    """Combines the elements of `value`, a structure of arrays, along `axis` by `op`; the dimensions behind the axis belong to the element."""
    shapes = small_shapes(value, axis)
    if shapes is not None:
        return _in_registers(op, neutral, value, axis, shapes, commutative, name, names)
    return _in_order(op, neutral, value, axis, name)


def small_shapes(value: Any, axis: int) -> list[tuple[int, ...]] | None:
    """Returns the shapes of the rows behind an axis; None where they are not constant or have more than `MOST` scalars in all."""
    shapes = [small_shape(leaf.extents[axis + 1 :]) for leaf in leaves(value)]
    known = [shape for shape in shapes if shape is not None]
    few = len(known) == len(shapes) and sum(len(list(indices_of(shape))) for shape in known) <= MOST
    return known if few else None


def _in_registers(
    op: Callable[..., Any],
    neutral: Any,
    value: Any,
    axis: int,
    shapes: list[tuple[int, ...]],
    commutative: bool,
    name: str | None,
    names: Sequence[str] | None,
) -> Any:
    flat = leaves(value)
    own = make_axes(flat[0].extents[:axis], names)
    (over,) = make_axes([flat[0].extents[axis]], ["r"])
    parts = scalar_operator(op, neutral, value, axis, shapes, [one.var for one in (*own, over)], "rd.reduce")
    form = Reduce((over,), *parts, commutative, "")
    total = tuple(Array(Item(form, k)) for k in range(len(form.left)))
    results = iter(collect(own, total, "reduce", name, named_axes=True))
    rows = [assembled([next(results) for _ in indices_of(shape)], shape, own) for shape in shapes]
    return unflatten(value, rows)


def scalar_operator(
    op: Callable[..., Any],
    neutral: Any,
    value: Any,
    axis: int,
    shapes: list[tuple[int, ...]],
    front: list[Var],
    what: str,
) -> tuple[tuple[Any, ...], ...]:
    """Returns an operator on rows of known shapes as one on their scalars: `left, right, combine, neutral, values` of a `Reduce` or a
    `Scan`.

    `front` are the variables of the leading axes; the last is the axis that is combined.
    """
    values: list[Expr] = []
    sides: list[list[Any]] = [[], []]
    for leaf, shape in zip(leaves(value), shapes, strict=True):
        with current().deeper():
            values += [element(leaf, [*front, *map(index.as_index, position)]).node for position in indices_of(shape)]
        for side, letter in zip(sides, "ab", strict=True):
            side.append([fresh(letter, leaf.dtype) for _ in indices_of(shape)])
    operands = [
        unflatten(value, [row_of(scalars, shape) for scalars, shape in zip(side, shapes, strict=True)])
        for side in sides
    ]
    combined = leaves(checked_operator(op, value, axis, what)(*operands))
    bodies = tuple(e for leaf, shape in zip(combined, shapes, strict=True) for e in scalars_of(leaf, shape))
    start = tuple(
        broadcast_element(leaf, [index.as_index(k) for k in position]).node
        for leaf, shape in zip(leaves(start_of(neutral, value, axis)), shapes, strict=True)
        for position in indices_of(shape)
    )
    left, right = (tuple(var for group in side for var in group) for side in sides)
    refuse_open_loops(bodies, (*left, *right), what)
    return left, right, bodies, start, tuple(values)


def assembled(parts: list[Array], shape: tuple[int, ...], own: Sequence[Any]) -> Array:
    """Returns the array whose rows have these arrays (or scalars) as their elements."""

    def body(*indices: Expr) -> Expr:
        outer = indices[: len(own)]
        scalars = [part.node if is_scalar(part) else load(part.node, tuple(outer)) for part in parts]
        return choose(scalars, shape, indices[len(own) :])

    return moved([*(axis.extent for axis in own), *map(index.as_index, shape)], body)


def _in_order(op: Callable[..., Any], neutral: Any, value: Any, axis: int, name: str | None) -> Any:
    flat = leaves(value)
    if axis:
        return map_outermost(lambda *rows: _in_order(op, neutral, unflatten(value, rows), axis - 1, name), *flat)
    operator = checked_operator(op, value, axis, "rd.reduce")
    iterations = Array(flat[0].extents[0])
    return loop(
        iterations,
        lambda i, total: operator(total, elements(value, [i.node])),
        start_of(neutral, value, axis),
        name=name,
    )


def checked_operator(op: Callable[..., Any], value: Any, axis: int, what: str) -> Callable[[Any, Any], Any]:
    """Returns the operator with its results checked and converted to the structure, types and shapes of the elements."""

    def operator(x: Any, y: Any) -> Any:
        combined = fitted(call(op, x, y), value, f"the result of the operator of {what}")
        if not same_nesting(combined, value):
            raise TraceError(
                complaint(f"the operator of {what} returns another structure than its operands", remedy=SEQUENTIAL)
            )
        return map_leaves(lambda result, leaf: _fitted(result, leaf, axis, what), combined, value)

    return operator


def _fitted(result: Array, leaf: Array, axis: int, what: str) -> Array:
    expected = leaf.extents[axis + 1 :]
    if not takes(result, leaf.dtype):
        raise DTypeError(
            complaint(
                f"the operator of {what} returns {result.dtype} for elements of {leaf.dtype}",
                why=f"{what} never widens",
                remedy=f".astype(rd.{result.dtype}) on the array, or .astype(rd.{leaf.dtype}) on the result",
            )
        )
    result = strengthened(result, leaf.dtype)
    if result.ndim == 0:
        return moved(expected, lambda *_: result.node) if expected else result
    shapes = f"{describe(result.dtype, result.extents)} for elements {describe(leaf.dtype, expected)}"
    if result.ndim != len(expected):
        raise ShapeError(complaint(f"the operator of {what} returns {shapes}"))
    for k, (a, b) in enumerate(zip(result.extents, expected, strict=True)):
        own = f"dimension {k} of what the operator of {what} returns"
        current().equal_sizes(a, b, own, "that of the elements", shapes)
    return result


def start_of(neutral: Any, value: Any, axis: int) -> Any:
    """Returns `neutral` as an element: broadcast, in the elements' types."""
    given = fitted(neutral, value, "`neutral`", to_all=True)
    if not same_nesting(given, value):
        raise TraceError(complaint("`neutral` has another structure than the elements"))
    return map_leaves(lambda start, leaf: _broadcast(start, leaf, axis), given, value)


def _broadcast(start: Array, leaf: Array, axis: int) -> Array:
    expected = leaf.extents[axis + 1 :]
    if not takes(start, leaf.dtype):
        raise DTypeError(
            complaint(f"`neutral` is {start.dtype}, the elements are {leaf.dtype}", remedy=f"rd.{leaf.dtype}(…)")
        )
    if start.ndim > len(expected):
        raise ShapeError(complaint(f"`neutral` of rank {start.ndim} for elements of rank {len(expected)}"))
    first = strengthened(start, leaf.dtype)
    if not expected:
        return first
    for a, b in zip(first.extents, expected[len(expected) - first.ndim :], strict=True):
        if index.constant_value(a) != 1:
            current().equal_sizes(a, b, "a dimension of `neutral`", "that of the elements")
    return moved(expected, lambda *indices: broadcast_element(first, indices).node)
