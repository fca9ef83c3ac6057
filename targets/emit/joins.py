"""Integers made of narrower ones side by side, `u16(low) | u16(high) << 8`, in lanes.

Where the parts of neighbouring lanes are neighbours in memory, the vector of integers is the memory as it lies there: one read, as wide, and
the operations on parts, if any, in as many narrow lanes. Other vectors of parts are interleaved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raido.algo.graph.dtypes import DType
from raido.algo.graph.expr import Const, Op
from raido.schedule.nest.values import Splat, VectorRead, lanes_of
from raido.targets import tvm_corner as T
from raido.targets.emit.order import distance
from raido.targets.emit.terms import tir
from raido.targets.emit.unit import data_of
from raido.targets.llvm.text import memory_dtype

if TYPE_CHECKING:
    from raido.targets.emit.values import Values


@dataclass(frozen=True, slots=True)
class Row:
    """Parts of neighbouring lanes, in lanes of their own.

    first: the first part; args: its operands likewise; backwards: whether the first part in memory is the highest.
    """

    first: Any
    args: tuple[Row, ...]
    backwards: bool = False

    def leaves(self) -> Iterator[Any]:
        """The expressions that are evaluated as they are."""
        if isinstance(self.first, VectorRead):
            yield from self.first.indices if self.first.mask is None else (*self.first.indices, self.first.mask)
        elif isinstance(self.first, Splat):
            yield self.first.value
        for arg in self.args:
            yield from arg.leaves()


def parts_of(e: Any) -> list[Any] | None:
    """The parts of an integer made of two, four or eight, lowest first; None for other expressions."""
    if not isinstance(e, Op) or e.name != "bit_or" or lanes_of(e) == 1:
        return None
    parts = _in_order(e, _parts(e, bits=False))
    return parts if parts and parts[0].dtype.kind == "u" and len(parts).bit_count() == 1 else None


def _number(e: Any) -> int | None:
    e = e.value if isinstance(e, Splat) else e
    return int(e.bits) if isinstance(e, Const) else None


def row_of(e: Any) -> Row | None:
    """The parts of an integer as one row; None where they are not neighbours in memory. Bits and bytes may be those of a row from its end."""
    if isinstance(e, Op) and e.name == "cast" and e.dtype.bits == e.args[0].dtype.bits and e.dtype.is_integer:
        e = e.args[0]
    if not isinstance(e, Op) or e.name != "bit_or" or lanes_of(e) == 1:
        return None
    parts = _in_order(e, _parts(e, bits=False)) or _in_order(e, _parts(e, bits=True))
    row = None if parts is None else _row(parts)
    if row is None and parts is not None and parts[0].dtype.bits in (1, 8) and (row := _row(parts[::-1])) is not None:
        row = Row(row.first, row.args, backwards=True)
    return row


def _in_order(e: Any, found: dict[int, Any] | None) -> list[Any] | None:
    """The parts, lowest first, if they are of one width and leave nothing out."""
    parts = [found[shift] for shift in sorted(found)] if found and len(found) > 1 else []
    width = e.dtype.bits // len(parts) if parts else 0
    even = all(part.dtype.bits == width for part in parts) and sorted(found or ()) == list(
        range(0, e.dtype.bits, width or 1)
    )
    return parts if parts and even else None


def _parts(e: Any, bits: bool) -> dict[int, Any] | None:
    """The parts whose disjunction an integer is, by the places of their lowest bits; None where parts meet or are cut off.

    bits: whether a boolean is one bit, or the byte that it is cast to.
    """
    if _number(e) == 0:
        return {}
    if not isinstance(e, Op) or e.dtype.kind != "u":
        return {0: e}
    if e.name == "bit_or":
        parts = [_parts(a, bits) for a in e.args]
        if parts[0] is None or parts[1] is None or parts[0].keys() & parts[1].keys():
            return None
        return parts[0] | parts[1]
    if e.name == "cast" and e.args[0].dtype.kind in ("ub" if bits else "u") and e.args[0].dtype.bits < e.dtype.bits:
        return _parts(e.args[0], bits)
    distance_up = _number(e.args[1]) if e.name == "shl" else None
    inside = None if distance_up is None else _parts(e.args[0], bits)
    if distance_up is None or inside is None:
        return {0: e} if distance_up is None else None
    moved = {s + distance_up: part for s, part in inside.items()}
    return moved if all(s + part.dtype.bits <= e.dtype.bits for s, part in moved.items()) else None


def _row(parts: Sequence[Any]) -> Row | None:
    first, count = parts[0], len(parts)
    if isinstance(first, Splat):
        return Row(first, ()) if all(part is first for part in parts) else None
    if isinstance(first, VectorRead):
        alike = all(isinstance(p, VectorRead) and p.buffer is first.buffer and p.mask is first.mask for p in parts)
        if not alike or first.stride != count or (first.mask is not None and count * first.dtype.itemsize > 8):
            return None
        return Row(first, ()) if all(distance(p, first) == k for k, p in enumerate(parts)) else None
    if not all(isinstance(p, Op) and (p.name, p.dtype) == (first.name, first.dtype) for p in parts):
        return None
    args = [_row(column) for column in zip(*(p.args for p in parts), strict=True)]
    return None if None in args else Row(first, tuple(args))  # type: ignore[arg-type]


def emit_row(values: Values, row: Row, dtype: DType, lanes: int) -> Any:
    """The vector of integers made of a row's parts."""
    count = dtype.bits // row.first.dtype.bits
    symbol = values.unit.helpers.values.reinterpret(row.first.dtype, lanes * count, dtype)
    return values.unit.call(symbol, dtype, lanes, _emit_parts(values, row, lanes, count, row.backwards))


def _emit_parts(values: Values, row: Row, lanes: int, count: int, backwards: bool) -> Any:
    e: Any = row.first
    if isinstance(e, Splat):
        return T.Broadcast(values.tir(e.value), lanes * count)
    if isinstance(e, VectorRead):
        where, offset = values.element(e.buffer, e.indices)
        mask = [] if e.mask is None else [values.tir(e.mask)]
        symbol = values.unit.helpers.memory.load_groups(e.dtype, lanes, count, bool(mask), backwards)
        loaded = values.unit.call(symbol, memory_dtype(e.dtype), lanes * count, data_of(where), tir(offset), *mask)
        return values.from_memory(e.dtype, lanes * count, loaded)
    args = [_emit_parts(values, arg, lanes, count, backwards) for arg in row.args]
    shapes = [(arg.first.dtype, lanes * count) for arg in row.args]
    return values.unit.call(
        values.unit.helpers.values.operation(e.name, e.dtype, shapes), e.dtype, lanes * count, *args
    )
