"""Conversion of weak values where one type is required: a loop's state, an updated array, a record, a branch, an argument."""

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
    """Returns a value, a scalar or an array that `takes` a type, converted to it and strong."""
    if value.dtype is dtype:
        return Array(value.node, STRONG)
    if is_scalar(value):
        return Array(cast(value, dtype), STRONG)
    form = value.node.form if isinstance(value.node, Result) else None
    constant = isinstance(form, Generate) and isinstance(form.bodies[value.node.index], Const)
    return elementwise(lambda x: Array(cast(x, dtype), STRONG), [value], kind="move" if constant else "elementwise")


def in_floats(value: Array) -> Array:
    """Returns numbers in a float type: floats unchanged, others in f64 with their weakness."""
    return value if value.dtype.is_float else elementwise(lambda x: Array(cast(x, f64), computed(x.weak)), [value])


def as_weak(result: Any, *values: Any) -> Any:
    """Returns a result with the weakness of the values, arrays or structures, that it was computed from."""
    weak = weakness_of([leaf for value in values for leaf in leaves(value)])
    return map_leaves(lambda leaf: Array(leaf.node, weak), result) if weak != STRONG else result


def weakness_of(values: list[Array]) -> int:
    """Returns the weakness of a result computed from values, none of which is an index any more."""
    return STRONG if any(value.weak == STRONG for value in values) else WEAK


def each_weakness(*values: Sequence[Array]) -> list[int]:
    """Returns the weakness of each result that is computed from the corresponding arrays of several sequences."""
    return [weakness_of(list(of_one)) for of_one in zip(*values, strict=True)]
