"""Index-space moves: arrays that hold the elements of others at other indices. A move is no stage of its own unless it is named.

Each is a `Generate` of kind "move" whose body loads from its operand at canonical indices, so that consumers load directly from the
operand. Shapes are NumPy's; sizes that are not known while tracing are computed symbolically.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from raido.algo.errors import DTypeError, ShapeError, TraceError
from raido.algo.graph import index
from raido.algo.graph.dtypes import DType, bool_
from raido.algo.graph.expr import ARRAY_FORMS, Expr, Load, Op, Result
from raido.algo.language.combinators import extent_of, shape_of
from raido.algo.language.complexes import Complex, ComplexType, kind_of
from raido.algo.trace.building import (
    broadcast_element,
    collect,
    make_axes,
    new_form,
    owner,
    structure,
    wrap,
)
from raido.algo.trace.context import current, load
from raido.algo.trace.dtype_reading import read_dtype
from raido.algo.trace.existential import checked, counted, decided_by_data, joined_size
from raido.algo.trace.locations import complaint, plain_int
from raido.algo.trace.promotion import lift
from raido.algo.trace.scalars import cast
from raido.algo.trace.tracebacks import border
from raido.algo.trace.trees import map_leaves
from raido.algo.trace.types import describe
from raido.algo.trace.value import COUNTER, STRONG, Array, is_scalar

if TYPE_CHECKING:
    from raido.algo.language.parameters import DTypeLike, Shape


def moved(extents: Sequence[Expr], body: Any, name: str | None = None, weak: int = STRONG) -> Array:
    """Returns the array of that shape with the expression `body(i, j, …)` at every index."""
    axes = make_axes(extents)
    result = new_form(axes, (body(*(axis.var for axis in axes)),), "move", name)[0]
    return wrap(result, weak)


Move = TypeVar("Move", bound=Callable[..., Any])


def leaf_by_leaf(move: Move) -> Move:
    """Decorates a move for structures too: a tuple, a record or complex numbers are moved array by array."""
    signature = inspect.signature(move)

    @functools.wraps(move)
    def whole(*arguments: Any, **options: Any) -> Any:
        bound = signature.bind(*arguments, **options)
        a, *rest = bound.args
        given = structure(a)
        if isinstance(given, tuple):
            return map_leaves(lambda leaf: move(leaf, *rest, **bound.kwargs), given)
        return move(given, *rest, **bound.kwargs)

    return whole  # type: ignore[return-value]


def array_of(value: Any, what: str) -> Array:
    """Returns the operand of a move as a traced array; raises `TraceError` for a tuple."""
    given = structure(value)
    if isinstance(given, tuple):
        raise TraceError(complaint(f"{what} of {kind_of(given)}", remedy="apply it to each array"))
    return given


def named(value: Any, name: str) -> Any:
    """Returns the value as a stage of that name; structures leaf by leaf."""
    if isinstance(value, tuple):
        return map_leaves(lambda leaf: named(leaf, name), value)
    array = lift(value)
    node = array.node
    trace = current()
    if isinstance(node, Result) and isinstance(node.form, ARRAY_FORMS):
        trace.name(node.form, name)
        return array
    if is_scalar(array):
        source = node.array if isinstance(node, Load) and not node.indices else None
        if isinstance(source, Result) and source.form in trace.order:
            trace.name(source.form, name)
            return array
        return collect((), array, "elementwise", name)
    return moved(array.extents, lambda *indices: load(node, indices), name, array.weak)


def _axes_of(axes: Any) -> Sequence[Any]:
    if not isinstance(axes, (tuple, list)):
        raise TraceError(complaint(f"axes are a tuple of ints, not {axes!r}"))
    return axes


@leaf_by_leaf
def transpose(a: Any, axes: Any = None, *, name: str | None = None) -> Array:
    """The array with its axes in the given order, by default reversed.

    Example:
        >>> rd.algorithm(lambda a: rd.transpose(a)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([[1, 4],
               [2, 5],
               [3, 6]])
    """
    array = array_of(a, "rd.transpose")
    order = list(range(array.ndim))[::-1] if axes is None else [plain_int(k, "an axis") for k in _axes_of(axes)]
    if sorted(k % max(array.ndim, 1) for k in order) != list(range(array.ndim)):
        raise ShapeError(complaint(f"axes {tuple(order)} are no order of {array.ndim} axes"))
    order = [k % array.ndim for k in order]
    if array.ndim == 0:
        return array
    back = [order.index(k) for k in range(array.ndim)]
    extents = [array.extents[k] for k in order]
    return moved(extents, lambda *p: load(array.node, tuple(p[k] for k in back)), name, array.weak)


@leaf_by_leaf
def swapaxes(a: Any, axis1: int, axis2: int, *, name: str | None = None) -> Array:
    """The array with two axes exchanged.

    Example:
        >>> rd.algorithm(lambda a: rd.swapaxes(a, 0, 1)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([[1, 4],
               [2, 5],
               [3, 6]])
    """
    array = array_of(a, "rd.swapaxes")
    order = list(range(array.ndim))
    one, other = (normal_axis(axis, array.ndim) for axis in (axis1, axis2))
    order[one], order[other] = order[other], order[one]
    return transpose(array, order, name=name)


def column_major(order: str) -> bool:
    """Whether NumPy's `order` denotes column-major order; arrays are row-major, so "A" and "K" mean "C"."""
    if order not in ("C", "F", "A", "K"):
        raise TraceError(complaint(f"`order` is 'C' or 'F', not {order!r}"))
    return order == "F"


@leaf_by_leaf
def reshape(a: Any, shape: Shape, order: str = "C", *, copy: Any = None, name: str | None = None) -> Array:
    """The elements, in row-major order, in another shape; one −1 is computed. Raises `ShapeError` where the numbers of elements cannot
    agree.

    `order="F"`: column-major order, of the array and of the result. `copy` is NumPy's and has no effect, as arrays are values.

    Example:
        >>> rd.algorithm(lambda a: rd.reshape(a, (3, -1))).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([[1, 2],
               [3, 4],
               [5, 6]])
    """
    array = array_of(a, "rd.reshape")
    trace = current()
    dims: list[Any] = list(shape) if isinstance(shape, (tuple, list)) else [shape]
    if column_major(order):
        return transpose(reshape(transpose(array), dims[::-1]), name=name)
    total = _count(array.extents)
    unknown = [k for k, dim in enumerate(dims) if isinstance(dim, int) and dim == -1]
    if len(unknown) > 1:
        raise ShapeError(complaint("only one size of a reshape can be −1"))
    extents = [index.as_index(1) if k in unknown else extent_of(dim) for k, dim in enumerate(dims)]
    if unknown:
        known = _count(extents)
        extents[unknown[0]] = _quotient(total, known)
    shapes = f"{describe(array.dtype, array.extents)} to {describe(array.dtype, tuple(extents))}"
    owners = "the number of elements", "that of the new shape"
    if decided_by_data(total) and not trace.assumptions.equal(total, _count(extents)):
        trace.refuse_different(total, _count(extents), *owners, shapes)
        if not extents:
            one, first = index.as_index(1), tuple(index.as_index(0) for _ in array.extents)
            alone = checked(load(array.node, first), Op("eq", bool_, (total, one)), "size", (total, one))
            return collect((), Array(alone, array.weak), "elementwise", name)
        return moved(
            _counted(extents, total),
            lambda *p: load(array.node, regrouped(p, extents, array.extents)),
            name,
            array.weak,
        )
    trace.equal_sizes(total, _count(extents), *owners, shapes)
    if tuple(extents) == array.extents:
        return array if name is None else named(array, name)
    if not extents:
        indices = tuple(index.as_index(0) for _ in array.extents)
        return Array(load(array.node, indices), array.weak)
    if array.ndim == 0:
        return moved(extents, lambda *_: array.node, name, array.weak)
    return moved(extents, lambda *p: load(array.node, regrouped(p, extents, array.extents)), name, array.weak)


def _counted(extents: Sequence[Expr], total: Expr) -> list[Expr]:
    """Returns the shape with a run-time check, in one of its sizes, that its number of elements is `total`, which depends on data."""
    holder = next((k for k, n in enumerate(extents) if index.constant_value(n) != 1), 0)
    wanted, own = _count(extents), extents[holder]
    holds = Op("eq", bool_, (total, wanted))
    return [
        counted(checked(own, holds, "size", (total, wanted)), own) if k == holder else n for k, n in enumerate(extents)
    ]


def regrouped(indices: Sequence[Expr], new: Sequence[Expr], old: Sequence[Expr]) -> tuple[Expr, ...]:
    """Returns the indices in shape `old` of the element at `indices` of shape `new`; runs of axes with equal numbers of elements are
    independent."""
    result: list[Expr] = []
    apart = _in_parts(old, new)
    if apart is not None:
        return tuple(e for run, n in zip(apart, old, strict=True) for e in _regroup(indices[run], new[run], [n]))
    joined = _in_parts(new, old)
    if joined is not None:
        return tuple(
            e
            for position, n, run in zip(indices, new, joined, strict=True)
            for e in _regroup([position], [n], old[run])
        )
    i = j = 0
    while i < len(new) or j < len(old):
        a, b = i, j
        size_new: Expr = index.as_index(1)
        size_old: Expr = index.as_index(1)
        while True:
            if i < len(new) and (i == a or len(old) == j):
                size_new, i = index.mul(size_new, new[i]), i + 1
            elif j < len(old) and (j == b or len(new) == i):
                size_old, j = index.mul(size_old, old[j]), j + 1
            elif size_new is size_old:
                break
            elif _smaller(size_new, size_old) and i < len(new):
                size_new, i = index.mul(size_new, new[i]), i + 1
            elif j < len(old):
                size_old, j = index.mul(size_old, old[j]), j + 1
            elif i < len(new):
                size_new, i = index.mul(size_new, new[i]), i + 1
            else:
                break
            if size_new is size_old and i > a and j > b:
                break
            if i == len(new) and j == len(old):
                break
        result += _regroup(indices[a:i], new[a:i], old[b:j])
    return tuple(result)


def _in_parts(old: Sequence[Expr], new: Sequence[Expr]) -> list[slice] | None:
    """Returns the axes of `new` into which each axis of `old` is split; None where `new` is no such split.

    Each axis is split exactly, or into its size rounded down to a multiple of a constant. No axis has more elements than before, so where
    the arrays have equally many, so do all axes (`[h, w]` as `[h // 8, 8, w // 8, 8]`).
    """
    runs, end = [], 0
    for n in old:
        begin, count = end, index.as_index(1)
        while count is not n and not _is_rounded_down(count, n):
            if end == len(new):
                return None
            count, end = index.mul(count, new[end]), end + 1
        runs.append(slice(begin, end))
    return runs if end == len(new) else None


def _is_rounded_down(e: Expr, n: Expr) -> bool:
    """Whether `e` is `n` rounded down to a multiple of a constant."""
    constant, terms = index.linear(e)
    if constant or len(terms) != 1:
        return False
    ((part, k),) = terms.items()
    return k > 0 and part is index.floordiv(n, k)


def _smaller(a: Expr, b: Expr) -> bool:
    x, y = index.constant_value(a), index.constant_value(b)
    if x is not None and y is not None:
        return x < y
    return len(index.linear(a)[1]) == 0 or index.text(a) in index.text(b)


def _regroup(indices: Sequence[Expr], new: Sequence[Expr], old: Sequence[Expr]) -> list[Expr]:
    flat: Expr = index.as_index(0)
    for e, extent in zip(indices, new, strict=True):
        flat = index.add(index.mul(flat, extent), e)
    result: list[Expr] = []
    first = next((k for k, extent in enumerate(old) if index.constant_value(extent) != 1), 0)
    for k in reversed(range(len(old))):
        if k == first:
            result.append(flat)
        elif index.constant_value(old[k]) == 1:
            result.append(index.as_index(0))
        else:
            result.append(index.mod(flat, old[k]))
            flat = index.floordiv(flat, old[k])
    return result[::-1]


def _count(extents: Sequence[Expr]) -> Expr:
    total: Expr = index.as_index(1)
    for extent in extents:
        total = index.mul(total, extent)
    return total


def _quotient(total: Expr, known: Expr) -> Expr:
    """Returns total / known, exactly where the division is evident, else rounded down; raises `ShapeError` for a division by 0."""
    value = index.constant_value(known)
    if value == 0:
        raise ShapeError(complaint("−1 beside a size of 0 in a reshape"))
    if value is None:
        constant_part, terms = index.linear(total)
        if constant_part == 0 and len(terms) == 1:
            ((atom, factor),) = terms.items()
            rest = _without(atom, known)
            if rest is not None:
                return index.mul(rest, factor)
    return index.floordiv(total, known)


def _factors(e: Expr) -> list[Expr]:
    if isinstance(e, Op) and e.name == "mul":
        return [f for part in e.args for f in _factors(part)]
    return [e]


def _without(product: Expr, divisor: Expr) -> Expr | None:
    rest = _factors(product)
    for factor in _factors(divisor):
        if factor not in rest:
            return None
        rest.remove(factor)
    return _count(rest)


@leaf_by_leaf
def flatten(a: Any, *, name: str | None = None) -> Array:
    """All elements in one dimension, row-major.

    Example:
        >>> rd.algorithm(lambda a: rd.flatten(a)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([1, 2, 3, 4, 5, 6])
    """
    array = array_of(a, "rd.flatten")
    return reshape(array, (Array(_count(array.extents), COUNTER),), name=name)


@leaf_by_leaf
def expand_dims(a: Any, axis: SupportsIndex | tuple[SupportsIndex, ...], *, name: str | None = None) -> Array:
    """The array with dimensions of size 1 at `axis`, an int or a tuple, of the result. Raises `ShapeError` for an axis that it does not
    have.

    Example:
        >>> rd.algorithm(lambda a: rd.expand_dims(a, 0)).interpret(np.array([3, 1, 2]))
        array([[3, 1, 2]])
    """
    array = array_of(a, "rd.expand_dims")
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = array.ndim + len(axes)
    new = {normal_axis(k, rank) for k in axes}
    if len(new) != len(axes):
        raise ShapeError(complaint(f"an axis is named twice in {axis}"))
    result = array[tuple(None if k in new else slice(None) for k in range(rank))] if new else array
    return result if name is None else named(result, name)


@leaf_by_leaf
def broadcast_to(array: Any, shape: Shape, *, name: str | None = None) -> Array:
    """The array repeated along dimensions whose size is the literal 1, and along new leading ones.

    Example:
        >>> rd.algorithm(lambda a: rd.broadcast_to(a, (2, a.shape[0]))).interpret(np.array([3, 1, 2]))
        array([[3, 1, 2],
               [3, 1, 2]])
    """
    array = array_of(array, "rd.broadcast_to")
    extents = shape_of(shape)
    for k, extent in enumerate(array.extents, len(extents) - array.ndim):
        if k < 0 or (index.constant_value(extent) != 1 and index.constant_value(extents[k]) == 1):
            asked = describe(array.dtype, tuple(extents))
            raise ShapeError(complaint(f"{describe(array.dtype, array.extents)} does not broadcast to {asked}"))
        if index.constant_value(extent) != 1:
            axis = k - len(extents) + array.ndim
            pair = owner(array, axis, "a dimension of the array"), "that of the shape"
            extents[k] = joined_size(extents[k], extent, *pair)
    return moved(extents, lambda *p: broadcast_element(array, p).node, name, array.weak)


def astype(x: Any, dtype: DTypeLike, *, copy: bool = True, name: str | None = None) -> Array:
    """The elements converted to `dtype`: floats to integers truncate and saturate, NaN becomes 0.

    `copy` is NumPy's and has no effect, as arrays are values. Raises `DTypeError` for complex numbers as real ones.

    Example:
        >>> rd.algorithm(lambda a: rd.astype(a, rd.i8)).interpret(np.array([1.7, -1.7, np.nan, 1e9]))
        array([  1,  -1,   0, 127], dtype=int8)
    """
    from raido.algo.trace.building import elementwise

    given, wished = structure(x), read_dtype(dtype)
    if isinstance(given, Complex) or isinstance(wished, ComplexType):
        return _between_complex(given, wished, name)
    array = array_of(x, "astype")
    if array.dtype is wished and name is None:
        return Array(array.node, STRONG)
    return elementwise(lambda v: Array(_converted(v, wished)), [array], kind="elementwise", name=name)


def _between_complex(given: Any, dtype: Any, name: str | None) -> Any:
    if not isinstance(dtype, ComplexType):
        raise DTypeError(complaint(f"complex numbers as {dtype!r}", remedy=".real, .imag or rd.abs"))
    result = dtype(given)
    return result if name is None else named(result, name)


def _converted(x: Array, dtype: DType) -> Expr:
    node = x.node
    return node if node.dtype is dtype else cast(Array(node, STRONG), dtype)


def convert(dtype: DType, value: Any) -> Any:
    """Returns a value converted to a type, as `rd.f32(x)` does, and strong; an integer literal must fit."""
    given = structure(value)
    if isinstance(given, tuple):
        remedy = ".real, .imag or rd.abs" if isinstance(given, Complex) else "convert its parts"
        raise TraceError(complaint(f"rd.{dtype} of {kind_of(given)}", remedy=remedy))
    if given.ndim:
        return astype(given, dtype)
    return Array(cast(given, dtype), STRONG)


DType.convert = convert
DType.__call__ = border(DType.__call__)  # type: ignore[method-assign]


def view(a: Any, dtype: DTypeLike, *, name: str | None = None) -> Array:
    """The bits of the elements reinterpreted as another type of the same width.

    Example:
        >>> rd.algorithm(lambda a: rd.view(a, rd.i32)).interpret(np.array([1.0], np.float32))
        array([1065353216], dtype=int32)
    """
    from raido.algo.trace.building import elementwise

    array, dtype = array_of(a, "view"), read_dtype(dtype)
    if not isinstance(dtype, DType) or dtype.bits != array.dtype.bits or bool_ in (dtype, array.dtype):
        same = (
            None
            if array.dtype is bool_
            else f"rd.i{array.dtype.bits}, rd.u{array.dtype.bits}, or .astype for the numbers"
        )
        raise DTypeError(
            complaint(f"a view of {array.dtype} as {dtype!r}: both must have the same width", remedy=same or ".astype")
        )
    return elementwise(lambda x: Array(Op("bitcast", dtype, (x.node,))), [array], kind="elementwise", name=name)


def normal_axis(axis: SupportsIndex, rank: int) -> int:
    k = plain_int(axis, "an axis")
    if not -rank <= k < rank:
        raise ShapeError(complaint(f"axis {k} of an array of rank {rank}"))
    return k % rank
