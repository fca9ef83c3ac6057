"""Choices for memory and boundaries, of stages with explicit loops: packed copies, boundary loops, stores, prefetching."""

from __future__ import annotations

from itertools import permutations

from raido.algo.graph import index
from raido.autotune.space.walk import DEFAULT, Option, Walk, make_directive
from raido.schedule.defaults.demand import meets_boundary
from raido.schedule.defaults.draft import known
from raido.schedule.defaults.queries import output_bytes
from raido.schedule.directives.copies import dimension_names
from raido.schedule.directives.hints import SCOPES
from raido.schedule.plan import At
from raido.schedule.state import arrays_read, axes_of, has_explicit_loops, is_inlined

AHEAD = (1, 2, 4, 8, 16, 64)
BUFFERS = (2, 3)  # iterations whose copies are in shared memory beside one another
PAD_BYTES = (64, 256)


def choose_caches(walk: Walk, stage: str) -> None:
    """Chooses for each array whether it is read from a cached copy, its compute site, and its layout: that of the loops (panels), or the
    array's."""
    if not has_explicit_loops(walk.state, stage) or walk.is_copy(stage):
        return
    plan, whole = walk.plan(stage), walk.stage(stage)
    for array, loads in walk.state.uses.loads[stage].items():
        if not array or not loads[0].indices or is_inlined(walk.state, array):
            continue
        names = dimension_names(whole, loads)
        layout = tuple(loop.name for loop in plan.loops if set(axes_of(plan, loop.name)) <= set(names))
        panels = len(layout) > len(names)
        product = whole.reduction is not None and any(axis.name not in names for axis in whole.all_axes)
        options = [Option("")]
        if panels:
            directive = make_directive(stage, "cache", array=array, stage=stage, axis=None, layout=layout)
            options.append(Option("packed", (directive,), 0.7 if product else 0.02))
        loops = [loop.name for loop in plan.loops[:-1] if loop.kind in ("serial", "parallel")]
        for loop in loops:
            directive = make_directive(stage, "cache", array=array, stage=stage, axis=loop)
            options.append(Option(f"at {loop}", (directive,), 0.03 / len(loops)))
            if panels:
                directive = make_directive(stage, "cache", array=array, stage=stage, axis=loop, layout=layout)
                options.append(Option(f"packed at {loop}", (directive,), (0.4 if product else 0.03) / len(loops)))
        walk.choose(stage, f"cache {array}", options)


def choose_boundaries(walk: Walk, stage: str) -> None:
    """Chooses whether boundary regions get loops of their own: along all axes, or one."""
    whole, plan = walk.stage(stage), walk.plan(stage)
    if not has_explicit_loops(walk.state, stage) or plan.partition:
        return
    facts = walk.facts(stage)
    if not meets_boundary(facts.state, facts.demand, stage):
        return
    options = [Option("", weight=0.2), Option("all", (make_directive(stage, "partition_boundaries"),))]
    if len(whole.axes) > 1:
        for axis in whole.axes:
            directive = make_directive(stage, "partition_boundaries", axes=(axis.name,))
            options.append(Option(axis.name, (directive,), 0.2))
    walk.choose(stage, "boundaries", options)


def choose_streams(walk: Walk, stage: str) -> None:
    """Chooses whether results are stored past the caches, always or above a size."""
    plan = walk.plan(stage)
    reused = stage not in walk.state.uses.outputs or isinstance(plan.compute, At)
    if not has_explicit_loops(walk.state, stage) or reused or plan.stream_stores is not None:
        return
    facts = walk.facts(stage)
    size = index.constant_value(known(facts, output_bytes(facts, stage)))
    large = size is None or size > walk.machine.l3 // 2
    options = [
        Option("", weight=1.0 if large else 8.0),
        Option("always", (make_directive(stage, "stream_stores"),), 1.0),
    ]
    if size is None:
        options.append(Option("above", (make_directive(stage, "stream_stores", above=walk.machine.l3),), 2.0))
    walk.choose(stage, "stream", options)


def choose_prefetch(walk: Walk, stage: str) -> None:
    """Chooses an array to prefetch, the loop, and how many iterations ahead."""
    if not has_explicit_loops(walk.state, stage):
        return
    loops = [loop.name for loop in walk.plan(stage).loops if loop.kind != "unroll"]
    directives = {
        (array, loop, ahead): make_directive(stage, "prefetch", array=array, axis=loop, ahead=ahead)
        for array in arrays_read(walk.state, stage)
        for loop in loops
        for ahead in AHEAD
    }
    options = [Option(label, (directive,), 0.1 / len(directives)) for label, directive in directives.items()]
    walk.choose(stage, "prefetch", [Option(""), *options])


def choose_store(walk: Walk, stage: str) -> None:
    """Chooses the storage of a stage that others read: layout, scope, padding of rows, buffers."""
    plan, whole = walk.plan(stage), walk.stage(stage)
    kept = has_explicit_loops(walk.state, stage) and stage not in walk.state.uses.outputs
    if not kept or not whole.axes:
        return
    axes = tuple(axis.name for axis in whole.axes)
    if len(axes) in (2, 3) and not walk.is_decided(stage, "layout"):
        orders = [order for order in permutations(axes) if order != axes]
        options = [
            Option(order, (make_directive(stage, "store", layout=order),), 0.03 / len(orders)) for order in orders
        ]
        walk.choose(stage, "layout", [Option(DEFAULT), *options])
    if isinstance(plan.compute, At) and not walk.is_decided(stage, "scope"):
        options = [Option(scope, (make_directive(stage, "store", scope=scope),), 0.02) for scope in SCOPES]
        walk.choose(stage, "scope", [Option(DEFAULT), *options])
    if len(axes) > 1 and not walk.is_decided(stage, "pad"):
        size = max(body.dtype.itemsize for body in whole.bodies)
        pads = [Option(n // size, (make_directive(stage, "store", pad=n // size),), 0.02) for n in PAD_BYTES]
        walk.choose(stage, "pad", [Option(0), *pads])
    if plan.scope == "shared" and not walk.is_decided(stage, "buffers"):
        counts = [Option(n, (make_directive(stage, "store", buffers=n),), 0.05) for n in BUFFERS]
        walk.choose(stage, "buffers", [Option(1), *counts])
