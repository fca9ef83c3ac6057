"""The building blocks of the combinators: axes, elements of arrays, and `collect`, which makes one `Generate` of a function's result.

Structures (tuples of arrays, `rd.zip`) are handled leaf by leaf. The element of an array of rank 1 is a scalar; the element of an array of
higher rank is a row: a view, itself a `Generate` of kind "move" with the axis variable free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from raido.algo.errors import ShapeError, TraceError
from raido.algo.graph import index
from raido.algo.graph.expr import ARRAY_FORMS, ArrayForm, Axis, Expr, Generate, Result, result_count
from raido.algo.language.complexes import Complex, complex_constant, is_complex
from raido.algo.trace.calling import run
from raido.algo.trace.context import current, load
from raido.algo.trace.existential import joined_size, keep_inside
from raido.algo.trace.locations import complaint
from raido.algo.trace.promotion import lift
from raido.algo.trace.trees import leaves, map_leaves, unflatten
from raido.algo.trace.types import describe
from raido.algo.trace.value import STRONG, Array, computed, is_scalar

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # known to type checkers, like `typing`

    # what a user's function gives for elements, and its combinator for arrays: an array or a tuple of them; of a number alone an array
    Value = TypeVar("Value", default=Array)
    Part = TypeVar("Part", default=Array)
else:
    from typing import TypeVar

    Value, Part = TypeVar("Value"), TypeVar("Part")
Number: TypeAlias = (
    bool | int | float | complex
)  # a function's result instead of an array: Python's `sum(…)`, or a literal
Single: TypeAlias = (
    "Array | Number | np.ndarray[Any, Any] | np.generic"  # a value that is one array inside an algorithm
)
Tuples: TypeAlias = "tuple[Any, ...] | Zipped"  # several values, numbers among them
Of = TypeVar("Of")
Elementwise: TypeAlias = (
    Callable[[Array], Of]
    | Callable[[Array, Array], Of]
    | Callable[[Array, Array, Array], Of]
    | Callable[[Array, Array, Array, Array], Of]
    | Callable[..., Of]
)  # a function of as many elements as it has parameters: checkers give those of a `lambda` their type
Several = TypeVar("Several", bound=tuple[Any, ...])  # a tuple of values, such as the state of a loop


class Zipped:
    """The result of `rd.zip(a, b)`: an array whose elements are tuples. `rd.zip(a, b)[i]` is `(a[i], b[i])`."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self.parts = parts

    @property
    def shape(self) -> tuple[Any, ...]:
        return leaves(self.parts)[0].shape[:1]

    def __getitem__(self, key: Any) -> Any:
        from raido.algo.language.indexing import index_structure

        return index_structure(self.parts, key)

    def __iter__(self) -> Any:
        return iter([self[i] for i in range(len(leaves(self.parts)[0]))])


def structure(value: Any) -> Any:
    """Returns an argument of a combinator as nested tuples of traced arrays."""
    if isinstance(value, Zipped):
        return map_leaves(structure, value.parts)
    if isinstance(value, tuple):
        return map_leaves(structure, value)
    return complex_constant(value) if is_complex(value) else lift(value)


def nesting_text(value: Any) -> str:
    """Returns the text of a structure in messages: the types of its arrays, nested in parentheses, such as "(f32[n], (i64, f32))"."""
    if isinstance(value, Complex):
        return f"complex numbers of {nesting_text(value.real)}"
    if isinstance(value, tuple):
        parts = ", ".join(map(nesting_text, value))
        return f"({parts},)" if len(value) == 1 else f"({parts})"
    return describe(value.dtype, value.extents)


def axis_names(rank: int) -> list[str]:
    """Returns the default names of axes: x; y, x; z, y, x; from rank 4 on, d0, d1, … in front."""
    extra = max(rank - 3, 0)
    return [f"d{k}" for k in range(extra)] + ["z", "y", "x"][3 - (rank - extra) :]


def reduction_names(rank: int) -> list[str]:
    """Returns the default names of reduction axes: r; ry, rx; rz, ry, rx; …"""
    return ["r"] if rank == 1 else [f"r{name}" for name in axis_names(rank)]


def make_axes(extents: Sequence[Expr], names: Sequence[str] | None = None) -> tuple[Axis, ...]:
    """Returns new axes of the given extents; `names` given by the user are kept in whichever stage the axes end up."""
    if names is not None and not _are_names(names):
        remedy = _axes_text(len(extents))
        raise TraceError(complaint(f"`axes` is a sequence of names, one for each axis, not {names!r}", remedy=remedy))
    axes = plain_axes(extents, axis_names(len(extents)) if names is None else names)
    if names is not None and list(names) != reduction_names(len(extents)):
        current().named_axes.update(axis.var for axis in axes)
    return axes


