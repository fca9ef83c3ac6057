"""Sizes and indices: i64 expressions in canonical form.

`add, sub, mul, floordiv, mod, minimum, maximum` build canonical expressions: sums of constant multiples of atoms, in a fixed order, so that
equal sums are the same node. Atoms are variables and non-linear expressions. The arithmetic is exact (sizes and indices do not overflow).
Proofs about expressions are in `assumptions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from math import gcd
from operator import is_
from typing import Any, TypeAlias

from raido.algo.collector import kept_meanwhile
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Const, Count, Expr, Op, SizeVar, Var, const
from raido.algo.graph.node import NodeTable
from raido.algo.graph.rewrite import scalar_nodes

IntLike: TypeAlias = Expr | int
_LINEAR = frozenset(("add", "sub", "neg", "mul"))
BOUNDARY_OPS = ("clamp_index", "wrap_index", "mirror_index", "symmetric_index")
_COUNTERS = (Var, SizeVar, Count, Const)
_SMALL = tuple(const(i64, value) for value in range(65))
_sums = NodeTable()  # by their linear forms


def as_index(value: IntLike) -> Expr:
    """A Python int as an i64 constant; expressions unchanged."""
    if not isinstance(value, int):
        return value
    return _SMALL[value] if 0 <= value < len(_SMALL) else const(i64, value)


def constant_value(e: IntLike) -> int | None:
    """The int of a literal, else None."""
    if isinstance(e, int):
        return e
    return int(e.bits) if isinstance(e, Const) and not e.dtype.is_float else None


def linear(e: IntLike) -> tuple[int, dict[Expr, int]]:
    """The linear form of `e`: a constant and the coefficients of its atoms. The mapping is shared: do not change it."""
    if not isinstance(e, Op):
        if isinstance(e, Const):
            return int(e.bits), {}
        return (e, {}) if isinstance(e, int) else (0, {e: 1})
    if e.name not in _LINEAR or e.dtype is not i64:
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
        return combine(linear(e.args[0]), linear(e.args[1]), 1 if e.name == "add" else -1)
    if e.name == "neg":
        return combine((0, {}), linear(e.args[0]), -1)
    if e.name == "mul":
        for factor, other in (e.args, e.args[::-1]):
            value = constant_value(factor)
            if value is not None:
                return combine((0, {}), linear(other), value)
    return 0, {e: 1}


def combine(a: tuple[int, dict[Expr, int]], b: tuple[int, dict[Expr, int]], scale: int) -> tuple[int, dict[Expr, int]]:
    """The linear form `a + scale * b`, without cancelled atoms. The mapping may be an argument's: do not change it."""
    if not b[1]:
        return a[0] + scale * b[0], a[1]
    terms = dict(a[1])
    for atom, coefficient in b[1].items():
        total = terms.get(atom, 0) + scale * coefficient
        if total:
            terms[atom] = total
        else:
            terms.pop(atom, None)
    return a[0] + scale * b[0], terms


def _build(constant: int, terms: dict[Expr, int]) -> Expr:
    """The expression of a linear form, the same node while anything refers to it."""
    if not constant and len(terms) == 1:
        ((atom, coefficient),) = terms.items()
        if coefficient == 1:
            return atom
    elif not terms:
        return as_index(constant)
    key = (constant, frozenset(terms.items()))
    known = _sums.get(key)
    return _make_sum(constant, terms, key) if known is None else known


def _make_sum(constant: int, terms: Mapping[Expr, int], key: Any) -> Expr:
    """Builds the sum and caches its linear form; a number minus its remainder becomes a multiple of the divisor."""
    for atom, coefficient in terms.items():
        if coefficient < 0 and isinstance(atom, Op) and atom.name == "mod":
            whole = _without_remainder(constant, terms, atom)
            if whole is not None:
                _sums.keep(key, whole)
                return whole
    atoms = list(terms) if len(terms) < 2 else sorted(terms, key=_rank)
    parts = [atom if terms[atom] == 1 else Op("mul", i64, (atom, as_index(terms[atom]))) for atom in atoms]
    total, *rest = (*parts, as_index(constant)) if constant else parts
    for part in rest:
        total = Op("add", i64, (total, part))
    object.__setattr__(total, "_linear", (constant, {atom: terms[atom] for atom in atoms}))
    _sums.keep(key, total)
    return total


