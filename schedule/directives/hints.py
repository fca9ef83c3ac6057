"""Directives that leave the loop order as it is: align, partition_boundaries, stream_stores, prefetch, store."""

from __future__ import annotations

from dataclasses import replace

from raido.schedule.checks.copies_ahead import MOST_BUFFERS
from raido.schedule.directives.loops import no_loops_when_inlined
from raido.schedule.directives.recorder import Name, Names, Number, Recorder, Self, one_of, positive, rule
from raido.schedule.plan import At, Prefetch, Split, StagePlan
from raido.schedule.refusal import Refusal, listed
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State, arrays_read, axes_of, known_names, loop_of, nearest, put

MOST_MULTIPLE = 1 << 20
SCOPES = ("heap", "stack", "register", "shared", "local")


class HintDirectives(Recorder):
    """Directives about memory and boundaries."""

    __slots__ = ()

    def align(self: Self, axis: Name, multiple: Number) -> Self:
        """Starts the loops of an axis at a multiple, wherever the stage is computed; up to `multiple` − 1 elements more than needed may be
        computed.

        axis: a pure axis of the stage. multiple: an integer from 2; once the axis is unrolled by it, x % multiple is a constant, and x //
        multiple is one but for the iteration's offset.

        before   for x in 3..9: out[x] = a[x // 2] if x % 2 == 0 else b[x // 2]
        after    for xo in 1..5: out[2*xo] = a[xo]; out[2*xo + 1] = b[xo]           .align("x", 2).unroll("x", 2)

        >>> blur.schedule()["rows"].align("x", 4).unroll("x", 4).plan.aligned
        (('x', 4),)

        Refuses reduction axes, axes that the stage runs over as a whole, stages that share loops or slide, whose start is fixed otherwise,
        and a second `align` for one axis.
        """
        return self._record("align", axis=axis, multiple=multiple)

    def partition_boundaries(self: Self, *axes: Name) -> Self:
        """Gives the indices near the ends of an axis loops of their own (index-set splitting); the interior has no clamps and no branches.

        axes: axes of the stage (or loops made of them); all its pure axes unless given.

        before   for x in 0..w: out[x] = a[max(x - 1, 0)] + a[x]
        after    for x in 0..1: out[x] = a[max(x - 1, 0)] + a[x]
                 for x in 1..w: out[x] = a[x - 1] + a[x]

        >>> blur.schedule()["cols"].partition_boundaries("y").plan.partition
        ('y',)

        Refuses an inlined stage and a second time for one axis.
        """
        return self._record("partition_boundaries", axes=axes)

    def stream_stores(self: Self, above: Number | None = None) -> Self:
        """Stores results past the caches (non-temporal stores), where rows can be aligned at run time.

        above: bytes; smaller results, by the sizes of a call, are stored as usual. None: all are streamed.

        before   out[x] = …
        after    stream out[x] = …

        >>> blur.schedule()["cols"].stream_stores(above=32 << 20).plan.stream_stores
        33554432

        Refuses GPUs, an inlined stage, one computed inside a loop of its reader, and a second time.
        """
        return self._record("stream_stores", above=above)

    def prefetch(self: Self, array: Name, axis: Name, ahead: Number) -> Self:
        """Prefetches the elements that the stage reads of an array, some iterations of a loop before they are read.

        array: a parameter or a stage that this stage reads. axis: a loop of this stage. ahead: iterations, at least 1.

        before   for y: out[y] = f(a[y])
        after    for y: prefetch a[y + 2];  out[y] = f(a[y])

        >>> blur.schedule()["rows"].prefetch("img", "y", 2).plan.prefetches
        (Prefetch(array='img', loop='y', ahead=2),)

        Refuses GPUs, an array that is not read, and a second prefetch of one array at one loop.
        """
        return self._record("prefetch", array=array, axis=axis, ahead=ahead)

    def store(
        self: Self,
        layout: Names | None = None,
        scope: Name | None = None,
        pad: Number | None = None,
        buffers: Number | None = None,
    ) -> Self:
        """Decides how the stage's own result is stored.

        layout: storage dimensions, outermost first; each an axis, or the two halves of a split axis, wherever they stand: ("jo", "r", "ji")
        are panels. scope: "heap", "stack" or "register"; on a GPU "shared", one for the threads of a block, or "local", one for each
        thread. pad: elements added to the length of a row. buffers: of a copy in shared memory, the number of iterations of its loop whose
        copies exist at a time; the copies of later iterations are on their way while threads compute (2: double-buffered). Where rows do
        not begin at multiples of 4 bytes, copies are made as early, but threads wait for them.

        before   c: f32[n, m]
        after    c: f32[ceildiv(m, 8), n, 8]            .split("j", 8).store(layout=("jo", "i", "ji"))

        >>> blur.schedule()["rows"].store(layout=("x", "y"), pad=8).plan.layout
        ('x', 'y')

        before   for ro: {a_copy = a[.., ro..ro + 8];  … a_copy …}
        after    a_copy[0] = a[.., 0..8];  for ro: {wait;  a_copy[next] = a[.., ro + 8..];  … a_copy[this] …}       .store(buffers=2)

        Refuses an inlined stage, outputs, layouts that do not hold every axis once, and a second decision; several buffers on targets
        without asynchronous copies (CUDA has them from sm_80 on), of stages that compute, and at loops that blocks do not run in order.
        """
        return self._record("store", layout=layout, scope=scope, pad=pad, buffers=buffers)


