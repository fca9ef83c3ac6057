"""Two versions of a tile, and splits of a loop: where the interior's code may run.

The interior's version needs full tiles (so that unrolled loops and accumulators have constant sizes) and boundary operations that are the
identity. Conditions are expressions that must be at least 0. The vectorised loop is split instead, unless it runs over a tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Expr, Node, Op, Var
from raido.algo.graph.facts import Facts
from raido.schedule.lower.builder import begin_if_entered, end_if_entered
from raido.schedule.lower.convert import conjunction
from raido.schedule.lower.cuts import Cut
from raido.schedule.lower.jobs import Job
from raido.schedule.lower.partition import Boundary, Interior, interior_of, solved
from raido.schedule.lower.work import Work, ranges_of
from raido.schedule.plan import Fuse


def specialised_work(work: Work, position: int, facts: Facts) -> tuple[Work, list[Expr]]:
    """The loop cursor for full tiles in the interior, and the conditions under which it is legal; none when it always is."""
    job = work.job
    conditions = _full_tile(work, position, facts)
    identity: set[Node] = set()
    allowed = job.partitioned()
    if allowed and len(work.copies) == 1:
        facts = facts.with_known(*conditions) if conditions else facts
        ranges = {v: (facts.decided(a), facts.decided(b)) for v, (a, b) in ranges_of(work).items()}
        cut = _cut_variable(job)
        mine = [b for b in job.boundaries if b.node not in work.identity]
        inside = interior_of(mine, allowed - ({cut} if cut else set()), ranges, None, facts)
        if inside.identity:
            identity |= inside.identity
            conditions += [c for c in inside.conditions if c not in conditions]
        if cut is not None and job.reduction is not None and _is_tile(job):
            along = interior_of([b for b in mine if cut in b.variables], allowed, ranges, None, facts)
            if along.identity and not any(facts.nonnegative(ix.sub(-1, c)) for c in along.conditions):
                identity |= along.identity
                conditions += [c for c in along.conditions if c not in conditions]
    return replace(work, identity=work.identity | identity), strongest(conditions)


def _is_tile(job: Job) -> bool:
    """Whether the loop to be split at boundaries is the inner one of a split."""
    return job.cut < 10**9 and job.plan.loops[job.cut].name not in job.variables


def _cut_variable(job: Job) -> Var | None:
    if job.cut >= len(job.plan.loops):
        return None
    axes = job.axis_of[job.plan.loops[job.cut].name]
    return job.variables[next(iter(axes))] if len(axes) == 1 else None


def _full_tile(work: Work, position: int, facts: Facts) -> list[Expr]:
    """The conditions under which inner loops that are unrolled, or run over accumulators, have their full trip count."""
    job = work.job
    kinds = ("vector", "unroll") if job.reduction else ("unroll",)
    inner = [loop.name for loop in job.plan.loops[position:] if loop.kind in kinds and loop.name not in job.variables]
    axes = {axis for name in inner for axis in job.axis_of[name]}
    if job.reduction is not None and axes:
        axes |= {axis.name for axis in job.stage.axes}
    conditions: list[Expr] = []
    for coordinates in work.copies:
        for r in (coordinates.ranges[axis] for axis in sorted(axes)):
            if r.value is not None:
                continue
            members = list(ix.members_of(r.high))
            short = [a for a in members if ix.difference(a, r.low) is not None]
            gaps = [ix.sub(other, short[0]) for other in members if other is not short[0]] if short else []
            if any(facts.nonnegative(ix.sub(-1, gap)) for gap in gaps):
                return []
            conditions += [gap for gap in gaps if gap not in conditions and not facts.nonnegative(gap)]
    return conditions


def cut_of(
    work: Work, position: int, low: Expr, high: Expr, step: int, facts: Facts, among: Sequence[Boundary] = ()
) -> tuple[Interior, Expr, Expr] | None:
    """The interior along the loop at `position` with its inclusive bounds; None when the loop is not split.

    among: the boundaries to consider in a piece of a loop that has been split already. A loop that lies entirely in the interior is not
    split either; its boundaries are then added to `work.identity`.
    """
    job = work.job
    name = job.plan.loops[position].name
    axes = job.axis_of[name]
    if position != job.cut or not work.phase.cuts:
        return None
    if name in job.fused:
        return _cut_of_rows(work, name, low, high, facts)
    if len(axes) != 1:
        return None
    (axis,) = axes
    whole = step == 1 and not any(axis in job.axis_of[loop.name] for loop in job.plan.loops[position + 1 :])
    if not whole and (name in job.reduced or not job.in_phases(position)):
        return None
    variable = job.variables[axis]
    if (not among and work.copies[0].box(axis)[0] is not low) or variable not in job.partitioned():
        return None
    mine = [b for b in among or job.boundaries if variable in b.variables]
    if not mine:
        return None
    interior = interior_of(mine, job.partitioned(), ranges_of(work), variable, facts)
    bounds = solved(interior)
    if bounds is None:
        return None
    begin, end = begin_if_entered(low, high, facts), end_if_entered(low, high, facts)
    if facts.less_equal(bounds[0], begin) and facts.less_equal(ix.sub(end, 1), bounds[1]):
        work.identity = work.identity | interior.identity
        return None
    return interior, bounds[0], bounds[1]


def vanishing(interior: Interior, cut: Cut, side: int, facts: Facts) -> tuple[Boundary, ...]:
    """The boundaries that are the identity somewhere in the border before the interior (side −1) or behind it; () if all of them are.

    An empty interior has the border behind it begin where the one before it ends.
    """

    def never(low: Expr, high: Expr) -> bool:
        if side < 0:
            return facts.less_equal(cut.first, low)
        return facts.less_equal(high, cut.last) or facts.less(high, cut.first)

    left = tuple(b for b, ends in interior.along.items() if not never(*ends))
    return left if len(left) < len(interior.along) else ()


def _cut_of_rows(work: Work, name: str, low: Expr, high: Expr, facts: Facts) -> tuple[Interior, Expr, Expr] | None:
    """As `cut_of`, for a loop that fuses an axis with the short rows inside it: the interior consists of whole rows."""
    job = work.job
    fuse = next((r for r in job.plan.relations if isinstance(r, Fuse) and r.into == name), None)
    if fuse is None or not {fuse.outer, fuse.inner} <= job.variables.keys() or len(work.copies) > 1:
        return None
    variable, count = job.variables[fuse.outer], ix.constant_value(work.copies[0].counts[fuse.inner])
    if not count or variable not in job.partitioned() or ix.constant_value(low) != 0:
        return None
    inner = job.variables[fuse.inner]
    mine = [b for b in job.boundaries if variable in b.variables and inner not in b.variables]
    interior = interior_of(mine, job.partitioned(), ranges_of(work), variable, facts)
    bounds = solved(interior)
    if bounds is None:
        return None
    start = work.copies[0].box(fuse.outer)[0]
    first = ix.mul(ix.sub(bounds[0], start), count)
    last = ix.sub(ix.mul(ix.sub(ix.add(bounds[1], 1), start), count), 1)
    if facts.less_equal(first, low) and facts.less_equal(ix.sub(high, 1), last):
        work.identity = work.identity | interior.identity
        return None
    return interior, first, last


def strongest(conditions: list[Expr]) -> list[Expr]:
    """The conditions without any that follows from another one, which is smaller by a constant."""
    kept: dict[tuple[tuple[Expr, int], ...], tuple[int, Expr]] = {}
    for e in conditions:
        constant, terms = ix.linear(e)
        key = tuple(terms.items())
        if key not in kept or constant < kept[key][0]:
            kept[key] = (constant, e)
    return [e for _, e in kept.values()]


def all_hold(conditions: Iterable[Expr]) -> Expr:
    """The conjunction of `e >= 0` over these conditions."""
    return conjunction(map(as_comparison, conditions))


def as_comparison(e: Expr) -> Expr:
    """The comparison e >= 0, with negative terms moved to the other side."""
    constant, terms = ix.linear(e)
    left: Expr = ix.as_index(max(0, -constant))
    right: Expr = ix.as_index(max(0, constant))
    for atom, c in terms.items():
        if c < 0:
            left = ix.add(left, ix.mul(atom, -c))
        else:
            right = ix.add(right, ix.mul(atom, c))
    return Op("le", bool_, (left, right))
