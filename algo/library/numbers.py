"""NumPy's functions of single numbers composed of the language's: quotients with remainders, the parts of floats, common divisors.

Each applies to every element, with broadcasting. Results that are exact in NumPy have the same bits here; dtypes are NumPy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from raido.algo.errors import DTypeError
from raido.algo.graph.dtypes import (
    BIAS,
    MANTISSA,
    DType,
    bool_,
    computed_in,
    f16,
    f64,
    i32,
    i64,
    signed,
    u64,
    unsigned,
)
from raido.algo.language import ufuncs
from raido.algo.language.complex_functions import conj
from raido.algo.language.complexes import Complex, complex128, is_complex
from raido.algo.language.control import while_loop
from raido.algo.language.moves import astype, view
from raido.algo.language.pure import universal
from raido.algo.trace.building import elementwise
from raido.algo.trace.locations import complaint
from raido.algo.trace.promotion import common_type, float_type
from raido.algo.trace.value import LITERAL, Array
from raido.algo.trace.weak import as_weak

conjugate = conj


def _reals(what: str, *values: Any) -> None:
    if any(is_complex(v) for v in values):
        raise DTypeError(complaint(f"{what} of complex numbers", remedy=".real, .imag or rd.abs"))


def _floats(what: str, values: tuple[Any, ...]) -> tuple[list[Any], DType]:
    """The scalars in the float dtype in which NumPy computes them, and that dtype."""
    _reals(what, *values)
    dtype, _ = float_type(values)
    return [astype(v, dtype) for v in values], dtype


@universal
def divmod(x1: Any, x2: Any, *, name: str | None = None) -> tuple[Array, Array]:
    """The pair `(x1 // x2, x1 % x2)`: the quotient rounded down, and the remainder, with the sign of x2; Python's `divmod`.

    Both have the broadcast shape and the common dtype. An integer divisor of 0 raises `rd.ArithmeticFault`; DTypeError for
    complex numbers.

    Example:
        >>> rd.algorithm(lambda a: rd.divmod(a, 3)).interpret(np.array([7, -7]))
        (array([ 2, -3]), array([1, 2]))
    """
    _reals("rd.divmod", x1, x2)
    return elementwise(lambda a, b: (ufuncs.floor_divide(a, b), ufuncs.remainder(a, b)), [x1, x2], name=name)


@universal
def modf(x: Any, *, name: str | None = None) -> tuple[Array, Array]:
    """The fractional and the integral part of each number, both with its sign and in its float dtype.

    The fractional part of an infinity is 0. DTypeError for complex numbers.

    Example:
        >>> rd.algorithm(lambda a: rd.modf(a)).interpret(np.array([2.5, -0.75]))
        (array([ 0.5 , -0.75]), array([ 2., -0.]))
    """

    def parts(a: Any) -> tuple[Any, Any]:
        (value,), dtype = _floats("rd.modf", (a,))
        whole = ufuncs.trunc(value)
        rest = ufuncs.where(ufuncs.isinf(value), dtype(0), value - whole)
        return as_weak((ufuncs.copysign(rest, value), whole), a)

    return elementwise(parts, [x], name=name)


@universal
def frexp(x: Any, *, name: str | None = None) -> tuple[Array, Array]:
    """The pair `(m, e)` with `x = m * 2**e` and |m| in [0.5, 1), e in i32; for zeros, infinities and NaN, m = x and e = 0.

    Example:
        >>> rd.algorithm(lambda a: rd.frexp(a)).interpret(np.array([6.0, -0.5]))
        (array([ 0.75, -0.5 ]), array([3, 0], dtype=int32))
    """

    def parts(a: Any) -> tuple[Any, Any]:
        (value,), dtype = _floats("rd.frexp", (a,))
        own = computed_in(dtype)
        number = astype(value, own)
        mantissa, bias, word = MANTISSA[own], BIAS[own], signed(own.bits)
        tiny = ufuncs.absolute(number) < own(2.0 ** (1 - bias))
        bits = view(ufuncs.where(tiny, number * own(2.0 ** (mantissa + 2)), number), word)
        field = word(2 * bias + 1)
        exponent = ((bits >> mantissa) & field) - word(bias - 1)
        exponent = exponent - ufuncs.where(tiny, word(mantissa + 2), word(0))
        half = view((bits & ~(field << mantissa)) | (word(bias - 1) << mantissa), own)
        alone = (number == own(0)) | ~ufuncs.isfinite(number)
        chosen = astype(ufuncs.where(alone, number, half), dtype)
        return as_weak(chosen, a), ufuncs.where(alone, i32(0), astype(exponent, i32))

    return elementwise(parts, [x], name=name)


@universal
def ldexp(x1: Any, x2: Any, *, name: str | None = None) -> Array:
    """The number `x1 * 2**x2`, rounded once, for integers x2; in the float dtype of x1. DTypeError for other exponents.

    Example:
        >>> rd.algorithm(lambda a: rd.ldexp(a, 4)).interpret(np.array([0.75, -1.0]))
        array([ 12., -16.])
    """

    def scaled(a: Any, b: Any) -> Any:
        if is_complex(b) or not b.dtype.is_integer or b.dtype is u64:
            raise DTypeError(
                complaint(f"an exponent of rd.ldexp is a signed integer, not {b.dtype}", remedy="rd.i64(e)")
            )
        (value,), dtype = _floats("rd.ldexp", (a,))
        power = astype(b, i64)
        if dtype is not f64:  # exact in f64, whose exponents reach far beyond
            product = astype(value, f64) * _power_of_two(ufuncs.clip(power, i64(-700), i64(700)))
            return astype(product, dtype)
        return as_weak(_scaled_f64(value, power), a, b)

    return elementwise(scaled, [x1, x2], name=name)


def _power_of_two(exponent: Array) -> Array:
    """The number 2**exponent in f64, for exponents of normal numbers."""
    return view((exponent + i64(1023)) << 52, f64)


def _scaled_f64(value: Array, power: Array) -> Array:
    """The number value · 2**power, rounded once: by up to three factors, of which the downward ones keep 53 bits above the least normal
    number (musl's scalbn).
    """
    up, down = f64(2.0**1023), f64(2.0**-969)
    power = ufuncs.clip(power, i64(-4200), i64(4200))
    for _ in range(2):
        high, low = power > i64(1023), power < i64(-1022)
        value = ufuncs.where(high, value * up, ufuncs.where(low, value * down, value))
        power = ufuncs.where(high, power - i64(1023), ufuncs.where(low, power + i64(969), power))
    return value * _power_of_two(ufuncs.clip(power, i64(-1022), i64(1023)))


@universal
def float_power(x1: Any, x2: Any, *, name: str | None = None) -> Array:
    """The power `x1 ** x2` in f64, or in complex128 where an operand is complex, whatever the dtypes.

    Example:
        >>> rd.algorithm(lambda a: rd.float_power(a, -1)).interpret(np.array([2, 4]))
        array([0.5 , 0.25])
    """

    def raised(a: Any, b: Any) -> Any:
        wide = complex128 if isinstance(a, Complex) or isinstance(b, Complex) else f64
        return ufuncs.power(wide(a), wide(b))

    return elementwise(raised, [x1, x2], name=name)


@universal
def heaviside(x1: Any, x2: Any, *, name: str | None = None) -> Array:
    """The step function: 0 where x1 < 0, 1 where x1 > 0, x2 where x1 is 0, NaN where x1 is NaN; in the common float dtype.

    Example:
        >>> rd.algorithm(lambda a: rd.heaviside(a, 0.5)).interpret(np.array([-3.0, 0.0, 2.0]))
        array([0. , 0.5, 1. ])
    """

    def step(a: Any, b: Any) -> Any:
        (x, at_zero), dtype = _floats("rd.heaviside", (a, b))
        side = ufuncs.where(x < dtype(0), dtype(0), ufuncs.where(x > dtype(0), dtype(1), x))
        return as_weak(ufuncs.where(x == dtype(0), at_zero, side), a, b)

    return elementwise(step, [x1, x2], name=name)


@universal
def nextafter(x1: Any, x2: Any, *, name: str | None = None) -> Array:
    """The next float after x1 in the direction of x2, in their common float dtype; NaN if either is NaN, and x2 if they are equal (for
    zeros of both signs too, as C's function, and NumPy's from 2.5 on for f16).

    Example:
        >>> rd.algorithm(lambda a: rd.nextafter(a, 2.0) - a).interpret(np.array([1.0]))
        array([2.22044605e-16])
    """

    def following(a: Any, b: Any) -> Any:
        (x, y), dtype = _floats("rd.nextafter", (a, b))
        return as_weak(_following(x, y, dtype), a, b)

    return elementwise(following, [x1, x2], name=name)


def _following(x: Array, y: Array, dtype: DType) -> Array:
    word, zero = unsigned(dtype.bits), dtype(0)
    away = (x > zero) == (y > x)
    bits = view(x, word)
    moved = view(ufuncs.where(away, bits + word(1), bits - word(1)), dtype)
    moved = ufuncs.where(x == zero, ufuncs.copysign(view(word(1), dtype), y), moved)
    return ufuncs.where(ufuncs.isnan(x) | ufuncs.isnan(y), x + y, ufuncs.where(x == y, y, moved))


@universal
def spacing(x: Any, *, name: str | None = None) -> Array:
    """The distance from each number to the next one away from 0, with its sign (for f16: to the next one above); NaN for infinities.

    Example:
        >>> rd.algorithm(lambda a: rd.spacing(a)).interpret(np.array([1.0, -1.0]))
        array([ 2.22044605e-16, -2.22044605e-16])
    """

    def gap(a: Any) -> Any:
        (value,), dtype = _floats("rd.spacing", (a,))
        end = dtype(math.inf)
        if dtype is not f16:
            end = ufuncs.where(value < dtype(0), dtype(-math.inf), end)
        distance = _following(value, end, dtype) - value
        return as_weak(ufuncs.where(ufuncs.isinf(value), dtype(math.nan), distance), a)

    return elementwise(gap, [x], name=name)


@universal
def logaddexp2(x1: Any, x2: Any, *, name: str | None = None) -> Array:
    """The logarithm `log2(2**x1 + 2**x2)` without overflow, in the common float dtype.

    Example:
        >>> rd.algorithm(lambda a: rd.logaddexp2(a, a)).interpret(np.array([3.0, 2000.0]))
        array([   4., 2001.])
    """

    def added(a: Any, b: Any) -> Any:
        (x, y), dtype = _floats("rd.logaddexp2", (a, b))
        high, low = ufuncs.maximum(x, y), ufuncs.minimum(x, y)
        more = ufuncs.log1p(ufuncs.exp2(low - high)) * dtype(1 / math.log(2.0))
        return as_weak(high + ufuncs.where(low == high, dtype(1), more), a, b)

    return elementwise(added, [x1, x2], name=name)


@universal
def gcd(x1: Any, x2: Any, *, name: str | None = None) -> Array:
    """The greatest common divisor of the integers |x1| and |x2|, in their common dtype; 0 for two zeros.

    By Euclid's algorithm. DTypeError for other dtypes.

    Example:
        >>> rd.algorithm(lambda a: rd.gcd(a, 20)).interpret(np.array([12, -15, 0]))
        array([ 4,  5, 20])
    """
    return elementwise(lambda a, b: _integers("rd.gcd", a, b, _divisor), [x1, x2], name=name)


@universal
def lcm(x1: Any, x2: Any, *, name: str | None = None) -> Array:
    """The least common multiple of the integers |x1| and |x2|, wrapping in their common dtype; 0 where either is 0.

    Example:
        >>> rd.algorithm(lambda a: rd.lcm(a, 20)).interpret(np.array([12, -15, 0]))
        array([60, 60,  0])
    """

    def multiple(a: Array, b: Array) -> Array:
        divisor = _divisor(a, b)
        one = divisor.dtype(1)
        return a // ufuncs.maximum(divisor, one) * b

    return elementwise(lambda a, b: _integers("rd.lcm", a, b, multiple), [x1, x2], name=name)


def _integers(what: str, a: Any, b: Any, function: Callable[[Array, Array], Array]) -> Array:
    """A function of two unsigned magnitudes applied to integers of any signedness, in their common dtype."""
    _reals(what, a, b)
    dtype, _ = common_type((a, b))
    if not dtype.is_integer:
        remedy = "rd.i8(x)" if dtype is bool_ else "rd.i64(x)"
        raise DTypeError(complaint(f"{what} of {dtype}", why="it is defined for integers", remedy=remedy))
    word = unsigned(dtype.bits)
    x, y = (astype(ufuncs.absolute(_as_typed(v, dtype)), word) for v in (a, b))
    return astype(function(x, y), dtype)


def _as_typed(value: Array, dtype: DType) -> Array:
    return dtype(value) if value.weak == LITERAL else astype(value, dtype)


def _divisor(a: Array, b: Array) -> Array:
    nothing = a.dtype(0)
    return while_loop(lambda state: state[1] != nothing, lambda state: (state[1], state[0] % state[1]), (a, b))[0]
