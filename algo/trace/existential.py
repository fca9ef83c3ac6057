"""Sizes that data decides: made from traced integers, and compared while the program runs where nothing is known before.

Such a size is a `Count`: the value of an array of rank 0, computed once, never negative. Inside a function of elements it differs
from element to element; arrays of that size cannot leave the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from raido.algo.errors import TraceError
from raido.algo.graph.dtypes import bool_, f64, i64
from raido.algo.graph.expr import Axis, Checked, Count, Expr, Generate, Op, Result, SizeVar, const
from raido.algo.graph.faults import unsigned_kind
from raido.algo.graph.limits import LARGEST_SIZE, magnitude
from raido.algo.graph.rewrite import free_variables, topological
from raido.algo.graph.size_numbers import is_size
from raido.algo.trace.context import current
from raido.algo.trace.locations import complaint
from raido.algo.trace.types import describe
from raido.algo.trace.value import Array


def size_from(value: Expr, bound: Expr | None = None) -> Count:
    """The size that an i64 scalar is; a fault when it is below 0, or more than any array has, unless that cannot be."""
    return counted(count_from(value, limited=bound is not None), bound)


def count_from(value: Expr, limited: bool = False) -> Expr:
    """An i64 scalar that counts elements, which is known to be no more than an array has if it is `limited`."""
    facts = current().facts
    if not facts.nonnegative(value):
        value = _not_negative(value)
    if not (limited or facts.less_equal(value, LARGEST_SIZE) or _is_narrow(value)):
        computed = isinstance(value, Op) and is_size(value)  # and may have wrapped
        number = (magnitude(value), const(f64, LARGEST_SIZE)) if computed else (value, const(i64, LARGEST_SIZE))
        shown = [e for e in topological(value) if isinstance(e, (SizeVar, Count))][:3] if computed else [value]
        value = checked(value, Op("le", bool_, number), f"limit_{len(shown)}", shown)
    return value


def _not_negative(value: Expr) -> Expr:
    """An i64 scalar, checked not to be below 0, which a u64 of 2**63 and more is as an i64."""
    kind = unsigned_kind("size", value)
    return checked(value, Op("ge", bool_, (value, const(i64, 0))), "negative" if kind == "size" else kind, (value,))


def next_size(extent: Expr) -> Expr:
    """The size of a state after an iteration, checked where iterations may make it grow without end."""
    sizes = [node for node in topological(extent) if isinstance(node, (Count, SizeVar))]
    shrinks = any(current().facts.less_equal(extent, size) for size in sizes)
    return count_from(extent, limited=shrinks or not sizes)


def _is_narrow(value: Expr) -> bool:
    """Whether a number was an integer of 32 bits or fewer."""
    if isinstance(value, Checked):
        return _is_narrow(value.value)
    narrow = value.args[0].dtype if isinstance(value, Op) and value.name == "cast" else i64
    return narrow.is_integer and narrow.bits <= 32


def counted(value: Expr, bound: Expr | None) -> Count:
    """A size for a scalar that is never negative and at most `bound`."""
    form = Generate((), (value,))
    current().form(form, "size")
    return Count(Result(form, 0), bound)


def checked(value: Expr, holds: Expr, kind: str, details: Sequence[Expr]) -> Expr:
    """`value`, with a fault at the user's line unless `holds`."""
    node = Checked(value, holds, kind, tuple(details))
    current().site(node)
    return node


def decided_by_data(size: Expr) -> bool:
    """Whether a size cannot be known before the program runs."""
    return any(isinstance(node, Count) for node in topological(size))


def joined_size(a: Expr, b: Expr, owner_a: str, owner_b: str, shapes: str = "") -> Expr:
    """a = b: known, refused, or checked: at the call where both are known then, else when both have been computed."""
    trace = current()
    if trace.facts.equal(a, b) or not (decided_by_data(a) or decided_by_data(b)):
        trace.equal_sizes(a, b, owner_a, owner_b, shapes)
        return a
    trace.refuse_different(a, b, owner_a, owner_b, shapes)
    agreed = checked(a, Op("eq", bool_, (a, b)), "size", (a, b))
    trace.sites[agreed] = replace(trace.sites[agreed], array=f"{owner_a}, and {owner_b}")
    return counted(agreed, a)


def nonempty_size(extent: Expr, dimension: int, owner: str) -> Expr:
    """A size that is at least 1: known, refused, or checked at the call, or, where data decides it, when it is known."""
    if not decided_by_data(extent) or current().facts.less_equal(1, extent):
        current().at_least_one(extent, owner)
        return extent
    zero, holds = const(i64, 0), Op("ge", bool_, (extent, const(i64, 1)))
    return counted(checked(extent, holds, "index", (const(i64, dimension), zero, zero)), extent)


def keep_inside(axes: Sequence[Axis], array: Array) -> None:
    """TraceError where a function of the elements along `axes` returns an array whose size depends on the element."""
    own = {axis.var for axis in axes}
    for extent in array.extents:
        if free_variables(extent) & own:
            raise TraceError(
                complaint(
                    f"an array {describe(array.dtype, array.extents)} whose size depends on the element leaves the function",
                    why="rows of different sizes make no array",
                    remedy="reduce it inside the function, or work on the whole array with rd.segmented_reduce",
                )
            )
