"""Value-range analysis of integers.

A polynomial of values with known ranges is bounded by its values at the ends of those ranges, where it is convex or concave in each of them
(`bounds_of`): of `a*t + b*(255 - t)`, which blends two bytes, intervals alone would give twice the range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from math import prod
from typing import Any

from raido.algo.graph.dtypes import bool_, i64, whole_range
from raido.algo.graph.expr import Const, Expr, Op, SizeVar
from raido.algo.graph.node import Node
from raido.schedule.nest.values import Splat

Range = tuple[int, int]
Monomial = tuple[Node, ...]
WRAPPING = ("add", "sub", "mul", "neg")
MOST_ENDS = 6  # values whose ends are tried: 64 combinations take 0.3 ms, and each value more twice as long; of more, intervals alone
MOST_TERMS = 32  # multiplied out in 0.3 ms, 128 in 4 ms, for each operation of a chain; of larger ones, intervals alone


class IntegerRanges:
    """The ranges of integers. names: the values of variables; ranges of other variables may be entered into `ranges`."""

    def __init__(self, names: Mapping[Node, Expr]) -> None:
        self.names = names
        self.ranges: dict[Node, Range | None] = {}
        self.polynomials: dict[Node, dict[Monomial, int] | None] = {}

    def range_of(self, e: Expr) -> Range | None:
        """Returns the least and greatest value of an integer; None where they are not known."""
        if not (e.dtype.is_integer or e.dtype is bool_):
            return None
        if e not in self.ranges:
            found = self._range_of(e)
            low, high = whole_range(e.dtype)
            holds = found is not None and low <= found[0] and found[1] <= high
            self.ranges[e] = found if holds else (low, high) if e.dtype.bits < 64 else None  # what does not fit wraps
        return self.ranges[e]

    def _range_of(self, e: Expr) -> Range | None:
        meaning = self.meaning(e)
        if meaning is not e:
            return self.range_of(meaning)
        if e.dtype is bool_:
            return 0, 1
        if isinstance(e, Const):
            return int(e.value), int(e.value)
        if isinstance(e, SizeVar):
            return 0, whole_range(i64)[1]
        if isinstance(e, Splat):
            return self.range_of(e.value)  # type: ignore[arg-type]
        if not isinstance(e, Op):
            return None
        if e.name in WRAPPING:
            terms = self.polynomial(e)
            bounds = None if terms is None else bounds_of(terms, self.range_of)
            parts = [self.range_of(a) for a in e.args]
            if None in parts:
                return bounds
            low, high = _range_of_sum_or_product(e.name, parts)  # type: ignore[arg-type]
            return (low, high) if bounds is None else (max(low, bounds[0]), min(high, bounds[1]))
        if e.name == "cast":
            source = e.args[0].dtype
            return self.range_of(e.args[0]) if source.is_integer or source is bool_ else None
        args = e.args[e.name == "select" :]
        if not all(a.dtype.is_integer or a.dtype is bool_ for a in args):
            return None
        return _range_of_operation(e, [self.range_of(a) or whole_range(a.dtype) for a in args])

    def polynomial(self, e: Expr) -> dict[Monomial, int] | None:
        """Returns an integer as a polynomial of others: monomials, with factors in a fixed order, with coefficients; None where it is too
        large.
        """
        if e not in self.polynomials:
            self.polynomials[e] = self._polynomial(e)
        return self.polynomials[e]

    def _polynomial(self, e: Expr) -> dict[Monomial, int] | None:
        meaning = self.meaning(e)
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
        """Returns the operand of a cast from a narrow integer type, which the cast does not change; other values themselves."""
        inside = isinstance(e, Op) and e.name == "cast" and is_wider(e, 16) and _is_narrow(e.args[0])
        return self.meaning(e.args[0]) if inside else e  # type: ignore[union-attr]

    def meaning(self, e: Expr) -> Expr:
        """Returns the value bound to a variable; of other expressions themselves."""
        while e in self.names:
            e = self.names[e]
        return e


def bounds_of(terms: Mapping[Monomial, int], range_of: Callable[[Any], Range | None]) -> Range | None:
    """Returns bounds of a polynomial: its extremes at the ends of the ranges, where it is convex, or concave, in each variable; else those
    of interval arithmetic.
    """
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
    """Returns the coefficient of a variable's square."""
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
    if e.name == "bit_and" and max(low, by) >= 0:
        return 0, min(end for start, end in operands if start >= 0)
    if e.name in ("bit_or", "bit_xor") and min(low, by) >= 0:
        return 0, (1 << max(high, most).bit_length()) - 1
    if e.name in ("mod", "floormod") and by == most and is_divisor(e, e.dtype.bits):
        return 0, by - 1
    if e.name in ("shr", "floordiv") and by == most and is_divisor(e, e.dtype.bits):
        return (low >> by, high >> by) if e.name == "shr" else (low // by, high // by)
    return None


def is_divisor(e: Op, bits: int) -> bool:
    """Whether a shift, quotient or remainder is by a positive constant within the range of `bits` bits."""
    by = e.args[1]
    return isinstance(by, Const) and 0 < by.value < (bits if e.name == "shr" else 1 << (bits - 1))


def is_wider(e: Expr, bits: int) -> bool:
    """Whether an expression is an integer of more than `bits` bits."""
    return e.dtype.is_integer and e.dtype.bits > bits


def _is_narrow(e: Expr) -> bool:
    return e.dtype is bool_ or (e.dtype.is_integer and e.dtype.bits <= 16)
