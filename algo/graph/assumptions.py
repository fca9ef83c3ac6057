"""Proofs about sizes and indices: `interval` bounds an expression over ranges of variables; `Assumptions` decides `<=`, `=` and divisibility
under assumptions. Both answer "unknown" rather than guess."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd
from typing import TypeAlias

import numpy as np

from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Const, Count, Expr, Fill, Loop, Node, Op, Reduce, SizeVar, Var, const
from raido.algo.graph.index import (
    BOUNDARY_OPS,
    IntLike,
    add,
    as_index,
    canonical,
    clamp,
    combine,
    constant_value,
    counts,
    floordiv,
    has_extremes,
    linear,
    maximum,
    minimum,
    mul,
    rewrite_index,
    sub,
    text,
)
from raido.algo.graph.models import Model, first_models
from raido.algo.graph.rewrite import free_variables, scalar_nodes, substitute

Interval: TypeAlias = tuple[Expr, Expr]
Terms: TypeAlias = "frozenset[tuple[Expr, int]]"
_MOST_PARTS = 256
_MOST_GOALS = 4096  # of one proof: the longest in the tests has 1,100, and a search that finds none is exponential


def interval(e: Expr, ranges: Mapping[Var, Interval], assumptions: Assumptions | None = None) -> Interval | None:
    """Inclusive bounds of `e` when each variable of `ranges` runs between its (inclusive) bounds; other atoms are symbolic constants.

    None when no bound is known (for a loaded value, say). The ranges are assumed non-empty.
    """
    assumptions = assumptions or Assumptions()
    constant, terms = linear(e)
    if terms.get(e) is None:
        low: Expr = const(i64, constant)
        high: Expr = low
        for atom, c in terms.items():
            part = interval(atom, ranges, assumptions)
            if part is None:
                return None
            a, b = part if c > 0 else part[::-1]
            low, high = add(low, mul(a, c)), add(high, mul(b, c))
        return low, high
    if isinstance(e, Var):
        return ranges.get(e, (e, e))
    if isinstance(e, (SizeVar, Count)):
        return e, e
    if not isinstance(e, Op):
        return None
    if e.dtype is not i64 or any(a.dtype is not i64 and a.dtype is not bool_ for a in e.args):
        return _through_other_types(e, ranges, assumptions)
    if e.name in BOUNDARY_OPS:
        return _boundary_interval(e, ranges, assumptions)
    parts = [interval(a, ranges, assumptions) for a in e.args]
    if e.name == "select":
        if parts[1] is None or parts[2] is None:
            return None
        return minimum(parts[1][0], parts[2][0]), maximum(parts[1][1], parts[2][1])
    if any(part is None for part in parts):
        return None
    (a_low, a_high), (b_low, b_high) = parts[0], parts[1] if len(parts) > 1 else parts[0]  # type: ignore[misc]
    if e.name == "minimum":
        return minimum(a_low, b_low), minimum(a_high, b_high)
    if e.name == "maximum":
        return maximum(a_low, b_low), maximum(a_high, b_high)
    k = constant_value(e.args[1]) if len(e.args) > 1 else None
    if e.name == "floordiv" and k and k > 0:
        return floordiv(a_low, k), floordiv(a_high, k)
    if e.name == "mod" and k and k > 0:
        low_q, high_q = floordiv(a_low, k), floordiv(a_high, k)
        if low_q is high_q:
            return sub(a_low, mul(low_q, k)), sub(a_high, mul(high_q, k))
        return const(i64, 0), const(i64, k - 1)
    if e.name == "mul" and a_low is a_high and assumptions.nonnegative(a_low):
        return mul(b_low, a_low), mul(b_high, a_low)
    if e.name == "mul" and b_low is b_high and assumptions.nonnegative(b_low):
        return mul(a_low, b_low), mul(a_high, b_low)
    if all(part[0] is part[1] for part in parts):  # type: ignore[index]
        same = Op(e.name, e.dtype, tuple(part[0] for part in parts))  # type: ignore[index]
        return same, same
    return None


def interval_of_all(e: Expr, ranges: Mapping[Var, Interval]) -> Interval | None:
    """Inclusive bounds of `e` over variables without a range, where the bounds of ranges may mention variables with a range."""
    low: Expr = e
    high: Expr = e
    for _ in range(len(ranges) + 1):
        below, above = interval(low, ranges), interval(high, ranges)
        if below is None or above is None:
            return None
        if below[0] is low and above[1] is high:
            break
        low, high = below[0], above[1]
    return low, high


def _through_other_types(e: Op, ranges: Mapping[Var, Interval], assumptions: Assumptions) -> Interval | None:
    """The interval of an expression computed in other types, where it may wrap: known if all variables have one value, or if it consists of
    casts."""
    nodes = scalar_nodes(e)
    bounds = {v: ranges.get(v, (v, v)) for v in nodes if isinstance(v, Var)}
    if all(low is high for low, high in bounds.values()):
        if not all(isinstance(node, Op | Var | Const | SizeVar) for node in nodes):
            return None
        value = substitute(e, {v: low for v, (low, _) in bounds.items()})
        return value, value
    return _cast_interval(e, ranges, assumptions) if e.dtype is i64 and e.name == "cast" else None


def _cast_interval(e: Expr, ranges: Mapping[Var, Interval], assumptions: Assumptions) -> Interval | None:
    """The interval of an index cast to other integer types: the type's whole range, unless it provably contains the index."""
    if not isinstance(e, Op) or e.name != "cast":
        return interval(e, ranges, assumptions) if e.dtype is i64 else None
    if not e.args[0].dtype.is_integer:
        return None
    bounds = _cast_interval(e.args[0], ranges, assumptions)
    if bounds is None or e.dtype.bits == 64:  # to u64 and back changes nothing
        return bounds
    info = np.iinfo(e.dtype.numpy)
    if assumptions.less_equal(int(info.min), bounds[0]) and assumptions.less_equal(bounds[1], int(info.max)):
        return bounds
    return const(i64, int(info.min)), const(i64, int(info.max))


