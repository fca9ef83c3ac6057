"""Reductions over the threads of a block: each thread folds a part of its own, and the parts are combined in a tree.

    before   for r in 0..n by threads: acc = op(acc, a[r])

    after    for t in 0..T by threads: partial[t] = fold of the elements of thread t
             for t in 0..T/4 by threads: partial[t] = op(op(partial[t], partial[t + T/2]), op(partial[t + T/4], partial[t + 3T/4])), …
             acc = op(acc, partial[0])

The loop over threads is the inner half of a split, taken outside the outer one (every T-th element: neighbouring threads read
neighbouring elements), or the outer half (each thread has a contiguous piece). Commutative operators combine halves of the thread
index range, so that bits do not depend on the subgroup size; others combine neighbours, in order. Where there are fewer parts than
threads, the levels of the tree are shorter.

Where the schedule names a subgroup size, the threads of a subgroup combine part of the tree by register exchanges (`Collect`): its last
levels for halves, its first for neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from raido.algo.errors import ScheduleError, explain
from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Expr, Op, fresh
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.loop_cursor import (
    Accumulators,
    LoopCursor,
    Phase,
    accumulators_of,
    carried,
    cloned,
    over_reduced,
)
from raido.schedule.lower.loops.folds import folds_at
from raido.schedule.lower.lowered_stage import LoweredStage
from raido.schedule.lower.regions.regions import extent_bound
from raido.schedule.nest.nodes import Certificate
from raido.schedule.nest.values import Read
from raido.schedule.plan import LoopPlan
from raido.schedule.refusal import location

if TYPE_CHECKING:
    from raido.schedule.lower.loops.loops import Loops
    from raido.schedule.lower.loops.reductions import Reductions

Pair: TypeAlias = tuple[Accumulators, Accumulators]
SHARED_BYTES = 16 << 10  # of partial results: the least maxComputeSharedMemorySize that Vulkan guarantees for a block


class ThreadFolds:
    """Emits reductions over threads for `Loops`."""

    def __init__(self, loops: Loops, reductions: Reductions) -> None:
        self.loops, self.reductions = loops, reductions
        self.builder: Builder = loops.builder

    def applies(self, cursor: LoopCursor, position: int) -> bool:
        """Whether the loop at `position` belongs to a fold and is bound to threads."""
        plan = cursor.lowered.plan.loops[position]
        return cursor.phase is self.reductions.fold and is_bound(plan, "thread") and folds_at(cursor.lowered, position)

    def fold(self, cursor: LoopCursor, position: int) -> None:
        """Emits the loop at `position` of a fold into the accumulators of `cursor`, for each unrolled instance by itself."""
        for k, coordinates in enumerate(cursor.instances):
            self._fold(replace(cursor, instances=[coordinates.copy()], origin_of=[cursor.origin_of[k]]), position)

    def _fold(self, cursor: LoopCursor, position: int) -> None:
        plan = cursor.lowered.plan.loops[position]
        low, high, step = cursor.instances[0].bounds(plan.name)
        threads = self.threads(cursor, position, low, high, step)
        count = ix.ceildiv(ix.sub(high, low), step)
        live = self.loops.bind("live", count, ix.as_index(0), ix.as_index(threads))

        def part(t: Expr, parts: Accumulators) -> None:
            self._part_of_thread(cursor, position, ix.add(low, ix.mul(t, step)), parts)

        self.together(cursor, position, plan, live, threads, part)

    def together(
        self,
        cursor: LoopCursor,
        position: int,
        plan: LoopPlan,
        live: Expr,
        threads: int,
        part: Callable[[Expr, Accumulators], None],
    ) -> None:
        """Combines the partial results of the first `live` of `threads` threads into the accumulators of `cursor`; `part` emits thread t's
        fold into given accumulators."""
        with self.builder.unless_empty([live]):
            parts = self._partials(cursor, threads)
            with self.over(plan, cursor.lowered.stage.name, live, threads) as t:
                part(t, replace(parts, prefix=(t,)))
            self._tree(cursor, position, plan, parts, live, threads)
            total = accumulators_of(cursor)
            self._combine(cursor, position, lambda: iter(((total, replace(parts, prefix=(ix.as_index(0),))),)))

    def threads_inside(self, cursor: LoopCursor, position: int) -> tuple[LoopPlan, int] | None:
        """The reduction's loop inside `position` that is bound to threads, and its greatest trip count; None if there is none."""
        lowered, coordinates = cursor.lowered, cursor.instances[0].copy()
        coordinates.choose(lowered.plan.loops[position].name, fresh("chunk"), lambda name, value, low, high: value)
        for p, loop in enumerate(lowered.plan.loops):
            if p > position and is_bound(loop, "thread") and loop.name in lowered.reduced:
                part = replace(cursor, instances=[coordinates])
                return loop, self.threads(part, p, *coordinates.bounds(loop.name))
        return None

    def threads(self, cursor: LoopCursor, position: int, low: Expr, high: Expr, step: int) -> int:
        """The greatest trip count of the loop; raises ScheduleError if it is no constant."""
        lowered, loop = cursor.lowered, cursor.lowered.plan.loops[position]
        extents = (a.extent for a in lowered.stage.all_axes if a.name in lowered.axis_of[loop.name])
        most = extent_bound(
            low, ix.sub(high, 1), reduce(ix.mul, extents), self.builder.assumptions, self.builder.meaning
        )
        known = ix.constant_value(most)
        if known is None:
            raise refused(
                cursor,
                loop,
                "the trip count of the loop is not a constant",
                f'split("{loop.name}", 256), and bind one half',
            )
        return -(-known // step)

    @contextmanager
    def over(
        self, plan: LoopPlan, stage: str, count: Expr, threads: int, certificates: tuple[Certificate, ...] = ()
    ) -> Iterator[Expr]:
        """A parallel loop of `count` threads, a constant `threads` at most; yields its variable."""
        var = fresh("t")
        how: dict[str, Any] = {
            "kind": "parallel",
            "level": plan.level,
            "threads": threads,
            "stage": stage,
            "loop": plan.name,
        }
        how["certificates"] = certificates
        with self.builder.loop(var, ix.as_index(0), count, 1, **how):
            yield var

    def _partials(self, cursor: LoopCursor, threads: int) -> Accumulators:
        """Allocates a partial result for every thread, over the box of the elements folded inside the loop; shared
        memory if it fits SHARED_BYTES."""
        own, builder = self.reductions, self.builder
        axes, shape, lengths = own.open_box(cursor)
        form = carried(cursor)
        origin = {axis: cursor.instances[0].box(axis)[0] for axis in axes}
        sizes = [ix.constant_value(n) for n in shape]
        nbytes = (
            None if None in sizes else prod(n or 0 for n in sizes) * threads * sum(v.dtype.itemsize for v in form.left)
        )
        scope = "shared" if nbytes is not None and nbytes <= SHARED_BYTES else "heap"
        buffers = tuple(builder.alloc("partial", v.dtype, (ix.as_index(threads), *shape), scope) for v in form.left)
        return Accumulators(buffers, axes, (origin,), False, tuple(lengths))

    def _part_of_thread(self, cursor: LoopCursor, position: int, at: Expr, parts: Accumulators) -> None:
        """Emits one thread's part: inner loops that are bound to threads, too, then a fold into accumulators of its own."""
        first = _first_inside(cursor.lowered, position)

        def begin(inner: LoopCursor, p: int) -> bool:
            if p != first:
                return False
            self.by_one_thread(inner, p, parts)
            return True

        self.loops.choose(replace(cursor, phase=Phase(takes_over=begin)), position, [[at]])

    def by_one_thread(self, cursor: LoopCursor, position: int, parts: Accumulators) -> None:
        """Emits the loops from `position` on as a fold into local accumulators, which are then stored in `parts`."""
        own = self.reductions.allocate(cursor, position)
        keep = Phase(lambda each: self._keep(each, parts), over_reduced, reads=False)
        for phase in (self.reductions.start, self.reductions.fold, keep):
            self.reductions.part(cursor, position, phase, own)

    def _keep(self, cursor: LoopCursor, parts: Accumulators) -> None:
        own = accumulators_of(cursor)
        for k in range(len(cursor.instances)):
            there, here = self.reductions.indices_of(cursor, own, k), self._at(cursor, parts, k)
            self.builder.store(parts.buffers, here, [Read(source, there, None) for source in own.buffers])

    def _at(self, cursor: LoopCursor, acc: Accumulators, k: int) -> tuple[Expr, ...]:
        """The indices of unrolled instance `k` in accumulators with a single origin."""
        return self.reductions.indices_of(replace(cursor, origin_of=[0] * len(cursor.instances)), acc, k)

    def _tree(
        self, cursor: LoopCursor, position: int, plan: LoopPlan, parts: Accumulators, live: Expr, threads: int
    ) -> None:
        """Combines the parts into the first of them."""
        stage, commutative = cursor.lowered.stage.name, carried(cursor).commutative
        group = min(plan.subgroup, 1 << (threads - 1).bit_length()) or 1
        if not self.loops.emitter.is_fold_update(self.reductions.operator(cursor)):
            group = 1
        if group > 1 and not commutative:
            self._collect(cursor, position, plan.level, parts, live, group)
        left = threads
        for each in levels_of_tree(live, threads, commutative, group):
            with self.over(plan, stage, each.count, threads) as t:
                self._combine(cursor, position, partial(self._pairs, each, t, parts))
            left = each.left
        if group > 1 and commutative:
            self._collect(cursor, position, plan.level, parts, ix.minimum(ix.as_index(left), live), left)

    def _collect(
        self, cursor: LoopCursor, position: int, level: str, parts: Accumulators, count: Expr, width: int
    ) -> None:
        """Emits a `Collect`: in each group of `width` neighbouring threads the first gets their parts combined, over
        the loops inside `position`."""
        halves = carried(cursor).commutative

        def element(inner: LoopCursor) -> None:
            for k in range(len(inner.instances)):
                t = fresh("t")
                where = self._at(inner, replace(parts, prefix=(t,)), k)
                operator = self.reductions.operator(inner, k)
                self.loops.emitter.collect(operator, parts.buffers, where, t, count, width, halves, level)

        phase = Phase(element, over_reduced, reads=False)
        self.loops.level(cloned(cursor, phase=phase), position + 1)

    def _pairs(self, each: TreeLevel, t: Expr, parts: Accumulators) -> Iterator[Pair]:
        for left, right in self.pairs(each, t):
            yield replace(parts, prefix=(left,)), replace(parts, prefix=(right,))

    def pairs(self, each: TreeLevel, t: Expr) -> Iterator[tuple[Expr, Expr]]:
        """The indices of the parts that thread t combines in a level of the tree; statements emitted for a pair are
        behind the test that it exists."""
        first = ix.mul(t, each.stride)
        for a, b, limit in each.pairs:
            left, right = ix.add(first, a), ix.add(first, b)
            if self.builder.assumptions.less(right, limit):
                yield left, right
            else:
                with self.builder.when(Op("lt", bool_, (right, limit)), ix.sub(ix.sub(limit, right), 1)):
                    yield left, right

    def _combine(self, cursor: LoopCursor, position: int, pairs: Callable[[], Iterator[Pair]]) -> None:
        """Sets the left of each pair to the operator of both, over the loops inside the one at `position`, which stand around the pairs."""

        def element(inner: LoopCursor) -> None:
            for left, right in pairs():
                for k in range(len(inner.instances)):
                    where = self._at(inner, left, k) if left.prefix else self.reductions.indices_of(inner, left, k)
                    one = [self.builder.name("left", Read(b, where, None)) for b in left.buffers]
                    other = [
                        self.builder.name("right", Read(b, self._at(inner, right, k), None)) for b in right.buffers
                    ]
                    values = self.loops.environment(inner, k)
                    self.reductions.combine_where(inner, values, left.buffers, where, one, other)

        phase = Phase(element, over_reduced, reads=False)
        self.loops.level(cloned(cursor, phase=phase), position + 1)


@dataclass(frozen=True, slots=True)
class TreeLevel:
    """The work of threads between two barriers: thread t of `count` combines part t·stride + b, if it is below `limit`, into part t·stride
    + a, for each of `pairs` (a, b, limit) in turn; at most `left` parts remain."""

    count: Expr
    stride: int
    left: int
    pairs: tuple[tuple[int, int, Expr], ...]


def levels_of_tree(live: Expr, threads: int, commutative: bool, group: int = 1) -> Iterator[TreeLevel]:
    """The levels of a binary tree over the first `live` of `threads` parts, two at a time, because each is followed by a barrier.

    group: the number of parts at which combining by halves stops, or the number of neighbours that are combined already.
    """
    left, apart = (threads, 1) if commutative else (-(-threads // group), group)
    while left > (group if commutative else 1):
        half = -(-left // 2)
        single = half <= (group if commutative else 1)
        quarter = half if single else -(-half // 2)
        if commutative:
            all_parts, halves = (ix.minimum(ix.as_index(count), live) for count in (left, half))
            several = ((0, half, all_parts), (quarter, quarter + half, all_parts), (0, quarter, halves))
            yield TreeLevel(ix.minimum(ix.as_index(quarter), live), 1, quarter, several[:1] if single else several)
        else:
            several = ((0, apart, live), (2 * apart, 3 * apart, live), (0, 2 * apart, live))
            yield TreeLevel(ix.ceildiv(live, 4 * apart), 4 * apart, quarter, several[:1] if single else several)
        left, apart = quarter, 4 * apart


def is_bound(loop: LoopPlan, level: str) -> bool:
    """Whether a loop is bound to blocks (level "block") or threads ("thread")."""
    return loop.level.startswith(level)


def _first_inside(lowered: LoweredStage, position: int) -> int:
    """The position of the first loop inside all those that are bound to threads, from `position` on."""
    return (
        max(
            p
            for p, loop in enumerate(lowered.plan.loops)
            if p == position or (p > position and is_bound(loop, "thread"))
        )
        + 1
    )


def refused(cursor: LoopCursor, loop: LoopPlan, why: str, remedy: str) -> ScheduleError:
    """The error for a loop that cannot be distributed over threads as it stands."""
    stage = cursor.lowered.stage
    headline = f'cannot distribute loop "{loop.name}" of stage "{stage.name}" over threads'
    line = location(stage.site) + "   " + stage.site.text if stage.site else None
    return ScheduleError(explain(headline, algorithm=line, why=why, **{"try": remedy}))
