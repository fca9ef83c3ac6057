"""The loops of a stage: from its plan and the box to compute, to statements.

`level` emits the loop at one position and goes on inside. A `LoopCursor` is the loop cursor: the lowered stage, its
coordinates, and its phase. It has several coordinates where loops were unrolled; the instances are emitted side by side
in the loops inside and share loads (unroll-and-jam).

At each position: the two versions part (`versions`), a reduction begins, the loop is emitted, then the producers placed at it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import interval
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Expr, Node, Op, Result, Var, conjunction, fresh
from raido.schedule.checks.levels import bound
from raido.schedule.checks.matrix_units import DEPTH
from raido.schedule.lower.builder import Builder, Scope, as_planned, closed
from raido.schedule.lower.expressions.convert import Converter
from raido.schedule.lower.expressions.emit import Emitter
from raido.schedule.lower.loop_cursor import LoopCursor, Phase, cloned
from raido.schedule.lower.loops import mirror
from raido.schedule.lower.loops.folds import in_order
from raido.schedule.lower.loops.lane_blocks import LaneBlocks
from raido.schedule.lower.loops.moved_tiles import ends_of, moved_back, tiles_of
from raido.schedule.lower.loops.partials import PartialFolds
from raido.schedule.lower.loops.peeling import Peeling, Piece, at_boundaries, at_lines
from raido.schedule.lower.loops.prefetches import prefetch
from raido.schedule.lower.loops.reductions import Reductions
from raido.schedule.lower.loops.rows import indices_in_row, row_by_row, rows_through
from raido.schedule.lower.loops.strip_mining import peeled_tiles
from raido.schedule.lower.loops.versions import all_hold, peeling_of, specialised_work, vanishing
from raido.schedule.lower.lowered_stage import LoweredStage
from raido.schedule.lower.regions.coordinates import Coordinates
from raido.schedule.lower.regions.partition import Boundary, Interior
from raido.schedule.lower.regions.placement import Placement
from raido.schedule.lower.regions.regions import Box, extent_bound, spread
from raido.schedule.lower.regions.sharing import Sharing, fused_stages_by_leader
from raido.schedule.lower.strategies.block_scans import BlockScans
from raido.schedule.lower.strategies.blocks import Blocks
from raido.schedule.lower.strategies.filters import Filters
from raido.schedule.lower.strategies.flat_segments import FlatSegments
from raido.schedule.lower.strategies.scans import Scans
from raido.schedule.lower.strategies.sorts import Sorts
from raido.schedule.lower.strategies.updates import Updates
from raido.schedule.lower.threads.piece_scans import PieceScans
from raido.schedule.lower.threads.thread_folds import ThreadFolds
from raido.schedule.lower.threads.thread_scans import ThreadScans
from raido.schedule.nest.nodes import Block, Certificate, Store
from raido.schedule.nest.values import Buffer, Read
from raido.schedule.plan import LoopPlan
from raido.schedule.state import trip_count

MOST_INSTANCES = 1024  # instances of a body in all unrolled loops around it


class Loops:
    """Emits loops of stages into a builder. names: the schedule's names of arrays, by their forms."""

    def __init__(
        self,
        builder: Builder,
        converter: Converter,
        contract: bool,
        lowered_stages: dict[str, LoweredStage],
        names: Mapping[Node, str],
    ) -> None:
        self.builder = builder
        self.converter = converter
        self.emitter = Emitter(builder, converter.faults, converter.loops, contract)
        self.names = names
        self.stored: dict[Node, tuple[Expr, Scope]] = {}
        self.compute = Phase(self._element, takes_over=self._take_over, shares=True, cuts=True)
        self.reductions = Reductions(self)
        self.partials = PartialFolds(self, self.reductions)
        self.lane_blocks = LaneBlocks(self, self.reductions)
        self.thread_folds = ThreadFolds(self, self.reductions)
        self.thread_scans = ThreadScans(self, self.thread_folds)
        blocks = Blocks(self, self.reductions)
        in_blocks = BlockScans(blocks, PieceScans(blocks, self.thread_scans))
        self.scans = Scans(self, self.reductions, in_blocks)
        self.updates = Updates(self)
        self.filters = Filters(self, self.reductions, in_blocks)
        self.sorts = Sorts(self)
        self.flat_segments = FlatSegments(self)
        fused_stages = fused_stages_by_leader(lowered_stages)
        self.sharing = Sharing(self, self.reductions, fused_stages)
        self.placer = Placement(self, lowered_stages, fused_stages)

    def nest(self, lowered: LoweredStage, box: Box) -> None:
        """Emits a stage over a box (inclusive bounds of its pure axes), behind a test that no axis of which the box is a part is empty,
        unless that is proved: the box's bounds may not show it."""
        assumptions, none = self.builder.assumptions, ix.as_index(0)
        parts = [
            a.extent
            for a, (low, high) in zip(lowered.stage.axes, box, strict=True)
            if (low, high) != (none, ix.sub(a.extent, 1))
        ]
        doubtful = [n for n in dict.fromkeys(parts) if not assumptions.nonnegative(ix.sub(n, 1))]
        if doubtful:
            holds = all_hold(ix.sub(n, 1) for n in doubtful)
            with self.builder.when(holds, *(ix.sub(n, 1) for n in doubtful)):
                self._nest(lowered, box)
        else:
            self._nest(lowered, box)

    def _nest(self, lowered: LoweredStage, box: Box) -> None:
        axes = [(a.name, low, spread(ix.add(high, 1))) for a, (low, high) in zip(lowered.stage.axes, box, strict=True)]
        if not set(lowered.stage.reduction_axes) <= set(lowered.stage.axes):
            axes += [(a.name, ix.as_index(0), a.extent) for a in lowered.stage.reduction_axes]
        self.level(
            LoopCursor(lowered, [Coordinates(axes, lowered.plan.relations, self._most(lowered, box))], self.compute), 0
        )

    def _most(self, lowered: LoweredStage, box: Box) -> dict[str, int]:
        """Constant upper bounds of the box's extents where the threads of a block share its loops: fused loops then
        divide by constants, not by sizes."""
        if not self.builder.inside("block") or not any(loop.level for loop in lowered.plan.loops):
            return {}
        assumptions, meaning = self.builder.assumptions, self.builder.meaning
        extents = [
            extent_bound(low, high, axis.extent, assumptions, meaning)
            for axis, (low, high) in zip(lowered.stage.axes, box, strict=True)
        ]
        known = ((axis.name, ix.constant_value(n)) for axis, n in zip(lowered.stage.axes, extents, strict=True))
        return {name: n for name, n in known if n is not None}

    def level(self, cursor: LoopCursor, position: int) -> None:
        """Emits everything from the loop at `position` inwards."""
        phase = cursor.phase
        if phase.takes_over(cursor, position):
            return
        if position == len(cursor.lowered.plan.loops):
            phase.element(cursor)
        elif phase.leaves_out(cursor, position):
            self.level(cursor, position + 1)
        else:
            self.sharing.before(cursor, position)
            self.loop(cursor, position)
            self.sharing.after(cursor, position)

    def _take_over(self, cursor: LoopCursor, position: int) -> bool:
        """Emits the versions of a whole stage's loops, or its fold by the stage's strategy, from `position`
        inwards; returns whether it did."""
        lowered, stage, count = cursor.lowered, cursor.lowered.stage, len(cursor.lowered.plan.loops)
        if lowered.flat and position == count - 1:
            self.flat_segments.reduce(cursor, position)
        elif not cursor.versioned and position == min(lowered.version_at, count):
            self.versions(replace(cursor, versioned=True), position)
        elif lowered.reduction is None or position != lowered.first_reduction:
            return False
        elif stage.sort:
            self.sorts.sort(cursor)
        elif stage.filter:
            self.filters.filter(cursor, position)
        elif stage.scan:
            self.scans.scan(cursor, position)
        elif stage.update:
            self.updates.update(cursor, position)
        else:
            with mirror.unless_copied(self.builder, cursor):
                self.reductions.reduce(cursor, position)
        return True

    # One loop

    def loop(self, cursor: LoopCursor, position: int, kind: str | None = None) -> None:
        """Emits the loop at `position` and everything inside."""
        lowered, plan = cursor.lowered, cursor.lowered.plan.loops[position]
        if kind is None:
            kind = plan.kind
            if self.lane_blocks.applies(cursor, position):
                self.lane_blocks.fold(cursor, position)
                return
            if self.thread_folds.applies(cursor, position):
                self.thread_folds.fold(cursor, position)
                return
        bounds = [self.bounds(c, plan.name) for c in cursor.instances]
        lows, highs, step = [b[0] for b in bounds], [b[1] for b in bounds], bounds[0][2]
        trips = {ix.difference(h, lo) for lo, h in dict.fromkeys(zip(lows, highs, strict=True))}
        trip = None if len(trips) != 1 else trips.pop()
        count = self._iterations(lows, highs, step) if trip is None and kind == "unroll" else None
        count = count if trip is None else -(-trip // step)
        if trip is None and step > 1 and all(self._runs_once(*b) for b in dict.fromkeys(bounds)):
            count = 1
        if kind == "matrix":
            kind = "serial"
            if all(b == bounds[0] for b in bounds) and self._has_full_tiles(cursor, position):
                self._matrix(cursor, position, *bounds[0])
                return
        if count == 1 and kind != "parallel":
            self.choose(cursor, position, [[low] for low in lows])
        elif kind == "unroll" and count is not None and 0 < count * len(cursor.instances) <= MOST_INSTANCES:
            self.choose(cursor, position, [[ix.add(low, k * step) for k in range(count)] for low in lows])
        elif kind == "unroll" and (count := self._most_in_registers(cursor, bounds)) is not None:
            self._tested(cursor, position, count, *bounds[0])
        elif all(b == bounds[0] for b in bounds):
            self._segments(cursor, position, kind, *bounds[0])
        elif trip is not None:
            var = fresh(plan.name)
            with self._for(lowered, plan, var, ix.as_index(0), ix.as_index(trip), step, kind):
                self.choose(cursor, position, [[ix.add(low, var)] for low in lows])
        else:
            for k, coordinates in enumerate(cursor.instances):
                single = replace(cursor, instances=[coordinates], origin_of=[cursor.origin_of[k]])
                self.loop(single, position, kind)

    def _has_full_tiles(self, cursor: LoopCursor, position: int) -> bool:
        """Whether the loops inside, over a thread's accumulators, have provably the trip counts of a full tile."""
        lowered = cursor.lowered
        for coordinates in cursor.instances:
            first = coordinates.copy()
            first.choose(
                lowered.plan.loops[position].name, self.bounds(first, lowered.plan.loops[position].name)[0], _unnamed
            )
            for loop in lowered.plan.loops[position + 1 :]:
                low, high, step = self.bounds(first, loop.name)
                most = ix.constant_value(trip_count(lowered.stage, lowered.plan, loop.name))
                if most is None or self._iterations([low], [high], step) != most:
                    return False
                first.choose(loop.name, low, _unnamed)
            if any(
                not self.builder.assumptions.nonnegative(ix.sub(ix.sub(b, a), 1)) for a, b in first.guards if a is not b
            ):
                return False
        return True

    def _matrix(self, cursor: LoopCursor, position: int, low: Expr, high: Expr, step: int) -> None:
        """Emits the loop at `position` over products of matrices as loops that matrix units can run: a full tile, or where the sum's end
        cuts it off, as many whole instructions as fit and the rest."""
        lowered, assumptions, plan = cursor.lowered, self.builder.assumptions, cursor.lowered.plan.loops[position]
        end = ix.add(low, trip_count(lowered.stage, lowered.plan, plan.name))
        gaps = [ix.sub(e, end) for e in ix.members_of(high)]
        if any(assumptions.nonnegative(ix.sub(-1, gap)) for gap in gaps):
            self._matrix_rest(cursor, position, low, high, step)
            return
        doubtful = [gap for gap in gaps if not assumptions.nonnegative(gap)]
        if not doubtful:
            self._plain(cursor, position, "matrix", low, end, step)
            return
        peeled = cloned(cursor)
        with self.builder.block(assumptions.with_known(*doubtful), branch=True) as whole:
            self._plain(cursor, position, "matrix", low, end, step)
        with self.builder.block(branch=True) as otherwise:
            self._matrix_rest(peeled, position, low, high, step)
        self.builder.branch(all_hold(doubtful), whole, otherwise)

    def _matrix_rest(self, cursor: LoopCursor, position: int, low: Expr, high: Expr, step: int) -> None:
        """Emits the iterations of a tile that the end of the sum cuts off."""
        length = ix.maximum(ix.sub(high, low), 0)
        most = ix.constant_value(
            trip_count(cursor.lowered.stage, cursor.lowered.plan, cursor.lowered.plan.loops[position].name)
        )
        if most is not None and most > DEPTH:
            number, count = fresh("part"), self.builder.name("parts", ix.floordiv(length, DEPTH))
            parts = cloned(cursor)
            with self.builder.loop(number, ix.as_index(0), count, 1):
                begin = ix.add(low, ix.mul(number, DEPTH))
                self._plain(parts, position, "matrix", begin, ix.add(begin, DEPTH), step)
            low = ix.add(low, ix.mul(count, DEPTH))
        self._plain(cursor, position, "matrix", low, high, step)

    def _runs_once(self, low: Expr, high: Expr, step: int) -> bool:
        """Whether a loop provably has exactly one iteration, even if its bounds are not constant."""
        return ix.constant_value(self.builder.assumptions.decided(ix.ceildiv(ix.sub(high, low), step))) == 1

    def _iterations(self, lows: Sequence[Expr], highs: Sequence[Expr], step: int) -> int | None:
        """The trip count of loops if it is the same provable constant for all of them, else None."""
        found: set[int | None] = set()
        for low, high in zip(lows, highs, strict=True):
            lengths = interval(ix.sub(high, low), self.builder.assumptions.ranges, self.builder.assumptions)
            counts = (None,) if lengths is None else (ix.constant_value(ix.ceildiv(n, step)) for n in lengths)
            found.update(counts)
        return found.pop() if len(found) == 1 else None

    def _most_in_registers(self, cursor: LoopCursor, bounds: Sequence[tuple[Expr, Expr, int]]) -> int | None:
        """The greatest trip count of an unrolled loop over a thread's accumulators if it is constant, else None. Registers cannot be
        indexed, so a tile at the edge of an array has as many instances as a full one, each behind a test."""
        if cursor.accumulators is None or len(bounds) > 1 or not self.builder.inside("thread"):
            return None
        low, high, step = bounds[0]
        most = ix.constant_value(
            extent_bound(low, ix.sub(high, 1), high, self.builder.assumptions, self.builder.meaning)
        )
        count = None if most is None else -(-most // step)
        return count if count is not None and count * cursor.tested <= MOST_INSTANCES else None

    def _tested(self, cursor: LoopCursor, position: int, count: int, low: Expr, high: Expr, step: int) -> None:
        """Emits the loop at `position` written out `count` times, each iteration behind the test that it is in range."""
        plan, var = cursor.lowered.plan.loops[position], fresh(cursor.lowered.plan.loops[position].name)
        value = ix.add(low, ix.mul(var, step))
        with self._for(cursor.lowered, plan, var, ix.as_index(0), ix.as_index(count), 1, "unroll"):
            assumptions = self.builder.assumptions
            ends = [e for e in ix.members_of(high) if not assumptions.nonnegative(ix.sub(ix.sub(e, value), 1))]
            holds = conjunction([Op("lt", bool_, (value, e)) for e in ends])
            with self.builder.iteration(var, holds, *(ix.sub(ix.sub(e, value), 1) for e in ends)):
                self.choose(replace(cursor, tested=cursor.tested * count), position, [[value]])

    def bounds(self, coordinates: Coordinates, loop: str) -> tuple[Expr, Expr, int]:
        """The low bound, high bound and step of a loop that is entered next, simplified under the current assumptions."""
        low, high, step = coordinates.bounds(loop)
        assumptions = self.builder.assumptions
        return assumptions.decided(low), assumptions.decided(high), step

    def _for(
        self,
        lowered: LoweredStage,
        plan: LoopPlan,
        var: Var,
        low: Expr,
        high: Expr,
        step: int,
        kind: str,
        peeled: bool = False,
    ) -> Any:
        how = as_planned(plan, lowered.stage.name, kind)
        if kind == "vector" and peeled and plan.tail == "exact":  # pieces of a multiple may be none
            how["tail"] = "default"
        elif kind == "parallel":
            how |= {**bound(lowered.stage, lowered.plan, plan), "certificates": self._promised(lowered, plan)}
        extents = [axis.extent for axis in lowered.stage.all_axes if axis.name in lowered.axis_of[plan.name]]
        return self.builder.loop(var, low, high, step, extents, **how)

    def _promised(self, lowered: LoweredStage, plan: LoopPlan) -> tuple[Certificate, ...]:
        """The certificates of a loop over updates whose indices the program promises to be unique."""
        position = lowered.plan.loops.index(plan)
        sharers = (lowered, *self.sharing.sharers(lowered, position))
        with_updates = (
            each for each in sharers if each.stage.update and each.plan.loops[position].name in each.reduced
        )
        unique = (each for each in with_updates if each.stage.update and each.stage.update.mode == "unique")
        return tuple(made for each in unique for made in self.certificates("unique_indices", each))

    def certificates(self, by: str, lowered: LoweredStage) -> tuple[Certificate, ...]:
        """A certificate, justified by `by`, that iterations of a loop write disjoint elements of the stage's results."""
        found = (self.converter.storages.get(Result(lowered.form, k)) for k in range(len(lowered.bodies)))
        return (Certificate(by, tuple(storage.buffer for storage in found if storage is not None)),)

    def _plain(
        self, cursor: LoopCursor, position: int, kind: str, low: Expr, high: Expr, step: int, piece: Piece | None = None
    ) -> None:
        plan, peeled = cursor.lowered.plan.loops[position], piece is not None
        if kind == "unroll":
            kind = "serial"
        var, lowered = fresh(plan.name), cursor.lowered
        if lowered.blocked or (step > 1 and (lowered.in_phases(position) or lowered.is_around_phases(position))):
            iterations = ix.ceildiv(ix.sub(high, low), step)
            with self._for(lowered, plan, var, ix.as_index(0), iterations, 1, kind, peeled):
                self.choose(cursor, position, [[ix.add(low, ix.mul(var, step))]] * len(cursor.instances))
            return
        with self._for(lowered, plan, var, low, high, step, kind, peeled) as scope:
            known = [e for e in piece.known(var) if not scope.assumptions.nonnegative(e)] if piece is not None else []
            scope.assumptions = scope.assumptions.with_known(*known) if known else scope.assumptions
            self.choose(cursor, position, [[var]] * len(cursor.instances))

    def _segments(
        self,
        cursor: LoopCursor,
        position: int,
        kind: str,
        low: Expr,
        high: Expr,
        step: int,
        among: Sequence[Boundary] = (),
    ) -> None:
        """Emits a loop, split where its boundary operations begin and end to be the identity if the schedule partitions it. among: the
        boundaries to consider in a piece of a loop that has been split already."""
        if step == 1 and self._by_rows(cursor, position, kind, low, high):
            return
        peeled = peeling_of(cursor, position, low, high, step, self.builder.assumptions, among)
        if step > 1 and kind == "vector" and cursor.lowered.in_phases(position):
            self._tiles(cursor, position, peeled, low, high, step)
            return
        if peeled is None:
            self._plain(cursor, position, kind, low, high, step)
            return
        interior, first, last = peeled
        inner = replace(cursor, identity=cursor.identity | interior.identity)
        narrow = at_boundaries(
            kind, (low, high), (first, last), self._extent(cursor, position), self.builder.assumptions
        )
        lines = at_lines(cursor, kind, (low, high), (first, last))
        if lines is None or (lines.conditions and not _is_inside(inner)):
            self._pieces(cursor, inner, position, narrow, interior)
        elif not lines.conditions:
            self._pieces(cursor, inner, position, lines)
        else:
            with self.builder.block(self.builder.assumptions.with_known(*lines.conditions), branch=True) as by_lines:
                self._pieces(cursor, inner, position, lines)
            with self.builder.block(branch=True) as otherwise:
                self._pieces(cursor, inner, position, narrow)
            self.builder.branch(all_hold(lines.conditions), by_lines, otherwise)

    def _by_rows(self, cursor: LoopCursor, position: int, kind: str, low: Expr, high: Expr) -> bool:
        """Emits the loop row by row if arrays are read flat along it; returns whether it did."""
        rows = rows_through(cursor, position, ix.sub(high, low), self.builder.assumptions)
        if rows is not None:
            with row_by_row(self.builder, cursor, rows, kind, low, high) as (inner, begin, end):
                self._plain(inner, position, "serial" if kind == "parallel" else kind, begin, end, 1)
        return rows is not None

    def _tiles(
        self,
        cursor: LoopCursor,
        position: int,
        peeled: tuple[Interior, Expr, Expr] | None,
        low: Expr,
        high: Expr,
        step: int,
    ) -> None:
        """Emits a vector loop over tiles of `step` indices, with partial tiles and those that meet boundaries peeled off."""
        name, inside, interior = cursor.lowered.plan.loops[position].name, cursor, (low, high)
        if peeled is not None:
            inside = replace(cursor, identity=cursor.identity | peeled[0].identity)
            interior = peeled[1], ix.add(peeled[2], 1)
        for each in peeled_tiles(cursor, inside, name, (low, high), interior, step, self.builder.assumptions):
            piece = Piece(False, each.kind, each.low, each.high)
            self._plain(each.cursor, position, each.kind, each.low, each.high, step, piece)

    def _pieces(
        self, border: LoopCursor, inner: LoopCursor, position: int, peeled: Peeling, interior: Interior | None = None
    ) -> None:
        """Emits the pieces of a split loop. Where no index is interior to all boundaries, as in a concatenation, a border is split again at
        those of its boundaries that are the identity in part of it."""
        assumptions = self.builder.assumptions
        apart = assumptions.less(peeled.last, peeled.first)
        for piece in peeled.pieces(assumptions):
            cursor, rest = (inner if piece.inside else border), ()
            if apart and interior is not None and piece.beyond is not None and piece.kind == "vector":
                rest = vanishing(interior, peeled, piece.side, assumptions)
            if rest:
                self._segments(replace(cursor), position, piece.kind, piece.low, piece.high, 1, rest)
            elif not (piece.inside and self._by_rows(cursor, position, piece.kind, piece.low, piece.high)):
                self._plain(cursor, position, piece.kind, piece.low, piece.high, 1, piece)

    def _extent(self, cursor: LoopCursor, position: int) -> Expr:
        """The product of the extents of the axes that the loop at `position` runs over."""
        extent, names = ix.as_index(1), cursor.lowered.axis_of[cursor.lowered.plan.loops[position].name]
        for axis in cursor.lowered.stage.all_axes:
            if axis.name in names:
                extent = ix.mul(extent, axis.extent)
        return extent

    def choose(self, cursor: LoopCursor, position: int, values: list[list[Expr]]) -> None:
        """Sets the loop at `position` to these values, for each instance one or (unrolled) several, and emits its body."""
        lowered, plan = cursor.lowered, cursor.lowered.plan.loops[position]
        instances, origins = [], []
        for k, (coordinates, options) in enumerate(zip(cursor.instances, values, strict=True)):
            for value in options:
                chosen = coordinates.copy()
                chosen.choose(plan.name, value, self.bind)
                instances.append(chosen)
                origins.append(cursor.origin_of[k])
        ordered = any(in_order(each, position) for each in (lowered, *self.sharing.sharers(lowered, position)))
        jammed = len(instances) == 1 or not (ordered or self._places_inside(cursor, position))
        groups = [range(len(instances))] if jammed else [[k] for k in range(len(instances))]
        for group in groups:
            part = replace(cursor, instances=[instances[k] for k in group], origin_of=[origins[k] for k in group])
            if len(groups) == 1:
                self._iteration(part, position)
            else:
                with self.builder.block() as scope:
                    scope.unrolled = True
                    self._iteration(part, position)
                self.builder.add(Block(tuple(scope.statements)))

    def _places_inside(self, cursor: LoopCursor, position: int) -> bool:
        lowered_stages = [cursor.lowered, *self.sharing.sharers(cursor.lowered, position)]
        return any(
            self.placer.places(lowered, p)
            for lowered in lowered_stages
            for p in range(position, len(lowered.plan.loops))
        )

    def _iteration(self, cursor: LoopCursor, position: int) -> None:
        """Emits one iteration of the loop at `position`, also where a guard leaves it empty."""
        self.sharing.enter(cursor, position)
        self._guarded(cursor, position)
        self.sharing.leave(cursor, position)

    def _guarded(self, cursor: LoopCursor, position: int) -> None:
        guards = [g for c in cursor.instances for g in c.guards]
        if not guards:
            self.inside(cursor, position)
            return
        if len(cursor.instances) > 1:
            for k, coordinates in enumerate(cursor.instances):
                with self.builder.block() as scope:
                    self._guarded(replace(cursor, instances=[coordinates], origin_of=[cursor.origin_of[k]]), position)
                self.builder.add(Block(tuple(scope.statements)))
            return
        cursor.instances[0].guards.clear()
        holds = conjunction([Op("lt", bool_, g) for g in guards])
        with self.builder.when(holds, *(ix.sub(ix.sub(b, a), 1) for a, b in guards)):
            self.inside(cursor, position)

    def inside(self, cursor: LoopCursor, position: int) -> None:
        """Emits the producers placed at the loop, then the loops further in."""
        if cursor.phase.reads:
            self.produce(cursor, position)
        self.level(cursor, position + 1)
        self.sharing.inside(cursor, position)

    def produce(self, cursor: LoopCursor, position: int) -> None:
        """Emits prefetches and the producers that are placed at the loop at `position`."""
        prefetch(self.builder, self.converter, self.names, cursor, position)
        self.placer.inside(cursor, position)

    def bind(self, name: str, value: Expr, low: Expr, high: Expr) -> Expr:
        """Names a computed coordinate that lies in low … high (inclusive); a variable or constant is returned unchanged."""
        if isinstance(value, Var) or ix.constant_value(value) is not None:
            return value
        var = self.builder.name(name, value)
        self.builder.scope.assumptions = self.builder.assumptions.with_range(var, low, high)
        return var

    # Versions

    def versions(self, cursor: LoopCursor, position: int) -> None:
        """Emits two versions where they differ: one for full tiles in the interior, behind a test of its
        conditions, and the general one."""
        special, conditions = specialised_work(cursor, position, self.builder.assumptions)
        if not conditions:
            self.level(special, position)
            return
        only = conditions[0] if len(conditions) == 1 else None
        otherwise = None if only is None else self.builder.assumptions.with_known(ix.sub(-1, only))
        with self.builder.block(otherwise, branch=True) as general:
            self._general(cloned(cursor), position)
        known = self.builder.assumptions.with_known(*conditions)
        with self.builder.block(known, branch=True) as specialised:
            for coordinates in special.instances:
                coordinates.simplify(known.decided)
            self.level(special, position)
        self.builder.branch(all_hold(conditions), specialised, general)

    def _general(self, cursor: LoopCursor, position: int) -> None:
        """Emits the version for any tile: moved back to end with the axis where that is legal, else (results shorter
        than a tile) with partial tiles."""
        tiles, assumptions = tiles_of(cursor, position), self.builder.assumptions
        ends = ends_of(cursor, tiles)
        if not ends or any(assumptions.nonnegative(ix.sub(-1, end)) for end in ends):
            self.level(cursor, position)
            return
        with self.builder.block(assumptions.with_known(*ends), branch=True) as moved:
            self.level(moved_back(self, cursor, position, tiles), position)
        doubtful = [end for end in ends if not assumptions.nonnegative(end)]
        if not doubtful:
            self.builder.add(closed(moved))
            return
        with self.builder.block(branch=True) as general:
            self.level(cursor, position)
        self.builder.branch(all_hold(doubtful), moved, general)

    # The element

    def _element(self, cursor: LoopCursor) -> None:
        """Stores one element of each unrolled instance of a stage without a fold."""
        self._store(cursor, cursor.lowered.bodies, [{} for _ in cursor.instances])

    def environment(self, cursor: LoopCursor, k: int) -> dict[Node, Node]:
        """The values of the stage's axis variables in unrolled instance `k`."""
        coordinates = cursor.instances[k]
        values: dict[Node, Node] = {}
        for name, variable in cursor.lowered.variables.items():
            value = coordinates.ranges[name].value
            if value is not None:
                values[variable] = value
        for rows in cursor.rows:
            values |= indices_in_row(rows, values[cursor.lowered.variables[rows.axis]])  # type: ignore[arg-type]
        return values

    def _store(self, cursor: LoopCursor, bodies: tuple[Expr, ...], extra: list[dict[Node, Node]]) -> None:
        lowered = cursor.lowered
        roots: list[Expr] = []
        targets: list[tuple[Buffer, tuple[Expr, ...]]] = []
        outputs = [
            (k, storage)
            for k in range(len(bodies))
            if (storage := self.converter.storages.get(Result(lowered.form, k))) is not None
        ]
        assumptions, chosen = self.builder.assumptions, [bodies[j] for j, _ in outputs]
        instances = [self.environment(cursor, k) for k in range(len(cursor.instances))]
        given = [{**values, **more} for values, more in zip(instances, extra, strict=True)]
        for values, converted in zip(
            instances, self.converter.convert_instances(chosen, given, assumptions, cursor.identity), strict=True
        ):
            indices = tuple(values[axis.var] for axis in lowered.stage.axes)
            roots += converted
            targets += [(storage.buffer, storage.indices_of(indices, assumptions)) for _, storage in outputs]  # type: ignore[arg-type]
        results = self.emitter.values(roots)
        kept = self.sharing.forwards(lowered)
        if cursor.own:
            self._store_own(cursor, targets, results)
            return
        for (buffer, coordinates), value in zip(targets, results, strict=True):
            if kept:
                value = self.builder.name(lowered.stage.name.rsplit("/", 1)[-1], value)
                self.stored[Read(buffer, coordinates, None)] = (value, self.builder.scope)
            self.builder.add(Store(buffer, coordinates, value, None, lowered.plan.stream_stores))

    def _store_own(
        self, cursor: LoopCursor, targets: Sequence[tuple[Buffer, tuple[Expr, ...]]], results: Sequence[Expr]
    ) -> None:
        """Stores the elements of an overlapping tile that no other tile stores."""
        each = len(targets) // len(cursor.instances)
        for k, coordinates in enumerate(cursor.instances):
            positions = [(first, coordinates.ranges[axis].value) for axis, first in cursor.own]
            holds = conjunction(
                [Op("le", bool_, (first, indices)) for first, indices in positions if indices is not None]
            )
            with self.builder.when(holds):
                for (buffer, indices), value in list(zip(targets, results, strict=True))[k * each : (k + 1) * each]:
                    self.builder.add(Store(buffer, indices, value, None, cursor.lowered.plan.stream_stores))

    def finish(self, cursor: LoopCursor, extra: list[dict[Node, Node]]) -> None:
        """Stores the stage's results with some nodes (the reduction's results) replaced."""
        self._store(cursor, cursor.lowered.bodies, extra)


def _unnamed(name: str, value: Expr, low: Expr, high: Expr) -> Expr:
    """Returns the coordinate itself: no name is bound, and no statement emitted."""
    return value


def _is_inside(cursor: LoopCursor) -> bool:
    """Whether no boundary operation remains. Rows that keep some are few, and not worth the code of two versions."""
    return all(boundary.node in cursor.identity for boundary in cursor.lowered.boundaries)
