"""`a.at[key].set(v)` and the other updates: a new array that differs from `a` at `key`.

Integers and slices make one `Generate`; arrays of indices, masks, slices whose bounds depend on data or whose length is compared with that
of the value at run time and, over whole arrays, indices known only at run time make one `Update`, which writes only the selected elements.

The body of a `Generate` tests at every index whether it is selected: a comparison for an index, a range test for a slice. An index that is
not provably in range is read through a checked load of 0, 1, …, n − 1, so that it fails as `a[i]` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from raido.algo.errors import DTypeError, ShapeError, TraceError
from raido.algo.graph import index
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Axis, Expr, Op, Result, Update, const, fresh
from raido.algo.graph.size_numbers import is_size
from raido.algo.language import ufuncs
from raido.algo.language.complexes import kind_of
from raido.algo.language.indexing import Chosen, resolve_key, selection
from raido.algo.language.moves import moved
from raido.algo.language.reductions import highest, lowest
from raido.algo.trace.building import (
    Zipped,
    broadcast_element,
    collect,
    form_results,
    make_axes,
    owner,
    structure,
)
from raido.algo.trace.combining import trace_operator
from raido.algo.trace.context import current, load
from raido.algo.trace.existential import joined_size
from raido.algo.trace.locations import complaint, is_dropped, user_frame
from raido.algo.trace.promotion import takes
from raido.algo.trace.tracebacks import bordered
from raido.algo.trace.types import describe
from raido.algo.trace.unfinished import Unfinished
from raido.algo.trace.value import STRONG, Array, is_scalar
from raido.algo.trace.weak import strengthened, weakness_of

_NEUTRAL: dict[Any, Callable[[Any], Any]] = {
    ufuncs.add: lambda _: 0,
    ufuncs.multiply: lambda _: 1,
    ufuncs.minimum: highest,
    ufuncs.maximum: lowest,
}


class At(Unfinished):
    """The form `a.at`, which a key completes to `a.at[key]`."""

    __slots__ = ("array",)
    _display_name = "a.at"

    def __init__(self, array: Array) -> None:
        super().__init__()
        self.array = array

    def __getitem__(self, key: Any) -> Changed:
        return Changed(self.array, key)

    if not TYPE_CHECKING:  # so that an assignment is an error for type checkers, too

        def __setitem__(self, key: Any, value: Any) -> None:
            raise TraceError(complaint("arrays do not change", remedy="b = a.at[i].set(v)"))


@bordered
class Changed(Unfinished):
    """The form `a.at[key]`, which an update completes."""

    __slots__ = ("array", "key")
    _display_name = "a.at[key]"

    def __init__(self, array: Array, key: Any) -> None:
        super().__init__()
        self.array, self.key = array, key

    def set(self, value: Any, *, name: str | None = None) -> Array:
        """Returns the array with `value` (broadcast, of the array's dtype) at the key."""
        return _updated(self.array, self.key, value, None, name)

    def add(self, value: Any, *, name: str | None = None) -> Array:
        """Returns the array with `value` added at the key."""
        return _updated(self.array, self.key, value, ufuncs.add, name)

    def multiply(self, value: Any, *, name: str | None = None) -> Array:
        """Returns the array multiplied by `value` at the key."""
        return _updated(self.array, self.key, value, ufuncs.multiply, name)

    def min(self, value: Any, *, name: str | None = None) -> Array:
        """Returns the array with the smaller of its element and `value` at the key."""
        return _updated(self.array, self.key, value, ufuncs.minimum, name)

    def max(self, value: Any, *, name: str | None = None) -> Array:
        """Returns the array with the larger of its element and `value` at the key."""
        return _updated(self.array, self.key, value, ufuncs.maximum, name)


def _updated(array: Array, key: Any, value: Any, operation: Callable[..., Any] | None, name: str | None) -> Array:
    if is_dropped(user_frame()):
        raise TraceError(
            complaint("the changed array is dropped", why="arrays do not change", remedy="a = a.at[i].set(v)")
        )
    given = value if isinstance(value, Zipped) else structure(value)
    if isinstance(given, (tuple, Zipped)):
        raise TraceError(complaint(f"{kind_of(given)} where one array of {array.dtype} is updated"))
    new: Array = given
    both = weakness_of([array, new])
    if array.weak != STRONG and new.weak == STRONG and takes(array, new.dtype):
        array = strengthened(array, new.dtype)
    changed = _changed(array, key, new, operation, name)
    return Array(changed.node, both)


def _changed(array: Array, key: Any, new: Array, operation: Callable[..., Any] | None, name: str | None) -> Array:
    trace = current()
    if new.dtype is not array.dtype:
        if not takes(new, array.dtype):
            raise DTypeError(
                complaint(
                    f"{new.dtype} into an array of {array.dtype}", remedy=f".astype(rd.{array.dtype}) on the value"
                )
            )
        new = strengthened(new, array.dtype)
    parts = selection(array, key)
    if parts is None or (trace.depth == 0 and _is_small(parts, array)):
        return _scattered(array, key, new, operation, name)
    extents = [part.extent for part in parts if part.extent is not None]
    fitted = _fitted(new, extents)
    if fitted is None:
        chosen = describe(array.dtype, tuple(extents))
        raise ShapeError(complaint(f"{describe(new.dtype, new.extents)} does not fit into {chosen}"))
    if any(size is not extent for size, extent in zip(fitted, extents, strict=True)):
        return _scattered(array, key, new, operation, name)
    axes = make_axes(array.extents)
    tests: list[Expr] = []
    coordinates: list[Expr] = []
    for part, axis in zip(parts, axes, strict=True):
        e, n = axis.var, axis.extent
        if part.extent is None:
            position = part.start
            if not trace.inside(position, n):
                position = _checked(position, n)
            tests.append(Op("eq", bool_, (e, position)))
            continue
        offset = index.sub(e, part.start) if part.step > 0 else index.sub(part.start, e)
        step = abs(part.step)
        coordinates.append(index.floordiv(offset, step))
        if part.extent is n and step == 1 and part.step > 0:
            continue
        if not trace.assumptions.nonnegative(offset):
            tests.append(Op("ge", bool_, (offset, const(i64, 0))))
        if step > 1:
            tests.append(Op("eq", bool_, (index.mod(offset, step), const(i64, 0))))
        last = index.mul(part.extent, step)
        if not trace.assumptions.less(offset, last):
            tests.append(Op("lt", bool_, (offset, last)))
    old = load(array.node, tuple(axis.var for axis in axes))
    here = _value_at(new, coordinates)
    if operation is not None:
        with trace.deeper():
            here = operation(Array(old), Array(here)).node
    if not tests:
        body = here
    else:
        match = tests[0]
        for test in tests[1:]:
            match = Op("logical_and", bool_, (match, test))
        body = Op("select", array.dtype, (match, here, old))
    return collect(axes, Array(body, STRONG), "update", name, named_axes=True)


def _is_small(parts: list[Chosen], array: Array) -> bool:
    """Whether the key selects few elements: an index known only at run time selects one of many, and slices beside it are whole."""
    single = [part for part in parts if part.extent is None]
    whole = all(
        part.extent is None or (part.extent is n and part.step == 1)
        for part, n in zip(parts, array.extents, strict=True)
    )
    return whole and any(not is_size(part.start) for part in single)


def _scattered(array: Array, key: Any, new: Array, operation: Callable[..., Any] | None, name: str | None) -> Array:
    """Returns the update at every index of `array[key]`, checked; where an index occurs more than once, the last value wins."""
    axes, coordinates, safe, _ = resolve_key(array, key)
    fitted = _fitted(new, [axis.extent for axis in axes])
    if fitted is None:
        shapes = describe(array.dtype, tuple(axis.extent for axis in axes))
        raise ShapeError(complaint(f"{describe(new.dtype, new.extents)} does not fit into {shapes}"))
    axes = tuple(Axis(axis.var, extent) for axis, extent in zip(axes, fitted, strict=True))
    value = broadcast_element(new, [axis.var for axis in axes]).node
    dest, indices, check = (array.node,), tuple(coordinates), not all(safe)
    if not axes and operation is not None:  # of one element, nothing is combined but what is written out
        with current().deeper():
            value, operation = operation(Array(load(array.node, indices, check)), Array(value)).node, None
    axes = axes or make_axes([index.as_index(1)])  # one element: one iteration
    if operation is None:
        form = Update(dest, axes, indices, (), (), (), (), (value,), "set", check, "")
    else:
        operator = trace_operator(operation, Array(fresh("old", array.dtype)), (), "an update")
        start = const(array.dtype, _NEUTRAL[operation](array.dtype))
        form = Update(dest, axes, indices, *operator.fields, (start,), (value,), "combine", check, operator.monoid)
    return form_results(form, "update", name)[0]


def _fitted(new: Array, extents: Sequence[Expr]) -> list[Expr] | None:
    """Returns the sizes of the selection, with checks against the value's sizes where these depend on data; None where the value
    cannot fit."""
    if new.ndim > len(extents):
        return None
    sizes = list(extents)
    for k, n in enumerate(new.extents, len(extents) - new.ndim):
        if index.constant_value(n) == 1:
            continue
        if index.constant_value(extents[k]) == 1:
            return None
        axis = k - len(extents) + new.ndim
        shapes = f"{describe(new.dtype, new.extents)} and {describe(new.dtype, tuple(extents))}"
        sizes[k] = joined_size(
            extents[k], n, "a dimension of the places of the update", owner(new, axis, "its value"), shapes
        )
    return sizes


def _checked(position: Expr, extent: Expr) -> Expr:
    """Returns the index with a check that it is below `extent`."""
    counting = moved([extent], lambda i: i).node
    assert isinstance(counting, Result)
    return load(counting, (position,), True)


def _value_at(value: Array, coordinates: list[Expr]) -> Expr:
    """Returns the new value for an index of the array; any value where the index is not selected."""
    if is_scalar(value):
        return value.node
    chosen: list[Expr] = []
    for e, n in zip(coordinates[len(coordinates) - value.ndim :], value.extents, strict=True):
        if index.constant_value(n) == 1:
            chosen.append(index.as_index(0))
        elif current().inside(e, n):
            chosen.append(e)
        else:
            chosen.append(Op("clamp_index", i64, (e, n)))
    return load(value.node, tuple(chosen))
