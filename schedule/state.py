"""The state of a schedule: the plans after some directives, and queries on them.

A `State` is immutable; each directive's rule returns a new one. The functions here only look up: which loops a stage has, which axes they
come from, what runs inside them. Directives, defaults and the list of legal directives share them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from raido.algo.graph import index
from raido.algo.graph.expr import Axis, Expr, Load
from raido.schedule.machine import Gpu
from raido.schedule.plan import At, Fuse, Inline, LoopPlan, Split, StagePlan
from raido.schedule.refusal import Refusal, listed
from raido.schedule.stages.reads import Uses, find_uses, loads_of
from raido.schedule.stages.stage import AnyStage, ControlStage, Stage, StageGraph


@dataclass(frozen=True, slots=True)
class State:
    """The stage graph (copies made by `clone` and `cache` included), a plan for every stage, and the set of explicit decisions.

    `decided` holds (stage, decision) pairs; decisions are "placement", "store", "loops", "layout", "scope", "pad", "buffers", "stream",
    "hints" and "strategy". `gpu`: the GPU that the program is scheduled for, None for a CPU. `array_loops`: the plans of those array loops
    that have directives.
    """

    graph: StageGraph
    uses: Uses
    plans: dict[str, StagePlan]
    decided: frozenset[tuple[str, str]] = frozenset()
    gpu: Gpu | None = None
    array_loops: Mapping[str, StagePlan] = field(default_factory=dict)
    _attached: Mapping[str, Sequence[StagePlan]] | None = field(default=None, init=False, repr=False, compare=False)
    _nested: Mapping[str, Sequence[str]] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def attached(self) -> Mapping[str, Sequence[StagePlan]]:
        """Maps a stage to the plans of the stages computed, stored or fused at its loops, in order; computed once."""
        if self._attached is None:
            found: dict[str, dict[str, StagePlan]] = {}
            for plan in self.plans.values():
                for at in (plan.compute, plan.store, plan.compute_with):
                    if type(at) is At:
                        found.setdefault(at.stage, {})[plan.stage] = plan
            object.__setattr__(self, "_attached", {stage: tuple(plans.values()) for stage, plans in found.items()})
        return self._attached or {}

    @property
    def nested(self) -> Mapping[str, Sequence[str]]:
        """Maps a stage to the names of the stages computed or fused at its loops; computed once for all states between two placements."""
        if self._nested is not None:
            return self._nested
        found: dict[str, list[str]] = {}
        for name, plan in self.plans.items():
            at = plan.compute_with or plan.compute
            if type(at) is At:
                found.setdefault(at.stage, []).append(name)
        object.__setattr__(self, "_nested", found)
        return found

    def stage(self, name: str) -> Stage:
        """Returns the stage of that full name; refuses array loops and conditionals, which have no loops of their own."""
        stage = self.uses.stages[name]
        if isinstance(stage, ControlStage):
            raise no_loops_of(stage)
        return stage

    def plan(self, name: str) -> StagePlan:
        """Returns the plan of the stage of that full name."""
        self.stage(name)
        return self.plans[name]


def no_loops_of(stage: ControlStage, remedy: str | None = None) -> Refusal:
    """Returns the refusal of a loop directive for an array loop or a conditional."""
    body = listed(inner.name for inner in stage.body)
    why = f'"{stage.name}" runs whole stages and has no axes; the stages of its body have'
    return Refusal(why, remedy, stages=body)


def initial_state(graph: StageGraph, gpu: Gpu | None = None) -> State:
    """Returns the state before any directive: every stage is computed whole, before its readers, with its own axes as serial loops."""
    uses = find_uses(graph)
    plans = {name: plain_plan(stage) for name, stage in uses.stages.items() if isinstance(stage, Stage)}
    return State(graph, uses, plans, gpu=gpu)


def plain_plan(stage: Stage) -> StagePlan:
    """Returns the plan of a stage without directives."""
    return StagePlan(stage.name, loops=tuple(LoopPlan(axis.name) for axis in stage.all_axes))


def put(state: State, plan: StagePlan, *decisions: str) -> State:
    """Returns the state with one stage's plan replaced and some decisions about it marked as explicit."""
    decided = state.decided | {(plan.stage, decision) for decision in decisions}
    after = replace(state, plans={**state.plans, plan.stage: plan}, decided=decided)
    old = state.plans[plan.stage]
    if (plan.compute, plan.compute_with) == (old.compute, old.compute_with):
        object.__setattr__(after, "_nested", state._nested)
    return after


