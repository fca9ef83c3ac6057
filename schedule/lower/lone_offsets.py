"""Offsets without segments: a lone one bounds none, so no element looks at it. It is checked beside the stage, where there are none.

The check stands before the stage that it belongs to, on the host's level where the offset is kept there by then.
"""

from __future__ import annotations

from collections.abc import Iterable

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Checked, Constant, Expr, Node, Var, fresh
from raido.algo.graph.offsets import counts_and_lone_offsets
from raido.algo.graph.rewrite import free_variables, loads_in, scalar_nodes
from raido.schedule.lower.jobs import Job, flat
from raido.schedule.lower.loops import Loops
from raido.schedule.lower.sharing import outermost
from raido.schedule.lower.versions import as_comparison
from raido.schedule.remember import remembered
from raido.schedule.stages.stage import AnyStage, Stage


@remembered
def has_offsets(stage: Stage) -> bool:
    """Whether a stage looks at offsets of segments."""
    return any(isinstance(node, Checked) and node.kind == "offsets" for node in scalar_nodes(*stage.bodies))


class LoneOffsets:
    """Emits the checks of first offsets where there are no segments."""

    def __init__(self, loops: Loops, stages: Iterable[AnyStage]) -> None:
        self.loops = loops
        self.any = any(isinstance(stage, Stage) and has_offsets(stage) for stage in flat(stages))
        self.done: set[str] = set()
        loops.lone_offsets = self.begin

    def before(self, root: Job, jobs: dict[str, Job]) -> None:
        """Those of all stages in the loops of one that is computed whole, which is about to begin, where all offsets are there."""
        if self.any:
            for job in jobs.values():
                if outermost(job, jobs) is root:
                    self._once(job, begins=False)

    def begin(self, job: Job) -> None:
        """Those of a stage that begins, but those of offsets that its own loops make."""
        if self.any:
            self._once(job, begins=True)

    def _once(self, job: Job, begins: bool) -> None:
        if job.stage.name in self.done:
            return
        folds = () if job.reduction is None else (job.reduction,)
        found = counts_and_lone_offsets((*job.bodies, *folds))
        own = {axis.var for axis in job.stage.all_axes}
        found = {lone: count for lone, count in found.items() if free_variables(lone) <= own}
        there = {lone: count for lone, count in found.items() if self._is_there(lone)}
        if begins or len(there) == len(found):
            self.done.add(job.stage.name)
            for lone, count in there.items():
                self._check(job, lone, count)

    def _is_there(self, lone: Checked) -> bool:
        """Whether the arrays that an offset comes from are kept outside all loops that are not open now."""
        builder, storages = self.loops.builder, self.loops.converter.storages
        for load in loads_in(lone):
            storage = storages.get(load.array)
            if storage is None:
                return isinstance(load.array, Constant)
            if builder.level_of.get(storage.buffer, 0) > builder.scope.level:
                return False
        return True

    def _check(self, job: Job, lone: Checked, count: Expr) -> None:
        builder = self.loops.builder
        none = ix.mul(count, -1)
        if builder.facts.nonnegative(ix.sub(count, 1)):
            return
        axes = [axis for axis in job.stage.all_axes if axis.var in free_variables(lone)]
        values: dict[Node, Var] = {axis.var: fresh(axis.name) for axis in axes}

        def across(k: int) -> None:
            if k < len(axes):
                with builder.loop(values[axes[k].var], ix.as_index(0), axes[k].extent):
                    across(k + 1)
                return
            (converted,) = self.loops.converter.convert((lone,), values, builder.facts)
            self.loops.emitter.values((converted,))

        with builder.when(as_comparison(none), none):
            across(0)