def _boundary_interval(e: Op, ranges: Mapping[Var, Interval], assumptions: Assumptions) -> Interval | None:
    extent = e.args[1]
    last = sub(extent, 1)
    part = interval(e.args[0], ranges, assumptions)
    whole = (const(i64, 0), last)
    if part is None:
        return whole
    if e.name == "clamp_index":
        return clamp(part[0], 0, last), clamp(part[1], 0, last)
    if assumptions.nonnegative(part[0]) and assumptions.nonnegative(sub(last, part[1])):
        return part
    if e.name == "wrap_index":
        return whole
    turned = (
        0 if e.name == "mirror_index" else 1
    )  # indices behind a border are those before it, without the border's own or with it
    low = minimum(part[0], sub(add(mul(last, 2), turned), part[1]))
    high = maximum(part[1], sub(mul(part[0], -1), turned))
    return clamp(low, 0, last), clamp(high, 0, last)


class Assumptions:
    """Assumptions: sizes and the expressions `known` are non-negative; `ranges` bounds variables (inclusive). Proofs are cached."""

    __slots__ = (
        "_decided",
        "_failed",
        "_fewer",
        "_goals",
        "_least",
        "_mentioned",
        "_models",
        "_new",
        "_parts",
        "_proved",
        "known",
        "ranges",
    )

    def __init__(self, known: Iterable[Expr] = (), ranges: Mapping[Var, Interval] | None = None) -> None:
        self.known = tuple(canonical(e) for e in known)
        self._parts = _parts_of(self.known)
        self._least = _least_constants({}, map(linear, self.known))
        self.ranges = dict(ranges or {})
        self._proved: dict[Terms, int] = {}
        self._failed: dict[Terms, int] = {}
        self._decided: dict[Expr, Expr] = {}
        self._goals: dict[tuple[int, frozenset[tuple[Expr, int]]], tuple[int, int, bool]] = {}
        self._fewer: Assumptions | None = (
            None  # these less those that were added last; `_new`: the variable that they are about, if only one
        )
        self._new: Var | None = None
        self._models: tuple[Model, ...] | None = None
        bounds = (bound for each in self.ranges.values() for bound in each)
        self._mentioned: frozenset[Var] = frozenset().union(*map(free_variables, (*self.known, *bounds)))

    def with_known(self, *known: Expr) -> Assumptions:
        """These assumptions, and that further expressions are non-negative."""
        more = self._copy()
        new = tuple(map(canonical, known))
        new += tuple(chosen for e in new if (chosen := self._chosen_operand(e)) is not None)
        more.known, more._parts = self.known + new, self._parts + _parts_of(new)
        more._least = _least_constants(self._least, map(linear, new))
        more._mentioned = more._mentioned.union(*map(free_variables, known))
        return more

    def _chosen_operand(self, e: Expr) -> Expr | None:
        """The condition b + rest >= 0 that follows from `max(a, b) + rest >= 0` if a + rest is provably negative; else None."""
        _, terms = linear(e)
        for atom, factor in terms.items():
            if factor == 1 and isinstance(atom, Op) and atom.name == "maximum":
                rest = sub(e, atom)
                for one, other in (atom.args, atom.args[::-1]):
                    if self.nonnegative(sub(-1, add(one, rest))):
                        return canonical(add(other, rest))
        return None

    def with_range(self, var: Var, low: IntLike, high: IntLike) -> Assumptions:
        """These assumptions, and low <= var <= high."""
        low, high = as_index(low), as_index(high)
        more = self._copy()
        if var in self.ranges:
            more._fewer = None  # another range takes the place of what was known
        elif var not in self._mentioned:
            more._new = var
        more.ranges[var] = (low, high)
        more._mentioned = more._mentioned.union(free_variables(low), free_variables(high))
        return more

    def _copy(self) -> Assumptions:
        """A copy to which assumptions can be added."""
        copy = object.__new__(Assumptions)
        copy.known, copy.ranges, copy._mentioned = self.known, dict(self.ranges), self._mentioned
        copy._parts, copy._least = self._parts, self._least
        copy._proved, copy._failed, copy._decided, copy._goals, copy._fewer, copy._new = {}, {}, {}, {}, self, None
        copy._models = None
        return copy

    def nonnegative(self, e: IntLike) -> bool:
        """Whether e >= 0 is provable."""
        return self._holds(*linear(canonical(as_index(e))))

    def _holds(self, constant: int, terms: dict[Expr, int]) -> bool:
        """Whether a linear sum, with atoms in canonical form, is provably non-negative."""
        if not terms:
            return constant >= 0
        key = frozenset(terms.items())
        least = self._least.get(key)
        if least is not None and constant >= least:
            return True
        assumptions: Assumptions = self
        while assumptions._fewer is not None and assumptions._new is not None and not _mention(terms, assumptions._new):
            assumptions = (
                assumptions._fewer
            )  # the range of a variable that nothing else mentions helps in no other proof
        return assumptions._is_nonnegative(constant, terms, key)

    def _is_nonnegative(self, constant: int, terms: dict[Expr, int], key: Terms) -> bool:
        """As `_holds`, with results cached per set of terms: a proof for one constant holds for larger ones."""
        proved, failed = self._proved.get(key), self._failed.get(key)
        if proved is not None and constant >= proved:
            return True
        if failed is not None and constant <= failed:
            return False
        self._failed[key] = constant  # a proof that comes back to what it is to prove is none
        if self._is_false_somewhere(constant, terms):
            return False
        if not (self._is_known(constant, key) or self._prove(constant, terms, 8, 3, [_MOST_GOALS])):
            return False
        self._proved[key] = constant
        if failed is None:
            del self._failed[key]
        else:
            self._failed[key] = failed
        return True

    def _is_false_somewhere(self, constant: int, terms: dict[Expr, int]) -> bool:
        """Whether constant + Σ c·atom is negative in a model of the assumptions, so that no proof exists."""
        sums = (model.sum(constant, terms) for model in self.models())
        return any(total is not None and total < 0 for total in sums)

    def models(self) -> tuple[Model, ...]:
        """Models: assignments of numbers under which the assumptions hold."""
        if self._models is None:
            fewer = self._fewer
            models = first_models() if fewer is None else fewer.models()
            ranges = {var: ends for var, ends in self.ranges.items() if fewer is None or var not in fewer.ranges}
            for var, (low, high) in ranges.items():
                moved = (model.with_range(var, low, high) for model in models)
                models = tuple(model for model in moved if model is not None)
            new = self._parts if fewer is None else self._parts[len(fewer._parts) :]
            self._models = tuple(model for model in models if model.holds(new))
        return self._models

    def _is_known(self, constant: int, key: Terms) -> bool:
        """Whether fewer assumptions are known to prove it."""
        assumptions = self._fewer
        while assumptions is not None:
            proved = assumptions._proved.get(key)
            if proved is not None and constant >= proved:
                return True
            assumptions = assumptions._fewer
        return False

    def less_equal(self, a: IntLike, b: IntLike) -> bool:
        """Whether a <= b is provable."""
        return self._is_at_most(a, b, 0)

    def less(self, a: IntLike, b: IntLike) -> bool:
        """Whether a < b is provable."""
        return self._is_at_most(a, b, -1)

    def _is_at_most(self, a: IntLike, b: IntLike, further: int) -> bool:
        """Whether a <= b + further is provable."""
        constant, terms = combine(linear(b), linear(a), -1)
        for atom in terms:
            if canonical(atom) is not atom:
                return self.nonnegative(add(sub(b, a), further))
        return self._holds(constant + further, terms)

    def equal(self, a: IntLike, b: IntLike) -> bool:
        """Whether a = b is provable."""
        gap = sub(a, b)
        return constant_value(gap) == 0 or (self.nonnegative(gap) and self.nonnegative(mul(gap, -1)))

    def lesser(self, a: Expr, b: Expr) -> Expr:
        """The minimum of two indices: one of them where it is known which."""
        return b if self.less_equal(b, a) else a if self.less_equal(a, b) else minimum(a, b)

    def greater(self, a: Expr, b: Expr) -> Expr:
        """The maximum of two indices: one of them where it is known which."""
        return b if self.less_equal(a, b) else a if self.less_equal(b, a) else maximum(a, b)

    def simplify(self, e: Expr) -> Expr:
        """`e` with every min, max and boundary operation that these assumptions decide replaced by its value."""
        return canonical(rewrite_index(canonical(e), self._decide, {}))

    def decided(self, e: Expr) -> Expr:
        """`simplify` of an expression that contains a minimum or maximum; others are returned as they are."""
        if not has_extremes(e):
            return e
        known = self._decided.get(e)
        if known is None:
            known = self._decided[e] = self.simplify(e)
        return known

    def _decide(self, e: Expr) -> Expr:
        if not isinstance(e, Op):
            return e
        if e.name in ("minimum", "maximum") and counts(e.args):
            a, b = e.args
            if self.less_equal(a, b):
                return a if e.name == "minimum" else b
            if self.less_equal(b, a):
                return b if e.name == "minimum" else a
        if e.name in BOUNDARY_OPS and self.nonnegative(e.args[0]) and self.less(e.args[0], e.args[1]):
            return e.args[0]
        return e

    def _prove(self, constant: int, terms: dict[Expr, int], depth: int, assumptions: int, left: list[int]) -> bool:
        """Whether constant + Σ c·atom >= 0 is provable: atoms are replaced by bounds, and at most `assumptions` assumptions are subtracted.

        left: the number of further goals that the proof may go through, counted down.
        """
        if constant >= 0 and all(c > 0 and isinstance(atom, (SizeVar, Count)) for atom, c in terms.items()):
            return True
        if depth == 0 or not terms or not left[0]:
            return False
        left[0] -= 1
        constant, terms = _in_lowest_terms(constant, terms)
        key = (constant, frozenset(terms.items()))
        tried = self._goals.get(key)
        if tried is not None and (tried[2] or (tried[0] >= depth and tried[1] >= assumptions)):
            return tried[2]
        answer = self._search(constant, terms, depth - 1, assumptions, left)
        if answer or left[0]:
            self._goals[key] = (depth, assumptions, answer)
        return answer

    def _search(self, constant: int, terms: dict[Expr, int], depth: int, assumptions: int, left: list[int]) -> bool:
        atoms = list(terms) if len(terms) == 1 else sorted(terms, key=_elimination_order)
        for atom in atoms:
            c = terms[atom]
            cases = self._replacements(atom, c)
            if cases is None:
                continue
            every, options = cases
            rest = {a: k for a, k in terms.items() if a is not atom}
            goals = (
                self._prove(*combine(_scaled(constant, rest, scale), linear(value), c), depth, assumptions, left)
                for value, scale in options
            )
            if options and (all(goals) if every else any(goals)):
                return True
        return any(
            self._prove(*combine((constant, terms), part, -1), depth, assumptions - 1, left)
            for part in (self._parts if assumptions else ())
            if _helps(part[1], terms)
        )

    def _replacements(self, atom: Expr, c: int) -> tuple[bool, list[tuple[Expr, int]]] | None:
        """Replacements of scale·atom in a lower bound: (whether all must hold, or one suffices), [(value, scale)]. None for an atom without
        bounds."""
        if isinstance(atom, Var):
            bounds = self.ranges.get(atom)
            return None if bounds is None else (False, [(bounds[0] if c > 0 else bounds[1], 1)])
        if isinstance(atom, Count):
            bound = const(i64, 0) if c > 0 else atom.bound
            return None if bound is None else (False, [(bound, 1)])
        if not isinstance(atom, Op):
            return None
        options: list[tuple[Expr, int]]
        if atom.name in ("minimum", "maximum"):
            return (atom.name == "minimum") == (c > 0), [(a, 1) for a in atom.args]
        k = constant_value(atom.args[1]) if len(atom.args) == 2 else None
        if atom.name == "floordiv" and k and k > 0:
            exact = (
                c > 0 or c == -1
            )  # what is left of a division is a whole number: r - a // k >= 0 if k r + k - 1 - a >= 0
            options = [(sub(atom.args[0], k - 1) if exact else atom.args[0], k)]
            if c > 0 and self.nonnegative(atom.args[0]):
                options.append((const(i64, 0), 1))
            return False, options
        if atom.name == "mod" and k and k > 0:
            return False, [(const(i64, 0 if c > 0 else k - 1), 1)]
        if atom.name in BOUNDARY_OPS:
            options = [(const(i64, 0) if c > 0 else sub(atom.args[1], 1), 1)]
            return False, options
        if atom.name == "mul" and c > 0 and all(self.nonnegative(a) for a in atom.args):
            return False, [(const(i64, 0), 1)]
        return None


