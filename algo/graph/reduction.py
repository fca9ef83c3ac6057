"""One step of a reduction: how a value enters the accumulator. Interpreters and lowering share this rule.

A step combines the accumulators with the values: `combine` with `right` replaced. Where the operator is float `add` and the value is
a product, the step is one fused multiply-add (`a * b` and `+` stand in one expression: the contract's contraction), unless the
program rounds every operation (`contract` false). Joining two partial accumulators is always plain `combine`.
"""

from __future__ import annotations

from raido.algo.graph.expr import Expr, Op, Reduce
from raido.algo.graph.rewrite import substitute


def contracted_product(reduce: Reduce, contract: bool = True) -> tuple[Expr, Expr] | None:
    """The factors `a, b` where a step is `fma(a, b, accumulator)`, else None."""
    value = reduce.values[0]
    if contract and reduce.monoid == "add" and isinstance(value, Op) and value.name == "mul" and value.dtype.is_float:
        return value.args[0], value.args[1]
    return None


def reduction_update(reduce: Reduce, contract: bool = True) -> tuple[Expr, ...]:
    """The accumulators after one step, in terms of the accumulators `reduce.left` and the variables of `reduce.axes`."""
    product = contracted_product(reduce, contract)
    if product is not None:
        return (Op("fma", reduce.left[0].dtype, (*product, reduce.left[0])),)
    values = dict(zip(reduce.right, reduce.values, strict=True))
    return tuple(substitute(e, values) for e in reduce.combine)


def join_partials(reduce: Reduce, earlier: tuple[Expr, ...], later: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Two groups of accumulators as one; `earlier` covers the indices before those of `later`."""
    values = dict(zip(reduce.left + reduce.right, earlier + later, strict=True))
    return tuple(substitute(e, values) for e in reduce.combine)
