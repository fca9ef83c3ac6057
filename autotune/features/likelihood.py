"""Probability that a condition holds, over all iterations of the loops around it."""

from __future__ import annotations

from collections.abc import Sequence

from raido.algo.graph.expr import Const, Op
from raido.autotune.features.forms import TYPICAL_SHARE, Forms
from raido.schedule.cost.affine import DATA, Form, plus
from raido.schedule.cost.tree import Loop
from raido.schedule.nest.values import NestExpr


def likelihood(forms: Forms, condition: NestExpr, loops: Sequence[Loop]) -> float:
    """The share of iterations in which a condition holds, between 0 and 1; one half for conditions on data."""
    if isinstance(condition, Const):
        return float(condition.bits)
    if not isinstance(condition, Op):
        return TYPICAL_SHARE
    name, args = condition.name, condition.args
    if name == "logical_and":
        return likelihood(forms, args[0], loops) * likelihood(forms, args[1], loops)
    if name == "logical_or":
        return 1.0 - (1.0 - likelihood(forms, args[0], loops)) * (1.0 - likelihood(forms, args[1], loops))
    if name == "logical_not":
        return 1.0 - likelihood(forms, args[0], loops)
    if name not in ("lt", "le", "gt", "ge", "eq", "ne") or not args[0].dtype.is_integer:
        return TYPICAL_SHARE
    left, right = forms.of(args[0]), forms.of(args[1])
    if (left.rough | right.rough) & DATA:
        return TYPICAL_SHARE
    if name in ("gt", "ge"):
        left, right, name = right, left, "lt" if name == "gt" else "le"
    low, high = range_of(forms, plus(right, left, -1.0), loops)
    if name in ("eq", "ne"):
        equal = (1.0 / (high - low + 1.0)) if low <= 0.0 <= high else 0.0
        return equal if name == "eq" else 1.0 - equal
    least = 1.0 if name == "lt" else 0.0
    return min(max((high - least + 1.0) / (high - low + 1.0), 0.0), 1.0)


def range_of(forms: Forms, form: Form, loops: Sequence[Loop]) -> tuple[float, float]:
    """The least and the greatest value of a form over the iterations of the loops."""
    middle = forms.middle(form)
    reach = sum(abs(form.terms[loop.number]) * loop.span / 2 for loop in loops if loop.number in form.terms)
    return middle - reach, middle + reach