def _axes_text(count: int) -> str:
    """Returns an example of the argument `axes` for a number of axes."""
    names = [f'"{name}"' for name in axis_names(count)]
    return f"axes=({', '.join(names)}{',' * (count == 1)})" if names else "no axes=: the result is one number"


def _are_names(names: Any) -> bool:
    return isinstance(names, Iterable) and all(isinstance(name, str) for name in names)


def plain_axes(extents: Sequence[Expr], names: Sequence[str]) -> tuple[Axis, ...]:
    """Returns new axes whose names are replaced by those of the stage that they end up in."""
    trace = current()
    chosen = list(names)
    if len(chosen) != len(extents):
        head = f"{len(chosen)} axis names for {len(extents)} axes"
        raise TraceError(complaint(head, remedy=_axes_text(len(extents))))
    if len(set(chosen)) != len(chosen):
        raise TraceError(complaint(f"axis names repeat: {', '.join(chosen)}"))
    return tuple(trace.axis(name, extent) for name, extent in zip(chosen, extents, strict=True))


def element(array: Array, indices: Sequence[Expr]) -> Array:
    """Returns `array[indices]` for indices known to be in range: a scalar, or a row of the remaining dimensions."""
    extents = array.extents
    taken = tuple(indices)
    weak = array.weak
    if len(taken) == len(extents):
        return Array(load(array.node, taken), weak)
    axes = make_axes(extents[len(taken) :])
    body = load(array.node, taken + tuple(axis.var for axis in axes))
    return Array(new_form(axes, (body,), "move")[0], weak)


def elements(value: Any, indices: Sequence[Expr]) -> Any:
    """Returns `element` of every array of a structure."""
    return map_leaves(lambda array: element(array, indices), value)


def new_form(axes: tuple[Axis, ...], bodies: tuple[Expr, ...], kind: str, name: str | None = None) -> list[Result]:
    """Enters one new `Generate` into the trace and returns its arrays."""
    form = Generate(axes, bodies)
    current().form(form, kind, name)
    return [Result(form, k) for k in range(len(bodies))]


def form_results(form: ArrayForm, kind: str, name: str | None = None, weak: Sequence[int] = ()) -> list[Array]:
    """Enters a new form other than `Generate` into the trace and returns all its arrays.

    `weak` holds the weakness of the first arrays; the remaining ones are strong.
    """
    current().form(form, kind, name)
    return [wrap(Result(form, k), weak[k] if k < len(weak) else STRONG) for k in range(result_count(form))]


def wrap(result: Result, weak: int = STRONG) -> Array:
    """Returns the traced value of an array node: for rank 0, its one element."""
    return Array(result, weak) if result.shape else Array(load(result, ()), weak)


