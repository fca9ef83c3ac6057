"""`rd.stencil`: a function of the neighbourhood of every element, with a rule for elements outside of the array.

The neighbourhood consists of the elements that the function reads: a window returns loads at constant offsets. A tap without an offset
along an axis needs no boundary there, and its index is left plain; other indices carry the boundary as one operation on (index, size), from
which lowering finds interior and borders by interval analysis.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, overload

from raido.algo.errors import ShapeError, TraceError
from raido.algo.graph import index
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Axis, Const, Expr, Op, fresh
from raido.algo.language.complexes import spread
from raido.algo.language.moves import moved as moved_array
from raido.algo.trace.attributes import NearAttributes
from raido.algo.trace.building import (
    Elementwise,
    Number,
    Single,
    Value,
    call,
    collect,
    element,
    make_axes,
    owner,
    structure,
)
from raido.algo.trace.context import current, load, load_chosen
from raido.algo.trace.existential import joined_size
from raido.algo.trace.locations import complaint
from raido.algo.trace.operators import Operators
from raido.algo.trace.promotion import lift
from raido.algo.trace.scalars import cast
from raido.algo.trace.trees import leaves, map_leaves
from raido.algo.trace.types import describe
from raido.algo.trace.value import Array


@dataclass(frozen=True, slots=True, eq=False)
class Fill:
    """The boundary `rd.constant(v)`: outside the array, the value is v."""

    value: Any

    def __repr__(self) -> str:
        return f"rd.constant({self.value!r})"


def constant(value: Any) -> Fill:
    """The boundary of a stencil, gather or pad outside which every element is `value`.

    Example:
        >>> rd.algorithm(lambda a: rd.stencil(lambda p: p[-1] + p[1], a, boundary=rd.constant(0))).interpret(np.array([3, 1, 2]))
        array([1, 5, 1])
    """
    return Fill(value)


MODES = {
    "clamp": "clamp_index",
    "edge": "clamp_index",
    "wrap": "wrap_index",
    "mirror": "mirror_index",
    "reflect": "mirror_index",
    "symmetric": "symmetric_index",
}


def boundaries(boundary: Any, rank: int, extra: tuple[str, ...] = ("valid",)) -> list[Any]:
    """Returns the rule for each axis: the name of a boundary operation, "valid", or a `Fill`."""
    rules = list(boundary) if isinstance(boundary, tuple) else [boundary] * rank
    if len(rules) != rank:
        raise ShapeError(complaint(f"{len(rules)} boundaries for {rank} axes"))
    known = ("clamp", "wrap", "mirror", "symmetric", *extra)
    for rule in rules:
        if not isinstance(rule, Fill) and (not isinstance(rule, str) or (rule not in MODES and rule not in extra)):
            raise TraceError(
                complaint(
                    f"there is no boundary {rule!r}",
                    remedy=f"rd.constant({rule!r})"
                    if isinstance(rule, (int, float))
                    else "one of " + ", ".join(f'"{k}"' for k in known) + ", rd.constant(v), or a tuple, one per axis",
                )
            )
    return [rule if isinstance(rule, Fill) or rule in extra else MODES[rule] for rule in rules]


def for_leaves(boundary: Any, value: Any) -> list[Any]:
    """Returns the boundary for each array of a structure: a constant serves for all, a complex one for the parts of complex numbers."""
    if isinstance(boundary, tuple):
        count = len(leaves(value))
        columns = [for_leaves(rule, value) for rule in boundary]
        return [tuple(column[k] for column in columns) for k in range(count)]
    if not isinstance(boundary, Fill):
        return [boundary] * len(leaves(value))
    return [Fill(own) for own in leaves(spread(boundary.value, value, "the value of rd.constant"))]


def load_with_boundary(
    array: Array,
    indices: Sequence[Expr],
    rules: Sequence[Any],
    safe: Sequence[bool],
    extents: Sequence[Expr] | None = None,
) -> Expr:
    """Returns the element at indices that may be out of range, unless `safe`: clamped, wrapped or replaced by the rule of each axis.

    `extents` are the array's sizes, by default those of its shape.
    """
    coordinates: list[Expr] = []
    value: Expr | None = None
    inside: Expr | None = None
    for e, extent, rule, known in zip(indices, extents or array.extents, rules, safe, strict=True):
        if known or rule in ("valid", "raise"):
            coordinates.append(e)
            continue
        operation = "clamp_index" if isinstance(rule, Fill) else rule
        coordinates.append(Op(operation, i64, (e, extent)))
        if isinstance(rule, Fill):
            fill = _fill_value(rule, array)
            if value is not None and fill is not value:
                raise TraceError(complaint("different rd.constant values on different axes"))
            value = fill
            low = Op("ge", bool_, (e, Const(i64, 0)))
            test = Op("logical_and", bool_, (low, Op("lt", bool_, (e, extent))))
            inside = test if inside is None else Op("logical_and", bool_, (inside, test))
    check = any(rule == "raise" and not k for rule, k in zip(rules, safe, strict=True))
    chosen = inside is not None and not check
    node = load_chosen(array.node, tuple(coordinates)) if chosen else load(array.node, tuple(coordinates), check)
    if inside is None or value is None:
        return node
    return Op("select", array.dtype, (inside, node, value))


def _fill_value(rule: Fill, array: Array) -> Expr:
    value = lift(rule.value)
    if value.ndim:
        raise ShapeError(complaint("rd.constant takes a scalar"))
    return cast(value, array.dtype)


def _offset_text(offset: Any) -> str:
    if not isinstance(offset, slice):
        return repr(offset)
    ends = ["" if end is None else str(end) for end in (offset.start, offset.stop)]
    return ":".join([*ends, str(offset.step)] if offset.step is not None else ends)


class Window(NearAttributes):
    """The neighbourhood of one element: `p[dy, dx]` with integer constants is the element at that offset."""

    __slots__ = ("array", "base", "high", "low", "rules")
    _display_name = "p"
    _site = "algorithm"

    def __init__(self, array: Array, base: Sequence[Expr], rules: list[Any], low: list[Any], high: list[Any]) -> None:
        self.array, self.base, self.rules, self.low, self.high = array, base, rules, low, high

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    def _meant(self, name: str) -> str | None:
        return "p[dy, dx] with constant offsets: a window is no array, but its elements are scalars"

    def __getitem__(self, key: Any) -> Array:
        offsets = key if isinstance(key, tuple) else (key,)
        if len(offsets) != len(self.base):
            remedy = {1: "p[dx]", 2: "p[dy, dx]", 3: "p[dz, dy, dx]"}.get(len(self.base))
            head = f"{len(offsets)} offset{'s' * (len(offsets) != 1)} in a window of rank {len(self.base)}"
            raise ShapeError(complaint(head, remedy=remedy))
        try:
            taps = [operator.index(offset) for offset in offsets]
        except TypeError as error:
            head, here = (
                "an offset in a window must be an integer constant",
                ", ".join("0" * (len(self.base) - 1) + "k"),
            )
            if isinstance(error, TraceError):
                remedy = f"sum(p[{here}] for k in range(-1, 2)): Python's range, unrolled; rd.gather(a, i) for places that data decides"
                raise TraceError(complaint(head, remedy=remedy)) from None
            came = next(offset for offset in offsets if not hasattr(offset, "__index__"))
            low, high = (came.start, came.stop) if isinstance(came, slice) else (-1, 2)
            between = f"{-1 if low is None else low}, {2 if high is None else high}"
            remedy = f"sum(p[{here}] for k in range({between})), or rd.stack([…]) of them"
            raise TraceError(complaint(f"{head}, not {_offset_text(came)}", remedy=remedy)) from None
        for k, tap in enumerate(taps):
            self.low[k] = tap if self.low[k] is None else min(self.low[k], tap)
            self.high[k] = tap if self.high[k] is None else max(self.high[k], tap)
        coordinates = [index.add(base, tap) for base, tap in zip(self.base, taps, strict=True)]
        node = load_with_boundary(self.array, coordinates, self.rules, [tap == 0 for tap in taps])
        return Array(node, self.array.weak)

    def refuse(self, *operands: Any) -> NoReturn:
        """Raises `TraceError`: the window is used as a value."""
        here = f"p[{', '.join('0' * len(self.base))}]"
        raise TraceError(
            complaint("a window is used as a value", why="it is no array", remedy=f"{here}, its element at an offset")
        )

    def __iter__(self) -> Any:
        raise TraceError(complaint("cannot iterate over a window", remedy="p[dy, dx] with constant offsets"))

    __bool__ = __array__ = __float__ = __int__ = __len__ = refuse


for _operator in vars(Operators):
    if _operator.startswith("__") and callable(getattr(Operators, _operator)):
        setattr(Window, _operator, Window.refuse)


@overload
def stencil(
    f: Callable[[Array], Value | Number],
    array: Single,
    /,
    *,
    boundary: Any = "clamp",
    stride: Any = 1,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Value: ...
@overload
def stencil(
    f: Callable[[Array, Array], Value | Number],
    first: Single,
    second: Single,
    /,
    *,
    boundary: Any = "clamp",
    stride: Any = 1,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Value: ...
@overload
def stencil(
    f: Elementwise[Value | Number],
    *arrays: Any,
    invariant: Any,
    boundary: Any = "clamp",
    stride: Any = 1,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Value: ...
@overload
def stencil(
    f: Elementwise[Value | Number],
    first: Any,
    second: Any,
    third: Any,
    /,
    *arrays: Any,
    boundary: Any = "clamp",
    stride: Any = 1,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Value: ...
def stencil(
    f: Callable[..., Value | Number],
    *arrays: Any,
    boundary: Any = "clamp",
    invariant: Any = (),
    stride: Any = 1,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Value:
    """Applies `f(p, q, …)` at every index, where `p[dy, dx]` is the element of the first array dy rows and dx columns away.

    `boundary`: "clamp", "wrap", "mirror" (or "reflect", as NumPy calls it), "symmetric", "valid" (only where the whole neighbourhood is
    inside) or `rd.constant(v)`; a tuple gives one per axis. `invariant` arrays are passed after the windows, as plain elements. `stride`
    keeps every stride-th position (a tuple: per axis). The arrays have one shape. A tuple result is one stage. `axes` names the stage's
    axes for schedules, outermost first, one for each dimension.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def differences(a: rd.f32["n"]):
        ...     return rd.stencil(lambda p: p[1] - p[0], a, boundary="valid")
        >>> differences.interpret(np.float32([1, 4, 9]))
        array([3., 5.], dtype=float32)
    """
    trace = current()
    given = [structure(a) for a in arrays]
    flat = [leaf for value in given for leaf in leaves(value)]
    if not flat:
        raise TraceError(complaint("rd.stencil needs an array"))
    first = flat[0]
    rank = first.ndim
    if rank == 0:
        raise ShapeError(complaint("rd.stencil over a scalar"))
    given = _of_one_shape(given)
    first = next(leaf for value in given for leaf in leaves(value))
    rules = iter([boundaries(own, rank) for own in for_leaves(boundary, tuple(given))])
    strides = list(stride) if isinstance(stride, tuple) else [stride] * rank
    if len(strides) != rank or any(not isinstance(s, int) or isinstance(s, bool) or s < 1 for s in strides):
        raise TraceError(complaint(f"`stride` is a positive int or one for each axis, not {stride!r}"))
    base = [fresh(f"at{k}") for k in range(rank)]
    for var, extent in zip(base, first.extents, strict=True):
        trace.range(var, extent)
    low: list[Any] = [None] * rank
    high: list[Any] = [None] * rank
    windows = [map_leaves(lambda leaf: Window(leaf, base, next(rules), low, high), value) for value in given]
    fixed = [structure(a) for a in (invariant if isinstance(invariant, (tuple, list)) else (invariant,))]
    elements, late = _invariants(fixed, first, base)
    value = call(f, *windows, *elements)
    own, coordinates = _domain(first, boundaries(boundary, rank), strides, low, high, axes)
    moved = dict(zip(base, coordinates, strict=True))
    moved |= late(own)
    rest = leaves(value)
    value = map_leaves(lambda leaf: Array(_moved(leaf, moved), leaf.weak), value) if rest else value
    return collect(own, value, "stencil", name, named_axes=axes is not None)


def _moved(leaf: Array, values: dict[Any, Expr]) -> Any:
    trace = current()
    return trace.substitute(leaf.node, values)


def _of_one_shape(given: list[Any]) -> list[Any]:
    """Returns the arrays of a stencil with one shape, with checks where sizes depend on data."""
    first, *others = [leaf for value in given for leaf in leaves(value)]
    sizes = list(first.extents)
    for other in others:
        shapes = f"{describe(first.dtype, first.extents)} and {describe(other.dtype, other.extents)}"
        if first.ndim != other.ndim:
            raise ShapeError(complaint(f"rd.stencil over arrays of different rank: {shapes}"))
        for k, b in enumerate(other.extents):
            owners = owner(first, k, "one array"), owner(other, k, "another array")
            sizes[k] = joined_size(sizes[k], b, *owners, shapes)
    if tuple(sizes) == first.extents:
        return given
    resized = lambda leaf: moved_array(sizes, lambda *p: load(leaf.node, p), weak=leaf.weak)
    return [map_leaves(resized, value) for value in given]


def _invariants(fixed: list[Any], first: Array, base: list[Any]) -> tuple[list[Any], Any]:
    """Returns the elements of the invariants, and a function that gives their late indices once the result's axes are known.

    An invariant of the arrays' shape is read at the window's centre; others have the result's shape and are read at the result's index.
    """
    waiting = [fresh(f"out{k}") for k in range(first.ndim)]
    for var, extent in zip(waiting, first.extents, strict=True):
        current().range(var, extent)
    used: list[Array] = []

    def one(leaf: Array) -> Array:
        if leaf.ndim == 0:
            return leaf
        if leaf.ndim != first.ndim:
            raise ShapeError(complaint(f"an invariant of rank {leaf.ndim} for windows of rank {first.ndim}"))
        if all(current().assumptions.equal(a, b) for a, b in zip(leaf.extents, first.extents, strict=True)):
            return element(leaf, base)
        used.append(leaf)
        return element(leaf, waiting)

    def late(own: tuple[Axis, ...]) -> dict[Any, Expr]:
        for leaf in used:
            for k, (extent, axis) in enumerate(zip(leaf.extents, own, strict=True)):
                current().equal_sizes(
                    extent, axis.extent, owner(leaf, k, "an invariant"), f"dimension {k} of the result"
                )
        return dict(zip(waiting, (axis.var for axis in own), strict=True))

    return [map_leaves(one, value) for value in fixed], late


def _domain(
    first: Array, rules: list[Any], strides: list[int], low: list[Any], high: list[Any], names: Sequence[str] | None
) -> tuple[tuple[Axis, ...], list[Expr]]:
    """Returns the axes of the result, and the index of the window's centre in the input as an expression of each."""
    extents: list[Expr] = []
    for extent, rule, stride, a, b in zip(first.extents, rules, strides, low, high, strict=True):
        positions = extent
        if rule == "valid":
            positions = index.maximum(index.sub(extent, (b or 0) - (a or 0)), 0)
        extents.append(index.ceildiv(positions, stride))
    own = make_axes(extents, names)
    coordinates: list[Expr] = []
    for axis, rule, stride, a in zip(own, rules, strides, low, strict=True):
        position = index.mul(axis.var, stride)
        coordinates.append(index.sub(position, a or 0) if rule == "valid" else position)
    return own, coordinates
