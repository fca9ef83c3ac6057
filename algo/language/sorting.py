"""`rd.sort` and `rd.argsort`: stable orders, as one `Sort`. NaN comes last, −0.0 equals 0.0, False comes before True.

Complex numbers, which have no order, are sorted as in NumPy: by a key that tells which part is NaN, then the real, then the imaginary part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from raido.algo.graph.dtypes import u8
from raido.algo.graph.expr import Expr, Sort
from raido.algo.language.complexes import Complex
from raido.algo.language.moves import astype, flatten, normal_axis
from raido.algo.language.scanning import operands
from raido.algo.language.ufuncs import invert, isnan, negative
from raido.algo.trace.building import Several, elements, elementwise, form_results, make_axes, structure
from raido.algo.trace.context import current, load
from raido.algo.trace.trees import leaves, map_leaves, rebuild_tuple, unflatten
from raido.algo.trace.value import Array
from raido.algo.trace.weak import each_weakness


@overload
def sort(
    a: Several,
    axis: int | None = -1,
    kind: Any = None,
    *,
    stable: Any = None,
    descending: Any = None,
    name: str | None = None,
) -> Several: ...
@overload
def sort(
    a: Any,
    axis: int | None = -1,
    kind: Any = None,
    *,
    stable: Any = None,
    descending: Any = None,
    name: str | None = None,
) -> Array: ...
def sort(
    a: Any,
    axis: int | None = -1,
    kind: Any = None,
    *,
    stable: Any = None,
    descending: Any = None,
    name: str | None = None,
) -> Any:
    """The elements along `axis`, or of the flattened array for None, in increasing order, or in decreasing order for `descending=True`;
    stable.

    A tuple of arrays of one shape is sorted as tuples are, by the first array, then the second, and so on. Shapes and dtypes stay. NaN
    comes last in both orders. `kind` and `stable` are NumPy's and have no effect: equal elements always keep their order.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def ordered(a: rd.f32["n"]):
        ...     return rd.sort(a)
        >>> ordered.interpret(np.float32([3, np.nan, 1]))
        array([ 1.,  3., nan], dtype=float32)
    """
    given = structure(a)
    if descending:
        return _mirrored(sort(_mirrored(given), axis, name=name))
    value, along, own, nodes = sortable(with_keys(given), axis, "rd.sort")
    form, weak = Sort(own, along, len(nodes), nodes), each_weakness(leaves(value))
    return without_keys(given, unflatten(value, form_results(form, "sort", name, weak)))


def argsort(
    a: Any,
    axis: int | None = -1,
    kind: Any = None,
    *,
    stable: Any = None,
    descending: Any = None,
    name: str | None = None,
) -> Array:
    """The indices (i64) along `axis` that put the elements in increasing order, or in decreasing order for `descending=True`.

    In both orders, the indices of equal elements increase, and those of NaN come last. `kind` and `stable` are NumPy's and have no effect:
    the order is always stable.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def order(a: rd.u8["n"]):
        ...     return rd.argsort(a)
        >>> order.interpret(np.array([3, 1, 2, 1], np.uint8))
        array([1, 3, 2, 0])
        >>> rd.algorithm(lambda a: rd.argsort(a, descending=True)).interpret(np.array([3, 1, 2, 1], np.uint8))
        array([0, 2, 1, 3])
    """
    given = _mirrored(structure(a)) if descending else structure(a)
    _, along, own, nodes = sortable(with_keys(given), axis, "rd.argsort")
    return form_results(Sort(own, along, len(nodes), (*nodes, own[along].var)), "argsort", name)[-1]


def sorted_with(a: Any, carried: Sequence[Array], positions: bool, what: str) -> tuple[Any, list[Array]]:
    """Returns a structure of rank 1 in order, and the `carried` arrays in the same order; with `positions`, the former indices as a last
    array."""
    keyed = with_keys(a)
    value, along, own, nodes = sortable(keyed, 0, what)
    with current().deeper():
        moved = tuple(load(leaf.node, (own[0].var,)) for leaf in carried)
    own_positions = (own[0].var,) if positions else ()
    form = Sort(own, along, len(nodes), (*nodes, *moved, *own_positions))
    results = form_results(form, "sort", weak=each_weakness([*leaves(value), *carried]))
    return without_keys(a, unflatten(keyed, results[: len(nodes)])), results[len(nodes) :]


def _mirrored(value: Any) -> Any:
    """Returns the structure with numbers in the opposite order, NaN still NaN: −x of floats, ~x of integers and booleans; its own inverse."""
    return map_leaves(lambda leaf: negative(leaf) if leaf.dtype.is_float else invert(leaf), value)


def with_keys(value: Any) -> Any:
    """Returns a structure with a key before the parts of complex numbers: 0, 1 for a NaN in the imaginary part alone, 2 in the real, 3 in
    both."""
    if isinstance(value, Complex):
        key = lambda re, im: astype(isnan(re), u8) * 2 + astype(isnan(im), u8)
        return (elementwise(key, [value.real, value.imag]), value.real, value.imag)
    return rebuild_tuple(value, map(with_keys, value)) if isinstance(value, tuple) else value


def without_keys(like: Any, value: Any) -> Any:
    """Returns a sorted structure without the keys of complex numbers, in the nesting of `like`, which has no keys."""
    if isinstance(like, Complex):
        return Complex._make(value[1:])
    if not isinstance(like, tuple):
        return value
    return rebuild_tuple(like, [without_keys(own, part) for own, part in zip(like, value, strict=True)])


def sortable(a: Any, axis: int | None, what: str) -> tuple[Any, int, tuple[Any, ...], tuple[Expr, ...]]:
    """Returns the arrays as a structure, the axis to sort along, all axes, and the values at their variables."""
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
