"""Invariants of a schedule's state, checked after every directive: placements enclose readers, threads and lanes nest, windows can slide.

A directive checks what it changes; these checks find what it breaks elsewhere (a loop made parallel under which another stage slides).
"""

from __future__ import annotations

from raido.schedule.checks.branches import check_branches
from raido.schedule.checks.copies_ahead import check_copies_ahead
from raido.schedule.checks.groups import check_groups
from raido.schedule.checks.lanes_along_folds import check_lanes
from raido.schedule.checks.levels import all_loops, check_levels, is_scanned_in_pieces, level_of
from raido.schedule.checks.matrix_units import check_matrix
from raido.schedule.checks.warpgroups import check_warpgroup
from raido.schedule.directives.placement import check_encloses_readers
from raido.schedule.plan import At, Fuse, Root, Split
from raido.schedule.refusal import Refusal, listed
from raido.schedule.state import (
    State,
    arrays_read,
    enclosing_loops,
    is_inlined,
    is_reduction,
    loops_from,
    position,
    readers_of,
    shared_count,
)
from raido.schedule.strategies.parts import check_parts
from raido.schedule.strategies.table import (
    check_flat,
    check_scan,
    check_sort,
    check_triangle,
    check_update,
    strategy_name,
)

INSIDE_NO_OTHERS = (
    ("parallel", "parallel"),
    ("bound", "bound"),
    ("vector", "vectorized"),
    ("unroll", "unrolled"),
    ("matrix", "tensorized"),
)


def check_state(state: State, before: State) -> None:
    """Refuses a state that breaks an invariant; `before` is the state one directive earlier, which breaks none."""
    for name in stages_to_check(state, before):
        plan = state.plans[name]
        if is_inlined(state, name):
            if plan.instead:
                raise Refusal(
                    f'"{name}" has branches (`when`), and an inlined stage has no loops to choose between',
                    f's["{name}"].root()',
                )
            continue
        if isinstance(plan.compute, At) and plan.compute_with is None:
            check_encloses_readers(state, name, plan.compute)
        check_nesting(state, name)
        check_levels(state, name)
        check_chunks(state, name)
        check_matrix(state, name)
        check_warpgroup(state, name)
        check_copies_ahead(state, name)
        check_lanes(state, name)
        check_scan(state, name)
        check_update(state, name)
        check_sort(state, name)
        check_flat(state, name)
        check_triangle(state, name)
        check_parts(state, name)
        check_branches(state, name)
        check_alignment(state, name)
        for prefetch in plan.prefetches:
            if prefetch.array not in arrays_read(state, name):
                raise Refusal(
                    f'"{name}" prefetches "{prefetch.array}", which it would no longer read',
                    "give the prefetch after this directive",
                )
        if plan.store is not None:
            check_window(state, name)
    check_groups(state)


def check_alignment(state: State, name: str) -> None:
    """Refuses aligned loops of stages that slide or share loops, whose start is fixed otherwise."""
    plan = state.plans[name]
    if plan.aligned and plan.store is not None:
        raise Refusal(
            f'"{name}" is aligned, but each iteration of a sliding window starts where the previous one ended',
            f's["{name}"].root()',
        )
    with_ = plan.compute_with
    if with_ is not None and (plan.aligned or state.plans[with_.stage].aligned):
        whose = name if plan.aligned else with_.stage
        raise Refusal(
            f'"{whose}" is aligned, and shared loops cannot be aligned for one stage alone', f's["{name}"].root()'
        )


def stages_to_check(state: State, before: State) -> list[str]:
    """Returns the stages for which a directive may have broken an invariant.

    These are the stages whose plans changed, the stages computed inside their loops, the stages that all of these read, which must enclose
    their readers, and the readers of the changed ones, whose prefetches may have lost their array.
    """
    if state.uses is not before.uses:
        return list(state.plans)
    old = before.plans
    changed = [name for name, plan in state.plans.items() if plan is not old.get(name)]
    found: dict[str, None] = {}
    grown = list(changed)
    while grown:
        found.update(dict.fromkeys(grown))
        grown = [each for name in grown for each in state.nested.get(name, ()) if each not in found]
    for name in list(found):
        found.update(dict.fromkeys(arrays_read(state, name)))
    for name in changed:
        found.update(dict.fromkeys(readers_of(state, name)))
    return [name for name in state.plans if name in found]


