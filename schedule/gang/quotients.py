"""Row-major addresses through quotients and remainders: the linear form of regrouped axes in memory.

An array of shape [m, c] that is read as one axis `f` has the indices `f // c` and `f % c`, neither of which has a constant stride from lane
to lane; its address `(f // c)·c + f % c` is `f`. With every remainder written as `f − c·(f // c)`, and quotients of quotients and of
remainders as those of `f`, quotients that only regroup axes cancel: for floored division of any integers by positive constants.
"""

from __future__ import annotations

from collections.abc import Sequence

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr, Op, Var
from raido.algo.graph.rewrite import rebuild
from raido.schedule.nest.values import NestExpr

Linear = tuple[int, dict[Expr, int]]


class Meanings:
    """The definitions of names that occur in addresses, and the linear form of each."""

    def __init__(self) -> None:
        self._values: dict[Expr, NestExpr] = {}
        self._linear: dict[Expr, Linear] = {}

    def add(self, name: Expr, value: NestExpr) -> None:
        """Records the definition of a name."""
        self._values[name] = value
        self._linear[name] = self._sum(value)

    def address(self, indices: Sequence[NestExpr], strides: Sequence[int]) -> Linear:
        """Σ strides[k]·indices[k] in elements: a constant, and atoms with their coefficients."""
        total: Linear = 0, {}
        for index, stride in zip(indices, strides, strict=True):
            total = ix.combine(total, self._sum(index), stride)
        return total

    def divided(self, e: NestExpr, count: int) -> Expr | None:
        """f of an index f // count, or f + d·count of an index f // count + d; None for other indices."""
        constant, terms = self._sum(e)
        (atom, times), *others = terms.items() or ((None, 0),)
        if others or times != 1 or not isinstance(atom, Op) or atom.name != "floordiv" or _divisor(atom) != count:
            return None
        return ix.add(atom.args[0], constant * count)

    def replace(self, e: NestExpr, known: dict[NestExpr, NestExpr]) -> NestExpr:
        """The expression with some subexpressions replaced, also in the definitions of its names; `known` holds the
        replacements, and caches results."""
        if e not in known:
            value = self._values.get(e) if isinstance(e, Var) else None  # type: ignore[arg-type]
            if value is None and not isinstance(e, Op):
                return e
            if value is None:
                known[e] = ix.canonical(rebuild(e, lambda part: self.replace(part, known)))  # type: ignore[arg-type]
            else:
                known[e] = self.replace(value, known)
        return known[e]

    def _sum(self, e: NestExpr) -> Linear:
        constant, terms = ix.linear(e)  # type: ignore[arg-type]
        total: Linear = constant, {}
        for atom, coefficient in terms.items():
            total = ix.combine(total, self._atom(atom), coefficient)
        return total

    def _atom(self, e: Expr) -> Linear:
        if e in self._linear:
            return self._linear[e]
        divisor = _divisor(e)
        if isinstance(e, Op) and divisor:
            quotient = self._quotient(e.args[0], divisor)
            return quotient if e.name == "floordiv" else ix.combine(self._sum(e.args[0]), quotient, -divisor)
        return 0, {e: 1}

    def _quotient(self, e: NestExpr, divisor: int) -> Linear:
        """The linear form of ⌊e / divisor⌋."""
        while isinstance(e, Var) and e in self._values:
            e = self._values[e]
        inner = _divisor(e)
        if isinstance(e, Op) and e.name == "floordiv" and inner:
            return self._quotient(e.args[0], inner * divisor)
        if isinstance(e, Op) and inner and inner % divisor == 0:  # of a remainder, whose multiple of `inner` is whole
            whole = self._quotient(e.args[0], inner)
            return ix.combine(self._quotient(e.args[0], divisor), whole, -(inner // divisor))
        return ix.linear(ix.floordiv(e, divisor))  # type: ignore[arg-type]


def is_multiple_throughout(e: Expr, count: int) -> bool:
    """Whether an index is provably a multiple of a number; a minimum or maximum if all its operands are."""
    if isinstance(e, Op) and e.name in ("minimum", "maximum"):
        return all(is_multiple_throughout(each, count) for each in e.args)
    return ix.is_multiple(e, count)


def _divisor(e: NestExpr) -> int:
    """The positive constant divisor of a quotient or remainder; 0 for other expressions."""
    value = ix.constant_value(e.args[1]) if isinstance(e, Op) and e.name in ("floordiv", "mod") else None
    return max(value or 0, 0)
