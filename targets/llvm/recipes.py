"""Functions of mathematics as LLVM instructions: their recipes (`raido.algo.recipes`), line by line, with branches for what is rare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from raido.algo.graph.dtypes import DType
from raido.targets.llvm.text import TextBuilder, Value

WriteOperation: TypeAlias = Callable[..., Value]


class _RecipeBuilder:
    """`raido.algo.recipes.builder.Builder` over LLVM text; a `rare` value is computed behind a branch.

    There stands `whole`, a call of the same function written without branches, if it is given: code that hardly ever runs is then
    compiled once, and its constants take no registers from the loop.
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


def write_recipe(b: TextBuilder, name: str, args: Sequence[Value], write: WriteOperation) -> Value:
    """A function of mathematics, from its recipe; `write` writes the primitives of it."""
    from raido.algo.recipes import build_recipe

    like = args[0]
    call = b.call_apart
    whole = (lambda: call(b, name, args)) if call else None
    return build_recipe(name, _RecipeBuilder(b, like, whole, write), like.dtype, *args)