def greatest(e: Expr, assumptions: Assumptions | None = None) -> int | None:
    """A constant upper bound of a sum of extremes and quotients of such; None where none is found."""
    return _greatest(e, assumptions or Assumptions(), {})


def _greatest(e: Expr, assumptions: Assumptions, memo: dict[Expr, int | None]) -> int | None:
    """As `greatest`, with a memo: for the greater of two both bounds are needed, for the lesser either suffices."""
    if e in memo or len(memo) > _MOST_PARTS:
        return memo.get(e)
    memo[e] = None
    constant, terms = linear(e)
    extremes = [a for a in terms if isinstance(a, Op) and a.name in ("minimum", "maximum")]
    atom = min(extremes, key=lambda a: (a.name == "minimum") == (terms[a] > 0), default=None)
    if atom is None:
        least = all(c < 0 and assumptions.nonnegative(a) for a, c in terms.items())
        memo[e] = constant if least else _greatest_of_quotient(e, terms, assumptions, memo)
        return memo[e]
    rest = sub(e, mul(atom, terms[atom]))
    each = [_greatest(add(rest, mul(arg, terms[atom])), assumptions, memo) for arg in atom.args]
    found = [most for most in each if most is not None]
    either = (atom.name == "minimum") == (terms[atom] > 0)
    memo[e] = None if not found or (len(found) < len(each) and not either) else (min if either else max)(found)
    return memo[e]


