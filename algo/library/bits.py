"""Bits packed into bytes and unpacked: NumPy's `packbits` and `unpackbits`."""

from __future__ import annotations

from typing import Any

from raido.algo.errors import DTypeError, TraceError
from raido.algo.graph.dtypes import bool_, u8
from raido.algo.language.combinators import tabulate
from raido.algo.language.complexes import Complex
from raido.algo.language.joining import concat
from raido.algo.language.moves import astype, flatten, named, normal_axis
from raido.algo.language.ufuncs import left_shift, minimum, not_equal, right_shift, where
from raido.algo.library.moving import moveaxis
from raido.algo.library.operands import numbers_of
from raido.algo.trace.locations import complaint
from raido.algo.trace.value import Array


def packbits(a: Any, axis: int | None = None, bitorder: str = "big", *, name: str | None = None) -> Array:
    """The bits "element is nonzero", eight to a byte (u8) along `axis`, of the flattened array for None; the last byte is padded with 0.

    `bitorder`: the first of eight bits is the highest one ("big") or the lowest one ("little"). DTypeError for floats.

    Example:
        >>> rd.algorithm(lambda a: rd.packbits(a)).interpret(np.array([True, False, True]))
        array([160], dtype=uint8)
    """
    lines, along = _last(a, axis, "rd.packbits", bitorder)
    if lines.dtype.is_float:
        raise DTypeError(complaint(f"rd.packbits of {lines.dtype}", remedy="a comparison, or integers"))
    *others, count = lines.shape
    missing = tabulate((*others, (count + 7) // 8 * 8 - count), lambda *_: bool_(False))
    holds = concat([lines if lines.dtype is bool_ else not_equal(lines, 0), missing], axis=-1)

    def byte(*indices: Any) -> Any:
        *outer, k = indices
        total: Any = u8(0)
        for bit in range(8):
            holds_here = astype(holds[(*outer, 8 * k + bit)], u8)
            total = total | left_shift(holds_here, 7 - bit if bitorder == "big" else bit)
        return total

    return _back(tabulate((*others, (count + 7) // 8), byte), along, name)


def unpackbits(
    a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big", *, name: str | None = None
) -> Array:
    """The bits of bytes (u8) as elements 0 and 1 (u8) along `axis`, of the flattened array for None.

    `count`: the number of bits in the result, padded with 0; negative, the number of bits left out at the end. DTypeError for another
    dtype.

    Example:
        >>> rd.algorithm(lambda a: rd.unpackbits(a, count=3)).interpret(np.array([160], np.uint8))
        array([1, 0, 1], dtype=uint8)
    """
    lines, along = _last(a, axis, "rd.unpackbits", bitorder)
    if lines.dtype is not u8:
        raise DTypeError(complaint(f"rd.unpackbits of {lines.dtype}", remedy=".astype(rd.u8), or .view(rd.u8)"))
    bytes_there = lines.shape[-1]
    given = 8 * bytes_there
    size: Any = given if count is None else given + count if count < 0 else count

    def bit(*indices: Any) -> Any:
        *outer, k = indices
        byte = lines[(*outer, k // 8 if count is None else minimum(k // 8, bytes_there - 1))]
        bit_there = right_shift(byte, astype(7 - k % 8 if bitorder == "big" else k % 8, u8)) & 1
        return bit_there if count is None else where(k < given, bit_there, u8(0))

    return _back(tabulate((*lines.shape[:-1], size), bit), along, name)


def _last(a: Any, axis: int | None, what: str, order: str) -> tuple[Array, int]:
    """The array with `axis` moved to the end (flattened for None), and the position of the axis."""
    given = numbers_of(a, what)
    if isinstance(given, Complex):
        raise DTypeError(complaint(f"{what} of complex numbers"))
    if order not in ("big", "little"):
        raise TraceError(complaint(f"`bitorder` is 'big' or 'little', not {order!r}"))
    if axis is None:
        return flatten(given), 0
    along = normal_axis(axis, given.ndim)
    return moveaxis(given, along, -1), along


def _back(lines: Any, along: int, name: str | None) -> Any:
    result = moveaxis(lines, -1, along)
    return result if name is None else named(result, name)
