"""The cost of the values and indices of an update's iterations: the cycles of one iteration, computed with it or in lanes beforehand.

    for r in 0..n: out[k(r)] += v(r)        in lanes: k and v of a tile of iterations, stored; then the iterations, which load them

Values that are plain loads are left to the iterations either way. For a function of few operations lanes gain nothing: it overlaps with the
loads and stores of the iterations, which wait for one another.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from raido.algo.graph import index
from raido.algo.graph.expr import Array, Cond, Expr, Load, Loop, Result, Var, While
from raido.algo.graph.rewrite import scalar_nodes
from raido.schedule.cost.divergent_loops import is_faster_alone
from raido.schedule.cost.elements import ACCESS, UNFORESEEN, element_cycles
from raido.schedule.machine import Machine
from raido.schedule.stages.stage import Stage

HANDED = 2 * ACCESS
"""Cycles to store a value and to load it again."""


def is_faster_in_tiles(stage: Stage, lane: Var, inlined: Sequence[Stage], machine: Machine) -> bool:
    """Whether an update is faster when lanes compute the values and indices of its iterations first. inlined: maps computed inside the
    iterations.
    """
    assert stage.reduction is not None
    if is_faster_alone(stage, lane, machine):
        return False
    own = {axis.var for each in (stage, *inlined) for axis in each.all_axes}
    there = {Result(each.form, k) for each in inlined for k in range(len(each.bodies))}
    made = [e for e in stage.reduction.values if index.constant_value(e) is None and not _is_only_read(e, there)]
    roots = (*made, *(body for each in inlined for body in each.bodies))
    alone, in_lanes = (_cycles(roots, own, machine, lanes) for lanes in (False, True))
    return alone > in_lanes + HANDED * len(made)


def _is_only_read(e: Expr, inlined: Collection[Array]) -> bool:
    return isinstance(e, Load) and e.array not in inlined


def _cycles(roots: Sequence[Expr], own: set[Var], machine: Machine, in_lanes: bool) -> float:
    """Returns the cycles of some values of one iteration; loops count as one iteration. own: the variables of axes, along which lanes read
    consecutively.
    """
    nodes = scalar_nodes(*roots)
    branches = 0 if in_lanes else sum(isinstance(node, (Cond, Loop, While)) for node in nodes)
    return UNFORESEEN * branches + element_cycles(
        nodes, machine, in_lanes, lambda indices: any(not own >= index.linear(i)[1].keys() for i in indices)
    )
