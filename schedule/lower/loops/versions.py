"""Two versions of a tile, and splits of a loop: where the interior's code may run.

The interior's version needs full tiles (so that unrolled loops and accumulators have constant sizes) and boundary operations that are the
identity. Conditions are expressions that must be at least 0. The vectorised loop is split instead, unless it runs over a tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Expr, Node, Op, Var, conjunction
from raido.schedule.lower.builder import begin_if_entered, end_if_entered
from raido.schedule.lower.loop_cursor import LoopCursor, ranges_of
from raido.schedule.lower.loops.peeling import Peeling
from raido.schedule.lower.lowered_stage import LoweredStage
from raido.schedule.lower.regions.partition import Boundary, Interior, interior_of, solved
from raido.schedule.plan import Fuse


def specialised_work(cursor: LoopCursor, position: int, assumptions: Assumptions) -> tuple[LoopCursor, list[Expr]]:
    """The loop cursor for full tiles in the interior, and the conditions under which it is legal; none when it always is."""
    lowered = cursor.lowered
    conditions = _full_tile(cursor, position, assumptions)
    identity: set[Node] = set()
    allowed = lowered.partitioned()
    if allowed and len(cursor.instances) == 1:
        assumptions = assumptions.with_known(*conditions) if conditions else assumptions
        ranges = {v: (assumptions.decided(a), assumptions.decided(b)) for v, (a, b) in ranges_of(cursor).items()}
        peeled = _peeled_variable(lowered)
        mine = [b for b in lowered.boundaries if b.node not in cursor.identity]
        inside = interior_of(mine, allowed - ({peeled} if peeled else set()), ranges, None, assumptions)
        if inside.identity:
            identity |= inside.identity
            conditions += [c for c in inside.conditions if c not in conditions]
        if peeled is not None and lowered.reduction is not None and _is_tile(lowered):
            along = interior_of([b for b in mine if peeled in b.variables], allowed, ranges, None, assumptions)
            if along.identity and not any(assumptions.nonnegative(ix.sub(-1, c)) for c in along.conditions):
                identity |= along.identity
                conditions += [c for c in along.conditions if c not in conditions]
    return replace(cursor, identity=cursor.identity | identity), strongest(conditions)


def _is_tile(lowered: LoweredStage) -> bool:
    """Whether the loop to be split at boundaries is the inner one of a split."""
    return lowered.peeled < 10**9 and lowered.plan.loops[lowered.peeled].name not in lowered.variables


def _peeled_variable(lowered: LoweredStage) -> Var | None:
    if lowered.peeled >= len(lowered.plan.loops):
        return None
    axes = lowered.axis_of[lowered.plan.loops[lowered.peeled].name]
    return lowered.variables[next(iter(axes))] if len(axes) == 1 else None


def _full_tile(cursor: LoopCursor, position: int, assumptions: Assumptions) -> list[Expr]:
    """The conditions under which inner loops that are unrolled, or run over accumulators, have their full trip count."""
    lowered = cursor.lowered
    kinds = ("vector", "unroll") if lowered.reduction else ("unroll",)
    inner = [
        loop.name for loop in lowered.plan.loops[position:] if loop.kind in kinds and loop.name not in lowered.variables
    ]
    axes = {axis for name in inner for axis in lowered.axis_of[name]}
    if lowered.reduction is not None and axes:
        axes |= {axis.name for axis in lowered.stage.axes}
    conditions: list[Expr] = []
    for coordinates in cursor.instances:
        for r in (coordinates.ranges[axis] for axis in sorted(axes)):
            if r.value is not None:
                continue
            members = list(ix.members_of(r.high))
            short = [a for a in members if ix.difference(a, r.low) is not None]
            gaps = [ix.sub(other, short[0]) for other in members if other is not short[0]] if short else []
            if any(assumptions.nonnegative(ix.sub(-1, gap)) for gap in gaps):
                return []
            conditions += [gap for gap in gaps if gap not in conditions and not assumptions.nonnegative(gap)]
    return conditions


def peeling_of(
    cursor: LoopCursor,
    position: int,
    low: Expr,
    high: Expr,
    step: int,
    assumptions: Assumptions,
    among: Sequence[Boundary] = (),
) -> tuple[Interior, Expr, Expr] | None:
    """The interior along the loop at `position` with its inclusive bounds; None when the loop is not split.

    among: the boundaries to consider in a piece of a loop that has been split already. A loop that lies entirely in the interior is not
    split either; its boundaries are then added to `cursor.identity`.
    """
    lowered = cursor.lowered
    name = lowered.plan.loops[position].name
    axes = lowered.axis_of[name]
    if position != lowered.peeled or not cursor.phase.cuts:
        return None
    if name in lowered.fused:
        return _peeling_of_rows(cursor, name, low, high, assumptions)
    if len(axes) != 1:
        return None
    (axis,) = axes
    whole = step == 1 and not any(axis in lowered.axis_of[loop.name] for loop in lowered.plan.loops[position + 1 :])
    if not whole and (name in lowered.reduced or not lowered.in_phases(position)):
        return None
    variable = lowered.variables[axis]
    if (not among and cursor.instances[0].box(axis)[0] is not low) or variable not in lowered.partitioned():
        return None
    mine = [b for b in among or lowered.boundaries if variable in b.variables]
    if not mine:
        return None
    interior = interior_of(mine, lowered.partitioned(), ranges_of(cursor), variable, assumptions)
    bounds = solved(interior)
    if bounds is None:
        return None
    begin, end = begin_if_entered(low, high, assumptions), end_if_entered(low, high, assumptions)
    if assumptions.less_equal(bounds[0], begin) and assumptions.less_equal(ix.sub(end, 1), bounds[1]):
        cursor.identity = cursor.identity | interior.identity
        return None
    return interior, bounds[0], bounds[1]


def vanishing(interior: Interior, peeled: Peeling, side: int, assumptions: Assumptions) -> tuple[Boundary, ...]:
    """The boundaries that are the identity somewhere in the border before the interior (side −1) or behind it; () if all of them are.

    An empty interior has the border behind it begin where the one before it ends.
    """

    def never(low: Expr, high: Expr) -> bool:
        if side < 0:
            return assumptions.less_equal(peeled.first, low)
        return assumptions.less_equal(high, peeled.last) or assumptions.less(high, peeled.first)

    left = tuple(b for b, ends in interior.along.items() if not never(*ends))
    return left if len(left) < len(interior.along) else ()


def _peeling_of_rows(
    cursor: LoopCursor, name: str, low: Expr, high: Expr, assumptions: Assumptions
) -> tuple[Interior, Expr, Expr] | None:
    """As `peeling_of`, for a loop that fuses an axis with the short rows inside it: the interior consists of whole rows."""
    lowered = cursor.lowered
    fuse = next((r for r in lowered.plan.relations if isinstance(r, Fuse) and r.into == name), None)
    if fuse is None or not {fuse.outer, fuse.inner} <= lowered.variables.keys() or len(cursor.instances) > 1:
        return None
    variable, count = lowered.variables[fuse.outer], ix.constant_value(cursor.instances[0].counts[fuse.inner])
    if not count or variable not in lowered.partitioned() or ix.constant_value(low) != 0:
        return None
    inner = lowered.variables[fuse.inner]
    mine = [b for b in lowered.boundaries if variable in b.variables and inner not in b.variables]
    interior = interior_of(mine, lowered.partitioned(), ranges_of(cursor), variable, assumptions)
    bounds = solved(interior)
    if bounds is None:
        return None
    start = cursor.instances[0].box(fuse.outer)[0]
    first = ix.mul(ix.sub(bounds[0], start), count)
    last = ix.sub(ix.mul(ix.sub(ix.add(bounds[1], 1), start), count), 1)
    if assumptions.less_equal(first, low) and assumptions.less_equal(ix.sub(high, 1), last):
        cursor.identity = cursor.identity | interior.identity
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
