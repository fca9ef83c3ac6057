"""Arithmetic on i64 in 32 bits: wherever bounds show that the value fits, and for indices, of which the lower 32 bits suffice.

A sum, difference or product modulo 2³² needs its operands modulo 2³² alone; everything else needs operands that fit. An index of an array
below 2³¹ elements is its lower 32 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raido.algo.graph.dtypes import i32, i64
from raido.targets.devices import tir
from raido.targets.vulkan.spirv.body import Lanes
from raido.targets.vulkan.spirv.bounds import INT32, Bounds, Interval, inside
from raido.targets.vulkan.spirv.grammar import Op
from raido.targets.vulkan.spirv.operations import arithmetic, convert, extreme
from raido.targets.vulkan.spirv.recipes import write_operation

if TYPE_CHECKING:
    from raido.targets.vulkan.spirv.expressions import Expressions

_MODULAR = {"Add": "add", "Sub": "sub", "Mul": "mul"}
_MODULAR_CALLS = {f"raido_{name}" for name in ("add", "sub", "mul", "neg", "bit_and", "bit_or", "bit_xor")}
_EXTREMES = {"Min": "lt", "Max": "gt"}
_DIVISIONS = {
    **dict.fromkeys(("Div", "raido_quotient", "raido_truncdiv", "raido_floordiv"), Op.UDiv),
    **dict.fromkeys(("Mod", "raido_truncrem", "raido_floormod", "raido_mod"), Op.UMod),
}
_HALF: Interval = (INT32[0] // 2, INT32[1] // 2)
_EXACT_CALLS = {
    **{f"raido_{name}": INT32 for name in ("minimum", "maximum", "floordiv", "floormod", "mod")},
    **{f"raido_{name}_index": _HALF for name in ("clamp", "wrap", "mirror", "symmetric")},
    "raido_shift_right": (0, i32.bits - 1),
}
"""Calls that give the same in 32 bits, if operands and result fit, and the last operand lies within these bounds."""


class Narrow:
    """The lower halves of i64 expressions. `lows` has those of variables, `bounds` what is known of them."""

    def __init__(self, expressions: Expressions) -> None:
        self.expressions, self.body = expressions, expressions.body
        self.bounds = Bounds()
        self.lows: dict[Any, int] = {}

    def applies(self, node: Any) -> bool:
        """Whether the value of an expression can be had from its lower half."""
        return _is_index(node) and tir.kind(node) not in ("Var", "IntImm") and self.bounds.fit(node)

    def name(self, variable: Any, low: int, bounds: Interval) -> None:
        """Gives a variable its lower half and bounds."""
        self.lows[variable], self.bounds.known[variable] = low, bounds

    def low(self, node: Any) -> int:
        """The lower 32 bits of an i64, as an i32."""
        kind, module = tir.kind(node), self.body.module
        if kind == "IntImm":
            return module.constant(i32, int(node.value))
        if kind == "Var":
            return self.lows[node] if node in self.lows else self._lower(self.expressions.written(node))
        if kind in _MODULAR:
            return arithmetic(self.body, _MODULAR[kind], i32, self.low(node.a), self.low(node.b))
        if kind == "Cast" and not tir.type_of(node.value)[0].is_float:
            return self._cast(node.value)
        if kind == "Select":
            condition = self.expressions.one(node.condition)
            return self.body.select(condition, i32, self.low(node.true_value), self.low(node.false_value))
        if kind in _EXTREMES and self.bounds.fit(node.a, node.b):
            return extreme(self.body, _EXTREMES[kind], i32, self.low(node.a), self.low(node.b))
        if kind in _DIVISIONS and self._natural(node.a, node.b):
            return self.body.compute(_DIVISIONS[kind], i32, self.low(node.a), self.low(node.b))
        return self._call(node) if kind == "Call" else self._lower(self.expressions.written(node))

    def _call(self, node: Any) -> int:
        name, arguments = tir.callee(node)
        if name == "if_then_else":
            condition, yes, no = arguments
            branches = (lambda: (self.low(yes),), lambda: (self.low(no),))
            return self.body.choose(self.expressions.one(condition), i32, *branches)[0]
        if name == "raido_select":
            return self.body.select(self.expressions.one(arguments[0]), i32, *(self.low(a) for a in arguments[1:]))
        if name in ("raido_convert", "raido_cast") and not tir.type_of(arguments[0])[0].is_float:
            return self._cast(arguments[0])
        if all(_is_index(argument) for argument in arguments):
            if name in _DIVISIONS and self._natural(*arguments):
                return self.body.compute(_DIVISIONS[name], i32, *(self.low(argument) for argument in arguments))
            exact = name in _EXACT_CALLS and inside(self.bounds.of(arguments[-1]), _EXACT_CALLS[name])
            if name in _MODULAR_CALLS or (exact and self.bounds.fit(node, *arguments)):
                operands = [(i32, self.low(argument)) for argument in arguments]
                return write_operation(self.body, name.removeprefix("raido_"), i32, operands)
        return self._lower(self.expressions.written(node))

    def _cast(self, value: Any) -> int:
        """The lower half of an integer of another type."""
        if _is_index(value):
            return self.low(value)
        return convert(self.body, tir.type_of(value)[0], i32, self.expressions.one(value))

    def _natural(self, dividend: Any, divisor: Any) -> bool:
        """Whether numbers of 32 bits are divided, none negative: however the quotient is rounded, it is the same."""
        fit = _is_index(dividend) and _is_index(divisor) and self.bounds.fit(dividend, divisor)
        return fit and self.bounds.of(dividend)[0] >= 0 and self.bounds.of(divisor)[0] > 0

    def _lower(self, lanes: Lanes) -> int:
        (value,) = lanes
        return convert(self.body, i64, i32, value)


def _is_index(node: Any) -> bool:
    return tir.type_of(node) == (i64, 1)
