"""Binary operators of reductions and scans, traced once on symbolic operands into expressions of `left` and `right`.

An operator takes and returns elements: a scalar, a tuple of scalars, or rows. An operator on rows that treats each element of the row
independently becomes an operator on these elements, applied at every index of the rows' axes. Other operators on rows raise `RowsMixed`.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raido.algo.errors import DTypeError, RaidoError, ShapeError, TraceError
from raido.algo.graph import index
from raido.algo.graph.expr import Axis, Expr, Generate, Load, Node, Op, Result, Var, fresh, fresh_parameter
from raido.algo.graph.rewrite import free_variables, post_order, rebuild, scalars_below, topological, transform
from raido.algo.language.complexes import fitted
from raido.algo.trace.building import call
from raido.algo.trace.context import current, load
from raido.algo.trace.locations import complaint
from raido.algo.trace.promotion import lift, named, takes
from raido.algo.trace.scalars import cast
from raido.algo.trace.trees import leaves, map_leaves, same_nesting, unflatten
from raido.algo.trace.value import STRONG, WEAK, Array, is_scalar


class RowsMixed(TraceError):
    """An operator on rows that does not treat each of their elements independently."""


SEQUENTIAL = (
    "an associative op(x, y) of two elements; a sequential recurrence is rd.loop, with out.at[i].set(v) in its state"
)
COMMUTATIVE = frozenset(
    ["add", "mul", "minimum", "maximum", "logical_and", "logical_or", "logical_xor", "bit_and", "bit_or", "bit_xor"],
)


@dataclass(frozen=True, slots=True)
class Operator:
    """A traced operator: its operands, the combined expressions, its monoid and the weakness of each result.

    `monoid` is the name of the primitive where the operator is a single primitive on one value, else "".
    """

    left: tuple[Var, ...]
    right: tuple[Var, ...]
    combine: tuple[Expr, ...]
    monoid: str
    weak: tuple[int, ...]

    @property
    def fields(self) -> tuple[tuple[Var, ...], tuple[Var, ...], tuple[Expr, ...]]:
        """The operands and the combined expressions, in the order of the fields of the forms."""
        return self.left, self.right, self.combine


def trace_operator(op: Callable[..., Any], like: Any, rows: tuple[Axis, ...], what: str) -> Operator:
    """Traces the operator on operands structured as `like`, scalars that stand for the elements at an index of `rows`."""
    _refuse_reduction(op, what)
    flat = leaves(like)
    left = tuple(fresh("a", leaf.dtype) for leaf in flat)
    right = tuple(fresh("b", leaf.dtype) for leaf in flat)
    combined = _combined(op, like, left, right, rows, what, STRONG)
    if not same_nesting(combined, like):
        raise TraceError(
            complaint(f"the operator of {what} returns another structure than its operands", remedy=SEQUENTIAL)
        )
    bodies = tuple(_operator_result(leaf, v.dtype, what) for leaf, v in zip(leaves(combined), left, strict=True))
    refuse_open_loops(bodies, (*left, *right), what)
    monoid = _monoid(bodies, left, right)
    if len(bodies) == 1 and monoid not in COMMUTATIVE:
        from raido.algo.trace.associativity import warn_of_grouping

        warn_of_grouping(left[0], right[0], bodies[0], what)
    weak = [STRONG] * len(flat)
    if not any(leaf.weak == STRONG for leaf in flat):
        weak = [WEAK] if monoid else _weakness(op, like, left, right, rows, what)
    return Operator(left, right, bodies, monoid, tuple(weak))


_OPERATORS = {  # the operators of reductions that users pass by mistake
    "sum": "add",
    "prod": "multiply",
    "any": "logical_or",
    "all": "logical_and",
    "max": "maximum",
    "min": "minimum",
    "amax": "maximum",
    "amin": "minimum",
    "cumsum": "add",
    "cumprod": "multiply",
}


def _refuse_reduction(op: Any, what: str) -> None:
    """Raises `TraceError` for a reduction in the place of an operator: Python's, NumPy's or raido's `sum`, `max` …"""
    name = getattr(op, "__name__", "")
    if name in _OPERATORS and any(op is getattr(home, name, None) for home in (builtins, np, sys.modules.get("raido"))):
        why = f"the operator of {what} takes two elements, and `{name}` one array"
        remedy = f"rd.{_OPERATORS[name]}, or rd.{name}(a)"
        raise TraceError(complaint(f"`{name}` as the operator of {what}", why=why, remedy=remedy))


def _combined(
    op: Callable[..., Any],
    like: Any,
    left: tuple[Var, ...],
    right: tuple[Var, ...],
    rows: tuple[Axis, ...],
    what: str,
    weak: int,
) -> Any:
    """Returns the operator's result for operands of the given weakness."""
    if rows:
        combined = _pointwise_rows(op, like, left, right, rows, what, weak)
    else:
        combined = call(op, *(unflatten(like, [Array(v, weak) for v in side]) for side in (left, right)))
    return fitted(combined, like, f"the result of the operator of {what}")


def _weakness(
    op: Callable[..., Any],
    like: Any,
    left: tuple[Var, ...],
    right: tuple[Var, ...],
    rows: tuple[Axis, ...],
    what: str,
) -> list[int]:
    """Returns the weakness of each result for weak operands, by tracing the operator again: it may contain strong values."""
    trace, flat = current(), leaves(like)
    tables = trace.snapshot()
    try:
        results = leaves(_combined(op, like, left, right, rows, what, WEAK))
        return [WEAK if r.weak != STRONG and r.dtype is v.dtype else STRONG for r, v in zip(results, flat, strict=True)]
    except RaidoError:  # an operator whose types need strong operands
        return [STRONG] * len(flat)
    finally:
        trace.restore(tables)


