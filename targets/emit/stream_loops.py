"""Loops whose results are streamed: three loops behind one test.

The test: every streamed row is equally far from an aligned address, rows are long enough (or lines of the cache from end to end),
the array is as large as was asked for, and no two rows lie at the same place of a page. Where it fails, the first loop is the loop
as it was. Where it holds, the second runs the first gang and the last, if rows do not begin at an aligned address, and the third those
between, from the first aligned address, with non-temporal stores. The two never write one line: lanes of the second loop that the
third writes are off (a line that is cached when it is streamed costs a flush, and that, in rows of 2 KiB, doubled the time of a copy).
A loop whose iterations carry values on is streamed whole, from an aligned start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Expr
from raido.schedule.machine import LINE
from raido.schedule.nest.nodes import For, VectorStore
from raido.schedule.nest.values import Buffer, lanes_of
from raido.targets import tvm_corner as T
from raido.targets.emit.streams import Row, Stream, beyond_lines
from raido.targets.emit.terms import tir
from raido.targets.emit.unit import data_of
from raido.targets.llvm.text import memory_dtype

if TYPE_CHECKING:
    from raido.targets.emit.statements import Statements

_SHORTEST = 4096  # bytes of a row: below, its ends cost more than streaming saves


class StreamLoops:
    """Emits the loops of one `Stream`, and its stores while they are emitted."""

    def __init__(self, statements: Statements, stream: Stream) -> None:
        self.statements = statements
        self.unit = statements.unit
        self.stream = stream
        self.mode: Literal["whole", "ends", "between"] = "whole"
        self.var: Any = None
        self.first: Any = None  # the elements first … end − 1 belong to the third loop
        self.end: Any = None

    def emit(self, s: For, low: Any, count: Any) -> None:
        """Appends the loops."""
        unit, zero, one, step = self.unit, _index(0), _index(1), _index(s.step)
        count, low = unit.bind("gangs", i64, 1, count), unit.bind("low", i64, 1, low)
        bytes_ = max(memory_dtype(row.buffer.dtype).itemsize for row in self.stream.rows)
        long = T.GT(T.Mul(count, _index(s.step * bytes_)), _index(_SHORTEST - 1))
        fills = self._fills_rows(s)
        if fills is not None:
            fills = unit.bind("fills", i64, 1, fills)
        short, streams = self._alignment(unit.select(long, one, zero if fills is None else fills))
        on_lines = unit.select(T.GT(short, zero), zero, streams)
        if self.stream.once:
            streams = on_lines
        elif fills is not None:
            streams = unit.select(long, streams, on_lines)
        chosen = T.GT(unit.bind("streams", i64, 1, streams), zero)
        if self.stream.once:
            self._loop(s, "whole", low, step, unit.select(chosen, zero, count))
            self._loop(s, "between", low, step, unit.select(chosen, count, zero))
            return
        between = unit.select(T.GT(short, zero), T.Sub(count, one), count)
        between = unit.bind("between", i64, 1, unit.select(chosen, between, zero))
        self.var, self.first = s.var, unit.bind("first", i64, 1, T.Add(low, short))
        self.end = unit.bind("end", i64, 1, T.Add(self.first, T.Mul(between, step)))
        span = T.Mul(T.Sub(count, one), step)
        self._loop(s, "whole", low, step, unit.select(chosen, zero, count))
        ends = unit.select(T.GT(short, zero), _index(2), zero)
        self._loop(s, "ends", low, span, unit.select(chosen, ends, zero))
        self._loop(s, "between", self.first, step, between)

    def _fills_rows(self, s: For) -> Any:
        """1 where rows are lines of the cache and the loop leaves out only their borders: they may be short then, if they begin a line.

        None where that is known not to be, and where a vector is a part of a line: lines that wait for their parts cost more than they save.
        """
        if any(row.lanes * memory_dtype(row.buffer.dtype).itemsize != LINE for row in self.stream.rows):
            return None
        iterations = ix.sub(ix.as_index(s.high), ix.as_index(s.low))
        conditions: set[Expr] = set()
        for buffer in {row.buffer for row in self.stream.rows}:
            if (rest := beyond_lines(buffer)) is None:
                return None
            conditions |= {ix.mul(rest, -1), ix.sub(ix.mul(iterations, 2), buffer.shape[-1])}
        fills: Any = _index(1)
        for condition in sorted(conditions, key=ix.text):
            if (value := ix.constant_value(condition)) is None:
                holds = T.GE(tir(self.statements.values.scalar(condition)), _index(0))
                fills = self.unit.select(holds, fills, _index(0))
            elif value < 0:
                return None
        return fills

    def _loop(self, s: For, mode: Literal["whole", "ends", "between"], low: Any, step: Any, iterations: Any) -> None:
        self.mode = mode
        counter = T.Var(self.unit.fresh_name(s.var.name + "_round"), "int64")
        body = self.statements.iteration(s, T.Add(low, T.Mul(counter, step)), copied=mode != "ends")
        self.unit.out.append(T.For(counter, _index(0), iterations, T.ForKind.SERIAL, body))

    def changes(self, s: VectorStore) -> bool:
        """Whether a store is made in another way in the loop that is being emitted."""
        return self.mode != "whole" and s in self.stream.stores

    def store(self, s: VectorStore, pointer: Any, offset: Any, value: Any) -> None:
        """Such a store."""
        unit, helpers, lanes = self.unit, self.unit.helpers, lanes_of(s.value)
        if self.mode == "between":
            unit.effect(helpers.memory.stream(s.buffer.dtype, lanes), pointer, offset, value)
            return
        place = T.Add(tir(unit.variables[self.var]), _index(self.stream.stores[s]))
        unit.effect(
            helpers.memory.store_outside(s.buffer.dtype, lanes), pointer, offset, value, place, self.first, self.end
        )

    def _alignment(self, streams: Any) -> tuple[Any, Any]:
        """Elements from the start of the rows to an aligned address, and `streams` if rows may be streamed, else 0."""
        unit, zero = self.unit, _index(0)
        rows = self.stream.rows
        for buffer, above in {row.buffer: row.above for row in rows if row.above}.items():
            size = tir(self.statements.size_in_bytes(buffer))
            streams = unit.select(T.GT(size, _index(above)), streams, zero)
        short: Any = None
        starts: dict[Buffer, list[Any]] = {}
        for row in rows:
            away, offset = self._away(row, short)
            if short is None:
                short = unit.bind("short", i64, 1, away)
                streams = unit.select(T.GT(_index(row.lanes), short), streams, zero)
            else:
                streams = unit.select(T.GT(away, zero), zero, streams)
            for other in starts.get(row.buffer, []):
                apart = unit.call(unit.helpers.memory.apart(row.buffer.dtype), i64, 1, offset, other)
                streams = unit.select(T.GT(apart, zero), streams, zero)
            starts.setdefault(row.buffer, []).append(offset)
        return short, streams

    def _away(self, row: Row, moved: Any) -> tuple[Any, Any]:
        """How many elements an aligned address is away from a row's start (moved), and where that start is."""
        values, unit = self.statements.values, self.unit
        values.prepare(*row.indices)
        where, offset = values.element(row.buffer, row.indices)
        symbol = unit.helpers.memory.misalignment(row.buffer.dtype, row.lanes)
        place = tir(offset) if moved is None else T.Add(tir(offset), moved)
        return unit.call(symbol, i64, 1, data_of(where), place), tir(offset)


def _index(value: int) -> Any:
    return T.IntImm("int64", value)
