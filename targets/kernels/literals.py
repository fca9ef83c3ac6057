"""Literals in kernels. TIR has no literal for NaN, infinity and the upper half of u64: these are bitcasts of their bits."""

from __future__ import annotations

import math
from typing import Any

from raido.algo.graph.dtypes import DType, bf16, bool_, i64, signed, unsigned
from raido.algo.graph.expr import Const
from raido.targets import tvm_corner as T
from raido.targets.emit.terms import Term
from raido.targets.kernels.unit import operation


def literal(dtype: DType, bits: int) -> Any:
    """The literal of a type with these bits, as in `Const`; an integer's bits are its value."""
    if dtype is bool_ or dtype is bf16 or (dtype.is_integer and bits < 1 << 63):
        return T.IntImm(T.type_name(dtype), int(bits))
    if dtype.is_integer:
        return operation("bitcast", dtype, T.IntImm("int64", int(bits) - (1 << 64)))
    value = float(Const(dtype, bits).value)
    if math.isfinite(value):
        return T.FloatImm(T.type_name(dtype), value)
    whole = unsigned(dtype.bits)
    if bits >= 1 << 63:
        whole, bits = signed(dtype.bits), bits - (1 << 64)
    return operation("bitcast", dtype, T.IntImm(T.type_name(whole), bits))


def known_term(e: Const) -> Term:
    """A literal as a term: i64 and bool stay Python numbers."""
    return bool(e.bits) if e.dtype is bool_ else int(e.bits) if e.dtype is i64 else literal(e.dtype, e.bits)
