"""Lowering: stages and their plans become a scalar loop nest.

    lowered_stage  a stage under its plan: inlined stages are substituted into it; its properties
    loop_cursor    the position in the loops being emitted: a stage, the coordinates of its loops, and the phase of its strategy
    builder        the blocks under construction, and what is known of names in them
    host/          root stages in order, whole-array loops and branches, outputs; memory that changes hands, or is shared
    loops/         the loops of one stage: versions, peeling at boundaries, register tiles, accumulators, partial results
    regions/       producers inside loops: bounds inference, placement, sliding windows, stages that share loops
    expressions/   expressions of the graph as those of the nest, with shared values named
    strategies/    scans and filters in blocks, updates, segmented reductions, sorts
    threads/       folds, scans, sorts and copies that the threads of a GPU block carry out together

Passes over the nest follow, in this order:

    rows_outside   an array loop is interchanged with its loop over rows, where the schedule says so
    unread         stores that nothing reads are dropped
    overwritten    on a CPU, what a loop overwrites before it is read is neither copied nor filled
    rows_together  on a CPU, successive updates of one array are fused row by row
    row_registers  on a CPU, array elements that a row carries from iteration to iteration are kept in registers
    serial_loops   on a CPU, an array loop that one thread runs is one kernel: scalar states in registers, small arrays in its frame
    carried_last   extremes of several operands combine the one that the iteration before has stored last
    unchanged      on a CPU, loops are restricted to the elements that they change, where stores select the old value elsewhere
    odd_rows       on a GPU, copies of rows whose length is no multiple of a wide access are distributed by elements
    pipelines      on a GPU, copies to shared memory are issued ahead of the loop that reads them
    share_buffers  arrays with disjoint lifetimes share memory

`lower(graph, variants)` is the entry point; `row_orders_of` chooses the row order of array loops whose strategy the schedule leaves open.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from raido.algo.collector import seldom_collected
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Array, Expr, Node, SizeVar, const
from raido.algo.graph.rewrite import substitute
from raido.schedule.lower.expressions.convert import Sites
from raido.schedule.lower.host.program import Host
from raido.schedule.lower.host.share_buffers import share_buffers
from raido.schedule.lower.threads.odd_rows import deal_out_odd_rows
from raido.schedule.lower.threads.pipelines import run_copies_ahead
from raido.schedule.lower.threads.shared_memory import check_shared
from raido.schedule.machine import Machine
from raido.schedule.nest.nodes import Block, If, Nest, Statement, View
from raido.schedule.nest.passes.carried_last import combine_carried_last
from raido.schedule.nest.passes.overwritten import leave_out_overwritten
from raido.schedule.nest.passes.row_order import RowOrder
from raido.schedule.nest.passes.row_orders import choose_row_orders
from raido.schedule.nest.passes.row_registers import row_registers
from raido.schedule.nest.passes.rows_outside import rows_outside
from raido.schedule.nest.passes.rows_together import rows_together
from raido.schedule.nest.passes.serial_loops import serial_loops
from raido.schedule.nest.passes.unchanged import leave_out_unchanged
from raido.schedule.nest.passes.unread import drop_unread
from raido.schedule.nest.values import Buffer, buffer_for, new_serial
from raido.schedule.plan import Variant
from raido.schedule.refusal import Refusal, refused
from raido.schedule.stages.reads import flatten
from raido.schedule.stages.stage import ControlStage, Stage, StageGraph
from raido.schedule.stages.updates.repeated_copies import RepeatedCopy
from raido.schedule.strategies.array_loops import row_orders

__all__ = ["lower"]

USUAL = Machine()


@seldom_collected
def lower(graph: StageGraph, variants: Sequence[Variant], machine: Machine = USUAL) -> Nest:
    """The scalar nest of a program under its plans: one body for each variant, tested in order, the one without a test last.

    machine: its `gpu`, None for a CPU, selects the passes that follow, and bounds the shared memory of a block.
    """
    program = graph.program
    shapes, outputs, counts = _results(graph)
    sites = Sites({}, gpu=machine.gpu is not None)
    blocks: list[tuple[Expr | None, Block]] = []
    copies: dict[RepeatedCopy, None] = {}
    for variant in variants:
        own = variant.graph or graph
        results, views = (outputs, ()) if own.program is program else _known_sizes(graph, own, outputs)
        host = Host(own, {plan.stage: plan for plan in variant.plans}, sites, results, counts)
        blocks.append((variant.test, Block((*views, *_by_rows(host.lower(), variant).statements))))
        copies |= dict.fromkeys(host.copies)
    body = _choose(blocks)
    inputs = tuple(buffer_for(parameter) for parameter in program.parameters)
    used = tuple(sites.used)
    nest = Nest(program.name, inputs, program.sizes, outputs, body, used, tuple(counts.items()), shapes, tuple(copies))
    if any(_may_leave_unread(variant, variant.graph or graph) for variant in variants):
        nest = drop_unread(nest)
    if machine.gpu is None:  # on a GPU, rows of array loops are distributed over blocks, not kept in a cache
        if any(isinstance(stage, ControlStage) for v in variants for stage in (v.graph or graph).stages):
            nest = leave_out_overwritten(nest)
        nest = leave_out_unchanged(combine_carried_last(serial_loops(row_registers(rows_together(nest)))))
    else:
        body = deal_out_odd_rows(nest.body) if machine.gpu.branches else nest.body
        nest = check_shared(replace(nest, body=run_copies_ahead(body)), machine.gpu)
    return share_buffers(nest)


def _may_leave_unread(variant: Variant, graph: StageGraph) -> bool:
    """Whether the nest may contain stores that nothing reads: stages share loops, or a scan, filter or sort has several results, such as
    the keys of an `argsort`."""
    stages = (stage for stage, _ in flatten(graph.stages))
    several = any(isinstance(s, Stage) and len(s.bodies) > 1 and (s.scan or s.filter or s.sort) for s in stages)
    return several or any(plan.compute_with for plan in variant.plans)


def row_orders_of(variant: Variant, machine: Machine, open_: Collection[str]) -> dict[str, RowOrder]:
    """The row orders chosen for the array loops of a variant that may run row by row and whose order the schedule leaves open.

    open_: names of the array loops for which the schedule states the strategy but no loops.
    """
    graph, plans = variant.graph, {plan.stage: plan for plan in variant.plans}
    assert graph is not None
    _, outputs, counts = _results(graph)
    body = Host(graph, plans, Sites({}, gpu=False), outputs, counts).lower()
    stated = row_orders(variant.array_loops)
    depths = {name: stated.pop(name).depth for name in open_}
    return choose_row_orders(body, machine, stated, depths)


def _results(graph: StageGraph) -> tuple[tuple[tuple[Expr, ...], ...], tuple[Buffer, ...], dict[SizeVar, Buffer]]:
    """The shapes of a program's results, their output buffers, and a scalar i64 buffer for each data-dependent size in the shapes."""
    shapes = graph.shapes or tuple(array.shape for array in graph.results)
    bounds: dict[Expr, Expr] = {counted.size: counted.bound for counted in graph.counts if counted.bound is not None}
    loose = {counted.size for counted in graph.counts if counted.bound is None}
    outputs = tuple(
        _output(array, k, len(graph.results), tuple(bounds.get(extent, extent) for extent in shape), loose)
        for k, (array, shape) in enumerate(zip(graph.results, shapes, strict=True))
    )
    shown = {extent for shape in shapes for extent in shape}
    counts = {
        counted.size: Buffer(f"{counted.size.name}_out", i64, (), "parameter", new_serial(), (), 1, None)
        for counted in graph.counts
        if counted.size in shown
    }
    return shapes, outputs, counts


