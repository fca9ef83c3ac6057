"""i64 arithmetic in 32 bits: wherever bounds show that the value fits, and for indices, of which the lower 32 bits suffice.

A sum, difference or product modulo 2³² needs its operands modulo 2³² only; other operations need operands that fit. An index into an array
of fewer than 2³¹ elements equals its lower 32 bits. The decisions here hold for launches in which no number, and no number of blocks along
an axis, exceeds its limit (`RdKernelInfo` of raido_device.h); each back end writes the operations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from raido.algo.graph.dtypes import DType, i32, i64
from raido.targets.devices import tir
from raido.targets.devices.bounds import INT32, Bounds, Interval, inside
from raido.targets.devices.strides import Strides

V = TypeVar("V")
"""A value as a back end writes it: a number of SPIR-V, a text of CUDA C."""
MOST = 1 << 29
"""Bounds of integers, and of indices as far as blocks decide them, under which the narrow code of a kernel runs."""
_MODULAR = {"Add": "add", "Sub": "sub", "Mul": "mul"}
_MODULAR_CALLS = {f"raido_{name}" for name in ("add", "sub", "mul", "neg", "bit_and", "bit_or", "bit_xor")}
_EXTREMES = {"Min": "minimum", "Max": "maximum"}
_DIVISIONS = {
    **dict.fromkeys(("Div", "raido_quotient", "raido_truncdiv", "raido_floordiv"), "quotient"),
    **dict.fromkeys(("Mod", "raido_truncrem", "raido_floormod", "raido_mod"), "remainder"),
}
_HALF: Interval = (INT32[0] // 2, INT32[1] // 2)
_EXACT_CALLS = {
    **{f"raido_{name}": INT32 for name in ("minimum", "maximum", "floordiv", "floormod", "mod")},
    **{f"raido_{name}_index": _HALF for name in ("clamp", "wrap", "mirror", "symmetric")},
    "raido_shift_right": (0, i32.bits - 1),
}
"""Calls with the same result in 32 bits, provided that operands and result fit and the last operand lies within the bounds given."""


class Narrow(ABC, Generic[V]):
    """Lower halves of i64 expressions. `lows` has those of variables, `bounds` their known intervals."""

    def __init__(self) -> None:
        self.bounds = Bounds()
        self.lows: dict[Any, V] = {}

    @abstractmethod
    def value(self, node: Any) -> V:
        """An expression in its own type."""

    @abstractmethod
    def written(self, node: Any) -> V:
        """An i64 expression computed in 64 bits."""

    @abstractmethod
    def constant(self, value: int) -> V:
        """A 32-bit literal, modulo 2³²."""

    @abstractmethod
    def convert(self, source: DType, value: V) -> V:
        """An integer of any type as an i32, modulo 2³²."""

    @abstractmethod
    def operation(self, name: str, operands: Sequence[V]) -> V:
        """A primitive on i32."""

    @abstractmethod
    def divide(self, name: str, dividend: V, divisor: V) -> V:
        """The quotient or remainder of non-negative numbers."""

    @abstractmethod
    def select(self, condition: V, yes: V, no: V) -> V:
        """`yes` where the condition holds, else `no`; both are evaluated."""

    @abstractmethod
    def choose(self, condition: V, yes: Callable[[], V], no: Callable[[], V]) -> V:
        """`yes` where the condition holds, else `no`; only that one is evaluated."""

    def applies(self, node: Any) -> bool:
        """Whether the value of an expression follows from its lower half."""
        return is_index(node) and tir.kind(node) not in ("Var", "IntImm") and self.bounds.fit(node)

    def compares(self, *operands: Any) -> bool:
        """Whether all operands are i64 that fit 32 bits, so that their lower halves can be compared."""
        return is_index(operands[0]) and self.bounds.fit(*operands)

    def name(self, variable: Any, low: V, bounds: Interval) -> None:
        """Registers a variable's lower half and bounds."""
        self.lows[variable], self.bounds.known[variable] = low, bounds

    def low(self, node: Any) -> V:
        """The lower 32 bits of an i64, as an i32."""
        kind, (least, most) = tir.kind(node), self.bounds.of(node)
        if least == most:
            return self.constant(least)
        if kind == "Var":
            return self.lows[node] if node in self.lows else self._lower(node)
        if kind in _MODULAR:
            return self.operation(_MODULAR[kind], [self.low(node.a), self.low(node.b)])
        if kind == "Cast" and not tir.type_of(node.value)[0].is_float:
            return self._cast(node.value)
        if kind == "Select":
            return self.select(self.value(node.condition), self.low(node.true_value), self.low(node.false_value))
        if kind in _EXTREMES and self.bounds.fit(node.a, node.b):
            return self.operation(_EXTREMES[kind], [self.low(node.a), self.low(node.b)])
        if kind in _DIVISIONS and self._natural(node.a, node.b):
            return self.divide(_DIVISIONS[kind], self.low(node.a), self.low(node.b))
        return self._call(node) if kind == "Call" else self._lower(node)

    def _call(self, node: Any) -> V:
        name, arguments = tir.callee(node)
        if name == "if_then_else":
            condition, yes, no = arguments
            return self.choose(self.value(condition), lambda: self.low(yes), lambda: self.low(no))
        if name == "raido_select":
            return self.select(self.value(arguments[0]), *(self.low(argument) for argument in arguments[1:]))
        if name in ("raido_convert", "raido_cast") and not tir.type_of(arguments[0])[0].is_float:
            return self._cast(arguments[0])
        if all(is_index(argument) for argument in arguments):
            if name in _DIVISIONS and self._natural(*arguments):
                return self.divide(_DIVISIONS[name], *(self.low(argument) for argument in arguments))
            if (made := self._of_power(name, node, *arguments)) is not None:
                return made
            exact = name in _EXACT_CALLS and inside(self.bounds.of(arguments[-1]), _EXACT_CALLS[name])
            if name in _MODULAR_CALLS or (exact and self.bounds.fit(node, *arguments)):
                return self.operation(name.removeprefix("raido_"), [self.low(argument) for argument in arguments])
        return self._lower(node)

    def _of_power(self, name: str, node: Any, dividend: Any, divisor: Any = None, *_: Any) -> V | None:
        """A floored quotient or remainder by a constant power of two, as a shift or a mask."""
        by = int(divisor.value) if divisor is not None and tir.kind(divisor) == "IntImm" else 0
        if by <= 0 or by & (by - 1) or by > MOST:
            return None
        if name in ("raido_floormod", "raido_mod"):
            return self.operation("bit_and", [self.low(dividend), self.constant(by - 1)])
        if name == "raido_floordiv" and self.bounds.fit(node, dividend):
            return self.operation("shift_right", [self.low(dividend), self.constant(by.bit_length() - 1)])
        return None

    def _cast(self, value: Any) -> V:
        """The lower half of an integer of any type."""
        return self.low(value) if is_index(value) else self.convert(tir.type_of(value)[0], self.value(value))

    def _natural(self, dividend: Any, divisor: Any) -> bool:
        """Whether both operands fit 32 bits, the dividend non-negative and the divisor positive, so that all roundings of the quotient
        agree."""
        fit = is_index(dividend) and is_index(divisor) and self.bounds.fit(dividend, divisor)
        return fit and self.bounds.of(dividend)[0] >= 0 and self.bounds.of(divisor)[0] > 0

    def _lower(self, node: Any) -> V:
        return self.convert(i64, self.written(node))

    def loop_indices(self, node: Any) -> Interval | None:
        """Bounds of an i64 loop's index, if the index and the loop's end fit 32 bits, else None."""
        low, extent = self.bounds.of(node.min), self.bounds.of(node.extent)
        step = None if node.step is None else self.bounds.of(node.step)
        end = low[1] + max(extent[1], 0) + (1 if step is None else step[1])
        if not self.bounds.fit(node.min, node.extent) or not inside((low[0] + min(extent[0], 0), end), INT32):
            return None
        return (low[0], max(low[0], low[1] + extent[1] - 1))


def is_index(node: Any) -> bool:
    """Whether an expression is an i64."""
    return tir.type_of(node) == (i64, 1)


def is_arithmetic(node: Any) -> bool:
    """Whether an expression may be evaluated twice: it has no loads and no calls."""
    return all(tir.kind(inner) not in ("BufferLoad", "Call") for inner in tir.walk(node))


def limit_of(strides: Strides, variable: Any) -> int:
    """The largest value of a number for which narrow code is valid; 0 where its stride alone is beyond 32 bits."""
    return MOST // max(strides[variable], 1)
