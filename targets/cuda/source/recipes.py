"""Every primitive in CUDA C: native ones by this back end's table, others as functions made of their recipes, each once per text.

The compiler inlines these functions, so constant arguments are folded, and a kernel reads as its program does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import DType
from raido.algo.graph.primitives import PRIMITIVES
from raido.algo.recipes.native import NATIVE, is_native
from raido.targets.cuda.source.operations import Operand, write_native
from raido.targets.cuda.source.values import literal, type_text


class Functions:
    """Functions that a text of kernels calls; `definitions` is ordered so that each is defined before its calls."""

    def __init__(self) -> None:
        self.definitions: dict[str, str] = {}

    def operation(self, name: str, dtype: DType, operands: Sequence[Operand]) -> str:
        """Operation `name` with a result of type `dtype`, as an expression; raises `CompileError` for an unknown name."""
        if name not in NATIVE and name not in PRIMITIVES:
            raise CompileError(f"{name} is no operation")
        types = [of for of, _ in operands]
        if is_native(name, dtype, types):
            return write_native(name, dtype, operands)
        function = f"raido_{name}_{'_'.join(type_text(of) for of in types)}"
        function += f"_to_{type_text(dtype)}" if PRIMITIVES[name].rule in ("cast", "count") else ""
        if function not in self.definitions:
            self.definitions[function] = self._define(function, name, dtype, types)
        return f"{function}({', '.join(text for _, text in operands)})"

    def _define(self, function: str, name: str, dtype: DType, types: Sequence[DType]) -> str:
        from raido.algo.recipes import build_recipe
        from raido.algo.recipes.builder import Value

        parameters = [f"x{k}" for k in range(len(types))]
        builder = _RecipeBuilder(self)
        values = [Value(builder, of, (of, text)) for of, text in zip(types, parameters, strict=True)]
        result = build_recipe(name, dtype, *values).raw[1]
        given = ", ".join(f"{type_text(of)} {text}" for of, text in zip(types, parameters, strict=True))
        lines = [f"RAIDO_INLINE {type_text(dtype)} {function}({given}) {{", *(f"  {line}" for line in builder.lines)]
        return "\n".join([*lines, f"  return {result};", "}"])


class _RecipeBuilder:
    """`raido.algo.recipes.builder.Builder` over C statements; a `rare` value is computed behind a branch."""

    def __init__(self, functions: Functions) -> None:
        self.functions, self.lines, self.count = functions, [], 0

    def constant(self, dtype: DType, value: Any) -> Operand:
        return dtype, literal(dtype, value)

    def operation(self, name: str, dtype: DType, *args: Operand) -> Operand:
        return self._named(dtype, self.functions.operation(name, dtype, args), "const ")

    def rare(self, condition: Operand, usual: Operand, unusual: Callable[[], Operand]) -> Operand:
        result = self._named(usual[0], usual[1])
        kept, self.lines = self.lines, []
        value = unusual()[1]
        inner, self.lines = self.lines, kept
        self.lines += [f"if ({condition[1]}) {{", *(f"  {line}" for line in [*inner, f"{result[1]} = {value};"]), "}"]
        return result

    def _named(self, dtype: DType, text: str, qualifier: str = "") -> Operand:
        name, self.count = f"v{self.count}", self.count + 1
        self.lines.append(f"{qualifier}{type_text(dtype)} {name} = {text};")
        return dtype, name