def _by_rows(body: Block, variant: Variant) -> Block:
    """Moves array loops inside their loops over rows where the schedule says `strategy("rows")`; raises
    ScheduleError where that is illegal."""
    try:
        return rows_outside(body, row_orders(variant.array_loops))
    except Refusal as refusal:
        raise refused("cannot run an array loop by rows", refusal, 'strategy("rows")') from None


def _known_sizes(
    graph: StageGraph, own: StageGraph, outputs: Sequence[Buffer]
) -> tuple[tuple[Buffer, ...], tuple[View, ...]]:
    """The outputs of a variant that is specialised for some sizes, and views of the caller's memory in the specialised shapes."""
    given = [
        (buffer_for(p), buffer_for(q)) for p, q in zip(own.program.parameters, graph.program.parameters, strict=True)
    ]
    known = own.program.known
    values: dict[Node, Node] = {
        size: const(i64, known[size.name]) for size in graph.program.sizes if size.name in known
    }
    results = tuple(substitute(buffer, values) for buffer in outputs)
    pairs = (*given, *zip(results, outputs, strict=True))
    return results, tuple(View(special, general) for special, general in pairs if special is not general)


def _output(array: Array, k: int, count: int, shape: tuple[Expr, ...], loose: set[SizeVar]) -> Buffer:
    """The buffer of result `k`: the caller's memory, or memory allocated by the program if nothing bounds the result's size."""
    scope = "result" if loose.intersection(shape) else "parameter"
    return Buffer("out" if count == 1 else f"out{k}", array.dtype, shape, scope, new_serial(), (), 1, None)


def _choose(blocks: Sequence[tuple[Expr | None, Block]]) -> Block:
    (test, first), *rest = blocks
    if test is None or not rest:
        return first
    statement: Statement = If(test, first, _choose(rest))
    return Block((statement,))
