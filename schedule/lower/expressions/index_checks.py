"""The bounds checks of an index that remain after the conditions implied by how it is computed are dropped.

`clip(i, 0, n - 1)` is below n whatever `i` is, and at least 0 where n is not 0: the remaining condition is the same for all elements, and
is checked once. Integers read from data may have any value of their dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.dtypes import DType, bool_, i64, whole_range
from raido.algo.graph.expr import Const, Expr, Op, SizeVar, Var, const
from raido.algo.graph.rewrite import free_variables
from raido.schedule.nest.integer_ranges import IntegerRanges

_INDEX_OPS = {"add", "sub", "mul", "neg", "floordiv", "mod", "minimum", "maximum", *ix.BOUNDARY_OPS}
_DEPTH = 6  # operations that are looked through


def is_affine(e: Expr) -> bool:
    """Whether an index consists of variables and sizes by index arithmetic alone, at most 64 nodes (nothing loaded, nothing computed)."""
    stack: list[Expr] = [e]
    for _ in range(64):
        if not stack:
            return True
        e = stack.pop()
        if isinstance(e, (Const, Var, SizeVar)):
            continue
        if not isinstance(e, Op) or e.name not in _INDEX_OPS:
            return False
        stack += e.args
    return False


def is_made_of_sizes(e: Expr) -> bool:
    """Whether an index consists of sizes and literals alone, by index arithmetic."""
    return is_affine(e) and not free_variables(e)


def open_conditions(index: Expr, size: Expr, assumptions: Assumptions) -> list[Expr]:
    """The conditions that remain to be checked for 0 <= index < size."""
    return [*open_from_zero(index, assumptions), *open_below(index, size, assumptions)]


def open_from_zero(e: Expr, assumptions: Assumptions) -> list[Expr]:
    """The conditions that remain to be checked for e >= 0, an i64."""

    def holds(part: Expr, least: int, _: int) -> bool:
        return least >= 0 or (_is_index(part) and assumptions.nonnegative(part))

    return _Side("maximum", "minimum", holds, lambda part: Op("ge", bool_, (part, const(i64, 0)))).open(e, _DEPTH)


def open_below(e: Expr, size: Expr, assumptions: Assumptions) -> list[Expr]:
    """The conditions that remain to be checked for e < size, both i64."""
    limit = assumptions.less if is_affine(size) else lambda a, b: False

    def holds(part: Expr, _: int, most: int) -> bool:
        return (most < 1 << 62 and limit(most, size)) or (_is_index(part) and limit(part, size))

    return _Side("minimum", "maximum", holds, lambda part: Op("lt", bool_, (part, size))).open(e, _DEPTH)


@dataclass(frozen=True, slots=True)
class _Side:
    """A one-sided bound. It holds of the operation `one` if it holds of one operand, of `every` if of every operand."""

    one: str
    every: str
    holds: Callable[[Expr, int, int], bool]
    condition: Callable[[Expr], Expr]

    def open(self, e: Expr, depth: int) -> list[Expr]:
        """The conditions that remain to be checked for the bound to hold of `e`."""
        if self.holds(e, *range_of(e)):
            return []
        if isinstance(e, Op) and depth:
            inner = same_value(e)
            if inner is not None and not self.open(inner, depth - 1):
                return []
            if e.name in (self.one, self.every, "select"):
                parts = [self.open(a, depth - 1) for a in e.args[e.name == "select" :]]
                settled = [not part for part in parts]
                if all(settled) or (e.name == self.one and any(settled)):
                    return []
                if e.name == self.every and e.dtype is i64 and any(settled):
                    return [condition for part in parts for condition in part]
        return [self.condition(e)]


def _is_index(e: Expr) -> bool:
    """Whether assumptions about indices apply to `e`: an affine index, or a boundary operation, whose result is in
    range whatever its argument."""
    return e.dtype is i64 and ((isinstance(e, Op) and e.name in ix.BOUNDARY_OPS) or is_affine(e))


def same_value(e: Op) -> Expr | None:
    """The operand of a cast that preserves its value (of a float, up to truncation and saturation); None for other operations."""
    if e.name != "cast":
        return None
    source = e.args[0].dtype
    return e.args[0] if source.is_float or _holds(e.dtype, source) else None


def _holds(dtype: DType, source: DType) -> bool:
    """Whether every integer of dtype `source` (or boolean) is one of `dtype`."""
    low, high = whole_range(source)
    least, most = whole_range(dtype)
    return least <= low and high <= most


def range_of(e: Expr) -> tuple[int, int]:
    """The least and the greatest integer that `e` can be by its dtype and outermost operation; of a float, after truncation."""
    if not e.dtype.is_float:
        return IntegerRanges({}).range_of(e) or whole_range(e.dtype)
    if isinstance(e, Const) and isfinite(e.value):
        return min(int(e.value), 0), max(int(e.value), 0)  # NaN, which extremes hand on, becomes 0
    return whole_range(i64)
