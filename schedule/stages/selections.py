"""Selections: sorts of which readers want some places alone, such as the first ten, or the middle one of a median.

    y = sort(x);  out[i] = y[i] for i in 0..10        places of y: 0..9

The places follow from the indices at which stages read a sort, while their axes run over all that they have (interval analysis). They
are known where sizes of the program and constants decide them; a sort that leaves its scope, or that a loop over arrays takes, is wanted
whole. (Hoare, Algorithm 65: Find, 1961.)
"""

from __future__ import annotations

from dataclasses import replace

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Const, Expr, Fill, Load, Node, Op, Reduce, SizeVar, Var
from raido.algo.graph.facts import Facts, interval
from raido.algo.graph.rewrite import scalar_nodes
from raido.schedule.stages.reads import Uses, find_uses, flatten, scalars_of
from raido.schedule.stages.stage import AnyStage, ControlStage, Places, Stage, StageGraph

MOST = 8  # stretches of places: what is left to be sorted is compared with each


def find_selections(graph: StageGraph) -> StageGraph:
    """The graph with the places that are read of each sort."""
    if not any(isinstance(stage, Stage) and stage.sort for stage, _ in flatten(graph.stages)):
        return graph
    uses = find_uses(graph)

    def found(stage: AnyStage) -> AnyStage:
        if isinstance(stage, ControlStage):
            parts = {part: tuple(map(found, getattr(stage, part))) for part in ("setup", "body", "orelse")}
            return replace(stage, **parts)  # type: ignore[arg-type]
        if stage.sort is None:
            return stage
        return replace(stage, sort=replace(stage.sort, places=places_read(stage, uses, graph)))

    return replace(graph, stages=tuple(map(found, graph.stages)))


def places_read(sort: Stage, uses: Uses, graph: StageGraph) -> Places | None:
    """The first and the last index of each stretch that is read of a sort along its axis; None where it is wanted whole."""
    name, facts = sort.name, Facts()
    last = ix.sub(sort.reduction_axes[0].extent, 1)
    readers = uses.readers[name]
    if name in uses.outputs or any(not isinstance(uses.stages[reader], Stage) for reader in readers):
        return None
    sizes = set(graph.program.sizes)
    stretches: dict[tuple[Expr, Expr], None] = {}
    for reader in readers:
        for load in uses.loads[reader].get(name, ()):
            ends = _ends(load, sort, ranges_of(uses.stages[reader]), facts)
            if ends is None or not all(_is_of_sizes(e, sizes) for e in ends):
                return None
            if facts.less_equal(ends[0], ix.as_index(0)) and facts.less_equal(last, ends[1]):
                return None
            stretches[ends] = None
    return tuple(stretches) if 0 < len(stretches) <= MOST else None


def ranges_of(reader: AnyStage) -> dict[Var, tuple[Expr, Expr]]:
    """The first and the last index of every axis of a stage, those inside its expressions among them."""
    assert isinstance(reader, Stage)
    axes = [*reader.all_axes]
    for node in scalars_of(reader):
        axes += node.axes if isinstance(node, Reduce | Fill) else ()
    return {axis.var: (ix.as_index(0), ix.sub(axis.extent, 1)) for axis in axes}


def _ends(load: Load, sort: Stage, ranges: dict[Var, tuple[Expr, Expr]], facts: Facts) -> tuple[Expr, Expr] | None:
    """The least and the greatest index along the sorted axis at which an expression reads it."""
    index = ix.canonical(load.indices[sort.axes.index(sort.reduction_axes[0])])
    if not any(isinstance(node, Var) for node in scalar_nodes(index)):
        return index, index
    ends = interval(index, ranges, facts)
    return None if ends is None else (ix.canonical(ends[0]), ix.canonical(ends[1]))


def _is_of_sizes(e: Expr, sizes: set[SizeVar]) -> bool:
    """Whether an index is arithmetic on sizes of the program, which are known before anything runs."""

    def plain(node: Node) -> bool:
        return isinstance(node, Const | Op) or node in sizes

    return all(plain(node) for node in scalar_nodes(e))
