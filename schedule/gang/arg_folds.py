"""Recognition of arg folds, `argmax` and `argmin`: folds of an element and its index, as `rd.argmax` writes
them, which two passes make cheaper."""

from __future__ import annotations

from collections.abc import Sequence

from raido.algo.graph.dtypes import DType, bool_, i64, whole_range
from raido.algo.graph.expr import Const, Expr, Op, const
from raido.algo.graph.rewrite import substitute
from raido.schedule.nest.nodes import Fold
from raido.schedule.nest.values import NestExpr

EXTREMES = {"gt": "maximum", "lt": "minimum"}


def arg_fold(fold: Fold) -> tuple[str, tuple[Expr, ...]] | None:
    """The comparison by which a fold picks the first extreme, "gt" or "lt", and the element and the index of a
    step; None for other folds."""
    if len(fold.buffers) != 2 or fold.buffers[1].dtype is not i64:
        return None
    for better in EXTREMES:
        pick = picked(fold.buffers[0].dtype, better, fold.left, fold.right)
        if fold.combine == pick and _is_lowest(fold.neutral, better):
            value = _value(fold)
            taken = dict(zip(fold.right, value or fold.right, strict=True))
            if value is not None and fold.step == tuple(substitute(e, taken) for e in pick):
                return better, value
    return None


def picked(dtype: DType, better: str, left: Sequence[Expr], right: Sequence[Expr]) -> tuple[Expr, ...]:
    """The operator of `argmax` or `argmin`, as `rd.argmax` writes it."""
    take = is_taken(dtype, better, left, right)
    return tuple(Op("select", a.dtype, (take, b, a)) for a, b in zip(left, right, strict=True))


def is_taken(dtype: DType, better: str, left: Sequence[Expr], right: Sequence[Expr]) -> Expr:
    (x, i), (y, j) = left, right
    test = lambda name, *args: Op(name, bool_, args)
    ahead = test(better, y, x)
    if dtype.is_float:
        ahead = test("select", test("isnan", x), const(bool_, False), test("logical_or", ahead, test("isnan", y)))
    return test("logical_or", ahead, test("logical_and", _same(dtype, x, y), test("lt", j, i)))


def _same(dtype: DType, x: Expr, y: Expr) -> Expr:
    same = Op("eq", bool_, (y, x))
    if not dtype.is_float:
        return same
    both = Op("logical_and", bool_, (Op("isnan", bool_, (x,)), Op("isnan", bool_, (y,))))
    return Op("logical_or", bool_, (same, both))


def _is_lowest(neutral: Sequence[NestExpr], better: str) -> bool:
    """Whether the fold's neutral element is the identity of the extreme."""
    first = neutral[0]
    if not isinstance(first, Const) or first.dtype is bool_:
        return False
    ends = (float("-inf"), float("inf")) if first.dtype.is_float else whole_range(first.dtype)
    return first.value == ends[better == "lt"]


def _value(fold: Fold) -> tuple[Expr, ...] | None:
    """The element and the index that a step of the fold takes in; None if the step is no selection."""
    if not all(
        isinstance(s, Op) and s.name == "select" and s.args[2] is v for s, v in zip(fold.step, fold.left, strict=True)
    ):
        return None
    return tuple(s.args[1] for s in fold.step)  # type: ignore[union-attr]
