"""Weak values where one type is due: in a loop's state, an array that is changed, a record, a branch, an argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raido.algo.graph.dtypes import DType, f64
from raido.algo.graph.expr import Const, Generate, Result
from raido.algo.trace.building import elementwise
from raido.algo.trace.scalars import cast
from raido.algo.trace.trees import leaves, map_leaves
from raido.algo.trace.value import STRONG, WEAK, Array, computed, is_scalar


def strengthened(value: Array, dtype: DType) -> Array:
    """A value that `takes` a type, in that type: a scalar or an array, strong from then on."""
    if value.dtype is dtype:
        return Array(value.node, STRONG)
    if is_scalar(value):
        return Array(cast(value, dtype), STRONG)
    form = value.node.form if isinstance(value.node, Result) else None
    constant = isinstance(form, Generate) and isinstance(form.bodies[value.node.index], Const)
    return elementwise(lambda x: Array(cast(x, dtype), STRONG), [value], kind="move" if constant else "elementwise")


def in_floats(value: Array) -> Array:
    """Numbers in a float type: floats as they are, others in f64 and as weak as they were."""
    return value if value.dtype.is_float else elementwise(lambda x: Array(cast(x, f64), computed(x.weak)), [value])


def as_weak(result: Any, *values: Any) -> Any:
    """A result as weak as the values that it was computed from, arrays or structures of them."""
    weak = weakness_of([leaf for value in values for leaf in leaves(value)])
    return map_leaves(lambda leaf: Array(leaf.node, weak), result) if weak != STRONG else result


def weakness_of(values: list[Array]) -> int:
    """How weak a result is of a computation on values, none of which is an index any more."""
    return STRONG if any(value.weak == STRONG for value in values) else WEAK


def each_weakness(*values: Sequence[Array]) -> list[int]:
    """How weak results are that are made of one of each of these sequences of arrays."""
    return [weakness_of(list(of_one)) for of_one in zip(*values, strict=True)]
