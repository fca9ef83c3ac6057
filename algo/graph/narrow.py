"""Conversions of NumPy arrays to and from f16 and bf16, the floats that are computed in f32, each rounded once.

NumPy rounds once in conversions to f16. `ml_dtypes` converts through f32 to bf16, and so rounds f64 and large integers twice. Here such a
number is first rounded *to odd*: if f32 cannot represent it, it becomes the neighbour whose last bit is 1, which lies on the same side of
every tie of bf16 (Boldo & Melquiond, "Emulation of FMA and correctly rounded sums", IEEE TC 57(4), 2008, section 3).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from raido.algo.graph.dtypes import NARROW, bf16, dtype_of

_EXACT = 1 << 53  # integers up to here are f64 numbers
_DROPPED = 11  # lowest bits of larger ones


def widen(array: np.ndarray) -> np.ndarray:
    """An array of f16 or bf16 as f32, exactly; others as they are."""
    small = array.dtype.itemsize == 2 and array.dtype.kind not in "iu"
    return array.astype(np.float32) if small and dtype_of(array.dtype) in NARROW else array


def convert(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """`array.astype(dtype, copy=False)`, rounded only once for bf16.

    Example:

        >>> import ml_dtypes
        >>> between = np.array(1 + 2**-8 + 2**-30)  # a little more than half-way from 1 to the next number
        >>> convert(between, np.dtype(ml_dtypes.bfloat16)), between.astype(ml_dtypes.bfloat16)
        (array(1.00781, dtype=bfloat16), array(1, dtype=bfloat16))
    """
    if array.dtype == dtype or dtype_of(dtype) is not bf16:
        return array.astype(dtype, copy=False)
    array = widen(array)
    whole = array.dtype.kind in "iu"
    if whole and array.dtype.itemsize == 8:
        array = _integers_to_odd(array)
    if array.dtype.itemsize > (2 if whole else 4):
        array = _to_odd(array.astype(np.float64))
    return array.astype(np.float32, copy=False).astype(dtype)


def _to_odd(wide: np.ndarray) -> np.ndarray:
    """f64 numbers as f32, rounded to odd."""
    with np.errstate(over="ignore"):
        nearest = np.atleast_1d(wide).astype(np.float32)
    back = nearest.astype(np.float64)
    bits = nearest.view(np.int32)
    inexact = (wide < back) | (wide > back)
    direction = np.where(np.abs(wide) > np.abs(back), np.int32(1), np.int32(-1))
    moved = bits + np.where(inexact & (bits & 1 == 0), direction, np.int32(0))
    return moved.view(np.float32).reshape(wide.shape)


def _integers_to_odd(array: np.ndarray) -> np.ndarray:
    """64-bit integers; those that f64 cannot represent are rounded to odd multiples of a power of two, which it can."""
    unit, zero = array.dtype.type(1 << _DROPPED), array.dtype.type(0)
    rest = array & (unit - array.dtype.type(1))
    odd = (array - rest) | np.where(rest != 0, unit, zero)
    return np.where((array > _EXACT) | (array < -_EXACT), odd, array)
