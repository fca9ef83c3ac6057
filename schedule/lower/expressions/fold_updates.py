"""One step of a reduction, as expressions: the operator applied to the accumulators and a value, fused where a product is added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raido.algo.graph.expr import Expr, Node, Op, Reduce, Var
from raido.algo.graph.reduction import is_arithmetic, monoids
from raido.algo.graph.rewrite import children, substitute
from raido.schedule.lower.expressions.dag import scalar_order
from raido.schedule.nest.values import NestExpr


def is_plain_operator(form: Reduce) -> bool:
    """Whether the operator is arithmetic on its operands alone: no branches, loops or reads, and nothing that can fault."""
    return is_arithmetic(*form.combine, *form.neutral)


def products(form: Reduce, contract: bool) -> list[bool]:
    """For each value: whether its step is a fused multiply-add."""
    added = (
        value if contract and name == "add" else None for value, name in zip(form.values, monoids(form), strict=True)
    )
    return [isinstance(value, Op) and value.name == "mul" and value.dtype.is_float for value in added]


def fold_operands(form: Reduce, contract: bool) -> tuple[Expr, ...]:
    """The operands of one step: the values, or the two factors of a fused multiply-add."""
    operands: list[Expr] = []
    for value, fused in zip(form.values, products(form, contract), strict=True):
        operands += value.args if fused else (value,)  # type: ignore[union-attr]
    return tuple(operands)


def fold_update(form: Reduce, contract: bool, operands: list[NestExpr]) -> list[Expr]:
    right: dict[Node, Node] = {}
    fused: dict[int, Expr] = {}
    for k, product in enumerate(products(form, contract)):
        if product:
            a, b = operands.pop(0), operands.pop(0)
            fused[k] = Op("fma", form.left[k].dtype, (a, b, form.left[k]))
        else:
            right[form.right[k]] = operands.pop(0)
    return [fused[k] if k in fused else substitute(e, right) for k, e in enumerate(form.combine)]


def replace_neutral(form: Reduce, neutral: tuple[Expr, ...]) -> Reduce:
    """The fold with other initial values, and commutative."""
    return Reduce(form.axes, form.left, form.right, form.combine, neutral, form.values, True, form.monoid)


def single_monoid(form: Reduce) -> str:
    return "" if "," in form.monoid else form.monoid


def operand_uses(form: Reduce, contract: bool, uses: Sequence[int]) -> list[int]:
    """The number of occurrences of each operand of a step in the operator, given the number of occurrences of each value."""
    counts: list[int] = []
    for k, fused in enumerate(products(form, contract)):
        counts += [1, 1] if fused else [uses[k]]
    return counts


@dataclass(frozen=True, slots=True)
class Operator:
    """The operator of a fold, whatever is folded: `around`, the variables that it takes from enclosing expressions; the nodes of its
    results; whether it is plain (`is_plain_operator`); and the number of uses of each value."""

    around: tuple[Var, ...]
    nodes: tuple[Node, ...]
    plain: bool
    uses: tuple[int, ...]


def operator_of(form: Reduce) -> Operator:
    """Analyses the operator of a fold, for all the forms that have it."""
    own = {*form.left, *form.right}
    around = (n for n in scalar_order([*form.combine, *form.neutral]) if isinstance(n, Var) and n not in own)
    uses = [0] * len(form.right)
    for e in form.combine:
        for node in scalar_order([e]):
            for child in children(node):
                if child in form.right:
                    uses[form.right.index(child)] += 1
    return Operator(tuple(around), tuple(scalar_order(form.combine)), is_plain_operator(form), tuple(uses))