def resolve(stages: dict[str, AnyStage], name: object) -> str:
    """Returns the full name of the stage called `name`; the last part of a path suffices where it is unique. Refuses unknown and ambiguous
    names.
    """
    if isinstance(name, str):
        if name in stages:
            return name
        for full, stage in stages.items():
            if name in stage.names:
                return full
        ends = [full for full in stages if full.endswith("/" + name)]
        if len(ends) == 1:
            return ends[0]
        if ends:
            raise Refusal(f'"{name}" could be any of {listed(ends)}', "give more of the path", stages=listed(stages))
    raise Refusal(f'there is no stage "{name}"', nearest(str(name), stages), stages=listed(stages))


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Returns the closest of `names` to a misspelt name, in quotes; None where none is close."""
    import difflib

    close = difflib.get_close_matches(name, list(names), 1)
    return f'"{close[0]}"' if close else None


def loop_of(state: State, stage: str, name: object) -> LoopPlan:
    """Returns the stage's loop of that name; refuses a loop that was split or fused, naming its successors, and an unknown one."""
    plan = state.plan(stage)
    for loop in plan.loops:
        if loop.name == name:
            return loop
    there = listed(loop.name for loop in plan.loops)
    for relation in plan.relations:
        if isinstance(relation, Split) and relation.parent == name:
            parts = " or ".join(f'"{part}"' for part in loops_from(plan, relation.parent))
            raise Refusal(f'"{name}" was split into "{relation.outer}" and "{relation.inner}"', parts, axes=there)
        if isinstance(relation, Fuse) and name in (relation.outer, relation.inner):
            raise Refusal(f'"{name}" was fused into "{relation.into}"', f'"{relation.into}"', axes=there)
    raise Refusal(f'stage "{stage}" has no axis "{name}"', nearest(str(name), there.split(", ")), axes=there)


def position(plan: StagePlan, loop: str) -> int:
    """Returns the depth of a loop, 0 for the outermost."""
    return next(i for i, each in enumerate(plan.loops) if each.name == loop)


def with_loop(plan: StagePlan, loop: LoopPlan) -> StagePlan:
    """Returns the plan with the loop of that name replaced."""
    return replace(plan, loops=tuple(loop if each.name == loop.name else each for each in plan.loops))


def axes_of(plan: StagePlan, name: str) -> tuple[str, ...]:
    """Returns the stage's own axes that a loop was made of by splits and fusions."""
    names = [name]
    for relation in reversed(plan.relations):
        if isinstance(relation, Split):
            names = [relation.parent if each in (relation.outer, relation.inner) else each for each in names]
        elif relation.into in names:
            at = names.index(relation.into)
            names[at : at + 1] = relation.outer, relation.inner
    return tuple(dict.fromkeys(names))


def loops_from(plan: StagePlan, name: str) -> tuple[str, ...]:
    """Returns the current loops made of an axis or of an earlier loop, outermost first."""
    live = {name}
    for relation in plan.relations:
        if isinstance(relation, Split) and relation.parent in live:
            live |= {relation.outer, relation.inner}
        elif isinstance(relation, Fuse) and live & {relation.outer, relation.inner}:
            live.add(relation.into)
    return tuple(loop.name for loop in plan.loops if loop.name in live)


def known_names(stage: Stage, plan: StagePlan) -> set[str]:
    """Returns every name that an axis or loop of the stage has or had."""
    names = {axis.name for axis in stage.all_axes} | {loop.name for loop in plan.loops}
    for relation in plan.relations:
        if isinstance(relation, Split):
            names |= {relation.parent, relation.outer, relation.inner}
        else:
            names |= {relation.outer, relation.inner, relation.into}
    return names


def trip_count(stage: Stage, plan: StagePlan, name: str) -> Expr:
    """Returns the number of iterations of a loop; of the inner half of a split, an upper bound."""
    for relation in reversed(plan.relations):
        earlier = replace(plan, relations=plan.relations[: plan.relations.index(relation)])
        if isinstance(relation, Split) and name == relation.inner:
            whole = index.constant_value(trip_count(stage, earlier, relation.parent))
            return index.as_index(relation.factor if whole is None else max(1, min(whole, relation.factor)))
        if isinstance(relation, Split) and name == relation.outer:
            return index.ceildiv(trip_count(stage, earlier, relation.parent), relation.factor)
        if isinstance(relation, Fuse) and name == relation.into:
            outer = trip_count(stage, earlier, relation.outer)
            return index.mul(outer, trip_count(stage, earlier, relation.inner))
    return axis_named(stage, name).extent


