"""Sizes that depend on data: made from traced integers, and compared at run time where they cannot be compared before.

Such a size is a `Count`: the value of an array of rank 0, computed once, never negative. Inside a function of elements it may differ from
element to element; arrays of that size cannot leave the function.
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
    """Returns an i64 scalar as a size; it faults below 0 or above the largest array size, unless both are excluded."""
    return counted(count_from(value, limited=bound is not None), bound)


def count_from(value: Expr, limited: bool = False) -> Expr:
    """Returns an i64 scalar checked as a number of elements; with `limited`, it is known not to exceed the largest array size."""
    assumptions = current().assumptions
    if not assumptions.nonnegative(value):
        value = _not_negative(value)
    if not (limited or assumptions.less_equal(value, LARGEST_SIZE) or _is_narrow(value)):
        computed = isinstance(value, Op) and is_size(value)  # a computed size may have wrapped
        number = (magnitude(value), const(f64, LARGEST_SIZE)) if computed else (value, const(i64, LARGEST_SIZE))
        shown = [e for e in topological(value) if isinstance(e, (SizeVar, Count))][:3] if computed else [value]
        value = checked(value, Op("le", bool_, number), f"limit_{len(shown)}", shown)
    return value


def _not_negative(value: Expr) -> Expr:
    """Returns an i64 scalar with a check that it is not negative; a u64 of 2**63 or more is negative as an i64."""
    kind = unsigned_kind("size", value)
    return checked(value, Op("ge", bool_, (value, const(i64, 0))), "negative" if kind == "size" else kind, (value,))


def next_size(extent: Expr) -> Expr:
    """Returns the size of a loop's state after an iteration, checked where it may grow from iteration to iteration."""
    sizes = [node for node in topological(extent) if isinstance(node, (Count, SizeVar))]
    shrinks = any(current().assumptions.less_equal(extent, size) for size in sizes)
    return count_from(extent, limited=shrinks or not sizes)


def _is_narrow(value: Expr) -> bool:
    """Whether a number was converted from an integer of 32 bits or fewer."""
    if isinstance(value, Checked):
        return _is_narrow(value.value)
    narrow = value.args[0].dtype if isinstance(value, Op) and value.name == "cast" else i64
    return narrow.is_integer and narrow.bits <= 32


def counted(value: Expr, bound: Expr | None) -> Count:
    """Returns the `Count` of a scalar that is never negative and at most `bound`."""
    form = Generate((), (value,))
    current().form(form, "size")
    return Count(Result(form, 0), bound)


def checked(value: Expr, holds: Expr, kind: str, details: Sequence[Expr]) -> Expr:
    """Returns `value` with a check that faults at the user's line unless `holds`."""
    node = Checked(value, holds, kind, tuple(details))
    current().site(node)
    return node


def decided_by_data(size: Expr) -> bool:
    """Whether a size depends on data, and is unknown before the program runs."""
    return any(isinstance(node, Count) for node in topological(size))


def joined_size(a: Expr, b: Expr, owner_a: str, owner_b: str, shapes: str = "") -> Expr:
    """Requires a = b and returns that size: proven, refused, or checked; at the call, or, for a size that depends on data, at run time."""
    trace = current()
    if trace.assumptions.equal(a, b) or not (decided_by_data(a) or decided_by_data(b)):
        trace.equal_sizes(a, b, owner_a, owner_b, shapes)
        return a
    trace.refuse_different(a, b, owner_a, owner_b, shapes)
    agreed = checked(a, Op("eq", bool_, (a, b)), "size", (a, b))
    trace.sites[agreed] = replace(trace.sites[agreed], array=f"{owner_a}, and {owner_b}")
    return counted(agreed, a)


def nonempty_size(extent: Expr, dimension: int, owner: str) -> Expr:
    """Requires a size of at least 1 and returns it: proven, refused, or checked; at the call, or, where it depends on data, at run time."""
    if not decided_by_data(extent) or current().assumptions.less_equal(1, extent):
        current().at_least_one(extent, owner)
        return extent
    zero, holds = const(i64, 0), Op("ge", bool_, (extent, const(i64, 1)))
    return counted(checked(extent, holds, "index", (const(i64, dimension), zero, zero)), extent)


def keep_inside(axes: Sequence[Axis], array: Array) -> None:
    """Raises `TraceError` where a function of the elements along `axes` returns an array whose size depends on the element."""
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
