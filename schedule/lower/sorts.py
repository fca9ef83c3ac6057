"""Sorts, by the strategy that the schedule names: `radix`, by digits; on a GPU `three_phase` and `chain`, by digits in blocks of elements,
and many rows by one block each; `quicksort` and `quickselect`, by comparisons. All are stable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Checked, Cond, Expr, Item, Load, Loop, Reduce, Result, Var, While
from raido.algo.graph.rewrite import scalar_nodes
from raido.schedule.lower.block_sorts import BlockSort
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.jobs import Job
from raido.schedule.lower.onesweeps import Onesweep
from raido.schedule.lower.parted_sorts import PartedQuicksort
from raido.schedule.lower.quickselects import Quickselect
from raido.schedule.lower.quicksorts import Quicksort
from raido.schedule.lower.radix_sorts import RadixSort
from raido.schedule.lower.row_sorts import RowSort
from raido.schedule.lower.thread_folds import is_bound
from raido.schedule.lower.work import Work
from raido.schedule.nest.nodes import Store
from raido.schedule.nest.values import Buffer, NestExpr
from raido.schedule.strategies.table import numbers_of_sort

if TYPE_CHECKING:
    from raido.schedule.lower.loops import Loops


class Sorts:
    """Emits sorts with the loops of `Loops` around them."""

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self.builder: Builder = loops.builder

    def sort(self, work: Work) -> None:
        """Emits the sort along the axis, for each unrolled instance."""
        count = work.job.stage.reduction_axes[0].extent
        kind = _kind(work.job)
        for k in range(len(work.copies)):
            with self.builder.unless_empty((count,)):
                kind(self.builder, Row(self.loops, work, k)).sort()


class Row:
    """The elements of one sort, as the program computes them, and the memory of its results."""

    def __init__(self, loops: Loops, work: Work, copy: int) -> None:
        self.loops, self.work, self.copy, self.job = loops, work, copy, work.job
        self.axis = work.job.stage.reduction_axes[0]

    def is_there(self) -> bool:
        """Whether elements are read rather than computed: reading them again costs no more than reading a copy."""
        assert self.job.reduction is not None
        return all(_is_read(value) for value in self.job.reduction.values)

    def elements(self, at: Expr) -> list[Var]:
        """Emits the values of an element, and returns their names, the keys first."""
        loops, work = self.loops, self.work
        values = {**loops.environment(work, self.copy), self.axis.var: at}
        assert work.job.reduction is not None
        builder = loops.builder
        (item,) = loops.converter.convert((Item(work.job.reduction, 0),), values, builder.facts, work.identity)
        form: Reduce = item.form
        return [builder.name("value", v) for v in loops.emitter.values(form.values)]

    def keep(self, at: Expr, values: Sequence[NestExpr]) -> None:
        """Stores an element of the results."""
        loops, job = self.loops, self.job
        where = {**loops.environment(self.work, self.copy), self.axis.var: at}
        place = tuple(where[each.var] for each in job.stage.axes)
        for k, value in enumerate(values):
            storage = loops.converter.storages[Result(job.form, k)]
            loops.builder.add(Store(storage.buffer, storage.place(place, loops.builder.facts), value))

    def results(self) -> tuple[Buffer, ...]:
        """The buffers of the results."""
        storages = self.loops.converter.storages
        return tuple(storages[Result(self.job.form, k)].buffer for k in range(len(self.job.bodies)))


def _is_read(value: Expr) -> bool:
    """Whether a value is an array element at an index made of axes and sizes, or such an index."""
    if isinstance(value, Load):
        return not value.checked and all(map(_is_read, value.indices))
    return not any(isinstance(node, Load | Checked | Cond | Loop | While | Item) for node in scalar_nodes(value)) and (
        value.dtype is i64
    )


def _kind(job: Job) -> type[RadixSort | BlockSort | Quicksort]:
    """The class that emits the stage's sort, by its strategy."""
    name = job.plan.strategy[0] if job.plan.strategy else "radix"
    if name == "radix":
        return RadixSort
    if name == "three_phase":
        return RowSort if any(is_bound(loop, "block") for loop in job.plan.loops) else BlockSort
    if name == "chain":
        return Onesweep
    if name == "quickselect":
        return Quickselect
    return Quicksort if numbers_of_sort(job.stage, job.plan)["chunks"] == 1 else PartedQuicksort
