"""A scalar nest cut into kernels: every outermost parallel loop becomes a launch, the statements between them a host plan.

    produce rows:                                 rows = allocate h*w*4
      parallel y in 0..h: …                       launch rows on ceil(h / 64) blocks
    produce total:                        becomes launch total on 1 block
      for y in 0..h: fold sum = …                 free rows

Allocations, loops and branches around parallel loops, copies and swaps are statements of the plan. Serial code between them runs in kernels
of one thread, each with as many statements as possible; a scalar of little arithmetic on arguments, in all kernels that use it. The
host evaluates arithmetic on sizes; other values that it needs (trip counts, conditions of branches) a kernel leaves in an array of one
element, which is read back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeGuard

from raido.algo.collector import seldom_collected
from raido.algo.graph.cost import FUNCTION, operations
from raido.algo.graph.dtypes import bool_, i32, i64
from raido.algo.graph.expr import Node, SizeVar, const
from raido.algo.graph.index import as_index, constant_value
from raido.algo.graph.rewrite import topological
from raido.schedule.kernels.block_loops import carry_of
from raido.schedule.kernels.host_plan import (
    Copy,
    If,
    Let,
    Loop,
    ReadBack,
    Statement,
    Swap,
    While,
)
from raido.schedule.kernels.iteration_memory import iteration_memory
from raido.schedule.kernels.kernel import DeviceArray, DeviceProgram
from raido.schedule.kernels.launcher import Launcher
from raido.schedule.kernels.limits import Limits
from raido.schedule.kernels.many_threads import by_many_threads
from raido.schedule.kernels.numbers import divided_up, mentions, minus, plus, times
from raido.schedule.kernels.plan_writer import named
from raido.schedule.nest import nodes
from raido.schedule.nest.carry import carried_in_order
from raido.schedule.nest.effects import binds, goes_in_order, touched
from raido.schedule.nest.nodes import Nest
from raido.schedule.nest.uses import Uses, may_fail
from raido.schedule.nest.values import Buffer, Read
from raido.schedule.nest.walk import blocks_of, constants_of, expressions_of, statements_within

USUAL = Limits()
AT_ENTRY = 2 * FUNCTION  # operations, repeated by each thread: two mathematical functions take far less than a launch


@seldom_collected
def outline_kernels(nest: Nest, limits: Limits = USUAL) -> DeviceProgram:
    """The kernels of a scalar nest and the plan that launches them."""
    return _Cutter(replace(nest, body=by_many_threads(nest.body)), limits).program()


class _Cutter(Launcher):
    """Walks the statements of a nest that belong to the host."""

    def program(self) -> DeviceProgram:
        """The device program of the whole nest."""
        nest = self.nest
        self.repeated: dict[Node, int] = {}  # operations of values that kernels compute from arguments at their entries
        for size in nest.sizes:
            self.known.numbers[size] = self.fresh(size.name)
        sizes = tuple(self.known.numbers[size] for size in nest.sizes)
        groups = (nest.inputs, nest.outputs, constants_of(nest.body))
        inputs, outputs, constants = (tuple(map(self._given, group)) for group in groups)
        self._survey(nest.body)
        plan = self._list(lambda: self._block(nest.body), [Let(self.failed, 0)] if self.fails else [])
        return DeviceProgram(
            nest.name,
            tuple(self.kernels),
            plan,
            inputs,
            outputs,
            tuple(a for a in outputs if a.buffer.scope == "result"),
            constants,
            sizes,
            tuple((size.name, self.known.numbers[size]) for size, _ in nest.counts),
            self.fault,
            nest.sites,
        )

    def _given(self, buffer: Buffer) -> DeviceArray:
        self.known.arrays[buffer] = self.fresh(buffer.name)
        return DeviceArray(self.known.arrays[buffer], buffer)

    def _survey(self, block: nodes.Block) -> None:
        """Records which statements use each name: those that become code of one kernel as a whole, of others the
        expressions that the plan evaluates."""
        for s in block.statements:
            within = (s,) if isinstance(s, nodes.Block) else tuple(blocks_of(s))
            if not within or self._is_code(s) or self._is_launch(s):
                uses = Uses(s)
                self._note(s, (*uses.variables, *uses.buffers))
                continue
            self._note(s, topological(*expressions_of(s)))
            for inner in within:
                self._survey(inner)

    def _note(self, s: nodes.Statement, used: Iterable[Node]) -> None:
        for node in used:
            self.users.setdefault(node, set()).add(s)

    def _is_launch(self, s: nodes.Statement) -> TypeGuard[nodes.For]:
        """Whether a statement is a parallel loop that becomes one launch."""
        return _is_parallel(s) and self._fits(s)

    def _is_code(self, s: nodes.Statement) -> bool:
        """Whether one thread can run a statement, without statements of the plan inside."""
        if isinstance(s, (nodes.Produce, nodes.Block)):
            return False
        return not any(map(_is_parallel, statements_within(s))) and self._fits(s)

    def _fits(self, s: nodes.Statement) -> bool:
        """Whether a kernel can hold a statement: no swaps, views, copies or sizes read by the host inside, and
        allocations of bounded size only."""
        if isinstance(s, nodes.Alloc):
            return s.buffer.scope != "heap"
        for inner in statements_within(s):
            if isinstance(inner, (nodes.Swap, nodes.View, nodes.Copy)):
                return False
            if isinstance(inner, nodes.Let) and isinstance(inner.var, SizeVar):
                return False
        return iteration_memory(s, self.limits).unbounded is None

    def _block(self, block: nodes.Block) -> None:
        mine: list[str] = []
        for s in block.statements:
            self._statement(s, mine)
        if self.pending.statements and set(mine) & named(touched(*self.pending.statements), self.known.arrays):
            self.flush()
        self._free(mine)

    def _statement(self, s: nodes.Statement, mine: list[str]) -> None:
        if isinstance(s, nodes.Produce):
            outer, self.stage, self.site = (self.stage, self.site), s.stage, s.site
            self._block(s.body)
            self.stage, self.site = outer
        elif isinstance(s, nodes.Block):
            self._block(s)
        elif isinstance(s, nodes.Alloc) and s.buffer.scope == "heap":
            mine.append(self.allocate(s.buffer))
        elif isinstance(s, nodes.Let):
            self._let(s)
        elif isinstance(s, nodes.Carry):
            for each in carried_in_order(s):  # blocks that are no launch run in order
                self._statement(each, mine)
        elif isinstance(s, nodes.Store) and any(s.buffer is count for _, count in self.nest.counts):
            pass  # the plan has the number already
        elif self._is_code(s):
            self._wait(s)
            if Uses(s).faults:
                self.flush()  # later statements may rely on the check
        elif isinstance(s, nodes.Swap):
            self._flush_before(s)
            self.plan.append(Swap(self.known.arrays[s.left], self.known.arrays[s.right]))
        elif isinstance(s, nodes.View):
            self.flush()
            self.known.arrays[s.buffer] = self.known.arrays[s.source]
        elif isinstance(s, nodes.Copy):
            self._flush_before(s)
            target, source = self.known.arrays[s.destination], self.known.arrays[s.source]
            self.plan.append(Copy(target, source, self._bytes(s.source)))
        elif self._is_launch(s):
            self._flush_before(s)
            if s.level.startswith("block"):
                self._blocks(s)
            else:
                self._loop(s)
        else:
            self.flush()
            self._control(s)

    def _control(self, s: nodes.Statement) -> None:
        if isinstance(s, (nodes.For, nodes.While)):
            self.may_have_failed |= any(map(may_fail, statements_within(s)))
        if isinstance(s, nodes.For):
            made: Statement = self._for(s)
        elif isinstance(s, nodes.If):
            test = self.number(s.condition)
            then = self._list(partial(self._block, s.then))
            otherwise = () if s.orelse is None else self._list(partial(self._block, s.orelse))
            made = If(test, then, otherwise)
        elif isinstance(s, nodes.While) and s.site >= 0:
            self._endless(s)
            return
        elif isinstance(s, nodes.While):
            made = self._while(s, [])
        else:
            raise TypeError(f"not a statement of the host: {type(s).__name__}")
        self.plan.append(made)
        if self._looks(made):
            self._guard()

    def _for(self, s: nodes.For) -> Statement:
        low, high = self.number(s.low), self.number(s.high)
        index = counter = self.fresh(s.var.name)
        first: list[Statement] = []
        if s.step != 1 or low != 0:
            counter = self.fresh("iteration")
            first.append(Let(index, plus(low, times(counter, s.step))))
        outer, self.known = self.known, self.known.copy()
        self.known.numbers[s.var] = index
        body = self._list(partial(self._block, s.body), first)
        self.known = outer
        if any(map(self._looks, body)):
            body = (If(("==", self.failed, 0), body),)
        return Loop(counter, divided_up(minus(high, low), s.step), body)

    def _endless(self, s: nodes.While) -> None:
        """Emits a loop that may not terminate, bounded by `limits.iterations` iterations, with a fault recorded when the bound is reached."""
        done, most = self.fresh("iterations"), self.limits.iterations
        self.plan.append(Let(done, 0))
        loop = self._while(s, [Let(done, plus(done, 1))])
        more = ("<", done, most)
        self.plan.append(While(("min", more, loop.condition), loop.body))

        def record() -> None:
            self._wait(nodes.Check(const(bool_, False), "endless", s.site, (as_index(most),)))
            self.flush()
            self.plan.append(ReadBack(self.failed, self.fault, i32))

        self.plan.append(If(("<", more, loop.condition), self._list(record)))
        self._guard()

    def _while(self, s: nodes.While, first: Sequence[Statement]) -> While:
        again = self.fresh("again")
        self.plan.append(Let(again, 1))

        def iteration() -> None:
            self._block_open(s.setup)
            test = self.number(s.condition)
            body = self._list(partial(self._block, s.body), [Let(again, 1)])
            self.plan.append(If(test, body))

        body = self._list(iteration, [*first, Let(again, 0)])
        return While(("min", again, ("==", self.failed, 0)) if self.fails else again, body)

    def _block_open(self, block: nodes.Block) -> None:
        """Emits a block whose names and memory stay in scope for the statements behind it."""
        for s in block.statements:
            self._statement(s, self.frames[-1])

    def _looks(self, s: Statement) -> bool:
        """Whether a statement of the plan reads back whether a fault is recorded."""
        if isinstance(s, ReadBack):
            return s.name == self.failed
        if isinstance(s, If):
            return any(map(self._looks, (*s.then, *s.otherwise)))
        return isinstance(s, (Loop, While)) and any(map(self._looks, s.body))

    def _let(self, s: nodes.Let) -> None:
        number = self._plain(s.value)
        if number is None and not isinstance(s.var, SizeVar):
            nodes_below = topological(s.value)
            waiting = {name for each in self.pending.statements for name in binds(each)}
            if not waiting.isdisjoint(nodes_below) or not self._is_computed_anywhere(s.var, nodes_below):
                self._wait(s)
            else:
                self.known.pure[s.var] = s.value
            return
        number = self.number(s.value) if number is None else number
        name = self.fresh(s.var.name)
        self.plan.append(Let(name, number))
        self.known.numbers[s.var] = name
        if s.value.dtype is not i64:
            self.known.pure[s.var] = s.value
        if mentions(number, self.data) and not isinstance(s.var, SizeVar):
            self.data.add(name)

    def _is_computed_anywhere(self, var: Node, nodes_below: Sequence[Node]) -> bool:
        """Whether every kernel that uses a value can compute it at its entry: it reads no memory, or little arithmetic on elements that
        arguments are known to have saves a launch of one thread, and an array for its result."""
        reads = [node for node in nodes_below if isinstance(node, Read)]
        others = [self.repeated[node] for node in nodes_below if node in self.repeated]
        if not reads and not others:
            return True
        cost = operations(nodes_below) + sum(others)
        if cost > AT_ENTRY or not all(read.buffer in self.nest.inputs and _is_inside(read) for read in reads):
            return False
        self.repeated[var] = cost
        return True


def _is_inside(read: Read) -> bool:
    """Whether an element lies inside its array whatever the sizes are, or is read only where a test of its own says so."""
    places = [(constant_value(i), constant_value(n)) for i, n in zip(read.indices, read.buffer.shape, strict=True)]
    return read.predicate is not None or all(i is not None and n is not None and 0 <= i < n for i, n in places)


def _is_parallel(s: nodes.Statement) -> TypeGuard[nodes.For]:
    """Whether the iterations of a loop may run in any order, or are blocks chained by decoupled look-back."""
    return isinstance(s, nodes.For) and s.kind == "parallel" and (not goes_in_order(s) or carry_of(s) is not None)
