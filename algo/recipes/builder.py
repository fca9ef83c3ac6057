"""The language of recipes: `Value` with Python's operators over a `Builder` of operations.

A recipe is a function of `Value`s. It uses operations only, without loops or memory, so the same recipe runs
eagerly on NumPy arrays, becomes a graph of `Expr`s, or is emitted as vector instructions. Nothing is contracted or
reassociated implicitly: `a * b + c` rounds twice, `fma(a, b, c)` once. Python numbers take the dtype of the value
they meet; operations on constants alone are folded.

`rare(condition, usual, unusual)` is `where(condition, unusual(), usual)` and a hint: few lanes need the
unusual value, so a target may branch around its computation when none does. It is the last operation of a recipe.
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
    """The interface that makes the values of recipes.

    Mathematical functions use primitives (`raido.algo.graph.primitives`); recipes of primitives use native operations too.
    """

    def constant(self, dtype: DType, value: Any) -> Any:
        """Makes the literal `value`."""

    def operation(self, name: str, dtype: DType, *args: Any) -> Any:
        """Applies operation `name` to `args`, with a result of type `dtype`."""

    def rare(self, condition: Any, usual: Any, unusual: Callable[[], Any]) -> Any:
        """Selects `unusual()` where `condition` holds, else `usual`."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A scalar (or a lane of a vector) of type `dtype`, made by `builder`; `known` is the number of a constant, else None."""

    builder: Builder
    dtype: DType
    raw: Any
    known: Any = None

    def _apply(self, name: str, dtype: DType, *args: Value | float) -> Value:
        return operate(name, dtype, *(self.lift(a) for a in args))

    def lift(self, other: Value | float) -> Value:
        """`other` as a value; a Python number becomes a literal of this value's dtype."""
        return other if isinstance(other, Value) else self.constant(self.dtype, other)

    def constant(self, dtype: DType, number: Any) -> Value:
        """The literal `number` of type `dtype`."""
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
        """Whether two values are equal, as a value (`==` stays Python's)."""
        return self._apply("eq", bool_, self, other)

    def differs(self, other: Value | float) -> Value:
        """Whether two values differ, as a value; `x.differs(x)` tests for NaN."""
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
        """The number converted to another dtype, rounded to nearest; a float cast to an integer is truncated and saturates."""
        return self._apply("cast", dtype, self)

    def bitcast(self, dtype: DType) -> Value:
        """The bits reinterpreted as another dtype of the same width."""
        return self._apply("bitcast", dtype, self)

    # --- native operations that are no primitives (`raido.algo.recipes.native` has the permitted operands)

    def convert(self, dtype: DType) -> Value:
        """The number converted to another dtype: integers wrap or are rounded; a float must be in the range of an integer dtype."""
        return self if dtype is self.dtype else self._apply("convert", dtype, self)

    def quotient(self, divisor: Value) -> Value:
        """The quotient of integers, rounded towards zero; undefined for divisor 0, and for −1 of signed integers."""
        return self._apply("quotient", self.dtype, self, divisor)

    def shift_left(self, count: Value | int) -> Value:
        """The bits shifted left by a count below the width."""
        return self._apply("shift_left", self.dtype, self, count)

    def shift_right(self, count: Value | int) -> Value:
        """The bits shifted right by a count below the width; signed integers keep their sign."""
        return self._apply("shift_right", self.dtype, self, count)


def operate(name: str, dtype: DType, *args: Value) -> Value:
    """Applies operation `name` to values, with a result of type `dtype`; constants are folded."""
    first = args[0]
    numbers = [a.known for a in args]
    if all(number is not None for number in numbers):
        meaning = NATIVE[name].primitive if name in NATIVE else name
        return first.constant(dtype, evaluate(meaning, dtype, numbers)[()])
    return Value(first.builder, dtype, first.builder.operation(name, dtype, *(a.raw for a in args)))


def fma(a: Value, b: Value | float, c: Value | float) -> Value:
    """The fused multiply-add a * b + c, rounded once."""
    return a._apply("fma", a.dtype, a, b, c)


def where(condition: Value, then: Value | float, otherwise: Value | float) -> Value:
    """The value `then` where the condition holds, else `otherwise`; at least one of the two is a `Value`."""
    model = then if isinstance(then, Value) else otherwise
    assert isinstance(model, Value)
    if condition.known is not None:
        return model.lift(then if condition.known else otherwise)
    return operate("select", model.dtype, condition, model.lift(then), model.lift(otherwise))


def rare(condition: Value, usual: Value, unusual: Callable[[], Value]) -> Value:
    """Selects `unusual()` where the condition holds, else `usual`; a hint that the condition holds almost nowhere."""
    raw = usual.builder.rare(condition.raw, usual.raw, lambda: unusual().raw)
    return Value(usual.builder, usual.dtype, raw)


def sqrt(x: Value) -> Value:
    """The correctly rounded square root."""
    return x._apply("sqrt", x.dtype, x)


def rint(x: Value) -> Value:
    """The nearest integer as a float, ties to even."""
    return x._apply("rint", x.dtype, x)


def floor(x: Value) -> Value:
    """The largest integer not above the value, as a float."""
    return x._apply("floor", x.dtype, x)


def polynomial(x: Value, coefficients: tuple[float, ...]) -> Value:
    """The polynomial Σ coefficients[k] x**k by Horner's rule with fma."""
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
        """The constant 1.5 · 2**mantissa: x + shifter has the nearest integer to x in its low bits, for |x| < 2**(mantissa - 1)."""
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
    """The power 2**exponent in a float type, which must be a normal number, for an exponent in the signed integer type of that width."""
    layout = FORMATS[dtype]
    return (exponent + layout.bias).shift_left(layout.mantissa).bitcast(dtype)


def with_sign_of(magnitude: Value, sign: Value) -> Value:
    """The value `magnitude`, which is not negative, with the sign of `sign`."""
    mask = bits_of(sign) & format_of(sign).sign_bit
    return (bits_of(magnitude) | mask).bitcast(magnitude.dtype)


def two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """The rounded sum and its exact error, for |a| ≥ |b| or a = 0 (Dekker's Fast2Sum)."""
    total = a + b
    return total, b - (total - a)


def two_product(a: Value, b: Value) -> tuple[Value, Value]:
    """The rounded product and its exact error, by one fma."""
    total = a * b
    return total, fma(a, b, -total)


class NumpyBuilder:
    """The builder that evaluates recipes eagerly on NumPy arrays."""

    def constant(self, dtype: DType, value: Any) -> Any:
        return dtype.numpy.type(value)

    def operation(self, name: str, dtype: DType, *args: Any) -> Any:
        return evaluate(name, dtype, args)

    def rare(self, condition: Any, usual: Any, unusual: Callable[[], Any]) -> Any:
        return np.where(condition, unusual(), usual) if np.any(condition) else usual
