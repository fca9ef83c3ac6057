"""Emits loops whose results are streamed past the caches, as three or four loops behind one test.

The test: every streamed row is equally far from an aligned address, rows are long enough (or whole cache lines from end to end), the array
is larger than the threshold, and no two rows have the same offset in their pages. Where it fails, the first loop is the original. Where it
holds, the second loop runs the first gang and the last, if rows do not begin at an aligned address, and the third those between, from the
first aligned address, with non-temporal stores. The two never write one line: the second masks off lanes that the third writes (a line that
is cached when it is streamed costs a flush, and that, in rows of 2 KiB, doubled the time of a copy). A loop with loop-carried values is
streamed whole, from an aligned start.

Where rows differ in alignment, and two-register permutations exist, the second loop runs the first iteration, a fourth all others, shifting
each row into its lines (`shifted_rows`), and the remainder of each row is stored after them. Where it is known statically whether the
alignments differ, the third or the fourth loop is left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Expr
from raido.schedule.machine import LINE
from raido.schedule.nest.nodes import For, VectorStore
from raido.schedule.nest.values import lanes_of
from raido.targets import tvm_corner as T
from raido.targets.emit.line_loops import emit_rounds, rounds_on_lines, start_of
from raido.targets.emit.shifted_rows import ShiftedRows, Start, elements_before_line, may_be_shifted
from raido.targets.emit.streams import Row, Stream, beyond_lines, find_row_off_lines
from raido.targets.emit.terms import tir
from raido.targets.llvm.text import memory_dtype

if TYPE_CHECKING:
    from raido.targets.emit.statements import Statements

Mode = Literal["whole", "ends", "between", "shifted"]
_SHORTEST = 4096  # bytes of a row: below, its ends cost more than streaming saves


class StreamLoops:
    """Emits the loops of one `Stream`, and the stores inside them."""

    def __init__(self, statements: Statements, stream: Stream) -> None:
        self.statements = statements
        self.unit = statements.unit
        self.stream = stream
        self.mode: Mode = "whole"
        self.var: Any = None
        self.first: Any = None  # the elements first … end − 1 belong to the third loop
        self.end: Any = None
        self.shifted: ShiftedRows | None = None

    def emit(self, s: For, low: Any, count: Any) -> None:
        """Emits the loops."""
        unit, zero, one, step = self.unit, tir(0), tir(1), tir(s.step)
        self.var, once = s.var, self.stream.once
        count, low = unit.bind("gangs", i64, 1, count), unit.bind("low", i64, 1, low)
        shifts = not once and may_be_shifted(self.stream, unit.helpers.can) and not self._agree()
        between = not shifts or not self._differ()
        short, together, shifted = self._tests(s, count, shifts, between)
        chosen = T.GT(unit.select(together, one, shifted), zero) if shifts else together
        plain = unit.bind("plain", i64, 1, unit.select(chosen, zero, count))
        row = None if once else find_row_off_lines(s)
        if row is None:
            self._loop(s, "whole", low, step, plain)
        else:
            rounds, position = rounds_on_lines(self.statements, row, low, s.step, plain)
            self._rounds(s, "whole", position, rounds)
        if once:
            self._loop(s, "between", low, step, unit.select(chosen, count, zero))
            return
        short_of_one = unit.select(T.GT(short, zero), T.Sub(count, one), count)
        gangs = unit.bind_opaque("between", unit.select(together, short_of_one, zero))
        self.first = unit.bind_opaque("first", T.Add(low, short))
        self.end = unit.bind_opaque("end", T.Add(self.first, T.Mul(gangs, step)))
        ends = unit.select(T.GT(short, zero), tir(2), zero)
        if self.shifted is not None:
            self.shifted.begin(low, s.step, T.GT(shifted, zero), self.first, self.end)
        self._loop(s, "ends", low, T.Mul(T.Sub(count, one), step), unit.select(together, ends, shifted))
        if between:
            self._loop(s, "between", self.first, step, gangs)
        if self.shifted is not None:
            outer = unit.block()
            self._loop(s, "shifted", T.Add(low, step), step, T.Sub(count, one))
            self.shifted.store_rest(T.Mul(count, step))
            others = unit.end_block(outer)
            unit.out.append(T.IfThenElse(T.GT(shifted, zero), others, None))

    def _tests(self, s: For, count: Any, shifts: bool, between: bool) -> tuple[Any, Any, Any]:
        """Three values: elements from the start of the rows to an aligned address; whether all rows are streamed from there; and 1 where
        each row is shifted into its lines, else 0. `shifts`, `between`: whether rows may be shifted, and may be streamed without shifting.
        """
        unit, zero, one = self.unit, tir(0), tir(1)
        bytes_ = max(memory_dtype(row.buffer.dtype).itemsize for row in self.stream.rows)
        long = T.GT(T.Mul(count, tir(s.step * bytes_)), tir(_SHORTEST - 1))
        fills = self._fills_rows(s)
        if fills is not None:
            fills = unit.bind_opaque("fills", fills)
        starts = self._starts()
        enough = self._if_apart(self._if_large(unit.select(long, one, zero if fills is None else fills)), starts)
        short, together = self._alignment(enough, starts) if between else (zero, zero)
        on_lines = unit.select(T.GT(short, zero), zero, together)
        if self.stream.once:
            together = on_lines
        elif fills is not None:
            together = unit.select(long, together, on_lines)
        together = T.GT(unit.bind_opaque("streams", together), zero)
        if not shifts:
            return short, together, zero
        self.shifted = ShiftedRows(unit, self.stream, starts)
        shifted = unit.select(together, zero, self.shifted.possible(unit.select(long, enough, zero)))
        return short, together, unit.bind_opaque("shifted", shifted)

    def _agree(self) -> bool:
        """Whether all rows are known to have the same alignment."""
        return len(self.stream.rows) == 1 or self._beyond_lines() == 0

    def _differ(self) -> bool:
        """Whether neighbouring rows are known to differ in alignment."""
        return len(self.stream.rows) > 1 and bool(self._beyond_lines())

    def _beyond_lines(self) -> int | None:
        """Elements of a row beyond a whole number of cache lines; None where unknown, or where rows are of several arrays."""
        rests = [beyond_lines(buffer) for buffer in {row.buffer for row in self.stream.rows}]
        return ix.constant_value(rests[0]) if len(rests) == 1 and rests[0] is not None else None

    def _fills_rows(self, s: For) -> Any:
        """1 at run time where rows are whole cache lines and the loop covers at least half of each, so that even short rows are streamed if
        aligned. None where that is known to fail, and where a vector is shorter than a line: partial lines in write-combining buffers cost
        more than streaming saves."""
        if any(row.lanes * memory_dtype(row.buffer.dtype).itemsize != LINE for row in self.stream.rows):
            return None
        iterations = ix.sub(ix.as_index(s.high), ix.as_index(s.low))
        conditions: set[Expr] = set()
        for buffer in {row.buffer for row in self.stream.rows}:
            if (rest := beyond_lines(buffer)) is None:
                return None
            conditions |= {ix.mul(rest, -1), ix.sub(ix.mul(iterations, 2), buffer.shape[-1])}
        fills: Any = tir(1)
        for condition in sorted(conditions, key=ix.text):
            if (value := ix.constant_value(condition)) is None:
                holds = T.GE(tir(self.statements.values.scalar(condition)), tir(0))
                fills = self.unit.select(holds, fills, tir(0))
            elif value < 0:
                return None
        return fills

    def _loop(self, s: For, mode: Mode, low: Any, step: Any, iterations: Any) -> None:
        self._rounds(s, mode, lambda counter: T.Add(low, T.Mul(counter, step)), iterations)

    def _rounds(self, s: For, mode: Mode, position: Callable[[Any], Any], iterations: Any) -> None:
        self.mode = mode
        emit_rounds(self.statements, s, position, iterations, copied=mode in ("whole", "between"))

    def changes(self, s: VectorStore) -> bool:
        """Whether a store is emitted differently in the current loop than in the original."""
        return self.mode != "whole" and s in self.stream.stores

    def store(self, s: VectorStore, pointer: Any, offset: Any, value: Any) -> None:
        """Emits a streamed store, as the current loop's mode demands."""
        unit, memory, lanes = self.unit, self.unit.helpers.memory, lanes_of(s.value)
        if self.mode == "between":
            unit.effect(memory.stream(s.buffer.dtype, lanes), pointer, offset, value)
        elif self.mode == "shifted" and self.shifted is not None:
            self.shifted.store_line(s, pointer, offset, value)
        else:
            first, end = self.first, self.end
            if self.shifted is not None:
                value, first, end = self.shifted.keep(s, value)
            element = T.Add(tir(unit.variables[self.var]), tir(self.stream.stores[s]))
            unit.effect(memory.store_outside(s.buffer.dtype, lanes), pointer, offset, value, element, first, end)

    def _starts(self) -> dict[Row, Start]:
        """The start of each row."""
        return {row: start_of(self.statements, row) for row in self.stream.rows}

    def _if_large(self, streams: Any) -> Any:
        """`streams` if the arrays have more bytes than their thresholds, else 0."""
        for buffer, above in {row.buffer: row.above for row in self.stream.rows if row.above}.items():
            size = tir(self.statements.size_in_bytes(buffer))
            streams = self.unit.select(T.GT(size, tir(above)), streams, tir(0))
        return streams

    def _if_apart(self, streams: Any, starts: Mapping[Row, Start]) -> Any:
        """`streams` if no two rows of a buffer are too close modulo the page size, else 0; tested on processors where that matters."""
        unit, rows = self.unit, self.stream.rows if self.unit.helpers.can.streams_apart else ()
        for row, other in itertools.combinations(rows, 2):
            if row.buffer is other.buffer:
                offsets = starts[other].offset, starts[row].offset
                apart = unit.call(unit.helpers.memory.apart(row.buffer.dtype), i64, 1, *offsets)
                streams = unit.select(T.GT(apart, tir(0)), streams, tir(0))
        return unit.bind_opaque("apart", streams)

    def _alignment(self, streams: Any, starts: Mapping[Row, Start]) -> tuple[Any, Any]:
        """Elements from the start of the first row to an aligned address, and `streams` if all rows agree in that, else 0."""
        unit, zero = self.unit, tir(0)
        row, *others = self.stream.rows
        short = unit.bind_opaque("short", elements_before_line(unit, row, starts[row]))
        streams = unit.select(T.GT(tir(row.lanes), short), streams, zero)
        for other in others:
            away = elements_before_line(unit, other, starts[other], short)
            streams = unit.select(T.GT(away, zero), zero, streams)
        return short, unit.bind_opaque("together", streams)
