"""Square roots computed without the divider (`raido.targets.emit.divider` chooses them).

A 14-bit estimate, a Goldschmidt iteration, which squares its error, and Markstein's correction: the exact residual x − g² times 1 / 2√x
gives the root rounded to nearest, with the bits of the instruction. P. Markstein, "Software division and square root using Goldschmidt's
algorithms", RNC6, 2004. Where some lane is out of range (a residual that underflows, infinity, a negative number, NaN) the instruction is
used.
"""

from __future__ import annotations

from raido.algo.graph.dtypes import f32, i32
from raido.targets.llvm.text import TextBuilder, Value

LANES = 16
_USUAL = (0x0D800000, 0x7F800000)  # from 2**-100 to infinity


def write_root(b: TextBuilder, x: Value) -> Value:
    """Writes √x for sixteen lanes of f32, rounded to nearest."""
    estimate = b.call("llvm.x86.avx512.rsqrt14.ps.512", f32, LANES, x, f"{x.type} zeroinitializer", "i16 -1")
    exponents = b.convert("bitcast", estimate, i32)
    half = b.convert("bitcast", b.binary("sub", exponents, b.constant(exponents, 1 << 23)), f32)
    root = b.binary("fmul", x, estimate)
    error = b.intrinsic("fma", b.unary("fneg", half), root, b.constant(x, 0.5))
    root, half = b.intrinsic("fma", root, error, root), b.intrinsic("fma", half, error, half)
    rest = b.intrinsic("fma", b.unary("fneg", root), root, x)
    root = b.intrinsic("fma", rest, half, root)
    low, high = _USUAL
    bits = b.convert("bitcast", x, i32)
    offset = b.binary("sub", bits, b.constant(bits, low))
    unusual = b.any(b.compare("uge", offset, b.constant(bits, high - low)))
    before, rare, rooted = b.label, b.fresh_label("rare"), b.fresh_label("rooted")
    b.line(f"br {unusual.typed}, label %{rare}, label %{rooted}")
    b.start_block(rare)
    instruction = b.intrinsic("sqrt", x)
    b.line(f"br label %{rooted}")
    b.start_block(rooted)
    return b.result(f32, LANES, f"phi {x.type} [ {root.text}, %{before} ], [ {instruction.text}, %{rare} ]")
