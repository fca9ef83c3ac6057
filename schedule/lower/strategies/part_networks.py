"""Sorting networks in registers for short parts of keys: a matrix whose columns are sorted, then merged two by two until one is left.

    lanes are columns    element k of column x is key R·x + k of R rows; a network sorts each column, every second one descending
    lanes are rows       the first steps of bitonic merges of 2, 4, … columns: compare-exchanges between columns
    lanes are columns    … and the last steps: between elements of a column

In between the matrix is stored by rows and read by columns, or the other way round, which are transposes in registers (`gang/transposes`).
Where a column is to descend, lanes hold complements (negated floats), so every compare-exchange puts the lesser key first. Elements of the
matrix behind the part are the greatest key. A network is not stable, which is observable in floats alone: a part with NaN or -0.0 is
therefore not sorted here.

(Batcher, Sorting networks and their applications, 1968; Blacher, Giesen and Kühne, Fast and robust vectorized in-place sorting of primitive
types, 2021: sorted columns, merged.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TypeAlias

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i32, i64
from raido.algo.graph.expr import Expr, Op, Var, const, fresh
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.loops.register_folds import fold_into, identity
from raido.schedule.nest.nodes import Store
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.stages.sort_keys import unsigned
from raido.schedule.stages.sort_networks import exchanges

ZERO, ONE = ix.as_index(0), ix.as_index(1)
LEAST = 4  # keys of a network: two columns of two

Keep: TypeAlias = "Callable[[Expr, Sequence[NestExpr]], None]"


class PartNetworks:
    """Networks for `largest` keys, rounded down to a power of two, for half as many, and so on, as long as that is more than `ranked`.

    lanes: the `For` fields of loops.
    """

    def __init__(
        self, builder: Builder, source: Buffer, lanes: dict[str, object], keep: Keep, ranked: int, largest: int
    ) -> None:
        self.builder = builder
        sizes = [1 << k for k in range(largest.bit_length()) if 1 << k >= max(LEAST, ranked + 1)]
        self.networks = [_Network(builder, source, lanes, keep, *_sides(size)) for size in sizes]

    def sort(self, low: Expr, high: Expr) -> Buffer | None:
        """Stores a part in order, if a network takes its length and preserves the order of its keys; returns a register that says whether
        one did, or None without networks."""
        if not self.networks:
            return None
        builder = self.builder
        done = builder.register("done", const(bool_, False))
        length, shorter = builder.name("length", ix.sub(high, low)), ZERO
        for network in self.networks:
            longest = ix.as_index(network.rows * network.columns)
            fits = (Op("lt", bool_, (shorter, length)), Op("le", bool_, (length, longest)))
            with builder.when(Op("logical_and", bool_, fits)), network.sorted_columns(low, high):
                network.merge(low, high)
                builder.add(Store(done, (), const(bool_, True)))
            shorter = longest
        return done


def _sides(size: int) -> tuple[int, int]:
    """The rows and columns of a matrix of `size` elements, a power of two: a square, or twice as many rows."""
    exponent = size.bit_length() - 1
    return 1 << (exponent + 1) // 2, 1 << exponent // 2


class _Network:
    """A network for as many keys as a matrix has elements."""

    def __init__(
        self, builder: Builder, source: Buffer, lanes: dict[str, object], keep: Keep, rows: int, columns: int
    ) -> None:
        self.builder, self.source, self.keep, self.rows, self.columns = builder, source, keep, rows, columns
        self.key = source.dtype
        self.lanes = {**lanes, "lanes": columns, "interleave": 1, "tail": "mask"}
        sides = ix.as_index(rows), ix.as_index(columns)
        self.by_rows = builder.alloc("by_rows", self.key, sides, "stack")
        self.by_columns = builder.alloc("by_columns", self.key, sides[::-1], "stack")

    @contextmanager
    def sorted_columns(self, low: Expr, high: Expr) -> Iterator[None]:
        """Sorts the columns of a part, as a context whose body runs unless there is a key whose order a network does not preserve."""
        builder = self.builder
        unkept = builder.register("unkept", const(i32, 0)) if self.key.is_float else None
        with self._along(self.columns) as x:
            read = [self._element(ix.add(low, ix.add(x, k * self.columns)), high) for k in range(self.rows)]
            if unkept is not None:
                found = reduce(lambda a, b: Op("logical_or", bool_, (a, b)), map(self._is_unkept, read))
                fold_into(builder, unkept, Op("select", i32, (found, const(i32, 1), const(i32, 0))), "add")
            descends = Op("eq", bool_, (Op("bit_and", i64, (x, ONE)), ONE))
            keys = [self._name(Op("select", self.key, (descends, self._complement(key), key))) for key in read]
            for i, j in exchanges(self.rows):
                self._exchange(keys, i, j)
            self._store(self.by_rows, keys, x)
        if unkept is None:
            yield
            return
        with builder.when(Op("eq", bool_, (Read(unkept, (), None), const(i32, 0)))):
            yield

    def merge(self, low: Expr, high: Expr) -> None:
        """Merges sorted columns, and stores the elements of the part."""
        doublings = self.columns.bit_length() - 1
        width = fresh("width")  # log2 of the number of columns that form one sorted sequence afterwards
        with self.builder.loop(width, ONE, ix.as_index(doublings + 1), 1):
            with self._along(self.rows) as k:
                keys = self._load(self.by_rows, k, self.columns)
                turned = [self._turned(key, x, width) if x else key for x, key in enumerate(keys)]
                held = [self.builder.register("held", key) for key in turned]
                for exponent in reversed(range(doublings)):
                    with self.builder.when(Op("lt", bool_, (ix.as_index(exponent), width))):
                        self._compare_exchange_held(held, 1 << exponent)
                self._store(self.by_columns, [Read(each, (), None) for each in held], k)
            with self._along(self.columns) as x:
                keys = self._load(self.by_columns, x, self.rows)
                distance = self.rows // 2
                while distance:
                    self._compare_exchange(keys, distance)
                    distance //= 2
                self._store(self.by_rows, keys, x)
        with self._along(self.rows) as k:
            for x, key in enumerate(self._load(self.by_rows, k, self.columns)):
                at = ix.add(low, ix.add(k, x * self.rows))
                with self.builder.when(Op("lt", bool_, (at, high))):
                    self.keep(at, (key,))

    @contextmanager
    def _along(self, count: int) -> Iterator[Var]:
        at = fresh("x")
        with self.builder.loop(at, ZERO, ix.as_index(count), 1, **self.lanes):
            yield at

    def _name(self, key: NestExpr) -> NestExpr:
        return self.builder.name("key", key)

    def _element(self, at: Expr, high: Expr) -> NestExpr:
        """The key at an index, or the greatest key from `high` on."""
        there = self.builder.name("there", Op("lt", bool_, (at, high)))
        key = self._name(Read(self.source, (at,), there))
        return self._name(Op("select", self.key, (there, key, identity("minimum", self.key))))

    def _load(self, matrix: Buffer, at: Expr, count: int) -> list[NestExpr]:
        return [self._name(Read(matrix, (at, ix.as_index(k)), None)) for k in range(count)]

    def _store(self, matrix: Buffer, keys: Sequence[NestExpr], at: Expr) -> None:
        for k, key in enumerate(keys):
            self.builder.add(Store(matrix, (ix.as_index(k), at), key))

    def _turned(self, key: NestExpr, column: int, width: Expr) -> NestExpr:
        """The key of a column, complemented where the column's direction differs from that of the merge before."""
        now, before = (Op("shr", i64, (ix.as_index(column), e)) for e in (width, ix.sub(width, 1)))
        turns = self._name(Op("eq", bool_, (Op("bit_and", i64, (Op("bit_xor", i64, (now, before)), ONE)), ONE)))
        return self._name(Op("select", self.key, (turns, self._complement(key), key)))

    def _compare_exchange(self, keys: list[NestExpr], distance: int) -> None:
        """Emits compare-exchanges of keys `distance` apart."""
        for i in range(len(keys)):
            if not i & distance:
                self._exchange(keys, i, i + distance)

    def _compare_exchange_held(self, held: Sequence[Buffer], distance: int) -> None:
        """Emits compare-exchanges of keys in registers `distance` apart."""
        keys: list[NestExpr] = [self._name(Read(each, (), None)) for each in held]
        self._compare_exchange(keys, distance)
        self.builder.store(held, (), keys)

    def _exchange(self, keys: list[NestExpr], i: int, j: int) -> None:
        """Puts two keys, neither of which is NaN, in order."""
        a, b = keys[i], keys[j]
        if self.key.is_float:
            less = self.builder.name("less", Op("lt", bool_, (a, b)))
            both = [Op("select", self.key, (less, *pair)) for pair in ((a, b), (b, a))]
        else:
            both = [Op(name, self.key, (a, b)) for name in ("minimum", "maximum")]
        keys[i], keys[j] = map(self._name, both)

    def _complement(self, key: NestExpr) -> NestExpr:
        return Op("neg" if self.key.is_float else "bit_not", self.key, (key,))

    def _is_unkept(self, key: NestExpr) -> NestExpr:
        """Whether a float is NaN or -0.0: such keys are equal or unordered although their bits differ."""
        bits = unsigned(self.key)
        is_minus = Op("eq", bool_, (Op("bitcast", bits, (key,)), const(bits, 1 << (bits.bits - 1))))
        return Op("logical_or", bool_, (is_minus, Op("ne", bool_, (key, key))))
