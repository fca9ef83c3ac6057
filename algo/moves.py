"""Index-space moves: arrays that hold the elements of others at other places. None is a stage of its own unless it is named.

Each is a `Generate` of kind "move" whose body loads from its operand at canonical indices, so that consumers read straight through
it. Sizes are NumPy's; what depends on sizes not known while tracing is worked out symbolically.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from raido.algo import index
from raido.algo.building import (
    Zipped,
    broadcast,
    broadcast_element,
    collect,
    make_axes,
    new_form,
    outer_extent,
    owner,
    structure,
    wrap,
)
from raido.algo.combinators import extent_of, shape_of
from raido.algo.context import ARRAY_FORMS, current, load
from raido.algo.dtypes import DType, bool_, i64
from raido.algo.errors import DTypeError, ShapeError, TraceError
from raido.algo.expr import Expr, Op, Result, const
from raido.algo.locations import complaint
from raido.algo.promotion import common_type, constant, lift
from raido.algo.scalars import cast
from raido.algo.stencil import Fill, boundaries, load_with_boundary
from raido.algo.trees import map_leaves
from raido.algo.types import describe
from raido.algo.value import COUNTER, STRONG, Array, is_scalar


def moved(extents: Sequence[Expr], body: Any, name: str | None = None, weak: int = STRONG) -> Array:
    """The array of that shape with `body(i, j, …)`, an expression, at every index."""
    axes = make_axes(extents)
    result = new_form(axes, (body(*(axis.var for axis in axes)),), "move", name)[0]
    return wrap(result, weak)


def array_of(value: Any, what: str) -> Array:
    """An operand of a move."""
    given = structure(value)
    if isinstance(given, tuple):
        raise TraceError(complaint(f"{what} of a tuple", remedy="apply it to each array"))
    return given


def named(value: Any, name: str) -> Any:
    """The value as a stage of that name; structures leaf by leaf."""
    if isinstance(value, tuple):
        return map_leaves(lambda leaf: named(leaf, name), value)
    array = lift(value)
    node = array.node
    trace = current()
    if isinstance(node, Result) and isinstance(node.form, ARRAY_FORMS):
        trace.name(node.form, name)
        return array
    if is_scalar(array):
        form = getattr(getattr(node, "array", None), "form", None)
        if form is not None and not node.indices and form in trace.order:
            trace.name(form, name)
            return array
        return collect((), array, "elementwise", name)
    return moved(array.extents, lambda *places: load(node, places), name, array.weak)


def transpose(a: Any, axes: Any = None, *, name: str | None = None) -> Array:
    """The axes in the order given; reversed without one."""
    array = array_of(a, "rd.transpose")
    order = list(range(array.ndim))[::-1] if axes is None else [operator.index(k) for k in axes]
    if sorted(k % max(array.ndim, 1) for k in order) != list(range(array.ndim)):
        raise ShapeError(complaint(f"axes {tuple(order)} are no order of {array.ndim} axes"))
    order = [k % array.ndim for k in order]
    if array.ndim == 0:
        return array
    back = [order.index(k) for k in range(array.ndim)]
    extents = [array.extents[k] for k in order]
    return moved(extents, lambda *p: load(array.node, tuple(p[k] for k in back)), name, array.weak)


def swapaxes(a: Any, first: int, second: int, *, name: str | None = None) -> Array:
    """Two axes exchanged."""
    array = array_of(a, "rd.swapaxes")
    order = list(range(array.ndim))
    order[first], order[second] = order[second], order[first]
    return transpose(array, order, name=name)


def reshape(a: Any, shape: Any, *, name: str | None = None) -> Array:
    """The same elements in row-major order in another shape; one −1 is worked out. ShapeError where the counts cannot agree."""
    array = array_of(a, "rd.reshape")
    trace = current()
    dims = list(shape) if isinstance(shape, (tuple, list)) else [shape]
    total = _count(array.extents)
    unknown = [k for k, dim in enumerate(dims) if isinstance(dim, int) and dim == -1]
    if len(unknown) > 1:
        raise ShapeError(complaint("only one size of a reshape can be −1"))
    extents = [index.as_index(1) if k in unknown else extent_of(dim) for k, dim in enumerate(dims)]
    if unknown:
        known = _count(extents)
        extents[unknown[0]] = _quotient(total, known)
    shapes = f"{describe(array.dtype, array.extents)} to {describe(array.dtype, tuple(extents))}"
    trace.equal_sizes(total, _count(extents), "the number of elements", "that of the new shape", shapes)
    if tuple(extents) == array.extents:
        return array if name is None else named(array, name)
    if not extents:
        places = tuple(index.as_index(0) for _ in array.extents)
        return Array(load(array.node, places), array.weak)
    if array.ndim == 0:
        return moved(extents, lambda *_: array.node, name, array.weak)
    return moved(extents, lambda *p: load(array.node, regrouped(p, extents, array.extents)), name, array.weak)


def regrouped(places: Sequence[Expr], new: Sequence[Expr], old: Sequence[Expr]) -> tuple[Expr, ...]:
    """Indices in shape `old` of the element at `places` of shape `new`; runs of axes with equal counts are regrouped apart."""
    result: list[Expr] = []
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
        result += _regroup(places[a:i], new[a:i], old[b:j])
    return tuple(result)


def _smaller(a: Expr, b: Expr) -> bool:
    x, y = index.constant_value(a), index.constant_value(b)
    if x is not None and y is not None:
        return x < y
    return len(index.linear(a)[1]) == 0 or index.text(a) in index.text(b)


def _regroup(places: Sequence[Expr], new: Sequence[Expr], old: Sequence[Expr]) -> list[Expr]:
    flat: Expr = index.as_index(0)
    for e, extent in builtin_zip(places, new, strict=True):
        flat = index.add(index.mul(flat, extent), e)
    result: list[Expr] = []
    for k in reversed(range(len(old))):
        if k == 0:
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
    """total / known, exactly where that shows; else rounded down."""
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


def flatten(a: Any, *, name: str | None = None) -> Array:
    """All elements in one dimension, row-major."""
    array = array_of(a, "rd.flatten")
    return reshape(array, (Array(_count(array.extents), COUNTER),), name=name)


def expand_dims(a: Any, axis: int, *, name: str | None = None) -> Array:
    """A dimension of size 1 put in at `axis`."""
    array = array_of(a, "rd.expand_dims")
    place = axis % (array.ndim + 1)
    result = array[tuple([slice(None)] * place + [None])]
    return result if name is None else named(result, name)


def broadcast_to(a: Any, shape: Any, *, name: str | None = None) -> Array:
    """The array repeated along dimensions whose size is the literal 1, and along new leading ones."""
    array = array_of(a, "rd.broadcast_to")
    extents = shape_of(shape)
    own = moved(extents, lambda *_: const(bool_, 0))
    if tuple(broadcast([array, own], "rd.broadcast_to")) != tuple(extents):
        raise ShapeError(complaint(f"{describe(array.dtype, array.extents)} does not broadcast to that shape"))
    return moved(extents, lambda *p: broadcast_element(array, p).node, name, array.weak)


def astype(a: Any, dtype: Any, *, name: str | None = None) -> Any:
    """The elements converted to `dtype`: floats to integers truncate and saturate, NaN gives 0."""
    from raido.algo.building import elementwise

    if not isinstance(dtype, DType):
        raise DTypeError(complaint(f"`astype` takes a raido dtype such as rd.f32, not {dtype!r}"))
    array = array_of(a, "astype")
    if array.dtype is dtype and name is None:
        return Array(array.node, STRONG)
    return elementwise(lambda x: Array(_converted(x, dtype)), [array], kind="elementwise", name=name)


def _converted(x: Array, dtype: DType) -> Expr:
    node = x.node
    return node if node.dtype is dtype else cast(Array(node, STRONG), dtype)


def convert(dtype: DType, value: Any) -> Any:
    """`rd.f32(x)`: a value of that type, strong from then on; an integer literal must fit."""
    given = structure(value)
    if isinstance(given, tuple):
        raise TraceError(complaint(f"rd.{dtype} of a tuple", remedy="convert its parts"))
    if given.ndim:
        return astype(given, dtype)
    return Array(cast(given, dtype), STRONG)


DType.convert = convert


def view(a: Any, dtype: Any, *, name: str | None = None) -> Any:
    """The bits of the elements read as another type of the same width."""
    from raido.algo.building import elementwise

    array = array_of(a, "view")
    if not isinstance(dtype, DType) or dtype.bits != array.dtype.bits or bool_ in (dtype, array.dtype):
        raise DTypeError(complaint(f"a view of {array.dtype} as {dtype!r}: both must have the same width"))
    return elementwise(lambda x: Array(Op("bitcast", dtype, (x.node,))), [array], kind="elementwise", name=name)


def iota(n: Any, dtype: DType | None = None, *, name: str | None = None) -> Array:
    """0, 1, …, n − 1. Without `dtype` it counts as i64 but takes a float operand's type."""
    extent = extent_of(n)
    if dtype is None:
        return moved([extent], lambda i: i, name, COUNTER)
    return moved([extent], lambda i: cast(Array(i, STRONG), dtype), name)


