"""Launches: kernels for statements of a nest, the numbers and the memory that they need, and their statements of the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from math import prod
from typing import cast

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Expr, Node, Var, const, fresh
from raido.schedule.kernels.block_code import block_code
from raido.schedule.kernels.block_loops import AXES as BLOCK_AXES
from raido.schedule.kernels.block_loops import Chain, block_chain, carry_of, in_turn, placed
from raido.schedule.kernels.block_scope import block_extent
from raido.schedule.kernels.host_plan import (
    Launch,
    Loop,
    Number,
)
from raido.schedule.kernels.iteration_memory import IterationMemory, iteration_memory, place_memory
from raido.schedule.kernels.make_kernel import IndexVariables, clean_name, kernel_key, make_kernel
from raido.schedule.kernels.numbers import at_most, divided_up, minus, no_less_than, plus, times
from raido.schedule.kernels.plan_writer import Pending, PlanWriter
from raido.schedule.kernels.thread_code import thread_code
from raido.schedule.kernels.thread_loops import folded, one_iteration, strided_loop
from raido.schedule.kernels.wide_moves import move_wide
from raido.schedule.nest import nodes
from raido.schedule.nest.uses import Uses
from raido.schedule.nest.values import Buffer, NestExpr, new_serial


class Launcher(PlanWriter):
    """Makes kernels, one for all that are equal, and launches them."""

    def flush(self) -> None:
        """Launches a kernel of one thread for the pending statements, if there are any."""
        pending, self.pending = self.pending, Pending()
        mine = set(pending.statements)
        body: list[nodes.Statement] = []
        for s in pending.statements:
            if isinstance(s, nodes.Alloc) and self.users.get(s.buffer, mine) - mine:
                self.frames[-1].append(self.allocate(s.buffer))
                continue
            body.append(s)
            if isinstance(s, nodes.Let) and (s.var in pending.exported or self.users.get(s.var, mine) - mine):
                cell = Buffer(s.var.name, s.var.dtype, (), "heap", new_serial(), (), 1, None)
                self.frames[-1].append(self.allocate(cell))
                self.known.cells[s.var] = cell
                body.append(nodes.Store(cell, (), s.var))
        if any(not isinstance(s, (nodes.Let, nodes.Alloc)) for s in body):
            block = nodes.Block(tuple(body))
            memory = iteration_memory(block, self.limits)
            self._prepare(block, memory)
            code, scratch = place_memory(thread_code(block), memory, const(i64, 0), const(i64, 1))
            outer, self.site = self.site, pending.site
            self._launch(self.stage, code, scratch, (1, 1, 1), (1, 1, 1), IndexVariables(), {})
            self.site = outer

    def _loop(self, s: nodes.For) -> None:
        """Launches a parallel loop that is bound to no blocks."""
        memory = iteration_memory(s, self.limits)
        self._prepare(s, memory)
        loop, given, count = self._ends(s)
        index_variables, threads = IndexVariables(), self.limits.threads
        if memory.slots:
            slot, slots, trips = fresh("slot"), fresh("slots"), fresh("trips")
            each = [(buffer.dtype.itemsize, shape) for buffer, shape in memory.slots.items()]
            in_flight = self._short(self._at_a_time(each, ("min", count, self.limits.resident)))
            given |= {slots: in_flight, trips: count}
            self.known.numbers[slots] = self._name(in_flight)
            code = strided_loop(loop, index_variables, self.limits, slot, slots, trips)
            code, scratch = place_memory(code, memory, slot, slots)
            count = in_flight
        else:
            code, scratch = place_memory(
                one_iteration(loop, index_variables, self.limits), memory, const(i64, 0), const(i64, 1)
            )
        name = f"{s.stage or self.stage}_{s.loop or s.var.name}"
        self._launch(name, code, scratch, (threads, 1, 1), folded(count, self.limits), index_variables, given)

    def _blocks(self, s: nodes.For) -> None:
        """Launches a loop over blocks."""
        memory = iteration_memory(s, self.limits)
        self._prepare(s, memory)
        chain = block_chain(s)
        given: dict[Node, Number] = {}
        in_parts: dict[Node, Number] = {}
        around: list[nodes.For | nodes.Let | nodes.If] = []
        trips: list[Number] = []
        for each in chain.around:
            if isinstance(each, nodes.For):
                each, more, count = self._ends(each)
                given |= more
                trips.append(count)
            around.append(each)
        body = Chain(tuple(around), thread_code(chain.body, together=True, launched=True))
        carry, count_of_blocks = carry_of(s), fresh("blocks")
        if carry is not None:
            given[count_of_blocks] = trips[0]
        extent, index_variables = block_extent(body.body, self.limits), IndexVariables()
        grid: list[Number] = [1, 1, 1]
        numbers: list[Expr] = []
        parts: list[tuple[str, Number]] = []
        for each, count in zip(chain.loops, trips, strict=True):
            axis = BLOCK_AXES[each.level]
            number: Expr = index_variables.blocks[axis] if carry is None else fresh("number")
            grid[axis] = count
            most = self.limits.blocks[axis]
            if not isinstance(count, int) or count > most:
                part, which = self.fresh("part"), fresh("part")
                parts.append((part, divided_up(count, most)))
                grid[axis] = at_most(most, minus(count, times(part, most)))
                if carry is None:
                    in_parts[which] = part
                    number = ix.add(number, ix.mul(which, most))
            numbers.append(number)
        name = f"{s.stage or self.stage}_{s.loop or s.var.name}"
        slot, slots = fresh("slot"), fresh("slots")
        code = placed(body, numbers)

        def ticket(number: Var) -> nodes.Ticket:
            assert carry is not None
            return nodes.Ticket(number, carry.state, count_of_blocks)

        if carry is not None:
            code = nodes.Block((ticket(cast(Var, numbers[0])), *code.statements))
        made = block_code(code, index_variables.threads, extent, memory, (slot, slots), self.limits)
        if not made.scratch:
            given |= in_parts
            self._in_parts(
                parts,
                partial(self._launch, name, made.code, (), extent, (grid[0], grid[1], grid[2]), index_variables, given),
            )
            return
        counts = [fresh("trips") for _ in trips]
        given |= dict(zip(counts, trips, strict=True))
        turns = in_turn(body, slot, slots, counts, None if carry is None else ticket)
        code = nodes.Block((nodes.Let(slot, index_variables.blocks[0]), *turns.statements))
        made = block_code(code, index_variables.threads, extent, memory, (slot, slots), self.limits)
        threads = prod(made.extent)
        each = [(b.dtype.itemsize * (1 if b.shape[0] is slots else threads), b.shape[1:]) for b in made.scratch]
        most = ("min", reduce(times, trips, 1), max(1, self.limits.resident // threads))
        in_flight = self._short(self._at_a_time(each, most))
        given[slots] = in_flight
        self.known.numbers[slots] = self._name(in_flight)
        self._launch(name, made.code, made.scratch, extent, (in_flight, 1, 1), index_variables, given)

    def _at_a_time(self, arrays: Iterable[tuple[int, Sequence[Expr]]], most: Number) -> Number:
        """The number of iterations or blocks that run at a time, at most `most`, of which each has arrays of its own in device memory: given
        by the bytes of an element, and the shape.
        """
        each: Number = 0
        for itemsize, shape in arrays:
            nbytes: Number = reduce(times, map(self._extent, shape), itemsize)
            each = plus(each, nbytes)
        return ("min", most, ("max", 1, ("//", self.limits.scratch, ("max", 1, each))))

    def _in_parts(self, parts: Sequence[tuple[str, Number]], launch: Callable[[], None]) -> None:
        """Emits a launch, inside loops over parts of axes that may be longer than a launch allows."""
        outer, self.plan = self.plan, []
        launch()
        body = tuple(self.plan)
        for part, count in reversed(parts):
            body = (Loop(part, count, body),)
        self.plan = [*outer, *body]

    def _ends(self, s: nodes.For) -> tuple[nodes.For, dict[Node, Number], Number]:
        """A loop whose bounds are evaluated before its launch, the launch arguments that these need, and its trip count."""
        given: dict[Node, Number] = {}
        low, high = self.number(s.low), self.number(s.high)
        ends: list[NestExpr] = []
        for e, number in ((s.low, low), (s.high, high)):
            ends.append(e if self._plain(e) is not None else fresh("end"))
            if ends[-1] is not e:
                given[ends[-1]] = number
        count = self._short(no_less_than(0, divided_up(minus(high, low), s.step)))
        return replace(s, low=ends[0], high=ends[1]), given, count

    def _launch(
        self,
        name: str,
        code: nodes.Block,
        scratch: Sequence[Buffer],
        extent: tuple[int, int, int],
        grid: tuple[Number, Number, Number],
        index_variables: IndexVariables,
        given: Mapping[Node, Number],
    ) -> None:
        """Emits the launch of a kernel, reusing an equal one, and the allocation and release of its scratch memory."""
        arrays = [self.allocate(buffer) for buffer in scratch]
        self.may_have_failed |= Uses(code).faults
        kernel = make_kernel(code, extent, index_variables, self.known, given, self.may_have_failed)
        known = self.alike.get(key := kernel_key(kernel))
        if known is None:
            known = self.alike[key] = self.fresh(clean_name(name))
            threads = dict(zip(kernel.threads, kernel.extent, strict=True))
            self.kernels.append(replace(kernel, name=known, body=move_wide(kernel.body, threads, self.limits.branches)))
        numbers = [given[v] if v in given else self.known.numbers[v] for v in kernel.numbers]
        arguments = (*(self.known.arrays[b] for b in kernel.arrays), *numbers)
        self.plan.append(Launch(known, grid, (*arguments, self.fault) if kernel.faults else arguments, self.site))
        self._free(arrays)

    def _prepare(self, s: nodes.Statement, memory: IterationMemory) -> None:
        """Defines numbers for the shapes and strides of a kernel's arrays."""
        for buffer in (*Uses(s).buffers, *memory.slots):
            for e in (*memory.slots.get(buffer, buffer.shape), *buffer.strides):
                self._extent(e)
