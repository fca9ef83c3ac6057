"""Writing the statement lists of a host plan, and the names of a nest in it: arrays of the device, numbers, values in memory.

Values that the host needs, other than arithmetic on sizes, a kernel leaves in an array of one element, which is read back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from raido.algo.graph.dtypes import i32
from raido.algo.graph.expr import Node, Var, fresh
from raido.algo.graph.rewrite import free_variables
from raido.schedule.kernels.host_plan import (
    Allocate,
    Free,
    If,
    Let,
    Number,
    ReadBack,
    Statement,
)
from raido.schedule.kernels.kernel import Kernel
from raido.schedule.kernels.limits import Limits
from raido.schedule.kernels.make_kernel import Known
from raido.schedule.kernels.numbers import minus, number_of, plus, times
from raido.schedule.nest import nodes
from raido.schedule.nest.effects import binds, touched, written
from raido.schedule.nest.nodes import Nest
from raido.schedule.nest.uses import Uses, may_fail
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.nest.walk import statements_within


@dataclass(slots=True)
class Pending:
    """Serial statements collected for the next kernel of one thread; `exported`: names that the host reads; `site`: the number of the first
    statement's source line."""

    statements: list[nodes.Statement] = field(default_factory=list)
    exported: set[Node] = field(default_factory=set)
    site: int = -1

    def independent_of(self, s: nodes.Statement, names: dict[Buffer, str]) -> bool:
        """Whether a statement may move before these, which precede it."""
        if not self.statements:
            return True
        own = [name for each in self.statements for name in binds(each)]
        uses = Uses(s)
        if any(name in uses.variables or name in uses.buffers for name in own):
            return False
        if uses.faults and Uses(*self.statements).faults:
            return False
        mine, theirs = named(touched(*self.statements), names), named(touched(s), names)
        changed = named(written(*self.statements), names) & theirs | named(written(s), names) & mine
        return not changed


def named(buffers: set[Buffer], names: dict[Buffer, str]) -> set[object]:
    """The buffers, each replaced by the name of its array on the device if it has one."""
    return {names.get(buffer, buffer) for buffer in buffers}


