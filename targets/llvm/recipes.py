"""Recipes (`raido.algo.recipes`) as LLVM instructions, line by line, with branches for rare cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from raido.algo.graph.dtypes import DType
from raido.algo.recipes.builder import Value as RecipeValue
from raido.targets.llvm.text import TextBuilder, Value

WriteOperation: TypeAlias = Callable[..., Value]


class _RecipeBuilder:
    """`raido.algo.recipes.builder.Builder` over LLVM text; a `rare` value is computed behind a branch.

    If `whole` is given, the branch calls it: the same function, out of line and branch-free. Rarely executed code is then compiled once,
    and its constants take no registers from the loop.
    """

    def __init__(self, b: TextBuilder, like: Value, whole: Callable[[], Value] | None, write: WriteOperation) -> None:
        self.b = b
        self.like = like
        self.whole = whole
        self.write = write

    def constant(self, dtype: DType, value: Any) -> Value:
        return self.b.constant(self.like, value, dtype)

    def operation(self, name: str, dtype: DType, *args: Value) -> Value:
        return self.write(self.b, name, dtype, *args)

    def rare(self, condition: Value, usual: Value, unusual: Callable[[], Value]) -> Value:
        b = self.b
        rare, common = b.fresh_label("rare"), b.fresh_label("common")
        before = b.label
        b.line(f"br {b.any(condition).typed}, label %{rare}, label %{common}")
        b.start_block(rare)
        mixed = self.whole() if self.whole else b.select(condition, unusual(), usual)
        after = b.label
        b.line(f"br label %{common}")
        b.start_block(common)
        return b.result(
            usual.dtype, usual.lanes, f"phi {usual.type} [ {usual.text}, %{before} ], [ {mixed.text}, %{after} ]"
        )


def write_recipe(b: TextBuilder, name: str, dtype: DType, operands: Sequence[Value], write: WriteOperation) -> Value:
    """Primitive `name` from its recipe; `write` writes the recipe's operations."""
    from raido.algo.recipes import build_recipe

    call = b.call_apart
    whole = (lambda: call(b, name, operands)) if call else None
    return build_recipe(name, dtype, *recipe_values(b, operands, write, whole)).raw


def recipe_values(
    b: TextBuilder, operands: Sequence[Value], write: WriteOperation, whole: Callable[[], Value] | None = None
) -> list[RecipeValue]:
    """Operands wrapped as a recipe's values."""
    builder = _RecipeBuilder(b, operands[0], whole, write)
    return [RecipeValue(builder, x.dtype, x, _number(x)) for x in operands]


def _number(x: Value) -> Any:
    return None if x.literal is None else x.dtype.numpy.type(x.literal)
