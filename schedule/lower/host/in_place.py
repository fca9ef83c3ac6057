"""In-place reuse of memory at its last use: which result takes over which array's memory, decided before anything is emitted.

A consumer makes an array out of another one of the same shape: an update out of its initial array, a whole-array loop out of its state's
initial value, a branch out of an array that it passes through or changes, a map in a loop out of a state of which each element reads its
own. It takes over that array's memory, instead of a copy or memory of its own, if

- the array is the program's own: the state of the loop whose body this is, or made by a stage of this body, whole, in plain memory (an
  argument, a constant, and an array needed after this body or by another of its results, are never taken);
- nothing reads it later: all stages that read it have run by then, in execution order (stages computed in the loops of others run there),
  and nothing reads it in the consumer's own loops, except the iterations of an update themselves, where none reads an element that another
  one changes (`schedule/stages/updates/dependence.py`), and stages that find the elements that they read unchanged, though an update has
  begun (`late_reads`): they read the memory that changes, and its next consumer considers them again.

Everything else is copied, for a reason that is recorded (`Copied`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from raido.algo.graph.expr import Array, ArrayCond, ArrayLoop, ArrayWhile, Load, Node, Parameter, Result
from raido.algo.graph.rewrite import loads_in
from raido.schedule.lower.host.late_reads import finds_unchanged
from raido.schedule.lower.lowered_stage import LoweredStage, flat
from raido.schedule.lower.regions.placement import Placement
from raido.schedule.lower.regions.sharing import outermost
from raido.schedule.plan import Root
from raido.schedule.stages.stage import AnyStage, ControlStage, Stage, initial_values
from raido.schedule.stages.updates.dependence import ElementUpdates, conflict
from raido.schedule.stages.updates.repeated_copies import (
    CONFLICT,
    NOT_ITS_OWN,
    NOT_WHOLE,
    OVERLAPPING,
    READ_LATER,
    RESULT_AS_WELL,
    SHARED_LOOPS,
    TAKEN,
)


@dataclass(frozen=True, slots=True)
class Copied:
    """An array that is copied before a consumer changes it, and the reason; `reader`: the stage that reads the old contents, if one
    does."""

    stage: str
    array: Array
    why: str
    reader: str = ""


@dataclass(slots=True)
class InPlaceReuse:
    """The decisions on in-place reuse: for a result, the array whose memory it takes over; and the arrays that are copied."""

    taken: dict[Array, Array] = field(default_factory=dict)
    copied: list[Copied] = field(default_factory=list)

    def origin(self, array: Array) -> Array:
        """The earliest array that lives in the same memory as `array`."""
        return self.versions(array)[-1]

    def versions(self, array: Array) -> list[Array]:
        """An array and its predecessors in the same memory, latest first, as far as decided."""
        found = [array]
        while found[-1] in self.taken:
            found.append(self.taken[found[-1]])
        return found

    def why(self, stage: str, array: Array) -> Copied:
        """The reason for which a consumer got a copy of an array."""
        found = [copied for copied in self.copied if copied.stage == stage]
        exact = [copied for copied in found if copied.array is array]
        return next(iter((*exact, *found)), Copied(stage, array, NOT_ITS_OWN))


@dataclass(frozen=True, slots=True)
class Reader:
    """A read of an array: its position in the order of a body, the stage, and the load if it is one in a stage's expressions."""

    position: int
    name: str
    load: Load | None = None
    lowered: LoweredStage | None = None


class HostInterface(Protocol):
    """The host's interface to these decisions: stages and compute sites, the execution order of a body, results whose shape depends on a
    result, and states whose shape depends on no state."""

    @property
    def lowered_stages(self) -> Mapping[str, LoweredStage]: ...

    @property
    def placement(self) -> Placement: ...

    def ordered(self, stages: Iterable[AnyStage]) -> list[AnyStage]: ...

    def changing(self, stages: Iterable[AnyStage]) -> Collection[Array]: ...

    def lasting(self, loop: ControlStage) -> Collection[Array]: ...


