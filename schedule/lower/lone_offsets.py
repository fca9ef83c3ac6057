"""Offsets without segments: a lone one bounds none, so no element looks at it. It is checked before the stage, where there are none.

The check stands before all loops of the stage at root, on behalf of every stage in them: those loops may make no iterations. What an
offset is made of inside them is not there yet, so it is made for the check, in memory of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Checked, Expr, Node, Var, fresh
from raido.algo.graph.offsets import counts_and_lone_offsets
from raido.algo.graph.rewrite import free_variables, scalar_nodes
from raido.schedule.lower.jobs import Job, flat
from raido.schedule.lower.loops import Loops
from raido.schedule.lower.placement import Placement
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

    def __init__(self, loops: Loops, placement: Placement, stages: Iterable[AnyStage]) -> None:
        self.loops, self.placement = loops, placement
        self.any = any(isinstance(stage, Stage) and has_offsets(stage) for stage in flat(stages))

    def before(self, root: Job, jobs: dict[str, Job]) -> None:
        """Those of all stages in the loops of one that is computed whole, which is about to begin."""
        if not self.any:
            return
        inside = [job for job in jobs.values() if outermost(job, jobs) is root]
        for job in inside:
            folds = () if job.reduction is None else (job.reduction,)
            own = {axis.var for axis in job.stage.all_axes}
            for lone, count in counts_and_lone_offsets((*job.bodies, *folds)).items():
                if free_variables(lone) <= own:
                    self._check(job, lone, count, inside)

    def _check(self, job: Job, lone: Checked, count: Expr, inside: list[Job]) -> None:
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
            with self.placement.made_for(lone, {axis.var: values[axis.var] for axis in axes}, inside):
                (converted,) = self.loops.converter.convert((lone,), values, builder.facts)
                self.loops.emitter.values((converted,))

        with builder.when(as_comparison(none), none):
            across(0)