@rule('align axis "{axis}" of stage "{stage}"')
def apply_align(state: State, stage: str, axis: str, multiple: int) -> State:
    no_loops_when_inlined(state, stage)
    whole, plan = state.stage(stage), state.plan(stage)
    positive(multiple, "`multiple`", 2, MOST_MULTIPLE)
    free = [each.name for each in whole.axes if each not in whole.whole_axes]
    if axis in dict(plan.aligned):
        raise Refusal(f'axis "{axis}" is aligned already', "remove one of the two directives")
    if axis not in free:
        if axis not in (each.name for each in whole.all_axes):
            raise Refusal(f'the stage has no axis "{axis}" of its own', nearest(axis, free), axes=listed(free))
        raise Refusal(f'the stage runs over the whole axis "{axis}", which cannot be aligned', axes=listed(free))
    return put(state, replace(plan, aligned=(*plan.aligned, (axis, multiple))), "hints")


@rule('partition the boundaries of stage "{stage}"', spread="axes")
def apply_partition_boundaries(state: State, stage: str, axes: tuple[str, ...] = ()) -> State:
    no_loops_when_inlined(state, stage)
    whole, plan = state.stage(stage), state.plan(stage)
    pure = tuple(axis.name for axis in whole.axes)
    chosen: list[str] = list(pure)
    if axes:
        chosen = []
        for axis in axes:
            if axis not in known_names(whole, plan):
                loop_of(state, stage, axis)
            chosen += axes_of(plan, axis)
    for axis in chosen:
        if axis in plan.partition:
            raise Refusal(
                f'axis "{axis}" is already partitioned', "remove one of the two directives", axes=listed(pure)
            )
        if axis not in pure:
            raise Refusal(f'"{axis}" is a reduction axis', axes=listed(pure))
    partition = (*plan.partition, *dict.fromkeys(chosen))
    return put(state, replace(plan, partition=partition), "hints")


@rule('stream the stores of stage "{stage}"')
def apply_stream_stores(state: State, stage: str, above: int | None = None) -> State:
    no_loops_when_inlined(state, stage)
    if state.gpu is not None:
        raise Refusal("a GPU has no stores that bypass its caches", "leave `stream_stores` out")
    plan = state.plan(stage)
    if plan.stream_stores is not None:
        raise Refusal("the stores of this stage are streamed already", "remove one of the two directives")
    if isinstance(plan.compute, At):
        raise Refusal(
            f'"{stage}" is computed inside loop "{plan.compute.loop}" of "{plan.compute.stage}", which reads the values at once'
        )
    least = 0 if above is None else positive(above, "`above`", 0)
    return put(state, replace(plan, stream_stores=least), "stream")


@rule('prefetch "{array}" at axis "{axis}" of stage "{stage}"')
def apply_prefetch(state: State, stage: str, array: str, axis: str, ahead: int) -> State:
    no_loops_when_inlined(state, stage)
    if state.gpu is not None:
        raise Refusal("a GPU has no prefetches: other threads run while some wait for memory", "leave `prefetch` out")
    positive(ahead, "`ahead`")
    read = arrays_read(state, stage)
    if array not in read:
        raise Refusal(f'"{stage}" does not read "{array}"', arrays=listed(read))
    loop_of(state, stage, axis)
    plan = state.plan(stage)
    if any(p.array == array and p.loop == axis for p in plan.prefetches):
        raise Refusal(f'"{array}" is prefetched at this axis already', "remove one of the two directives")
    return put(state, replace(plan, prefetches=(*plan.prefetches, Prefetch(array, axis, ahead))), "hints")


@rule('set how stage "{stage}" is stored')
def apply_store(
    state: State,
    stage: str,
    layout: tuple[str, ...] | None = None,
    scope: str | None = None,
    pad: int | None = None,
    buffers: int | None = None,
) -> State:
    no_loops_when_inlined(state, stage)
    if layout is None and scope is None and pad is None and buffers is None:
        raise Refusal("the directive has no arguments", 'store(scope="stack")')
    for decision, value in (("layout", layout), ("scope", scope), ("pad", pad), ("buffers", buffers)):
        if value is not None and (stage, decision) in state.decided:
            raise Refusal(f"the schedule already sets the {decision} of this stage", "remove one of the two directives")
    whole, plan = state.stage(stage), state.plan(stage)
    if stage in state.uses.outputs:
        raise Refusal(
            f'"{stage}" is an output: the caller decides how it is stored',
            f's["{stage}"].cache(…), if an input is to be stored otherwise',
        )
    if layout is not None:
        check_layout(whole, plan, layout)
        state = put(state, replace(plan, layout=layout), "layout")
    if scope is not None:
        state = put(state, replace(state.plan(stage), scope=one_of(scope, "a scope", SCOPES)), "scope")
    if pad is not None:
        state = put(state, replace(state.plan(stage), pad=positive(pad, "`pad`", 0)), "pad")
    if buffers is not None:
        count = positive(buffers, "`buffers`", 1, MOST_BUFFERS)
        state = put(state, replace(state.plan(stage), buffers=count), "buffers")
    return state


def check_layout(stage: Stage, plan: StagePlan, layout: tuple[str, ...]) -> None:
    """Refuses a layout unless it holds each pure axis once: itself, or both halves of each of its splits."""
    wanted = [axis.name for axis in stage.axes]
    for relation in plan.relations:
        if isinstance(relation, Split) and relation.parent in wanted and relation.parent not in layout:
            where = wanted.index(relation.parent)
            wanted[where : where + 1] = [relation.outer, relation.inner]
    if not isinstance(layout, tuple) or sorted(map(str, layout)) != sorted(wanted):
        raise Refusal(f"a layout holds each of {listed(wanted)} once, not {listed(layout)}", axes=listed(wanted))
