"""Segmented reductions among stages: maps over segments with a fold of each one's values (`expand_segments`), found again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raido.algo.graph.expr import Axis, Checked, Expr, Item, Parameter, Reduce, Result
from raido.algo.graph.rewrite import children, free_variables, post_order
from raido.schedule.remember import remembered
from raido.schedule.stages.stage import Stage


@dataclass(frozen=True, slots=True)
class Segments:
    """The fold of a segment's values, the number of its axis among the stage's, and, in terms of that axis, where the segment begins
    and ends among `size` values. `checked`: where it begins, behind the check that offsets are in order.
    """

    fold: Reduce
    axis: int
    begin: Expr
    end: Expr
    size: Expr
    checked: Expr


@remembered
def segments_of(stage: Stage) -> Segments | None:
    """The segments of a stage, if that is what its elements are: each the fold of one."""
    return None if stage.reduction is not None else find_segments(stage.bodies, stage.axes)


def find_segments(bodies: Sequence[Expr], axes: Sequence[Axis]) -> Segments | None:
    """The only fold in these expressions, if it is that of a segment and every element needs it."""
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
    """The folds that every element evaluates; None where there are loops or branches beside them."""
    nodes = post_order(bodies, lambda e: () if isinstance(e, Item | Result | Parameter) else children(e))
    forms = dict.fromkeys(node.form for node in nodes if isinstance(node, Item))
    folds = {form: None for form in forms if isinstance(form, Reduce)}
    return folds if len(folds) == len(forms) else None
