"""Sorts, by the strategy that the schedule names: `radix`, by digits; on a GPU `three_phase` and `chain`, by digits in blocks of elements,
and many rows by one block each; `quicksort` and `quickselect`, by comparisons. All are stable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Checked, Cond, Expr, Item, Load, Loop, Reduce, Result, Var, While
from raido.algo.graph.rewrite import scalar_nodes
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.loop_cursor import LoopCursor
from raido.schedule.lower.lowered_stage import LoweredStage
from raido.schedule.lower.strategies.parted_sorts import PartedQuicksort
from raido.schedule.lower.strategies.quickselects import Quickselect
from raido.schedule.lower.strategies.quicksorts import Quicksort
from raido.schedule.lower.strategies.radix_sorts import RadixSort
from raido.schedule.lower.threads.block_sorts import BlockSort
from raido.schedule.lower.threads.onesweeps import Onesweep
from raido.schedule.lower.threads.row_sorts import RowSort
from raido.schedule.lower.threads.thread_folds import is_bound
from raido.schedule.nest.nodes import Store
from raido.schedule.nest.values import Buffer, NestExpr
from raido.schedule.strategies.table import parameters_of_sort

if TYPE_CHECKING:
    from raido.schedule.lower.loops.loops import Loops


class Sorts:
    """Emits sorts with the loops of `Loops` around them."""

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self.builder: Builder = loops.builder

    def sort(self, cursor: LoopCursor) -> None:
        """Emits the sort along the axis, for each unrolled instance."""
        count = cursor.lowered.stage.reduction_axes[0].extent
        kind = _kind(cursor.lowered)
        for k in range(len(cursor.instances)):
            with self.builder.unless_empty((count,)):
                kind(self.builder, Row(self.loops, cursor, k)).sort()


class Row:
    """The elements of one sort, as the program computes them, and the memory of its results."""

    def __init__(self, loops: Loops, cursor: LoopCursor, copy: int) -> None:
        self.loops, self.cursor, self.copy, self.lowered = loops, cursor, copy, cursor.lowered
        self.axis = cursor.lowered.stage.reduction_axes[0]

    def is_there(self) -> bool:
        """Whether elements are read rather than computed: reading them again costs no more than reading a copy."""
        assert self.lowered.reduction is not None
        return all(_is_read(value) for value in self.lowered.reduction.values)

    def elements(self, at: Expr) -> list[Var]:
        """Emits the values of an element, and returns their names, the keys first."""
        loops, cursor = self.loops, self.cursor
        values = {**loops.environment(cursor, self.copy), self.axis.var: at}
        assert cursor.lowered.reduction is not None
        builder = loops.builder
        (item,) = loops.converter.convert(
            (Item(cursor.lowered.reduction, 0),), values, builder.assumptions, cursor.identity
        )
        form: Reduce = item.form
        return [builder.name("value", v) for v in loops.emitter.values(form.values)]

    def keep(self, at: Expr, values: Sequence[NestExpr]) -> None:
        """Stores an element of the results."""
        loops, lowered = self.loops, self.lowered
        where = {**loops.environment(self.cursor, self.copy), self.axis.var: at}
        indices = tuple(where[each.var] for each in lowered.stage.axes)
        for k, value in enumerate(values):
            storage = loops.converter.storages[Result(lowered.form, k)]
            loops.builder.add(Store(storage.buffer, storage.indices_of(indices, loops.builder.assumptions), value))

    def results(self) -> tuple[Buffer, ...]:
        """The buffers of the results."""
        storages = self.loops.converter.storages
        return tuple(storages[Result(self.lowered.form, k)].buffer for k in range(len(self.lowered.bodies)))


def _is_read(value: Expr) -> bool:
    """Whether a value is an array element at an index made of axes and sizes, or such an index."""
    if isinstance(value, Load):
        return not value.checked and all(map(_is_read, value.indices))
    return not any(isinstance(node, Load | Checked | Cond | Loop | While | Item) for node in scalar_nodes(value)) and (
        value.dtype is i64
    )


def _kind(lowered: LoweredStage) -> type[RadixSort | BlockSort | Quicksort]:
    """The class that emits the stage's sort, by its strategy."""
    name = lowered.plan.strategy[0] if lowered.plan.strategy else "radix"
    if name == "radix":
        return RadixSort
    if name == "three_phase":
        return RowSort if any(is_bound(loop, "block") for loop in lowered.plan.loops) else BlockSort
    if name == "chain":
        return Onesweep
    if name == "quickselect":
        return Quickselect
    return Quicksort if parameters_of_sort(lowered.stage, lowered.plan)["chunks"] == 1 else PartedQuicksort
