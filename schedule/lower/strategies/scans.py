"""Scans: the running values of a fold, stored at every iteration. By strategy they run serially from the initial value on (`serial`),
in blocks (`block_scans`), each from the prefix before it, or run by run (`run_scans`). On a GPU the threads of one block may run a
serial scan, one piece each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from raido.algo.graph.expr import Expr, Result
from raido.schedule.lower.loop_cursor import Accumulators, LoopCursor, Phase
from raido.schedule.lower.strategies.block_scans import BlockScans
from raido.schedule.lower.strategies.blocks import LastPass
from raido.schedule.lower.strategies.run_scans import RunScans
from raido.schedule.nest.nodes import Store
from raido.schedule.nest.values import Read

if TYPE_CHECKING:
    from raido.schedule.lower.loops.loops import Loops
    from raido.schedule.lower.loops.reductions import Reductions


class Scans:
    """Emits scans with the loops of `Loops` and the accumulators of `Reductions`."""

    def __init__(self, loops: Loops, reductions: Reductions, in_blocks: BlockScans) -> None:
        self.loops, self.reductions, self.in_blocks = loops, reductions, in_blocks
        self.by_runs = RunScans(in_blocks.blocks)
        self.running = Phase(self._scan_element, cuts=True, shares=True)

    def scan(self, cursor: LoopCursor, position: int) -> None:
        """Emits the scan whose outermost scanned loop stands at `position`."""
        strategy = cursor.lowered.plan.strategy
        if strategy is None or strategy[0] == "serial":
            self._serial(cursor, position)
            return
        for instance in cursor.instances:
            if strategy[0] == "runs":
                self.by_runs.emit(replace(cursor, instances=[instance], origin_of=[0]), position, self._store_number)
                continue
            self.in_blocks.emit(replace(cursor, instances=[instance], origin_of=[0]), position, LastPass(self._follow))

    def _serial(self, cursor: LoopCursor, position: int) -> None:
        """Emits the iterations one after the other, or block after block by the threads of one block."""
        if self.in_blocks.pieces.threads.applies(cursor, position):
            for instance in cursor.instances:
                self.in_blocks.pieces.in_turn(
                    replace(cursor, instances=[instance], origin_of=[0]), position, self._follow
                )
            return
        running = self.reductions.allocate(cursor, position, label="running")
        self.reductions.part(cursor, position, self.reductions.start, running)
        self._follow(cursor, position, running)

    def _follow(self, cursor: LoopCursor, position: int, running: Accumulators) -> None:
        self.reductions.part(cursor, position, self.running, running)

    def _scan_element(self, cursor: LoopCursor) -> None:
        assert cursor.lowered.stage.scan is not None
        self._store(
            cursor,
            self.loops.emitter.prefixes(self.reductions.fold_targets(cursor), cursor.lowered.stage.scan.exclusive),
        )

    def _store_number(self, cursor: LoopCursor, number: Expr) -> None:
        self._store(cursor, [[number]])

    def _store(self, cursor: LoopCursor, results: Sequence[Sequence[Expr]]) -> None:
        lowered, builder = cursor.lowered, self.loops.builder
        kept = self.loops.sharing.forwards(lowered)
        for k, values in enumerate(results):
            where = self.loops.environment(cursor, k)
            indices = tuple(where[axis.var] for axis in lowered.stage.axes)
            for j, value in enumerate(values):
                storage = self.loops.converter.storages.get(Result(lowered.form, j))
                if storage is not None:
                    coordinates = storage.indices_of(indices, builder.assumptions)  # type: ignore[arg-type]
                    if kept:
                        self.loops.stored[Read(storage.buffer, coordinates, None)] = (value, builder.scope)
                    builder.add(Store(storage.buffer, coordinates, value, None, lowered.plan.stream_stores))
