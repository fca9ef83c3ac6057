"""Arithmetic of complex scalars, by NumPy's algorithms; `complex_functions` applies it to arrays.

Products are (ar·br − ai·bi, ar·bi + ai·br). Division is Smith's, as in NumPy: the parts of the divisor are scaled by their ratio, so that
squares do not overflow, and each operation is rounded. (Robert L. Smith, Algorithm 116: Complex division, CACM 5(8), 1962.)
"""

from __future__ import annotations

from typing import Any

from raido.algo.graph.expr import Op
from raido.algo.language import ufuncs
from raido.algo.language.complexes import Complex, as_complex, of_one_type
from raido.algo.trace.promotion import lift
from raido.algo.trace.value import Array


def pair(re: Any, im: Any) -> Complex:
    """Returns the complex number with these two parts."""
    return Complex._make((re, im))


def one_like(z: Complex) -> Complex:
    """Returns 1 in the type of `z`."""
    return of_one_type((as_complex(lift(1)), z))[0]


def add(a: Complex, b: Complex) -> Complex:
    """a + b."""
    return pair(a.real + b.real, a.imag + b.imag)


def subtract(a: Complex, b: Complex) -> Complex:
    """a − b."""
    return pair(a.real - b.real, a.imag - b.imag)


def multiply(a: Complex, b: Complex) -> Complex:
    """a · b."""
    return pair(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


def scaled(z: Complex, factor: Any) -> Complex:
    """Returns the number with both parts multiplied by a real factor."""
    return pair(z.real * factor, z.imag * factor)


def rounded_sum(a: Array, x: Array, y: Array) -> Array:
    """Returns a + x · y, rounded after each operation: the product is negated and subtracted, which prevents contraction to an fma."""
    product = ufuncs.multiply(x, y)
    return ufuncs.subtract(a, Array(Op("neg", product.dtype, (product.node,)), product.weak))


def divide(a: Complex, b: Complex) -> Complex:
    """Returns a / b; for a zero divisor, the parts of `a` divided by 0."""
    size, other = ufuncs.absolute(b.real), ufuncs.absolute(b.imag)
    first = size >= other
    large, small = ufuncs.where(first, b.real, b.imag), ufuncs.where(first, b.imag, b.real)
    zero = ufuncs.logical_and(size == 0, other == 0)
    ratio = small / large
    scale = 1.0 / ufuncs.where(zero, size, rounded_sum(large, small, ratio))  # 1 / |0| for a zero divisor, as in NumPy
    x, y = ufuncs.where(first, a.real, a.imag), ufuncs.where(first, a.imag, a.real)
    re = ufuncs.where(zero, a.real, rounded_sum(x, y, ratio))
    turned = ufuncs.negative(a.real)
    im = rounded_sum(ufuncs.where(first, a.imag, turned), ufuncs.where(first, turned, a.imag), ratio)
    return pair(re * scale, ufuncs.where(zero, a.imag, im) * scale)


def reciprocal(a: Complex) -> Complex:
    """Returns 1 / a, by NumPy's algorithm."""
    first = ufuncs.absolute(a.imag) <= ufuncs.absolute(a.real)
    large, small = ufuncs.where(first, a.real, a.imag), ufuncs.where(first, a.imag, a.real)
    ratio = small / large
    scale = rounded_sum(large, small, ratio)
    one, other = 1.0 / scale, ratio / scale
    return pair(ufuncs.where(first, one, other), ufuncs.negative(ufuncs.where(first, other, one)))


def whole_power(a: Complex, exponent: int) -> Complex:
    """Returns a to an integer power, by repeated squaring."""
    base, result = a, one_like(a)
    one, started, left = result, False, abs(exponent)
    while left:
        if left & 1:
            result, started = (multiply(result, base) if started else base), True
        left >>= 1
        base = multiply(base, base) if left else base
    return divide(one, result) if exponent < 0 else result


def equal(a: Complex, b: Complex) -> Array:
    """Whether a = b, in both parts."""
    return (a.real == b.real) & (a.imag == b.imag)


def not_equal(a: Complex, b: Complex) -> Array:
    """Whether a ≠ b, in at least one part."""
    return (a.real != b.real) | (a.imag != b.imag)


def truth(a: Complex) -> Array:
    """Whether a number is not zero."""
    return (a.real != 0) | (a.imag != 0)
