"""The language in which recipes are written: `Value` with Python's operators over a `Builder` of operations.

A recipe is a function of `Value`s. It uses operations only, without loops or memory, so the same recipe runs
eagerly on NumPy arrays, becomes a graph of `Expr`s, or is emitted as vector instructions. Nothing is contracted or
reassociated behind its back: `a * b + c` rounds twice, `fma(a, b, c)` once. Python numbers take the dtype of the value
they meet; operations on constants alone are folded.

`rare(condition, usual, unusual)` is `where(condition, unusual(), usual)` and a hint: lanes that need the
unusual value are few, so a target may jump over its computation when there are none. It is the last operation of a recipe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from raido.algo.graph.dtypes import BIAS, MANTISSA, DType, bool_, f32, f64, signed, unsigned
from raido.algo.graph.primitives import evaluate
from raido.algo.recipes.native import NATIVE


class Builder(Protocol):
    """Makes the values that recipes compute with.

    Functions of mathematics are made of primitives (`raido.algo.graph.primitives`); recipes of primitives also of what is native only.
    """

    def constant(self, dtype: DType, value: Any) -> Any:
        """The literal `value`."""

    def operation(self, name: str, dtype: DType, *args: Any) -> Any:
        """Operation `name` applied to `args`, with a result of type `dtype`."""

    def rare(self, condition: Any, usual: Any, unusual: Callable[[], Any]) -> Any:
        """`unusual()` where `condition` holds, else `usual`."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A scalar (or a lane of a vector) of type `dtype`, made by `builder`; of a constant, its number."""

    builder: Builder
    dtype: DType
    raw: Any
    known: Any = None

    def _apply(self, name: str, dtype: DType, *args: Value | float) -> Value:
        return operate(name, dtype, *(self.lift(a) for a in args))

    def lift(self, other: Value | float) -> Value:
        """`other` as a value of this type."""
        return other if isinstance(other, Value) else self.constant(self.dtype, other)

    def constant(self, dtype: DType, number: Any) -> Value:
        """The literal `number`."""
        number = dtype.numpy.type(number)
        return Value(self.builder, dtype, self.builder.constant(dtype, number), number)

    def __add__(self, other: Value | float) -> Value:
        return self._apply("add", self.dtype, self, other)

    def __radd__(self, other: float) -> Value:
        return self._apply("add", self.dtype, other, self)

    def __sub__(self, other: Value | float) -> Value:
        return self._apply("sub", self.dtype, self, other)

    def __rsub__(self, other: float) -> Value:
        return self._apply("sub", self.dtype, other, self)

    def __mul__(self, other: Value | float) -> Value:
        return self._apply("mul", self.dtype, self, other)

    def __rmul__(self, other: float) -> Value:
        return self._apply("mul", self.dtype, other, self)

    def __truediv__(self, other: Value | float) -> Value:
        return self._apply("div", self.dtype, self, other)

    def __rtruediv__(self, other: float) -> Value:
        return self._apply("div", self.dtype, other, self)

    def __neg__(self) -> Value:
        return self._apply("neg", self.dtype, self)

    def __abs__(self) -> Value:
        return self._apply("abs", self.dtype, self)

    def __lt__(self, other: Value | float) -> Value:
        return self._apply("lt", bool_, self, other)

    def __le__(self, other: Value | float) -> Value:
        return self._apply("le", bool_, self, other)

    def __gt__(self, other: Value | float) -> Value:
        return self._apply("gt", bool_, self, other)

    def __ge__(self, other: Value | float) -> Value:
        return self._apply("ge", bool_, self, other)

    def equals(self, other: Value | float) -> Value:
        """Equality as a value (`==` stays Python's)."""
        return self._apply("eq", bool_, self, other)

    def differs(self, other: Value | float) -> Value:
        """Inequality as a value; `x.differs(x)` tells NaN."""
        return self._apply("ne", bool_, self, other)

    def __and__(self, other: Value | int) -> Value:
        return self._apply("logical_and" if self.dtype is bool_ else "bit_and", self.dtype, self, other)

    def __or__(self, other: Value | int) -> Value:
        return self._apply("logical_or" if self.dtype is bool_ else "bit_or", self.dtype, self, other)

    def __xor__(self, other: Value | int) -> Value:
        return self._apply("logical_xor" if self.dtype is bool_ else "bit_xor", self.dtype, self, other)

    def __invert__(self) -> Value:
        return self._apply("logical_not" if self.dtype is bool_ else "bit_not", self.dtype, self)

    def __lshift__(self, count: Value | int) -> Value:
        return self._apply("shl", self.dtype, self, count)

    def __rshift__(self, count: Value | int) -> Value:
        return self._apply("shr", self.dtype, self, count)

    def cast(self, dtype: DType) -> Value:
        """The same number in another type, rounded to nearest; a float cast to an integer is truncated and saturates."""
        return self._apply("cast", dtype, self)

    def bitcast(self, dtype: DType) -> Value:
        """The same bits as another type of that width."""
        return self._apply("bitcast", dtype, self)

    # --- what is native only (`raido.algo.recipes.native` says for which operands)

    def convert(self, dtype: DType) -> Value:
        """The same number in another type."""
        return self if dtype is self.dtype else self._apply("convert", dtype, self)

    def quotient(self, divisor: Value) -> Value:
        """Integer division towards zero."""
        return self._apply("quotient", self.dtype, self, divisor)

    def shift_left(self, count: Value | int) -> Value:
        """The bits moved up by fewer than there are."""
        return self._apply("shift_left", self.dtype, self, count)

    def shift_right(self, count: Value | int) -> Value:
        """The bits moved down by fewer than there are, with the sign."""
        return self._apply("shift_right", self.dtype, self, count)


