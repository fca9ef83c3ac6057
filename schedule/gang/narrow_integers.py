"""Integers in lanes, computed in 16 or 32 bits where no more bits of them are used: twice or four times as many lanes.

    before   out[x] = u8((i32(a[x]) * 77 + i32(b[x]) * 150 + 128) >> 8)
    after    out[x] = u8((u16(a[x]) * 77 + u16(b[x]) * 150 + 128) >> 8)

Sums, differences and products wrap, so their low bits are those of what is computed in any width. Shifts to the right, quotients by
constants, extremes and `abs` want their operands whole: these must be proven to fit. A polynomial of values of known ranges is
bounded by its values at the ends of those ranges, where it bends the right way in each of them (`bounds_of`): of `a*t + b*(255 - t)`,
which blends two bytes, intervals alone would say twice of what it can be.

(LLVM 20 makes 8191 of the i64 −1 in `u16(3 * i64(b[x]) >> 19)` in vectors without AVX-512, for b of 16 bits: it shifts the upper half of
a product of 16 bits on as if it had no sign. In 32 bits it does not.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

from raido.algo.graph.dtypes import DType, bool_, i16, i32, u16, u32, whole_range
from raido.algo.graph.expr import Const, Expr, Op, Var, const
from raido.algo.graph.node import Node
from raido.algo.graph.rewrite import topological
from raido.schedule.gang.vector_loops import replace_vector_loops
from raido.schedule.nest.effects import buffers_read, written
from raido.schedule.nest.nodes import Block, For, If, Let, Nest, Ordered, Produce, Statement, While
from raido.schedule.nest.replace_buffers import map_expressions
from raido.schedule.nest.walk import expressions_of, statements_within

Range = tuple[int, int]
Monomial = tuple[Node, ...]
WRAPPING = ("add", "sub", "mul", "neg")
WHOLE = ("shr", "floordiv", "minimum", "maximum", "abs")
MOST_ENDS = 6  # values whose ends are tried: 64 combinations
MOST_TERMS = 32


def narrow_integers(nest: Nest) -> Nest:
    """The nest whose vector loops compute no more bits than they use."""
    return replace_vector_loops(nest, _narrowed_loop)


def _narrowed_loop(loop: For) -> For:
    if not all(isinstance(s, (Block, Let)) or not _has_blocks(s) for s in statements_within(loop.body)):
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
    narrowing = Narrowing(names)
    body = map_expressions(loop.body, narrowing.change, lambda buffer: buffer)
    return loop if body is loop.body else replace(loop, body=_without_unused(body))


def _narrows(e: Node) -> bool:
    """Whether an expression is a cast of an integer to a narrower one."""
    return isinstance(e, Op) and e.name == "cast" and e.dtype.is_integer and _is_wider(e.args[0], max(16, e.dtype.bits))


def _has_blocks(s: Statement) -> bool:
    return isinstance(s, (For, If, While, Ordered, Produce))


def _without_unused(block: Block) -> Block:
    """The block without names that nothing uses any more."""
    used: set[Node] = set()
    for s in statements_within(block):
        used.update(node for node in topological(*expressions_of(s)) if isinstance(node, Var))
    kept = tuple(
        _without_unused(s) if isinstance(s, Block) else s
        for s in block.statements
        if not isinstance(s, Let) or s.var in used
    )
    return block if len(kept) == len(block.statements) else _without_unused(Block(kept))


class Narrowing:
    """Expressions of a loop's lanes in 16 bits. names: the values of names, where they may be evaluated again."""

    def __init__(self, names: Mapping[Node, Expr]) -> None:
        self.names = names
        self.ranges: dict[Node, Range | None] = {}
        self.polynomials: dict[Node, dict[Monomial, int] | None] = {}
        self.made: dict[tuple[Node, DType], Expr | None] = {}

    def change(self, e: Node) -> Node:
        """A cast of an integer to a narrower one, with what it casts in as few bits as can be; all else as it is."""
        if not isinstance(e, Op) or not _narrows(e):
            return e
        meaning = self._meaning(e.args[0])
        if not isinstance(meaning, Op) or meaning.name == "cast":
            return e
        for dtype in (i16 if e.dtype is i16 else u16, i32):
            if e.dtype.bits <= dtype.bits < meaning.dtype.bits:
                narrow = self.narrow(meaning, dtype)
                if narrow is not None:
                    return _cast(narrow, e.dtype)
        return e

    def narrow(self, e: Expr, dtype: DType) -> Expr | None:
        """The low bits of an integer, as a number of that type; None where they are not to be had of so many bits alone."""
        key = e, dtype
        if key not in self.made:
            self.made[key] = self._narrow(e, dtype)
        return self.made[key]

    def _narrow(self, e: Expr, dtype: DType) -> Expr | None:
        e = self._meaning(e)
        if isinstance(e, Const):
            value = int(e.value) % (1 << dtype.bits)
            return const(dtype, value - (1 << dtype.bits) if value > whole_range(dtype)[1] else value)
        if not _is_wider(e, dtype.bits):
            return _cast(e, dtype) if e.dtype.is_integer or e.dtype is bool_ else None
        if not isinstance(e, Op):
            return None
        if e.name == "cast":
            return self.narrow(e.args[0], dtype) if e.args[0].dtype.is_integer or e.args[0].dtype is bool_ else None
        if e.name in WRAPPING:
            return _built(e.name, dtype, [self.narrow(a, dtype) for a in e.args])
        if e.name == "select":
            sides = [self.narrow(a, dtype) for a in e.args[1:]]
            return None if None in sides else Op("select", dtype, (e.args[0], *sides))  # type: ignore[arg-type]
        if e.name not in WHOLE or (e.name in ("shr", "floordiv") and not _is_divisor(e, dtype.bits)):
            return None
        own = _type_of([self.range_of(a) for a in (*e.args, e)], dtype.bits)
        if own is None:
            return None
        result = _built(e.name, own, [self.narrow(a, own) for a in e.args])
        return None if result is None else _cast(result, dtype)

    def range_of(self, e: Expr) -> Range | None:
        """The least and the greatest value of an integer; None where nobody knows."""
        if not (e.dtype.is_integer or e.dtype is bool_):
            return None
        if e not in self.ranges:
            found = self._range_of(e)
            low, high = whole_range(e.dtype)
            holds = found is not None and low <= found[0] and found[1] <= high
            self.ranges[e] = found if holds else (low, high) if e.dtype.bits < 64 else None  # what does not fit wraps
        return self.ranges[e]

    def _range_of(self, e: Expr) -> Range | None:
        meaning = self._meaning(e)
        if meaning is not e:
            return self.range_of(meaning)
        if e.dtype is bool_:
            return 0, 1
        if isinstance(e, Const):
            return int(e.value), int(e.value)
        if not isinstance(e, Op) or not _is_wider(e, 16):
            return None
        if e.name in WRAPPING:
            terms = self.polynomial(e)
            bounds = None if terms is None else bounds_of(terms, self.range_of)
            parts = [self.range_of(a) for a in e.args]
            if bounds is None or None in parts:
                return bounds
            low, high = _range_of_sum_or_product(e.name, parts)  # type: ignore[arg-type]
            return max(low, bounds[0]), min(high, bounds[1])
        if e.name == "cast":
            source = e.args[0].dtype
            return self.range_of(e.args[0]) if source.is_integer or source is bool_ else None
        operands = [self.range_of(a) for a in e.args[e.name == "select" :]]
        return None if None in operands else _range_of_operation(e, operands)  # type: ignore[arg-type]

    def polynomial(self, e: Expr) -> dict[Monomial, int] | None:
        """An integer as a polynomial of others: products of these, in the order of their names, with coefficients."""
        if e not in self.polynomials:
            self.polynomials[e] = self._polynomial(e)
        return self.polynomials[e]

    def _polynomial(self, e: Expr) -> dict[Monomial, int] | None:
        meaning = self._meaning(e)
        if meaning is not e:
            return self.polynomial(meaning)
        if isinstance(e, Const):
            return {(): int(e.value)}
        if not isinstance(e, Op) or e.name not in WRAPPING:
            return {(self._leaf(e),): 1}
        parts = [self.polynomial(a) for a in e.args]
        if None in parts:
            return None
        return _combined(e.name, parts)  # type: ignore[arg-type]

    def _leaf(self, e: Expr) -> Expr:
        """The operand of a cast from a narrow type, the same number whatever type it is cast to; of others the value itself."""
        inside = isinstance(e, Op) and e.name == "cast" and _is_wider(e, 16) and _is_narrow(e.args[0])
        return self._meaning(e.args[0]) if inside else e  # type: ignore[union-attr]

    def _meaning(self, e: Expr) -> Expr:
        while e in self.names:
            e = self.names[e]
        return e