def _greatest_of_quotient(
    e: Expr, terms: Mapping[Expr, int], assumptions: Assumptions, memo: dict[Expr, int | None]
) -> int | None:
    """The bound of a multiple of a quotient and a sum of multiples of the same factor: c (x // k) + c r is c ((x + k r) // k)."""
    for atom, c in terms.items():
        k = constant_value(atom.args[1]) if isinstance(atom, Op) and atom.name == "floordiv" else None
        rest = sub(e, mul(atom, c))
        constant, others = linear(rest)
        if isinstance(atom, Op) and k and k > 0 and c > 0 and all(other % c == 0 for other in others.values()):
            moved = floordiv(sub(rest, constant % c), c)
            inner = _greatest(add(atom.args[0], mul(moved, k)), assumptions, memo)
            return None if inner is None else c * (inner // k) + constant % c
    return None


def with_inner_ranges(assumptions: Assumptions, order: Iterable[Node]) -> Assumptions:
    """The assumptions with the ranges of variables that the expressions themselves bind."""
    for node in order:
        if isinstance(node, Loop):
            assumptions = assumptions.with_range(node.index, 0, sub(node.count, 1))
        elif isinstance(node, (Reduce, Fill)):
            for axis in node.axes:
                assumptions = assumptions.with_range(axis.var, 0, sub(axis.extent, 1))
    return assumptions


def _parts_of(known: Iterable[Expr]) -> tuple[tuple[int, dict[Expr, int]], ...]:
    """Linear forms of non-negative sums, each as given and in lowest terms."""
    parts = [(part, _in_lowest_terms(*part)) for part in map(linear, known)]
    return tuple(each for part, lowest in parts for each in ((part,) if lowest == part else (part, lowest)))


def _least_constants(known: Mapping[Terms, int], parts: Iterable[tuple[int, dict[Expr, int]]]) -> dict[Terms, int]:
    """For the terms of each assumption, the least constant with which the sum is known to be non-negative."""
    least = dict(known)
    for constant, terms in parts:
        key = frozenset(terms.items())
        least[key] = min(constant, least.get(key, constant))
    return least


def _in_lowest_terms(constant: int, terms: dict[Expr, int]) -> tuple[int, dict[Expr, int]]:
    """An equivalent condition "sum >= 0" with the coefficients divided by their gcd; the constant is rounded down."""
    divisor = gcd(*terms.values())
    return (
        (constant, terms) if divisor < 2 else (constant // divisor, {atom: c // divisor for atom, c in terms.items()})
    )


def _mention(terms: Iterable[Expr], variable: Var) -> bool:
    return any(variable in free_variables(atom) for atom in terms)


def _scaled(constant: int, terms: dict[Expr, int], k: int) -> tuple[int, dict[Expr, int]]:
    return (constant, terms) if k == 1 else (constant * k, {atom: c * k for atom, c in terms.items()})


def _elimination_order(atom: Expr) -> tuple[int, int, str]:
    rank = 1 if isinstance(atom, Var) else 0
    return rank, -getattr(atom, "serial", 0), text(atom)


def _helps(known: dict[Expr, int], terms: dict[Expr, int]) -> bool:
    """Whether subtracting an assumption cancels part of a term."""
    for atom, c in known.items():
        other = terms.get(atom)
        if other is not None and other * c > 0:
            return True
    return False
