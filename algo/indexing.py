"""`a[...]` and `rd.gather`: NumPy's indexing on traced arrays.

Integers and traced scalars drop their dimension, slices with literal or size bounds clamp as NumPy's do, integer arrays gather (their
shapes broadcast together; their dimensions stand where NumPy puts them). An index that is not provably inside makes a checked load.
A literal counts from the end when negative; a traced value does not.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from raido.algo import index, ufuncs
from raido.algo.building import broadcast, broadcast_element, make_axes, new_form, structure, wrap
from raido.algo.context import current, is_size
from raido.algo.dtypes import bool_, i64
from raido.algo.errors import DTypeError, IndexOutOfRange, ShapeError, TraceError
from raido.algo.expr import Axis, Constant, Expr
from raido.algo.locations import complaint
from raido.algo.promotion import lift
from raido.algo.scalars import cast
from raido.algo.stencil import boundaries, load_with_boundary
from raido.algo.trees import map_leaves
from raido.algo.types import describe
from raido.algo.value import COUNTER, LITERAL, STRONG, Array


def get_item(array: Array, key: Any) -> Any:
    """`array[key]`."""
    return index_with(array, key, None)


def gather(a: Any, index: Any, mode: Any = "raise", *, name: str | None = None) -> Any:
    """`a[index]` with a rule for what is out of range: "raise", or any boundary of a stencil (`rd.constant(v)` included).

    `index` is an integer array or scalar, or a tuple of them for the leading dimensions; a tuple of arrays is gathered leaf by leaf.
    """
    key = index if isinstance(index, tuple) else (index,)
    return map_leaves(lambda leaf: index_with(leaf, key, mode, name), structure(a))


class _Drop:
    """A dimension read at one place."""

    __slots__ = ("place",)

    def __init__(self, place: Expr) -> None:
        self.place = place


class _Range:
    """A dimension read at start + step · i for i below extent."""

    __slots__ = ("extent", "start", "step")

    def __init__(self, start: Expr, step: int, extent: Expr) -> None:
        self.start, self.step, self.extent = start, step, extent


class _Take:
    """A dimension read where an integer array says."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array


class _New:
    """A new dimension of size 1."""


def index_with(array: Array, key: Any, mode: Any, name: str | None = None) -> Any:
    """`array[key]`, where indices by arrays and scalars follow `mode`; None: checked, negative literals from the end."""
    if array.ndim == 0:
        new = [k for k in (key if isinstance(key, tuple) else (key,)) if k is not Ellipsis]
        if all(k is None for k in new):
            axes = make_axes([index.as_index(1)] * len(new))
            return wrap(new_form(axes, (array.node,), "move")[0], array.weak) if new else array
        raise ShapeError(complaint("a scalar has no elements to index"))
    parts = _parts(array, key, mode is None)
    rules: list[Any] = ["raise"] * array.ndim if mode is None else boundaries(mode, array.ndim, extra=("raise",))
    takes = [k for k, part in enumerate(parts) if isinstance(part, _Take)]
    arrays = [parts[k].array for k in takes]
    shared = broadcast(arrays, "the index arrays") if arrays else ()
    # NumPy: the gathered dimensions stand where the index arrays stood if those are neighbours, else in front
    advanced = [k for k, part in enumerate(parts) if isinstance(part, (_Take, _Drop))] if arrays else []
    together = bool(advanced) and advanced == list(range(advanced[0], advanced[-1] + 1))
    extents: list[Expr] = []
    owners: list[int | str] = []
    if arrays and not together:
        extents += shared
        owners += ["shared"] * len(shared)
    for k, part in enumerate(parts):
        if isinstance(part, _Range):
            extents.append(part.extent)
            owners.append(k)
        elif isinstance(part, _New):
            extents.append(index.as_index(1))
            owners.append(k)
        elif together and k == advanced[0]:
            extents += shared
            owners += ["shared"] * len(shared)
    axes = make_axes(extents)
    gathered = [axis.var for axis, own in zip(axes, owners, strict=True) if own == "shared"]
    by_part = {own: axis for axis, own in zip(axes, owners, strict=True)}
    places, safe = _places(array, parts, by_part, gathered, mode)
    body = load_with_boundary(array, places, rules, safe)
    if not axes:
        return Array(body, array.weak)
    plain = not arrays and (mode is None or all(safe))
    return wrap(new_form(axes, (body,), "move" if plain else "gather", name)[0], array.weak)


