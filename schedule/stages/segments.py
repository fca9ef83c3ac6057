"""Segmented reductions among stages: recognises maps over segments with a fold of each one's values (`expand_segments`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raido.algo.graph.expr import Axis, Checked, Expr, Item, Parameter, Reduce, Result
from raido.algo.graph.node import Node, field_names
from raido.algo.graph.reduction import identities_of
from raido.algo.graph.rewrite import children, free_variables, post_order, scalar_nodes
from raido.schedule.plan import LoopPlan
from raido.schedule.remember import remembered
from raido.schedule.stages.dependent import is_ragged
from raido.schedule.stages.reads import scalars_of
from raido.schedule.stages.stage import LaneFold, Stage
from raido.schedule.stages.tables import Tables


@dataclass(frozen=True, slots=True)
class Segments:
    """The fold of a segment's values, and the segment's bounds.

    `axis`: the number of the segments' axis among the stage's. `begin`, `end`: the segment's first value and the one after its last, of
    `size` values, in terms of that axis. `checked`: `begin` behind the check that offsets are in order.
    """

    fold: Reduce
    axis: int
    begin: Expr
    end: Expr
    size: Expr
    checked: Expr


@remembered
def ragged_folds(stage: Stage) -> tuple[Reduce, ...]:
    """Returns the folds in a stage's expressions with data-dependent length, inner ones first."""
    return tuple(node for node in scalars_of(stage) if isinstance(node, Reduce) and is_ragged(node))


def takes_lanes(fold: Reduce) -> bool:
    """Whether lanes may take the values of a ragged fold in turn: its operator has a known identity for each to start from."""
    return len(fold.axes) == 1 and bool(identities_of(fold))


def with_lanes(stage: Stage, loop: LoopPlan, tables: Tables) -> tuple[Expr, ...]:
    """Returns the bodies of a stage with its ragged folds in lanes, where possible, as a loop of its strategy's part states."""
    bodies = stage.bodies
    memo: dict[Node, Node] = {}
    for node, new in tables.renewed(scalar_nodes(*bodies), memo):
        if isinstance(new, Reduce) and is_ragged(new) and takes_lanes(new):
            parts = (getattr(new, name) for name in field_names(Reduce))
            memo[node] = LaneFold(*parts, loop.lanes, loop.interleave, stage.name, loop.name)
            tables.carry(node, memo[node])
    return tuple(memo[body] for body in bodies)  # type: ignore[misc]


@remembered
def segments_of(stage: Stage) -> Segments | None:
    """Returns the segments of a stage each of whose elements is the fold of one; None for other stages."""
    return None if stage.reduction is not None else find_segments(stage.bodies, stage.axes)


def find_segments(bodies: Sequence[Expr], axes: Sequence[Axis]) -> Segments | None:
    """Returns the segments of the only fold in these expressions, if every element evaluates it; else None."""
    folds = _folds(bodies)
    if folds is None or len(folds) != 1:
        return None
    (fold,) = folds
    extent = fold.axes[0].extent
    if len(fold.axes) != 1 or not isinstance(extent, Checked) or extent.kind != "offsets":
        return None
    begin, end, size = extent.details[:3]
    along = [k for k, axis in enumerate(axes) if axis.var in free_variables(begin)]
    if not along:
        return None
    return Segments(fold, along[-1], begin, end, size, Checked(begin, extent.holds, "offsets", extent.details))


def _folds(bodies: Sequence[Expr]) -> dict[Reduce, None] | None:
    """Returns the folds that every element evaluates; None where there are loops or branches beside them."""
    nodes = post_order(bodies, lambda e: () if isinstance(e, Item | Result | Parameter) else children(e))
    forms = dict.fromkeys(node.form for node in nodes if isinstance(node, Item))
    folds = {form: None for form in forms if isinstance(form, Reduce)}
    return folds if len(folds) == len(forms) else None
