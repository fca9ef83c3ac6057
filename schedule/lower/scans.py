"""Scans: the running values of a fold, stored at every iteration. By strategy they run serially from the initial value on (`serial`),
in blocks (`block_scans`), each from the prefix before it, or run by run (`run_scans`). On a GPU the threads of one block may run a
serial scan, one piece each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from raido.algo.graph.expr import Expr, Result
from raido.schedule.lower.block_scans import BlockScans
from raido.schedule.lower.blocks import LastPass
from raido.schedule.lower.run_scans import RunScans
from raido.schedule.lower.work import Accumulators, Phase, Work
from raido.schedule.nest.nodes import Store
from raido.schedule.nest.values import Read

if TYPE_CHECKING:
    from raido.schedule.lower.loops import Loops
    from raido.schedule.lower.reductions import Reductions


class Scans:
    """Emits scans with the loops of `Loops` and the accumulators of `Reductions`."""

    def __init__(self, loops: Loops, reductions: Reductions, in_blocks: BlockScans) -> None:
        self.loops, self.reductions, self.in_blocks = loops, reductions, in_blocks
        self.by_runs = RunScans(in_blocks.blocks)
        self.running = Phase(self._scan_element, cuts=True, shares=True)

    def scan(self, work: Work, position: int) -> None:
        """Emits the scan whose outermost scanned loop stands at `position`."""
        strategy = work.job.plan.strategy
        if strategy is None or strategy[0] == "serial":
            self._serial(work, position)
            return
        for copy in work.copies:
            if strategy[0] == "runs":
                self.by_runs.emit(replace(work, copies=[copy], origin_of=[0]), position, self._store_number)
                continue
            self.in_blocks.emit(replace(work, copies=[copy], origin_of=[0]), position, LastPass(self._follow))

    def _serial(self, work: Work, position: int) -> None:
        """Emits the iterations one after the other, or block after block by the threads of one block."""
        if self.in_blocks.pieces.threads.applies(work, position):
            for copy in work.copies:
                self.in_blocks.pieces.in_turn(replace(work, copies=[copy], origin_of=[0]), position, self._follow)
            return
        running = self.reductions.allocate(work, position, label="running")
        self.reductions.part(work, position, self.reductions.start, running)
        self._follow(work, position, running)

    def _follow(self, work: Work, position: int, running: Accumulators) -> None:
        self.reductions.part(work, position, self.running, running)

    def _scan_element(self, work: Work) -> None:
        assert work.job.stage.scan is not None
        self._store(work, self.loops.emitter.prefixes(self.reductions.steps(work), work.job.stage.scan.exclusive))

    def _store_number(self, work: Work, number: Expr) -> None:
        self._store(work, [[number]])

    def _store(self, work: Work, results: Sequence[Sequence[Expr]]) -> None:
        job, builder = work.job, self.loops.builder
        kept = self.loops.sharing.forwards(job)
        for k, values in enumerate(results):
            where = self.loops.environment(work, k)
            indices = tuple(where[axis.var] for axis in job.stage.axes)
            for j, value in enumerate(values):
                storage = self.loops.converter.storages.get(Result(job.form, j))
                if storage is not None:
                    place = storage.place(indices, builder.facts)  # type: ignore[arg-type]
                    if kept:
                        self.loops.stored[Read(storage.buffer, place, None)] = (value, builder.scope)
                    builder.add(Store(storage.buffer, place, value, None, job.plan.stream_stores))
