"""Sizes that data decides: made from traced integers, and compared while the program runs where nothing is known before.

Such a size is a `Count`: the value of an array of rank 0, computed once, never negative. Inside a function of elements it differs
from element to element; arrays of that size cannot leave the function.
"""

from __future__ import annotations

from collections.abc import Sequence

from raido.algo.errors import TraceError
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Axis, Checked, Count, Expr, Generate, Op, Result, const
from raido.algo.graph.rewrite import topological
from raido.algo.graph.scopes import open_variables
from raido.algo.trace.context import current
from raido.algo.trace.locations import complaint
from raido.algo.trace.types import describe
from raido.algo.trace.value import Array


def size_from(value: Expr, bound: Expr | None = None) -> Expr:
    """The size that an i64 scalar is; a fault "negative" when it is below 0, unless that cannot be."""
    if not current().facts.nonnegative(value):
        value = checked(value, Op("ge", bool_, (value, const(value.dtype, 0))), "negative", (value,))
    return counted(value, bound)


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
    return counted(checked(a, Op("eq", bool_, (a, b)), "size", (a, b)), a)


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
        if open_variables(extent) & own:
            raise TraceError(
                complaint(
                    f"an array {describe(array.dtype, array.extents)} whose size depends on the element leaves the function",
                    why="rows of different sizes make no array",
                    remedy="reduce it inside the function, or work on the whole array with rd.segmented_reduce",
                )
            )
