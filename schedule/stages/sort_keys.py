"""Keys of a sort: unsigned integers whose order is that of the values.

The sign bit of integers is flipped; floats are ordered by their bits, with -0.0 as 0.0 and every NaN last. Keys are never stored: they are
computed from the values where they are compared, in a few operations, so that a sort moves nothing but its values. (The order of floats'
bits: Knuth, The Art of Computer Programming 2, 4.2.1.)
"""

from __future__ import annotations

from collections.abc import Sequence

from raido.algo.graph.dtypes import DType, bool_, u8, u16, u32, u64
from raido.algo.graph.expr import Op, const
from raido.schedule.nest.values import NestExpr

_UNSIGNED = {8: u8, 16: u16, 32: u32, 64: u64}


def unsigned(dtype: DType) -> DType:
    """Returns the unsigned integer type of the keys of a type."""
    return u8 if dtype is bool_ else _UNSIGNED[dtype.bits]


def sortable(value: NestExpr) -> NestExpr:
    """Returns the key of a value: an unsigned integer, ordered as the values are."""
    dtype, key = value.dtype, unsigned(value.dtype)
    if dtype is bool_:
        return Op("cast", u8, (value,))
    sign = const(key, 1 << (dtype.bits - 1))
    if dtype.kind == "u":
        return value
    if dtype.kind == "i":
        return Op("bit_xor", key, (Op("bitcast", key, (value,)), sign))
    plain = Op("select", dtype, (Op("eq", bool_, (value, const(dtype, 0.0))), const(dtype, 0.0), value))
    bits = Op("bitcast", key, (plain,))
    negative = Op("ne", bool_, (Op("bit_and", key, (bits, sign)), const(key, 0)))
    ordered = Op("select", key, (negative, Op("bit_not", key, (bits,)), Op("bit_or", key, (bits, sign))))
    return Op("select", key, (Op("ne", bool_, (value, value)), const(key, (1 << dtype.bits) - 1), ordered))


def value_of(key: NestExpr, dtype: DType) -> NestExpr:
    """Returns the integer, or boolean, whose key this is."""
    if dtype is bool_:
        return Op("ne", bool_, (key, const(key.dtype, 0)))
    if dtype.kind == "u":
        return key
    sign = const(key.dtype, 1 << (dtype.bits - 1))
    return Op("bitcast", dtype, (Op("bit_xor", key.dtype, (key, sign)),))


def comes_before(left: Sequence[NestExpr], right: Sequence[NestExpr]) -> NestExpr:
    """Returns the condition that a sequence of keys is lexicographically less than another."""
    before = Op("lt", bool_, (left[-1], right[-1]))
    for a, b in zip(reversed(left[:-1]), reversed(right[:-1]), strict=True):
        equal = Op("logical_and", bool_, (Op("eq", bool_, (a, b)), before))
        before = Op("logical_or", bool_, (Op("lt", bool_, (a, b)), equal))
    return before


def precedes(left: NestExpr, right: NestExpr) -> NestExpr:
    """Returns the condition that a value comes before another, in the order of the keys, without computing keys."""
    less = Op("lt", bool_, (left, right))
    if left.dtype is bool_:
        return Op("logical_and", bool_, (Op("logical_not", bool_, (left,)), right))
    if not left.dtype.is_float:
        return less
    numbers = Op("eq", bool_, (left, left)), Op("ne", bool_, (right, right))
    return Op("logical_or", bool_, (less, Op("logical_and", bool_, numbers)))
