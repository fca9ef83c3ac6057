"""Slices of one dimension: literal and size bounds clamp as NumPy's do, bounds that depend on data are checked.

A slice between traced bounds has a size that depends on data, unless its length is a size: `a[i : i + 4]` has four elements, each of which
is then checked by itself.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from raido.algo.errors import DTypeError, ShapeError, TraceError
from raido.algo.graph import index
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Expr, Op, const
from raido.algo.graph.faults import unsigned_kind
from raido.algo.graph.size_numbers import is_size
from raido.algo.trace.context import current
from raido.algo.trace.existential import checked, counted
from raido.algo.trace.locations import complaint, plain_int
from raido.algo.trace.remedies import ROUNDED_SIZE
from raido.algo.trace.value import Array
from raido.algo.trace.whole_numbers import FAR, same_bits


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """The indices start + step · i for i below extent of a dimension; `safe` where they are known to be in range."""

    extent: Expr
    start: Expr
    step: int
    safe: bool = True


def read_slice(key: slice, n: Expr) -> Range:
    """Returns the range of a slice in a dimension of size `n`."""
    step = 1 if key.step is None else _plain_step(key.step)
    traced = [bound for bound in (key.start, key.stop) if isinstance(bound, Array) and not is_size(index_value(bound))]
    if traced and step < 0:
        raise TraceError(
            complaint("a slice with a negative step and bounds that depend on the data", remedy="a[lo:hi][::-1]")
        )
    if step < 0:
        return _backward(key, n, step)
    start = index.as_index(0) if key.start is None else _bound(key.start, n)
    # no clamping of the start to n: where it matters, the slice is empty
    stop = n if key.stop is None else _bound(key.stop, n)
    if not traced:
        return Range(current().assumptions.decided(_length(start, index.minimum(n, stop), step)), start, step)
    span = index.sub(stop, start)
    if is_size(span):
        return Range(_length(start, stop, step), start, step, False)
    return _between(start, stop, n, step, [index_value(bound) for bound in traced])


def _between(start: Expr, stop: Expr, n: Expr, step: int, traced: list[Expr]) -> Range:
    """Returns the range between bounds, with a check that the traced ones lie in 0 … n."""
    assumptions = current().assumptions
    stop = stop if stop in traced else index.minimum(n, stop)
    tests = [Op("ge", bool_, (bound, const(i64, 0))) for bound in traced if not assumptions.nonnegative(bound)]
    tests += [Op("le", bool_, (bound, n)) for bound in traced if not assumptions.less_equal(bound, n)]
    length = _length(start, stop, step)
    if tests:
        holds = tests[0]
        for test in tests[1:]:
            holds = Op("logical_and", bool_, (holds, test))
        length = checked(length, holds, unsigned_kind("bounds", start, stop), (start, stop, n))
    return Range(counted(length, n), start, step)


def _length(start: Expr, stop: Expr, step: int) -> Expr:
    return index.maximum(index.floordiv(index.add(index.sub(stop, start), step - 1), step), 0)


def _backward(key: slice, n: Expr, step: int) -> Range:
    last = index.sub(n, 1)
    start = last if key.start is None else index.minimum(_raw_bound(key.start, n), last)
    stop = index.as_index(-1) if key.stop is None else index.maximum(_raw_bound(key.stop, n), -1)
    span = index.sub(start, stop)
    count = index.maximum(index.floordiv(index.add(span, -step - 1), -step), 0)
    return Range(current().assumptions.decided(count), start, step)


def _plain_step(step: Any) -> int:
    try:
        value = operator.index(step)
    except TypeError as error:
        remedy = "a[rd.iota((n + k - 1) // k) * k] for each k-th of n elements"
        raise TraceError(complaint("the step of a slice must be an int constant", remedy=remedy)) from error
    if value == 0:
        raise ShapeError(complaint("the step of a slice cannot be 0"))
    return max(-FAR, min(FAR, value))


def _raw_bound(bound: Any, n: Expr) -> Expr:
    """Returns a bound counted as in NumPy, from the end where a literal is negative; not yet clamped."""
    if isinstance(bound, Array):
        return index_value(bound)
    value = max(-FAR, min(FAR, plain_int(bound, "the bound of a slice")))
    return index.add(n, value) if value < 0 else index.as_index(value)


def _bound(bound: Any, n: Expr) -> Expr:
    """Returns a bound clamped to at least 0, unless it is checked at run time."""
    raw = _raw_bound(bound, n)
    return index.maximum(raw, 0) if is_size(raw) else raw


def index_value(value: Array) -> Expr:
    """Returns a scalar index as an i64 expression; raises `DTypeError` for other values."""
    if value.ndim or not value.dtype.is_integer:
        raise DTypeError(
            complaint(
                "the bound of a slice is an integer", remedy=f"of sizes {ROUNDED_SIZE}; of another value, rd.i64(x)"
            )
        )
    return same_bits(value)
