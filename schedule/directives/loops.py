"""Directives that transform loops: split, fuse, reorder, tile.

A split is strip-mining: the outer loop advances along the axis by the factor, the inner one runs over that many indices, so any extent goes
with any factor. Loops may be in any order: an inner loop outside its outer one counts offsets within a tile.
"""

from __future__ import annotations

from dataclasses import replace

from raido.schedule.directives.recorder import Name, Names, Number, Recorder, Self, positive, rule
from raido.schedule.plan import Fuse, LoopPlan, Split, StagePlan
from raido.schedule.refusal import Refusal, listed
from raido.schedule.stages.stage import Stage
from raido.schedule.state import (
    State,
    is_inlined,
    is_reduction,
    known_names,
    loop_of,
    placed_at,
    position,
    put,
    shared_count,
)
from raido.schedule.strategies.table import strategies_of


class LoopDirectives(Recorder):
    """Directives that transform loops."""

    __slots__ = ()

    def split(self: Self, axis: Name, factor: Number, names: Names | None = None) -> Self:
        """Splits a loop into an outer loop, which advances by `factor`, and an inner loop over `factor` indices (strip-mining).

        axis: a loop of the stage. factor: iterations of the inner loop, at least 1; the extent need not be a multiple of it. names: of the
        outer and the inner loop; "yo" and "yi" for axis "y" unless given.

        before   for y in 0..h
        after    for yo in 0..h step 32:
                   for yi in yo..min(yo + 32, h)

        >>> blur.schedule()["cols"].split("y", 32).axes
        ('yo', 'yi', 'x')

        Refuses when the stage is inlined, another stage is placed at the loop, the loop already has a kind (parallel, vector, unrolled), or
        a name is taken.
        """
        return self._record("split", axis=axis, factor=factor, names=names)

    def fuse(self: Self, a: Name, b: Name, name: Name | None = None) -> Self:
        """Fuses two perfectly nested loops into one over all pairs of their indices, `b` fastest.

        a, b: loops, `b` directly inside `a`. name: of the fused loop; "ab" unless given.

        before   for y in 0..h:
                   for x in 0..w
        after    for yx in 0..h*w

        >>> blur.schedule()["cols"].fuse("y", "x").axes
        ('yx',)

        Refuses when `b` is not directly inside `a`, one is a pure and the other a reduction axis, another stage is placed at one of them,
        or one already has a kind.
        """
        return self._record("fuse", a=a, b=b, name=name)

    def reorder(self: Self, *axes: Name) -> Self:
        """Reorders loops as listed, outermost first. Loops that are not listed keep their places.

        before   for i: for j: for r            .reorder("r", "i")
        after    for r: for j: for i

        >>> sgemm.schedule()["c"].reorder("r", "i").axes
        ('r', 'j', 'i')

        Refuses when the loops are shared with another stage (`compute_with`), or reduction axes would change their order under an operator
        that is not commutative.
        """
        return self._record("reorder", axes=axes)

    def tile(self: Self, /, **sizes: Number) -> Self:
        """Splits several axes and reorders the outer loops outside the inner ones: `tile(y=32, x=128)` leaves yo, xo, yi, xi.

        sizes: the indices of a tile along each axis.

        before   for y in 0..h: for x in 0..w
        after    for yo: for xo: for yi in yo..min(yo + 32, h): for xi in xo..min(xo + 128, w)

        >>> blur.schedule()["cols"].tile(y=32, x=128).axes
        ('yo', 'xo', 'yi', 'xi')

        Refuses whatever `split` and `reorder` refuse.
        """
        return self._record("tile", **sizes)


@rule('split axis "{axis}" of stage "{stage}"')
def apply_split(state: State, stage: str, axis: str, factor: int, names: tuple[str, str] | None = None) -> State:
    factor = positive(factor, "a factor")
    loop = free_loop(state, stage, axis, "split")
    plan = state.plan(stage)
    outer, inner = new_names(state.stage(stage), plan, axis, names)
    loops: list[LoopPlan] = []
    for each in plan.loops:
        loops += [LoopPlan(outer), LoopPlan(inner, tail=loop.tail)] if each.name == axis else [each]
    relations = (*plan.relations, Split(axis, outer, inner, factor, loop.tail))
    return put(state, replace(plan, relations=relations, loops=tuple(loops)), "loops")


@rule('fuse axes "{a}" and "{b}" of stage "{stage}"')
def apply_fuse(state: State, stage: str, a: str, b: str, name: str | None = None) -> State:
    free_loop(state, stage, a, "fused")
    free_loop(state, stage, b, "fused")
    whole, plan = state.stage(stage), state.plan(stage)
    where = position(plan, a)
    if position(plan, b) != where + 1:
        order = listed(loop.name for loop in plan.loops)
        raise Refusal(
            f'"{b}" does not stand directly inside "{a}"',
            f'reorder first, so that "{a}", "{b}" are neighbours',
            axes=order,
        )
    if is_reduction(whole, plan, a) != is_reduction(whole, plan, b):
        raise Refusal(
            f'one of "{a}" and "{b}" is a reduction axis and the other is not', "fuse pure axes with pure ones"
        )
    into = name or a + b
    if into in known_names(whole, plan):
        raise Refusal(f'the name "{into}" is taken', f'fuse("{a}", "{b}", name="…")')
    loops = (*plan.loops[:where], LoopPlan(into), *plan.loops[where + 2 :])
    return put(state, replace(plan, relations=(*plan.relations, Fuse(a, b, into)), loops=loops), "loops")