def replicate(n: Any, value: Any, *, name: str | None = None) -> Any:
    """n copies of a value along a new outermost dimension; `n` may be a tuple of sizes."""
    extents = shape_of(n)

    def copies(leaf: Array) -> Array:
        rank = len(extents)
        body = lambda *p: leaf.node if leaf.ndim == 0 else load(leaf.node, tuple(p[rank:]))
        return moved([*extents, *leaf.extents], body, name)

    return map_leaves(copies, structure(value))


def zip(*arrays: Any) -> Zipped:
    """Arrays of one outer size as one array of tuples: `rd.zip(a, b)[i]` is `(a[i], b[i])`."""
    parts = tuple(structure(a) for a in arrays)
    outer_extent(parts, "rd.zip")
    return Zipped(parts)


def unzip(zipped: Any) -> tuple[Any, ...]:
    """The arrays of a zipped array, as a tuple."""
    if isinstance(zipped, Zipped):
        return zipped.parts
    if isinstance(zipped, tuple):
        return zipped
    raise TraceError(complaint("rd.unzip takes what rd.zip or a map with a tuple result gave"))


def concat(arrays: Any, axis: int = 0, *, name: str | None = None) -> Array:
    """Arrays one after the other along `axis`; their other sizes agree, their types are promoted."""
    parts = [array_of(a, "rd.concat") for a in _sequence(arrays, "rd.concat")]
    rank = parts[0].ndim
    if rank == 0 or builtin_any(part.ndim != rank for part in parts):
        raise ShapeError(complaint("rd.concat takes arrays of one rank, at least 1"))
    place = _axis(axis, rank)
    trace = current()
    for part in parts[1:]:
        for k in range(rank):
            if k != place:
                pair = (owner(parts[0], k, "one array"), owner(part, k, "another array"))
                trace.equal_sizes(parts[0].extents[k], part.extents[k], *pair)
    dtype, weak = common_type(parts)
    starts: list[Expr] = []
    total: Expr = index.as_index(0)
    for part in parts:
        starts.append(total)
        total = index.add(total, part.extents[place])

    def body(*p: Expr) -> Expr:
        result: Expr | None = None
        for part, start in builtin_zip(reversed(parts), reversed(starts), strict=True):
            e = Op("clamp_index", i64, (index.sub(p[place], start), part.extents[place]))
            here = e if len(parts) > 1 else p[place]
            inside = (*p[:place], here, *p[place + 1 :])
            value = cast(Array(load(part.node, inside), part.weak), dtype)
            if result is None:
                result = value
                continue
            if index.constant_value(part.extents[place]) == 0:
                continue
            end = index.add(start, part.extents[place])
            result = Op("select", dtype, (Op("lt", bool_, (p[place], end)), value, result))
        assert result is not None
        return result

    if len(parts) > 1:
        parts, starts = _nonempty(parts, starts, place)
    extents = [total if k == place else n for k, n in enumerate(parts[0].extents)]
    return moved(extents, body, name, weak if weak == COUNTER else STRONG)