def _places(
    array: Array, parts: list[Any], axes: dict[Any, Axis], gathered: list[Any], mode: Any
) -> tuple[list[Expr], list[bool]]:
    """The index in each dimension of the array, and whether it is known to be inside."""
    trace = current()
    places: list[Expr] = []
    safe: list[bool] = []
    for k, part in enumerate(parts):
        if isinstance(part, _New):
            continue
        extent = array.extents[len(places)]
        if isinstance(part, _Range):
            places.append(index.add(part.start, index.mul(axes[k].var, part.step)))
            safe.append(True)
            continue
        place = part.place if isinstance(part, _Drop) else _index_value(broadcast_element(part.array, gathered))
        known = trace.inside(place, extent)
        if not known and mode is None:
            _refuse_outside(place, extent, len(places), array)
        if not known and mode not in (None, "raise"):
            trace.at_least_one(extent, f"dimension {len(places)} of an array to gather from")
        places.append(place)
        safe.append(known)
    return places, safe


def _refuse_outside(place: Expr, extent: Expr, dimension: int, array: Array) -> None:
    value, n = index.constant_value(place), index.constant_value(extent)
    if value is not None and (value < 0 or (n is not None and value >= n)):
        shape = describe(array.dtype, array.extents)
        raise IndexOutOfRange(complaint(f"index {value} is out of range for dimension {dimension} of {shape}"))


def _index_value(value: Array) -> Expr:
    """A scalar index as an i64 expression."""
    node = value.node if value.dtype is i64 else cast(Array(value.node, STRONG), i64)
    return index.canonical(node)


def _parts(array: Array, key: Any, from_end: bool) -> list[Any]:
    """What happens to each dimension, the new ones included."""
    keys = list(key) if isinstance(key, tuple) else [key]
    used = sum(1 for k in keys if k is not None and k is not Ellipsis)
    ellipses = sum(1 for k in keys if k is Ellipsis)
    if used > array.ndim or ellipses > 1:
        what = "more than one `...`" if ellipses > 1 else f"{used} indices"
        raise ShapeError(complaint(f"{what} for {describe(array.dtype, array.extents)} of rank {array.ndim}"))
    rest = [slice(None)] * (array.ndim - used)
    if ellipses:
        at = next(i for i, k in enumerate(keys) if k is Ellipsis)
        keys[at : at + 1] = rest
    else:
        keys += rest
    parts: list[Any] = []
    dimension = 0
    for k in keys:
        if k is None:
            parts.append(_New())
            continue
        parts.append(_part(k, array.extents[dimension], from_end))
        dimension += 1
    return parts


def _part(key: Any, extent: Expr, from_end: bool) -> Any:
    if isinstance(key, slice):
        return _slice(key, extent)
    if isinstance(key, (Array, np.ndarray, np.generic, list)):
        if isinstance(key, np.integer) or (isinstance(key, np.ndarray) and key.ndim == 0 and key.dtype.kind in "iu"):
            return _literal(int(key), extent, from_end)
        value = lift(np.asarray(key)) if isinstance(key, list) and _plain_list(key) else lift(key)
        if from_end:
            value = _from_end(value, extent)
        if value.dtype is bool_:
            raise TraceError(complaint("a boolean mask as an index", remedy="rd.where(mask, a, b) keeps the shape"))
        if not value.dtype.is_integer:
            raise DTypeError(complaint(f"an index is an integer, not {value.dtype}"))
        if value.ndim:
            return _Take(value)
        if value.weak == LITERAL:
            return _literal(int(value.node.value), extent, from_end)
        return _Drop(_index_value(value))
    if isinstance(key, bool):
        raise TraceError(complaint("a bool as an index"))
    if isinstance(key, tuple):
        raise TraceError(complaint("a tuple inside an index"))
    try:
        return _literal(operator.index(key), extent, from_end)
    except TypeError:
        raise TraceError(complaint(f"an index cannot be {key!r}")) from None