def bounds_of(terms: Mapping[Monomial, int], range_of: Callable[[Any], Range | None]) -> Range | None:
    """Bounds of a polynomial: its extreme values at the ends of the ranges, where it is convex, or concave, in each of its variables; else
    those of intervals."""
    variables = list(dict.fromkeys(v for monomial in terms for v in monomial))
    ranges = {v: at for v in variables if (at := range_of(v)) is not None}
    if len(ranges) < len(variables) or len(terms) > MOST_TERMS:
        return None
    low, high = _interval(terms, ranges)
    if len(variables) > MOST_ENDS or any(monomial.count(v) > 2 for monomial in terms for v in set(monomial)):
        return low, high
    bends = [_interval(_bend(terms, v), ranges) for v in variables]
    ends = [_value(terms, dict(zip(variables, at, strict=True))) for at in product(*(ranges[v] for v in variables))]
    return (
        max(low, min(ends)) if all(most <= 0 for _, most in bends) else low,
        min(high, max(ends)) if all(least >= 0 for least, _ in bends) else high,
    )


def _bend(terms: Mapping[Monomial, int], variable: Node) -> dict[Monomial, int]:
    """The coefficient of a variable's square."""
    return {
        tuple(v for v in monomial if v is not variable): factor
        for monomial, factor in terms.items()
        if monomial.count(variable) == 2
    }


