"""Assignments of numbers under which facts hold: what is false under one of them cannot be proved from the facts, and is not tried.

Sizes are few or many and in both orders, variables stand at the beginnings or at the ends of their ranges.
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
    """Numbers for sizes and variables. `first`, `step`: what the first size is that it meets, and by how much the next differs; `begins`:
    whether variables stand at the beginnings of their ranges; `turns`: whether the next one stands at the other end."""

    __slots__ = ("begins", "leaves", "made", "next", "step", "turns")

    def __init__(self, first: int, step: int, begins: bool, turns: bool = False) -> None:
        self.next, self.step, self.begins, self.turns = first, step, begins, turns
        self.leaves: dict[Expr, int] = {}
        self.made: dict[Expr, int | None] = {}

    def value(self, e: Expr) -> int | None:
        """The number that an index is; None where it is none of arithmetic of sizes and variables."""
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
        """A constant and multiples of atoms; None where some atom is no number."""
        for atom, factor in terms.items():
            value = self.value(atom)
            if value is None:
                return None
            constant += factor * value
        return constant

    def with_range(self, var: Var, low: Expr, high: Expr) -> Model | None:
        """The same with a variable at an end of its range; None where the range is not known, or empty, or comes too late."""
        a, b = self.value(low), self.value(high)
        if a is None or b is None or a > b or var in self.leaves:
            return None
        more = object.__new__(Model)
        more.next, more.step, more.turns = self.next, self.step, self.turns
        more.begins = self.begins ^ self.turns
        more.leaves, more.made = {**self.leaves, var: a if self.begins else b}, dict(self.made)
        return more

    def holds(self, facts: Iterable[tuple[int, Mapping[Expr, int]]]) -> bool:
        """Whether sums are at least 0."""
        sums = (self.sum(constant, terms) for constant, terms in facts)
        return all(total is not None and total >= 0 for total in sums)


def first_models() -> tuple[Model, ...]:
    """Models that no fact has narrowed yet: many sizes, each larger than the one before, or smaller; sizes of 1; and many again, where
    loops are at their ends and at their beginnings in turn: a tile at the edge of an array, and its first row."""
    return Model(1000, 37, True), Model(5003, -41, False), Model(1, 0, True), Model(4001, 7, False, True)