def check_result(value: Any) -> Any:
    """Returns the result of a function of elements as a structure of traced values; raises `TraceError` for None."""
    if value is None:
        remedy = "return the value: of an element, or, in a loop, of the state"
        raise TraceError(complaint("the function returned None", remedy=remedy))
    return structure(value)


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function of elements, one level deeper in the trace, and returns its checked result."""
    with current().deeper():
        return check_result(run(function, *arguments))


def collect(
    axes: tuple[Axis, ...],
    value: Any,
    kind: str,
    name: str | None = None,
    *,
    named_axes: bool = False,
    inner_names: Sequence[str] | None = None,
) -> Any:
    """Returns arrays with `axes` in front of every leaf of `value`, in one `Generate` for leaves of equal shapes.

    Axes with default names are renamed for the final rank, unless `named_axes` is set.
    """
    flat = leaves(value)
    groups: dict[tuple[Expr, ...], list[int]] = {}
    for position, leaf in enumerate(flat):
        keep_inside(axes, leaf)
        groups.setdefault(leaf.extents, []).append(position)
    done: dict[int, Array] = {}
    for inner, positions in groups.items():
        names = list(inner_names or axis_names(len(axes) + len(inner))[len(axes) :])
        rows = plain_axes(inner, _apart(names[-len(inner) :] if inner else [], axes if named_axes else ()))
        bodies = tuple(
            flat[p].node if is_scalar(flat[p]) else load(flat[p].node, tuple(axis.var for axis in rows))
            for p in positions
        )
        front = axes
        if inner and not named_axes:
            front, bodies = _renamed(axes, axis_names(len(axes) + len(inner)), bodies)
        for p, result in zip(positions, new_form(front + rows, bodies, kind, name), strict=True):
            done[p] = wrap(result, computed(flat[p].weak))
    return unflatten(value, [done[p] for p in range(len(flat))])


def _apart(names: list[str], axes: tuple[Axis, ...]) -> list[str]:
    taken = {axis.name for axis in axes}
    apart: list[str] = []
    for name in names:
        new, k = name, 2
        while new in taken:
            new, k = f"{name}{k}", k + 1
        taken.add(new)
        apart.append(new)
    return apart


def _renamed(
    axes: tuple[Axis, ...], names: list[str], bodies: tuple[Expr, ...]
) -> tuple[tuple[Axis, ...], tuple[Expr, ...]]:
    trace = current()
    front = plain_axes([axis.extent for axis in axes], names[: len(axes)])
    values = {old.var: new.var for old, new in zip(axes, front, strict=True)}
    holder = trace.substitute(Generate((), bodies), values)
    return front, holder.bodies


def outer_extent(arrays: Sequence[Any], what: str, example: str) -> Expr:
    """Returns the common size of the outermost dimension of structures of arrays. example: a call of `what`, for messages."""
    flat = [leaf for value in arrays for leaf in leaves(value)]
    if not flat:
        raise TraceError(complaint(f"{what} needs an array", remedy=example))
    for leaf in flat:
        if leaf.ndim == 0:
            raise ShapeError(complaint(f"{what} over a scalar of type {leaf.dtype}"))
    first = flat[0]
    extent = first.extents[0]
    for k, leaf in enumerate(flat[1:], 2):
        extent = joined_size(
            extent,
            leaf.extents[0],
            owner(first, 0, f"the first array of {what}"),
            owner(leaf, 0, f"array {k} of {what}"),
            f"{describe(first.dtype, first.extents)} and {describe(leaf.dtype, leaf.extents)}",
        )
    return extent


def owner(array: Array, axis: int, otherwise: str) -> str:
    """Returns the name of an array's dimension in messages."""
    node = array.node
    trace = current()
    if hasattr(node, "name"):
        return f"dimension {axis} of {node.name!r}"
    if isinstance(node, Result) and isinstance(node.form, ARRAY_FORMS) and trace.names.get(node.form):
        return f"dimension {axis} of {trace.names[node.form][0]!r}"
    return f"dimension {axis} of {otherwise}"


def broadcast(arrays: Sequence[Array], what: str) -> tuple[Expr, ...]:
    """Returns the broadcast shape of several arrays: a dimension broadcasts only if its size is the literal 1."""
    rank = max(array.ndim for array in arrays)
    shape: list[Expr] = [index.as_index(1)] * rank
    source: list[tuple[Array, int, str] | None] = [None] * rank
    shapes = " and ".join(describe(a.dtype, a.extents) for a in arrays if a.ndim)
    for array in arrays:
        lower = f" (rank {array.ndim})" if array.ndim < rank else ""
        for axis, extent in enumerate(array.extents):
            along = rank - array.ndim + axis
            if index.constant_value(extent) == 1:
                continue
            known = source[along]
            if known is None:
                shape[along], source[along] = extent, (array, axis, lower)
            else:
                shape[along] = joined_size(
                    shape[along],
                    extent,
                    owner(known[0], known[1], f"one operand of {what}") + known[2],
                    owner(array, axis, f"another operand of {what}") + lower,
                    shapes,
                )
    return tuple(shape)


def broadcast_element(array: Array, variables: Sequence[Expr]) -> Array:
    """Returns the element of a broadcast array at the given indices."""
    if array.ndim == 0:
        return array
    indices = variables[len(variables) - array.ndim :]
    zero = index.as_index(0)
    chosen = tuple(
        zero if index.constant_value(extent) == 1 else position
        for position, extent in zip(indices, array.extents, strict=True)
    )
    return element(array, chosen)


def elementwise(
    function: Callable[..., Any],
    arrays: Sequence[Any],
    *,
    kind: str = "elementwise",
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Any:
    """Applies `function` at every index of the broadcast shape; for scalars alone, calls it once and returns its value."""
    given = [structure(a) for a in arrays]
    flat = [leaf for value in given for leaf in leaves(value)]
    if all(leaf.ndim == 0 for leaf in flat):
        value = check_result(function(*given))
        return value if name is None else collect((), value, kind, name)
    own = make_axes(broadcast(flat, "the operation"), axes)
    variables = [axis.var for axis in own]
    inside = [map_leaves(lambda leaf: broadcast_element(leaf, variables), value) for value in given]
    with current().deeper():
        value = check_result(function(*inside))
    return collect(own, value, kind, name, named_axes=axes is not None)
