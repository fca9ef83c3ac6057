"""Rounding to float formats that no array has: tf32."""

from __future__ import annotations

from typing import Any

from raido.algo.errors import DTypeError
from raido.algo.graph.dtypes import f32
from raido.algo.graph.tf32 import rounded
from raido.algo.language.moves import array_of
from raido.algo.trace.building import elementwise
from raido.algo.trace.locations import complaint
from raido.algo.trace.value import Array


def round_to_tf32(a: Any, *, name: str | None = None) -> Array:
    """The elements of f32 rounded to tf32, as f32: to the nearest of 11 significant bits, ties to even. DTypeError for another dtype.

    Matrix units of CUDA can compute the product of two such arrays, `rd.matmul(rd.round_to_tf32(a), rd.round_to_tf32(b))`.

    Example:
        >>> rd.algorithm(lambda a: rd.round_to_tf32(a)).interpret(np.array([1.0004, 1.0006], np.float32))
        array([1.       , 1.0009766], dtype=float32)
    """
    array = array_of(a, "rd.round_to_tf32")
    if array.dtype is not f32:
        raise DTypeError(complaint(f"rd.round_to_tf32 of {array.dtype}", remedy=".astype(rd.f32)"))
    return elementwise(lambda x: Array(rounded(x.node)), [array], kind="elementwise", name=name)
