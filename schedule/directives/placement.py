"""Directives that decide where a stage is computed and stored: inline, root, compute_at, store_at (Halide's compute and store levels)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from raido.algo.graph.assumptions import interval
from raido.algo.graph.expr import Load
from raido.schedule.directives.recorder import Name, Recorder, Self, rule
from raido.schedule.plan import At, Inline, Root, StagePlan
from raido.schedule.refusal import Refusal, listed
from raido.schedule.stages.reads import epilogue_loads
from raido.schedule.stages.stage import ControlStage
from raido.schedule.state import (
    State,
    enclosing_loops,
    has_explicit_loops,
    is_inlined,
    is_reduction,
    loop_of,
    position,
    put,
    reaches,
    readers_of,
    resolve,
    shared_count,
    stages_read,
)
from raido.schedule.strategies.table import check_reads_of_updates, check_scan_placement


class PlacementDirectives(Recorder):
    """Directives that decide where a stage is computed and stored."""

    __slots__ = ()

    def inline(self: Self) -> Self:
        """Computes the stage in each expression that reads it; it takes no memory and has no loops.

        before   for y, x: rows[y, x] = img[y, x] + 1
                 for y, x: cols[y, x] = rows[y, x] * 2
        after    for y, x: cols[y, x] = (img[y, x] + 1) * 2

        >>> blur.schedule()["rows"].inline().plan.compute
        Inline()

        Refuses outputs, reductions, stages read by a loop over whole arrays or at checked indices, stages with loop directives, and stages
        at which another is placed.
        """
        return self._record("inline")

    def root(self: Self) -> Self:
        """Computes the whole stage before the stages that read it; for a stage inside a mapped function this distributes the map.

        before   for i: {for k: row[k] = …;  out[i] = sum(row)}
        after    for i, k: row[i, k] = …;    for i: out[i] = sum(row[i, :])

        >>> blur.schedule()["rows"].root().plan.compute
        Root()

        Refuses a second placement.
        """
        return self._record("root")

    def compute_at(self: Self, stage: Name, axis: Name) -> Self:
        """Computes, in each iteration of a loop of a consumer, the region of the stage that the iteration needs (bounds inference, as in
        Halide).

        stage: a stage that reads this one, itself or through others placed inside that loop. axis: a loop of that stage.

        before   for y, x: rows[y, x] = …
                 for yo: for yi: for x: cols[y, x] = rows[y - 1, x] + rows[y + 1, x]
        after    for yo:
                   for y in yo - 1..yo + 33: for x: rows[y, x] = …
                   for yi: for x: cols[y, x] = rows[y - 1, x] + rows[y + 1, x]

        >>> blur.schedule()["rows"].compute_at("cols", "y").plan.compute
        At(stage='cols', loop='y')

        Refuses a second placement, outputs, a loop that does not enclose every reader, and regions that cannot be bounded.
        """
        return self._record("compute_at", stage=stage, axis=axis)

    def store_at(self: Self, stage: Name, axis: Name | None = None) -> Self:
        """Keeps the region of `compute_at` over the iterations of outer loops (Halide's sliding window): each iteration computes only the
        elements that are new, in a folded buffer.

        stage, axis: a loop outside the one at which the stage is computed; no axis: outside all loops.

        before   for yo: for yi: {rows for y - 1..y + 1};  cols …
        after    for yo: rows: 3 rows;  for yi: {rows for y + 1 only};  cols …          .store_at("cols", "yo")

        >>> blur.schedule()["rows"].compute_at("cols", "x").store_at("cols", "y").plan.store
        At(stage='cols', loop='y')

        Refuses before `compute_at`, a loop that does not enclose it, and parallel or vectorized loops in between.
        """
        return self._record("store_at", stage=stage, axis=axis)


@rule('inline stage "{stage}"')
def apply_inline(state: State, stage: str) -> State:
    plan = unplaced(state, stage)
    whole = state.stage(stage)
    if stage in state.uses.outputs:
        raise Refusal(f'"{stage}" is an output: it must be stored', f's["{stage}"].root()')
    if whole.reduction is not None:
        raise Refusal(
            f'"{stage}" is a reduction, which would run again at every read',
            "compute_at a loop of the stage that reads it",
        )
    refuse_control_readers(state, stage)
    reader = checked_reader(state, stage)
    if reader is not None:
        raise Refusal(
            f'"{reader}" reads "{stage}" at indices that are checked at run time, and an inlined stage has no value at an index out of range',
            f's["{stage}"].root(), or compute_at',
        )
    if has_explicit_loops(state, stage):
        raise Refusal(
            f'"{stage}" has loop directives, and an inlined stage has no loops',
            "leave the loop directives out, or use compute_at",
        )
    for decision in ("store", "layout", "stream", "hints"):
        if (stage, decision) in state.decided:
            raise Refusal(f'"{stage}" has directives for its storage or its loops, and an inlined stage has neither')
    for other in state.attached.get(stage, ()):
        raise Refusal(
            f'"{other.stage}" is placed at a loop of "{stage}", and an inlined stage has no loops',
            f'place "{other.stage}" elsewhere',
        )
    return put(state, replace(plan, compute=Inline()), "placement")


@rule('compute stage "{stage}" at root')
def apply_root(state: State, stage: str) -> State:
    return put(state, replace(unplaced(state, stage), compute=Root()), "placement")


@rule('compute stage "{producer}" at loop "{axis}" of "{stage}"')
def apply_compute_at(state: State, producer: str, stage: str, axis: str) -> State:
    plan = unplaced(state, producer)
    at = place_at(state, producer, stage, axis)
    if producer in state.uses.outputs:
        raise Refusal(
            f'"{producer}" is an output, so the whole array is needed', f's["{producer}"].root(), or compute_with'
        )
    refuse_control_readers(state, producer)
    check_encloses_readers(state, producer, at)
    check_bounded(state, producer)
    check_scan_placement(state, producer, at.stage, at.loop)
    return put(state, replace(plan, compute=at), "placement")


@rule('store stage "{producer}" at loop "{axis}" of "{stage}"', positional=("axis",))
def apply_store_at(state: State, producer: str, stage: str, axis: str | None = None) -> State:
    plan = state.plan(producer)
    if not isinstance(plan.compute, At):
        raise Refusal(
            f'"{producer}" is not computed inside a loop, so no values can be kept from iteration to iteration',
            "compute_at first",
        )
    if plan.store is not None:
        raise Refusal(f'the schedule already decides where "{producer}" is stored', "remove one of the two directives")
    if axis is None:
        store: At | Root = Root()
        resolve(state.uses.stages, stage)
    else:
        store = place_at(state, producer, stage, axis)
    return put(state, replace(plan, store=store), "store")


def unplaced(state: State, stage: str) -> StagePlan:
    """Returns the plan of a stage without a placement; refuses a stage that has one."""
    plan = state.plan(stage)
    if (stage, "placement") in state.decided:
        where = {Inline: "inlined", Root: "at root"}.get(type(plan.compute))
        at = plan.compute_with or plan.compute
        where = where if plan.compute_with is None and where else f'at loop "{at.loop}" of "{at.stage}"'  # type: ignore[union-attr]
        raise Refusal(
            f'the schedule already decides where "{stage}" is computed: {where}', "remove one of the two directives"
        )
    return plan


def place_at(state: State, producer: str, stage: str, axis: str) -> At:
    """Returns a loop of another stage as a placement; refuses inlined stages, loops that a leader owns, and cyclic placements."""
    target = resolve(state.uses.stages, stage)
    if target == producer:
        raise Refusal("a stage cannot be placed inside itself", stages=listed(readers_of(state, producer)))
    if is_inlined(state, target):
        raise Refusal(f'"{target}" is inlined and has no loops', stages=listed(readers_of(state, target)))
    loop_of(state, target, axis)
    if any(stage == producer for stage, _ in enclosing_loops(state, target)):
        raise Refusal(f'"{target}" is computed inside the loops of "{producer}"')
    plan = state.plan(target)
    if plan.compute_with and position(plan, axis) < shared_count(state, target):
        owner = plan.compute_with
        raise Refusal(f'"{target}" shares loop "{axis}" with "{owner.stage}"', f'name the loop of "{owner.stage}"')
    return At(target, axis)


def refuse_control_readers(state: State, stage: str) -> None:
    """Refuses to place a stage that an array loop or a conditional reads."""
    for reader in readers_of(state, stage):
        if isinstance(state.uses.stages[reader], ControlStage):
            raise Refusal(f'the loop "{reader}" reads "{stage}" in every iteration', f's["{stage}"].root()')


def checked_reader(state: State, stage: str) -> str | None:
    """Returns a stage that reads this one at checked indices, which may be out of range; None without one."""
    loads = (
        (reader, load)
        for reader in state.uses.readers[stage]
        for load in state.uses.loads.get(reader, {}).get(stage, ())
    )
    return next((reader for reader, load in loads if load.checked), None)


def check_encloses_readers(state: State, producer: str, at: At) -> None:
    """Refuses a loop that does not enclose every reader of a stage."""
    readers = readers_of(state, producer)
    if not readers:
        raise Refusal(f'nothing reads "{producer}"', f's["{producer}"].root()')
    if state.uses.scope[producer] != state.uses.scope[at.stage]:
        raise Refusal(
            f'"{at.stage}" and "{producer}" are not in the same loop over whole arrays', stages=listed(readers)
        )
    if reaches(state, producer, at.stage):
        reverse = legal_compute_sites(state, at.stage) if at.stage not in state.uses.outputs else ""
        remedy = f's["{at.stage}"].compute_at(…) at one of its legal loops: {reverse}' if reverse else None
        raise Refusal(
            f'"{at.stage}" runs before "{producer}", which needs it',
            remedy,
            places=legal_compute_sites(state, producer),
        )
    outside = [r for r in readers if r != at.stage and (at.stage, at.loop) not in enclosing_loops(state, r)]
    if outside:
        reader = outside[0]
        legal = legal_compute_sites(state, producer)
        if at.stage not in readers and len(outside) == len(readers):
            why = f'"{at.stage}" does not read "{producer}"; {quoted(readers)} {"does" if len(readers) == 1 else "do"}'
        else:
            why = (
                f'"{reader}" reads "{producer}" too, outside that loop'
                if at.stage in readers
                else f'"{reader}" reads "{producer}", outside that loop'
            )
        remedy = (
            f'place "{reader}" inside the same loop first, or s["{reader}"].inline()'
            if reader not in state.uses.outputs
            else None
        )
        raise Refusal(why, remedy, places=legal)
    if at.stage in readers:
        check_not_after_reduction(state, producer, at)


def check_not_after_reduction(state: State, producer: str, at: At) -> None:
    """Refuses a loop inside the reader's reduction where the reader reads the stage before or after the reduction."""
    target, plan = state.stage(at.stage), state.plan(at.stage)
    if target.reduction is None:
        return
    first = min(i for i, loop in enumerate(plan.loops) if is_reduction(target, plan, loop.name))
    if position(plan, at.loop) < first:
        return
    check_reads_of_updates(state, producer, at)
    if producer in stages_read(state, epilogue_loads(target)):
        why, remedy = (
            f'"{at.stage}" reads "{producer}" outside its reduction loops too',
            f'a loop outside "{plan.loops[first].name}"',
        )
        raise Refusal(why, remedy)


def check_bounded(state: State, producer: str) -> None:
    """Refuses to place a stage at a loop when a reader gathers from it: the region of every iteration is the whole array."""
    for reader in state.uses.readers.get(producer, ()):
        loads = state.uses.loads.get(reader, {}).get(producer, ())
        for load in loads:
            if load.indices and not any(is_bounded(load, k) for k in range(len(load.indices))):
                raise Refusal(
                    f'"{reader}" reads "{producer}" at computed indices, so every iteration needs the whole array',
                    f's["{producer}"].root()',
                )


def is_bounded(load: Load, dimension: int) -> bool:
    """Whether interval analysis bounds an index of a load."""
    return interval(load.indices[dimension], {}) is not None


def legal_compute_sites(state: State, producer: str) -> str:
    """Returns the loops that enclose every reader, as text for a message."""
    readers = readers_of(state, producer)
    around: list[tuple[str, str]] | None = None
    for reader in readers:
        if reader not in state.plans:
            return "root"
        own = [(reader, loop.name) for loop in state.plans[reader].loops[shared_count(state, reader) :]]
        chain = [*enclosing_loops(state, reader), *own]
        around = chain if around is None else [each for each in around if each in chain]
    found = [f'"{stage}" {loop}' for stage, loop in around or ()]
    return listed(["root", *found])


def quoted(names: Iterable[object]) -> str:
    """Returns names in quotes, separated by commas."""
    return ", ".join(f'"{name}"' for name in names)
