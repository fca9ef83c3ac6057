"""Joining arrays and moving elements along their axes: `concat`, `stack`, `roll`, `shift`, `pad`; index-space moves, as in `moves`.

Where an index may belong to one of several operands, the body selects between loads whose indices are clamped to their array, so that the
load that is not selected stays in range (an empty operand is never selected, and its load has no defined value).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from raido.algo.errors import ShapeError, TraceError
from raido.algo.graph import index
from raido.algo.graph.dtypes import bool_, i64, u64
from raido.algo.graph.expr import Expr, Op
from raido.algo.graph.size_numbers import is_size
from raido.algo.language.complexes import Complex, spread, together
from raido.algo.language.moves import array_of, astype, flatten, leaf_by_leaf, moved, normal_axis, reshape
from raido.algo.language.pure import without_out
from raido.algo.language.stencil import Fill, boundaries, for_leaves, load_with_boundary
from raido.algo.trace.building import owner, structure
from raido.algo.trace.context import load, load_chosen
from raido.algo.trace.existential import joined_size, nonempty_size
from raido.algo.trace.locations import complaint, plain_int, plain_size
from raido.algo.trace.promotion import common_type
from raido.algo.trace.scalars import cast
from raido.algo.trace.trees import leaves, map_leaves, same_nesting, unflatten
from raido.algo.trace.types import describe
from raido.algo.trace.value import STRONG, WEAK, Array, computed
from raido.algo.trace.whole_numbers import FAR, reduce_to_period, saturate_to_i64

if TYPE_CHECKING:
    from raido.algo.language.parameters import Axes, DTypeLike

Join = TypeVar("Join", bound=Callable[..., Any])


def array_by_array(join: Join) -> Join:
    """Decorates a join for structures too: tuples, records or complex numbers of one kind are joined array by array."""

    @functools.wraps(join)
    def whole(arrays: Any, *arguments: Any, **options: Any) -> Any:
        from raido.algo.language.making import array

        given = sequence(arrays, f"rd.{join.__name__}")
        parts = together([structure(array(part) if isinstance(part, list) else part) for part in given])
        if not any(isinstance(part, tuple) for part in parts):
            return join(parts, *arguments, **options)
        if not all(same_nesting(part, parts[0]) for part in parts):
            raise TraceError(complaint(f"rd.{join.__name__} takes structures of one kind"))
        columns = zip(*map(leaves, parts), strict=True)
        return unflatten(parts[0], [join(list(column), *arguments, **options) for column in columns])

    return whole  # type: ignore[return-value]


@without_out
@array_by_array
def concat(arrays: Any, axis: int | None = 0, *, dtype: DTypeLike | None = None, name: str | None = None) -> Array:
    """Arrays one after the other along `axis`, flattened first for None; in `dtype`, or in their common type.

    `arrays` is a sequence of arrays or lists of one rank, whose sizes along other axes agree. Raises `ShapeError` where the ranks differ.

    Example:
        >>> rd.algorithm(lambda a, b: rd.concat([a, b])).interpret(np.array([3, 1, 2]), np.array([7, 8]))
        array([3, 1, 2, 7, 8])
        >>> rd.algorithm(lambda a, b: rd.concat([a, b], axis=None, dtype=rd.i8)).interpret(np.array([[3, 1]]), np.array([7, 8]))
        array([3, 1, 7, 8], dtype=int8)
    """
    parts = [array_of(a, "rd.concat") for a in _of_type(arrays, dtype)]
    if axis is None:
        axis, parts = 0, [flatten(part) for part in parts]
    rank = parts[0].ndim
    if rank == 0 or any(part.ndim != rank for part in parts):
        ranks = ", ".join(describe(part.dtype, part.extents) for part in parts)
        remedy = "a[None] makes an array the only row of one of more dimensions; rd.append(a, x) adds a number"
        raise ShapeError(
            complaint("rd.concat takes arrays of one rank, at least 1", why=f"these are {ranks}", remedy=remedy)
        )
    along = normal_axis(axis, rank)
    shape = list(parts[0].extents)
    for part in parts[1:]:
        for k in range(rank):
            if k != along:
                pair = (owner(parts[0], k, "one array"), owner(part, k, "another array"))
                shape[k] = joined_size(shape[k], part.extents[k], *pair)
    dtype, weak = common_type(parts)
    starts: list[Expr] = []
    total: Expr = index.as_index(0)
    for part in parts:
        starts.append(total)
        total = index.add(total, part.extents[along])

    def body(*p: Expr) -> Expr:
        result: Expr | None = None
        for part, start in zip(reversed(parts), reversed(starts), strict=True):
            e = Op("clamp_index", i64, (index.sub(p[along], start), part.extents[along]))
            here = e if len(parts) > 1 else p[along]
            inside = (*p[:along], here, *p[along + 1 :])
            value = cast(Array(load_chosen(part.node, inside), part.weak), dtype)
            if result is None:
                result = value
                continue
            if index.constant_value(part.extents[along]) == 0:
                continue
            end = index.add(start, part.extents[along])
            result = Op("select", dtype, (Op("lt", bool_, (p[along], end)), value, result))
        assert result is not None
        return result

    if len(parts) > 1:
        parts, starts = _nonempty(parts, starts, along)
    extents = [total if k == along else n for k, n in enumerate(shape)]
    return moved(extents, body, name, computed(weak))


def _nonempty(parts: list[Array], starts: list[Expr], along: int) -> tuple[list[Array], list[Expr]]:
    """Returns the parts and their first indices without the parts known to be empty, which are never read."""
    kept = [k for k, part in enumerate(parts) if index.constant_value(part.extents[along]) != 0] or [0]
    return [parts[k] for k in kept], [starts[k] for k in kept]


@without_out
@array_by_array
def stack(arrays: Any, axis: int = 0, *, dtype: DTypeLike | None = None, name: str | None = None) -> Array:
    """Arrays (or scalars) of one shape along a new axis; in `dtype`, or in their common type.

    Example:
        >>> rd.algorithm(lambda a: rd.stack([a, a + 10])).interpret(np.array([3, 1, 2]))
        array([[ 3,  1,  2],
               [13, 11, 12]])
    """
    parts = [array_of(a, "rd.stack") for a in _of_type(arrays, dtype)]
    along = normal_axis(axis, parts[0].ndim + 1)
    extents = list(parts[0].extents)
    for part in parts[1:]:
        if part.ndim != parts[0].ndim:
            ranks = ", ".join(describe(each.dtype, each.extents) for each in parts)
            raise ShapeError(complaint("rd.stack takes arrays of one shape", why=f"these are {ranks}"))
        for k, (m, n) in enumerate(zip(extents, part.extents, strict=True)):
            extents[k] = joined_size(m, n, owner(parts[0], k, "one array"), owner(part, k, "another array"))
    dtype, weak = common_type(parts)

    def body(*p: Expr) -> Expr:
        inside = (*p[:along], *p[along + 1 :])
        values = [cast(Array(broadcast_free(part, inside), part.weak), dtype) for part in parts]
        result = values[-1]
        for k in reversed(range(len(values) - 1)):
            result = Op("select", dtype, (Op("lt", bool_, (p[along], index.as_index(k + 1))), values[k], result))
        return result

    extents.insert(along, index.as_index(len(parts)))
    return moved(extents, body, name, STRONG if weak == STRONG else WEAK)


def _of_type(parts: list[Any], dtype: Any) -> list[Any]:
    return parts if dtype is None else [astype(part, dtype) for part in parts]


def broadcast_free(part: Array, indices: tuple[Expr, ...]) -> Expr:
    """Returns the element of an array (or the scalar itself) at `indices`."""
    return part.node if part.ndim == 0 else load(part.node, indices)


@leaf_by_leaf
def roll(a: Any, shift: Any, axis: Axes = None, *, name: str | None = None) -> Array:
    """The elements moved cyclically by `shift` along `axis`, or in the flattened array for None, as in NumPy.

    Example:
        >>> rd.algorithm(lambda a: rd.roll(a, 1)).interpret(np.array([3, 1, 2]))
        array([2, 3, 1])
    """
    array = array_of(a, "rd.roll")
    if axis is None:
        if array.ndim == 1:
            return roll(array, shift, 0, name=name)
        return reshape(roll(flatten(array), shift, 0), array.shape, name=name)
    axes = axis if isinstance(axis, tuple) else (axis,)
    offsets = shift if isinstance(shift, tuple) and not isinstance(shift, Complex) else (shift,) * len(axes)
    by: dict[int, Expr] = {}
    for k, offset in zip(axes, offsets, strict=True):
        along = normal_axis(k, array.ndim)
        turned = _roll_offset(offset, array.extents[along])
        by[along] = index.add(by.get(along, index.as_index(0)), turned)

    def body(*p: Expr) -> Expr:
        indices = [
            Op("wrap_index", i64, (index.sub(e, by[k]), array.extents[k])) if k in by else e for k, e in enumerate(p)
        ]
        return load(array.node, tuple(indices))

    return moved(array.extents, body, name, array.weak)


def _roll_offset(offset: Any, extent: Expr) -> Expr:
    """Returns the offset of a roll; a traced number is reduced modulo the size, so that no difference with it overflows."""
    if (
        isinstance(offset, Array)
        and offset.weak in (STRONG, WEAK)
        and offset.dtype in (i64, u64)
        and not is_size(_offset(offset))
    ):
        near = reduce_to_period(offset, "wrap_index", extent)
        return Op("wrap_index", i64, (near, index.maximum(extent, 1)))
    literal = None if isinstance(offset, Array) else plain_int(offset, "an offset")
    if literal is not None and abs(literal) > FAR:
        raise ShapeError(complaint(f"the offset {literal} is larger than any array"))
    return _offset(offset)


def _offset(offset: Any) -> Expr:
    if isinstance(offset, Array):
        if offset.ndim or not offset.dtype.is_integer:
            raise ShapeError(complaint("an offset is an integer"))
        return saturate_to_i64(offset)
    return index.as_index(max(-FAR, min(FAR, plain_int(offset, "an offset"))))


def shift(a: Any, k: Any, fill: Any = 0, *, axis: int = 0, name: str | None = None) -> Array:
    """The elements moved by `k` along `axis`, towards higher indices for positive `k`; the free positions hold `fill`.

    Example:
        >>> rd.algorithm(lambda a: rd.shift(a, 1, fill=9)).interpret(np.array([3, 1, 2]))
        array([9, 3, 1])
    """
    given, by = structure(a), _offset(k)
    fills = spread(fill, given, "the fill of rd.shift")
    return map_leaves(lambda leaf, own: _shifted(leaf, by, own, axis, name), given, fills)


def _shifted(array: Array, by: Expr, fill: Any, axis: int, name: str | None) -> Array:
    along = normal_axis(axis, array.ndim)
    rules = boundaries(Fill(fill), array.ndim)

    def body(*p: Expr) -> Expr:
        indices = [index.sub(e, by) if n == along else e for n, e in enumerate(p)]
        return load_with_boundary(array, indices, rules, [n != along for n in range(array.ndim)])

    return moved(array.extents, body, name, array.weak)


def pad(
    array: Any, pad_width: Any, mode: Any = "constant", constant_values: Any = 0, *, name: str | None = None
) -> Array:
    """The array with a border, as in NumPy: `pad_width` is n, (before, after), or one such pair for each axis.

    `mode`: "constant" (with `constant_values`), "edge", "reflect", "symmetric", "wrap", or any boundary of a stencil.

    Example:
        >>> rd.algorithm(lambda a: rd.pad(a, 2, mode="reflect")).interpret(np.array([3, 1, 2]))
        array([2, 1, 3, 1, 2, 1, 3])
    """
    given = structure(array)
    modes = for_leaves(Fill(constant_values) if mode == "constant" else mode, given)
    padded = iter([_padded(leaf, pad_width, own, name) for leaf, own in zip(leaves(given), modes, strict=True)])
    return unflatten(given, padded)


def _padded(array: Array, width: Any, mode: Any, name: str | None) -> Array:
    rank = array.ndim
    pairs = _widths(width, rank)
    rules = boundaries(mode, rank, extra=())

    def body(*p: Expr) -> Expr:
        indices = [index.sub(e, before) for e, (before, _) in zip(p, pairs, strict=True)]
        return load_with_boundary(array, indices, rules, [pair == (0, 0) for pair in pairs], sizes)

    sizes = list(array.extents)
    for k, pair in enumerate(pairs):
        if pair != (0, 0) and not isinstance(rules[k], Fill):
            sizes[k] = nonempty_size(sizes[k], k, f"dimension {k} of the array to pad")
    extents = [index.add(n, before + after) for n, (before, after) in zip(array.extents, pairs, strict=True)]
    return moved(extents, body, name, array.weak)


def _widths(width: Any, rank: int) -> list[tuple[int, int]]:
    def amount(value: Any) -> int:
        n = plain_size(value, "the width of a border")
        if n < 0:
            raise ShapeError(complaint(f"a border cannot be {n} wide"))
        return n

    if isinstance(width, (tuple, list)) and width and isinstance(width[0], (tuple, list)):
        pairs = [(amount(before), amount(after)) for before, after in width]
        pairs = pairs * rank if len(pairs) == 1 else pairs
    elif isinstance(width, (tuple, list)):
        values = [amount(v) for v in width]
        pairs = [(values[0], values[-1])] * rank
    else:
        pairs = [(amount(width), amount(width))] * rank
    if len(pairs) != rank:
        raise ShapeError(complaint(f"{len(pairs)} borders for {rank} axes"))
    return pairs


def sequence(values: Any, what: str) -> list[Any]:
    """Returns the arrays that `what` joins: those of a list, or the rows of one array of constant size; raises `TraceError` for other
    values."""
    if isinstance(values, (Array, Complex)):
        if values.ndim == 0 or index.constant_value(values.extents[0]) is None:
            raise TraceError(complaint(f"{what} takes a list of arrays, not one array", remedy="[a, b] in brackets"))
        return list(values)
    if not isinstance(values, (list, tuple)) or not values:
        raise TraceError(complaint(f"{what} takes a list of arrays", remedy=f"at least one, {what}([a, b])"))
    return list(values)