class Body:
    """The stages of one body in execution order, and the arrays that are needed after it."""

    def __init__(
        self,
        stages: Sequence[AnyStage],
        needed: Iterable[Array],
        own: Collection[Array],
        host: HostInterface,
        states: Mapping[Array, Array] | None = None,
    ) -> None:
        self.stages, self.host, self.lowered_stages = stages, host, host.lowered_stages
        self.states = states or {}  # in a loop body: the state that each of its results is the next value of
        self.changing = host.changing(stages)
        self.needed = set(needed)
        self.own: set[Array] = set(own) | {array for stage in stages for array in self._made_by(stage)}
        self.position = {stage.name: k for k, stage in enumerate(stages)}
        self.reads: dict[Array, list[Reader]] = {}
        for k, stage in enumerate(stages):
            self._note(stage, k)
        for lowered in self.lowered_stages.values():  # stages computed in the loops of one in the order, and not in it
            k = self.position.get(outermost(lowered, self.lowered_stages).stage.name)  # type: ignore[arg-type]
            if k is not None and lowered.stage.name not in self.position:
                self._note_loads(lowered, k, lowered.stage.name)

    def _made_by(self, stage: AnyStage) -> list[Array]:
        """The arrays that a stage leaves in plain memory of their own."""
        if isinstance(stage, ControlStage):
            count = len(stage.results)
            return [a for a in (Result(stage.form, k) for k in range(count)) if a not in self.changing]
        lowered = self.lowered_stages.get(stage.name)
        if lowered is None or stage.filter is not None or not _is_whole(lowered):
            return []
        return [Result(lowered.form, k) for k in range(len(lowered.bodies))]  # type: ignore[arg-type]

    def _note(self, stage: AnyStage, position: int) -> None:
        """Records a stage's reads, with their position in the order."""
        if isinstance(stage, Stage):
            lowered = self.lowered_stages.get(stage.name)
            if lowered is not None:
                at = self.position.get(outermost(lowered, self.lowered_stages).stage.name, position)  # type: ignore[arg-type]
                self._note_loads(lowered, at, stage.name)
            return
        for array in dict.fromkeys(stage.init):
            self.reads.setdefault(array, []).append(Reader(position, stage.name))
        inside = stage.name if isinstance(stage.form, ArrayCond) else f"{stage.name}/"
        whole: list[Array] = [*stage.results, *stage.orelse_results]
        whole += [load.array for load in loads_in(_host_scalar(stage))]
        for each in flat((*stage.setup, *stage.body, *stage.orelse)):
            if isinstance(each, ControlStage):
                whole += [*each.init, *each.results, *each.orelse_results]
                whole += [load.array for load in loads_in(_host_scalar(each))]
            elif each.name in self.lowered_stages:
                self._note_loads(self.lowered_stages[each.name], position, inside)
        for array in dict.fromkeys(whole):
            self.reads.setdefault(array, []).append(Reader(position, inside))

    def _note_loads(self, lowered: LoweredStage, position: int, name: str) -> None:
        for load in loads_in(*lowered.bodies):
            self.reads.setdefault(load.array, []).append(Reader(position, name, load, lowered))

    def decide(self, hands: InPlaceReuse) -> None:
        """Records the decisions for this body and those inside it."""
        gone: set[Array] = set()
        for k, stage in enumerate(self.stages):
            if isinstance(stage, ControlStage):
                pairs = self._of_control(stage)
            else:
                lowered = self.lowered_stages.get(stage.name)
                if lowered is None:
                    continue
                if lowered.stage.update is None:
                    self._map(lowered, k, hands, gone)
                    continue
                pairs = self._of_update(lowered, hands)
            if isinstance(stage.form, ArrayCond):
                assert isinstance(stage, ControlStage)
                self._branches(stage, k, hands, gone)
                continue
            if isinstance(stage, ControlStage):
                inner = self.host.ordered(stage.body)
                states: dict[Array, Array] = dict(zip(stage.results, stage.state, strict=True))
                Body(inner, stage.results, self.host.lasting(stage), self.host, states).decide(hands)
            whys = [self._why_not(array, k, stage.name, gone, hands) for _, array in pairs]
            if isinstance(stage, Stage) and any(whys):
                pairs = []
            for (result, array), why in zip(pairs, whys, strict=False):
                if why is None and array not in gone:
                    hands.taken[result] = array
                    gone.add(array)
                    continue
                hands.copied.append(why or Copied(stage.name, array, TAKEN))
            if isinstance(stage, Stage):
                hands.copied += [why for why in whys if why]

    def _of_control(self, stage: ControlStage) -> list[tuple[Array, Array]]:
        """The results of a loop with the initial values whose memory they may take over."""
        results = [Result(stage.form, m) for m in range(len(stage.state))]
        return [
            (result, start)
            for result, start, state in zip(results, stage.init, stage.state, strict=True)
            if result not in self.changing and start.shape == state.shape
        ]

    def _branches(self, stage: ControlStage, position: int, hands: InPlaceReuse, gone: set[Array]) -> None:
        """Decides for an array conditional: branches may change arrays that are dead after it; results that are such an array, passed
        through or changed, stay in its memory."""
        dying = {
            array
            for array in self.own - gone - self.needed
            if self._last_reader(array, position, stage.name, hands) is None and self._is_there(array, position)
        }
        branches = ((stage.body, stage.results), (stage.orelse, stage.orelse_results))
        for stages, arrays in branches:
            Body(self.host.ordered(stages), arrays, dying, self.host).decide(hands)
        origins = [[hands.origin(array) for array in arrays] for _, arrays in branches]
        for k in range(len(stage.results)):
            result = Result(stage.form, k)
            for array in (version for _, arrays in branches for version in hands.versions(arrays[k])):
                others = [origin for arrays in origins for j, origin in enumerate(arrays) if j != k]
                if (
                    array in dying
                    and hands.origin(array) not in others
                    and result not in self.changing
                    and array.shape == result.shape
                ):
                    hands.taken[result] = array
                    gone.add(array)
                    break

    def _is_there(self, array: Array, position: int) -> bool:
        """Whether an array is made before a position in the order."""
        form = array.form if isinstance(array, Result) else None
        return all(stage.form is not form for stage in self.stages[position:])

    def _of_update(self, lowered: LoweredStage, hands: InPlaceReuse) -> list[tuple[Array, Array]]:
        """The results of an update with their initial arrays; none where the update may not run in place."""
        starts = starts_of(lowered)
        if starts is None:
            return []
        why = _why_apart(
            lowered, [version for start in starts for version in hands.versions(start)], self.lowered_stages
        )
        if why is not None:
            if any(start in self.own for start in starts):
                hands.copied.append(Copied(lowered.stage.name, starts[0], why))
            return []
        return [(Result(lowered.form, k), start) for k, start in enumerate(starts)]  # type: ignore[arg-type]

    def _map(self, lowered: LoweredStage, position: int, hands: InPlaceReuse, gone: set[Array]) -> None:
        """Lets a map that makes a loop's next state take over the memory of a state, if each element reads the state at its own index
        alone. The state's own memory is tried first, as it then needs no swap."""
        result = Result(lowered.form, 0)  # type: ignore[arg-type]
        final = self._final(result)
        if final not in self.needed or not _is_plain_map(lowered):
            return
        own = tuple(axis.var for axis in lowered.stage.axes)
        shape = tuple(axis.extent for axis in lowered.stage.axes)
        loads = loads_in(*lowered.bodies)
        own_state = [self.states[final]] if final in self.states else []
        for array in dict.fromkeys((*own_state, *(load.array for load in loads))):
            alike = isinstance(array, Parameter) and array.dtype is result.dtype and array.shape == shape
            if (
                alike
                and all(load.indices == own and not load.checked for load in loads if load.array is array)
                and self._why_not(array, position, lowered.stage.name, gone, hands) is None
            ):
                hands.taken[result] = array
                gone.add(array)
                return

    def _final(self, array: Array) -> Array:
        """The array after the last of the successive updates of this body that change it."""
        for stage in self.stages:
            lowered = self.lowered_stages.get(stage.name)
            if lowered is not None and lowered.stage.update is not None and starts_of(lowered) == [array]:
                array = Result(lowered.form, 0)  # type: ignore[arg-type]
        return array

    def _why_not(
        self, array: Array, position: int, consumer: str, gone: set[Array], hands: InPlaceReuse
    ) -> Copied | None:
        """The reason why a consumer may not take over an array's memory; None where it may."""
        if array not in self.own:
            return Copied(consumer, array, NOT_ITS_OWN)
        if array in gone:
            return Copied(consumer, array, TAKEN)
        if array in self.needed:
            return Copied(consumer, array, RESULT_AS_WELL)
        reader = self._last_reader(array, position, consumer, hands)
        return None if reader is None else Copied(consumer, array, READ_LATER, reader.rstrip("/"))

    def _last_reader(self, array: Array, position: int, consumer: str, hands: InPlaceReuse) -> str | None:
        """The name of a stage that reads an array, or a predecessor in its memory, at or after a position, and might find it changed by the
        consumer there; None if there is none."""
        for reader in (each for version in hands.versions(array) for each in self.reads.get(version, ())):
            late = reader.position > position or (reader.position == position and reader.name != consumer)
            if late and not self._finds_unchanged(reader, consumer):
                return reader.name
        return None

    def _finds_unchanged(self, reader: Reader, consumer: str) -> bool:
        lowered = self.lowered_stages.get(consumer)
        if reader.load is None or reader.lowered is None or lowered is None or lowered.stage.update is None:
            return False
        return finds_unchanged(reader.load, reader.lowered, lowered, updates_of_lowered(lowered), self.host.placement)


