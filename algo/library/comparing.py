"""NumPy's comparisons within a tolerance and of whole arrays, and the replacement of values that are not finite."""

from __future__ import annotations

from typing import Any

import numpy as np

from raido.algo.graph.dtypes import f64, largest
from raido.algo.language import ufuncs
from raido.algo.language.combinators import tabulate
from raido.algo.language.complexes import Complex
from raido.algo.language.indexing import gather
from raido.algo.language.moves import astype, named
from raido.algo.language.reductions import all as all_of
from raido.algo.language.stencil import constant
from raido.algo.library.operands import numbers_of
from raido.algo.trace.building import elementwise
from raido.algo.trace.promotion import lift
from raido.algo.trace.trees import leaves, map_leaves
from raido.algo.trace.value import Array
from raido.algo.trace.weak import as_weak


def isclose(
    a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False, *, name: str | None = None
) -> Array:
    """Whether `|a - b| <= atol + rtol * |b|`, element by element, with broadcasting: bool_. An infinity is close only to itself.

    `equal_nan`: NaN is close to NaN.

    Example:
        >>> rd.algorithm(lambda a: rd.isclose(a, 1.0)).interpret(np.array([1.0, 1.0000001, 1.1]))
        array([ True,  True, False])
    """

    def close(x: Any, y: Any, relative: Any, absolute: Any) -> Any:
        wide = y if isinstance(y, Complex) or y.dtype.is_float else astype(y, f64)
        within = ufuncs.absolute(x - wide) <= absolute + relative * ufuncs.absolute(wide)
        result = (within & ufuncs.isfinite(wide)) | (x == wide)
        return result | (ufuncs.isnan(x) & ufuncs.isnan(wide)) if equal_nan else result

    return elementwise(close, [numbers_of(v, "rd.isclose") for v in (a, b, rtol, atol)], name=name)


def allclose(
    a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False, *, name: str | None = None
) -> Array:
    """Whether all elements are close in the sense of `rd.isclose`: one bool_, True for empty arrays.

    Example:
        >>> rd.algorithm(lambda a: rd.allclose(a, 1.0)).interpret(np.array([1.0, 1.0000001]))
        np.True_
    """
    return all_of(isclose(a, b, rtol, atol, equal_nan), name=name)


def array_equal(a1: Any, a2: Any, equal_nan: bool = False, *, name: str | None = None) -> Array:
    """Whether two arrays have one shape and equal elements: one bool_. Sizes may differ, and may be known only at the call.

    `equal_nan`: NaN equals NaN.

    Example:
        >>> rd.algorithm(lambda a, b: rd.array_equal(a, b)).interpret(np.array([1, 2]), np.array([1, 2, 3]))
        np.False_
    """
    x, y = (numbers_of(a, "rd.array_equal") for a in (a1, a2))
    first, second = leaves(x)[0], leaves(y)[0]
    differ = any(
        isinstance(m, int) and isinstance(n, int) and m != n for m, n in zip(first.shape, second.shape, strict=False)
    )
    if first.ndim != second.ndim or differ:
        result = lift(np.bool_(False))
        return result if name is None else named(result, name)

    def same(left: Any, right: Any) -> Any:
        equal = left == right
        return equal | (ufuncs.isnan(left) & ufuncs.isnan(right)) if equal_nan else equal

    if first.ndim == 0:
        return elementwise(same, [x, y], name=name)
    alike = lift(np.bool_(True))
    for m, n in zip(first.shape, second.shape, strict=True):
        alike = ufuncs.logical_and(alike, ufuncs.equal(m, n))
    other = map_leaves(lambda leaf: _resized(leaf, first), y)  # of any sizes; `alike` is whether they fit
    equal = all_of(elementwise(same, [x, other]))
    return elementwise(ufuncs.logical_and, [alike, equal], name=name)


def _resized(array: Array, like: Array) -> Array:
    """The array cut, or padded with zeros, to the shape of `like`."""
    return tabulate(like.shape, lambda *p: gather(array, p, mode=constant(0)))


def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None, *, name: str | None = None
) -> Array:
    """The elements with NaN replaced by `nan`, and infinities by `posinf` and `neginf`, by default the extreme finite values of the dtype.

    Shape and dtype stay; integers are unchanged. `copy` is NumPy's and has no effect: arrays are immutable.

    Example:
        >>> rd.algorithm(lambda a: rd.nan_to_num(a, posinf=9.0)).interpret(np.array([np.nan, np.inf, 1.0]))
        array([0., 9., 1.])
    """

    def number(value: Array) -> Array:
        if not value.dtype.is_float:
            return value
        most = largest(value.dtype)

        def replace(given: Any, otherwise: float) -> Array:
            number = lift(otherwise if given is None else given)
            return as_weak(astype(number, value.dtype), number)

        finite = ufuncs.where(ufuncs.isnan(value), replace(nan, 0.0), value)
        finite = ufuncs.where(value == lift(np.inf), replace(posinf, most), finite)
        return ufuncs.where(value == lift(-np.inf), replace(neginf, -most), finite)

    return elementwise(lambda value: map_leaves(number, value), [numbers_of(x, "rd.nan_to_num")], name=name)
