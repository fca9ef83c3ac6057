"""Limits of sizes and arrays, and the arrays of a program that must be checked against them before they are made.

Elsewhere, arithmetic on sizes and indices is exact. That rests on two properties that are checked once, on creation: no size exceeds
`LARGEST_SIZE`, and no array takes more than `LARGEST_ARRAY` bytes, dimensions of size 0 counting as 1 (NumPy's own rule), so that strides,
offsets and trip counts fit in 64 bits, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from raido.algo.errors import ArrayTooLarge, explain
from raido.algo.graph.dtypes import DType, f64
from raido.algo.graph.expr import (
    ARRAY_FORMS,
    ArrayCond,
    ArrayForm,
    ArrayLoop,
    ArrayWhile,
    Cond,
    Const,
    Count,
    Expr,
    Item,
    Load,
    Loop,
    Node,
    Op,
    Result,
    SizeVar,
    While,
    const,
    result_count,
)
from raido.algo.graph.index import text
from raido.algo.graph.program import Program, Site
from raido.algo.graph.rewrite import children, scalar_nodes, topological

LARGEST_SIZE = 1 << 60  # elements: eight times that, in bytes, is more than 64 bits hold with a sign
LARGEST_ARRAY = 1 << 62  # bytes: half of what 64 bits hold, so that sums of a few offsets fit, too
DECIDED_BY_DATA = "one that data decides"  # the size that is at fault, where it has no name
MOST_SHOWN = 4  # sizes: a fault has room for as many numbers


@dataclass(frozen=True, slots=True)
class SizedArray:
    """An array whose shape is known before the program runs, and the line that makes it."""

    dtype: DType
    shape: tuple[Expr, ...]
    site: Site | None


def sized_arrays(program: Program) -> list[SizedArray]:
    """The arrays that every call makes, except the arguments, one per shape: that with the largest dtype of the shape.

    Arrays in a branch, or in the body of a loop, may never be made, and are left out.
    """
    found: dict[tuple[Expr, ...], SizedArray] = {}
    seen: set[Node] = set()
    stack: list[Node] = list(reversed(program.results))
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, ARRAY_FORMS):
            _note(node, program.sites.get(node), found)
        stack += reversed(always_needed(node))
    return list(found.values())


def _note(form: ArrayForm, site: Site | None, found: dict[tuple[Expr, ...], SizedArray]) -> None:
    for k in range(result_count(form)):
        array = Result(form, k)
        known = found.get(array.shape)
        if known is not None and known.dtype.itemsize >= array.dtype.itemsize:
            continue
        if all(isinstance(node, (Const, SizeVar, Op)) for node in topological(*array.shape)):
            found[array.shape] = SizedArray(array.dtype, array.shape, site)


def always_needed(node: Node) -> Sequence[Node]:
    """Operands that a node's value needs for any data."""
    if isinstance(node, (Result, Item)):
        return (node.form,)
    if isinstance(node, Load):
        return (node.array, *node.indices)
    if isinstance(node, (Cond, ArrayCond)):
        return (node.predicate,)
    if isinstance(node, (Loop, ArrayLoop)):
        return (node.count, *node.init)
    if isinstance(node, While):
        return (node.condition, *node.init)  # the first iteration's
    if isinstance(node, ArrayWhile):
        return node.init
    return children(node)


def reach(e: Expr, sizes: Mapping[str, int] | None = None) -> int:
    """An upper bound of the magnitude of a size and all its intermediate results; for given `sizes`, computed from these."""
    known: dict[Node, int] = {}
    for node in scalar_nodes(e):
        if isinstance(node, Const):
            known[node] = abs(int(node.value))
        elif isinstance(node, Op):
            parts = [known[a] for a in node.args]
            added = sum(parts) if node.name in ("add", "sub") else max(parts)
            known[node] = parts[0] * parts[1] if node.name == "mul" else added
        else:
            known[node] = sizes[node.name] if sizes is not None and isinstance(node, SizeVar) else LARGEST_SIZE
    return known[e]


def exceeds_limit(extents: Sequence[int], itemsize: int) -> bool:
    """Whether an array of these extents and this item size exceeds `LARGEST_ARRAY`."""
    return prod(max(extent, 1) for extent in extents) * itemsize > LARGEST_ARRAY


def check_extents(
    extents: Sequence[int],
    dtype: DType,
    shape: Sequence[Expr],
    site: Site | None,
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Raises `ArrayTooLarge` where an array of these extents exceeds the limit; it names the `sizes` that they are computed from."""
    if exceeds_limit(extents, dtype.itemsize):
        line = None if site is None else str(site)
        given = [sizes[size.name] for size in sizes_within(shape)] if sizes else extents
        raise ArrayTooLarge(explain(limit_text(given), algorithm=line, array=array_text(dtype, shape)))


def too_large(sizes: Sequence[int], site: Site | None) -> ArrayTooLarge:
    """The error for size arithmetic that exceeds the limit."""
    return ArrayTooLarge(explain(limit_text(sizes), algorithm=None if site is None else str(site)))


def limit_text(sizes: Sequence[int | str]) -> str:
    """The message for an array that is too large because of these sizes."""
    if not sizes:
        return "an array is larger than any can be"
    *most, last = map(str, sizes)
    if not most:
        return f"a size of {last} makes an array larger than any can be"
    return f"sizes of {', '.join(most)} and {last} make an array larger than any can be"


def array_text(dtype: DType, shape: Sequence[Expr]) -> str:
    """A type with its sizes, as in messages: `f32[n, m]`."""
    return f"{dtype}[{', '.join(map(text, shape))}]"


def divisor_text(divisor: Expr) -> str:
    """A size divisor that is 0, as in messages."""
    return DECIDED_BY_DATA if any(isinstance(node, Count) for node in topological(divisor)) else f"{text(divisor)} = 0"


def magnitude(e: Expr) -> Expr:
    """An f64 expression for an upper bound of the magnitudes of a size and its intermediate results."""
    if isinstance(e, Const):
        return const(f64, abs(int(e.value)))
    if not isinstance(e, Op):
        return Op("cast", f64, (e,))
    first, *rest = (magnitude(a) for a in e.args)
    for part in rest:
        name = "mul" if e.name == "mul" else "add" if e.name in ("add", "sub") else "maximum"
        first = Op(name, f64, (first, part))
    return first


def sizes_within(shape: Sequence[Expr]) -> tuple[SizeVar, ...]:
    """The sizes that extents are computed from, at most `MOST_SHOWN`, by name."""
    names = sorted({node for node in topological(*shape) if isinstance(node, SizeVar)}, key=lambda size: size.name)
    return tuple(names[:MOST_SHOWN])
