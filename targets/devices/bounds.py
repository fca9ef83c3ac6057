"""Interval analysis of TIR's integer expressions: bounds from those of their variables, the dtype's range where nothing is known.

The bounds decide which 64-bit integer arithmetic can be done in 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raido.algo.graph.dtypes import whole_range
from raido.targets.devices import tir
from raido.targets.devices.linear import Interval, bound, sum_of

INT32: Interval = (-(1 << 31), (1 << 31) - 1)


def inside(inner: Interval, outer: Interval) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


class Bounds:
    """Intervals of expressions. `known` has those of variables, which are fixed; other expressions' are cached."""

    def __init__(self) -> None:
        self.known: dict[Any, Interval] = {}

    def of(self, node: Any) -> Interval:
        """The interval of an integer scalar, which contains its value wherever the expression is evaluated."""
        if node not in self.known:
            dtype, _ = tir.type_of(node)
            found, whole = self._find(node), whole_range(dtype)
            self.known[node] = found if found is not None and inside(found, whole) else whole  # else it may wrap
        return self.known[node]

    def fit(self, *nodes: Any) -> bool:
        """Whether the values of all expressions fit signed 32 bits."""
        return all(inside(self.of(node), INT32) for node in nodes)

    def _find(self, node: Any) -> Interval | None:
        """The interval computed from the operands' intervals, if nothing wraps; None for unknown operations."""
        kind = tir.kind(node)
        if kind == "IntImm":
            return (int(node.value), int(node.value))
        if kind == "Cast":
            source = tir.type_of(node.value)[0]
            return None if source.is_float else self.of(node.value)
        if kind == "Select":
            return _union(self.of(node.true_value), self.of(node.false_value))
        if kind == "Call":
            return self._call(node)
        if kind not in _OPERATORS:
            return None
        found = _OPERATORS[kind](self.of(node.a), self.of(node.b))
        if kind in ("Add", "Sub") and found is not None:
            low, high = bound(
                sum_of(node.a, self._exact).add(sum_of(node.b, self._exact), 1 if kind == "Add" else -1),
                self.of,
                self._exact,
            )
            found = (max(found[0], low), min(found[1], high))
        return found

    def _exact(self, node: Any) -> bool:
        """Whether an expression cannot wrap, so that it equals its value in unbounded arithmetic."""
        low, high = whole_range(tir.type_of(node)[0])
        found = self.of(node)
        return low < found[0] and found[1] < high

    def _call(self, node: Any) -> Interval | None:
        name, arguments = tir.callee(node)
        if name == "if_then_else":
            return _union(*(self.of(argument) for argument in arguments[1:]))
        if name == "likely":
            return self.of(arguments[0])
        if name == "raido_select":
            return _union(*(self.of(argument) for argument in arguments[1:]))
        if name in _CALLS and all(not tir.type_of(argument)[0].is_float for argument in arguments):
            return _CALLS[name](*(self.of(argument) for argument in arguments))
        return None


def _union(a: Interval, b: Interval) -> Interval:
    return (min(a[0], b[0]), max(a[1], b[1]))


def _products(a: Interval, b: Interval) -> Interval:
    ends = [x * y for x in a for y in b]
    return (min(ends), max(ends))


def _quotients(a: Interval, b: Interval) -> Interval | None:
    """Quotients of numbers by positive ones, with any rounding."""
    ends = [x // y for x in a for y in b if y > 0]
    return (min(ends), max(*ends, 0)) if b[0] > 0 else None


def _remainders(a: Interval, b: Interval) -> Interval | None:
    """Remainders of numbers by positive ones, with the sign of either operand."""
    return (max(min(a[0], 0), 1 - b[1]), b[1] - 1 if a[0] < 0 else min(a[1], b[1] - 1)) if b[0] > 0 else None


def _masked(a: Interval, b: Interval) -> Interval | None:
    """Bitwise "and" of numbers of which at least one is non-negative."""
    highs = [high for low, high in (a, b) if low >= 0]
    return (0, min(highs)) if highs else None


def _shifted(a: Interval, count: Interval) -> Interval | None:
    low, high = count
    return (min(a[0] >> low, a[0] >> high), max(a[1] >> low, a[1] >> high)) if low >= 0 and high < 64 else None


def _indices(_: Interval, size: Interval) -> Interval:
    """Indices mapped into an array by a boundary rule; an empty array has none that are used."""
    return (min(0, 2 * size[0] - 1), max(0, size[1] - 1))


_OPERATORS: dict[str, Callable[[Interval, Interval], Interval | None]] = {
    "Add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "Sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "Mul": _products,
    "Min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "Max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "Div": _quotients,
    "Mod": _remainders,
}
_CALLS: dict[str, Callable[..., Interval | None]] = {
    "raido_add": _OPERATORS["Add"],
    "raido_sub": _OPERATORS["Sub"],
    "raido_mul": _OPERATORS["Mul"],
    "raido_minimum": _OPERATORS["Min"],
    "raido_maximum": _OPERATORS["Max"],
    "raido_neg": lambda a: (-a[1], -a[0]),
    "raido_convert": lambda a: a,
    "raido_cast": lambda a: a,
    "raido_within": lambda _, below: (0, max(below[1] - 1, 0)),
    "raido_bit_and": _masked,
    "raido_shift_right": _shifted,
    **{f"raido_{name}_index": _indices for name in ("clamp", "wrap", "mirror", "symmetric")},
    **{f"raido_{name}": _quotients for name in ("quotient", "truncdiv", "floordiv")},
    **{f"raido_{name}": _remainders for name in ("truncrem", "floormod", "mod")},
}
