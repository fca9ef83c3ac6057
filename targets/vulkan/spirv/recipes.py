"""Every primitive as SPIR-V instructions: native ones by this back end's table, others by their recipes, operation by operation.

A fused multiply-add is native only for the widths for which the device fuses it. f64 is rounded to integers by its recipe: lavapipe
truncates instead of rounding (RoundEven(1.5) = 1, on processors without AVX-512), and loses signs of zeros. bf16 is a u16 in TIR, so its
arithmetic arrives as operations on its bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import DType, f64
from raido.algo.graph.primitives import PRIMITIVES
from raido.algo.recipes.native import NATIVE, is_native
from raido.targets.vulkan.spirv.body import Body
from raido.targets.vulkan.spirv.folding import literal_of
from raido.targets.vulkan.spirv.operations import Operand, write_native


def write_operation(b: Body, name: str, dtype: DType, operands: Sequence[Operand]) -> int:
    """Appends operation `name` with a result of type `dtype`; raises `CompileError` for an unknown name."""
    if name not in NATIVE and name not in PRIMITIVES:
        raise CompileError(f'kernel "{b.module.kernel}" calls {name}, which is no operation')
    types = [of for of, _ in operands]
    emulated = (name == "fma" and dtype.bits not in b.module.device.fused) or (
        name in ("rint", "trunc") and dtype is f64
    )
    if is_native(name, dtype, types) and not emulated:
        return write_native(b, name, dtype, list(operands))
    from raido.algo.recipes import build_recipe
    from raido.algo.recipes.builder import Value

    builder = _RecipeBuilder(b)
    given = (Value(builder, of, (of, x), literal_of(b.module, of, x)) for of, x in operands)
    return build_recipe(name, dtype, *given).raw[1]


class _RecipeBuilder:
    """`raido.algo.recipes.builder.Builder` over a body; a `rare` value is computed behind a branch."""

    def __init__(self, body: Body) -> None:
        self.body = body

    def constant(self, dtype: DType, value: Any) -> Operand:
        return dtype, self.body.module.constant(dtype, value)

    def operation(self, name: str, dtype: DType, *args: Operand) -> Operand:
        return dtype, write_operation(self.body, name, dtype, args)

    def rare(self, condition: Operand, usual: Operand, unusual: Callable[[], Operand]) -> Operand:
        dtype, value = usual
        (chosen,) = self.body.choose(condition[1], dtype, lambda: (unusual()[1],), lambda: (value,))
        return dtype, chosen
