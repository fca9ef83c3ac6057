"""Values and indices of an update's iterations, computed in lanes for a tile of iterations at a time: the part "values" of its strategy.

    before   for r in 0..n: out[k(r)] += v(r)

    after    for strip in 0..n step 512:
               for r in strip..min(strip + 512, n) by vector: index[r - strip] = k(r); new[r - strip] = v(r)
               for r in strip..min(strip + 512, n): out[index[r - strip]] += new[r - strip]

The iterations stay in order. None reads an element that another one changes (`stages/updates/dependence.py`), so a tile may read everything
that it needs first. Values that are merely read at the iteration's own index are not stored, but read where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr, Load, Op, fresh
from raido.algo.graph.rewrite import free_variables
from raido.schedule.lower.expressions.index_checks import is_affine
from raido.schedule.lower.loop_cursor import LoopCursor, Phase, over_results
from raido.schedule.nest.nodes import Store
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.plan import Split
from raido.schedule.state import with_loop
from raido.schedule.strategies.parts import has_values_in_lanes, part_plan

if TYPE_CHECKING:
    from raido.schedule.lower.strategies.updates import Updates

Made = Mapping[int, NestExpr]
"""Precomputed values and indices of an update's step, by their position in the fold's `values`."""

NOTHING: Made = {}


class UpdateTiles:
    """Emits the iterations of updates tile by tile."""

    def __init__(self, updates: Updates) -> None:
        self.updates = updates

    def applies(self, cursor: LoopCursor, position: int) -> bool:
        """Whether the loop at `position` is the innermost over iterations, and the schedule computes their values in lanes."""
        lowered = cursor.lowered
        if lowered.plan.loops[position].name not in lowered.reduced or not has_values_in_lanes(
            lowered.stage, lowered.plan
        ):
            return False
        inner = range(position + 1, len(lowered.plan.loops))
        return all(map(lowered.chosen_by_updates, inner)) and bool(self._handed_on(cursor, position))

    def emit(
        self, cursor: LoopCursor, position: int, take: Callable[[LoopCursor, int, Callable[[LoopCursor], Made]], None]
    ) -> None:
        """Emits the loop at `position`, tile by tile. `take(work, position, made)` emits a loop over the iterations of one tile; `made`
        returns the values and indices that are already computed."""
        for k in range(len(cursor.instances)):
            single = replace(cursor, instances=[cursor.instances[k].copy()], origin_of=[cursor.origin_of[k]])
            self._emit(single, position, take)

    def _emit(
        self, cursor: LoopCursor, position: int, take: Callable[[LoopCursor, int, Callable[[LoopCursor], Made]], None]
    ) -> None:
        builder, lowered = self.updates.builder, cursor.lowered
        loop = lowered.plan.loops[position]
        low, high, step = cursor.instances[0].bounds(loop.name)
        if step != 1 or cursor.instances[0].ranges[loop.name].offset:
            take(cursor, position, lambda _: NOTHING)
            return
        fold, handed = lowered.reduction, self._handed_on(cursor, position)
        assert fold is not None
        (split,) = part_plan(lowered.stage, lowered.plan, "values").relations
        assert isinstance(split, Split)
        tile, count = fresh("strip"), split.factor
        with builder.loop(tile, low, high, count, stage=lowered.stage.name, loop=split.outer):
            made = {k: builder.alloc("made", fold.values[k].dtype, (ix.as_index(count),), "stack") for k in handed}
            cursor.instances[0].narrow(loop.name, tile, ix.minimum(ix.add(tile, count), high))

            def at(inner: LoopCursor) -> Expr:
                value = inner.instances[0].ranges[loop.name].value
                assert value is not None
                return ix.sub(value, tile)

            self._make(replace(cursor, instances=[cursor.instances[0].copy()]), position, made, at)

            def names(inner: LoopCursor) -> Made:
                indices = (at(inner),)
                called = ("index", "new")
                return {k: builder.name(called[k < len(fold.left)], Read(b, indices, None)) for k, b in made.items()}

            take(cursor, position, names)

    def _make(
        self, cursor: LoopCursor, position: int, made: Mapping[int, Buffer], at: Callable[[LoopCursor], Expr]
    ) -> None:
        """Emits the vectorised loop that computes the stored values and indices."""
        updates, lowered = self.updates, cursor.lowered
        lanes = part_plan(lowered.stage, lowered.plan, "values").loops[-1]
        loop = replace(lowered.plan.loops[position], kind="vector", lanes=lanes.lanes, interleave=lanes.interleave)
        inner = replace(lowered, plan=with_loop(lowered.plan, loop))

        def element(each: LoopCursor) -> None:
            values = updates.loops.environment(each, 0)
            for (_, buffer), value in zip(made.items(), updates.make(each, values, tuple(made)), strict=True):
                updates.builder.add(Store(buffer, (at(each),), value))

        phase = Phase(element, over_results)
        updates.loops.loop(replace(cursor, lowered=inner, phase=phase), position)

    def _handed_on(self, cursor: LoopCursor, position: int) -> tuple[int, ...]:
        """The positions of the values and indices of an iteration that take more than a read."""
        lowered = cursor.lowered
        assert lowered.reduction is not None
        moving = {lowered.variables[axis] for axis in lowered.axis_of[lowered.plan.loops[position].name]}
        values = enumerate(lowered.reduction.values)
        return tuple(k for k, e in values if not moving.isdisjoint(free_variables(e)) and not is_only_read(e))


def is_only_read(e: Expr) -> bool:
    """Whether a value is arithmetic of axes, or an element read at such an index, possibly cast from an integer dtype."""
    while isinstance(e, Op) and e.name == "cast" and not e.args[0].dtype.is_float:
        (e,) = e.args
    return is_affine(e) or (isinstance(e, Load) and all(map(is_affine, e.indices)))
