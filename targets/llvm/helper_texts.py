"""Texts of the helper functions that a module needs, each written once, by symbol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from raido.algo.graph.dtypes import DType
from raido.targets.llvm.capabilities import Capabilities
from raido.targets.llvm.text import TextBuilder, Value, llvm_type

Shape: TypeAlias = tuple[DType, int]  # element type and lanes
_INLINED = 400  # lines


class HelperTexts:
    """Helper functions by symbol, with their declarations and constants, for a processor with capabilities `can`."""

    def __init__(self, can: Capabilities) -> None:
        self.can = can
        self.constants: dict[str, str] = {}
        self._functions: dict[str, str] = {}
        self._declarations: set[str] = set()

    def module(self) -> str:
        """Everything written so far as one LLVM module."""
        return "\n\n".join(
            [
                *sorted(self._declarations),
                *self.constants.values(),
                *self._functions.values(),
                "!0 = !{i32 1}\n!1 = !{}\n",
            ]
        )

    def write(self, symbol: str, result: str, shapes: Sequence[Shape | str], body: Callable[..., str]) -> str:
        """The symbol of a function, which is written at its first use; `body` appends instructions to a builder and returns the text of the
        result."""
        if symbol not in self._functions:
            b = TextBuilder(self.can)
            types = [s if isinstance(s, str) else llvm_type(*s) for s in shapes]
            names = [f"%p{i}" for i in range(len(shapes))]
            parameters = ", ".join(f"{kind} {name}" for kind, name in zip(types, names, strict=True))
            args = [n if isinstance(s, str) else Value(*s, n) for s, n in zip(shapes, names, strict=True)]
            b.line(f"ret {result} {body(b, *args)}")
            attributes = "alwaysinline nounwind" if len(b.lines) < _INLINED else "inlinehint nounwind"
            self._functions[symbol] = b.function(symbol, result, parameters, attributes)
            self._declarations |= b.declarations
            self.constants |= b.globals
        return symbol