def _nonempty(parts: list[Array], starts: list[Expr], place: int) -> tuple[list[Array], list[Expr]]:
    """Parts known to be empty are left out: nothing is ever read from them."""
    kept = [k for k, part in enumerate(parts) if index.constant_value(part.extents[place]) != 0] or [0]
    return [parts[k] for k in kept], [starts[k] for k in kept]


def stack(arrays: Any, axis: int = 0, *, name: str | None = None) -> Array:
    """Arrays (or scalars) of one shape along a new axis."""
    parts = [array_of(a, "rd.stack") for a in _sequence(arrays, "rd.stack")]
    place = axis % (parts[0].ndim + 1)
    trace = current()
    for part in parts[1:]:
        if part.ndim != parts[0].ndim:
            raise ShapeError(complaint("rd.stack takes arrays of one shape"))
        for k, (m, n) in enumerate(builtin_zip(parts[0].extents, part.extents, strict=True)):
            trace.equal_sizes(m, n, owner(parts[0], k, "one array"), owner(part, k, "another array"))
    dtype, _ = common_type(parts)

    def body(*p: Expr) -> Expr:
        inside = (*p[:place], *p[place + 1 :])
        values = [cast(Array(broadcast_free(part, inside), part.weak), dtype) for part in parts]
        result = values[-1]
        for k in reversed(range(len(values) - 1)):
            result = Op("select", dtype, (Op("lt", bool_, (p[place], index.as_index(k + 1))), values[k], result))
        return result

    extents = list(parts[0].extents)
    extents.insert(place, index.as_index(len(parts)))
    return moved(extents, body, name)


