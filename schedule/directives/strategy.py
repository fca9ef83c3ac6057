"""`strategy`: decisions that loop directives cannot express, for scans, filters, sorts, updates, segmented and symmetric reductions."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from raido.algo.graph.reduction import is_arithmetic
from raido.schedule.checks.atomics import check_atomic
from raido.schedule.directives.copies import with_graph, with_stages
from raido.schedule.directives.loops import apply_split
from raido.schedule.directives.recorder import Name, Number, Recorder, Self, positive, rule, truth
from raido.schedule.plan import StagePlan
from raido.schedule.refusal import Refusal, listed
from raido.schedule.stages.runs import runs_of, without_marks
from raido.schedule.stages.stage import Stage
from raido.schedule.stages.updates.boxes import box_of, gathered
from raido.schedule.state import State, compute_sites, loop_of, plain_plan, put, readers_of, with_loop
from raido.schedule.strategies.parameters import MOST_CHUNKS, full_parameters, parameters_over_sizes
from raido.schedule.strategies.table import BY_BLOCKS, PHASES, strategies_of

MOST_IN_BLOCK = 1 << 40
LARGEST = {
    "replicas": 16,
    "bits": 16,
    "chunks": MOST_CHUNKS,
    "insertion": 4096,
    "ranked": 4096,
    "network": 1024,
    "counted": 1 << 24,
}


class StrategyDirectives(Recorder):
    """Directives for decisions that loops cannot express."""

    __slots__ = ()

    def strategy(self: Self, name: Name, /, **numbers: Number | Name) -> Self:
        """Chooses among the ways to run a stage that differ in more than loops; `stage.strategies()` lists them.

        name: one of those listed; numbers: its parameters. A scan's "chain" and "three_phase" split the scanned axis into blocks for
        threads; its other loops take directives as ever; "runs", of one that counts the ends of runs, makes these run by run. An update's
        "private" folds `chunks` of its iterations, by threads, into bins of their own, and `replicas` sets of these in turn (fewer than two
        chunks: the iterations run in order); with "atomic" its iterations are indivisible, so that loops over them may be parallel, and
        `reproducible=False` permits sums of floats, whose last bits then depend on the threads. On a GPU the kept elements of a filter's
        block may be `staged` in shared memory, from which neighbouring threads store neighbouring ones; where threads have no pieces of
        blocks, `staged` changes nothing. A sort's "radix" goes by digits of `bits` bits, in `chunks`, but sorts up to `insertion`
        elements by insertion; "quicksort" splits all elements into `chunks` parts, or up to twice as many, and each by pivots down to
        `ranked` elements, of keys alone in lanes to `network` of them, but counts integers of which the greatest is less than `counted`
        above the least; on a GPU "three_phase" and "chain" go by digits, too, in blocks of `block` elements of `threads` threads,
        `subgroup` of which hand each other values, with elements `staged` in shared memory; "quickselect", where stages read some positions
        alone, sorts no part that holds none of them. An array loop's "rows" has the loop over rows outside its iterations; `depth` axes
        say which row, and pieces of at most `alone` rows with iterations around them go row by row.
        A reduction's "triangle" makes the lower triangle of a result that is a symmetric matrix, and copies the other.
        "gather" makes a map of an update that sets a box: it has the axes of the result, and takes the directives of maps.
        Numbers of chunks may be texts over sizes and the stage's axes, which stand for their extents:
        `chunks="min(64, r // (8 * x))"`. There are never more than 4096 chunks.

        before   for x in 0..n
        after    parallel xo in 0..n step 131072: for xi in xo..min(xo + 131072, n)           .strategy("chain", block=1 << 17)

        >>> blur.schedule()["cols"].strategies()
        {}

        Refuses maps, stencils and other reductions, which have none: vectorizing or parallelizing a reduction axis makes partials; a
        second strategy; a strategy after loop directives on the axis that it splits, "gather" after any; and indivisible iterations of
        several values that depend on one another.
        """
        return self._record("strategy", name=name, **numbers)


@rule('choose strategy "{name}" for stage "{stage}"')
def apply_strategy(state: State, stage: str, /, name: str, **numbers: Number | Name) -> State:
    whole = state.stage(stage)
    found = strategies_of(whole)
    if not found and whole.reduction is not None:
        raise Refusal(
            "a reduction has no strategies: a vectorized or parallel reduction axis already makes partial results",
            f'parallel("{whole.reduction_axes[0].name}") or vectorize("{whole.reduction_axes[-1].name}")',
            strategies="none",
        )
    if not found:
        raise Refusal("the stage has no strategies: loop directives alone decide its loops", strategies="none")
    if name not in found:
        raise Refusal(f'the stage has no strategy "{name}"', strategies=listed(found))
    if (stage, "strategy") in state.decided:
        raise Refusal("the schedule already names a strategy for this stage", "remove one of the two directives")
    if whole.sort is not None and name in BY_BLOCKS and state.gpu is None:
        raise Refusal("the strategy sorts in the blocks of a GPU, and the schedule is for a CPU", 'strategy("radix")')
    if name == "chain" and state.gpu is not None and not state.gpu.ordered:
        others = [each for each in found if each in PHASES]
        raise Refusal(
            "each block of a chain waits for the one before, and the device does not guarantee that the earlier one makes progress",
            f'strategy("{others[0]}")',
        )
    if name == "chain" and state.gpu is not None and whole.sort is None:
        check_chain_of_blocks(whole, next(each for each in found if each in PHASES))
    chosen = full_parameters(whole, name, numbers)
    allowed = found[name].numbers | dict.fromkeys(found[name].options, False)
    for number, value in chosen.items():
        if number not in allowed:
            raise Refusal(f'strategy "{name}" has no parameter "{number}"', parameters=listed(allowed) or "none")
        if isinstance(allowed[number], bool):
            truth(value, f"`{number}`")
        elif not (isinstance(value, str) and number == "chunks"):
            positive(value, f"`{number}`", 1, LARGEST.get(number, MOST_IN_BLOCK))
    if whole.filter is not None and chosen.get("staged") and state.gpu is None:
        raise Refusal(
            "elements are staged in the shared memory of a GPU, and the schedule is for a CPU", "leave `staged` out"
        )
    if name == "atomic" and whole.reduction is not None:
        check_atomic(stage, whole.reduction, bool(chosen["reproducible"]))
    if name == "gather":
        return gather(state, stage)
    stated = parameters_over_sizes(state, stage, chosen)
    state = by_runs(state, stage) if name == "runs" else state
    split = "block" in chosen and whole.reduction is not None and whole.sort is None
    after = in_blocks(state, stage, name, cast(int, chosen["block"])) if split else state
    plan = replace(after.plan(stage), strategy=(name, stated))
    return replace(after, plans={**after.plans, stage: plan}, decided=state.decided | {(stage, "strategy")})


def by_runs(state: State, stage: str) -> State:
    """Returns the state in which a scan is made of the ends of its runs; stages that only mark the runs are removed."""
    whole = state.stage(stage)
    runs = runs_of(whole)
    if runs is None:  # they are
        return state
    if state.gpu is not None:
        raise Refusal(
            'strategy "runs" is serial within a block: one thread goes through all runs of the block',
            'strategy("three_phase")',
        )

    def is_read_by(name: str, reader: str) -> bool:
        said = any(each == name for each, _ in state.decided)
        return readers_of(state, name) == (reader,) and name not in state.uses.outputs and not said

    marks = state.uses.names[runs.marks]
    if not is_read_by(marks, stage):
        raise Refusal(f'strategy "runs" removes "{marks}", which other stages read or which has directives of its own')
    graph = with_stages(state.graph, stage, (without_marks(whole, runs, state.stage(marks)),))
    for name in (marks, *(each for each in state.uses.stages if is_read_by(each, marks))):
        if name != state.uses.names[runs.ends.form]:
            graph = with_stages(graph, name, ())
    return with_graph(state, graph, state.plan(stage))


def gather(state: State, stage: str) -> State:
    """Returns the state in which an update that sets a box is a map; its loops are new, over the elements of the result."""
    whole = state.stage(stage)
    if (stage, "loops") in state.decided or any(
        at.stage == stage for plan in state.plans.values() for at in compute_sites(plan)
    ):
        raise Refusal(
            'strategy "gather" replaces the loops of this stage by loops over the elements of its result, and directives for the old loops '
            "came before",
            'strategy("gather") first, then directives for the new loops',
        )
    box, sites = box_of(whole), dict(state.graph.sites)
    assert box is not None
    changed = gathered(whole, box, sites)
    graph = replace(with_stages(state.graph, stage, (changed,)), sites=sites)
    plan = replace(state.plan(stage), loops=plain_plan(changed).loops)
    return put(with_graph(state, graph, plan), plan, "strategy")


def check_chain_of_blocks(stage: Stage, other: str) -> None:
    """Refuses `chain` on a GPU for rows, and for operators that blocks cannot apply to the values that they look back at."""
    assert stage.reduction is not None
    if len(stage.axes) > 1:
        row = next(axis.name for axis in stage.axes if axis not in stage.reduction_axes)
        raise Refusal(
            f'the elements are rows along "{row}", and blocks of a GPU pass only single values to each other',
            f'strategy("{other}")',
        )
    if stage.scan is not None and not is_arithmetic(*stage.reduction.combine):
        raise Refusal(
            f'the operator of "{stage.name}" branches, loops, reads arrays or may fault, and each block applies it to earlier blocks',
            f'strategy("{other}")',
        )


def in_blocks(state: State, stage: str, name: str, block: int) -> State:
    """Returns the state with the scanned axis split into parallel blocks; a chain takes them in order."""
    positive(block, "`block`", 1, MOST_IN_BLOCK)
    axis = state.stage(stage).reduction_axes[0].name
    plan: StagePlan = state.plan(stage)
    if axis not in (loop.name for loop in plan.loops) or loop_of(state, stage, axis).kind != "serial":
        raise Refusal(
            f'the strategy splits "{axis}", which already has loop directives',
            "name the strategy before the loop directives",
        )
    after = apply_split(state, stage, axis, block)
    outer = loop_of(after, stage, axis + "o")
    blocks = with_loop(after.plan(stage), replace(outer, kind="parallel", dynamic=name == "chain"))
    return replace(after, plans={**after.plans, stage: blocks})
