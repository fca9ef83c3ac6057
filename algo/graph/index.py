"""Sizes and indices: i64 expressions in one canonical form, and what can be proved about them.

`add, sub, mul, floordiv, mod, minimum, maximum` build canonical expressions: sums of constant multiples of atoms, in a fixed order,
so that equal sums are the same node. Atoms are variables and everything that is not linear. Arithmetic here is mathematical (sizes
and indices do not overflow). `interval` bounds an expression when some variables range; `Facts` settles `<=`, `=` and divisibility.
Both answer "unknown" rather than guess.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any, TypeAlias

from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Const, Count, Expr, Node, Op, SizeVar, Var, const

IntLike: TypeAlias = Expr | int
BOUNDARY_OPS = ("clamp_index", "wrap_index", "mirror_index", "symmetric_index")

_texts: weakref.WeakKeyDictionary[Node, str] = weakref.WeakKeyDictionary()


def as_index(value: IntLike) -> Expr:
    """A Python int as an i64 constant; expressions unchanged."""
    return const(i64, value) if isinstance(value, int) else value


def constant_value(e: IntLike) -> int | None:
    """The int that an expression is, when it is a literal."""
    if isinstance(e, int):
        return e
    return int(e.value) if isinstance(e, Const) and not e.dtype.is_float else None


def linear(e: IntLike) -> tuple[int, dict[Expr, int]]:
    """`e` as a constant and the coefficients of its atoms. The mapping is shared: do not change it."""
    if isinstance(e, int):
        return e, {}
    if isinstance(e, Const):
        return int(e.value), {}
    if not isinstance(e, Op) or e.dtype is not i64:
        return 0, {e: 1}
    try:
        return e._linear
    except AttributeError:
        answer = _linear_operation(e)
        if e not in answer[1]:
            object.__setattr__(e, "_linear", answer)
        return answer


def _linear_operation(e: Op) -> tuple[int, dict[Expr, int]]:
    if e.name in ("add", "sub"):
        return _combine(linear(e.args[0]), linear(e.args[1]), 1 if e.name == "add" else -1)
    if e.name == "neg":
        return _combine((0, {}), linear(e.args[0]), -1)
    if e.name == "mul":
        for factor, other in (e.args, e.args[::-1]):
            value = constant_value(factor)
            if value is not None:
                return _combine((0, {}), linear(other), value)
    return 0, {e: 1}


def _combine(a: tuple[int, dict[Expr, int]], b: tuple[int, dict[Expr, int]], scale: int) -> tuple[int, dict[Expr, int]]:
    terms = dict(a[1])
    for atom, coefficient in b[1].items():
        total = terms.get(atom, 0) + scale * coefficient
        if total:
            terms[atom] = total
        else:
            terms.pop(atom, None)
    return a[0] + scale * b[0], terms


def _build(constant: int, terms: Mapping[Expr, int]) -> Expr:
    total: Expr | None = None
    for atom in sorted(terms, key=lambda a: (text(a), getattr(a, "serial", 0))):
        coefficient = terms[atom]
        term = atom if coefficient == 1 else Op("mul", i64, (atom, const(i64, coefficient)))
        total = term if total is None else Op("add", i64, (total, term))
    if total is None:
        return const(i64, constant)
    return total if constant == 0 else Op("add", i64, (total, const(i64, constant)))


def add(a: IntLike, b: IntLike) -> Expr:
    """a + b."""
    return _build(*_combine(linear(a), linear(b), 1))


def sub(a: IntLike, b: IntLike) -> Expr:
    """a − b."""
    return _build(*_combine(linear(a), linear(b), -1))


def mul(a: IntLike, b: IntLike) -> Expr:
    """a · b."""
    for factor, other in ((a, b), (b, a)):
        value = constant_value(factor)
        if value is not None:
            return _build(*_combine((0, {}), linear(other), value))
    x, y = sorted((canonical(as_index(a)), canonical(as_index(b))), key=text)
    for p, q in ((x, y), (y, x)):
        constant, terms = linear(p)
        if len(terms) + (constant != 0) > 1:
            total = mul(constant, q)
            for atom, coefficient in terms.items():
                total = add(total, mul(coefficient, mul(atom, q)))
            return total
        if len(terms) == 1 and terms.get(p) is None:
            ((atom, coefficient),) = terms.items()
            return mul(coefficient, mul(atom, q))
    return Op("mul", i64, (x, y))


def floordiv(a: IntLike, b: IntLike) -> Expr:
    """⌊a / b⌋."""
    a, b = canonical(as_index(a)), canonical(as_index(b))
    k, value = constant_value(b), constant_value(a)
    if k == 1:
        return a
    if k and value is not None:
        return const(i64, value // k)
    if k and k > 0:
        constant, terms = linear(a)
        outer = {atom: c // k for atom, c in terms.items() if c % k == 0}
        inner = {atom: c for atom, c in terms.items() if c % k}
        whole, rest = divmod(constant, k)
        if outer or whole:
            if not inner:
                return _build(whole, outer)
            return add(_build(whole, outer), floordiv(_build(rest, inner), k))
        if isinstance(a, Op) and a.name == "floordiv":
            inner_k = constant_value(a.args[1])
            if inner_k and inner_k > 0:
                return floordiv(a.args[0], inner_k * k)
    return Op("floordiv", i64, (a, b))


def ceildiv(a: IntLike, b: int) -> Expr:
    """⌈a / b⌉ for a positive constant b."""
    return floordiv(add(a, b - 1), b)


def mod(a: IntLike, b: IntLike) -> Expr:
    """a − b·⌊a / b⌋."""
    a, b = canonical(as_index(a)), canonical(as_index(b))
    k, value = constant_value(b), constant_value(a)
    if k == 1:
        return const(i64, 0)
    if k and value is not None:
        return const(i64, value % k)
    if k and k > 0:
        constant, terms = linear(a)
        reduced = {atom: c % k for atom, c in terms.items() if c % k}
        if reduced != terms or constant % k != constant:
            return mod(_build(constant % k, reduced), k)
    return Op("mod", i64, (a, b))


def minimum(a: IntLike, b: IntLike) -> Expr:
    """The smaller of two."""
    return _extreme("minimum", a, b)


def maximum(a: IntLike, b: IntLike) -> Expr:
    """The larger of two."""
    return _extreme("maximum", a, b)


def _extreme(name: str, a: IntLike, b: IntLike) -> Expr:
    sign = 1 if name == "minimum" else -1
    members: list[Expr] = []
    for side in (canonical(as_index(a)), canonical(as_index(b))):
        stack = [side]
        while stack:
            e = stack.pop()
            if isinstance(e, Op) and e.name == name:
                stack += [e.args[1], e.args[0]]
                continue
            for i, member in enumerate(members):
                gap = constant_value(sub(e, member))
                if gap is None:
                    gap = _gap_of_sizes(sub(e, member))
                if gap is not None:
                    members[i] = member if gap * sign >= 0 else e
                    break
            else:
                members.append(e)
    members.sort(key=text)
    total = members[0]
    for member in members[1:]:
        total = Op(name, i64, (total, member))
    return total


def _gap_of_sizes(e: Expr) -> int | None:
    """A sign (as a number) of an expression over sizes alone: they are never negative. None when unknown."""
    constant, terms = linear(e)
    if all(isinstance(atom, (SizeVar, Count)) for atom in terms):
        if constant >= 0 and all(c > 0 for c in terms.values()):
            return 1
        if constant <= 0 and all(c < 0 for c in terms.values()):
            return -1
    return None


def clamp(e: IntLike, low: IntLike, high: IntLike) -> Expr:
    """`e` brought into low … high (inclusive); `high` wins where they cross."""
    return minimum(maximum(e, low), high)


_BUILDERS = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "floordiv": floordiv,
    "mod": mod,
    "minimum": minimum,
    "maximum": maximum,
}
_ARITHMETIC = frozenset((*_BUILDERS, "neg", *BOUNDARY_OPS))
_canonical: weakref.WeakKeyDictionary[Node, Expr] = weakref.WeakKeyDictionary()


def canonical(e: Expr) -> Expr:
    """The canonical form of an i64 index or size expression."""
    known = _rewrite_index(e, _canonical_node, _canonical)
    if known is not e:
        _canonical[known] = known
    return known


def _rewrite_index(e: Expr, change: Callable[[Expr], Expr], memo: MutableMapping[Any, Expr]) -> Expr:
    """Bottom-up over the arithmetic of an index. Arrays that are read for it are left alone."""
    if not isinstance(e, Op) or e.dtype is not i64 or e.name not in _ARITHMETIC:
        return e
    known = memo.get(e)
    if known is None:
        args = tuple(_rewrite_index(a, change, memo) for a in e.args)
        same = all(a is b for a, b in zip(args, e.args, strict=True))
        known = change(e if same else Op(e.name, e.dtype, args))
        memo[e] = known
    return known


def _canonical_node(e: Expr) -> Expr:
    if isinstance(e, Op) and e.dtype is i64:
        known = _canonical.get(e)
        if known is not None:
            return known
        _canonical.update({a: a for a in e.args if not isinstance(a, Const)})
        if e.name in _BUILDERS:
            return _BUILDERS[e.name](*e.args)
        if e.name == "neg":
            return mul(e.args[0], -1)
    return e


_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}


def text(e: Expr) -> str:
    """A size or index expression as a person writes it; also the order of canonical sums."""
    known = _texts.get(e)
    if known is None:
        known = _write(e)[0]
        _texts[e] = known
    return known


def _write(e: Expr) -> tuple[str, int]:
    """The text and how tightly it binds: 0 sum, 1 product, 2 atom."""
    if isinstance(e, (Var, SizeVar)):
        return e.name, 2
    if isinstance(e, Count):
        return "some size" if e.bound is None else f"some size up to {text(e.bound)}", 1
    if isinstance(e, Const):
        return str(e.value), 2 if e.dtype.is_float or e.value >= 0 else 1
    if isinstance(e, Op):
        if e.name == "add":
            left, right = e.args
            value = constant_value(right)
            if value is not None and value < 0:
                return f"{_write(left)[0]} - {-value}", 0
            if isinstance(right, Op) and right.name == "mul" and (constant_value(right.args[1]) or 0) < 0:
                return f"{_write(left)[0]} - {_write(mul(right, -1))[0]}", 0
            return f"{_write(left)[0]} + {_write(right)[0]}", 0
        if e.name == "sub":
            return f"{_write(e.args[0])[0]} - {_tight(e.args[1], 1)}", 0
        if e.name == "mul" and constant_value(e.args[1]) is not None:
            return f"{constant_value(e.args[1])}*{_tight(e.args[0], 2)}", 1
        if e.name in _SYMBOLS:
            return f"{_tight(e.args[0], 1)}{_SYMBOLS[e.name]}{_tight(e.args[1], 2)}", 1
        short = {"minimum": "min", "maximum": "max", "clamp_index": "clamp", "wrap_index": "wrap"}.get(e.name, e.name)
        return f"{short}({', '.join(text(a) for a in e.args)})", 2
    return f"<{type(e).__name__.lower()}>", 2


def _tight(e: Expr, level: int) -> str:
    written, binds = _write(e)
    return written if binds >= level else f"({written})"


Interval: TypeAlias = tuple[Expr, Expr]


def interval(e: Expr, ranges: Mapping[Var, Interval], facts: Facts | None = None) -> Interval | None:
    """Inclusive bounds of `e` when each variable of `ranges` runs between its (inclusive) bounds; other atoms stand for themselves.

    None when no bound is known (a loaded value, say). The ranges are taken as not empty.
    """
    facts = facts or Facts()
    constant, terms = linear(e)
    if terms.get(e) is None:
        low: Expr = const(i64, constant)
        high: Expr = low
        for atom, c in terms.items():
            part = interval(atom, ranges, facts)
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
    if e.name == "cast" and e.args[0].dtype.is_integer:
        return None if not isinstance(e.args[0], Op | Var | Const) else interval(e.args[0], ranges, facts)
    if e.name in BOUNDARY_OPS:
        return _boundary_interval(e, ranges, facts)
    parts = [interval(a, ranges, facts) for a in e.args]
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
    if e.name == "mul" and a_low is a_high and facts.nonnegative(a_low):
        return mul(b_low, a_low), mul(b_high, a_low)
    if e.name == "mul" and b_low is b_high and facts.nonnegative(b_low):
        return mul(a_low, b_low), mul(a_high, b_low)
    if all(part[0] is part[1] for part in parts):  # type: ignore[index]
        same = Op(e.name, e.dtype, tuple(part[0] for part in parts))  # type: ignore[index]
        return same, same
    return None


def _boundary_interval(e: Op, ranges: Mapping[Var, Interval], facts: Facts) -> Interval | None:
    extent = e.args[1]
    last = sub(extent, 1)
    part = interval(e.args[0], ranges, facts)
    whole = (const(i64, 0), last)
    if part is None:
        return whole
    if e.name == "clamp_index":
        return clamp(part[0], 0, last), clamp(part[1], 0, last)
    if facts.nonnegative(part[0]) and facts.nonnegative(sub(last, part[1])):
        return part
    return whole


class Facts:
    """What is known to be at least 0: sizes always, and each of the given expressions; `ranges` bounds variables (inclusive)."""

    __slots__ = ("_goals", "_memo", "known", "ranges")

    def __init__(self, known: Iterable[Expr] = (), ranges: Mapping[Var, Interval] | None = None) -> None:
        self.known = tuple(canonical(e) for e in known)
        self.ranges = dict(ranges or {})
        self._memo: dict[Expr, bool] = {}
        self._goals: dict[tuple[int, frozenset[tuple[Expr, int]]], tuple[int, int, bool]] = {}

    def with_known(self, *known: Expr) -> Facts:
        """These facts and more."""
        return Facts((*self.known, *known), self.ranges)

    def with_range(self, var: Var, low: IntLike, high: IntLike) -> Facts:
        """These facts, and low <= var <= high."""
        return Facts(self.known, {**self.ranges, var: (as_index(low), as_index(high))})

    def nonnegative(self, e: IntLike) -> bool:
        """Whether e >= 0 is provable."""
        e = canonical(as_index(e))
        answer = self._memo.get(e)
        if answer is None:
            self._memo[e] = False
            answer = self._memo[e] = self._prove(*linear(e), 8, 3)
        return answer

    def less_equal(self, a: IntLike, b: IntLike) -> bool:
        """Whether a <= b is provable."""
        return self.nonnegative(sub(b, a))

    def less(self, a: IntLike, b: IntLike) -> bool:
        """Whether a < b is provable."""
        return self.nonnegative(sub(sub(b, a), 1))

    def equal(self, a: IntLike, b: IntLike) -> bool:
        """Whether a = b is provable."""
        gap = sub(a, b)
        return constant_value(gap) == 0 or (self.nonnegative(gap) and self.nonnegative(mul(gap, -1)))

    def divisible(self, a: IntLike, k: int) -> bool:
        """Whether the positive int k divides a, provably."""
        constant, terms = linear(canonical(as_index(a)))
        return constant % k == 0 and all(c % k == 0 for c in terms.values())

    def simplify(self, e: Expr) -> Expr:
        """`e` with every min, max and boundary that these facts decide replaced by what it is."""
        return canonical(_rewrite_index(canonical(e), self._decide, {}))

    def _decide(self, e: Expr) -> Expr:
        if not isinstance(e, Op):
            return e
        if e.name in ("minimum", "maximum"):
            a, b = e.args
            if self.less_equal(a, b):
                return a if e.name == "minimum" else b
            if self.less_equal(b, a):
                return b if e.name == "minimum" else a
        if e.name in BOUNDARY_OPS and self.nonnegative(e.args[0]) and self.less(e.args[0], e.args[1]):
            return e.args[0]
        return e

    def _prove(self, constant: int, terms: dict[Expr, int], depth: int, facts: int) -> bool:
        """Whether constant + Σ c·atom >= 0: atoms are replaced by bounds, and at most `facts` known facts are subtracted."""
        if constant >= 0 and all(c > 0 and isinstance(atom, (SizeVar, Count)) for atom, c in terms.items()):
            return True
        if depth == 0 or not terms:
            return False
        key = (constant, frozenset(terms.items()))
        tried = self._goals.get(key)
        if tried is not None and (tried[2] or (tried[0] >= depth and tried[1] >= facts)):
            return tried[2]
        answer = self._search(constant, terms, depth - 1, facts)
        self._goals[key] = (depth, facts, answer)
        return answer

    def _search(self, constant: int, terms: dict[Expr, int], depth: int, facts: int) -> bool:
        atoms = list(terms) if len(terms) == 1 else sorted(terms, key=_elimination_order)
        for atom in atoms:
            c = terms[atom]
            cases = self._replacements(atom, c)
            if cases is None:
                continue
            every, options = cases
            rest = {a: k for a, k in terms.items() if a is not atom}
            goals = (
                self._prove(*_combine(_scaled(constant, rest, scale), linear(value), c), depth, facts)
                for value, scale in options
            )
            if options and (all(goals) if every else any(goals)):
                return True
        parts = (linear(fact) for fact in self.known) if facts else ()
        return any(
            self._prove(*_combine((constant, terms), part, -1), depth, facts - 1)
            for part in parts
            if any(_same_sign(terms.get(atom, 0), c) for atom, c in part[1].items())
        )

    def _replacements(self, atom: Expr, c: int) -> tuple[bool, list[tuple[Expr, int]]] | None:
        """What may stand for scale·atom in a lower bound: (all must do, or one is enough), [(value, scale)]."""
        if isinstance(atom, Var):
            bounds = self.ranges.get(atom)
            return None if bounds is None else (False, [(bounds[0] if c > 0 else bounds[1], 1)])
        if isinstance(atom, Count):
            bound = const(i64, 0) if c > 0 else atom.bound
            return None if bound is None else (False, [(bound, 1)])
        if not isinstance(atom, Op):
            return None
        if atom.name in ("minimum", "maximum"):
            return (atom.name == "minimum") == (c > 0), [(a, 1) for a in atom.args]
        k = constant_value(atom.args[1]) if len(atom.args) == 2 else None
        if atom.name == "floordiv" and k and k > 0:
            return False, [(sub(atom.args[0], k - 1) if c > 0 else atom.args[0], k)]
        if atom.name == "mod" and k and k > 0:
            return False, [(const(i64, 0 if c > 0 else k - 1), 1)]
        if atom.name in BOUNDARY_OPS:
            options: list[tuple[Expr, int]] = [(const(i64, 0) if c > 0 else sub(atom.args[1], 1), 1)]
            return False, options
        if atom.name == "mul" and c > 0 and all(self.nonnegative(a) for a in atom.args):
            return False, [(const(i64, 0), 1)]
        return None


def _scaled(constant: int, terms: dict[Expr, int], k: int) -> tuple[int, dict[Expr, int]]:
    return (constant, terms) if k == 1 else (constant * k, {atom: c * k for atom, c in terms.items()})


def _elimination_order(atom: Expr) -> tuple[int, int, str]:
    rank = 1 if isinstance(atom, Var) else 0
    return rank, -getattr(atom, "serial", 0), text(atom)


def _same_sign(a: int, b: int) -> bool:
    return a * b > 0
