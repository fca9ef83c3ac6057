"""Models of assumptions: assignments of numbers that satisfy them. A condition that is false in one cannot be proved, so no proof is tried.

Sizes are small or large, increasing or decreasing; variables are at the lower or upper ends of their ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from raido.algo.graph.expr import Const, Count, Expr, Op, SizeVar, Var

OPERATIONS: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "minimum": min,
    "maximum": max,
    "clamp_index": lambda e, n: max(min(e, n - 1), 0),
}
DIVISIONS: dict[str, Callable[[int, int], int]] = {"floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b}


class Model:
    """Numbers for sizes and variables. `first`, `step`: the first size met, and the difference of each next one; `begins`: whether
    variables are at the lower ends of their ranges; `turns`: whether they alternate between the ends."""

    __slots__ = ("begins", "leaves", "made", "next", "step", "turns")

    def __init__(self, first: int, step: int, begins: bool, turns: bool = False) -> None:
        self.next, self.step, self.begins, self.turns = first, step, begins, turns
        self.leaves: dict[Expr, int] = {}
        self.made: dict[Expr, int | None] = {}

    def value(self, e: Expr) -> int | None:
        """The number of an index; None for an expression other than arithmetic of sizes and variables."""
        if isinstance(e, Const):
            return None if e.dtype.is_float else int(e.bits)
        if isinstance(e, (Var, SizeVar, Count)):
            return self._leaf(e)
        if e not in self.made:
            self.made[e] = self._operation(e) if isinstance(e, Op) else None
        return self.made[e]

    def _leaf(self, e: Expr) -> int:
        if e not in self.leaves:
            if isinstance(e, Var):
                self.leaves[e] = 0
            else:
                self.leaves[e], self.next = self.next, self.next + self.step
        return self.leaves[e]

    def _operation(self, e: Op) -> int | None:
        known = OPERATIONS.get(e.name) or DIVISIONS.get(e.name)
        if known is None:
            return None
        args = [value for a in e.args if (value := self.value(a)) is not None]
        if len(args) < len(e.args) or (e.name in DIVISIONS and args[1] == 0):
            return None
        return known(*args)

    def sum(self, constant: int, terms: Mapping[Expr, int]) -> int | None:
        """The value of a linear form; None where an atom has no value."""
        for atom, factor in terms.items():
            value = self.value(atom)
            if value is None:
                return None
            constant += factor * value
        return constant

    def with_range(self, var: Var, low: Expr, high: Expr) -> Model | None:
        """The model extended by a variable at an end of its range; None where the range is unknown or empty, or the variable has a value
        already."""
        a, b = self.value(low), self.value(high)
        if a is None or b is None or a > b or var in self.leaves:
            return None
        more = object.__new__(Model)
        more.next, more.step, more.turns = self.next, self.step, self.turns
        more.begins = self.begins ^ self.turns
        more.leaves, more.made = {**self.leaves, var: a if self.begins else b}, dict(self.made)
        return more

    def holds(self, assumptions: Iterable[tuple[int, Mapping[Expr, int]]]) -> bool:
        """Whether all linear forms are non-negative."""
        sums = (self.sum(constant, terms) for constant, terms in assumptions)
        return all(total is not None and total >= 0 for total in sums)


def first_models() -> tuple[Model, ...]:
    """Models without assumptions: large increasing sizes, large decreasing ones, sizes of 1, and large increasing ones with variables
    alternately at the ends of their ranges: a tile at the edge of an array, and its first row."""
    return Model(1000, 37, True), Model(5003, -41, False), Model(1, 0, True), Model(4001, 7, False, True)
