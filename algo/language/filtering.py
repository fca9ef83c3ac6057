"""`rd.filter`, `rd.partition` and boolean masks: selection of the elements that satisfy a predicate, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

from raido.algo.errors import DTypeError, ShapeError, TraceError
from raido.algo.graph import index
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Axis, Count, Expr, Filter, Result
from raido.algo.language.complexes import kind_of
from raido.algo.language.moves import flatten, moved, reshape
from raido.algo.trace.building import (
    Elementwise,
    Single,
    Tuples,
    call,
    element,
    elements,
    form_results,
    make_axes,
    outer_extent,
    structure,
)
from raido.algo.trace.context import current, load
from raido.algo.trace.existential import joined_size
from raido.algo.trace.locations import complaint
from raido.algo.trace.trees import leaves, unflatten
from raido.algo.trace.types import describe
from raido.algo.trace.value import COUNTER, Array, is_scalar
from raido.algo.trace.weak import each_weakness, weakness_of


@overload
def filter(pred: Callable[[Array], Any], array: Single, /, *, name: str | None = None) -> Array: ...
@overload
def filter(pred: Callable[..., Any], first: Tuples | list[Any], /, *arrays: Any, name: str | None = None) -> Any: ...
@overload
def filter(pred: Elementwise[Any], first: Any, second: Any, /, *arrays: Any, name: str | None = None) -> Any: ...
def filter(pred: Callable[..., Any], *arrays: Any, name: str | None = None) -> Any:
    """Returns the elements for which `pred` holds, in order: one array, or as many as are given, all of one size.

    `pred` takes one argument for each array, an element (a row where the rank is higher; a tuple for a tuple of arrays), and returns one
    bool_. The size of the results depends on data: it is `.shape[0]` of any of them, at most that of the arrays, and serves as any size
    does; inside a function of elements it may not leave the function. Raises `ShapeError` where the outer sizes provably differ.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def positive(a: rd.f32["n"]):
        ...     kept = rd.filter(lambda x: x > 0, a)
        ...     return kept, kept.shape[0]
        >>> positive.interpret(np.float32([3, -1, 2]))
        (array([3., 2.], dtype=float32), np.int64(2))
    """
    value, axis, test = _tested(pred, arrays, "rd.filter")
    return _filtered(value, axis, test, name)


@overload
def partition(pred: Callable[[Array], Any], array: Single, /, *, name: str | None = None) -> tuple[Array, Array]: ...
@overload
def partition(
    pred: Callable[..., Any], first: Tuples | list[Any], /, *arrays: Any, name: str | None = None
) -> tuple[Any, Any]: ...
@overload
def partition(
    pred: Elementwise[Any], first: Any, second: Any, /, *arrays: Any, name: str | None = None
) -> tuple[Any, Any]: ...
def partition(pred: Callable[..., Any], *arrays: Any, kth: Any = None, name: str | None = None) -> Any:
    """Returns `(kept, rest)`: the elements for which `pred` holds and those for which it does not, both in order, as in `rd.filter`.

    NumPy's `partition`, of an array around its `kth` element, is another function: it raises `TraceError`, which names `rd.sort`.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def halves(a: rd.i64["n"]):
        ...     return rd.partition(lambda x: x % 2 == 0, a)
        >>> halves.interpret(np.array([1, 2, 3, 4]))
        (array([2, 4]), array([1, 3]))
    """
    if kth is not None or not callable(pred):
        remedy = "rd.sort(a), in which every element stands where it is the k-th; rd.argsort(a) for the indices"
        raise TraceError(complaint("rd.partition takes a predicate, and arrays", remedy=remedy))
    value, axis, test = _tested(pred, arrays, "rd.partition")
    flat: list[Array] = leaves(value)
    kept: list[Array] = []
    rest: list[Array] = []
    for array, count in _filtered_arrays(flat, axis, test, True, "partition", name):
        trailing = array.extents[1:]
        after = lambda *p, a=array, n=count: load(a.node, (index.add(p[0], n), *p[1:]))
        kept.append(moved([count, *trailing], lambda *p, a=array: load(a.node, p), weak=array.weak))
        rest.append(moved([index.sub(axis.extent, count), *trailing], after, weak=array.weak))
    return unflatten(value, kept), unflatten(value, rest)


def compress(mask: Array, arrays: Sequence[Array], name: str | None = None) -> list[Array]:
    """Returns the elements of each array, in row-major order, where a mask over its leading dimensions holds."""
    if mask.dtype is not bool_:
        raise DTypeError(complaint(f"a mask is an array of bool_, not {mask.dtype}"))
    flat: list[Array] = []
    sizes: list[Any] = [None] * mask.ndim
    for array in arrays:
        if array.ndim < mask.ndim:
            shapes = f"{describe(mask.dtype, mask.extents)} for {describe(array.dtype, array.extents)}"
            raise ShapeError(complaint(f"a mask of higher rank than the array: {shapes}"))
        for k, (a, b) in enumerate(zip(mask.extents, array.extents, strict=False)):
            owners = f"dimension {k} of the mask", f"dimension {k} of the array"
            sizes[k] = joined_size(a if sizes[k] is None else sizes[k], b, *owners)
    for array in arrays:
        rest = array.extents[mask.ndim :]
        if mask.ndim == 1:
            flat.append(array)
            continue
        rows = [Array(extent, COUNTER) for extent in rest]
        flat.append(reshape(_resized(array, [*sizes, *rest]), (_total(sizes), *rows)))
    lined = mask if mask.ndim == 1 else flatten(_resized(mask, sizes))
    axis = make_axes([lined.extents[0] if mask.ndim > 1 else sizes[0]])[0]
    with current().deeper():
        test = element(lined, [axis.var]).node
    return leaves(_filtered(tuple(flat), axis, test, name))


def positions_where(mask: Array) -> list[Array]:
    """Returns the indices where a mask holds, one i64 array for each of its dimensions."""
    counters = [moved(mask.extents, lambda *p, k=k: p[k]) for k in range(mask.ndim)]
    return compress(mask, counters)


def _resized(array: Array, sizes: Sequence[Expr]) -> Array:
    """Returns the array with its sizes replaced by expressions known to be equal to them."""
    return array if array.extents == tuple(sizes) else moved(sizes, lambda *p: load(array.node, p), weak=array.weak)


def _total(sizes: Sequence[Expr]) -> Array:
    total: Expr = index.as_index(1)
    for extent in sizes:
        total = index.mul(total, extent)
    return Array(total, COUNTER)


def _tested(pred: Callable[..., Any], arrays: Sequence[Any], what: str) -> tuple[Any, Axis, Expr]:
    """Returns the arrays as a structure, the axis of their elements, and the predicate of an element."""
    if not any(callable(given) for given in (pred, *arrays)):
        why = "its first argument is the predicate, a function of an element"
        raise TraceError(
            complaint(f"{what} without a predicate", why=why, remedy="a[mask] for a mask, an array of bool_")
        )
    given = [structure(a) for a in arrays]
    axis = make_axes([outer_extent(given, what, f"{what}(f, a)")])[0]
    value = call(pred, *(elements(a, [axis.var]) for a in given))
    if isinstance(value, tuple) or not is_scalar(value) or value.dtype is not bool_:
        got = kind_of(value) if isinstance(value, tuple) else describe(value.dtype, value.extents)
        raise TraceError(complaint(f"the predicate of {what} returns one bool_, not {got}", remedy="a comparison"))
    return (given[0] if len(given) == 1 else tuple(given)), axis, value.node


def _filtered(value: Any, axis: Axis, test: Expr, name: str | None) -> Any:
    kept = [array for array, _ in _filtered_arrays(leaves(value), axis, test, False, "filter", name)]
    return unflatten(value, kept)


def _filtered_arrays(
    flat: list[Array], axis: Axis, test: Expr, split: bool, kind: str, name: str | None
) -> list[tuple[Array, Expr]]:
    """Returns each array filtered (or partitioned), with the common count.

    Where the shapes of their rows differ, the indices are filtered, and the rows loaded at these.
    """
    alike = all(leaf.extents[1:] == flat[0].extents[1:] for leaf in flat)
    rows = make_axes(flat[0].extents[1:]) if alike else ()
    indices = (axis.var, *(row.var for row in rows))
    values = tuple(load(leaf.node, indices) for leaf in flat) if alike else (axis.var,)
    form = Filter((axis, *rows), test, values, split)
    *sorted_out, _ = form_results(form, kind, name, each_weakness(flat) if alike else ())
    count = Count(Result(form, len(values)), axis.extent)
    if not alike:
        where = sorted_out[0]
        outer = where.extents[0]
        sorted_out = [
            moved(
                [outer, *leaf.extents[1:]],
                lambda *p, a=leaf: load(a.node, (load(where.node, p[:1]), *p[1:])),
                weak=weakness_of([leaf]),
            )
            for leaf in flat
        ]
    return [(array, count) for array in sorted_out]
