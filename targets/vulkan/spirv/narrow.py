"""i64 arithmetic in 32 bits (`devices/narrow.py`) as instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from raido.algo.graph.dtypes import DType, i32
from raido.targets.devices import narrow
from raido.targets.vulkan.spirv.grammar import Op
from raido.targets.vulkan.spirv.operations import convert
from raido.targets.vulkan.spirv.recipes import write_operation

if TYPE_CHECKING:
    from raido.targets.vulkan.spirv.expressions import Expressions

_DIVISIONS = {"quotient": Op.UDiv, "remainder": Op.UMod}


class Narrow(narrow.Narrow[int]):
    """Lower halves of i64 expressions, as identifiers in a body."""

    def __init__(self, expressions: Expressions) -> None:
        super().__init__()
        self.expressions, self.body = expressions, expressions.body

    def value(self, node: Any) -> int:
        return self.expressions.one(node)

    def written(self, node: Any) -> int:
        (value,) = self.expressions.written(node)
        return value

    def constant(self, value: int) -> int:
        return self.body.module.constant(i32, value)

    def convert(self, source: DType, value: int) -> int:
        return convert(self.body, source, i32, value)

    def operation(self, name: str, operands: Sequence[int]) -> int:
        return write_operation(self.body, name, i32, [(i32, operand) for operand in operands])

    def divide(self, name: str, dividend: int, divisor: int) -> int:
        return self.body.compute(_DIVISIONS[name], i32, dividend, divisor)

    def select(self, condition: int, yes: int, no: int) -> int:
        return self.body.select(condition, i32, yes, no)

    def choose(self, condition: int, yes: Callable[[], int], no: Callable[[], int]) -> int:
        return self.body.choose(condition, i32, lambda: (yes(),), lambda: (no(),))[0]
