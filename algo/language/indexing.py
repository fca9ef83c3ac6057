"""`a[...]` and `rd.gather`: NumPy's indexing on traced arrays.

Integers and traced scalars drop their dimension, slices with literal or size bounds clamp as NumPy's do, integer arrays gather (their
shapes broadcast together; their dimensions are placed as in NumPy). An index that is not provably in range makes a checked load. A negative
literal counts from the end; a negative traced value does not.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from raido.algo.errors import DTypeError, IndexOutOfRange, ShapeError, TraceError
from raido.algo.graph import index
from raido.algo.graph.dtypes import bool_, i64, u64
from raido.algo.graph.expr import Axis, Const, Constant, Expr, Op, const
from raido.algo.graph.faults import unsigned_kind
from raido.algo.language import ufuncs
from raido.algo.language.combinators import extent_of
from raido.algo.language.complexes import Complex, kind_of
from raido.algo.language.filtering import compress, positions_where
from raido.algo.language.joining import stack
from raido.algo.language.moves import moved
from raido.algo.language.slicing import Range, index_value, read_slice
from raido.algo.language.stencil import Fill, boundaries, for_leaves, load_with_boundary
from raido.algo.trace.building import broadcast, broadcast_element, elementwise, make_axes, new_form, structure, wrap
from raido.algo.trace.context import current, load
from raido.algo.trace.existential import checked, counted, decided_by_data, nonempty_size
from raido.algo.trace.locations import complaint
from raido.algo.trace.promotion import lift
from raido.algo.trace.trees import leaves, map_leaves, unflatten
from raido.algo.trace.types import describe
from raido.algo.trace.value import COUNTER, LITERAL, Array
from raido.algo.trace.whole_numbers import LARGEST, literal_index, reduce_to_period


def get_item(array: Array, key: Any) -> Any:
    """Returns `array[key]`."""
    return index_with(array, key, None)


def index_structure(arrays: Any, key: Any) -> Any:
    """Returns every array, or window of a stencil, of a structure indexed by `key`; a mask selects from all of them together."""
    if _is_mask(key):
        mask = lift(np.asarray(key) if isinstance(key, list) else key)
        return unflatten(arrays, compress(mask, leaves(arrays)))
    return map_leaves(lambda leaf: leaf[key], arrays)


def gather(a: Any, index: Any, mode: Any = "raise", *, name: str | None = None) -> Array:
    """Returns `a[index]` with a rule for indices out of range: "raise", or any boundary of a stencil (`rd.constant(v)` included).

    `index` is an integer array or scalar, or a tuple of them for the leading dimensions; a tuple of arrays is gathered leaf by leaf.

    Example:
        >>> rd.algorithm(lambda a, i: rd.gather(a, i, mode="clamp")).interpret(np.array([3, 1, 2]), np.array([0, 7, -1]))
        array([3, 2, 3])
    """
    key = index if is_sequence_key(index) else (index,)
    given = structure(a)
    modes = for_leaves(mode, given)
    return unflatten(given, [index_with(leaf, key, own, name) for leaf, own in zip(leaves(given), modes, strict=True)])


def is_sequence_key(key: Any) -> bool:
    """Whether a key is a sequence with one part for each dimension."""
    return isinstance(key, tuple) and not isinstance(key, Complex)


_RULES = {"wrap": "wrap_index", "clip": "clamp_index"}


def index_inside(indices: Any, size: Any, dimension: int, mode: str) -> Array:
    """Returns integers as i64 indices of a dimension of that size, by NumPy's `mode`: "raise" checks each, "wrap" wraps around, "clip"
    clamps."""
    if mode != "raise" and mode not in _RULES:
        raise TraceError(complaint(f"the mode of an index is 'raise', 'wrap' or 'clip', not {mode!r}"))
    extent = extent_of(size)

    def brought(value: Array) -> Array:
        if not value.dtype.is_integer:
            raise DTypeError(complaint(f"an index is an integer, not {value.dtype}"))
        if mode == "raise":
            position = index_value(value)
            if current().inside(position, extent):
                return Array(position)
            _refuse(position, extent, dimension, f"size {index.text(extent)}")
            holds = Op(
                "logical_and", bool_, (Op("ge", bool_, (position, const(i64, 0))), Op("lt", bool_, (position, extent)))
            )
            details = (const(i64, dimension), position, extent)
            return Array(checked(position, holds, unsigned_kind("index", position), details))
        rule, some = _RULES[mode], index.maximum(extent, 1)
        return Array(Op(rule, i64, (reduce_to_period(value, rule, some), some)))

    return elementwise(brought, [indices])


class _Scalar:
    """A dimension read at one index, `position`; `value` is the index in its own integer type, None for most literals."""

    __slots__ = ("position", "value")

    def __init__(self, position: Expr, value: Array | None = None) -> None:
        self.position, self.value = position, value


class _Gather:
    """A dimension read at the indices in an integer array; `size` is an exclusive upper bound of the indices, where one is known."""

    __slots__ = ("array", "size")

    def __init__(self, array: Array, size: Expr | None = None) -> None:
        self.array, self.size = array, size


class _NewAxis:
    """A new dimension of size 1."""


def index_with(array: Array, key: Any, mode: Any, name: str | None = None) -> Any:
    """Returns `array[key]`, where indices by arrays and scalars follow `mode`; None: they are checked, and negative literals count from the
    end."""
    if array.ndim == 0:
        new = [k for k in (key if is_sequence_key(key) else (key,)) if k is not Ellipsis]
        if all(k is None for k in new):
            axes = make_axes([index.as_index(1)] * len(new))
            return wrap(new_form(axes, (array.node,), "move")[0], array.weak) if new else array
        remedy = "the value itself: a function of rd.map gets the numbers of an array of one dimension, and the rows of others"
        raise ShapeError(complaint("a scalar has no elements to index", remedy=remedy))
    if mode is None and _is_mask(key):
        return compress(lift(np.asarray(key) if isinstance(key, list) else key), [array], name)[0]
    rules: list[Any] = ["raise"] * array.ndim if mode is None else boundaries(mode, array.ndim, extra=("raise",))
    axes, indices, safe, arrays = resolve_key(array, key, None if mode is None else rules)
    sizes = list(array.extents)
    for k, (rule, known) in enumerate(zip(rules, safe, strict=True)):
        if not known and rule != "raise" and not isinstance(rule, Fill):
            sizes[k] = nonempty_size(sizes[k], k, f"dimension {k} of an array to gather from")
    body = load_with_boundary(array, indices, rules, safe, sizes)
    if not axes:
        return Array(body, array.weak)
    plain = not arrays and (mode is None or all(safe))
    return wrap(new_form(axes, (body,), "move" if plain else "gather", name)[0], array.weak)


def resolve_key(array: Array, key: Any, rules: Any = None) -> tuple[tuple[Axis, ...], list[Expr], list[bool], bool]:
    """Returns the axes of `array[key]`, the index in each dimension of the array, whether each is known to be in range, and whether arrays
    index.

    `rules` hold the treatment of indices out of range, one for each dimension; for None, they are checked.
    """
    parts = _parts(array, key, rules is None)
    takes = [k for k, part in enumerate(parts) if isinstance(part, _Gather)]
    arrays = [parts[k].array for k in takes]
    shared = broadcast(arrays, "the index arrays") if arrays else ()
    # NumPy: the gathered dimensions stand where the index arrays stood if those are neighbours, else in front
    advanced = [k for k, part in enumerate(parts) if isinstance(part, (_Gather, _Scalar))] if arrays else []
    together = bool(advanced) and advanced == list(range(advanced[0], advanced[-1] + 1))
    extents: list[Expr] = []
    owners: list[int | str] = []
    if arrays and not together:
        extents += shared
        owners += ["shared"] * len(shared)
    for k, part in enumerate(parts):
        if isinstance(part, Range):
            extents.append(part.extent)
            owners.append(k)
        elif isinstance(part, _NewAxis):
            extents.append(index.as_index(1))
            owners.append(k)
        elif together and k == advanced[0]:
            extents += shared
            owners += ["shared"] * len(shared)
    axes = make_axes(extents)
    gathered = [axis.var for axis, own in zip(axes, owners, strict=True) if own == "shared"]
    by_part = {own: axis for axis, own in zip(axes, owners, strict=True)}
    indices, safe = _indices(array, parts, by_part, gathered, rules)
    return axes, indices, safe, bool(arrays)


def _indices(
    array: Array, parts: list[Any], axes: dict[Any, Axis], gathered: list[Any], rules: Any
) -> tuple[list[Expr], list[bool]]:
    """Returns the index in each dimension of the array, and whether it is known to be in range."""
    trace = current()
    indices: list[Expr] = []
    safe: list[bool] = []
    for k, part in enumerate(parts):
        if isinstance(part, _NewAxis):
            continue
        extent = array.extents[len(indices)]
        if isinstance(part, Range):
            indices.append(index.add(part.start, index.mul(axes[k].var, part.step)))
            safe.append(part.safe)
            continue
        value: Any = part.value if isinstance(part, _Scalar) else broadcast_element(part.array, gathered)
        position = part.position if isinstance(part, _Scalar) else index_value(value)
        if value is not None and rules is not None:
            position = reduce_to_period(value, rules[len(indices)], extent)
        known = trace.inside(position, extent)
        if isinstance(part, _Gather) and part.size is not None:
            trace.equal_sizes(part.size, extent, "a dimension of the mask", f"dimension {len(indices)} of the array")
            known = True
        if not known and rules is None:
            _refuse_outside(position, extent, len(indices), array)
        indices.append(position)
        safe.append(known)
    return indices, safe


def _refuse_outside(position: Expr, extent: Expr, dimension: int, array: Array) -> None:
    _refuse(position, extent, dimension, describe(array.dtype, array.extents))


def _refuse(position: Expr, extent: Expr, dimension: int, shape: str) -> None:
    """Raises `IndexOutOfRange` for an index that is known to be out of range."""
    value, n = index.constant_value(position), index.constant_value(extent)
    if value is not None and (value < 0 or (n is not None and value >= n)):
        raise IndexOutOfRange(complaint(f"index {value} is out of range for dimension {dimension} of {shape}"))


def _parts(array: Array, key: Any, from_end: bool) -> list[Any]:
    """Returns the selection in each dimension, new dimensions included."""
    keys = [part for k in (key if is_sequence_key(key) else (key,)) for part in _unmasked(k)]
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
            parts.append(_NewAxis())
            continue
        parts.append(_part(k, array.extents[dimension], from_end))
        dimension += 1
    return parts


def _is_mask(key: Any) -> bool:
    if isinstance(key, list):
        return bool(key) and all(isinstance(k, bool) for k in key)
    if not isinstance(key, (Array, np.ndarray)) or key.ndim == 0:
        return False
    return key.dtype is bool_ or key.dtype == np.bool_


def _unmasked(key: Any) -> list[Any]:
    """Returns a mask as the arrays of the indices where it holds; any other key alone."""
    if not _is_mask(key):
        return [key]
    mask = lift(np.asarray(key) if isinstance(key, list) else key)
    return [_Gather(where, n) for where, n in zip(positions_where(mask), mask.extents, strict=True)]


def _part(key: Any, extent: Expr, from_end: bool) -> Any:
    if isinstance(key, _Gather):
        return _fitting(key, extent)
    if isinstance(key, slice):
        return read_slice(key, extent)
    if isinstance(key, (Array, np.ndarray, np.generic, list)):
        if isinstance(key, np.integer) or (isinstance(key, np.ndarray) and key.ndim == 0 and key.dtype.kind in "iu"):
            return _literal(int(key), extent, from_end)
        value = _listed(key, extent, from_end) if isinstance(key, list) else lift(key)
        if from_end:
            value = _from_end(value, extent)
        if value.dtype is bool_:
            raise TraceError(complaint("one bool_ as an index", remedy="rd.where(p, a, b), or rd.cond"))
        if not value.dtype.is_integer:
            remedy = "i.astype(rd.i64); in rd.loop the index of an iteration is the first parameter, body(i, state)"
            raise DTypeError(complaint(f"an index is an integer, not {value.dtype}", remedy=remedy))
        if value.ndim:
            return _Gather(value)
        if value.weak == LITERAL and isinstance(value.node, Const):
            return _literal(int(value.node.value), extent, from_end)
        return _Scalar(index_value(value), value)
    if isinstance(key, bool):
        raise TraceError(complaint("a bool as an index"))
    if isinstance(key, tuple):
        raise TraceError(complaint(f"{kind_of(key)} inside an index"))
    try:
        return _literal(operator.index(key), extent, from_end)
    except TypeError:
        remedy = "an int, a size, a slice, None, …, an array of integers or booleans; rd.i64(x) of a float"
        raise TraceError(complaint(f"an index cannot be {key!r}", remedy=remedy)) from None


def _fitting(take: _Gather, extent: Expr) -> _Gather:
    """Returns the indices of a mask, with a check that its size is that of the dimension where one of the two depends on data."""
    size, trace = take.size, current()
    if size is None or trace.assumptions.equal(size, extent) or not (decided_by_data(size) or decided_by_data(extent)):
        return take
    trace.refuse_different(size, extent, "a dimension of the mask", "a dimension of the array")
    (length,) = take.array.extents
    held = counted(checked(length, Op("eq", bool_, (size, extent)), "size", (size, extent)), length)
    return _Gather(moved([held], lambda i: load(take.array.node, (i,))), extent)


def _from_end(value: Array, extent: Expr) -> Array:
    """Returns a constant index array with its negative entries counted from the end; other arrays unchanged."""
    if not isinstance(value.node, Constant) or value.node.dtype.kind != "i":
        return value
    known = value.node.data.array
    if not (known < 0).any():
        return value
    n = index.constant_value(extent)
    if n is not None:
        return lift(np.where(known < 0, known.astype(np.int64) + n, known))
    return ufuncs.where(value < 0, value + Array(extent, COUNTER), value)


def _listed(key: list[Any], extent: Expr, from_end: bool) -> Array:
    """Returns the index array of a nested list of integers and traced scalars; its negative literals count from the end."""
    if all(isinstance(k, int) for k in key) or not key:
        return lift(np.asarray(key, None if key else np.int64))

    def one(k: Any) -> Any:
        if isinstance(k, list):
            return _listed(k, extent, from_end)
        counts_back = from_end and isinstance(k, int) and k < 0
        return Array(index.add(extent, k), COUNTER) if counts_back else k

    return stack([one(k) for k in key])


def _literal(value: int, extent: Expr, from_end: bool) -> _Scalar:
    if LARGEST < value < 1 << 64 and not from_end:
        wide = Array(const(u64, value))
        return _Scalar(index_value(wide), wide)
    if from_end and abs(value) > LARGEST:
        raise IndexOutOfRange(complaint(f"index {value} is out of range for a dimension of size {index.text(extent)}"))
    return _Scalar(index.add(extent, value) if value < 0 and from_end else literal_index(value))


class Chosen:
    """One dimension of a selection: the index `start` alone (extent None), or the indices start + step · i for i below extent."""

    __slots__ = ("extent", "start", "step")

    def __init__(self, start: Expr, step: int, extent: Expr | None) -> None:
        self.start, self.step, self.extent = start, step, extent


def selection(array: Array, key: Any) -> list[Chosen] | None:
    """Returns the selection of `array.at[key]`, dimension by dimension; None where index arrays, or slices that need a check, select."""
    chosen: list[Chosen] = []
    for part in _parts(array, key, True):
        if isinstance(part, _Scalar):
            extent = array.extents[len(chosen)]
            if not current().inside(part.position, extent):
                _refuse_outside(part.position, extent, len(chosen), array)
            chosen.append(Chosen(part.position, 1, None))
        elif isinstance(part, Range):
            if not part.safe:
                return None
            chosen.append(Chosen(part.start, part.step, part.extent))
        elif isinstance(part, _NewAxis):
            raise TraceError(complaint("`.at` takes no None"))
        else:
            return None
    return chosen
