"""Float sums, products and quotients with a literal 0, and x - x, by instructions that lavapipe computes correctly.

Mesa's llvmpipe takes x + 0 for x, x · 0, 0 / x and x - x for 0, and x / 0 for anything, wherever it sees such an operand
(src/gallium/auxiliary/gallivm/lp_bld_arit.c), though their results depend on signs, infinities and NaN. It sees more of them than the code
has: where a loop is unrolled, say. So divisors are hidden from it (`Body.hidden`), and so are the most frequent zeros: floats converted
from integers, literals between which a condition chooses, and initial values of folds.
"""

from __future__ import annotations

from raido.algo.graph.dtypes import DType, unsigned
from raido.targets.vulkan.spirv.body import Body
from raido.targets.vulkan.spirv.grammar import Glsl, Op


def arithmetic_of_zero(b: Body, name: str, dtype: DType, x: int, y: int) -> int | None:
    """The result where an operand is a literal 0, or for a difference x - x; else None."""
    if name == "div" and y not in b.module.known and _sign_of_zero(b, dtype, x) is None:
        return b.compute(Op.FDiv, dtype, x, b.hidden(dtype, y))
    signs = _sign_of_zero(b, dtype, x), _sign_of_zero(b, dtype, y)
    if name == "sub":
        if x == y:
            return b.select(_is_finite(b, dtype, x), dtype, b.module.constant(dtype, 0.0), _nan(b, dtype))
        if signs[1] is not None:
            return _plus_zero(b, dtype, x, not signs[1])
        return None if signs[0] is None else _plus_zero(b, dtype, b.compute(Op.FNegate, dtype, y), signs[0])
    if signs == (None, None):
        return None
    other, sign = (x, signs[1]) if signs[1] is not None else (y, bool(signs[0]))
    if name == "add":
        return _plus_zero(b, dtype, other, bool(sign))
    if name == "mul":
        return b.select(_is_finite(b, dtype, other), dtype, _zero_signed(b, dtype, other, bool(sign)), _nan(b, dtype))
    if signs[1] is not None:
        return b.compute(Op.FMul, dtype, x, b.module.constant(dtype, float("-inf" if sign else "inf")))
    some = b.test(Op.FOrdLessThan, b.module.constant(dtype, 0.0), b.glsl(Glsl.FAbs, dtype, other))  # neither 0 nor NaN
    return b.select(some, dtype, _zero_signed(b, dtype, other, bool(sign)), _nan(b, dtype))


def _sign_of_zero(b: Body, dtype: DType, x: int) -> bool | None:
    """Whether a literal 0 is negative; None for any other value."""
    return {0: False, 1 << (dtype.bits - 1): True}.get(b.module.known.get(x, 1))


def _plus_zero(b: Body, dtype: DType, x: int, negative: bool) -> int:
    """x + 0 or x + (-0): differs from x only for -0 + 0."""
    if negative:
        return x
    zero = b.module.constant(dtype, 0.0)
    return b.select(b.test(Op.FOrdEqual, x, zero), dtype, zero, x)


def _is_finite(b: Body, dtype: DType, x: int) -> int:
    return b.test(Op.FOrdLessThan, b.glsl(Glsl.FAbs, dtype, x), b.module.constant(dtype, float("inf")))


def _zero_signed(b: Body, dtype: DType, x: int, negative: bool) -> int:
    """0 with the sign of x, or with the opposite sign."""
    bits = unsigned(dtype.bits)
    top = b.module.constant(bits, 1 << (dtype.bits - 1))
    sign = b.compute(Op.BitwiseAnd, bits, b.compute(Op.Bitcast, bits, x), top)
    return b.compute(Op.Bitcast, dtype, b.compute(Op.BitwiseXor, bits, sign, top) if negative else sign)


def _nan(b: Body, dtype: DType) -> int:
    return b.module.constant(dtype, float("nan"))
