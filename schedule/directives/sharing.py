"""`compute_with`: loop fusion. A stage is computed in the loops of another stage, its leader."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from raido.algo.graph import index
from raido.algo.graph.assumptions import Assumptions
from raido.schedule.directives.loops import no_loops_when_inlined
from raido.schedule.directives.placement import place_at, unplaced
from raido.schedule.directives.recorder import Name, Recorder, Self, rule
from raido.schedule.plan import At, Fuse, LoopPlan, Root, Split, StagePlan
from raido.schedule.refusal import Refusal, listed
from raido.schedule.stages.stage import ControlStage, Stage
from raido.schedule.state import State, axes_of, has_explicit_loops, is_reduction, position, put, reaches
from raido.schedule.strategies.table import strategy_name


class SharingDirectives(Recorder):
    """Directives that fuse loops."""

    __slots__ = ()

    def compute_with(self: Self, stage: Name, axis: Name) -> Self:
        """Computes this stage in the loops of another (the leader), from the outermost down to `axis` (loop fusion).

        stage: a sibling (neither reads the other), or a stage that this one reads only where the same iteration produces it; the value is
        then passed in a register. axis: a loop of that stage, the innermost one of a scan. The leading axes of both are matched in order,
        must have equal extents, and take over the leader's splits and order. So the order of directives is: all loops of the leader, then
        `compute_with`, then loops of this stage inside the shared ones.

        before   for x: y[x] = …
                 for r: sum += y[r]
        after    for x: y[x] = …;  sum += y[x]            s["sum"].compute_with("y", "x")

        >>> s = both.schedule()
        >>> view = s["y"].split("x", 8)
        >>> s["sum"].compute_with("y", "xi").axes
        ('ro', 'ri')

        Refuses a second placement, loop directives given before, axes that do not match, and reads of other iterations.
        """
        return self._record("compute_with", stage=stage, axis=axis)


@rule('compute stage "{guest}" with loop "{axis}" of "{stage}"')
def apply_compute_with(state: State, fused_stage: str, stage: str, axis: str) -> State:
    no_loops_when_inlined(state, fused_stage)
    plan = unplaced(state, fused_stage)
    at = place_at(state, fused_stage, stage, axis)
    owner = state.plans[at.stage].compute_with
    if owner is not None:
        raise Refusal(f'"{at.stage}" shares the loops of "{owner.stage}" itself', f'compute_with("{owner.stage}", …)')
    if has_explicit_loops(state, fused_stage):
        raise Refusal(
            f'"{fused_stage}" has loop directives of its own, and a fused stage takes over those of its leader "{at.stage}"',
            f'all loop directives of "{at.stage}" first, then s["{fused_stage}"].compute_with("{at.stage}", …) with no loops of '
            f'"{fused_stage}" before it, '
            "then directives for the loops inside the shared ones",
        )
    if state.attached.get(fused_stage):
        placed = state.attached[fused_stage][0].stage
        raise Refusal(
            f'"{placed}" is placed at a loop of "{fused_stage}"',
            f'all loop directives of "{at.stage}" first, then s["{fused_stage}"].compute_with("{at.stage}", …), then place "{placed}", '
            f'at "{at.stage}" where the loop is shared',
        )
    if state.uses.scope[fused_stage] != state.uses.scope[at.stage]:
        raise Refusal(f'"{at.stage}" and "{fused_stage}" are not in the same loop over whole arrays')
    if part_of_control(state, fused_stage) != part_of_control(state, at.stage):
        raise Refusal(f'"{at.stage}" runs in another part of "{state.uses.scope[fused_stage]}"')
    if reaches(state, at.stage, fused_stage):
        raise Refusal(f'"{at.stage}" reads "{fused_stage}"', f's["{fused_stage}"].compute_at("{at.stage}", "{axis}")')
    for owner in (fused_stage, at.stage):
        if strategy_name(state, owner) not in ("", "rows") and not is_pass_of_scan(state, fused_stage, at):
            raise Refusal(
                f'the strategy of "{owner}" decides its loops, so no other stage can share them',
                f's["{fused_stage}"].root()',
            )
    leader, leader_plan = state.stage(at.stage), state.plan(at.stage)
    shared = [loop.name for loop in leader_plan.loops[: position(leader_plan, axis) + 1]]
    matched = match_axes(state.stage(fused_stage), leader, leader_plan, shared)
    adopted = adopt(plan, leader_plan, matched, shared)
    for relation in adopted.relations:
        if isinstance(relation, Fuse):
            kinds = {is_reduction(state.stage(fused_stage), adopted, part) for part in (relation.outer, relation.inner)}
            if len(kinds) > 1:
                raise Refusal(
                    f'a fused loop of "{at.stage}" would run over "{relation.outer}" and "{relation.inner}" of "{fused_stage}" at once, '
                    "and one of them is a reduction axis"
                )
    return put(state, replace(adopted, compute=Root(), compute_with=at), "placement", "loops")


def is_pass_of_scan(state: State, fused_stage: str, at: At) -> bool:
    """Whether a stage without a fold would run in the innermost loop of a scan, in the pass that stores its results."""
    leader, plan = state.stage(at.stage), state.plan(at.stage)
    plain = state.stage(fused_stage).reduction is None and strategy_name(state, fused_stage) in ("", "rows")
    return leader.scan is not None and plain and state.gpu is None and at.loop == plan.loops[-1].name


def part_of_control(state: State, name: str) -> str:
    """Returns the part of the array loop or conditional around it that a stage belongs to: "setup", "body" or "orelse"; "" at the top
    level.
    """
    control = state.uses.stages.get(state.uses.scope[name])
    parts = ("setup", "body", "orelse") if isinstance(control, ControlStage) else ()
    return next((part for part in parts if any(s.name == name for s in getattr(control, part))), "")


def match_axes(fused_stage: Stage, leader: Stage, leader_plan: StagePlan, shared: list[str]) -> dict[str, str]:
    """Maps each axis of the leader that the shared loops come from to the fused stage's axis, leading axes in order. Refuses unequal
    extents.
    """
    assumptions = Assumptions()
    needed = {own for loop in shared for own in axes_of(leader_plan, loop)}
    matched: dict[str, str] = {}
    for theirs, ours in zip(leader.all_axes, fused_stage.all_axes, strict=False):
        if not assumptions.equal(theirs.extent, ours.extent):
            if theirs.name in needed:
                raise Refusal(
                    f'axis "{ours.name}" of "{fused_stage.name}" has {index.text(ours.extent)} indices, '
                    f'axis "{theirs.name}" of "{leader.name}" has {index.text(theirs.extent)}'
                )
            break
        matched[theirs.name] = ours.name
    missing = needed - set(matched)
    if missing:
        raise Refusal(
            f'"{fused_stage.name}" has no axis to match "{sorted(missing)[0]}" of "{leader.name}"',
            axes=listed(a.name for a in fused_stage.all_axes),
        )
    return {theirs: ours for theirs, ours in matched.items() if theirs in needed}


def adopt(plan: StagePlan, leader: StagePlan, matched: dict[str, str], shared: list[str]) -> StagePlan:
    """Returns the fused stage's plan with the leader's splits and order on the matched axes, shared loops first, then its other ones."""
    names = dict(matched)
    relations: list[Split | Fuse] = []
    taken = {loop.name for loop in plan.loops}

    def rename(theirs: str) -> str:
        if theirs not in names:
            new = next(
                (ours + theirs[len(axis) :] for axis, ours in matched.items() if theirs.startswith(axis)), theirs
            )
            while new in taken:
                new += "_"
            taken.add(new)
            names[theirs] = new
        return names[theirs]

    for relation in leader.relations:
        if isinstance(relation, Split) and relation.parent in names:
            relations.append(
                Split(
                    names[relation.parent],
                    rename(relation.outer),
                    rename(relation.inner),
                    relation.factor,
                    relation.tail,
                )
            )
        elif isinstance(relation, Fuse) and relation.outer in names and relation.inner in names:
            relations.append(Fuse(names[relation.outer], names[relation.inner], rename(relation.into)))
    live = loops_after(list(matched.values()), relations)
    adopted = [loop for loop in leader.loops if names.get(loop.name) in live]
    adopted.sort(key=lambda loop: loop.name not in shared)
    loops = [LoopPlan(names[loop.name], tail=loop.tail) for loop in adopted]
    loops += [LoopPlan(name) for name in live if name not in {loop.name for loop in loops}]
    own = [loop for loop in plan.loops if loop.name not in matched.values()]
    return replace(plan, relations=tuple(relations), loops=(*loops, *own))


def loops_after(names: list[str], relations: Iterable[Split | Fuse]) -> list[str]:
    """Returns the loops that axes have become after splits and fusions, axis by axis, outer halves first."""
    for relation in relations:
        if isinstance(relation, Split) and relation.parent in names:
            at = names.index(relation.parent)
            names = [*names[:at], relation.outer, relation.inner, *names[at + 1 :]]
        elif isinstance(relation, Fuse) and relation.outer in names:
            names = [relation.into if name == relation.outer else name for name in names if name != relation.inner]
    return names


def follow_leaders(state: State) -> State:
    """Returns the state in which shared loops have the final kinds of their leaders' loops."""
    for plan in state.plans.values():
        if plan.compute_with is None:
            continue
        leader = state.plans[plan.compute_with.stage]
        count = position(leader, plan.compute_with.loop) + 1
        kinds = tuple(
            replace(theirs, name=own.name) for own, theirs in zip(plan.loops[:count], leader.loops, strict=False)
        )
        state = put(state, replace(plan, loops=(*kinds, *plan.loops[count:])))
    return state
