"""Validates `offsets[0]` when there are zero segments: no iteration of the stage would read it, so the check is emitted before the loops.

It stands before all loops of a root stage, on behalf of every stage in them, because those loops may have zero iterations. Producers of the
offset inside these loops have not run there, so they are computed for the check, in temporary memory.
"""

from __future__ import annotations

from collections.abc import Iterable

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Checked, Expr, Node, Var, fresh
from raido.algo.graph.offsets import counts_and_offsets_of_zero_segments
from raido.algo.graph.rewrite import free_variables, scalar_nodes
from raido.schedule.lower.loops.loops import Loops
from raido.schedule.lower.loops.versions import as_comparison
from raido.schedule.lower.lowered_stage import LoweredStage, flat
from raido.schedule.lower.regions.placement import Placement
from raido.schedule.lower.regions.sharing import outermost
from raido.schedule.remember import remembered
from raido.schedule.stages.stage import AnyStage, Stage


@remembered
def has_offsets(stage: Stage) -> bool:
    """Whether a stage reads offsets of segments."""
    return any(isinstance(node, Checked) and node.kind == "offsets" for node in scalar_nodes(*stage.bodies))


class ZeroSegmentChecks:
    """Emits the checks of the offsets of zero segments."""

    def __init__(self, loops: Loops, placement: Placement, stages: Iterable[AnyStage]) -> None:
        self.loops, self.placement = loops, placement
        self.any = any(isinstance(stage, Stage) and has_offsets(stage) for stage in flat(stages))

    def before(self, root: LoweredStage, lowered_stages: dict[str, LoweredStage]) -> None:
        """Emits the checks for all stages in the loops of a root stage, before these loops."""
        if not self.any:
            return
        inside = [lowered for lowered in lowered_stages.values() if outermost(lowered, lowered_stages) is root]
        for lowered in inside:
            folds = () if lowered.reduction is None else (lowered.reduction,)
            own = {axis.var for axis in lowered.stage.all_axes}
            for lone, count in counts_and_offsets_of_zero_segments((*lowered.bodies, *folds)).items():
                if free_variables(lone) <= own:
                    self._check(lowered, lone, count, inside)

    def _check(self, lowered: LoweredStage, lone: Checked, count: Expr, inside: list[LoweredStage]) -> None:
        builder = self.loops.builder
        none = ix.mul(count, -1)
        if builder.assumptions.nonnegative(ix.sub(count, 1)):
            return
        axes = [axis for axis in lowered.stage.all_axes if axis.var in free_variables(lone)]
        values: dict[Node, Var] = {axis.var: fresh(axis.name) for axis in axes}

        def across(k: int) -> None:
            if k < len(axes):
                with builder.loop(values[axes[k].var], ix.as_index(0), axes[k].extent):
                    across(k + 1)
                return
            with self.placement.made_for(lone, {axis.var: values[axis.var] for axis in axes}, inside):
                (converted,) = self.loops.converter.convert((lone,), values, builder.assumptions)
                self.loops.emitter.values((converted,))

        with builder.when(as_comparison(none), none):
            across(0)
