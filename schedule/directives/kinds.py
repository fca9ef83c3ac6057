"""Directives that decide how a loop runs: tail, vectorize, unroll, parallel."""

from __future__ import annotations

from dataclasses import replace

from raido.algo.graph import index
from raido.schedule.checks.lanes_along_folds import lanes_of_blocks
from raido.schedule.directives.loops import (
    apply_reorder,
    apply_split,
    free_loop,
    kind_words,
    new_names,
    no_loops_when_inlined,
    refuse_shared,
)
from raido.schedule.directives.recorder import Name, Number, Recorder, Self, one_of, positive, rule
from raido.schedule.plan import EDGE, LoopPlan, Split
from raido.schedule.refusal import Refusal
from raido.schedule.stages.symmetry import is_reduction_alone
from raido.schedule.state import State, is_reduction, loop_of, put, trip_count, with_loop
from raido.schedule.strategies.parameters import grain_of_partials
from raido.schedule.strategies.table import strategies_of

TAILS = ("mask", "shift", "scalar", "exact")
IDEMPOTENT = ("minimum", "maximum", "logical_and", "logical_or", "bit_and", "bit_or")
MOST_LANES = 64
MOST_UNROLLED = 256  # iterations of an unrolled loop: at 16 instructions of 8 bytes each, they fill an L1 of 32 KiB


class KindDirectives(Recorder):
    """Directives that decide how a loop runs."""

    __slots__ = ()

    def tail(self: Self, axis: Name, kind: Name) -> Self:
        """Decides how the last, incomplete iteration of a vector loop, or the last tile of a split axis, is done.

        axis: a loop, or an axis that was split. kind: "mask" (lanes beyond the end are off), "shift" (the last tile starts earlier and
        overlaps the one before), "scalar" (one index at a time), "exact" (there is none; checked at the call).

        before   for xi in xo..min(xo + 8, w)
        after    for xi in min(xo, w - 8)..min(xo, w - 8) + 8            .tail("xi", "shift")

        >>> blur.schedule()["cols"].split("x", 8).tail("xi", "shift").plan.relations
        (Split(parent='x', outer='xo', inner='xi', factor=8, tail='shift'),)

        Refuses a second tail for one axis, and "shift" where values would be folded twice.
        """
        return self._record("tail", axis=axis, kind=kind)

    def vectorize(self: Self, axis: Name, lanes: Number | None = None, interleave: Number = 1) -> Self:
        """Runs a loop as gangs of lanes (SPMD): divergent control flow is masked, loops inside run once per gang.

        axis: any loop, innermost or not. lanes: a power of two of at most 64; as many as a register of the widest element type holds unless
        given. interleave: gangs that run side by side, 1 to 16.

        before   for x in 0..w
        after    for x in 0..w by vector 16

        >>> [(loop.name, loop.kind) for loop in blur.schedule()["cols"].vectorize("x", interleave=2).plan.loops]
        [('y', 'serial'), ('x', 'vector')]

        On a reduction axis each lane keeps a partial result, and the lanes are combined in a fixed tree. A lane folds every eighth value,
        say, or, under an operator that is not commutative, a block of consecutive iterations (eight lanes unless given; the remaining
        values are folded in order).

        Refuses a second vectorized loop, a loop that already has a kind, a parallel loop inside, and a fold whose operator branches, loops,
        reads or may fail, or differs from element to element.
        """
        return self._record("vectorize", axis=axis, lanes=lanes, interleave=interleave)

    def unroll(self: Self, axis: Name, factor: Number | None = None, edge: Number = EDGE) -> Self:
        """Unrolls a loop and jams the instances (unroll-and-jam): they run side by side in the loops inside, and share loads and
        subexpressions.

        axis: a loop with a constant number of iterations (at most 256), or any loop when there is a factor. factor: unrolled instances; the
        loop is first split by it and the inner half made innermost: `unroll("y", 4)` is `split("y", 4)`, `yi` innermost, `unroll("yi")`.
        edge: rows of a register tile that are computed together where the edge of an array leaves fewer than the whole tile.

        before   for y in 0..h: for x in 0..w
        after    for yo in 0..h step 4: for x in 0..w: yi = yo, yo + 1, yo + 2, yo + 3

        >>> blur.schedule()["cols"].unroll("y", 4).axes
        ('yo', 'x', 'yi')

        Refuses when the number of iterations is not constant or large, or the loop already has a kind.
        """
        return self._record("unroll", axis=axis, factor=factor, edge=edge)

    def parallel(self: Self, axis: Name, grain: Number | None = None, dynamic: bool = False) -> Self:
        """Distributes the iterations of a loop over threads; on a GPU over blocks and their threads, in default numbers (`bind` decides
        them).

        axis: a loop; on a reduction axis each chunk keeps a partial result, combined in order, whatever the number of threads. grain: the
        least number of iterations that a thread takes at a time; of a reduction loop that no split has cut into chunks, the iterations of a
        chunk, 4096 unless given. dynamic: chunks are distributed as threads become free, some hundred to each thread, instead of evenly
        beforehand.

        before   for y in 0..h
        after    parallel y in 0..h

        >>> [(loop.name, loop.kind) for loop in blur.schedule()["cols"].parallel("y").plan.loops]
        [('y', 'parallel'), ('x', 'serial')]

        Refuses when a loop around or inside is already parallel, a loop around is vectorized or unrolled, or the loop already has a kind.
        """
        return self._record("parallel", axis=axis, grain=grain, dynamic=dynamic)


