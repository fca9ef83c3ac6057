"""Streams rows of different alignment side by side: each row is shifted into cache lines in registers before it is stored.

An iteration keeps the vector that it computed of each row. The next one stores the line between the two: the end of the kept vector and the
beginning of its own, a permutation of two registers by the row's misalignment. Elements before a row's first line and after its last are
stored in the ordinary way, as are rows too short for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from raido.algo.graph.dtypes import i64
from raido.schedule.cost.streams import shifts_into_lines
from raido.schedule.machine import LINE
from raido.schedule.nest.nodes import VectorStore
from raido.targets import tvm_corner as T
from raido.targets.emit.streams import Row, Stream
from raido.targets.emit.terms import tir
from raido.targets.emit.unit import Unit
from raido.targets.llvm.capabilities import Capabilities
from raido.targets.llvm.text import memory_dtype


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a row: a pointer, and the offset in elements of the row's first one."""

    data: Any
    offset: Any


def elements_before_line(unit: Unit, row: Row, start: Start, moved: Any = None) -> Any:
    """The number of elements of a row, from `moved` on, before the next address aligned to its vectors; `row.lanes` where no element lies
    at such an address."""
    symbol = unit.helpers.memory.misalignment(row.buffer.dtype, row.lanes)
    return unit.call(symbol, i64, 1, start.data, start.offset if moved is None else T.Add(start.offset, moved))


def may_be_shifted(stream: Stream, can: Capabilities) -> bool:
    """Whether rows of a stream can be shifted into lines: their vectors are as long as cache lines, and two-register permutations exist."""
    stored = (row.lanes * memory_dtype(row.buffer.dtype).itemsize for row in stream.rows)
    return bool(stream.row_of) and shifts_into_lines(can.vector_bits, stored)


class ShiftedRows:
    """Emits the stores of shifted rows, gang by gang, and of the remainder at each end."""

    def __init__(self, unit: Unit, stream: Stream, starts: Mapping[Row, Start]) -> None:
        self.unit, self.stream, self.starts = unit, stream, starts
        self.short = {
            row: unit.bind_opaque("short", elements_before_line(unit, row, start)) for row, start in starts.items()
        }
        self.kept: dict[Row, Any] = {}
        self.bounds: dict[Row, tuple[Any, Any]] = {}

    def possible(self, streams: Any) -> Any:
        """`streams` if every row has elements at line boundaries, else 0."""
        for row, short in self.short.items():
            streams = self.unit.select(T.GT(tir(row.lanes), short), streams, tir(0))
        return streams

    def begin(self, low: Any, step: int, shifted: Any, first: Any, end: Any) -> None:
        """Allocates the kept vectors. The first iteration, from `low`, stores where rows are shifted the elements of its last gang that lie
        before the first line; elsewhere all but indices `first … end − 1`."""
        unit = self.unit
        for row in self.stream.rows:
            cell = T.flat_buffer(unit.fresh_name("kept"), memory_dtype(row.buffer.dtype), row.lanes, alignment=LINE)
            self.kept[row] = cell
            unit.out.append(T.AllocBuffer(cell))
            begun = T.Add(T.Add(low, self.short[row]), tir(step - row.lanes))
            until = T.Add(low, tir(step))
            bounds = unit.select(shifted, begun, first), unit.select(shifted, until, end)
            self.bounds[row] = tuple(
                unit.bind_opaque(name, e) for name, e in zip(("first", "end"), bounds, strict=True)
            )

    def keep(self, s: VectorStore, value: Any) -> tuple[Any, Any, Any]:
        """Keeps a vector for the next iteration. Returns it, and the range of indices that are not to be stored now."""
        row = self.stream.row_of[s]
        value = self.unit.bind("line", memory_dtype(row.buffer.dtype), row.lanes, value)
        self.unit.out.append(T.BufferStore(self.kept[row], value, [_lanes(row)]))
        return value, *self.bounds[row]

    def store_line(self, s: VectorStore, pointer: Any, offset: Any, value: Any) -> None:
        """Stores the line that the kept vector and this one make up, and keeps this one."""
        unit, row = self.unit, self.stream.row_of[s]
        dtype, memory, short = row.buffer.dtype, unit.helpers.memory, self.short[row]
        before = self._kept(row)
        value = unit.bind("line", memory_dtype(dtype), row.lanes, value)
        line = unit.call(memory.shifted(dtype, row.lanes), memory_dtype(dtype), row.lanes, before, value, short)
        line_offset = T.Sub(T.Add(offset, short), tir(row.lanes))
        unit.effect(memory.stream(dtype, row.lanes), pointer, line_offset, line)
        unit.out.append(T.BufferStore(self.kept[row], value, [_lanes(row)]))

    def store_rest(self, length: Any) -> None:
        """Stores the elements after the last lines of rows of `length` elements."""
        unit, zero = self.unit, tir(0)
        for row, start in self.starts.items():
            helper = unit.helpers.memory.store_outside(row.buffer.dtype, row.lanes)
            last = T.Sub(T.Add(start.offset, length), tir(row.lanes))
            unit.effect(helper, start.data, last, self._kept(row), zero, zero, self.short[row])

    def _kept(self, row: Row) -> Any:
        return T.BufferLoad(self.kept[row], [_lanes(row)])


def _lanes(row: Row) -> Any:
    return T.Ramp(tir(0), tir(1), row.lanes)
