"""f32 numbers rounded to tf32: 11 significant bits with the exponents of f32, as matrix units multiply them.

Rounding is to nearest, ties to even, by integer operations on the bits; larger numbers overflow to infinity, and every NaN becomes the same
NaN.
"""

from __future__ import annotations

from raido.algo.graph.dtypes import bool_, f32, u32
from raido.algo.graph.expr import Expr, Op, const

DROPPED = 13
"""Low bits of the fraction of an f32 that tf32 drops."""


def rounded(x: Expr) -> Expr:
    """An f32 value rounded to tf32."""
    bits: Expr = Op("bitcast", u32, (x,))
    odd = Op("bit_and", u32, (Op("shr", u32, (bits, const(u32, DROPPED))), const(u32, 1)))
    moved = Op("add", u32, (Op("add", u32, (bits, const(u32, (1 << DROPPED - 1) - 1))), odd))
    kept = Op("bit_and", u32, (moved, const(u32, (1 << 32) - (1 << DROPPED))))
    nearest = Op("bitcast", f32, (kept,))
    return Op("select", f32, (Op("isnan", bool_, (x,)), const(f32, float("nan")), nearest))


def is_rounded(e: Expr) -> bool:
    """Whether a value is a result of `rounded`."""
    if not isinstance(e, Op) or e.name != "select":
        return False
    test = e.args[0]
    return isinstance(test, Op) and test.name == "isnan" and test.args[0].dtype is f32 and rounded(test.args[0]) is e