def broadcast_free(part: Array, places: tuple[Expr, ...]) -> Expr:
    """The element of an array (or the scalar itself) at `places`."""
    return part.node if part.ndim == 0 else load(part.node, places)


def roll(a: Any, shift: Any, axis: Any = None, *, name: str | None = None) -> Array:
    """Elements moved by `shift` along `axis`, those that fall off coming in at the other end; NumPy's `roll`."""
    array = array_of(a, "rd.roll")
    if axis is None:
        if array.ndim == 1:
            return roll(array, shift, 0, name=name)
        return reshape(roll(flatten(array), shift, 0), array.shape, name=name)
    axes = axis if isinstance(axis, tuple) else (axis,)
    steps = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    by: dict[int, Expr] = {}
    for k, step in builtin_zip(axes, steps, strict=True):
        place = _axis(k, array.ndim)
        by[place] = index.add(by.get(place, index.as_index(0)), _offset(step))

    def body(*p: Expr) -> Expr:
        places = [
            Op("wrap_index", i64, (index.sub(e, by[k]), array.extents[k])) if k in by else e for k, e in enumerate(p)
        ]
        return load(array.node, tuple(places))

    return moved(array.extents, body, name, array.weak)


def _offset(step: Any) -> Expr:
    if isinstance(step, Array):
        if step.ndim or not step.dtype.is_integer:
            raise ShapeError(complaint("an offset is an integer"))
        return index.canonical(cast(step, i64))
    return index.as_index(operator.index(step))


