"""Partial sorts, of which only some places are read: parts between pivots without such a place are left unsorted.

    places 0..1     5 2 9 1 7   pivot 5     2 1 | 5 9 7     1 2 | 5 9 7

A few places of random elements cost passes over about half of the elements of the pass before. (Hoare, Algorithm 65: Find, 1961.)
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import reduce
from typing import TYPE_CHECKING

from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Op
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.strategies.quicksorts import Quicksort
from raido.schedule.nest.values import NestExpr

if TYPE_CHECKING:
    from raido.schedule.lower.strategies.sorts import Row


class Quickselect(Quicksort):
    """One sort, by one thread, of the places that are read."""

    def __init__(self, builder: Builder, row: Row) -> None:
        super().__init__(builder, row)
        sort = row.lowered.stage.sort
        assert sort is not None and sort.positions is not None
        self.positions = [
            (
                builder.name("first", builder.assumptions.decided(first)),
                builder.name("last", builder.assumptions.decided(last)),
            )
            for first, last in sort.positions
        ]

    def sort(self) -> None:
        """Emits the sort, from reading the elements to storing those at the places."""
        self._sort_by_comparisons()

    def _if_wanted(self, low: NestExpr, high: NestExpr) -> AbstractContextManager[object]:
        """Opens a block for statements of the part low … high − 1, which run if a place that is read lies in it."""
        tests = [
            Op("logical_and", bool_, (Op("le", bool_, (low, last)), Op("lt", bool_, (first, high))))
            for first, last in self.positions
        ]
        return self.builder.when(reduce(lambda a, b: Op("logical_or", bool_, (a, b)), tests))