def stride_of(plan: StagePlan, name: str) -> int:
    """Returns the stride of a loop: the number of indices of its axis by which an iteration advances; 1 for a fused loop."""
    for relation in reversed(plan.relations):
        if isinstance(relation, Split) and name in (relation.inner, relation.outer):
            earlier = replace(plan, relations=plan.relations[: plan.relations.index(relation)])
            return stride_of(earlier, relation.parent) * (relation.factor if name == relation.outer else 1)
        if isinstance(relation, Fuse) and name == relation.into:
            return 1
    return 1


def axis_named(stage: Stage, name: str) -> Axis:
    """Returns the stage's own axis of that name."""
    return next(axis for axis in stage.all_axes if axis.name == name)


def is_reduction(stage: Stage, plan: StagePlan, loop: str) -> bool:
    """Whether a loop runs over a reduction axis."""
    reduced = {axis.name for axis in stage.reduction_axes}
    return bool(reduced) and any(axis in reduced for axis in axes_of(plan, loop))


def shared_count(state: State, name: str) -> int:
    """Returns the number of the stage's outermost loops that belong to its leader (`compute_with`); 0 without one."""
    with_ = state.plans[name].compute_with
    return 0 if with_ is None else position(state.plans[with_.stage], with_.loop) + 1


def enclosing_loops(state: State, name: str) -> tuple[tuple[str, str], ...]:
    """Returns the loops of other stages around a stage's computation, outermost first, as (stage, loop) pairs."""
    plan = state.plans[name]
    at = plan.compute_with or (plan.compute if isinstance(plan.compute, At) else None)
    if at is None:
        return ()
    outer = state.plans[at.stage]
    own = outer.loops[shared_count(state, at.stage) : position(outer, at.loop) + 1]
    return enclosing_loops(state, at.stage) + tuple((at.stage, loop.name) for loop in own)


def compute_sites(plan: StagePlan) -> Iterator[At]:
    """Yields the loops of other stages at which a plan is computed, stored or fused."""
    for at in (plan.compute, plan.store, plan.compute_with):
        if isinstance(at, At):
            yield at


def head_of(state: State, reader: str) -> str:
    """Returns the stage in whose loops a reader is computed, alone or with its leader, or the reader where it is computed whole."""
    if (leader := state.plans[reader].compute_with) is not None:
        return head_of(state, leader.stage)
    at = state.plans[reader].compute
    return at.stage if isinstance(at, At) else reader


def placed_at(state: State, stage: str, loop: str) -> tuple[str, ...]:
    """Returns the stages that are computed or stored at a loop of `stage`, or share it."""
    found = []
    for plan in state.attached.get(stage, ()):
        for at in compute_sites(plan):
            shares = plan.compute_with is at and loop in {
                each.name for each in state.plans[stage].loops[: position(state.plans[at.stage], at.loop) + 1]
            }
            if at.stage == stage and (at.loop == loop or shares):
                found.append(plan.stage)
    return tuple(dict.fromkeys(found))


def is_inlined(state: State, name: str) -> bool:
    """Whether a stage is computed in the expressions that read it."""
    return name in state.plans and isinstance(state.plans[name].compute, Inline)


def stages_read(state: State, loads: Iterable[Load]) -> set[str]:
    """Returns the stages that loads read, directly or through inlined stages."""
    found: set[str] = set()
    waiting = list(loads)
    while waiting:
        name = state.uses.names.get(getattr(waiting.pop().array, "form", None), "")  # type: ignore[call-overload]
        if name not in found:
            found.add(name)
            waiting += loads_of(state.stage(name)) if is_inlined(state, name) else ()
    return found


def readers_of(state: State, name: str) -> tuple[str, ...]:
    """Returns the stages that read a stage, directly or through inlined stages; array loops and conditionals included."""
    found: dict[str, None] = {}
    for reader in state.uses.readers.get(name, ()):
        if is_inlined(state, reader):
            found.update(dict.fromkeys(readers_of(state, reader)))
        else:
            found[reader] = None
    return tuple(found)


def arrays_read(state: State, name: str) -> tuple[str, ...]:
    """Returns the names of the arrays that a stage reads, directly or through the stages inlined into it."""
    found: dict[str, None] = {}
    for array in state.uses.loads.get(name, {}):
        found.update(dict.fromkeys(arrays_read(state, array) if is_inlined(state, array) else (array,)))
    found.pop("", None)
    return tuple(found)


def has_explicit_loops(state: State, name: str) -> bool:
    """Whether the stage has a loop directive."""
    return (name, "loops") in state.decided


def reaches(state: State, reader: str, producer: str) -> bool:
    """Whether `reader` depends on `producer`, directly or through other stages."""
    return reader in state.uses.reached_from(producer)
