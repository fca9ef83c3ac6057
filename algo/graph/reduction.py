"""One update of a reduction: how a value enters the accumulator. Interpreters and lowering share this rule.

An update combines the accumulators with the values: `combine` with `right` replaced. Where the operator is float `add` and the value is a
product, the update is one fused multiply-add (`a * b` and `+` are one expression: the contract's contraction), unless the program rounds
every operation (`contract` is false). Joining two partial accumulators is always plain `combine`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from raido.algo.graph.dtypes import DType, bool_, i64
from raido.algo.graph.expr import (
    Axis,
    Const,
    Expr,
    Filter,
    Item,
    Node,
    Op,
    Reduce,
    Scan,
    SizeVar,
    Update,
    Var,
    const,
    fresh,
    if_else,
)
from raido.algo.graph.faults import operator_can_fault
from raido.algo.graph.rewrite import free_variables, scalar_nodes, substitute, transform

_UNROUNDED = ("select", "minimum", "maximum", "neg", "abs")  # operations on floats whose results are exact


def contracted_product(reduce: Reduce, contract: bool = True) -> tuple[Expr, Expr] | None:
    """The factors `a, b` where an update is `fma(a, b, accumulator)`, else None."""
    value = reduce.values[0]
    if contract and reduce.monoid == "add" and isinstance(value, Op) and value.name == "mul" and value.dtype.is_float:
        return value.args[0], value.args[1]
    return None


def monoids(fold: Reduce | Update) -> tuple[str, ...]:
    """The name of the operator of each value, "" where it has none."""
    if "," in fold.monoid:
        return tuple(fold.monoid.split(","))
    return (fold.monoid, *[""] * (len(fold.left) - 1))


def components(fold: Reduce) -> tuple[Reduce, ...]:
    """The folds of the single values of a fold, where no new value depends on another one's operands; else ()."""
    parts = []
    for k, (left, right, e) in enumerate(zip(fold.left, fold.right, fold.combine, strict=True)):
        if free_variables(e) & ({*fold.left, *fold.right} - {left, right}):
            return ()
        monoid = e.name if isinstance(e, Op) and e.args == (left, right) else ""
        own = (left,), (right,), (e,), (fold.neutral[k],), (fold.values[k],)
        parts.append(Reduce(fold.axes, *own, fold.commutative, monoid))
    return tuple(parts)


def is_arithmetic(*expressions: Expr) -> bool:
    """Whether expressions have no branches, loops or reads, and cannot fault."""
    plain = all(isinstance(node, Const | SizeVar | Var | Op) for node in scalar_nodes(*expressions))
    return plain and not operator_can_fault(*expressions)


def is_exact(*expressions: Expr) -> bool:
    """Whether an associative operator gives the same bits in every grouping: it consists of arithmetic that rounds nothing."""
    rounding = (
        node
        for node in scalar_nodes(*expressions)
        if isinstance(node, Op) and node.dtype.is_float and node.name not in _UNROUNDED
    )
    return is_arithmetic(*expressions) and not any(rounding)


def reduction_update(reduce: Reduce, contract: bool = True) -> tuple[Expr, ...]:
    """The accumulators after one update, over the accumulators `reduce.left` and the variables of `reduce.axes`."""
    product = contracted_product(reduce, contract)
    if product is not None:
        return (Op("fma", reduce.left[0].dtype, (*product, reduce.left[0])),)
    values = dict(zip(reduce.right, reduce.values, strict=True))
    return tuple(substitute(e, values) for e in reduce.combine)


def join_partials(
    reduce: Reduce, earlier: tuple[Expr, ...], later: tuple[Expr, ...], made: dict[Node, Node]
) -> tuple[Expr, ...]:
    """The join of two groups of accumulators; the indices of `earlier` precede those of `later`. `made` maps the operator's new nodes to
    old ones."""
    values: dict[Node, Node] = dict(zip(reduce.left + reduce.right, earlier + later, strict=True))
    joined = tuple(transform(e, lambda node: node, values) for e in reduce.combine)
    made.update({new: old for old, new in values.items() if new is not old})
    return joined


def fold_of(axes: tuple[Axis, ...], value: Expr, monoid: str, neutral: Any) -> Item:
    """The fold of a value over axes by a commutative primitive, such as "add"."""
    left, right = fresh("a", value.dtype), fresh("b", value.dtype)
    combine = (Op(monoid, value.dtype, (left, right)),)
    return Item(Reduce(axes, (left,), (right,), combine, (const(value.dtype, neutral),), (value,), True, monoid), 0)


def count_of(form: Filter) -> Item:
    """The number of elements that a filter keeps."""
    one = Op("select", i64, (form.predicate, const(i64, 1), const(i64, 0)))
    return fold_of(form.axes[:1], one, "add", 0)


def either(test: Expr, then: tuple[Expr, ...], orelse: tuple[Expr, ...], branch: bool) -> tuple[Expr, ...]:
    """`then` where `test` holds, else `orelse`; with `branch`, only the chosen one is evaluated, as one may fault."""
    if branch:
        return if_else(test, then, orelse)
    return tuple(Op("select", a.dtype, (test, a, b)) for a, b in zip(then, orelse, strict=True))


def identities_of(form: Reduce | Scan | Update) -> tuple[Const, ...]:
    """The identities of an operator that applies one primitive to each part of an element, bit for bit; () for other operators."""
    found = []
    for left, right, e in zip(form.left, form.right, form.combine, strict=True):
        known = identity_of(e.name, left.dtype) if isinstance(e, Op) and set(e.args) == {left, right} else None
        if known is None:
            return ()
        found.append(known)
    return tuple(found)


def identity_of(monoid: str, dtype: DType) -> Const | None:
    """The identity of a primitive, bit for bit; None if it has none."""
    if monoid == "add":
        return const(dtype, -0.0 if dtype.is_float else 0)
    if monoid in ("bit_or", "bit_xor", "logical_or", "logical_xor"):
        return const(dtype, 0)
    if monoid == "mul":
        return const(dtype, 1)
    if monoid in ("minimum", "maximum"):
        sign = 1 if monoid == "minimum" else -1
        if dtype.is_float:
            return const(dtype, sign * math.inf)
        if dtype is bool_:
            return const(bool_, sign > 0)
        info = np.iinfo(dtype.numpy)
        return const(dtype, info.max if sign > 0 else info.min)
    if monoid == "logical_and":
        return const(bool_, 1)
    return const(dtype, -1) if monoid == "bit_and" else None