def _without_remainder(constant: int, terms: Mapping[Expr, int], remainder: Op) -> Expr | None:
    """The sum with `c·e − c·(e mod k)` replaced by `c·k·⌊e / k⌋`; None where it has no such part."""
    number, divisor = remainder.args
    times, k, below = -terms[remainder], constant_value(divisor), linear(number)[1]
    if not (k and k > 0 and counts((number,)) and all(terms.get(atom) == times * c for atom, c in below.items())):
        return None
    rest = combine((constant, dict(terms)), linear(number), -times)
    return add(_build(*combine(rest, (0, {remainder: 1}), times)), mul(times * k, floordiv(number, k)))


def _rank(atom: Expr) -> tuple[str, int]:
    """Sort key of an atom in a sum."""
    return text(atom), getattr(atom, "serial", 0)


@kept_meanwhile
def add(a: IntLike, b: IntLike) -> Expr:
    """a + b."""
    return _build(*combine(linear(a), linear(b), 1))


@kept_meanwhile
def sub(a: IntLike, b: IntLike) -> Expr:
    """a − b."""
    return _build(*combine(linear(a), linear(b), -1))


@kept_meanwhile
def difference(a: IntLike, b: IntLike) -> int | None:
    """The constant a − b, or None."""
    if a is b:
        return 0
    constant, terms = combine(linear(a), linear(b), -1)
    if terms and any(isinstance(atom, Op) and atom.name == "mod" for atom in terms):
        return constant_value(_build(constant, terms))  # what is left of a number without its remainder may be one
    return None if terms else constant


@kept_meanwhile
def mul(a: IntLike, b: IntLike) -> Expr:
    """a · b."""
    for factor, other in ((a, b), (b, a)):
        value = constant_value(factor)
        if value is not None:
            return _build(*combine((0, {}), linear(other), value))
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


