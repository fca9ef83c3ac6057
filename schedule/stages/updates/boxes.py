"""Updates whose steps set a box of the result, as maps: scatter to gather.

    for ry in 0..h − 2, rx in 0..w − 2:             for y in 0..h, x in 0..w:
      out[ry + 1, rx + 1] = new(ry, rx)      →        out[y, x] = new(y − 1, x − 1) where 1 <= y < h − 1 and 1 <= x < w − 1, else old[y, x]

The map writes each element once, in any order, and reads only old contents: it needs no copy of them before its first step, and its values
may be computed where they are stored, though they read neighbours. Indices into the box are clamped, as those of a stencil are: index-set
splitting separates the box from the rest (`lower/regions/partition.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Count, Expr, Load, Node, Op, Var, conjunction
from raido.algo.graph.faults import is_index_of
from raido.algo.graph.rewrite import rebuild, scalar_nodes
from raido.schedule.remember import remembered
from raido.schedule.stages.checks import within
from raido.schedule.stages.stage import Stage, initial_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from raido.algo.graph.program import Site


@dataclass(frozen=True, slots=True)
class Side:
    """The extent of a box along one dimension of the result: `count` indices from `low` on; `variable` is the variable of the steps along it.

    `whole`: the box covers the dimension exactly.
    """

    low: Expr
    count: Expr
    variable: Var | None
    whole: bool = False


@remembered
def box_of(stage: Stage) -> tuple[Side, ...] | None:
    """Returns the box that the steps of an update are known to set, each element once; None for folds and other destinations."""
    update, fold = stage.update, stage.reduction
    if update is None or fold is None or update.mode not in ("set", "unique"):
        return None
    extents = {axis.var: axis.extent for axis in stage.all_axes}
    left = {axis.var for axis in fold.axes if ix.constant_value(axis.extent) != 1}
    sides = []
    for axis, number in zip(stage.axes, update.index_values, strict=True):
        if number is None:
            sides.append(Side(ix.as_index(0), axis.extent, None, True))
            continue
        side = _side(fold.values[number], extents)
        if side is None or (update.checked and not _lies_inside(side, axis.extent)):
            return None
        if side.variable is not None and side.variable not in left:
            return None
        left.discard(side.variable)  # type: ignore[arg-type]
        sides.append(side)
    return None if left else tuple(sides)


def _side(index: Expr, extents: Mapping[Var, Expr]) -> Side | None:
    """Returns the indices that a step's index takes, if they are contiguous along one axis of the steps, or a single index; else None."""
    _, terms = ix.linear(ix.canonical(index))
    moving = [
        atom for atom in terms if isinstance(atom, Var) and atom in extents and ix.constant_value(extents[atom]) != 1
    ]
    variable = moving[0] if moving else None
    if len(moving) > 1 or (variable is not None and terms[variable] != 1):
        return None
    low = ix.canonical(index)
    for var in terms.keys() & extents.keys():
        low = ix.sub(low, ix.mul(var, terms[var]))
    if not is_index_of(low, lambda node: isinstance(node, Count) or (isinstance(node, Var) and node not in extents)):
        return None
    return Side(low, ix.as_index(1) if variable is None else ix.where_at_least(extents[variable], 1), variable)


def _lies_inside(side: Side, extent: Expr) -> bool:
    """Whether all indices of a side are provably in range."""
    assumptions = Assumptions()
    return assumptions.nonnegative(side.low) and assumptions.less_equal(ix.add(side.low, side.count), extent)


def gathered(stage: Stage, box: Sequence[Side], sites: dict[Node, Site]) -> Stage:
    """Returns the update as a map over the elements of its result, with the update's name and form.

    The source sites of replaced expressions are added to `sites` for the new ones.
    """
    fold = stage.reduction
    assert fold is not None
    tests: list[Expr] = []
    values: dict[Node, Node] = {axis.var: ix.as_index(0) for axis in fold.axes}
    for axis, side in zip(stage.axes, box, strict=True):
        if side.whole:
            continue
        index = ix.sub(axis.var, side.low)
        tests.append(within(index, side.count))
        if side.variable is not None:
            values[side.variable] = Op("clamp_index", i64, (index, side.count))
    count = len(fold.left)
    new, old = _replaced(fold.values[:count], values, sites), initial_values(fold)
    inside = conjunction(tests)
    bodies = tuple(Op("select", b.dtype, (inside, b, a)) for b, a in zip(new, old, strict=True))
    return replace(stage, bodies=bodies, reduction=None, update=None)


def _replaced(roots: Sequence[Expr], values: Mapping[Node, Node], sites: dict[Node, Site]) -> tuple[Expr, ...]:
    """Returns expressions with variables replaced, indices in canonical form."""
    memo: dict[Node, Node] = dict(values)
    for node in scalar_nodes(*roots):
        if node in memo:
            continue
        new = rebuild(node, lambda child: memo.get(child, child))
        if isinstance(new, Load):
            new = Load(new.array, tuple(ix.canonical(e) for e in new.indices), new.checked)
        memo[node] = new
        if node in sites:
            sites.setdefault(new, sites[node])
    return tuple(memo[root] for root in roots)  # type: ignore[misc]