def check_nesting(state: State, name: str) -> None:
    """Refuses two nested parallel or vector loops, and parallel loops inside vector or unrolled ones.

    Loops bound to a GPU's blocks and threads may nest in one another, but not with parallel ones.
    """
    above: dict[str, tuple[str, str]] = {}
    for stage, loop in all_loops(state, name):
        if loop.kind == "parallel":
            own = "bound" if loop.level else "parallel"
            for kind, words in INSIDE_NO_OTHERS:
                if kind in above and not (kind == own == "bound"):  # see `check_levels`
                    owner, outer = above[kind]
                    remedy = f'fuse "{outer}" and "{loop.name}"' if kind == own and owner == stage else None
                    raise Refusal(
                        f'{own} loop "{loop.name}" of "{stage}" would run inside {words} loop "{outer}" of "{owner}"',
                        remedy,
                    )
        if loop.kind == "vector" and "vector" in above:
            owner, outer = above["vector"]
            raise Refusal(
                f'vectorized loop "{loop.name}" of "{stage}" would run inside vectorized loop "{outer}" of "{owner}"'
            )
        above["bound" if loop.level else loop.kind] = (stage, loop.name)


def check_chunks(state: State, name: str) -> None:
    """Refuses a parallel reduction loop inside another loop of the same reduction: its chunks would share one accumulator.

    The threads of a GPU's block have accumulators of their own.
    """
    stage, plan = state.stage(name), state.plans[name]
    if stage.scan is not None:
        return
    leader = plan.compute_with and state.plans[plan.compute_with.stage]
    shared = leader.loops[: shared_count(state, name)] if leader else ()
    running = (*shared, *plan.loops[len(shared) :])
    folding = [loop for loop, own in zip(running, plan.loops, strict=True) if is_reduction(stage, plan, own.name)]
    for k, loop in enumerate(folding[1:], 1):
        threads = level_of(loop) == "thread" and not any(level_of(each) == "thread" for each in folding[:k])
        if loop.kind == "parallel" and not threads:
            outer = folding[0].name
            raise Refusal(
                f'parallel loop "{loop.name}" of "{name}" would run inside "{outer}", a loop of the same reduction',
                f'parallel("{outer}"), or reorder "{loop.name}" outside it',
            )


def check_window(state: State, name: str) -> None:
    """Refuses a sliding window over iterations that run concurrently, and one at a loop that does not enclose the computation."""
    plan = state.plans[name]
    around = enclosing_loops(state, name)
    start = 0
    if isinstance(plan.store, At):
        here = (plan.store.stage, plan.store.loop)
        if here not in around:
            there = listed(f'"{stage}" {loop}' for stage, loop in around)
            raise Refusal(
                f'"{name}" is not computed inside loop "{plan.store.loop}" of "{plan.store.stage}"', places=there
            )
        start = around.index(here) + 1
    for stage, loop in around[start:]:
        check_slides_along(state, name, stage, loop)
        in_pieces = is_scanned_in_pieces(state.stage(stage), state.plans[stage])
        if in_pieces or strategy_name(state, stage) not in ("", "serial", "rows"):
            raise Refusal(
                f'"{name}" would be kept over iterations of "{stage}", which the strategy of "{stage}" runs twice',
                f'store "{name}" at "{loop}"',
            )
        kind = state.plans[stage].loops[position(state.plans[stage], loop)].kind
        if kind in ("parallel", "vector"):
            word = "vectorized" if kind == "vector" else kind
            inner = "root" if isinstance(plan.store, Root) else f'"{plan.store.loop}"'  # type: ignore[union-attr]
            raise Refusal(
                f'"{name}" is kept at {inner} over iterations of {word} loop "{loop}" of "{stage}", which run at the same time',
                f'store "{name}" inside "{loop}"',
            )


def check_slides_along(state: State, name: str, stage: str, loop: str) -> None:
    """Refuses to slide along a loop whose index goes back, or that is fused."""
    for relation in state.plans[stage].relations:
        if isinstance(relation, Fuse) and relation.into == loop:
            raise Refusal(
                f'"{name}" would slide along "{loop}", which runs over "{relation.outer}" and "{relation.inner}" at once'
            )
        if not isinstance(relation, Split):
            continue
        outer, inner = loops_from(state.plans[stage], relation.outer), loops_from(state.plans[stage], relation.inner)
        if loop in (*outer, *inner) and position(state.plans[stage], inner[0]) < position(
            state.plans[stage], outer[-1]
        ):
            raise Refusal(f'"{name}" would slide along "{loop}", but "{inner[0]}" stands outside "{outer[-1]}"')
        if loop == relation.inner and relation.tail == "shift":
            raise Refusal(
                f'"{name}" would slide along "{loop}", whose tail "shift" goes back to values that are no longer kept',
                'tail "mask"',
            )
