"""Exact fused multiply-add on NumPy arrays: `fma(a, b, c)` is a*b + c rounded once, to nearest even.

NumPy has no such operation, and interpreters must agree with compiled code bit for bit, so it is built from error-free
transformations.  Invariants: correctly rounded for every input, denormals, overflow, signed zeros, infinities and NaN
included.

f16, bf16 and f32: the product is exact in f64; the sum is rounded *to odd* in f64 and then to nearest in the narrow type, which avoids
double rounding (Boldo & Melquiond, "Emulation of FMA and correctly rounded sums", IEEE TC 57(4), 2008, section 3).

f64: the product as an exact pair (Dekker 1971), the sum as in the same paper, section 5.  Operands whose exponents could
overflow or underflow on the way are scaled first, and results below the normal range are rounded at their last place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from raido.algo.graph.dtypes import MANTISSA, dtype_of
from raido.algo.graph.narrow import convert

Array = NDArray[Any]
_SPLITTER = np.float64(134217729.0)  # 2**27 + 1


def fma(a: Any, b: Any, c: Any) -> Any:
    """Returns a * b + c with one rounding, elementwise with broadcasting; all of one float dtype.

    >>> bool(fma(np.float64(1 + 2**-30), np.float64(1 - 2**-30), np.float64(-1.0)) == -(2.0**-60))
    True
    """
    a, b, c = np.asarray(a), np.asarray(b), np.asarray(c)
    dtype = a.dtype
    if b.dtype != dtype or c.dtype != dtype or dtype_of(dtype) not in MANTISSA:
        raise TypeError(f"fma takes three floats of one dtype, not {a.dtype}, {b.dtype}, {c.dtype}")
    with np.errstate(all="ignore"):
        if dtype == np.float64:
            return _fma_f64(*np.broadcast_arrays(a, b, c))[()]
        product, wide = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
        return convert(_add_to_odd(product, wide), dtype)[()]


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its exact error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product and its exact error (Dekker, Veltkamp); no overflow or underflow inside."""
    total = a * b
    scaled = _SPLITTER * a
    a_high = scaled - (scaled - a)
    a_low = a - a_high
    scaled = _SPLITTER * b
    b_high = scaled - (scaled - b)
    b_low = b - b_high
    return total, a_low * b_low - (((total - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _add_to_odd(a: Array, b: Array) -> Array:
    """a + b in f64, rounded to odd: an inexact sum becomes the neighbour whose last bit is 1."""
    total, error = _two_sum(a, b)
    total = np.atleast_1d(total)
    bits = total.view(np.int64)
    adjust = np.isfinite(total) & (error != 0) & ((bits & 1) == 0)
    direction = np.where((error > 0) == (total > 0), 1, -1)
    return (bits + np.where(adjust, direction, 0)).view(np.float64).reshape(np.shape(error))


def _fma_moderate(a: Array, b: Array, c: Array) -> Array:
    """fma for operands with which nothing overflows or underflows."""
    high, low = _two_product(a, b)
    tail, rest = _two_sum(c, low)
    head, middle = _two_sum(high, tail)
    return head + _add_to_odd(rest, middle)


def _is_moderate(x: Array, low: float, high: float) -> Array:
    size = np.abs(x)
    return (size < high) & ((size > low) | (size == 0))


def _fma_f64(a: Array, b: Array, c: Array) -> Array:
    plain = a * b + c  # right for zeros, infinities and NaN
    tame = _is_moderate(a, 1e-120, 1e120) & _is_moderate(b, 1e-120, 1e120) & _is_moderate(c, 1e-250, 1e250)
    fused = _fma_moderate(*(np.where(tame, x, 1.0) for x in (a, b, c)))
    wild = ~tame & np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (a != 0) & (b != 0)
    result = np.where(tame & (fused != 0), fused, plain)
    result = np.where(np.isinf(c) & np.isfinite(a) & np.isfinite(b), c, result)  # even where a * b overflows
    if wild.any():
        result[wild] = _fma_scaled(a[wild], b[wild], c[wild])
    return result


def _fma_scaled(a: Array, b: Array, c: Array) -> Array:
    """fma of finite a, b, c with a*b != 0, with the exponents handled separately."""
    (a, ea), (b, eb), (c, ec) = np.frexp(a), np.frexp(b), np.frexp(c)
    exponent = (ea + eb).astype(np.int64)
    # An addend this far above or below the product counts only by its sign or its sticky bit.
    gap = np.clip(np.where(c == 0, 0, ec - exponent), -220, 120)
    exponent = np.where(c == 0, exponent, np.where(gap == 120, ec - 120, exponent))
    high, low = _two_product(a, b)
    tail, rest = _two_sum(np.ldexp(c, gap), low)
    head, middle = _two_sum(high, tail)
    rest = _add_to_odd(rest, middle)
    normal = head + rest
    # Below the normal range the last place is 2**-1074: adding this constant rounds there, once.
    scale = np.clip(-1074 - exponent, -1000, 900)
    anchor = np.copysign(np.ldexp(1.0, np.clip(scale + 52, -1000, 1000)), normal)
    rounded, error = _two_sum(anchor, head)
    denormal = (rounded + _add_to_odd(error, rest)) - anchor
    tiny = np.frexp(normal)[1] + exponent < -1021
    value = np.where(tiny, denormal, normal)
    # An exact zero is +0; a result that vanishes by underflow keeps its sign.
    return np.where(value == 0, np.where(normal == 0, 0.0, np.copysign(0.0, normal)), _scale(value, exponent))


def _scale(x: Array, exponent: Array) -> Array:
    """x * 2**exponent where that is exact or overflows, in steps that stay within range."""
    mantissa, own = np.frexp(x)
    total = own + exponent
    return np.ldexp(
        np.ldexp(mantissa, np.clip(total, -1021, 1024)), np.clip(total - np.clip(total, -1021, 1024), -60, 2)
    )