@rule('set the tail of axis "{axis}" of stage "{stage}"')
def apply_tail(state: State, stage: str, axis: str, kind: str) -> State:
    no_loops_when_inlined(state, stage)
    one_of(kind, "a tail", TAILS)
    plan = state.plan(stage)
    splits = [r for r in plan.relations if isinstance(r, Split) and axis in (r.parent, r.inner)]
    name = axis
    for relation in splits:
        if relation.parent == axis:
            name = relation.inner
    if not splits or name == axis:
        loop_of(state, stage, axis)
    here = [loop for loop in plan.loops if loop.name == name]
    if any(each.tail != "default" for each in (*splits, *here)):
        raise Refusal(
            f'the tail of "{axis}" is already "{(*splits, *here)[0].tail}"', "remove one of the two directives"
        )
    refuse_shared(state, stage, [loop.name for loop in here])
    reduction = state.stage(stage).reduction
    folds = reduction is not None and is_reduction(state.stage(stage), plan, name)
    stepwise = not is_reduction_alone(state.stage(stage)) and bool(strategies_of(state.stage(stage)))
    if kind == "shift" and folds and reduction is not None and (stepwise or reduction.monoid not in IDEMPOTENT):
        raise Refusal(
            f'tail "shift" repeats iterations of "{axis}", whose values would be folded twice',
            f'tail("{axis}", "mask")',
        )
    relations = tuple(replace(r, tail=kind) if r in splits else r for r in plan.relations)
    plan = replace(plan, relations=relations)
    for loop in here:
        plan = with_loop(plan, replace(loop, tail=kind))
    return put(state, plan, "loops")


@rule('vectorize axis "{axis}" of stage "{stage}"', positional=("lanes",))
def apply_vectorize(state: State, stage: str, axis: str, lanes: int | None = None, interleave: int = 1) -> State:
    loop = kindless(state, stage, axis)
    if lanes is not None and (positive(lanes, "`lanes`", 1, MOST_LANES) & (lanes - 1)):
        raise Refusal(f"`lanes` is {lanes}; it must be a power of two", f"lanes={1 << (lanes.bit_length() - 1)}")
    positive(interleave, "`interleave`", 1, 16)
    plan = state.plan(stage)
    for other in plan.loops:
        if other.kind == "vector":
            raise Refusal(f'"{other.name}" is already vectorized', "vectorize only one loop of a stage")
    lanes = lanes or lanes_of_blocks(state.stage(stage), plan, axis)
    vector = replace(loop, kind="vector", lanes=lanes, interleave=interleave)
    return put(state, with_loop(plan, vector), "loops")


@rule('unroll axis "{axis}" of stage "{stage}"', positional=("factor",))
def apply_unroll(state: State, stage: str, axis: str, factor: int | None = None, edge: int = EDGE) -> State:
    positive(edge, "`edge`", 1, MOST_UNROLLED)
    if factor is not None:
        positive(factor, "a factor", 1, MOST_UNROLLED)
        free_loop(state, stage, axis, "split")
        _, inner = new_names(state.stage(stage), state.plan(stage), axis, None)
        state = apply_split(state, stage, axis, factor)
        rest = [loop.name for loop in state.plan(stage).loops if loop.name != inner]
        after = rest[rest.index(axis + "o") + 1 :]
        state = apply_reorder(state, stage, (*after, inner))
        axis = inner
    loop = kindless(state, stage, axis)
    plan = state.plan(stage)
    iterations = trip_count(state.stage(stage), plan, axis)
    count = index.constant_value(iterations)
    if count is None:
        raise Refusal(
            f'"{axis}" makes {index.text(iterations)} iterations, which is not a constant', f'unroll("{axis}", 4)'
        )
    if count > MOST_UNROLLED:
        raise Refusal(f'"{axis}" makes {count} iterations, more than {MOST_UNROLLED}', f'unroll("{axis}", 4)')
    return put(state, with_loop(plan, replace(loop, kind="unroll", edge=edge)), "loops")


@rule('parallelize axis "{axis}" of stage "{stage}"')
def apply_parallel(state: State, stage: str, axis: str, grain: int | None = None, dynamic: bool = False) -> State:
    loop = kindless(state, stage, axis)
    if grain is not None:
        positive(grain, "`grain`")
    if not isinstance(dynamic, bool):
        raise Refusal(f"`dynamic` is True or False, not {dynamic!r}")
    plan = state.plan(stage)
    grain = grain or grain_of_partials(state.stage(stage), plan, axis)
    return put(state, with_loop(plan, replace(loop, kind="parallel", grain=grain, dynamic=dynamic)), "loops")


def kindless(state: State, stage: str, axis: str) -> LoopPlan:
    """Returns a loop that has no kind yet; refuses others, and a loop shared with a leader, whose kind the leader decides."""
    no_loops_when_inlined(state, stage)
    loop = loop_of(state, stage, axis)
    if loop.kind != "serial":
        raise Refusal(f'"{axis}" is already {kind_words(loop)}', "give each loop only one kind")
    if state.plan(stage).compute_with:
        refuse_shared(state, stage, [axis])
    return loop