class PlanWriter(ABC):
    """The plan so far, and the names in scope in it."""

    def __init__(self, nest: Nest, limits: Limits) -> None:
        self.nest, self.limits = nest, limits
        self.plan: list[Statement] = []
        self.guarded: list[list[Statement]] = []  # outer parts of the list, each continued if there was no fault
        self.frames: list[list[str]] = []  # small arrays to free at the end of each enclosing loop or branch
        self.taken: set[str] = set()
        self.known = Known({}, {}, {}, {})
        self.data: set[str] = set()
        self.pending = Pending()
        self.stage, self.site = nest.name, -1
        self.kernels: list[Kernel] = []
        self.alike: dict[tuple[Any, ...], str] = {}  # names of kernels by `kernel_key`
        self.users: dict[Node, set[nodes.Statement]] = {}
        self.fails = any(map(may_fail, statements_within(nest.body)))
        self.failed = self.fresh("failed") if self.fails else ""
        self.fault = self.fresh("fault") if self.fails else ""
        self.may_have_failed = False  # at the current statement

    @abstractmethod
    def flush(self) -> None:
        """Launches a kernel of one thread for the pending statements, if there are any."""

    def _wait(self, s: nodes.Statement) -> None:
        """Adds a serial statement to the next kernel of one thread."""
        if not self.pending.statements:
            self.pending.site = self.site
        self.pending.statements.append(s)

    # --- lists

    def _list(self, make: Callable[[], None], first: Sequence[Statement] = ()) -> tuple[Statement, ...]:
        """The list of statements that `make` writes, for the program, a loop or a branch; names defined in it are local."""
        outer = self.plan, self.guarded, self.known
        self.plan, self.guarded, self.known = list(first), [], self.known.copy()
        self.frames.append([])
        make()
        self.flush()
        self._free(self.frames.pop())
        made = self.plan
        for around in reversed(self.guarded):
            made = [*around, If(("==", self.failed, 0), tuple(made))]
        counts: dict[Node, str] = {
            size: self.known.numbers[size] for size, _ in self.nest.counts if size in self.known.numbers
        }
        self.plan, self.guarded, self.known = outer
        self.known.numbers.update(counts)
        return tuple(made)

    def _guard(self) -> None:
        """Makes the rest of the list conditional on the absence of faults."""
        self.guarded.append(self.plan)
        self.plan = []

    def _free(self, arrays: Sequence[str]) -> None:
        self.plan += [Free(array) for array in reversed(arrays)]

    def _flush_before(self, s: nodes.Statement) -> None:
        if not self.pending.independent_of(s, self.known.arrays):
            self.flush()

    # --- names and numbers

    def fresh(self, name: str) -> str:
        """A name that is unique in the program."""
        known, k = name or "v", 1
        while known in self.taken:
            k += 1
            known = f"{name or 'v'}_{k}"
        self.taken.add(known)
        return known

    def _name(self, number: Number) -> str:
        if isinstance(number, str):
            return number
        name = self.fresh("size")
        self.plan.append(Let(name, number))
        return name

    def _short(self, number: Number) -> Number:
        """A number as an int or a name, named by a `Let` if it is a compound."""
        return self._name(number) if isinstance(number, tuple) else number

    def _plain(self, e: NestExpr) -> Number | None:
        return number_of(e, self.known.numbers, self.data)

    def number(self, e: NestExpr) -> Number:
        """The number for an expression, read back from the device if the host cannot compute it."""
        number = self._plain(e)
        if number is not None:
            return number
        if isinstance(e, Read) and e.predicate is None and e.dtype.kind != "f":
            flat_index = self._flat_index(e)
            if flat_index is not None:
                self._flush_before(nodes.Let(fresh("asked", e.dtype), e))
                return self._read_back(e.buffer, flat_index)
        if not (isinstance(e, Var) and e in self.known.cells):
            asked = fresh("asked", e.dtype)
            self._wait(nodes.Let(asked, e))
            self.pending.exported.add(asked)
            self.flush()
            e = asked
        self.known.numbers[e] = self._read_back(self.known.cells[e], 0)
        return self.known.numbers[e]

    def _flat_index(self, e: Read) -> Number | None:
        """The index of an element in its array, flattened; None if the host cannot compute it."""
        flat_index: Number = 0
        if e.buffer.strides or e.buffer.scope == "constant":
            return None
        for index, extent in zip(e.indices, e.buffer.shape, strict=True):
            number, size = self._plain(index), self._plain(extent)
            if number is None or size is None:
                return None
            flat_index = plus(times(flat_index, size), number)
        return flat_index

    def _read_back(self, buffer: Buffer, flat_index: Number) -> str:
        """Emits the read-back of an element, and returns its name; the plan continues only if there is no fault."""
        name = self.fresh(buffer.name)
        offset = times(flat_index, buffer.dtype.itemsize)
        self.plan.append(ReadBack(name, self.known.arrays[buffer], buffer.dtype, offset))
        self.data.add(name)
        if self.fails:
            self.plan.append(ReadBack(self.failed, self.fault, i32))
            self._guard()
        return name

    def allocate(self, buffer: Buffer) -> str:
        """Emits an allocation on the device, and returns the array's name; the nest determines where it is freed."""
        name = self.known.arrays[buffer] = self.fresh(buffer.name)
        self.plan.append(Allocate(name, self._bytes(buffer)))
        return name

    def _bytes(self, buffer: Buffer) -> Number:
        """The size of an array in bytes."""
        sizes = [self._extent(e) for e in buffer.shape]
        total: Number = 1
        if buffer.strides:
            for n, stride in zip(sizes, map(self._extent, buffer.strides), strict=True):
                total = plus(total, times(minus(n, 1), stride))
            total = ("max", total, 0)
        else:
            for n in sizes:
                total = times(total, n)
        return times(total, buffer.dtype.itemsize)

    def _extent(self, e: NestExpr) -> Number:
        """The number for an extent, of which the plan checks the arithmetic, wherever its operands come from."""
        for var in free_variables(e):
            if var not in self.known.numbers:
                self.known.numbers[var] = self._name(self.number(self.known.pure.get(var, var)))
        number = number_of(e, self.known.numbers)
        return self.number(e) if number is None else number
