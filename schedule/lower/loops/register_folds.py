"""Folds into registers by an operator with a neutral element: vectorised or serial, as the enclosing loop is."""

from __future__ import annotations

from raido.algo.graph.dtypes import DType
from raido.algo.graph.expr import Const, Op, fresh
from raido.algo.graph.reduction import identity_of
from raido.schedule.lower.builder import Builder
from raido.schedule.nest.nodes import Fold
from raido.schedule.nest.values import Buffer, NestExpr


def fold_into(builder: Builder, register: Buffer, value: NestExpr, name: str) -> None:
    """Folds a value into a register by an operator."""
    left, right = fresh("left", value.dtype), fresh("right", value.dtype)
    both, update = (Op(name, value.dtype, (left, each)) for each in (right, value))
    neutral = identity(name, value.dtype)
    builder.add(Fold((register,), (), (update,), (left,), (right,), (both,), (neutral,), name))


def identity(name: str, dtype: DType) -> Const:
    """The neutral element of an operator."""
    found = identity_of(name, dtype)
    assert found is not None
    return found
