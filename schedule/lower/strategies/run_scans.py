"""Scans whose results are runs of one number (`stages/runs.py`), computed run by run.

    before   for x in 0..n: out[x] = running += marks[x]

    after    for xo in blocks: for k in first..last + 1: for x in begin..end: out[x] = k

A block finds its first and its last run by bisection among the ends, and needs no other block's results. Stages that share the innermost
loop have the number of the run in all of its lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Expr, Item, Op, Reduce, Var, fresh
from raido.schedule.lower.builder import Builder, as_planned
from raido.schedule.lower.loop_cursor import LoopCursor, Phase, cloned
from raido.schedule.lower.strategies.bisection import first_where
from raido.schedule.lower.strategies.blocks import Blocks
from raido.schedule.nest.nodes import Store
from raido.schedule.nest.values import NestExpr, Read

Keep: TypeAlias = "Callable[[LoopCursor, Expr], None]"
ZERO = ix.as_index(0)


class RunScans:
    """Emits scans run by run with the loops of `Blocks`."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks, self.loops = blocks, blocks.loops
        self.builder: Builder = blocks.builder

    def emit(self, cursor: LoopCursor, position: int, keep: Keep) -> None:
        """Emits the scan whose loop over blocks stands at `position`; `keep` stores an element, given the number of its run."""
        stored = [cursor.lowered, *self.loops.sharing.sharers(cursor.lowered, position)]
        certificates = tuple(each for lowered in stored for each in self.loops.certificates("runs", lowered))
        self.blocks.each(cursor, position, lambda inner, at: self._block(inner, at, keep), certificates=certificates)

    def _block(self, cursor: LoopCursor, position: int, keep: Keep) -> None:
        builder, loop = self.builder, cursor.lowered.plan.loops[position]
        low, high, _ = cursor.instances[0].bounds(loop.name)
        high = builder.name("high", high)
        first = self._ended(cursor, low)
        last = self._ended(cursor, ix.sub(high, 1))
        begin = builder.register("begin", low)
        with builder.loop(number := fresh("k"), first, ix.add(last, 1), 1):
            start = builder.name("start", Read(begin, (), None))
            goes_on = Op("lt", bool_, (number, last))
            end = builder.name("end", Op("select", i64, (goes_on, self._end(cursor, number, goes_on), high)))
            part = cloned(cursor, phase=Phase(lambda inner: keep(inner, number), shares=True, reads=False))
            with builder.loop(at := fresh(loop.name), start, end, 1, **as_planned(loop, cursor.lowered.stage.name)):
                self.loops.choose(part, position, [[at]])
            builder.add(Store(begin, (), end))

    def _end(self, cursor: LoopCursor, number: Expr, there: NestExpr | None) -> NestExpr:
        """The index before which a run ends."""
        scan = cursor.lowered.stage.scan
        assert scan is not None and scan.ends is not None
        storage = self.loops.converter.storages[scan.ends]
        return Read(storage.buffer, storage.indices_of((number,), self.builder.assumptions), there)

    def _ended(self, cursor: LoopCursor, position: Expr) -> Var:
        """The number of runs that end at an index or before it."""
        goes_on = lambda k: self.builder.name("goes_on", Op("lt", bool_, (position, self._end(cursor, k, None))))
        return self.builder.name("number", first_where(self.builder, ZERO, _number_of_runs(cursor), goes_on))


def _number_of_runs(cursor: LoopCursor) -> Expr:
    """The number of ends of runs: the extent of the fold that each element of the scan makes of them."""
    fold = cursor.lowered.stage.reduction
    assert fold is not None
    (value,) = fold.values
    assert isinstance(value, Item) and isinstance(value.form, Reduce)
    return value.form.axes[0].extent
