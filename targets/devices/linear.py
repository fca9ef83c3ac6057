"""Integer expressions as linear sums of constants times opaque terms, whose cancellations intervals cannot see.

min(n, first + 4096) - first + 15  <=  (first + 4096) - first + 15  =  4111
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from raido.targets.devices import tir

Interval = tuple[int, int]
_DEPTH = 3
"""The depth of nested minima and maxima to which bounds are computed."""


class Sum:
    """A constant, and integer factors of terms."""

    def __init__(self, constant: int = 0, factors: Counter[Any] | None = None) -> None:
        self.constant, self.factors = constant, factors or Counter()

    def add(self, other: Sum, times: int = 1) -> Sum:
        """This sum plus `times` the other."""
        factors = Counter(self.factors)
        for term, factor in other.factors.items():
            factors[term] += factor * times
        return Sum(self.constant + other.constant * times, Counter({t: f for t, f in factors.items() if f}))


def sum_of(node: Any, exact: Callable[[Any], bool]) -> Sum:
    """An expression as a sum; a subexpression that may wrap (not `exact`) is an opaque term."""
    kind = tir.kind(node)
    if kind == "IntImm":
        return Sum(int(node.value))
    if kind == "Cast" and not tir.type_of(node.value)[0].is_float and exact(node):
        return sum_of(node.value, exact)
    if kind in ("Add", "Sub") and exact(node):
        return sum_of(node.a, exact).add(sum_of(node.b, exact), 1 if kind == "Add" else -1)
    if kind == "Mul" and exact(node):
        for factor, other in ((node.a, node.b), (node.b, node.a)):
            if tir.kind(factor) == "IntImm":
                return Sum().add(sum_of(other, exact), int(factor.value))
    return Sum(0, Counter({node: 1}))


def bound(total: Sum, of: Callable[[Any], Interval], exact: Callable[[Any], bool], depth: int = _DEPTH) -> Interval:
    """The interval of a sum: from its terms' intervals, intersected with those of the sums in which a minimum or maximum is replaced by one
    of its operands."""
    ends = [(f * x, f * y) if f > 0 else (f * y, f * x) for f, (x, y) in ((f, of(t)) for t, f in total.factors.items())]
    low, high = total.constant + sum(end[0] for end in ends), total.constant + sum(end[1] for end in ends)
    if depth == 0:
        return low, high
    for term, factor in total.factors.items():
        kind = tir.kind(term)
        if kind not in ("Min", "Max"):
            continue
        for arm in (term.a, term.b):
            less, more = bound(
                total.add(Sum(0, Counter({term: 1})), -factor).add(sum_of(arm, exact), factor), of, exact, depth - 1
            )
            if (kind == "Min") == (factor > 0):  # the sum is at most that with the arm
                high = min(high, more)
            else:
                low = max(low, less)
    return low, high
