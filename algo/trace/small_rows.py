"""Small arrays of constant size as tuples of scalars, which loops and reductions inside functions of elements keep in registers.

`row_of` makes an array whose element at an index is selected among scalars; `scalars_of` is its inverse: every element of an array as an
expression, with selections by literals folded and small reductions unrolled, so that `a @ b` of 2 × 2 matrices is four sums of two
products.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from raido.algo.graph import index
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Cond, Const, Expr, Item, Loop, Node, Op, Reduce, Result, While, const
from raido.algo.graph.primitives import evaluate
from raido.algo.graph.rewrite import children, free_variables, post_order, scalar_nodes, transform
from raido.algo.trace.building import make_axes, new_form
from raido.algo.trace.combining import pull
from raido.algo.trace.context import current
from raido.algo.trace.value import Array, is_scalar

MOST = 16  # scalars: as many fit into registers, with some left to work in
SHORT = 8  # trip count up to which a loop is unrolled
LONGEST = 1200  # operations and values of an unrolled loop: some kilobytes of code


def small_shape(extents: Sequence[Expr]) -> tuple[int, ...] | None:
    """Returns the shape as ints; None where a size is not constant, or there are no elements or more than `MOST`."""
    known = [index.constant_value(extent) for extent in extents]
    shape = tuple(n for n in known if n is not None)
    return shape if len(shape) == len(known) and 0 < math.prod(shape) <= MOST else None


def indices_of(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yields every index of the shape, row-major."""
    return itertools.product(*map(range, shape))


def row_of(scalars: Sequence[Expr], shape: tuple[int, ...]) -> Array:
    """Returns the array of that shape with these elements, row-major."""
    if not shape:
        return Array(scalars[0])
    axes = make_axes([index.as_index(n) for n in shape])
    body = choose(list(scalars), shape, [axis.var for axis in axes])
    return Array(new_form(axes, (body,), "move")[0])


def choose(scalars: Sequence[Expr], shape: tuple[int, ...], indices: Sequence[Expr]) -> Expr:
    """Returns the selection among scalars, row-major in that shape, of the one at the index `indices`."""
    if not shape:
        return scalars[0]
    size = len(scalars) // shape[0]
    parts = [choose(scalars[k * size : (k + 1) * size], shape[1:], indices[1:]) for k in range(shape[0])]
    result = parts[-1]
    for k in reversed(range(len(parts) - 1)):
        below = Op("lt", bool_, (indices[0], index.as_index(k + 1)))
        result = Op("select", result.dtype, (below, parts[k], result))
    return result


def scalars_of(value: Array, shape: tuple[int, ...]) -> list[Expr]:
    """Returns the elements of an array of that shape, row-major; a scalar is repeated for all of them."""
    if is_scalar(value):
        return [value.node] * math.prod(shape)
    return [
        _rewritten(pull(value.node, tuple(index.as_index(k) for k in position)), {}) for position in indices_of(shape)
    ]


def with_values(roots: Iterable[Expr], values: Mapping[Any, Node]) -> tuple[Any, ...]:
    """Returns the expressions with variables replaced and simplified; recorded lines follow.

    Arrays that do not depend on the variables are kept as they are, so that each is computed once.
    """
    roots = tuple(roots)
    replaced = values.keys()

    def stays(node: Node) -> bool:
        return isinstance(node, Result) and free_variables(node).isdisjoint(replaced)

    whole = post_order(roots, lambda node: () if stays(node) else children(node))
    memo: dict[Node, Node] = {**values, **{node: node for node in whole if stays(node)}}
    loops: dict[Node, tuple[Any, ...] | None] = {}
    new = tuple(transform(root, lambda node: _settled(node, loops), memo) for root in roots)
    current().follow(memo)
    return new


def _rewritten(root: Expr, values: Mapping[Any, Node]) -> Any:
    return with_values((root,), values)[0]


def _settled(node: Any, loops: dict[Node, tuple[Any, ...] | None]) -> Node:
    """Returns a node simplified: integer arithmetic and selections of literals folded, small reductions and short loops unrolled.

    `loops` caches the unrolled values of each loop, None where a loop is not unrolled.
    """
    if isinstance(node, Op):
        if node.name == "select" and isinstance(node.args[0], Const):
            return node.args[1] if node.args[0].value else node.args[2]
        if node.args and all(isinstance(a, Const) and not a.dtype.is_float for a in node.args):
            return _done(node)
    if isinstance(node, Item) and isinstance(node.form, Reduce):
        return _written_out(node)
    if isinstance(node, Item) and isinstance(node.form, Loop):
        if node.form not in loops:
            loops[node.form] = loop_written_out(node.form)
        values = loops[node.form]
        return node if values is None else values[node.index]
    if isinstance(node, Item) and isinstance(node.form, Cond) and isinstance(node.form.predicate, Const):
        return (node.form.then if node.form.predicate.value else node.form.orelse)[node.index]
    return node


def _done(node: Op) -> Node:
    literals = [a for a in node.args if isinstance(a, Const)]
    fails = node.name in ("floordiv", "floormod", "mod", "truncdiv", "truncrem", "ipow") and literals[1].value <= 0
    if fails or node.dtype.is_float:
        return node
    return const(node.dtype, evaluate(node.name, node.dtype, [a.dtype.numpy.type(a.value) for a in literals])[()])


def _written_out(item: Item) -> Node:
    form = item.form
    assert isinstance(form, Reduce)
    shape = small_shape([axis.extent for axis in form.axes])
    if shape is None:
        return item
    state: tuple[Expr, ...] = form.neutral
    for position in indices_of(shape):
        here: dict[Any, Node] = {axis.var: index.as_index(k) for axis, k in zip(form.axes, position, strict=True)}
        values = tuple(_rewritten(e, here) for e in form.values)
        operands: dict[Any, Node] = dict(zip((*form.left, *form.right), (*state, *values), strict=True))
        state = tuple(_rewritten(e, operands) for e in form.combine)
    return state[item.index]


def loop_written_out(form: Loop) -> tuple[Any, ...] | None:
    """Returns the final values of a short loop of constant length, unrolled with literals for its counter; None where the loop is not
    unrolled.

    Indices of rows are then literals, and all numbers of a row stay in registers. A loop is kept where it has more than `SHORT` iterations,
    more than `LONGEST` nodes, or branches and loops of its own.
    """
    count = index.constant_value(form.count)
    if count is None or count > SHORT:
        return None
    values: tuple[Any, ...] = form.init
    for k in range(count):
        here: dict[Any, Node] = {form.index: index.as_index(k), **dict(zip(form.state, values, strict=True))}
        values = with_values(form.body, here)
        nodes = scalar_nodes(*values)
        if len(nodes) > LONGEST or any(isinstance(node, Cond | Loop | While | Reduce) for node in nodes):
            return None
    return values
