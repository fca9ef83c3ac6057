"""The native operations: about thirty that a back end implements for its hardware. Every other primitive is a recipe of these.

A native operation has the meaning of a primitive (`raido.algo.graph.primitives`) at the element types of its row. Where the primitive is
also defined for operands outside the range of hardware, the native operation has another name, and recipes keep it within its range:

    quotient(x, y)       integer division towards zero; y is not 0, and not -1 where x is signed
    shift_left(x, k)     x 2**k, wrapped; 0 <= k < the width of x
    shift_right(x, k)    x 2**-k, rounded down; k likewise
    convert(x)           integers wrapped or rounded to floats; floats rounded, or truncated to integers whose range they are in

f16 numbers are selected, converted from and to f32, and bitcast; bf16 numbers are selected and bitcast, so that a
back end may keep them as u16. `fma` alone has a recipe, too, for devices that round twice in it. Names are identifiers of C, CUDA C and
SPIR-V. Neither the order of float operations nor their rounding may change, nor may a product and a sum become one operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raido.algo.graph.dtypes import DTYPES, DType, bool_, f16, f32, f64, u32

_FLOATS = (f32, f64)
_INTEGERS = tuple(dtype for dtype in DTYPES if dtype.is_integer)
_NUMBERS = (*_INTEGERS, *_FLOATS)


@dataclass(frozen=True, slots=True)
class Native:
    """A row of the table: the name, the primitive that gives its meaning, and the types of its operands (for `select`, of the last two)."""

    name: str
    primitive: str
    dtypes: tuple[DType, ...]


def _rows(dtypes: tuple[DType, ...], names: str) -> list[Native]:
    return [Native(name, name, dtypes) for name in names.split()]


NATIVE: dict[str, Native] = {
    row.name: row
    for row in (
        *_rows(_NUMBERS, "add sub mul lt le gt ge eq ne"),
        *_rows(_FLOATS, "neg abs div fma sqrt floor ceil trunc rint"),
        *_rows(_INTEGERS, "minimum maximum"),
        *_rows(_INTEGERS, "bit_and bit_or bit_xor"),
        *_rows((bool_,), "logical_and logical_or logical_xor logical_not"),
        *_rows((u32,), "popcount clz"),
        *_rows(DTYPES, "select"),
        *_rows(DTYPES[1:], "bitcast"),
        Native("quotient", "truncdiv", _INTEGERS),
        Native("shift_left", "shl", _INTEGERS),
        Native("shift_right", "shr", _INTEGERS),
        Native("convert", "cast", (*_NUMBERS, f16)),
    )
}


def is_native(name: str, dtype: DType, operands: Sequence[DType]) -> bool:
    """Whether operation `name`, from operands of these types to `dtype`, is native.

    Example:
        >>> from raido.algo.graph.dtypes import bf16, f32, i32
        >>> is_native("add", f32, [f32, f32]), is_native("add", bf16, [bf16, bf16]), is_native("floordiv", i32, [i32, i32])
        (True, False, False)
    """
    row = NATIVE.get(name)
    if row is None or operands[-1] not in row.dtypes:
        return False
    if name in ("popcount", "clz"):
        return dtype is u32
    if name == "convert" and f16 in (dtype, operands[0]):
        return f32 in (dtype, operands[0])
    return name != "convert" or dtype in _NUMBERS
