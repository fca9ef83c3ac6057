"""The language in which recipes are written: `Value` with Python's operators over a `Builder` of primitive operations.

A recipe is a function of `Value`s. It uses primitive operations only, without loops or memory, so the same recipe runs
eagerly on NumPy arrays, becomes a graph of `Expr`s, or is emitted as vector instructions. Nothing is contracted or
reassociated behind its back: `a * b + c` rounds twice, `fma(a, b, c)` once. Python numbers take the dtype of the value
they meet. `rare(condition, usual, unusual)` is `where(condition, unusual(), usual)` and a hint: lanes that need the
unusual value are few, so a target may jump over its computation when there are none. It is the last operation of a recipe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from raido.algo.graph.dtypes import DType, bool_, f32, f64, i32, i64, u32, u64
from raido.algo.graph.primitives import evaluate


class Builder(Protocol):
    """Makes the values that recipes compute with. Operations carry the names of `raido.algo.graph.primitives`."""

    def constant(self, dtype: DType, value: Any) -> Any:
        """The literal `value`."""

    def operation(self, name: str, dtype: DType, *args: Any) -> Any:
        """Primitive `name` applied to `args`, with a result of type `dtype`."""

    def rare(self, condition: Any, usual: Any, unusual: Callable[[], Any]) -> Any:
        """`unusual()` where `condition` holds, else `usual`."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A scalar (or a lane of a vector) of type `dtype`, made by `builder`."""

    builder: Builder
    dtype: DType
    raw: Any

    def _apply(self, name: str, dtype: DType, *args: Value | float) -> Value:
        raws = (self.lift(a).raw for a in args)
        return Value(self.builder, dtype, self.builder.operation(name, dtype, *raws))

    def lift(self, other: Value | float) -> Value:
        """`other` as a value of this type."""
        if isinstance(other, Value):
            return other
        return Value(self.builder, self.dtype, self.builder.constant(self.dtype, other))

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
        return self._apply("bit_xor", self.dtype, self, other)

    def __invert__(self) -> Value:
        return self._apply("logical_not", bool_, self)

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


def fma(a: Value, b: Value | float, c: Value | float) -> Value:
    """a * b + c, rounded once."""
    return a._apply("fma", a.dtype, a, b, c)


def where(condition: Value, then: Value | float, otherwise: Value | float) -> Value:
    """`then` where the condition holds, else `otherwise`; at least one of the two is a `Value`."""
    model = then if isinstance(then, Value) else otherwise
    assert isinstance(model, Value)
    raws = (condition.raw, model.lift(then).raw, model.lift(otherwise).raw)
    return Value(model.builder, model.dtype, model.builder.operation("select", model.dtype, *raws))


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
    signed: DType
    unsigned: DType
    mantissa: int  # stored bits
    bias: int

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


FORMATS = {f32: Format(f32, i32, u32, 23, 127), f64: Format(f64, i64, u64, 52, 1023)}


def format_of(x: Value) -> Format:
    """The layout of the value's float type."""
    return FORMATS[x.dtype]


def bits_of(x: Value) -> Value:
    """The bits of a float as a signed integer."""
    return x.bitcast(format_of(x).signed)


def is_positive_normal(x: Value) -> Value:
    """Whether a float is a normal number above 0: one subtraction and one comparison of its bits."""
    layout = format_of(x)
    above = bits_of(x) - (1 << layout.mantissa)
    return above.bitcast(layout.unsigned) < (2 * layout.bias) << layout.mantissa


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
