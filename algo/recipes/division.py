"""Division and remainder of integers and floats, defined for every divisor, 0 and −1 included.

Floats: `fmod` is exact. Where the quotient is below 2**p, p the digits of the dtype, the truncated quotient is right or one too large, and
one fma gives the remainder. Else, with m and n the significands of |x| and |y| as integers of p digits and d the difference of their
exponents, the remainder is m 2**d mod n: 2**d by squaring, products modulo n by their rounded quotients and their errors (van der Hoeven,
Lecerf & Quintin, "Modular SIMD arithmetic in Mathemagix", ACM TOMS 43(1), 2016).
"""

from __future__ import annotations

from raido.algo.recipes.builder import (
    Value,
    bits_of,
    floor,
    fma,
    format_of,
    operate,
    rare,
    rint,
    two_product,
    two_to,
    where,
    with_sign_of,
)
from raido.algo.recipes.signs import copysign


def truncdiv(x: Value, y: Value) -> Value:
    """The quotient, rounded towards zero."""
    if x.dtype.is_float:
        return operate("trunc", x.dtype, x / y)
    return _divide_integers(x, y)[0]


def truncrem(x: Value, y: Value) -> Value:
    """The remainder of division rounded towards zero, which has the sign of `x`."""
    return fmod(x, y) if x.dtype.is_float else _divide_integers(x, y)[1]


def floordiv(x: Value, y: Value) -> Value:
    """The quotient, rounded down."""
    if x.dtype.is_float:
        return _divide_floats(x, y)[0]
    if (bits := _power_of_two(y)) is not None:
        return x.shift_right(bits)
    quotient, rest = _divide_integers(x, y)
    return quotient if x.dtype.kind == "u" else where(_is_above_floor(rest, y), quotient - 1, quotient)


def floormod(x: Value, y: Value) -> Value:
    """The remainder of division rounded down, which has the sign of `y`."""
    if x.dtype.is_float:
        return _divide_floats(x, y)[1]
    if _power_of_two(y) is not None:
        return x & y - 1
    rest = _divide_integers(x, y)[1]
    return rest if x.dtype.kind == "u" else where(_is_above_floor(rest, y), rest + y, rest)


def _power_of_two(y: Value) -> int | None:
    """The exponent k of an integer constant 2**k; None for any other value."""
    number = 0 if y.known is None else int(y.known)
    return number.bit_length() - 1 if number > 0 and number & (number - 1) == 0 else None


def _divide_integers(x: Value, y: Value) -> tuple[Value, Value]:
    """The quotient rounded towards zero and its remainder; 0 and 0 for divisor 0; wraps for divisor −1."""
    is_zero = y.equals(0)
    if x.dtype.kind == "u":
        quotient = x.quotient(where(is_zero, y.lift(1), y))
    else:
        is_minus = y.equals(-1)
        quotient = where(is_minus, -x, x.quotient(where(is_zero | is_minus, y.lift(1), y)))
    return where(is_zero, x.lift(0), quotient), where(is_zero, x.lift(0), x - quotient * y)


def _is_above_floor(rest: Value, y: Value) -> Value:
    """Whether the truncated quotient is one above the floor: the remainder is nonzero and its sign is not the divisor's."""
    return ((rest ^ y) < 0) & rest.differs(0)


def _divide_floats(x: Value, y: Value) -> tuple[Value, Value]:
    """The floor of the quotient and the remainder, step by step as `raido.algo.graph.primitives._float_divmod`."""
    exact = operate("fmod", x.dtype, x, y)
    quotient = (x - exact) / y
    nonzero = exact.differs(0.0)
    wrong = nonzero & ((y < 0.0) ^ (exact < 0.0))
    rest = where(nonzero, where(wrong, exact + y, exact), copysign(x.lift(0.0), y))
    quotient = where(wrong, quotient - 1.0, quotient)
    floored = floor(quotient)
    floored = where(quotient - floored > 0.5, floored + 1.0, floored)
    plain = x / y
    floored = where(quotient.differs(0.0), floored, copysign(x.lift(0.0), plain))
    by_zero = y.equals(0.0)
    return where(by_zero, plain, floored), where(by_zero, exact, rest)


def fmod(x: Value, y: Value) -> Value:
    """The exact remainder x - trunc(x / y) y, with the sign of x; NaN where x is infinite or y is 0."""
    layout = format_of(x)
    size, divisor = abs(x), abs(y)
    quotient = size / divisor
    near = fma(-operate("trunc", x.dtype, quotient), divisor, size)
    near = where(near < 0.0, near + divisor, near)
    usual = (quotient < 2.0**layout.mantissa) & (divisor < float("inf"))

    def unusual() -> Value:
        rest = where(size < divisor, size, _rest_of_large(size, divisor))
        defined = (size < float("inf")) & (divisor > 0.0)
        return where(defined, with_sign_of(rest, x), float("nan"))

    return rare(~usual, with_sign_of(near, x), unusual)


def _rest_of_large(size: Value, divisor: Value) -> Value:
    """The remainder size mod divisor for finite 0 < divisor ≤ size."""
    layout = format_of(size)
    (m, exponent), (n, low) = _integer_and_exponent(size), _integer_and_exponent(divisor)
    distance = exponent - low
    squarings = 4 if layout.mantissa < 32 else 6  # 2**(distance >> squarings) then is below n
    power = two_to(distance.shift_right(squarings), size.dtype)
    for bit in reversed(range(squarings)):
        power = _product_modulo(power, power, n)
        twice = power - (n - power)
        power = where((distance & (1 << bit)).equals(0), power, where(twice < 0.0, twice + n, twice))
    rest = _product_modulo(power, where(m < n, m, m - n), n)
    half = low.shift_right(1)
    return rest * two_to(half, size.dtype) * two_to(low - half, size.dtype)


def _integer_and_exponent(size: Value) -> tuple[Value, Value]:
    """The pair (m, e) with m 2**e = size > 0, m an integer with all digits of the dtype."""
    layout = format_of(size)
    small = size < layout.smallest_normal
    bits = bits_of(where(small, size * 2.0 ** (layout.mantissa + 1), size))
    above = layout.bias + layout.mantissa
    m = ((bits & ((1 << layout.mantissa) - 1)) | (above << layout.mantissa)).bitcast(size.dtype)
    return m, bits.shift_right(layout.mantissa) - where(small, bits.lift(above + layout.mantissa + 1), above)


def _product_modulo(a: Value, b: Value, n: Value) -> Value:
    """The product a b mod n for integers a, b < n < 2**p."""
    product, error = two_product(a, b)
    quotient = rint(product / n)  # off by less than 2, and product - quotient n is exact
    rest = fma(-quotient, n, product)
    # The error is below n: with the rest on its other side of zero no sum needs more than p digits.
    rest = where(error < 0.0, where(rest < 0.0, rest + n, rest), where(rest > 0.0, rest - n, rest)) + error
    return where(rest < 0.0, rest + n, rest)
