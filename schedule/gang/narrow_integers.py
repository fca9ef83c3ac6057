"""Integers in lanes, computed in 8, 16 or 32 bits where no more bits are used: two, four or eight times as many lanes.

    before   out[x] = u8((i32(a[x]) * 77 + i32(b[x]) * 150 + 128) >> 8)

    after    out[x] = u8((u16(a[x]) * 77 + u16(b[x]) * 150 + 128) >> 8)

The low bits of sums, differences, products and bitwise operations depend on low bits alone, whatever the width; those of a right shift by a
constant on as many more as it shifts: of `u8(x >> 8)` any 16 bits of x suffice. Other shifts, quotients by constants, extremes and `abs`
need their operands exactly: these must be proven to fit (`nest/integer_ranges.py`). Products and quotients have at least 16 bits, as few
processors have any of 8 bits in lanes.

(LLVM 20 makes 8191 of the i64 −1 in `u16(3 * i64(b[x]) >> 19)` in vectors without AVX-512, for b of 16 bits: it shifts the upper half of a
product of 16 bits on as if it had no sign. In 32 bits it does not.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType, bool_, i8, i16, i32, u8, u16, u32, whole_range
from raido.algo.graph.expr import Const, Expr, Op, SizeVar, Var, const
from raido.algo.graph.node import Node
from raido.algo.graph.rewrite import topological
from raido.schedule.gang.vector_loops import replace_vector_loops
from raido.schedule.nest.effects import buffers_read, written
from raido.schedule.nest.integer_ranges import WRAPPING, IntegerRanges, Range, is_divisor, is_wider
from raido.schedule.nest.nodes import Block, For, Let, Nest
from raido.schedule.nest.replace_buffers import map_expressions
from raido.schedule.nest.values import converted
from raido.schedule.nest.walk import blocks_of, expressions_of, statements_within

BITWISE = ("bit_and", "bit_or", "bit_xor", "bit_not")
TYPES = {8: (u8, i8), 16: (u16, i16), 32: (i32, u32)}  # by their bits, those in which integers are computed
WHOLE = ("shr", "floordiv", "floormod", "minimum", "maximum", "abs")


def narrow_integers(nest: Nest) -> Nest:
    """The nest with the integers of vector loops computed in as few bits as are used."""
    return replace_vector_loops(nest, _narrowed_loop)


def _narrowed_loop(loop: For) -> For:
    if any(map(blocks_of, statements_within(loop.body))):
        return loop  # names may change in loops inside
    nodes = topological(*(e for s in statements_within(loop.body) for e in expressions_of(s)))
    if not any(_narrows(e) for e in nodes):
        return loop
    changed = written(loop.body)
    names: dict[Node, Expr] = {
        s.var: s.value  # type: ignore[misc]
        for s in statements_within(loop.body)
        if isinstance(s, Let) and changed.isdisjoint(buffers_read([s.value]))
    }
    narrowing = Narrowing(
        names, {loop.var, *(s.var for s in statements_within(loop.body) if isinstance(s, (For, Let)))}
    )
    body = map_expressions(loop.body, narrowing.change, lambda buffer: buffer)
    return loop if body is loop.body else replace(loop, body=_without_unused(body))


def _narrows(e: Node) -> bool:
    """Whether an expression casts an integer to a narrower one, or compares integers wider than 8 bits."""
    if not isinstance(e, Op) or e.name not in ("cast", *ix.COMPARISONS):
        return False
    return e.dtype.is_integer and is_wider(e.args[0], e.dtype.bits) if e.name == "cast" else is_wider(e.args[0], 8)


def _without_unused(block: Block) -> Block:
    """The block without names that are no longer used."""
    used: set[Node] = set()
    for s in statements_within(block):
        used.update(node for node in topological(*expressions_of(s)) if isinstance(node, Var))
    kept = tuple(
        _without_unused(s) if isinstance(s, Block) else s
        for s in block.statements
        if not isinstance(s, Let) or s.var in used
    )
    return block if len(kept) == len(block.statements) else _without_unused(Block(kept))


class Narrowing(IntegerRanges):
    """Rewrites expressions of a loop's lanes in 8, 16 or 32 bits. names: the values of names that may be evaluated again. inside: the names
    that the loop binds in each lane, which would have to be narrowed themselves; all others are uniform."""

    def __init__(self, names: Mapping[Node, Expr], inside: Collection[Node]) -> None:
        super().__init__(names)
        self.inside = inside
        self.made: dict[tuple[Node, DType, int], Expr | None] = {}

    def change(self, e: Node) -> Node:
        """A cast to a narrower integer with its operand in as few bits as possible, likewise a comparison; other expressions unchanged."""
        if not isinstance(e, Op) or not _narrows(e):
            return e
        if e.name in ix.COMPARISONS:
            return self._comparison(e)
        meaning = self.meaning(e.args[0])
        if not isinstance(meaning, Op):
            return e
        if meaning.name == "cast":  # its name, if it has one, would keep the wider value
            before = meaning.args[0]
            named = meaning is not e.args[0] and before.dtype.is_integer and not is_wider(before, 16)
            return converted(before, e.dtype) if named else e
        for dtype in (u8, i16 if e.dtype is i16 else u16, i32):
            if e.dtype.bits <= dtype.bits < meaning.dtype.bits:
                narrow = self.narrow(meaning, dtype, e.dtype.bits)
                if narrow is not None:
                    return converted(narrow, e.dtype)
        return e

    def _comparison(self, e: Op) -> Op:
        """A comparison of integers in the narrowest dtype that holds both."""
        ranges = [self.range_of(a) for a in e.args]
        for bits in (8, 16, 32):
            dtype = type_of(ranges, TYPES[bits]) if bits < e.args[0].dtype.bits else None
            sides = [] if dtype is None else [self.narrow(a, dtype, bits) for a in e.args]
            if dtype is not None and None not in sides:
                return Op(e.name, bool_, tuple(sides))  # type: ignore[arg-type]
        return e

    def narrow(self, e: Expr, dtype: DType, used: int) -> Expr | None:
        """A value of that dtype that agrees with an integer in the low `used` bits; None where it cannot be computed in that width."""
        key = e, dtype, used
        if key not in self.made:
            self.made[key] = self._narrow(e, dtype, used)
        return self.made[key]

    def _narrow(self, e: Expr, dtype: DType, used: int) -> Expr | None:
        e = self.meaning(e)
        if isinstance(e, Const):
            value = int(e.value) % (1 << dtype.bits)
            return const(dtype, value - (1 << dtype.bits) if value > whole_range(dtype)[1] else value)
        if not is_wider(e, dtype.bits):
            return converted(e, dtype) if e.dtype.is_integer or e.dtype is bool_ else None
        if not isinstance(e, Op):
            return converted(e, dtype) if isinstance(e, (Var, SizeVar)) and e not in self.inside else None
        if dtype.bits == 8 and (
            e.name in ("floordiv", "floormod") or (e.name == "mul" and not any(map(_is_power, e.args)))
        ):
            return None
        if e.name == "cast":
            source = e.args[0].dtype
            return self.narrow(e.args[0], dtype, used) if source.is_integer or source is bool_ else None
        if e.name in (*WRAPPING, *BITWISE):
            return _built(e.name, dtype, [self.narrow(a, dtype, used) for a in e.args])
        if e.name == "select":
            sides = [self.narrow(a, dtype, used) for a in e.args[1:]]
            return None if None in sides else Op("select", dtype, (e.args[0], *sides))  # type: ignore[arg-type]
        distance = ix.constant_value(e.args[1]) if e.name in ("shl", "shr") else None
        if distance is not None and 0 <= distance < dtype.bits and (e.name == "shl" or used + distance <= dtype.bits):
            below = used + distance if e.name == "shr" else used
            return _built(e.name, dtype, [self.narrow(e.args[0], dtype, below), const(dtype, distance)])
        if e.name not in WHOLE or (e.name in ("shr", "floordiv", "floormod") and not is_divisor(e, dtype.bits)):
            return None
        own = type_of([self.range_of(a) for a in (*e.args, e)], TYPES[dtype.bits])
        if own is None:
            return None
        result = _built(e.name, own, [self.narrow(a, own, own.bits) for a in e.args])
        return None if result is None else converted(result, dtype)


def type_of(ranges: Sequence[Range | None], types: Iterable[DType]) -> DType | None:
    """The first of some types that holds all of these."""
    for dtype in types:
        low, high = whole_range(dtype)
        if all(r is not None and low <= r[0] and r[1] <= high for r in ranges):
            return dtype
    return None


def _is_power(e: Expr) -> bool:
    """Whether an expression is a constant power of two."""
    value = ix.constant_value(e)
    return value is not None and value > 0 and not value & (value - 1)


def _built(name: str, dtype: DType, operands: list[Expr | None]) -> Expr | None:
    return None if None in operands else Op(name, dtype, tuple(operands))  # type: ignore[arg-type]
