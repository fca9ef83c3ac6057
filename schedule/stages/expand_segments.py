"""Segmented reductions and scans as ordinary forms.

A reduction is a map over segments, each with a fold of its own length (a *ragged* `Reduce`: its extent is computed). A scan is one scan of
pairs (whether a segment starts here or later, the value since then): it is independent of segments and is chained as any other, however
skewed they are. (Blelloch, Prefix sums and their applications, 1990, section 1.5.)
"""

from __future__ import annotations

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import (
    Array,
    Axis,
    Checked,
    Expr,
    Generate,
    Load,
    Node,
    Op,
    Reduce,
    Result,
    Scan,
    Segmented,
    Update,
    const,
    fresh,
)
from raido.algo.graph.faults import operator_can_fault
from raido.algo.graph.offsets import in_order, offset_of_zero_segments
from raido.algo.graph.reduction import either
from raido.algo.graph.rewrite import rewritten, topological
from raido.algo.passes.starts import folded_from_neutral
from raido.schedule.stages.tables import Tables


def expand_segments(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Replaces `Segmented` forms by maps with ragged folds, and by scans."""
    memo: dict[Node, Node] = {}
    made: dict[Node, Generate] = {}
    for node, new in tables.renewed(topological(*roots), memo):
        if isinstance(new, Segmented):
            made[new] = _scan(new, tables) if new.scan else _reduction(new, tables)
            tables.pass_names(node, made[new])
            tables.kinds[made[new]] = "segmented_scan" if new.scan else "segmented_reduce"
        if isinstance(new, Result) and new.form in made:
            memo[node] = Result(made[new.form], new.index)
    return rewritten(roots, memo)


def _bounds(form: Segmented, s: Expr, tables: Tables) -> tuple[Expr, Expr]:
    """Returns the first index of segment `s`, and its length; checked, and 0 if the check fails."""
    begin, end = (Load(form.offsets, (i,), False) for i in (s, ix.add(s, 1)))
    size = form.axes[0].extent
    holds = in_order(begin, end, size)
    lone = offset_of_zero_segments(Load(form.offsets, (const(i64, 0),), False), size)
    details = (begin, end, size, _segments(form).extent, lone)
    length = Op("sub", i64, (end, begin))
    checked = (Checked(begin, holds, "offsets", details), Checked(length, holds, "offsets", details))
    if form in tables.sites:
        for node in (lone, *checked):
            tables.sites.setdefault(node, tables.sites[form])
    return checked


def _segments(form: Segmented) -> Axis:
    return Axis(fresh("s"), ix.sub(form.offsets.shape[0], 1))


def _reduction(form: Segmented, tables: Tables) -> Generate:
    segment, rows = _segments(form), form.axes[1:]
    begin, length = _bounds(form, segment.var, tables)
    iteration = fresh("k")
    substitution: dict[Node, Node] = {form.axes[0].var: Op("add", i64, (begin, iteration))}
    # a cast to its own type keeps a product from being added in one rounding, as in a scan
    values = tuple(Op("cast", v.dtype, (v,)) for v in tables.substitute(form.values, substitution))
    fold = Reduce(
        (Axis(iteration, length),),
        form.left,
        form.right,
        form.combine,
        form.neutral,
        values,
        bool(form.monoid),
        form.monoid,
    )
    made: dict[Node, Node] = {}
    bodies = folded_from_neutral(fold, made)
    for new, old in made.items():
        if old in tables.sites:
            tables.sites.setdefault(new, tables.sites[old])
    return Generate((segment, *rows), bodies)


def _scan(form: Segmented, tables: Tables) -> Generate:
    axis, segment, where = form.axes[0], _segments(form), fresh("x")
    begin, _ = _bounds(form, segment.var, tables)
    none = Generate((Axis(where, axis.extent),), (const(bool_, False),))
    true = const(bool_, True)
    marks = Update((Result(none, 0),), (segment,), (begin,), (), (), (), (), (true,), "set", False, "")
    tables.kinds[none] = "elementwise"
    starts = Load(Result(marks, 0), (axis.var,), False)
    left, right = fresh("started", bool_), fresh("starts", bool_)
    operands: dict[Node, Node] = dict(zip((*form.left, *form.right), (*form.neutral, *form.values), strict=True))
    first = tables.substitute(form.combine, operands)
    branch = operator_can_fault(*form.combine)
    values = either(starts, first, form.values, branch)
    combine = either(right, form.right, form.combine, branch)
    scan = Scan(
        form.axes,
        0,
        (left, *form.left),
        (right, *form.right),
        (Op("logical_or", bool_, (left, right)), *combine),
        (const(bool_, False), *form.neutral),
        (starts, *values),
        False,
        "",
    )
    last = Load(form.offsets, (ix.sub(form.offsets.shape[0], 1),), False)
    inside = Op(
        "logical_and",
        bool_,
        (Op("le", bool_, (Load(form.offsets, (const(i64, 0),), False), axis.var)), Op("lt", bool_, (axis.var, last))),
    )
    indices = tuple(each.var for each in form.axes)
    bodies = tuple(
        Op("select", v.dtype, (inside, Load(Result(scan, k + 1), indices, False), n))
        for k, (v, n) in enumerate(zip(form.values, form.neutral, strict=True))
    )
    return Generate(*tables.over_new_axes(bodies, form.axes))