@rule('reorder axes of stage "{stage}"', spread="axes")
def apply_reorder(state: State, stage: str, axes: tuple[str, ...]) -> State:
    no_loops_when_inlined(state, stage)
    if len(set(axes)) != len(axes):
        raise Refusal("an axis is named twice")
    named = [loop_of(state, stage, axis) for axis in axes]
    plan = state.plan(stage)
    slots = sorted(position(plan, loop.name) for loop in named)
    loops = list(plan.loops)
    for slot, loop in zip(slots, named, strict=True):
        loops[slot] = loop
    moved = [i for i, (new, old) in enumerate(zip(loops, plan.loops, strict=True)) if new is not old]
    if moved:
        refuse_shared(state, stage, [plan.loops[i].name for i in moved])
    new = replace(plan, loops=tuple(loops))
    check_fold_order(state.stage(stage), plan, new)
    return put(state, new, "loops")


@rule('tile stage "{stage}"')
def apply_tile(state: State, stage: str, /, **sizes: int) -> State:
    if not sizes:
        raise Refusal(
            "no axis is named", "tile(y=32, x=128)", axes=listed(loop.name for loop in state.plan(stage).loops)
        )
    tiles = [(axis, *new_names(state.stage(stage), state.plan(stage), axis, None)) for axis in sizes]
    for axis, factor in sizes.items():
        state = apply_split(state, stage, axis, factor)
    return apply_reorder(state, stage, (*(outer for _, outer, _ in tiles), *(inner for _, _, inner in tiles)))


def no_loops_when_inlined(state: State, stage: str) -> None:
    """Refuses loop directives for an inlined stage."""
    state.stage(stage)
    if is_inlined(state, stage):
        raise Refusal(
            f'"{stage}" is inlined: it has no loops, it is computed where it is read',
            "leave `inline` out, or use compute_at",
        )


def refuse_shared(state: State, stage: str, loops: list[str]) -> None:
    """Refuses to change loops that the stage shares with its leader or with stages fused into them (`compute_with`)."""
    plan = state.plan(stage)
    if plan.compute_with and any(position(plan, loop) < shared_count(state, stage) for loop in loops):
        other = plan.compute_with.stage
        raise Refusal(f'"{stage}" shares these loops with "{other}"', f'schedule them at "{other}"')
    for each in state.plans.values():
        if each.compute_with and each.compute_with.stage == stage:
            last = position(plan, each.compute_with.loop)
            if any(position(plan, loop) <= last for loop in loops):
                raise Refusal(
                    f'"{each.stage}" shares these loops (compute_with)', "give this directive before compute_with"
                )


def free_loop(state: State, stage: str, axis: str, verb: str) -> LoopPlan:
    """Returns a loop that may be split or fused; refuses one with a kind, a prefetch, or another stage placed at it. `verb` is for the
    message.
    """
    no_loops_when_inlined(state, stage)
    loop = loop_of(state, stage, axis)
    placed = placed_at(state, stage, axis)
    if placed:
        shares = state.plans[placed[0]].compute_with
        if shares is not None and shares.stage == stage:
            raise Refusal(
                f'"{placed[0]}" shares "{axis}" (compute_with), which can no longer be {verb}',
                f'all loop directives of "{stage}" first, then s["{placed[0]}"].compute_with("{stage}", …)',
            )
        raise Refusal(
            f'"{placed[0]}" is placed at "{axis}", which can no longer be {verb}',
            f'give this directive before placing "{placed[0]}"',
        )
    if any(prefetch.loop == axis for prefetch in state.plan(stage).prefetches):
        raise Refusal(
            f'an array is prefetched along "{axis}", which can no longer be {verb}',
            "give this directive before the prefetch",
        )
    refuse_shared(state, stage, [axis])
    if loop.kind != "serial":
        kind = kind_words(loop)
        raise Refusal(
            f'"{axis}" is already {kind}', f"give this directive before the loop is {'bound' if loop.level else kind}"
        )
    return loop


def kind_words(loop: LoopPlan) -> str:
    """Returns the kind of a loop as an adjective, such as "vectorized"."""
    if loop.level:
        return f'bound to "{loop.level}"'
    return {"vector": "vectorized", "unroll": "unrolled", "matrix": "tensorized"}.get(loop.kind, loop.kind)


def new_names(stage: Stage, plan: StagePlan, axis: str, names: tuple[str, str] | None) -> tuple[str, str]:
    """Returns the names of the two loops of a split; refuses names that are taken or no identifiers."""
    if names is not None and (
        not isinstance(names, tuple) or len(names) != 2 or not all(isinstance(n, str) for n in names)
    ):
        raise Refusal("`names` are two names, of the outer and of the inner loop", 'names=("outer", "inner")')
    outer, inner = names or (axis + "o", axis + "i")
    taken = known_names(stage, plan)
    for name in (outer, inner):
        if name in taken or outer == inner or not name.isidentifier():
            raise Refusal(
                f'the name "{name}" is taken or is not an identifier', 'choose two free names: names=("outer", "inner")'
            )
    return outer, inner


def check_fold_order(stage: Stage, before: StagePlan, after: StagePlan) -> None:
    """Refuses to reorder the loops of a fold unless its operator is commutative."""
    if stage.reduction is None or stage.reduction.commutative:
        return
    old = [loop.name for loop in before.loops if is_reduction(stage, before, loop.name)]
    new = [loop.name for loop in after.loops if is_reduction(stage, after, loop.name)]
    if old != new and strategies_of(stage):
        raise Refusal(
            f"the iterations of this stage must run in the order {listed(old)}", f'reorder("{old[0]}", …, "{old[-1]}")'
        )
    if old != new:
        raise Refusal(
            f"values are folded in the order {listed(old)}, and the operator is not commutative",
            "commutative=True on the reduction, if its operator is commutative",
        )
