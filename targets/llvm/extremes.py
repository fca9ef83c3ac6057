"""`minimum` and `maximum` of floats in few LLVM instructions, with IEEE 754-2019's meaning for NaN and signed zeros."""

from __future__ import annotations

import math

from raido.algo.graph.dtypes import DType, f32, f64, i32, signed
from raido.targets.llvm.capabilities import Capabilities
from raido.targets.llvm.text import TextBuilder, Value

_REGISTERS = (128, 256, 512)  # bits


def write_extreme(b: TextBuilder, x: Value, y: Value, which: str) -> Value:
    """Writes the minimum ("min") or maximum ("max") of two vectors: any NaN wins, and −0.0 is less than 0.0.

    Both operand orders of the machine's instruction are computed, which differ only for NaN and for zeros of both signs; their bits are
    combined.
    """
    for known, other in ((x, y), (y, x)):
        if known.literal is not None and not math.isnan(known.literal):
            return _extreme_with_literal(b, known, other, which)
    one, other = (_bits(b, _nearer(b, *pair, which)) for pair in ((x, y), (y, x)))
    if which == "min":
        either = b.binary("or", one, other)
    elif (
        b.can.vector_bits == x.lanes * x.dtype.bits == 512
    ):  # by each bit: its "and" where that is the sign, else its "or"
        sign = b.constant(one, -1 << (one.dtype.bits - 1))
        words = [b.result(i32, 16, f"bitcast {v.typed} to <16 x i32>") for v in (one, other, sign)]
        taken = b.call("llvm.x86.avx512.pternlog.d.512", i32, 16, *words, "i32 212")
        return b.result(x.dtype, x.lanes, f"bitcast {taken.typed} to {x.type}")
    else:
        unordered = b.convert("sext", b.compare("uno", x, y), one.dtype)
        either = b.binary("or", b.binary("and", one, other), unordered)
    return b.convert("bitcast", either, x.dtype)


def write_extreme_of_numbers(b: TextBuilder, x: Value, y: Value, which: str) -> Value:
    """The extreme of two numbers, −0.0 less than 0.0; any value where one is NaN."""
    if x.literal is not None or y.literal is not None or not _drops_nan(which, x.dtype, x.lanes, b.can):
        return write_extreme(b, x, y, which)
    if not b.can.ranges:
        one, other = (_bits(b, _nearer(b, *pair, which)) for pair in ((x, y), (y, x)))
        return b.convert("bitcast", b.binary("and", one, other), x.dtype)
    bits, kind = x.lanes * x.dtype.bits, "ps" if x.dtype is f32 else "pd"
    mask = f"i{max(x.lanes, 8)} -1"
    control = f"i32 {4 if which == 'min' else 5}"  # signs of zeros count
    rounding = ["i32 4"] * (bits == 512)
    return b.call(f"llvm.x86.avx512.mask.range.{kind}.{bits}", x.dtype, x.lanes, x, y, control, x, mask, *rounding)


def saved_without_nan(which: str, dtype: DType, lanes: int, can: Capabilities) -> int:
    """The number of instructions that the extreme of two numbers takes less than one of values that may be NaN."""
    return 2 if _drops_nan(which[:3], dtype, lanes, can) else 0


def _drops_nan(which: str, dtype: DType, lanes: int, can: Capabilities) -> bool:
    if dtype.bits * lanes not in _REGISTERS or dtype.bits * lanes > can.vector_bits:
        return False
    return can.ranges or (which == "max" and can.vector_bits < 512)


def _bits(b: TextBuilder, x: Value) -> Value:
    return b.convert("bitcast", x, signed(x.dtype.bits))


def _nearer(b: TextBuilder, x: Value, y: Value, which: str) -> Value:
    """The machine's min or max instruction: `y` where the operands are equal or one is a NaN."""
    bits = x.lanes * x.dtype.bits
    if x.dtype in (f32, f64) and x.lanes > 1 and bits in _REGISTERS and bits <= b.can.vector_bits:
        kind = "ps" if x.dtype is f32 else "pd"
        family, width = {128: ("sse" if x.dtype is f32 else "sse2", ""), 256: ("avx", ".256"), 512: ("avx512", ".512")}[
            bits
        ]
        return b.call(f"llvm.x86.{family}.{which}.{kind}{width}", x.dtype, x.lanes, x, y, *["i32 4"] * (bits == 512))
    return b.select(b.compare("olt" if which == "min" else "ogt", x, y), x, y)


def _extreme_with_literal(b: TextBuilder, known: Value, x: Value, which: str) -> Value:
    """The extreme of a literal other than NaN and `x`: the zero's sign needs care only for one of the two zeros."""
    nearer = _nearer(b, known, x, which)
    if known.literal != 0 or (math.copysign(1, known.literal) < 0) is (which == "max"):
        return nearer
    size = b.intrinsic("fabs", nearer)
    return size if which == "max" else b.unary("fneg", size)
