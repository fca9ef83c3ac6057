"""Selections: sorts of which only some indices are read, such as the first ten, or the middle one of a median.

    y = sort(x);  out[i] = y[i] for i in 0..10        places of y: 0..9

The indices follow from the access maps of the sort's readers, by interval analysis over their axes. They must be made of sizes of the
program and constants; a sort that leaves its scope, or that a loop over arrays takes, is needed whole. (Hoare, Algorithm 65: Find, 1961.)
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions, interval
from raido.algo.graph.expr import Const, Constant, Expr, Fill, Load, Node, Op, Reduce, SizeVar, Var, const
from raido.algo.graph.rewrite import rebuild, scalar_nodes
from raido.schedule.stages.reads import Uses, find_uses, flatten, scalars_of
from raido.schedule.stages.stage import AnyStage, ControlStage, Positions, Stage, StageGraph

MOST = 32  # stretches of indices, at most: each unsorted part is compared with all of them


def find_selections(graph: StageGraph) -> StageGraph:
    """Returns the graph with the indices that are read of each sort."""
    if not any(isinstance(stage, Stage) and stage.sort for stage, _ in flatten(graph.stages)):
        return graph
    uses = find_uses(graph)

    def found(stage: AnyStage) -> AnyStage:
        if isinstance(stage, ControlStage):
            parts = {part: tuple(map(found, getattr(stage, part))) for part in ("setup", "body", "orelse")}
            return replace(stage, **parts)  # type: ignore[arg-type]
        if stage.sort is None:
            return stage
        return replace(stage, sort=replace(stage.sort, positions=positions_read(stage, uses, graph)))

    return replace(graph, stages=tuple(map(found, graph.stages)))


def positions_read(sort: Stage, uses: Uses, graph: StageGraph) -> Positions | None:
    """Returns the first and last index of each stretch that is read of a sort along its axis; None where it is needed whole."""
    name, assumptions = sort.name, Assumptions()
    last = ix.sub(sort.reduction_axes[0].extent, 1)
    readers = uses.readers[name]
    if name in uses.outputs or any(not isinstance(uses.stages[reader], Stage) for reader in readers):
        return None
    sizes = set(graph.program.sizes)
    stretches: dict[tuple[Expr, Expr], None] = {}
    for reader in readers:
        ranges = ranges_of(uses.stages[reader])
        for load in uses.loads[reader].get(name, ()):
            for ends in _ends(load, sort, ranges, assumptions):
                if not all(_is_of_sizes(e, sizes) for e in ends):
                    return None
                if assumptions.less_equal(ends[0], ix.as_index(0)) and assumptions.less_equal(last, ends[1]):
                    return None
                stretches[ends] = None
    return tuple(stretches) if 0 < len(stretches) <= MOST else None


def ranges_of(reader: AnyStage) -> dict[Var, tuple[Expr, Expr]]:
    """Returns the first and last index of every axis of a stage, axes inside its expressions included."""
    assert isinstance(reader, Stage)
    axes = [*reader.all_axes]
    for node in scalars_of(reader):
        axes += node.axes if isinstance(node, Reduce | Fill) else ()
    return {axis.var: (ix.as_index(0), ix.sub(axis.extent, 1)) for axis in axes}


def _ends(
    load: Load, sort: Stage, ranges: dict[Var, tuple[Expr, Expr]], assumptions: Assumptions
) -> list[tuple[Expr, Expr]]:
    """Returns the least and greatest index along the sorted axis of each stretch that a load reads; an index without bounds stands for
    itself.

    An index read from a constant array, as of several quantiles, is a stretch for each element of the array that is read.
    """
    index = ix.canonical(load.indices[sort.axes.index(sort.reduction_axes[0])])
    variables = [node for node in scalar_nodes(index) if isinstance(node, Var)]
    ends = interval(index, ranges, assumptions) if variables else (index, index)
    if ends is not None:
        return [(ix.canonical(ends[0]), ix.canonical(ends[1]))]
    counts = [ix.constant_value(ix.add(ranges[v][1], 1)) if v in ranges else None for v in variables]
    known = [n for n in counts if n is not None]
    if len(known) < len(counts) or prod(known) > MOST:
        return [(index, index)]
    chosen = [_with_constants(index, dict(zip(variables, each, strict=True))) for each in product(*map(range, known))]
    return [(e, e) for e in chosen]


def _with_constants(e: Expr, values: dict[Var, int]) -> Expr:
    """Returns an index for some values of its variables, with elements of constant arrays substituted."""
    memo: dict[Node, Node] = {var: ix.as_index(value) for var, value in values.items()}
    for node in scalar_nodes(e):
        if node in memo:
            continue
        new = rebuild(node, lambda child: memo.get(child, child))
        indices = [ix.constant_value(i) for i in new.indices] if isinstance(new, Load) else [None]
        if isinstance(new, Load) and isinstance(new.array, Constant) and None not in indices:
            new = const(new.dtype, new.array.data.array[tuple(indices)].item())  # type: ignore[arg-type]
        memo[node] = new
    return ix.canonical(memo[e])  # type: ignore[arg-type]


def _is_of_sizes(e: Expr, sizes: set[SizeVar]) -> bool:
    """Whether an index is arithmetic on sizes of the program, which are known before anything runs."""

    def plain(node: Node) -> bool:
        return isinstance(node, Const | Op) or node in sizes

    return all(plain(node) for node in scalar_nodes(e))
