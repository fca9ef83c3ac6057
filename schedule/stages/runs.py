"""Scans that count the ends of runs at or before each index: their results are runs of equal numbers of data-dependent length.

    ends[k] does not decrease;   marks = zeros(m).at[ends].add(1);   number = scan(add, 0, marks)

`rd.repeat` numbers its elements so, as does any expansion of rows of different lengths. Where the ends are known to be non-decreasing,
number k fills the indices from ends[k - 1] to before ends[k], and the marks are not needed. They are non-decreasing where they are sums of
non-negative numbers.

Updates whose indices are known to be non-decreasing (`updates_are_in_order`) never return to an element that they have left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import (
    Array,
    Axis,
    Checked,
    Const,
    Expr,
    Generate,
    Item,
    Load,
    Node,
    Op,
    Reduce,
    Result,
    Scan,
    Sort,
    Update,
    Var,
    const,
    fresh,
)
from raido.algo.graph.node import with_fields
from raido.algo.graph.reduction import monoids
from raido.schedule.remember import remembered
from raido.schedule.stages.stage import Stage

ZERO, ONE = const(i64, 0), const(i64, 1)
FEW_BITS = 32  # no memory holds so many elements that their sum has 64 bits


@dataclass(frozen=True, slots=True)
class Runs:
    """The ends of the runs, and the form that marks them."""

    ends: Result
    marks: Node


@remembered
def runs_of(stage: Stage) -> Runs | None:
    """Returns the runs that a scan's results are; None for other stages."""
    fold = stage.reduction
    if stage.scan is None or stage.scan.exclusive or len(stage.axes) != 1 or fold is None or stage.outer:
        return None
    form = stage.form
    if (
        not isinstance(form, Scan)
        or form.monoid != "add"
        or form.neutral != (ZERO,)
        or stage.bodies != (Item(fold, 0),)
    ):
        return None
    (value,) = fold.values
    if not isinstance(value, Load) or value.indices != (stage.axes[0].var,) or not isinstance(value.array, Result):
        return None
    marks = value.array.form
    if not isinstance(marks, Update) or marks.checked or (len(marks.axes), len(marks.dest)) != (1, 1):
        return None
    if not _are_marks(marks):
        return None
    (index,) = marks.indices
    if not isinstance(index, Load) or index.indices != (marks.axes[0].var,) or not _never_falls(index.array):
        return None
    assert isinstance(index.array, Result)
    return Runs(index.array, marks)


def without_marks(stage: Stage, runs: Runs, marks: Stage) -> Stage:
    """Returns the scan with values counted from the ends, so that it reads no marks."""
    fold = stage.reduction
    assert fold is not None
    k = fresh("k")
    left, right = fresh("left", i64), fresh("right", i64)
    is_here = Op("eq", bool_, (Load(runs.ends, (k,), False), stage.axes[0].var))
    counted = Op("select", i64, (is_here, ONE, ZERO))
    both = Op("add", i64, (left, right))
    here = Reduce(
        (Axis(k, marks.reduction_axes[0].extent),), (left,), (right,), (both,), (ZERO,), (counted,), True, "add"
    )
    new = with_fields(fold, values=(Item(here, 0),))
    assert stage.scan is not None
    return replace(stage, reduction=new, bodies=(Item(new, 0),), scan=replace(stage.scan, ends=runs.ends))


def updates_are_in_order(stage: Stage) -> bool:
    """Whether the indices of an update along one axis are known to be non-decreasing: sums of non-negative numbers, sorted numbers, or either
    shifted by a constant.
    """
    if stage.update is None or stage.reduction is None or len(stage.reduction_axes) != 1 or len(stage.axes) != 1:
        return False
    (number,) = stage.update.index_values
    return number is not None and _rises(stage.reduction.values[number], stage.reduction_axes[0].var)


def _rises(e: Expr, var: Var) -> bool:
    if isinstance(e, Load) and e.indices == (var,) and isinstance(e.array, Result):
        form = e.array.form
        is_first_key = isinstance(form, Sort) and e.array.index == 0 and len(form.axes) == 1
        return is_first_key or _never_falls(e.array)
    if isinstance(e, Op) and e.name == "cast":
        return e.args[0].dtype.bits <= FEW_BITS and _rises(e.args[0], var)
    return isinstance(e, Op) and e.name in ("add", "sub") and isinstance(e.args[1], Const) and _rises(e.args[0], var)


def _are_marks(form: Update, k: int = 0) -> bool:
    """Whether result `k` of an update counts, from 0 on, the steps that name each element."""
    return monoids(form)[k] == "add" and form.mode == "combine" and form.values[k] is ONE and _is_zero(form.dest[k])


def _is_zero(array: Array) -> bool:
    """Whether all elements of an array are computed as 0."""
    return isinstance(array, Result) and isinstance(array.form, Generate) and array.form.bodies[array.index] == ZERO


def _never_falls(array: Array) -> bool:
    """Whether an array is non-decreasing: an inclusive sum scan of non-negative numbers."""
    if not isinstance(array, Result) or not isinstance(array.form, Scan):
        return False
    form = array.form
    sums = form.monoid == "add" and len(form.values) == 1 and form.values[0].dtype is i64
    return sums and form.neutral == (ZERO,) and len(form.axes) == 1 and _is_count(form.values[0])


def _is_count(e: Expr) -> bool:
    """Whether a number is never negative, and sums of it never wrap: a checked count, a boolean, an unsigned number of few bits, or a
    selection of these.
    """
    if isinstance(e, Const):
        return e.value in (0, 1)
    if isinstance(e, Checked):
        tests = isinstance(e.holds, Op) and e.holds.name == "ge" and e.holds.args == (e.value, ZERO)
        return tests or _is_count(e.value)
    if isinstance(e, Load) and isinstance(e.array, Result) and isinstance(e.array.form, Generate):
        return _is_count(e.array.form.bodies[e.array.index])
    if isinstance(e, Load) and isinstance(e.array, Result) and isinstance(e.array.form, Update):
        return _are_marks(e.array.form, e.array.index)
    if isinstance(e, Op) and e.name == "cast":
        return e.args[0].dtype is bool_ or (e.args[0].dtype.kind == "u" and e.args[0].dtype.bits <= FEW_BITS)
    return isinstance(e, Op) and e.name == "select" and all(map(_is_count, e.args[1:]))
