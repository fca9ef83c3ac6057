"""The loops of a stage: from its plan and the box to compute, to statements.

`level` emits the loop at one position and goes on inside. A `Work` is the loop cursor: the lowered stage, its
coordinates, and its phase. It has several coordinates where loops were unrolled; the instances are emitted side by side
in the loops inside and share loads (unroll-and-jam).

At each position: the two versions part (`versions`), a reduction begins, the loop is emitted, then the producers placed at it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Expr, Node, Op, Result, Var, fresh
from raido.algo.graph.facts import interval
from raido.schedule.checks.levels import bound
from raido.schedule.checks.matrix_units import STEPS
from raido.schedule.lower import mirror
from raido.schedule.lower.block_scans import BlockScans
from raido.schedule.lower.blocks import Blocks
from raido.schedule.lower.builder import Builder, Scope, as_planned, closed
from raido.schedule.lower.convert import Converter, conjunction
from raido.schedule.lower.coordinates import Coordinates
from raido.schedule.lower.cuts import Cut, Piece, at_boundaries, at_lines
from raido.schedule.lower.emit import Emitter
from raido.schedule.lower.filters import Filters
from raido.schedule.lower.flat_segments import FlatSegments
from raido.schedule.lower.folds import in_order
from raido.schedule.lower.jobs import Job
from raido.schedule.lower.lane_blocks import LaneBlocks
from raido.schedule.lower.moved_tiles import ends_of, moved_back, tiles_of
from raido.schedule.lower.partials import PartialFolds
from raido.schedule.lower.partition import Boundary, Interior
from raido.schedule.lower.phases import strips_of
from raido.schedule.lower.piece_scans import PieceScans
from raido.schedule.lower.placement import Placement
from raido.schedule.lower.prefetches import prefetch
from raido.schedule.lower.reductions import Reductions
from raido.schedule.lower.regions import Box, extent_bound, spread
from raido.schedule.lower.rows import places_in_row, row_by_row, rows_through
from raido.schedule.lower.scans import Scans
from raido.schedule.lower.sharing import Sharing, guests_by_host
from raido.schedule.lower.sorts import Sorts
from raido.schedule.lower.thread_folds import ThreadFolds
from raido.schedule.lower.thread_scans import ThreadScans
from raido.schedule.lower.updates import Updates
from raido.schedule.lower.versions import all_hold, cut_of, specialised_work, vanishing
from raido.schedule.lower.work import Phase, Work
from raido.schedule.nest.nodes import Block, Certificate, Store
from raido.schedule.nest.values import Buffer, Read
from raido.schedule.plan import LoopPlan
from raido.schedule.state import trip_count

MOST_COPIES = 1024  # instances of a body in all unrolled loops around it


class Loops:
    """Emits loops of stages into a builder. names: the schedule's names of arrays, by their forms."""

    def __init__(
        self, builder: Builder, converter: Converter, contract: bool, jobs: dict[str, Job], names: Mapping[Node, str]
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
        guests = guests_by_host(jobs)
        self.sharing = Sharing(self, self.reductions, guests)
        self.placer = Placement(self, jobs, guests)

    def nest(self, job: Job, box: Box) -> None:
        """Emits a stage over a box (inclusive bounds of its pure axes), behind a test that no axis of which the box is a part is empty,
        unless that is proved: the box's bounds may not show it."""
        facts, none = self.builder.facts, ix.as_index(0)
        parts = [
            a.extent
            for a, (low, high) in zip(job.stage.axes, box, strict=True)
            if (low, high) != (none, ix.sub(a.extent, 1))
        ]
        doubtful = [n for n in dict.fromkeys(parts) if not facts.nonnegative(ix.sub(n, 1))]
        if doubtful:
            holds = all_hold(ix.sub(n, 1) for n in doubtful)
            with self.builder.when(holds, *(ix.sub(n, 1) for n in doubtful)):
                self._nest(job, box)
        else:
            self._nest(job, box)

    def _nest(self, job: Job, box: Box) -> None:
        axes = [(a.name, low, spread(ix.add(high, 1))) for a, (low, high) in zip(job.stage.axes, box, strict=True)]
        if not set(job.stage.reduction_axes) <= set(job.stage.axes):
            axes += [(a.name, ix.as_index(0), a.extent) for a in job.stage.reduction_axes]
        self.level(Work(job, [Coordinates(axes, job.plan.relations, self._most(job, box))], self.compute), 0)

    def _most(self, job: Job, box: Box) -> dict[str, int]:
        """Constant upper bounds of the box's extents where the threads of a block share its loops: fused loops then
        divide by constants, not by sizes."""
        if not self.builder.inside("block") or not any(loop.level for loop in job.plan.loops):
            return {}
        facts, meaning = self.builder.facts, self.builder.meaning
        extents = [
            extent_bound(low, high, axis.extent, facts, meaning)
            for axis, (low, high) in zip(job.stage.axes, box, strict=True)
        ]
        known = ((axis.name, ix.constant_value(n)) for axis, n in zip(job.stage.axes, extents, strict=True))
        return {name: n for name, n in known if n is not None}

    def level(self, work: Work, position: int) -> None:
        """Emits everything from the loop at `position` inwards."""
        phase = work.phase
        if phase.takes_over(work, position):
            return
        if position == len(work.job.plan.loops):
            phase.element(work)
        elif phase.leaves_out(work, position):
            self.level(work, position + 1)
        else:
            self.sharing.before(work, position)
            self.loop(work, position)
            self.sharing.after(work, position)

    def _take_over(self, work: Work, position: int) -> bool:
        """Emits the versions of a whole stage's loops, or its fold by the stage's strategy, from `position`
        inwards; returns whether it did."""
        job, stage, count = work.job, work.job.stage, len(work.job.plan.loops)
        if job.flat and position == count - 1:
            self.flat_segments.reduce(work, position)
        elif not work.versioned and position == min(job.version_at, count):
            self.versions(replace(work, versioned=True), position)
        elif job.reduction is None or position != job.first_reduction:
            return False
        elif stage.sort:
            self.sorts.sort(work)
        elif stage.filter:
            self.filters.filter(work, position)
        elif stage.scan:
            self.scans.scan(work, position)
        elif stage.update:
            self.updates.update(work, position)
        else:
            with mirror.unless_copied(self.builder, work):
                self.reductions.reduce(work, position)
        return True

    # One loop

    def loop(self, work: Work, position: int, kind: str | None = None) -> None:
        """Emits the loop at `position` and everything inside."""
        job, plan = work.job, work.job.plan.loops[position]
        if kind is None:
            kind = plan.kind
            if self.lane_blocks.applies(work, position):
                self.lane_blocks.fold(work, position)
                return
            if self.thread_folds.applies(work, position):
                self.thread_folds.fold(work, position)
                return
        bounds = [self.bounds(c, plan.name) for c in work.copies]
        lows, highs, step = [b[0] for b in bounds], [b[1] for b in bounds], bounds[0][2]
        trips = {ix.difference(h, lo) for lo, h in dict.fromkeys(zip(lows, highs, strict=True))}
        trip = None if len(trips) != 1 else trips.pop()
        count = self._rounds(lows, highs, step) if trip is None and kind == "unroll" else None
        count = count if trip is None else -(-trip // step)
        if trip is None and step > 1 and all(self._runs_once(*b) for b in dict.fromkeys(bounds)):
            count = 1
        if kind == "matrix":
            kind = "serial"
            if all(b == bounds[0] for b in bounds) and self._has_full_tiles(work, position):
                self._matrix(work, position, *bounds[0])
                return
        if count == 1 and kind != "parallel":
            self.choose(work, position, [[low] for low in lows])
        elif kind == "unroll" and count is not None and 0 < count * len(work.copies) <= MOST_COPIES:
            self.choose(work, position, [[ix.add(low, k * step) for k in range(count)] for low in lows])
        elif kind == "unroll" and (count := self._most_in_registers(work, bounds)) is not None:
            self._tested(work, position, count, *bounds[0])
        elif all(b == bounds[0] for b in bounds):
            self._segments(work, position, kind, *bounds[0])
        elif trip is not None:
            var = fresh(plan.name)
            with self._for(job, plan, var, ix.as_index(0), ix.as_index(trip), step, kind):
                self.choose(work, position, [[ix.add(low, var)] for low in lows])
        else:
            for k, coordinates in enumerate(work.copies):
                single = replace(work, copies=[coordinates], origin_of=[work.origin_of[k]])
                self.loop(single, position, kind)

    def _has_full_tiles(self, work: Work, position: int) -> bool:
        """Whether the loops inside, over a thread's accumulators, have provably the trip counts of a full tile."""
        job = work.job
        for coordinates in work.copies:
            first = coordinates.copy()
            first.choose(job.plan.loops[position].name, self.bounds(first, job.plan.loops[position].name)[0], _unnamed)
            for loop in job.plan.loops[position + 1 :]:
                low, high, step = self.bounds(first, loop.name)
                most = ix.constant_value(trip_count(job.stage, job.plan, loop.name))
                if most is None or self._rounds([low], [high], step) != most:
                    return False
                first.choose(loop.name, low, _unnamed)
            if any(not self.builder.facts.nonnegative(ix.sub(ix.sub(b, a), 1)) for a, b in first.guards if a is not b):
                return False
        return True

    def _matrix(self, work: Work, position: int, low: Expr, high: Expr, step: int) -> None:
        """Emits the loop at `position` over products of matrices as loops that matrix units can run: a full tile, or where the sum's end
        cuts it off, as many whole instructions as fit and the rest."""
        job, facts, plan = work.job, self.builder.facts, work.job.plan.loops[position]
        end = ix.add(low, trip_count(job.stage, job.plan, plan.name))
        gaps = [ix.sub(e, end) for e in ix.members_of(high)]
        if any(facts.nonnegative(ix.sub(-1, gap)) for gap in gaps):
            self._matrix_rest(work, position, low, high, step)
            return
        doubtful = [gap for gap in gaps if not facts.nonnegative(gap)]
        if not doubtful:
            self._plain(work, position, "matrix", low, end, step)
            return
        cut = replace(work, copies=[c.copy() for c in work.copies])
        with self.builder.block(facts.with_known(*doubtful), branch=True) as whole:
            self._plain(work, position, "matrix", low, end, step)
        with self.builder.block(branch=True) as otherwise:
            self._matrix_rest(cut, position, low, high, step)
        self.builder.branch(all_hold(doubtful), whole, otherwise)

    def _matrix_rest(self, work: Work, position: int, low: Expr, high: Expr, step: int) -> None:
        """Emits the iterations of a tile that the end of the sum cuts off."""
        length = ix.maximum(ix.sub(high, low), 0)
        most = ix.constant_value(trip_count(work.job.stage, work.job.plan, work.job.plan.loops[position].name))
        if most is not None and most > STEPS:
            number, count = fresh("part"), self.builder.name("parts", ix.floordiv(length, STEPS))
            parts = replace(work, copies=[c.copy() for c in work.copies])
            with self.builder.loop(number, ix.as_index(0), count, 1):
                begin = ix.add(low, ix.mul(number, STEPS))
                self._plain(parts, position, "matrix", begin, ix.add(begin, STEPS), step)
            low = ix.add(low, ix.mul(count, STEPS))
        self._plain(work, position, "matrix", low, high, step)

    def _runs_once(self, low: Expr, high: Expr, step: int) -> bool:
        """Whether a loop provably has exactly one iteration, even if its bounds are not constant."""
        return ix.constant_value(self.builder.facts.decided(ix.ceildiv(ix.sub(high, low), step))) == 1

    def _rounds(self, lows: Sequence[Expr], highs: Sequence[Expr], step: int) -> int | None:
        """The trip count of loops if it is the same provable constant for all of them, else None."""
        found: set[int | None] = set()
        for low, high in zip(lows, highs, strict=True):
            lengths = interval(ix.sub(high, low), self.builder.facts.ranges, self.builder.facts)
            counts = (None,) if lengths is None else (ix.constant_value(ix.ceildiv(n, step)) for n in lengths)
            found.update(counts)
        return found.pop() if len(found) == 1 else None

    def _most_in_registers(self, work: Work, bounds: Sequence[tuple[Expr, Expr, int]]) -> int | None:
        """The greatest trip count of an unrolled loop over a thread's accumulators if it is constant, else None. Registers cannot be
        indexed, so a tile at the edge of an array has as many instances as a full one, each behind a test."""
        if work.accumulators is None or len(bounds) > 1 or not self.builder.inside("thread"):
            return None
        low, high, step = bounds[0]
        most = ix.constant_value(extent_bound(low, ix.sub(high, 1), high, self.builder.facts, self.builder.meaning))
        count = None if most is None else -(-most // step)
        return count if count is not None and count * work.tested <= MOST_COPIES else None

    def _tested(self, work: Work, position: int, count: int, low: Expr, high: Expr, step: int) -> None:
        """Emits the loop at `position` written out `count` times, each iteration behind the test that it is in range."""
        plan, var = work.job.plan.loops[position], fresh(work.job.plan.loops[position].name)
        value = ix.add(low, ix.mul(var, step))
        with self._for(work.job, plan, var, ix.as_index(0), ix.as_index(count), 1, "unroll"):
            facts = self.builder.facts
            ends = [e for e in ix.members_of(high) if not facts.nonnegative(ix.sub(ix.sub(e, value), 1))]
            holds = conjunction([Op("lt", bool_, (value, e)) for e in ends])
            with self.builder.iteration(var, holds, *(ix.sub(ix.sub(e, value), 1) for e in ends)):
                self.choose(replace(work, tested=work.tested * count), position, [[value]])

    def bounds(self, coordinates: Coordinates, loop: str) -> tuple[Expr, Expr, int]:
        """The low bound, high bound and step of a loop that is entered next, simplified under the current assumptions."""
        low, high, step = coordinates.bounds(loop)
        facts = self.builder.facts
        return facts.decided(low), facts.decided(high), step

    def _for(
        self, job: Job, plan: LoopPlan, var: Var, low: Expr, high: Expr, step: int, kind: str, cut: bool = False
    ) -> Any:
        how = as_planned(plan, job.stage.name, kind)
        if kind == "vector" and cut and plan.tail == "exact":  # pieces of a multiple may be none
            how["tail"] = "default"
        elif kind == "parallel":
            how |= {**bound(job.stage, job.plan, plan), "certificates": self._promised(job, plan)}
        extents = [axis.extent for axis in job.stage.all_axes if axis.name in job.axis_of[plan.name]]
        return self.builder.loop(var, low, high, step, extents, **how)

    def _promised(self, job: Job, plan: LoopPlan) -> tuple[Certificate, ...]:
        """The certificates of a loop over updates whose indices the program promises to be unique."""
        position = job.plan.loops.index(plan)
        sharers = (job, *self.sharing.sharers(job, position))
        steps = (each for each in sharers if each.stage.update and each.plan.loops[position].name in each.reduced)
        unique = (each for each in steps if each.stage.update and each.stage.update.mode == "unique")
        return tuple(made for each in unique for made in self.certificates("unique_indices", each))

    def certificates(self, by: str, job: Job) -> tuple[Certificate, ...]:
        """A certificate, justified by `by`, that iterations of a loop write disjoint elements of the stage's results."""
        found = (self.converter.storages.get(Result(job.form, k)) for k in range(len(job.bodies)))
        return (Certificate(by, tuple(storage.buffer for storage in found if storage is not None)),)

    def _plain(
        self, work: Work, position: int, kind: str, low: Expr, high: Expr, step: int, piece: Piece | None = None
    ) -> None:
        plan, cut = work.job.plan.loops[position], piece is not None
        if kind == "unroll":
            kind = "serial"
        var = fresh(plan.name)
        if work.job.blocked or (step > 1 and kind == "vector" and work.job.in_phases(position)):
            iterations = ix.ceildiv(ix.sub(high, low), step)
            with self._for(work.job, plan, var, ix.as_index(0), iterations, 1, kind, cut):
                self.choose(work, position, [[ix.add(low, ix.mul(var, step))]] * len(work.copies))
            return
        with self._for(work.job, plan, var, low, high, step, kind, cut) as scope:
            known = [e for e in piece.known(var) if not scope.facts.nonnegative(e)] if piece is not None else []
            scope.facts = scope.facts.with_known(*known) if known else scope.facts
            self.choose(work, position, [[var]] * len(work.copies))

    def _segments(
        self, work: Work, position: int, kind: str, low: Expr, high: Expr, step: int, among: Sequence[Boundary] = ()
    ) -> None:
        """Emits a loop, split where its boundary operations begin and end to be the identity if the schedule partitions it. among: the
        boundaries to consider in a piece of a loop that has been split already."""
        if step == 1 and self._by_rows(work, position, kind, low, high):
            return
        cut = cut_of(work, position, low, high, step, self.builder.facts, among)
        if step > 1 and kind == "vector" and work.job.in_phases(position):
            self._strips(work, position, cut, low, high, step)
            return
        if cut is None:
            self._plain(work, position, kind, low, high, step)
            return
        interior, first, last = cut
        inner = replace(work, identity=work.identity | interior.identity)
        narrow = at_boundaries(kind, (low, high), (first, last), self._extent(work, position), self.builder.facts)
        lines = at_lines(work, kind, (low, high), (first, last))
        if lines is None or (lines.conditions and not _is_inside(inner)):
            self._pieces(work, inner, position, narrow, interior)
        elif not lines.conditions:
            self._pieces(work, inner, position, lines)
        else:
            with self.builder.block(self.builder.facts.with_known(*lines.conditions), branch=True) as by_lines:
                self._pieces(work, inner, position, lines)
            with self.builder.block(branch=True) as otherwise:
                self._pieces(work, inner, position, narrow)
            self.builder.branch(all_hold(lines.conditions), by_lines, otherwise)

    def _by_rows(self, work: Work, position: int, kind: str, low: Expr, high: Expr) -> bool:
        """Emits the loop row by row if arrays are read flat along it; returns whether it did."""
        rows = rows_through(work, position, ix.sub(high, low), self.builder.facts)
        if rows is not None:
            with row_by_row(self.builder, work, rows, kind, low, high) as (inner, begin, end):
                self._plain(inner, position, "serial" if kind == "parallel" else kind, begin, end, 1)
        return rows is not None

    def _strips(
        self, work: Work, position: int, cut: tuple[Interior, Expr, Expr] | None, low: Expr, high: Expr, step: int
    ) -> None:
        """Emits a vector loop over tiles of `step` indices, with partial tiles and those that meet boundaries peeled off."""
        name, inside, interior = work.job.plan.loops[position].name, work, (low, high)
        if cut is not None:
            inside = replace(work, identity=work.identity | cut[0].identity)
            interior = cut[1], ix.add(cut[2], 1)
        for each in strips_of(work, inside, name, (low, high), interior, step, self.builder.facts):
            piece = Piece(False, each.kind, each.low, each.high)
            self._plain(each.work, position, each.kind, each.low, each.high, step, piece)

    def _pieces(self, border: Work, inner: Work, position: int, cut: Cut, interior: Interior | None = None) -> None:
        """Emits the pieces of a split loop. Where no index is interior to all boundaries, as in a concatenation, a border is split again at
        those of its boundaries that are the identity in part of it."""
        facts = self.builder.facts
        apart = facts.less(cut.last, cut.first)
        for piece in cut.pieces(facts):
            work, rest = (inner if piece.inside else border), ()
            if apart and interior is not None and piece.beyond is not None and piece.kind == "vector":
                rest = vanishing(interior, cut, piece.side, facts)
            if rest:
                self._segments(replace(work), position, piece.kind, piece.low, piece.high, 1, rest)
            elif not (piece.inside and self._by_rows(work, position, piece.kind, piece.low, piece.high)):
                self._plain(work, position, piece.kind, piece.low, piece.high, 1, piece)

    def _extent(self, work: Work, position: int) -> Expr:
        """The product of the extents of the axes that the loop at `position` runs over."""
        extent, names = ix.as_index(1), work.job.axis_of[work.job.plan.loops[position].name]
        for axis in work.job.stage.all_axes:
            if axis.name in names:
                extent = ix.mul(extent, axis.extent)
        return extent

    def choose(self, work: Work, position: int, values: list[list[Expr]]) -> None:
        """Sets the loop at `position` to these values, for each instance one or (unrolled) several, and emits its body."""
        job, plan = work.job, work.job.plan.loops[position]
        copies, origins = [], []
        for k, (coordinates, options) in enumerate(zip(work.copies, values, strict=True)):
            for value in options:
                chosen = coordinates.copy()
                chosen.choose(plan.name, value, self.bind)
                copies.append(chosen)
                origins.append(work.origin_of[k])
        ordered = any(in_order(each, position) for each in (job, *self.sharing.sharers(job, position)))
        jammed = len(copies) == 1 or not (ordered or self._places_inside(work, position))
        groups = [range(len(copies))] if jammed else [[k] for k in range(len(copies))]
        for group in groups:
            part = replace(work, copies=[copies[k] for k in group], origin_of=[origins[k] for k in group])
            if len(groups) == 1:
                self._round(part, position)
            else:
                with self.builder.block() as scope:
                    scope.unrolled = True
                    self._round(part, position)
                self.builder.add(Block(tuple(scope.statements)))

    def _places_inside(self, work: Work, position: int) -> bool:
        jobs = [work.job, *self.sharing.sharers(work.job, position)]
        return any(self.placer.places(job, p) for job in jobs for p in range(position, len(job.plan.loops)))

    def _round(self, work: Work, position: int) -> None:
        """Emits one iteration of the loop at `position`, also where a guard leaves it empty."""
        self.sharing.enter(work, position)
        self._guarded(work, position)
        self.sharing.leave(work, position)

    def _guarded(self, work: Work, position: int) -> None:
        guards = [g for c in work.copies for g in c.guards]
        if not guards:
            self.inside(work, position)
            return
        if len(work.copies) > 1:
            for k, coordinates in enumerate(work.copies):
                with self.builder.block() as scope:
                    self._guarded(replace(work, copies=[coordinates], origin_of=[work.origin_of[k]]), position)
                self.builder.add(Block(tuple(scope.statements)))
            return
        work.copies[0].guards.clear()
        holds = conjunction([Op("lt", bool_, g) for g in guards])
        with self.builder.when(holds, *(ix.sub(ix.sub(b, a), 1) for a, b in guards)):
            self.inside(work, position)

    def inside(self, work: Work, position: int) -> None:
        """Emits the producers placed at the loop, then the loops further in."""
        if work.phase.reads:
            self.produce(work, position)
        self.level(work, position + 1)
        self.sharing.inside(work, position)

    def produce(self, work: Work, position: int) -> None:
        """Emits prefetches and the producers that are placed at the loop at `position`."""
        prefetch(self.builder, self.converter, self.names, work, position)
        self.placer.inside(work, position)

    def bind(self, name: str, value: Expr, low: Expr, high: Expr) -> Expr:
        """Names a computed coordinate that lies in low … high (inclusive); a variable or constant is returned unchanged."""
        if isinstance(value, Var) or ix.constant_value(value) is not None:
            return value
        var = self.builder.name(name, value)
        self.builder.scope.facts = self.builder.facts.with_range(var, low, high)
        return var

    # Versions

    def versions(self, work: Work, position: int) -> None:
        """Emits two versions where they differ: one for full tiles in the interior, behind a test of its
        conditions, and the general one."""
        special, conditions = specialised_work(work, position, self.builder.facts)
        if not conditions:
            self.level(special, position)
            return
        only = conditions[0] if len(conditions) == 1 else None
        otherwise = None if only is None else self.builder.facts.with_known(ix.sub(-1, only))
        with self.builder.block(otherwise, branch=True) as general:
            self._general(replace(work, copies=[c.copy() for c in work.copies]), position)
        known = self.builder.facts.with_known(*conditions)
        with self.builder.block(known, branch=True) as specialised:
            for coordinates in special.copies:
                coordinates.simplify(known.decided)
            self.level(special, position)
        self.builder.branch(all_hold(conditions), specialised, general)

    def _general(self, work: Work, position: int) -> None:
        """Emits the version for any tile: moved back to end with the axis where that is legal, else (results shorter
        than a tile) with partial tiles."""
        tiles, facts = tiles_of(work, position), self.builder.facts
        ends = ends_of(work, tiles)
        if not ends or any(facts.nonnegative(ix.sub(-1, end)) for end in ends):
            self.level(work, position)
            return
        with self.builder.block(facts.with_known(*ends), branch=True) as moved:
            self.level(moved_back(self, work, position, tiles), position)
        doubtful = [end for end in ends if not facts.nonnegative(end)]
        if not doubtful:
            self.builder.add(closed(moved))
            return
        with self.builder.block(branch=True) as general:
            self.level(work, position)
        self.builder.branch(all_hold(doubtful), moved, general)

    # The element

    def _element(self, work: Work) -> None:
        """Stores one element of each unrolled instance of a stage without a fold."""
        self._store(work, work.job.bodies, [{} for _ in work.copies])

    def environment(self, work: Work, k: int) -> dict[Node, Node]:
        """The values of the stage's axis variables in unrolled instance `k`."""
        coordinates = work.copies[k]
        values: dict[Node, Node] = {}
        for name, variable in work.job.variables.items():
            value = coordinates.ranges[name].value
            if value is not None:
                values[variable] = value
        for rows in work.rows:
            values |= places_in_row(rows, values[work.job.variables[rows.axis]])  # type: ignore[arg-type]
        return values

    def _store(self, work: Work, bodies: tuple[Expr, ...], extra: list[dict[Node, Node]]) -> None:
        job = work.job
        roots: list[Expr] = []
        targets: list[tuple[Buffer, tuple[Expr, ...]]] = []
        outputs = [
            (k, storage)
            for k in range(len(bodies))
            if (storage := self.converter.storages.get(Result(job.form, k))) is not None
        ]
        facts, chosen = self.builder.facts, [bodies[j] for j, _ in outputs]
        copies = [self.environment(work, k) for k in range(len(work.copies))]
        given = [{**values, **more} for values, more in zip(copies, extra, strict=True)]
        for values, converted in zip(
            copies, self.converter.convert_copies(chosen, given, facts, work.identity), strict=True
        ):
            indices = tuple(values[axis.var] for axis in job.stage.axes)
            roots += converted
            targets += [(storage.buffer, storage.place(indices, facts)) for _, storage in outputs]  # type: ignore[arg-type]
        results = self.emitter.values(roots)
        kept = self.sharing.forwards(job)
        if work.own:
            self._store_own(work, targets, results)
            return
        for (buffer, place), value in zip(targets, results, strict=True):
            if kept:
                value = self.builder.name(job.stage.name.rsplit("/", 1)[-1], value)
                self.stored[Read(buffer, place, None)] = (value, self.builder.scope)
            self.builder.add(Store(buffer, place, value, None, job.plan.stream_stores))

    def _store_own(
        self, work: Work, targets: Sequence[tuple[Buffer, tuple[Expr, ...]]], results: Sequence[Expr]
    ) -> None:
        """Stores the elements of an overlapping tile that no other tile stores."""
        each = len(targets) // len(work.copies)
        for k, coordinates in enumerate(work.copies):
            places = [(first, coordinates.ranges[axis].value) for axis, first in work.own]
            holds = conjunction([Op("le", bool_, (first, place)) for first, place in places if place is not None])
            with self.builder.when(holds):
                for (buffer, place), value in list(zip(targets, results, strict=True))[k * each : (k + 1) * each]:
                    self.builder.add(Store(buffer, place, value, None, work.job.plan.stream_stores))

    def finish(self, work: Work, extra: list[dict[Node, Node]]) -> None:
        """Stores the stage's results with some nodes (the reduction's results) replaced."""
        self._store(work, work.job.bodies, extra)


def _unnamed(name: str, value: Expr, low: Expr, high: Expr) -> Expr:
    """Returns the coordinate itself: no name is bound, and no statement emitted."""
    return value


def _is_inside(work: Work) -> bool:
    """Whether no boundary operation remains. Rows that keep some are few, and not worth the code of two versions."""
    return all(boundary.node in work.identity for boundary in work.job.boundaries)