def shift(a: Any, k: Any, fill: Any = 0, *, axis: int = 0, name: str | None = None) -> Array:
    """Elements moved by k along `axis` (towards higher indices for positive k); `fill` comes in."""
    array = array_of(a, "rd.shift")
    place = _axis(axis, array.ndim)
    by = _offset(k)
    rules = boundaries(Fill(fill), array.ndim)

    def body(*p: Expr) -> Expr:
        places = [index.sub(e, by) if n == place else e for n, e in enumerate(p)]
        return load_with_boundary(array, places, rules, [n != place for n in range(array.ndim)])

    return moved(array.extents, body, name, array.weak)


def pad(a: Any, width: Any, mode: Any = "constant", constant_values: Any = 0, *, name: str | None = None) -> Array:
    """The array with a border, NumPy's `pad`: `width` is n, (before, after), or one such pair for each axis.

    `mode`: "constant" (with `constant_values`), "edge", "reflect", "symmetric", "wrap", or any boundary of a stencil.
    """
    array = array_of(a, "rd.pad")
    rank = array.ndim
    pairs = _widths(width, rank)
    if mode == "constant":
        mode = Fill(constant_values)
    rules = boundaries(mode, rank, extra=())

    def body(*p: Expr) -> Expr:
        places = [index.sub(e, before) for e, (before, _) in builtin_zip(p, pairs, strict=True)]
        return load_with_boundary(array, places, rules, [pair == (0, 0) for pair in pairs])

    if not builtin_all(isinstance(rule, Fill) for rule in rules):
        for k, (before, after) in enumerate(pairs):
            if (before or after) and not isinstance(rules[k], Fill):
                current().at_least_one(array.extents[k], f"dimension {k} of the array to pad")
    extents = [index.add(n, before + after) for n, (before, after) in builtin_zip(array.extents, pairs, strict=True)]
    return moved(extents, body, name, array.weak)


def _widths(width: Any, rank: int) -> list[tuple[int, int]]:
    def amount(value: Any) -> int:
        n = operator.index(value)
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


def array(value: Any, dtype: DType | None = None, *, name: str | None = None) -> Array:
    """An array from NumPy (a constant of the program, copied) or from a list of scalars or arrays, nested at will.

    Example:
        >>> import numpy as np, raido as rd
        >>> TABLE = np.array([10, 20, 30])
        >>> @rd.algorithm
        ... def look_up(i: rd.i64["n"]):
        ...     return rd.array(TABLE)[i]
        >>> look_up.interpret(np.array([2, 0]))
        array([30, 10])
    """
    if isinstance(value, (list, tuple)):
        if not value:
            raise ShapeError(complaint("rd.array of an empty list", remedy="rd.replicate(0, value)"))
        if builtin_all(_plain(v) for v in value):
            import numpy as np

            lifted = constant(np.asarray(value))
        else:
            lifted = stack([array(v) if isinstance(v, (list, tuple)) else v for v in value])
    else:
        lifted = lift(value)
    if dtype is not None:
        lifted = astype(Array(lifted.node, STRONG), dtype)
    elif is_scalar(lifted):
        lifted = Array(lifted.node, STRONG)
    return lifted if name is None else named(lifted, name)


def _plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return builtin_all(_plain(v) for v in value)
    return isinstance(value, (bool, int, float)) or type(value).__module__ == "numpy"


def full(shape: Any, value: Any, *, name: str | None = None) -> Array:
    """An array of `shape` with one value everywhere."""
    return replicate(tuple(shape) if isinstance(shape, (tuple, list)) else shape, value, name=name)


def _axis(axis: int, rank: int) -> int:
    k = operator.index(axis)
    if not -rank <= k < rank:
        raise ShapeError(complaint(f"axis {k} of an array of rank {rank}"))
    return k % rank


def _sequence(values: Any, what: str) -> list[Any]:
    if isinstance(values, Array):
        return list(values)
    if not isinstance(values, (list, tuple)) or not values:
        raise TraceError(complaint(f"{what} takes a list of arrays"))
    return list(values)


def _builtins() -> tuple[Any, Any, Any]:
    import builtins

    return builtins.zip, builtins.any, builtins.all


builtin_zip, builtin_any, builtin_all = _builtins()