def refuse_open_loops(bodies: Sequence[Expr], variables: Sequence[Var], what: str) -> None:
    """Raises `TraceError` where an operator on scalars has array forms other than `Generate` over its operands: each step would need
    memory."""
    own = frozenset(variables)
    for node in topological(*bodies):
        if isinstance(node, Result) and not isinstance(node.form, Generate) and free_variables(node) & own:
            raise TraceError(
                complaint(
                    f"a loop, sort or update of arrays in the operator of {what}",
                    why=f"the operator runs at every step of {what}, on scalars",
                    remedy="rd.loop over the elements, with the arrays as its state",
                )
            )


def _operator_result(leaf: Array, dtype: Any, what: str) -> Expr:
    if not is_scalar(leaf):
        raise TraceError(complaint(f"the operator of {what} returns an array where its operands are scalars"))
    if not takes(leaf, dtype):
        raise DTypeError(
            complaint(
                f"the operator of {what} returns {leaf.dtype} for elements of {dtype}",
                why=f"{what} never widens",
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


def starting_values(neutral: Any, inner: Any, rows: tuple[Axis, ...]) -> tuple[Expr, ...]:
    """Returns the initial values of a reduction: `neutral` at an index of `rows`, one expression for each leaf of `inner`, of its dtype.

    A neutral element without rows is broadcast.
    """
    given = fitted(neutral, inner, "`neutral`", to_all=True)
    if not same_nesting(given, inner):
        raise TraceError(complaint("`neutral` has another structure than the elements"))
    start: list[Expr] = []
    for leaf, like in zip(leaves(given), leaves(inner), strict=True):
        if leaf.ndim > len(rows):
            raise ShapeError(complaint(f"`neutral` of rank {leaf.ndim} for elements of rank {len(rows)}"))
        if not takes(leaf, like.dtype):
            raise DTypeError(
                complaint(f"`neutral` is {named(leaf)}, the elements are {like.dtype}", remedy=f"rd.{like.dtype}(…)")
            )
        node: Expr
        if leaf.ndim:
            indices = tuple(axis.var for axis in rows[len(rows) - leaf.ndim :])
            zero = index.as_index(0)
            ones = [index.constant_value(extent) == 1 for extent in leaf.extents]
            node = load(leaf.node, tuple(zero if one else v for one, v in zip(ones, indices, strict=True)))
        else:
            node = leaf.node
        start.append(cast(Array(node, leaf.weak), like.dtype))
    return tuple(start)


def _pointwise_rows(
    op: Callable[..., Any],
    inner: Any,
    left: tuple[Var, ...],
    right: tuple[Var, ...],
    rows: tuple[Axis, ...],
    what: str,
    weak: int,
) -> Any:
    """Returns an operator on rows as an operator on their elements; raises `RowsMixed` where it mixes elements of a row."""
    extents = tuple(axis.extent for axis in rows)
    stand_ins: dict[Any, Var] = {}
    sides: list[Any] = []
    for side in (left, right):
        arrays = []
        for var in side:
            parameter = fresh_parameter(var.name, var.dtype, extents)
            stand_ins[parameter] = var
            arrays.append(Array(parameter, weak))
        sides.append(unflatten(inner, arrays))
    combined = call(op, *sides)
    indices = tuple(axis.var for axis in rows)

    def at_element(leaf: Array) -> Array:
        lifted = lift(leaf)
        node = lifted.node if is_scalar(lifted) else pull(lifted.node, indices)
        node = transform(node, lambda n: _stand_in(n, stand_ins, indices))
        if any(n in stand_ins for n in topological(node)):
            raise RowsMixed(
                complaint(
                    "this operator on rows mixes elements of a row",
                    why=f"{what} takes operators that work on each element of a row by itself",
                    remedy="rd.loop with the row as its state",
                )
            )
        return Array(node, lifted.weak)

    return map_leaves(at_element, combined)


def _stand_in(node: Any, stand_ins: dict[Any, Var], indices: tuple[Expr, ...]) -> Any:
    if not isinstance(node, Load) or node.array not in stand_ins:
        return node
    # Along an extent of 1 a broadcast reads index 0, whatever the index.
    sides = zip(node.indices, indices, node.array.shape, strict=True)
    alone = all(e is position or index.constant_value(extent) == 1 for e, position, extent in sides)
    return stand_ins[node.array] if alone else node


def pull(array: Any, indices: tuple[Expr, ...]) -> Expr:
    """Returns the element of an array as an expression, with every unnamed `Generate` below it inlined at its index; other arrays are
    loaded."""
    trace = current()

    def is_written_out(node: Any) -> bool:
        if not isinstance(node, Load) or node.checked or not isinstance(node.array, Result):
            return False
        return isinstance(node.array.form, Generate) and node.array.form not in trace.names

    def body(load: Any) -> Expr:
        return load.array.form.bodies[load.array.index]

    def below(node: Any) -> tuple[Node, ...]:
        return (*node.indices, body(node)) if is_written_out(node) else scalars_below(node)

    def written_out(load: Any) -> Expr:
        substitution = {axis.var: memo[e] for axis, e in zip(load.array.form.axes, load.indices, strict=True)}
        return trace.substitute(memo[body(load)], substitution)

    element = Load(array, indices, False)
    memo: dict[Any, Any] = {}
    for node in post_order((element,), below):
        memo[node] = written_out(node) if is_written_out(node) else rebuild(node, lambda child: memo.get(child, child))
    trace.follow(memo)
    return memo[element]
