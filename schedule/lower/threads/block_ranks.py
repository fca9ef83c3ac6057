"""The order of a block's elements by digits of four bits, computed by the threads of the block in shared memory.

    thread.x t: counts[d, t] = number of elements of piece t with digit d, for d in 0..16
    counts become indices, by an exclusive sum over digits, and over threads within a digit
    thread.x t: order[counts[digit, t]++] = element, for each element of piece t in turn

A piece is contiguous and traversed in order, so elements with equal digits keep their order. (Satish, Harris & Garland, Designing efficient
sorting algorithms for manycore GPUs, 2009, section 4.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType, bool_, i32, i64, u16
from raido.algo.graph.expr import Expr, Op, Reduce, Var, const, fresh
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.threads.thread_scans import Pieces, ThreadScans
from raido.schedule.nest.nodes import Certificate, Store
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.plan import LoopPlan

ZERO, ONE = ix.as_index(0), ix.as_index(1)
BITS = 4  # bits of a digit: sixteen counters for each thread
DIGITS = 1 << BITS
SPARE = 2  # unused 16-bit counters behind each 16: a thread scans 16, and so its neighbours' are in other banks of shared memory


@dataclass(frozen=True, slots=True)
class BlockThreads:
    """The threads of a block, `count` of them, with subgroups of `subgroup` threads that exchange values."""

    scans: ThreadScans
    stage: str
    loop: str
    count: int
    subgroup: int

    @property
    def builder(self) -> Builder:
        """The builder to which the statements of a block's threads are added."""
        return self.scans.builder

    @property
    def pieces(self) -> Pieces:
        """The pieces of a block, one for each of its threads."""
        plan = LoopPlan(self.loop, "parallel", level="thread.x", subgroup=self.subgroup)
        return Pieces(plan, self.stage, ix.as_index(self.count), self.count)

    @contextmanager
    def each(self, count: int = 0, certificates: tuple[Certificate, ...] = ()) -> Iterator[Expr]:
        """A loop over the threads of the block, or over the first `count` of them; yields the thread's number."""
        pieces, many = self.pieces, count or self.count
        with self.scans.folds.over(pieces.loop, self.stage, ix.as_index(many), many, certificates) as t:
            yield t

    @contextmanager
    def in_turn(self, count: Expr, certificates: tuple[Certificate, ...] = ()) -> Iterator[Var]:
        """A loop over 0..count in which each thread has every T-th index, T the number of threads: neighbouring
        threads have neighbouring indices."""
        known = ix.constant_value(count)
        with self.each(0, certificates) as t:
            if known is None or known % self.count:
                with self.builder.loop(index := fresh("i"), t, count, self.count):
                    yield index
                return
            with self.builder.loop(number := fresh("k"), ZERO, ix.as_index(known // self.count), 1):
                yield self.builder.name("i", ix.add(t, ix.mul(number, self.count)))

    @contextmanager
    def piece(self, t: Expr, piece: Expr, count: Expr) -> Iterator[Var]:
        """A loop over the numbers of the elements of a thread's piece."""
        number = fresh("k")
        left = self.builder.assumptions.decided(ix.minimum(ix.sub(count, ix.mul(t, piece)), piece))
        with self.builder.loop(number, ZERO, left, 1):
            yield number

    def kept(self, name: str, dtype: DType, piece: Expr, count: Expr) -> Buffer | None:
        """Registers for a number for each element of a thread's piece; None unless all pieces are full and of constant length."""
        if ix.difference(count, ix.mul(piece, self.count)) != 0 or ix.constant_value(piece) is None:
            return None
        return self.builder.alloc(name, dtype, (ix.as_index(self.count), piece), "stack")

    def scan(
        self,
        dtype: DType,
        count: Expr,
        piece: Expr,
        read: Callable[[Expr, Expr], NestExpr],
        write: Callable[[Expr, Expr, NestExpr], None],
        parts: Buffer | None = None,
        certificates: tuple[Certificate, ...] = (),
    ) -> NestExpr:
        """Emits an exclusive sum over `count` numbers, of which each thread reads and writes a piece by element number; returns the total.
        parts: shared memory for one number for each thread."""
        builder = self.builder
        if parts is None:
            (parts,) = self.scans.parts(self.pieces, (dtype,))

        def added(a: NestExpr, b: NestExpr) -> Op:
            return Op("add", dtype, (a, b))  # type: ignore[arg-type]

        kept = self.kept("kept", dtype, piece, count)
        with self.each() as t:
            total = builder.alloc("total", dtype, (), "register")
            builder.add(Store(total, (), const(dtype, 0)))
            with self.piece(t, piece, count) as k:
                own = builder.name("own", read(t, k))
                if kept is not None:
                    builder.add(Store(kept, (t, k), own))
                builder.add(Store(total, (), added(Read(total, (), None), own)))
            builder.add(Store(parts, (t,), Read(total, (), None)))
        left, right = fresh("left", dtype), fresh("right", dtype)
        operator = Reduce((), (left,), (right,), (added(left, right),), (const(dtype, 0),), (), True, "add")
        sums = self.scans.scan(
            self.pieces, (parts,), lambda into, at, a, b: builder.add(Store(into[0], at, added(a[0], b[0]))), operator
        )
        with self.each(certificates=certificates) as t:
            running = builder.alloc("running", dtype, (), "register")
            builder.add(Store(running, (), const(dtype, 0)))
            with builder.when(Op("lt", bool_, (ZERO, t)), ix.sub(t, 1)):
                builder.add(Store(running, (), sums.at(ix.sub(t, 1))[0]))
            with self.piece(t, piece, count) as k:
                own = builder.name("own", read(t, k) if kept is None else Read(kept, (t, k), None))
                before = builder.name("before", Read(running, (), None))
                write(t, k, before)
                builder.add(Store(running, (), added(before, own)))
        return sums.last[0]


class BlockRanks:
    """Orders the elements of a block, at most `block`, of which each thread has a contiguous piece."""

    def __init__(self, threads: BlockThreads, block: int) -> None:
        self.threads, self.builder = threads, threads.builder
        self.piece = -(-block // threads.count)
        (self.parts,) = threads.scans.parts(threads.pieces, (i32,))
        self.counts = self.builder.alloc("counts", u16, (ix.as_index(threads.count * (DIGITS + SPARE)),), "shared")

    def order(self, count: Expr, digit: Callable[[Expr], NestExpr], source: Buffer | None, target: Buffer) -> None:
        """Emits `target` = the elements in stable order of their digits (i64 below 16), of those in `source` (None: 0, 1, …)."""
        builder, threads, counts = self.builder, self.threads, self.counts
        piece = ix.as_index(self.piece)

        def element(t: Expr, k: Expr) -> Expr:
            at = ix.add(ix.mul(t, piece), k)
            return at if source is None else builder.name("element", Op("cast", i64, (Read(source, (at,), None),)))  # type: ignore[arg-type]

        def counter(e: Expr, t: Expr) -> Var:
            d = builder.name("digit", digit(e))
            return builder.name("counter", self._index(ix.add(ix.mul(d, threads.count), t)))

        def counted(own: Expr, t: Expr, k: Expr) -> Expr:
            """The counter of an element, kept in a register from the counting phase if possible."""
            if kept is None:
                return counter(own, t)
            return builder.name("counter", Op("cast", i64, (Read(kept, (t, k), None),)))  # type: ignore[arg-type]

        own_counters = Certificate("radix", (counts,))
        kept = threads.kept("counters", i32, piece, count)
        with threads.each(certificates=(own_counters,)) as t:
            d = fresh("d")
            with builder.loop(d, ZERO, ix.as_index(DIGITS), 1):
                builder.add(Store(counts, (self._index(ix.add(ix.mul(d, threads.count), t)),), const(u16, 0)))
            with threads.piece(t, piece, count) as k:
                at = counter(element(t, k), t)
                if kept is not None:
                    builder.add(Store(kept, (t, k), Op("cast", i32, (at,))))
                more = Op("add", u16, (Read(counts, (at,), None), const(u16, 1)))  # type: ignore[arg-type]
                builder.add(Store(counts, (at,), more))
        self._indices()
        moved = (own_counters, Certificate("radix", (target,)))
        with threads.each(certificates=moved) as t, threads.piece(t, piece, count) as k:
            own = element(t, k)
            at = counted(own, t, k)
            position = builder.name("place", Op("cast", i64, (Read(counts, (at,), None),)))  # type: ignore[arg-type]
            builder.add(Store(target, (position,), Op("cast", u16, (own,))))
            builder.add(Store(counts, (at,), Op("cast", u16, (ix.add(position, 1),))))

    def _indices(self) -> None:
        """Replaces counts by the indices of the first elements; each thread scans sixteen consecutive counters."""
        counts, builder = self.counts, self.builder

        def cell(t: Expr, k: Expr) -> tuple[Expr, ...]:
            return (ix.add(ix.mul(t, DIGITS + SPARE), k),)

        def read(t: Expr, k: Expr) -> NestExpr:
            return Op("cast", i32, (Read(counts, cell(t, k), None),))  # type: ignore[arg-type]

        def write(t: Expr, k: Expr, before: NestExpr) -> None:
            builder.add(Store(counts, cell(t, k), Op("cast", u16, (before,))))  # type: ignore[arg-type]

        total = ix.as_index(DIGITS * self.threads.count)
        self.threads.scan(i32, total, ix.as_index(DIGITS), read, write, self.parts, (Certificate("radix", (counts,)),))

    def _index(self, number: Expr) -> Expr:
        """The index of a counter in its array, with spare counters."""
        return ix.add(number, ix.mul(ix.floordiv(number, DIGITS), SPARE))