def _from_end(value: Array, extent: Expr) -> Array:
    """A constant index array with its negative entries counted from the end; others as they are."""
    if not isinstance(value.node, Constant) or value.node.dtype.kind != "i":
        return value
    known = value.node.data.array
    if not (known < 0).any():
        return value
    n = index.constant_value(extent)
    if n is not None:
        return lift(np.where(known < 0, known.astype(np.int64) + n, known))
    return ufuncs.where(value < 0, value + Array(extent, COUNTER), value)


def _plain_list(key: list[Any]) -> bool:
    return all(isinstance(k, int) for k in key)


def _literal(value: int, extent: Expr, from_end: bool) -> _Drop:
    return _Drop(index.add(extent, value) if value < 0 and from_end else index.as_index(value))


def _slice(key: slice, n: Expr) -> _Range:
    step = 1 if key.step is None else _plain_step(key.step)
    if step < 0:
        return _backward(key, n, step)
    start = _bound(key.start, n)
    stop = n if key.stop is None else _bound(key.stop, n)
    first = index.as_index(0) if start is None else start
    # no clamping of the start to n: where it matters, the slice is empty
    last = index.minimum(n, stop) if key.stop is not None and stop is not None else n
    span = index.sub(last, first)
    count = index.maximum(index.floordiv(index.add(span, step - 1), step), 0)
    return _Range(first, step, count)


def _backward(key: slice, n: Expr, step: int) -> _Range:
    last = index.sub(n, 1)
    start = last if key.start is None else index.minimum(_raw_bound(key.start, n), last)
    stop = index.as_index(-1) if key.stop is None else index.maximum(_raw_bound(key.stop, n), -1)
    span = index.sub(start, stop)
    count = index.maximum(index.floordiv(index.add(span, -step - 1), -step), 0)
    return _Range(start, step, count)


def _plain_step(step: Any) -> int:
    try:
        value = operator.index(step)
    except TypeError as error:
        raise TraceError(complaint("the step of a slice must be an int constant")) from error
    if value == 0:
        raise ShapeError(complaint("the step of a slice cannot be 0"))
    return value


def _raw_bound(bound: Any, n: Expr) -> Expr:
    """A bound as NumPy counts it, from the end where it is negative; not yet clamped."""
    if isinstance(bound, Array):
        if bound.ndim or not bound.dtype.is_integer:
            raise DTypeError(complaint("the bound of a slice is an integer"))
        node = _index_value(bound)
        if not is_size(node):
            raise TraceError(
                complaint(
                    "a slice whose bounds depend on the data",
                    why="its size would not be known before the program runs",
                    remedy="rd.tabulate(count, lambda i: a[lo + i]) with a count that is a size",
                )
            )
        return node
    value = operator.index(bound)
    return index.add(n, value) if value < 0 else index.as_index(value)


def _bound(bound: Any, n: Expr) -> Expr | None:
    if bound is None:
        return None
    return index.maximum(_raw_bound(bound, n), 0)


class Chosen:
    """One dimension of a selection: the index `start` alone (extent None), or start + step · i for i below extent."""

    __slots__ = ("extent", "start", "step")

    def __init__(self, start: Expr, step: int, extent: Expr | None) -> None:
        self.start, self.step, self.extent = start, step, extent


def selection(array: Array, key: Any) -> list[Chosen]:
    """What `array.at[key]` selects, dimension by dimension."""
    chosen: list[Chosen] = []
    for part in _parts(array, key, True):
        if isinstance(part, _Drop):
            extent = array.extents[len(chosen)]
            if not current().inside(part.place, extent):
                _refuse_outside(part.place, extent, len(chosen), array)
            chosen.append(Chosen(part.place, 1, None))
        elif isinstance(part, _Range):
            chosen.append(Chosen(part.start, part.step, part.extent))
        else:
            raise TraceError(complaint("`.at` takes integers and slices, not None or arrays of indices"))
    return chosen
