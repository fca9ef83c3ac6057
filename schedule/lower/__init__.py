"""Lowering: stages and their plans become a scalar nest.

    jobs          inlined stages are substituted; what every stage needs to know of its plan
    host          root stages, outputs
    control       whole-array loops and branches                                       (in_place, late_reads)
    work          what is being emitted: a stage, its loops, and one of its phases
    loops         the loops of a stage; the two versions; cuts at boundaries        (coordinates, partition)
    placement     producers inside loops: regions, memory                            (regions)
    sliding       producers kept further out than they are computed
    reductions    accumulators, partials                                              (lane_blocks, thread_folds)
    mirror        symmetric results by their lower triangle
    unread        what nobody reads is not stored
    rows_outside  array loops run row by row where the schedule says so
    rows_together successive changes of one array are made row by row in one loop
    row_registers numbers that rows keep from iteration to iteration are in registers
    serial_loops  array loops that one thread runs are a kernel each, their scalar states in registers, small ones in its frame
    unchanged    loops run over what they change, where stores say by choices that they keep the rest
    share_buffers arrays that are never alive together share memory
    odd_rows      on a GPU, copies of rows that are no multiples of what moves at once are dealt out by elements
    pipelines     on a GPU, copies to shared memory run ahead of the loop that reads them
    convert, emit expressions: substitution, then statements with shared values named      (emit_values, emit_private)

`lower(graph, plans)` is the entrance; `row_orders_of` asks what suits array loops of which nothing was said.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from raido.algo.collector import seldom_collected
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Array, Expr, Node, SizeVar, const
from raido.algo.graph.rewrite import substitute
from raido.schedule.lower.convert import Sites
from raido.schedule.lower.host import Host
from raido.schedule.lower.odd_rows import deal_out_odd_rows
from raido.schedule.lower.pipelines import run_copies_ahead
from raido.schedule.lower.share_buffers import share_buffers
from raido.schedule.lower.shared_memory import check_shared
from raido.schedule.machine import Machine
from raido.schedule.nest.nodes import Block, If, Nest, Statement, View
from raido.schedule.nest.row_order import RowOrder
from raido.schedule.nest.row_orders import choose_row_orders
from raido.schedule.nest.row_registers import row_registers
from raido.schedule.nest.rows_outside import rows_outside
from raido.schedule.nest.rows_together import rows_together
from raido.schedule.nest.serial_loops import serial_loops
from raido.schedule.nest.unchanged import leave_out_unchanged
from raido.schedule.nest.unread import drop_unread
from raido.schedule.nest.values import Buffer, buffer_for, new_serial
from raido.schedule.plan import Variant
from raido.schedule.refusal import Refusal, refused
from raido.schedule.stages.reads import flatten
from raido.schedule.stages.repeated_copies import RepeatedCopy
from raido.schedule.stages.stage import Stage, StageGraph
from raido.schedule.strategies.array_loops import row_orders

__all__ = ["lower"]

USUAL = Machine()


@seldom_collected
def lower(graph: StageGraph, variants: Sequence[Variant], machine: Machine = USUAL) -> Nest:
    """The scalar nest of a program under its plans: one body for each variant, tested in order, the one without a test last.

    machine: whose caches rows of array loops stay in.
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
    if machine.gpu is None:  # on a GPU, what rows of the host's loops do is spread over blocks, not kept in a cache
        nest = leave_out_unchanged(serial_loops(row_registers(rows_together(nest))))
    else:
        body = deal_out_odd_rows(nest.body) if machine.gpu.branches else nest.body
        nest = check_shared(replace(nest, body=run_copies_ahead(body)), machine.gpu)
    return share_buffers(nest)


def _may_leave_unread(variant: Variant, graph: StageGraph) -> bool:
    """Whether stages hand results on in the loops that they share, or make several, of which some may not be asked for: keys of an
    `argsort`, say."""
    stages = (stage for stage, _ in flatten(graph.stages))
    several = any(isinstance(s, Stage) and len(s.bodies) > 1 and (s.scan or s.filter or s.sort) for s in stages)
    return several or any(plan.compute_with for plan in variant.plans)


def row_orders_of(variant: Variant, machine: Machine, open_: Collection[str]) -> dict[str, RowOrder]:
    """The orders that suit the array loops of a variant whose rows may go through the iterations one by one, and of which nothing was said.

    open_: those of which the strategy was said, and no loops.
    """
    graph, plans = variant.graph, {plan.stage: plan for plan in variant.plans}
    assert graph is not None
    _, outputs, counts = _results(graph)
    body = Host(graph, plans, Sites({}, gpu=False), outputs, counts).lower()
    stated = row_orders(variant.array_loops)
    depths = {name: stated.pop(name).depth for name in open_}
    return choose_row_orders(body, machine, stated, depths)


def _results(graph: StageGraph) -> tuple[tuple[tuple[Expr, ...], ...], tuple[Buffer, ...], dict[SizeVar, Buffer]]:
    """The shapes of a program's results, the memory for them, and that for those sizes that data decides which callers see."""
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
    """The statements with array loops by rows, where the schedule has them so."""
    try:
        return rows_outside(body, row_orders(variant.array_loops))
    except Refusal as refusal:
        raise refused("cannot run an array loop by rows", refusal, 'strategy("rows")') from None


def _known_sizes(
    graph: StageGraph, own: StageGraph, outputs: Sequence[Buffer]
) -> tuple[tuple[Buffer, ...], tuple[View, ...]]:
    """The outputs of a variant that is specialised for some sizes, and views of the caller's memory in its shapes."""
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
    """The buffer of result `k`; the caller has memory for it unless nothing bounds its size."""
    scope = "result" if loose.intersection(shape) else "parameter"
    return Buffer("out" if count == 1 else f"out{k}", array.dtype, shape, scope, new_serial(), (), 1, None)


def _choose(blocks: Sequence[tuple[Expr | None, Block]]) -> Block:
    (test, first), *rest = blocks
    if test is None or not rest:
        return first
    statement: Statement = If(test, first, _choose(rest))
    return Block((statement,))
