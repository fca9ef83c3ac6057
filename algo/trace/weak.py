"""Weak values where one type is due: in a loop's state, an array that is changed, a record, a branch, an argument."""

from __future__ import annotations

from raido.algo.graph.dtypes import DType
from raido.algo.graph.expr import Const, Generate, Result
from raido.algo.trace.building import elementwise
from raido.algo.trace.scalars import cast
from raido.algo.trace.value import STRONG, WEAK, Array, is_scalar


def strengthened(value: Array, dtype: DType) -> Array:
    """A value that `takes` a type, in that type: a scalar or an array, strong from then on."""
    if value.dtype is dtype:
        return Array(value.node, STRONG)
    if is_scalar(value):
        return Array(cast(value, dtype), STRONG)
    form = value.node.form if isinstance(value.node, Result) else None
    constant = isinstance(form, Generate) and isinstance(form.bodies[value.node.index], Const)
    return elementwise(lambda x: Array(cast(x, dtype), STRONG), [value], kind="move" if constant else "elementwise")


def weakness_of(values: list[Array]) -> int:
    """How weak a result is of a computation on values, none of which is an index any more."""
    return STRONG if any(value.weak == STRONG for value in values) else WEAK