def _is_whole(lowered: LoweredStage) -> bool:
    plan = lowered.plan
    return isinstance(plan.compute, Root) and not plan.layout and not plan.pad and plan.scope in ("", None, "heap")


def starts_of(lowered: LoweredStage) -> list[Array] | None:
    """The distinct arrays that are the initial values of an update's results; None where an initial value is anything else."""
    assert lowered.reduction is not None
    own = tuple(axis.var for axis in lowered.stage.axes)
    starts: list[Array] = []
    for start in initial_values(lowered.reduction):
        if not isinstance(start, Load) or start.indices != own or start.checked or start.array in starts:
            return None
        starts.append(start.array)
    return starts


def _why_apart(
    lowered: LoweredStage, starts: Sequence[Array], lowered_stages: Mapping[str, LoweredStage]
) -> str | None:
    """The reason why an update may not run in place; None where it may."""
    if not _is_whole(lowered) or lowered.plan.compute_with is not None:
        return NOT_WHOLE
    if _runs_with_others(lowered, lowered_stages):
        return SHARED_LOOPS
    updates = updates_of_lowered(lowered)
    if any(load.array in starts for load in loads_in(*updates.evaluated)):
        if lowered.overlaps:
            return OVERLAPPING
        if conflict(updates, starts) is not None:
            return CONFLICT
    return None