def operate(name: str, dtype: DType, *args: Value) -> Value:
    """Operation `name` with a result of type `dtype`."""
    first = args[0]
    numbers = [a.known for a in args]
    if all(number is not None for number in numbers):
        meaning = NATIVE[name].primitive if name in NATIVE else name
        return first.constant(dtype, evaluate(meaning, dtype, numbers)[()])
    return Value(first.builder, dtype, first.builder.operation(name, dtype, *(a.raw for a in args)))


def fma(a: Value, b: Value | float, c: Value | float) -> Value:
    """a * b + c, rounded once."""
    return a._apply("fma", a.dtype, a, b, c)


def where(condition: Value, then: Value | float, otherwise: Value | float) -> Value:
    """`then` where the condition holds, else `otherwise`; at least one of the two is a `Value`."""
    model = then if isinstance(then, Value) else otherwise
    assert isinstance(model, Value)
    if condition.known is not None:
        return model.lift(then if condition.known else otherwise)
    return operate("select", model.dtype, condition, model.lift(then), model.lift(otherwise))


def rare(condition: Value, usual: Value, unusual: Callable[[], Value]) -> Value:
    """`unusual()` where the condition holds, else `usual`; the condition is expected to hold almost nowhere."""
    raw = usual.builder.rare(condition.raw, usual.raw, lambda: unusual().raw)
    return Value(usual.builder, usual.dtype, raw)


def sqrt(x: Value) -> Value:
    """The correctly rounded square root."""
    return x._apply("sqrt", x.dtype, x)


def rint(x: Value) -> Value:
    """The nearest integer, ties to even."""
    return x._apply("rint", x.dtype, x)


def floor(x: Value) -> Value:
    """The largest integer not above."""
    return x._apply("floor", x.dtype, x)


def polynomial(x: Value, coefficients: tuple[float, ...]) -> Value:
    """Σ coefficients[k] x**k by Horner's rule with fma."""
    total: Value = x.lift(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = fma(total, x, c)
    return total


@dataclass(frozen=True, slots=True)
class Format:
    """The layout of a float type, and constants that follow from it."""

    dtype: DType
    mantissa: int  # stored bits
    bias: int

    @property
    def signed(self) -> DType:
        return signed(self.dtype.bits)

    @property
    def unsigned(self) -> DType:
        return unsigned(self.dtype.bits)

    @property
    def shifter(self) -> float:
        """1.5 · 2**mantissa: x + shifter has the nearest integer to x in its low bits, for |x| < 2**(mantissa - 1)."""
        return 1.5 * 2.0**self.mantissa

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def sign_bit(self) -> int:
        return -(2 ** (self.dtype.bits - 1))


FORMATS = {dtype: Format(dtype, MANTISSA[dtype], BIAS[dtype]) for dtype in (f32, f64)}


def format_of(x: Value) -> Format:
    """The layout of the value's float type."""
    return FORMATS[x.dtype]


def bits_of(x: Value) -> Value:
    """The bits of a float as a signed integer."""
    return x.bitcast(signed(x.dtype.bits))


def unsigned_bits_of(x: Value) -> Value:
    """The bits of a float as an unsigned integer."""
    return x.bitcast(unsigned(x.dtype.bits))


def is_positive_normal(x: Value) -> Value:
    """Whether a float is a normal number above 0: one subtraction and one comparison of its bits."""
    layout = format_of(x)
    above = bits_of(x) - (1 << layout.mantissa)
    return above.bitcast(layout.unsigned) < (2 * layout.bias) << layout.mantissa


def two_to(exponent: Value, dtype: DType) -> Value:
    """2**exponent in a float type, a normal number, of an exponent in the signed type of that width."""
    layout = FORMATS[dtype]
    return (exponent + layout.bias).shift_left(layout.mantissa).bitcast(dtype)


def with_sign_of(magnitude: Value, sign: Value) -> Value:
    """`magnitude`, which is not negative, with the sign of `sign`."""
    mask = bits_of(sign) & format_of(sign).sign_bit
    return (bits_of(magnitude) | mask).bitcast(magnitude.dtype)


def two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """The rounded sum and its error, exactly; |a| ≥ |b| or a = 0 (Dekker's Fast2Sum)."""
    total = a + b
    return total, b - (total - a)


def two_product(a: Value, b: Value) -> tuple[Value, Value]:
    """The rounded product and its error, exactly."""
    total = a * b
    return total, fma(a, b, -total)


class NumpyBuilder:
    """Evaluates recipes eagerly on NumPy arrays."""

    def constant(self, dtype: DType, value: Any) -> Any:
        return dtype.numpy.type(value)

    def operation(self, name: str, dtype: DType, *args: Any) -> Any:
        return evaluate(name, dtype, args)

    def rare(self, condition: Any, usual: Any, unusual: Callable[[], Any]) -> Any:
        return np.where(condition, unusual(), usual) if np.any(condition) else usual