@kept_meanwhile
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
        if not counts(terms):
            return Op("floordiv", i64, (a, b))
        outer = {atom: c // k for atom, c in terms.items() if c % k == 0}
        inner = {atom: c for atom, c in terms.items() if c % k}
        whole, rest = divmod(constant, k)
        if outer or whole:
            if not inner:
                return _build(whole, outer)
            return add(_build(whole, outer), floordiv(_build(rest, inner), k))
        if len(terms) == 1:
            spread = _spread_quotient(constant, terms, k)
            if spread is not None:
                return spread
        if (split := _without_low_part(constant, terms, k)) is not None:
            high, _, unit = split
            return floordiv(high, k // unit)
        if isinstance(a, Op) and a.name == "floordiv":
            inner_k = constant_value(a.args[1])
            if inner_k and inner_k > 0:
                return floordiv(a.args[0], inner_k * k)
    return Op("floordiv", i64, (a, b))


def _without_low_part(constant: int, terms: Mapping[Expr, int], k: int) -> tuple[Expr, Expr, int] | None:
    """`high`, `low` and `unit` of an index unit · high + low with 0 ≤ low < unit, where `low` is a remainder and `unit`, greater than 1,
    divides k; None for others.
    """
    lows = [atom for atom, c in terms.items() if c == 1 and isinstance(atom, Op) and atom.name == "mod"]
    if len(lows) != 1 or len(terms) < 2:
        return None
    high = {atom: c for atom, c in terms.items() if atom is not lows[0]}
    unit, below = gcd(k, *high.values()), constant_value(lows[0].args[1]) or 0
    if not 0 < below <= unit or constant % unit + below > unit:
        return None
    whole, rest = divmod(constant, unit)
    return _build(whole, {atom: c // unit for atom, c in high.items()}), add(lows[0], rest), unit


def _spread_quotient(constant: int, terms: Mapping[Expr, int], k: int) -> Expr | None:
    """⌊(min(a, b) + c) / k⌋ with the division distributed over the minimum, where that removes a division; likewise for maxima; else None."""
    ((atom, coefficient),) = terms.items()
    if coefficient != 1 or not isinstance(atom, Op) or atom.name not in ("minimum", "maximum"):
        return None
    parts = [floordiv(add(member, constant), k) for member in members_of(atom, atom.name)]
    if all(any(isinstance(each, Op) and each.name == "floordiv" for each in linear(part)[1]) for part in parts):
        return None
    total = parts[0]
    for part in parts[1:]:
        total = _extreme(atom.name, total, part)
    return total


def solved_for(test: Op, var: Var) -> tuple[str, Expr] | None:
    """A comparison of indices solved for a variable: the comparison's name and the other side; `1 + k < y`, solved for y, is ("gt", 1 + k).
    None where it cannot be solved."""
    if test.name not in _MIRRORED:
        return None
    constant, terms = linear(sub(*test.args))
    sign = terms.get(var)
    rest = {atom: -c for atom, c in terms.items() if atom is not var}
    if sign not in (1, -1) or any(var in scalar_nodes(atom) for atom in rest):
        return None
    return test.name if sign == 1 else _MIRRORED[test.name], mul(_build(-constant, rest), sign)


COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "ne": "eq"}
"""The negation of each comparison; "eq" is left out, because its negation bounds nothing."""
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}


def where_at_least(e: Expr, least: int) -> Expr:
    """A size simplified under the assumption that it is at least a constant: `max(0, n − 2)`, if at least 1, is `n − 2`."""
    constant, terms = linear(e)
    if len(terms) != 1 or next(iter(terms.values())) != 1:
        return e
    (atom,) = terms
    if not isinstance(atom, Op) or atom.name not in ("minimum", "maximum"):
        return e
    least -= constant
    numbers = [constant_value(part) for part in atom.args]
    if atom.name == "maximum":
        parts = [part for part, n in zip(atom.args, numbers, strict=True) if n is None or n >= least]
        return e if len(parts) != 1 else add(where_at_least(parts[0], least), constant)
    if any(n is not None and n < least for n in numbers):
        return e
    return add(minimum(*(where_at_least(part, least) for part in atom.args)), constant)


def is_multiple(e: IntLike, k: int) -> bool:
    """Whether all terms of an expression are multiples of the positive int `k`."""
    constant, terms = linear(canonical(as_index(e)))
    return constant % k == 0 and all(c % k == 0 for c in terms.values())


def counts(parts: Iterable[Expr]) -> bool:
    """Whether expressions consist of counters and sizes, whose sums and multiples do not wrap; numbers from data may wrap."""
    return all(map(_counts, parts))


def _counts(e: Expr) -> bool:
    if not isinstance(e, Op):
        return isinstance(e, _COUNTERS)
    try:
        return e._is_count
    except AttributeError:
        if e.name == "cast":
            found = not e.args[0].dtype.is_float and e.args[0].dtype.bits < 64
        else:
            found = (e.name in _ARITHMETIC or e.name == "select") and counts(
                e.args[1:] if e.name == "select" else e.args
            )
        object.__setattr__(e, "_is_count", found)
        return found


def ceildiv(a: IntLike, b: int) -> Expr:
    """⌈a / b⌉ for a positive constant b."""
    return floordiv(add(a, b - 1), b)


@kept_meanwhile
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
        if counts(terms) and (reduced != terms or constant % k != constant):
            return mod(_build(constant % k, reduced), k)
        if counts(terms) and (split := _without_low_part(constant, terms, k)) is not None:
            high, low, unit = split
            return add(mul(mod(high, k // unit), unit), low)
    return Op("mod", i64, (a, b))


@kept_meanwhile
def minimum(a: IntLike, b: IntLike) -> Expr:
    """The smaller of a and b."""
    return _extreme("minimum", a, b)


@kept_meanwhile
def maximum(a: IntLike, b: IntLike) -> Expr:
    """The larger of a and b."""
    return _extreme("maximum", a, b)


def members_of(e: Expr, name: str = "minimum") -> Iterator[Expr]:
    """Operands of nested minima (or maxima), in order; the expression itself if it is none."""
    stack = [e]
    while stack:
        e = stack.pop()
        if isinstance(e, Op) and e.name == name:
            stack += [e.args[1], e.args[0]]
        else:
            yield e


def has_extremes(e: Expr) -> bool:
    """Whether an index expression contains a minimum or a maximum."""
    if not isinstance(e, Op):
        return False
    try:
        return e._extremes
    except AttributeError:
        found = e.name in ("minimum", "maximum") or any(map(has_extremes, e.args))
        object.__setattr__(e, "_extremes", found)
        return found


def _extreme(name: str, a: IntLike, b: IntLike) -> Expr:
    sign = 1 if name == "minimum" else -1
    members: list[Expr] = []
    for side in (canonical(as_index(a)), canonical(as_index(b))):
        for e in members_of(side, name):
            for i, member in enumerate(members):
                gap = 0 if e is member else _gap(sub(e, member)) if counts((e, member)) else None
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


def _gap(e: Expr) -> int | None:
    """A number with the sign of an expression: its value if constant, ±1 for an expression over sizes, which are non-negative; None if
    unknown."""
    constant, terms = linear(e)
    if not terms:
        return constant
    if all(map(_is_length, terms)):
        if constant >= 0 and all(c > 0 for c in terms.values()):
            return 1
        if constant <= 0 and all(c < 0 for c in terms.values()):
            return -1
    return None


def _is_length(atom: Expr) -> bool:
    """Whether an atom is known to be non-negative: a size, or the quotient of a sum of sizes by a positive constant."""
    if isinstance(atom, Op) and atom.name == "floordiv":
        divisor, whole = constant_value(atom.args[1]), _gap(atom.args[0])
        return bool(divisor and divisor > 0 and whole is not None and whole >= 0)
    return isinstance(atom, (SizeVar, Count))


def flattened(indices: Sequence[Expr], shape: Sequence[Expr]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """Indices and shape with dimensions merged that are indexed by quotient and remainder of one index: the merged dimension is read at
    that."""
    sizes: list[Expr] = []
    coordinates: list[Expr] = []
    for i, n in zip(indices, shape, strict=True):
        merged = _regrouped(coordinates[-1], i, n) if coordinates else None
        if merged is None:
            coordinates, sizes = [*coordinates, i], [*sizes, n]
        else:
            coordinates[-1], sizes[-1] = merged, mul(sizes[-1], n)
    return tuple(coordinates), tuple(sizes)


def _regrouped(i: Expr, j: Expr, n: Expr) -> Expr | None:
    """The index e, if `i` is e // n and `j` is e mod n, else None."""
    if not (isinstance(i, Op) and isinstance(j, Op) and i.name == "floordiv" and j.name in ("mod", "floormod")):
        return None
    (e, quotient), (f, divisor) = i.args, j.args
    return e if e is f and quotient is divisor and divisor in (n, maximum(n, 1)) else None


def clamp(e: IntLike, low: IntLike, high: IntLike) -> Expr:
    """`e` clamped to low … high (inclusive); `high` wins where they cross."""
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


def canonical(e: Expr) -> Expr:
    """The canonical form of an i64 index or size expression."""
    if not isinstance(e, Op) or e.dtype is not i64 or e.name not in _ARITHMETIC:
        return e
    try:
        known: Any = e._canonical
    except AttributeError:
        known = _make_canonical(e)
        object.__setattr__(e, "_canonical", None if known is e else known)
        object.__setattr__(known, "_canonical", None)
    return e if known is None else known


def rewrite_index(e: Expr, change: Callable[[Expr], Expr], memo: MutableMapping[Any, Expr]) -> Expr:
    """Rewrites the arithmetic of an index bottom-up. Array reads inside it are left alone."""
    if not isinstance(e, Op) or e.dtype is not i64 or e.name not in _ARITHMETIC:
        return e
    known = memo.get(e)
    if known is None:
        args = tuple(rewrite_index(a, change, memo) for a in e.args)
        same = all(a is b for a, b in zip(args, e.args, strict=True))
        known = change(e if same else Op(e.name, e.dtype, args))
        memo[e] = known
    return known


def _make_canonical(e: Op) -> Expr:
    """Computes a canonical form that is not cached yet."""
    args = tuple(map(canonical, e.args))
    if e.name in _BUILDERS:
        return _BUILDERS[e.name](*args)
    if e.name == "neg":
        return mul(args[0], -1)
    return e if all(map(is_, args, e.args)) else Op(e.name, e.dtype, args)


_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}


def extents_brought_into(indices: Iterable[Expr]) -> list[Expr]:
    """Extents of the boundary operations in indices; if one is 0, there is nothing to read."""
    found: dict[Expr, None] = {}
    stack = [i for i in indices if isinstance(i, Op)]
    while stack:
        e = stack.pop()
        if e.name in BOUNDARY_OPS:
            found[e.args[1]] = None
        if e.name in _ARITHMETIC:
            stack += [a for a in e.args if isinstance(a, Op)]
    return list(found)


def text(e: Expr) -> str:
    """A size or index expression in source form; also the sort key of canonical sums."""
    try:
        return e._text
    except AttributeError:
        object.__setattr__(e, "_text", _write(e)[0])
        return e._text


def _write(e: Expr) -> tuple[str, int]:
    """The text and its precedence: 0 sum, 1 product, 2 atom."""
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
                return f"{_write(left)[0]} - {_tight(mul(right, -1), 1)}", 0
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