def _is_plain_map(lowered: LoweredStage) -> bool:
    """Whether a stage makes one value for each element, once, whole, in loops and memory of its own."""
    stage, plans = lowered.stage, (lowered.plan, *(branch.plan for branch in lowered.plan.instead))
    folds = lowered.reduction, stage.scan, stage.filter, stage.sort
    special = any(plan.strategy or plan.compute_with or plan.aligned for plan in plans)
    return len(lowered.bodies) == 1 and not any(folds) and not special and _is_whole(lowered) and not lowered.overlaps


def _runs_with_others(lowered: LoweredStage, lowered_stages: Mapping[str, LoweredStage]) -> bool:
    """Whether other stages are fused into a stage's loops."""
    hosts = (each.plan.compute_with for each in lowered_stages.values())
    return any(host is not None and host.stage == lowered.stage.name for host in hosts)


def updates_of_lowered(lowered: LoweredStage) -> ElementUpdates:
    """The iterations of an update as lowered, with inlined stages."""
    fold, update = lowered.reduction, lowered.stage.update
    assert fold is not None and update is not None
    count = len(fold.left)
    indices = iter(fold.values[count : count + sum(position is not None for position in update.index_values)])
    pairs = zip(lowered.stage.axes, update.index_values, strict=True)
    coordinates = tuple(axis.var if position is None else next(indices) for axis, position in pairs)
    mapped = tuple(
        axis for axis, position in zip(lowered.stage.axes, update.index_values, strict=True) if position is None
    )
    evaluated = (*fold.values, *fold.combine, *fold.neutral)
    return ElementUpdates((*mapped, *lowered.stage.reduction_axes), coordinates, evaluated, update.mode == "unique")


def _host_scalar(stage: ControlStage) -> Node:
    form = stage.form
    if isinstance(form, ArrayLoop):
        return form.count
    return form.condition if isinstance(form, ArrayWhile) else form.predicate
