"""i64 arithmetic in 32 bits (`devices/narrow.py`) as CUDA C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from raido.algo.graph.dtypes import DType, i32
from raido.targets.cuda.source.operations import convert
from raido.targets.cuda.source.values import literal
from raido.targets.devices import narrow

if TYPE_CHECKING:
    from raido.targets.cuda.source.expressions import Expressions


class Narrow(narrow.Narrow[str]):
    """Lower halves of i64 expressions, as texts."""

    def __init__(self, expressions: Expressions) -> None:
        super().__init__()
        self.expressions = expressions

    def value(self, node: Any) -> str:
        return self.expressions.one(node)

    def written(self, node: Any) -> str:
        (value,) = self.expressions.written(node)
        return value

    def constant(self, value: int) -> str:
        return literal(i32, (value + (1 << 31)) % (1 << 32) - (1 << 31))

    def convert(self, source: DType, value: str) -> str:
        return convert((source, value), i32)

    def operation(self, name: str, operands: Sequence[str]) -> str:
        return self.expressions.functions.operation(name, i32, [(i32, operand) for operand in operands])

    def divide(self, name: str, dividend: str, divisor: str) -> str:
        """Unsigned division, which is shorter, and a shift for a constant power of two."""
        return f"(i32)((u32){dividend} {'/' if name == 'quotient' else '%'} (u32){divisor})"

    def select(self, condition: str, yes: str, no: str) -> str:
        return f"({condition} ? {yes} : {no})"

    def choose(self, condition: str, yes: Callable[[], str], no: Callable[[], str]) -> str:
        return self.expressions.writer.choose(i32, condition, yes, no)
