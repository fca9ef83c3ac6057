"""`minimum` and `maximum` of floats in few LLVM instructions, with IEEE 754-2019's meaning for NaN and signed zeros."""

from __future__ import annotations

import math

from raido.algo.graph.dtypes import i32, signed
from raido.targets.llvm.text import TextBuilder, Value


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


def _bits(b: TextBuilder, x: Value) -> Value:
    return b.convert("bitcast", x, signed(x.dtype.bits))


def _nearer(b: TextBuilder, x: Value, y: Value, which: str) -> Value:
    """The machine's min or max instruction: `y` where the operands are equal or one is a NaN."""
    return b.select(b.compare("olt" if which == "min" else "ogt", x, y), x, y)


def _extreme_with_literal(b: TextBuilder, known: Value, x: Value, which: str) -> Value:
    """The extreme of a literal other than NaN and `x`: the zero's sign needs care only for one of the two zeros."""
    nearer = _nearer(b, known, x, which)
    if known.literal != 0 or (math.copysign(1, known.literal) < 0) is (which == "max"):
        return nearer
    size = b.intrinsic("fabs", nearer)
    return size if which == "max" else b.unary("fneg", size)
