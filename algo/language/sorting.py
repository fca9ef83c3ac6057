"""`rd.sort`, `rd.argsort` and `rd.unique`: stable orders, as one `Sort`. NaN comes last, −0.0 equals 0.0, False comes before True.

Complex numbers are sorted as NumPy sorts them, though they have no order: by real, then imaginary part, after a key that says which is NaN.
"""

from __future__ import annotations

from typing import Any

from raido.algo.graph import index
from raido.algo.graph.dtypes import i64, u8
from raido.algo.graph.expr import Expr, Sort, const
from raido.algo.language.complexes import Complex
from raido.algo.language.filtering import compress
from raido.algo.language.making import iota, replicate
from raido.algo.language.moves import array_of, astype, flatten, moved, normal_axis, reshape
from raido.algo.language.scanning import operands, scan
from raido.algo.language.scattering import bincount, scatter
from raido.algo.language.ufuncs import add, isnan, logical_and, logical_not, logical_or, not_equal
from raido.algo.trace.building import elements, elementwise, form_results, make_axes, structure
from raido.algo.trace.context import current, load
from raido.algo.trace.trees import leaves, map_leaves, rebuild_tuple, unflatten
from raido.algo.trace.value import Array
from raido.algo.trace.weak import each_weakness


def sort(a: Any, axis: int | None = -1, *, name: str | None = None) -> Array:
    """The elements along `axis` in increasing order; equal ones keep their order. None: of all elements, flattened.

    A tuple of arrays of one shape is sorted as tuples are, by the first array, then the second, and so on. Shapes and dtypes stay.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def ordered(a: rd.f32["n"]):
        ...     return rd.sort(a)
        >>> ordered.interpret(np.float32([3, np.nan, 1]))
        array([ 1.,  3., nan], dtype=float32)
    """
    given = structure(a)
    value, along, own, nodes = _sortable(_with_keys(given), axis, "rd.sort")
    form, weak = Sort(own, along, len(nodes), nodes), each_weakness(leaves(value))
    return _without_keys(given, unflatten(value, form_results(form, "sort", name, weak)))


def argsort(a: Any, axis: int | None = -1, *, name: str | None = None) -> Array:
    """The indices (i64) along `axis` that put the elements in increasing order; those of equal ones increase.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def order(a: rd.u8["n"]):
        ...     return rd.argsort(a)
        >>> order.interpret(np.array([3, 1, 2, 1], np.uint8))
        array([1, 3, 2, 0])
    """
    _, along, own, nodes = _sortable(_with_keys(structure(a)), axis, "rd.argsort")
    return form_results(Sort(own, along, len(nodes), (*nodes, own[along].var)), "argsort", name)[-1]


def unique(
    a: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    *,
    name: str | None = None,
) -> Any:
    """The distinct elements in increasing order, as NumPy gives them; all NaN count as one. Their number is decided by the data.

    With flags, a tuple with, in this order: where each first occurs in the flattened array, which one each element is (in the shape of
    `a`), how often each occurs; all i64.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def letters(a: rd.u8["n"]):
        ...     return rd.unique(a, return_counts=True)
        >>> letters.interpret(np.array([3, 1, 3], np.uint8))
        (array([1, 3], dtype=uint8), array([1, 2]))
    """
    given = structure(a)
    array = given if isinstance(given, Complex) else array_of(given, "rd.unique")
    keyed = _with_keys(flatten(array))
    value, along, own, nodes = _sortable(keyed, 0, "rd.unique")
    form, weak = Sort(own, along, len(nodes), (*nodes, own[0].var)), each_weakness(leaves(value))
    *sorted_keys, places = form_results(form, "sort", weak=weak)
    ordered = _without_keys(array, unflatten(keyed, sorted_keys))
    n = places.shape[0]
    before = lambda leaf: moved(leaf.extents, lambda i: load(leaf.node, (index.maximum(index.sub(i, 1), 0),)))
    previous = map_leaves(before, ordered)
    differs = not_equal(ordered, previous)
    if isinstance(array, Complex) or array.dtype.is_float:
        differs = logical_and(differs, logical_not(logical_and(isnan(ordered), isnan(previous))))
    first = logical_or(iota(n) == 0, differs)
    *kept, indices = compress(first, [*leaves(ordered), places], name)
    values = unflatten(ordered, kept)
    if not (return_index or return_inverse or return_counts):
        return values
    number = scan(add, 0, astype(first, i64)) - 1
    results = [values]
    if return_index:
        results.append(indices)
    if return_inverse:
        inverse = scatter(replicate(n, Array(const(i64, 0))), places, number, unique_indices=True)
        results.append(inverse if array.ndim == 1 else reshape(inverse, array.shape))
    if return_counts:
        results.append(bincount(number, values.shape[0]))
    return tuple(results)


def _with_keys(value: Any) -> Any:
    """A structure with a key before the parts of complex numbers: 0, 1 for a NaN in the imaginary part alone, 2 in the real, 3 in both."""
    if isinstance(value, Complex):
        key = lambda re, im: astype(isnan(re), u8) * 2 + astype(isnan(im), u8)
        return (elementwise(key, [value.real, value.imag]), value.real, value.imag)
    return rebuild_tuple(value, map(_with_keys, value)) if isinstance(value, tuple) else value


def _without_keys(like: Any, value: Any) -> Any:
    if isinstance(like, Complex):
        return Complex._make(value[1:])
    if not isinstance(like, tuple):
        return value
    return rebuild_tuple(like, [_without_keys(own, part) for own, part in zip(like, value, strict=True)])


def _sortable(a: Any, axis: int | None, what: str) -> tuple[Any, int, tuple[Any, ...], tuple[Expr, ...]]:
    """The arrays as a structure, the axis to sort along, all axes, and the values there."""
    value, extents = operands((a,), what)
    if axis is None:
        value = map_leaves(flatten, value)
        extents = leaves(value)[0].extents
        axis = 0
    along = normal_axis(axis, len(extents))
    own = make_axes(extents)
    with current().deeper():
        inner = elements(value, [one.var for one in own])
    return value, along, own, tuple(leaf.node for leaf in leaves(inner))
