"""Sorts: by digits of some bits, the least significant first, so that equal keys keep their order.

A pass counts the digits of every chunk, turns the counts into places (digit by digit, and chunk by chunk within a digit), and moves
every element to its place. Keys are made unsigned integers in the same order first: the sign bit of integers turned, floats by
their bits with -0.0 as 0.0 and every NaN last. Threads take chunks, as many as the schedule says.
(Knuth, The Art of Computer Programming 3, 5.2.5.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType, bool_, i64, u8, u16, u32, u64
from raido.algo.graph.expr import Expr, Item, Op, Reduce, Result, const, fresh
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.jobs import Job
from raido.schedule.lower.work import Work
from raido.schedule.nest.nodes import Certificate, Store
from raido.schedule.nest.values import Buffer, NestExpr, Read

if TYPE_CHECKING:
    from raido.schedule.lower.loops import Loops

MOST_CHUNKS = 4096  # whatever a schedule says
ZERO, ONE = ix.as_index(0), ix.as_index(1)
_UNSIGNED = {8: u8, 16: u16, 32: u32, 64: u64}


class Sorts:
    """Emits sorts with the loops of `Loops` around them."""

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self.builder: Builder = loops.builder

    def sort(self, work: Work, position: int) -> None:
        """The sort whose loop along the axis stands at `position`, for each copy."""
        count = work.job.stage.reduction_axes[0].extent
        for k in range(len(work.copies)):
            with self.builder.unless_empty((count,)):
                self._sort(work, k)

    def _sort(self, work: Work, copy: int) -> None:
        builder, stage = self.builder, work.job.stage
        assert stage.sort is not None and work.job.reduction is not None
        axis = stage.reduction_axes[0]
        count = axis.extent
        dtypes = [v.dtype for v in work.job.reduction.left]
        keys = [unsigned(dtype) for dtype in dtypes[: stage.sort.keys]]
        numbers = numbers_of_sort(work.job)
        bits, wanted = numbers["bits"], ix.maximum(ix.minimum(numbers["chunks"], MOST_CHUNKS), 1)
        chunks = builder.name("chunks", wanted) if ix.constant_value(wanted) is None else wanted
        span = builder.name("span", ix.floordiv(ix.add(count, ix.sub(chunks, 1)), chunks))
        pairs = [
            [builder.alloc(name, dtype, (count,), "heap") for dtype in (*keys, *dtypes)] for name in ("these", "those")
        ]
        counts = builder.alloc("counts", i64, (chunks, ix.as_index(1 << bits)), "heap")
        self._load(work, copy, pairs[0], len(keys), chunks, span)
        passes = [(k, low) for k in reversed(range(len(keys))) for low in range(0, keys[k].bits, bits)]
        for number, (key, low) in enumerate(passes):
            source, target = pairs[number % 2], pairs[1 - number % 2]
            self._pass(source, target, source[key], low, bits, counts, chunks, span, count)
        self._store(work, copy, pairs[len(passes) % 2][len(keys) :], chunks, span)

    # Loops

    def _chunks(
        self,
        chunks: Expr,
        span: Expr,
        count: Expr,
        body: Callable[[Expr, Expr], object],
        certificates: tuple[Certificate, ...] = (),
    ) -> None:
        """`body(chunk, element)` for every element, chunk by chunk."""
        chunk, element = fresh("chunk"), fresh("i")
        kind = "serial" if chunks is ONE or self.builder.threaded else "parallel"
        with self.builder.loop(chunk, ZERO, chunks, 1, kind=kind, certificates=certificates):
            low = ix.mul(chunk, span)
            high = ix.minimum(ix.add(low, span), count)
            with self.builder.loop(element, low, high, 1):
                body(chunk, element)

    def _load(self, work: Work, copy: int, buffers: Sequence[Buffer], keys: int, chunks: Expr, span: Expr) -> None:
        axis = work.job.stage.reduction_axes[0]

        def load(chunk: Expr, element: Expr) -> None:
            values = {**self.loops.environment(work, copy), axis.var: element}
            assert work.job.reduction is not None
            (item,) = self.loops.converter.convert(
                (Item(work.job.reduction, 0),), values, self.builder.facts, work.identity
            )
            form: Reduce = item.form
            named = [self.builder.name("value", v) for v in self.loops.emitter.values(form.values)]
            for buffer, value in zip(buffers, (*map(sortable, named[:keys]), *named), strict=True):
                self.builder.add(Store(buffer, (element,), value))

        self._chunks(chunks, span, axis.extent, load)

    def _pass(
        self,
        source: Sequence[Buffer],
        target: Sequence[Buffer],
        key: Buffer,
        low: int,
        bits: int,
        counts: Buffer,
        chunks: Expr,
        span: Expr,
        count: Expr,
    ) -> None:
        """Elements move to their places by one digit of a key."""
        builder = self.builder

        def digit(element: Expr) -> NestExpr:
            moved = Op("shr", key.dtype, (Read(key, (element,), None), const(key.dtype, low)))
            return builder.name(
                "digit", Op("cast", i64, (Op("bit_and", key.dtype, (moved, const(key.dtype, (1 << bits) - 1))),))
            )

        def tally(chunk: Expr, element: Expr) -> None:
            place = (chunk, digit(element))
            builder.add(Store(counts, place, Op("add", i64, (Read(counts, place, None), ONE))))

        def move(chunk: Expr, element: Expr) -> None:
            own = (chunk, digit(element))
            place = builder.name("place", Read(counts, own, None))
            for a, b in zip(source, target, strict=True):
                builder.add(Store(b, (place,), Read(a, (element,), None)))
            builder.add(Store(counts, own, Op("add", i64, (place, ONE))))

        chunk, d = fresh("chunk"), fresh("d")
        with builder.loop(chunk, ZERO, chunks, 1), builder.loop(d, ZERO, ix.as_index(1 << bits), 1):
            builder.add(Store(counts, (chunk, d), ZERO))
        self._chunks(chunks, span, count, tally)
        total = builder.alloc("total", i64, (), "register")
        builder.add(Store(total, (), ZERO))
        chunk, d = fresh("chunk"), fresh("d")
        with builder.loop(d, ZERO, ix.as_index(1 << bits), 1), builder.loop(chunk, ZERO, chunks, 1):
            own = builder.name("own", Read(counts, (chunk, d), None))
            before = builder.name("before", Read(total, (), None))
            builder.add(Store(counts, (chunk, d), before))
            builder.add(Store(total, (), Op("add", i64, (before, own))))
        self._chunks(chunks, span, count, move, (Certificate("radix", tuple(target)),))

    def _store(self, work: Work, copy: int, buffers: Sequence[Buffer], chunks: Expr, span: Expr) -> None:
        job = work.job
        axis = job.stage.reduction_axes[0]

        def store(chunk: Expr, element: Expr) -> None:
            where = {**self.loops.environment(work, copy), axis.var: element}
            place = tuple(where[each.var] for each in job.stage.axes)
            for k, buffer in enumerate(buffers):
                storage = self.loops.converter.storages[Result(job.form, k)]
                at = storage.place(place, self.builder.facts)
                self.builder.add(Store(storage.buffer, at, Read(buffer, (element,), None)))

        self._chunks(chunks, span, axis.extent, store)


def numbers_of_sort(job: Job) -> dict[str, Any]:
    """What the schedule says of it; a chunk of its own where that is nothing."""
    return {"bits": 8, "chunks": 1} if job.plan.strategy is None else dict(job.plan.strategy[1])


def unsigned(dtype: DType) -> DType:
    """The unsigned integers that keys of that type become."""
    return u8 if dtype is bool_ else _UNSIGNED[dtype.bits]


def sortable(value: NestExpr) -> NestExpr:
    """An unsigned integer that is less than another where the value comes before the other's."""
    dtype, key = value.dtype, unsigned(value.dtype)
    if dtype is bool_:
        return Op("cast", u8, (value,))
    sign = const(key, 1 << (dtype.bits - 1))
    if dtype.kind == "u":
        return value
    if dtype.kind == "i":
        return Op("bit_xor", key, (Op("bitcast", key, (value,)), sign))
    plain = Op("select", dtype, (Op("eq", bool_, (value, const(dtype, 0.0))), const(dtype, 0.0), value))
    bits = Op("bitcast", key, (plain,))
    negative = Op("ne", bool_, (Op("bit_and", key, (bits, sign)), const(key, 0)))
    ordered = Op("select", key, (negative, Op("bit_not", key, (bits,)), Op("bit_or", key, (bits, sign))))
    return Op("select", key, (Op("ne", bool_, (value, value)), const(key, (1 << dtype.bits) - 1), ordered))