def _interval(terms: Mapping[Monomial, int], ranges: Mapping[Node, Range]) -> Range:
    low = high = 0
    for monomial, factor in terms.items():
        corners = [factor]
        for v in set(monomial):
            ends = [end ** monomial.count(v) for end in ranges[v]]
            if monomial.count(v) == 2 and ranges[v][0] < 0 < ranges[v][1]:
                ends.append(0)
            corners = [c * end for c in corners for end in ends]
        low, high = low + min(corners), high + max(corners)
    return low, high


def _value(terms: Mapping[Monomial, int], values: Mapping[Node, int]) -> int:
    return sum(factor * prod(values[v] for v in monomial) for monomial, factor in terms.items())


def _combined(name: str, parts: list[dict[Monomial, int]]) -> dict[Monomial, int] | None:
    out: dict[Monomial, int] = {}
    if name == "mul":
        pairs = [(tuple(sorted(a + b, key=id)), x * y) for a, x in parts[0].items() for b, y in parts[1].items()]
    else:
        signs = (-1,) if name == "neg" else (1, -1 if name == "sub" else 1)
        pairs = [(m, sign * x) for sign, part in zip(signs, parts, strict=True) for m, x in part.items()]
    for monomial, factor in pairs:
        out[monomial] = out.get(monomial, 0) + factor
    return {m: x for m, x in out.items() if x} if len(out) <= MOST_TERMS else None


def _range_of_sum_or_product(name: str, operands: list[Range]) -> Range:
    (low, high), *others = operands
    if not others:
        return -high, -low
    ((first, last),) = others
    if name == "mul":
        corners = [a * b for a in (low, high) for b in (first, last)]
        return min(corners), max(corners)
    return (low + first, high + last) if name == "add" else (low - last, high - first)


def _range_of_operation(e: Op, operands: list[Range]) -> Range | None:
    if e.name == "select":
        return min(a for a, _ in operands), max(b for _, b in operands)
    if e.name in ("minimum", "maximum"):
        choose = min if e.name == "minimum" else max
        return choose(a for a, _ in operands), choose(b for _, b in operands)
    (low, high) = operands[0]
    if e.name == "abs":
        return (0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
    by, most = operands[-1]
    if e.name in ("shr", "floordiv") and by == most and _is_divisor(e, e.dtype.bits):
        return (low >> by, high >> by) if e.name == "shr" else (low // by, high // by)
    return None


def _type_of(ranges: list[Range | None], bits: int) -> DType | None:
    """The type of so many bits that holds all of these."""
    for dtype in (u16, i16) if bits == 16 else (i32, u32):
        low, high = whole_range(dtype)
        if all(r is not None and low <= r[0] and r[1] <= high for r in ranges):
            return dtype
    return None


def _is_divisor(e: Op, bits: int) -> bool:
    """Whether a shift or a quotient is by a positive constant that numbers of so many bits know."""
    by = e.args[1]
    return isinstance(by, Const) and 0 < by.value < (bits if e.name == "shr" else 1 << (bits - 1))


def _built(name: str, dtype: DType, operands: list[Expr | None]) -> Expr | None:
    return None if None in operands else Op(name, dtype, tuple(operands))  # type: ignore[arg-type]


def _cast(e: Expr, dtype: DType) -> Expr:
    return e if e.dtype is dtype else Op("cast", dtype, (e,))


def _is_wider(e: Expr, bits: int) -> bool:
    return e.dtype.is_integer and e.dtype.bits > bits


def _is_narrow(e: Expr) -> bool:
    return e.dtype is bool_ or (e.dtype.is_integer and e.dtype.bits <= 16)
