"""Native operations on literals alone, computed while code is written.

A driver computes them too, and then sees a 0 as an operand that stood nowhere in the code: `zeros` could not keep it from that. Bits are
literals as well: a number of bf16 becomes one of f32 by a shift of its bits.
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
    """The literal that a native operation on floats, on bits, or with a float as its result gives; None where an operand is no literal."""
    if not dtype.is_float and name not in _OF_BITS and not any(of.is_float for of, _ in operands):
        return None
    numbers = [literal_of(module, of, x) for of, x in operands]
    if any(number is None for number in numbers):
        return None
    return module.constant(dtype, evaluate(NATIVE[name].primitive, dtype, numbers)[()])


def literal_of(module: Module, dtype: DType, x: int) -> Any:
    """The number of a type that a value is known to be, as a scalar of NumPy's; else None."""
    bits = module.known.get(x)
    if bits is None:
        return None
    if dtype.kind == "i":
        bits -= bits >> dtype.bits - 1 << dtype.bits
    return dtype.numpy.type(Const(dtype, bits).value)
