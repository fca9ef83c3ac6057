"""Constant folding of native operations on literals during code generation.

A driver folds them too, and then sees as an operand a 0 that is nowhere in the code, which `zeros` could not hide. Bit operations are
folded as well: a bf16 number becomes an f32 by a shift of its bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raido.algo.graph.dtypes import DType
from raido.algo.graph.expr import Const
from raido.algo.graph.primitives import evaluate
from raido.algo.recipes.native import NATIVE
from raido.targets.vulkan.spirv.module import Module

_OF_BITS = frozenset(("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right", "convert"))


def folded(module: Module, name: str, dtype: DType, operands: Sequence[tuple[DType, int]]) -> int | None:
    """The literal result of a native operation on floats, on bits, or with a float result; None where an operand is no literal."""
    if not dtype.is_float and name not in _OF_BITS and not any(of.is_float for of, _ in operands):
        return None
    numbers = [literal_of(module, of, x) for of, x in operands]
    if any(number is None for number in numbers):
        return None
    return module.constant(dtype, evaluate(NATIVE[name].primitive, dtype, numbers)[()])


def literal_of(module: Module, dtype: DType, x: int) -> Any:
    """The known constant value of an identifier, as a NumPy scalar of the dtype; else None."""
    bits = module.known.get(x)
    if bits is None:
        return None
    if dtype.kind == "i":
        bits -= bits >> dtype.bits - 1 << dtype.bits
    return dtype.numpy.type(Const(dtype, bits).value)
