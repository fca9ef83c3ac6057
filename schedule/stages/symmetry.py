"""Reductions whose result is a symmetric matrix, such as x.T @ x, covariances and distances between all pairs of points.

A stage is symmetric if exchanging the variables of its last two axes changes no bit of its body: operands of sums and products commute, and
a difference that changes its sign may be squared, or taken by its absolute value.
"""

from __future__ import annotations

from collections.abc import Hashable

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Item, Load, Node, Op, Reduce, Var
from raido.algo.graph.rewrite import free_variables
from raido.schedule.stages.stage import Stage

COMMUTATIVE = ("add", "mul", "minimum", "maximum")
Signed = tuple[int, int]
"""The number of a value and its sign: values that are each other's negative share a number."""


def is_symmetric(stage: Stage) -> bool:
    """Whether the results of a reduction along its last two axes are a symmetric matrix, to the bit."""
    if not is_reduction_alone(stage) or len(stage.axes) < 2:
        return False
    first, last = stage.axes[-2:]
    if ix.canonical(first.extent) is not ix.canonical(last.extent):
        return False
    numbers: dict[Hashable, int] = {}
    plain = _Values(numbers, {first.var: first.var, last.var: last.var})
    exchanged = _Values(numbers, {first.var: last.var, last.var: first.var})
    return all(plain.of(body) == exchanged.of(body) for body in stage.bodies)


def is_reduction_alone(stage: Stage) -> bool:
    """Whether a stage is a reduction, and no scan, sort, filter or update."""
    return stage.reduction is not None and not (stage.scan or stage.sort or stage.filter or stage.update)


class _Values:
    """Value numbering of expressions in which two variables are renamed; operands of commutative operations are unordered."""

    def __init__(self, numbers: dict[Hashable, int], names: dict[Var, Var]) -> None:
        self.numbers, self.names = numbers, names
        self.memo: dict[Node, Signed] = {}

    def of(self, node: Node) -> Signed:
        """Returns the number and the sign of an expression's value."""
        if node not in self.memo:
            self.memo[node] = self._made(node)
        return self.memo[node]

    def _number(self, *key: Hashable) -> int:
        return self.numbers.setdefault(key, len(self.numbers))

    def _made(self, node: Node) -> Signed:
        if isinstance(node, Var):
            return self._number(self.names.get(node, node)), 1
        if free_variables(node).isdisjoint(self.names):
            return self._number(node), 1
        if isinstance(node, Load):
            return self._number(node.array, node.checked, *map(self.of, node.indices)), 1
        if isinstance(node, Item):
            return self._number("item", node.index, self.of(node.form)), 1
        if isinstance(node, Reduce):
            extents = tuple((axis.var, self.of(axis.extent)) for axis in node.axes)
            parts = (tuple(map(self.of, each)) for each in (node.combine, node.neutral, node.values))
            return self._number("reduce", extents, node.left, node.right, *parts), 1
        if isinstance(node, Op):
            return self._operation(node.name, node.dtype, [self.of(e) for e in node.args])
        return self._number(node, *self.names.values()), 1  # an opaque value

    def _operation(self, name: str, dtype: Hashable, args: list[Signed]) -> Signed:
        if name == "sub" and args[0] > args[1]:
            return self._number(name, dtype, args[1], args[0]), -1
        if name == "abs" or (name in ("mul", "fma") and args[0] == args[1]):
            even = 1 if name == "abs" else 2
            args = [*((number, 1) for number, _ in args[:even]), *args[even:]]
        if name == "fma":
            args = [*sorted(args[:2]), args[2]]
        return self._number(name, dtype, *(sorted(args) if name in COMMUTATIVE else args)), 1
