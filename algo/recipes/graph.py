"""Mathematical functions as expression graphs: `expand("exp", f32)` for passes that work on `Expr`s.

A `rare` value becomes a `Cond`, whose unusual branch a target may skip when no lane takes it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from raido.algo.graph.dtypes import DType
from raido.algo.graph.expr import Cond, Expr, Item, Op, Var, const, fresh
from raido.algo.graph.primitives import PRIMITIVES
from raido.algo.recipes.builder import Value


class GraphBuilder:
    """The builder that makes `Expr`s."""

    def constant(self, dtype: DType, value: Any) -> Expr:
        return const(dtype, value)

    def operation(self, name: str, dtype: DType, *args: Expr) -> Expr:
        return Op(name, dtype, args)

    def rare(self, condition: Expr, usual: Expr, unusual: Callable[[], Expr]) -> Expr:
        return Item(Cond(condition, (unusual(),), (usual,)), 0)


@cache
def expand(name: str, dtype: DType) -> tuple[tuple[Var, ...], Expr]:
    """The parameters and the body of the recipe `name` for f32 or f64."""
    from raido.algo.recipes import FUNCTIONS

    parameters = tuple(fresh(letter, dtype) for letter in "xy"[: PRIMITIVES[name].arity])
    builder = GraphBuilder()
    return parameters, FUNCTIONS[name](*(Value(builder, dtype, p) for p in parameters)).raw
