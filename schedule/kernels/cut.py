"""A scalar nest cut into kernels: every outermost parallel loop becomes a launch, what lies between them a host plan.

    produce rows:                                 rows = allocate h*w*4
      parallel y in 0..h: …                       launch rows on ceil(h / 64) blocks
    produce total:                        becomes launch total on 1 block
      for y in 0..h: fold sum = …                 free rows

Allocations, loops and branches around parallel loops, copies and swaps are statements of the plan. Serial code between them runs in
kernels of one thread, as many statements in one as nothing else needs to come between. The host computes what is arithmetic on sizes;
what else it must know (how long a loop runs, which branch is taken) a kernel leaves in an array of one element, which is read back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any, TypeGuard

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import i32, i64
from raido.algo.graph.expr import Expr, Node, SizeVar, Var, const, fresh
from raido.algo.graph.rewrite import free_variables, topological
from raido.schedule.kernels.block_code import ThreadBlock, block_code, block_extent
from raido.schedule.kernels.block_loops import AXES as BLOCK_AXES
from raido.schedule.kernels.block_loops import Chain, block_chain, in_turn, placed
from raido.schedule.kernels.host_plan import (
    Allocate,
    Copy,
    Free,
    If,
    Launch,
    Let,
    Loop,
    Number,
    ReadBack,
    Statement,
    Swap,
    While,
)
from raido.schedule.kernels.iteration_memory import IterationMemory, iteration_memory, place_memory
from raido.schedule.kernels.kernel import DeviceArray, DeviceProgram, Kernel
from raido.schedule.kernels.limits import Limits
from raido.schedule.kernels.make_kernel import Known, Places, clean_name, kernel_key, make_kernel
from raido.schedule.kernels.numbers import divided_up, mentions, minus, no_less_than, number_of, plus, times
from raido.schedule.kernels.thread_code import thread_code
from raido.schedule.kernels.thread_loops import folded, one_iteration, strided_loop
from raido.schedule.lower.builder import new_serial
from raido.schedule.nest import nodes
from raido.schedule.nest.effects import binds, touched, written
from raido.schedule.nest.nodes import Nest
from raido.schedule.nest.uses import Uses
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.nest.walk import blocks_of, constants_of, expressions_of, statements_within

USUAL = Limits()


def cut(nest: Nest, limits: Limits = USUAL) -> DeviceProgram:
    """The kernels of a scalar nest and the plan that launches them."""
    return _Cutter(nest, limits).program()


@dataclass(slots=True)
class _Pending:
    """Serial statements on their way into a kernel of one thread; `exported`: names that the host asks for."""

    statements: list[nodes.Statement] = field(default_factory=list)
    exported: set[Node] = field(default_factory=set)

    def independent_of(self, s: nodes.Statement, names: dict[Buffer, str]) -> bool:
        """Whether a statement may run before these, which come before it."""
        if not self.statements:
            return True
        own = [name for each in self.statements for name in binds(each)]
        uses = Uses(s)
        if any(name in uses.variables or name in uses.buffers for name in own):
            return False
        if uses.faults and Uses(*self.statements).faults:
            return False
        mine, theirs = _named(touched(*self.statements), names), _named(touched(s), names)
        changed = _named(written(*self.statements), names) & theirs | _named(written(s), names) & mine
        return not changed


def _named(buffers: set[Buffer], names: dict[Buffer, str]) -> set[object]:
    """Buffers, those that are one array of the device as one."""
    return {names.get(buffer, buffer) for buffer in buffers}


class _Cutter:
    """The plan so far, and what the names of the nest are on the device and on the host."""

    def __init__(self, nest: Nest, limits: Limits) -> None:
        self.nest, self.limits = nest, limits
        self.plan: list[Statement] = []
        self.guarded: list[list[Statement]] = []  # lists that `plan` ends, where nothing has failed
        self.frames: list[list[str]] = []  # small arrays to be freed, by the loop or branch around
        self.taken: set[str] = set()
        self.known = Known({}, {}, {}, {})
        self.data: set[str] = set()
        self.pending = _Pending()
        self.stage = nest.name
        self.kernels: list[Kernel] = []
        self.alike: dict[tuple[Any, ...], str] = {}  # names of kernels
        self.users: dict[Node, set[nodes.Statement]] = {}
        self.fails = any(isinstance(s, nodes.Check) for s in statements_within(nest.body))
        self.failed = self.fresh("failed") if self.fails else ""
        self.fault = self.fresh("fault") if self.fails else ""
        self.may_have_failed = False  # by then

    def program(self) -> DeviceProgram:
        """The whole of it."""
        nest = self.nest
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

    # --- names

    def fresh(self, name: str) -> str:
        """A name that nothing else of the program has."""
        known, k = name or "v", 1
        while known in self.taken:
            k += 1
            known = f"{name or 'v'}_{k}"
        self.taken.add(known)
        return known

    def _given(self, buffer: Buffer) -> DeviceArray:
        self.known.arrays[buffer] = self.fresh(buffer.name)
        return DeviceArray(self.known.arrays[buffer], buffer)

    # --- which part of the plan a statement is

    def _survey(self, block: nodes.Block) -> None:
        """Notes which statements use each name: those that stay whole, and the others by what the plan asks of them."""
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
        """Whether a statement is a loop over threads that is one launch."""
        return _is_parallel(s) and self._fits(s)

    def _is_code(self, s: nodes.Statement) -> bool:
        """Whether one thread can run a statement, and the plan has no part in it."""
        if isinstance(s, (nodes.Produce, nodes.Block)):
            return False
        return not any(map(_is_parallel, statements_within(s))) and self._fits(s)

    def _fits(self, s: nodes.Statement) -> bool:
        """Whether a kernel can hold a statement: nothing of the host's in it, and memory of known sizes."""
        if isinstance(s, nodes.Alloc):
            return s.buffer.scope != "heap"
        for inner in statements_within(s):
            if isinstance(inner, (nodes.Swap, nodes.View, nodes.Copy)):
                return False
            if isinstance(inner, nodes.Let) and isinstance(inner.var, SizeVar):
                return False
        return iteration_memory(s, self.limits).unbounded is None

    # --- the walk

    def _list(self, make: Callable[[], None], first: Sequence[Statement] = ()) -> tuple[Statement, ...]:
        """A list of the plan: that of the program, of a loop or of a branch; what it names is known in it alone."""
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
        """The rest of the list runs only where nothing has failed."""
        self.guarded.append(self.plan)
        self.plan = []

    def _block(self, block: nodes.Block) -> None:
        mine: list[str] = []
        for s in block.statements:
            self._statement(s, mine)
        if self.pending.statements and set(mine) & _named(touched(*self.pending.statements), self.known.arrays):
            self.flush()
        self._free(mine)

    def _free(self, arrays: Sequence[str]) -> None:
        self.plan += [Free(array) for array in reversed(arrays)]

    def _statement(self, s: nodes.Statement, mine: list[str]) -> None:
        if isinstance(s, nodes.Produce):
            outer, self.stage = self.stage, s.stage
            self._block(s.body)
            self.stage = outer
        elif isinstance(s, nodes.Block):
            self._block(s)
        elif isinstance(s, nodes.Alloc) and s.buffer.scope == "heap":
            mine.append(self.allocate(s.buffer))
        elif isinstance(s, nodes.Let):
            self._let(s)
        elif isinstance(s, nodes.Store) and any(s.buffer is count for _, count in self.nest.counts):
            pass  # the plan has the number already
        elif self._is_code(s):
            self.pending.statements.append(s)
            if Uses(s).faults:
                self.flush()  # what comes next may rely on what was checked
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

    def _flush_before(self, s: nodes.Statement) -> None:
        if not self.pending.independent_of(s, self.known.arrays):
            self.flush()

    def _control(self, s: nodes.Statement) -> None:
        if isinstance(s, (nodes.For, nodes.While)):
            self.may_have_failed |= any(isinstance(inner, nodes.Check) for inner in statements_within(s))
        if isinstance(s, nodes.For):
            made: Statement = self._for(s)
        elif isinstance(s, nodes.If):
            test = self.number(s.condition)
            then = self._list(partial(self._block, s.then))
            otherwise = () if s.orelse is None else self._list(partial(self._block, s.orelse))
            made = If(test, then, otherwise)
        elif isinstance(s, nodes.While):
            made = self._while(s)
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

    def _while(self, s: nodes.While) -> Statement:
        again = self.fresh("again")
        self.plan.append(Let(again, 1))

        def iteration() -> None:
            self._block_open(s.setup)
            test = self.number(s.condition)
            body = self._list(partial(self._block, s.body), [Let(again, 1)])
            self.plan.append(If(test, body))

        body = self._list(iteration, [Let(again, 0)])
        return While(("min", again, ("==", self.failed, 0)) if self.fails else again, body)

    def _block_open(self, block: nodes.Block) -> None:
        """A block whose names and memory are there for what follows it."""
        for s in block.statements:
            self._statement(s, self.frames[-1])

    def _looks(self, s: Statement) -> bool:
        """Whether a statement of the plan finds out whether something has failed."""
        if isinstance(s, ReadBack):
            return s.name == self.failed
        if isinstance(s, If):
            return any(map(self._looks, (*s.then, *s.otherwise)))
        return isinstance(s, (Loop, While)) and any(map(self._looks, s.body))

    # --- values of the host

    def _let(self, s: nodes.Let) -> None:
        number = self._plain(s.value)
        if number is None and not isinstance(s.var, SizeVar):
            nodes_below = topological(s.value)
            waiting = {name for each in self.pending.statements for name in binds(each)}
            if any(isinstance(node, Read) for node in nodes_below) or not waiting.isdisjoint(nodes_below):
                self.pending.statements.append(s)
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

    def _plain(self, e: NestExpr) -> Number | None:
        return number_of(e, self.known.numbers, self.data)

    def number(self, e: NestExpr) -> Number:
        """The number of the plan that an expression is, which may have to be read back."""
        number = self._plain(e)
        if number is not None:
            return number
        if isinstance(e, Read) and e.predicate is None and e.dtype.kind != "f":
            place = self._place(e)
            if place is not None:
                self._flush_before(nodes.Let(fresh("asked", e.dtype), e))
                return self._read_back(e.buffer, place)
        if not (isinstance(e, Var) and e in self.known.cells):
            asked = fresh("asked", e.dtype)
            self.pending.statements.append(nodes.Let(asked, e))
            self.pending.exported.add(asked)
            self.flush()
            e = asked
        self.known.numbers[e] = self._read_back(self.known.cells[e], 0)
        return self.known.numbers[e]

    def _place(self, e: Read) -> Number | None:
        """Where an element lies in its array, in elements; None where the host does not know."""
        place: Number = 0
        if e.buffer.strides or e.buffer.scope == "constant":
            return None
        for index, extent in zip(e.indices, e.buffer.shape, strict=True):
            number, size = self._plain(index), self._plain(extent)
            if number is None or size is None:
                return None
            place = plus(times(place, size), number)
        return place

    def _read_back(self, buffer: Buffer, place: Number) -> str:
        """The number that an element is; the plan goes on only where nothing has failed."""
        name = self.fresh(buffer.name)
        offset = times(place, buffer.dtype.itemsize)
        self.plan.append(ReadBack(name, self.known.arrays[buffer], buffer.dtype, offset))
        self.data.add(name)
        if self.fails:
            self.plan.append(ReadBack(self.failed, self.fault, i32))
            self._guard()
        return name

    def allocate(self, buffer: Buffer) -> str:
        """Memory on the device, of which the nest says when it ends."""
        name = self.known.arrays[buffer] = self.fresh(buffer.name)
        self.plan.append(Allocate(name, self._bytes(buffer)))
        return name

    def _bytes(self, buffer: Buffer) -> Number:
        """How many bytes an array takes."""
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
        """A size, whose arithmetic the plan checks whoever made its parts."""
        for var in free_variables(e):
            if var not in self.known.numbers:
                self.known.numbers[var] = self._name(self.number(self.known.pure.get(var, var)))
        number = number_of(e, self.known.numbers)
        return self.number(e) if number is None else number

    def _name(self, number: Number) -> str:
        if isinstance(number, str):
            return number
        name = self.fresh("size")
        self.plan.append(Let(name, number))
        return name

    # --- kernels

    def flush(self) -> None:
        """Launches a kernel of one thread for the statements that wait, if there are any."""
        pending, self.pending = self.pending, _Pending()
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
            self._launch(self.stage, code, scratch, (1, 1, 1), (1, 1, 1), Places(), {})

    def _loop(self, s: nodes.For) -> None:
        """Launches a loop over threads."""
        memory = iteration_memory(s, self.limits)
        self._prepare(s, memory)
        loop, given, count = self._ends(s)
        places, threads = Places(), self.limits.threads
        if memory.slots:
            slot, slots, trips = fresh("slot"), fresh("slots"), fresh("trips")
            in_flight = self._short(self._in_flight(memory, count))
            given |= {slots: in_flight, trips: count}
            self.known.numbers[slots] = self._name(in_flight)
            code = strided_loop(loop, places, self.limits, slot, slots, trips)
            code, scratch = place_memory(code, memory, slot, slots)
            count = in_flight
        else:
            code, scratch = place_memory(one_iteration(loop, places, self.limits), memory, const(i64, 0), const(i64, 1))
        name = f"{s.stage or self.stage}_{s.loop or s.var.name}"
        self._launch(name, code, scratch, (threads, 1, 1), folded(count, self.limits), places, given)

    def _blocks(self, s: nodes.For) -> None:
        """Launches a loop over blocks."""
        memory = iteration_memory(s, self.limits)
        self._prepare(s, memory)
        chain = block_chain(s)
        given: dict[Node, Number] = {}
        around: list[nodes.For | nodes.Let | nodes.If] = []
        trips: list[Number] = []
        for each in chain.around:
            if isinstance(each, nodes.For):
                each, more, count = self._ends(each)
                given |= more
                trips.append(count)
            around.append(each)
        body = Chain(tuple(around), thread_code(chain.body, together=True))
        extent, places = block_extent(body.body, self.limits), Places()
        grid: list[Number] = [1, 1, 1]
        numbers: list[Expr] = []
        parts: list[tuple[str, Number]] = []
        firsts: set[Node] = set()
        for each, count in zip(chain.loops, trips, strict=True):
            axis = BLOCK_AXES[each.level]
            number: Expr = places.blocks[axis]
            grid[axis] = count
            if not isinstance(count, int) or count > self.limits.blocks:
                part, first = self.fresh("part"), fresh("first")
                begin = times(part, self.limits.blocks)
                parts.append((part, divided_up(count, self.limits.blocks)))
                grid[axis] = ("min", minus(count, begin), self.limits.blocks)
                given[first] = begin
                firsts.add(first)
                number = ix.add(number, first)
            numbers.append(number)
        name = f"{s.stage or self.stage}_{s.loop or s.var.name}"
        slot, slots = fresh("slot"), fresh("slots")
        made = block_code(placed(body, numbers), places.threads, extent, memory, (slot, slots), self.limits)
        if not made.scratch:
            self._in_parts(
                parts, partial(self._launch, name, made.code, (), extent, (grid[0], grid[1], grid[2]), places, given)
            )
            return
        given = {v: n for v, n in given.items() if v not in firsts}
        counts = [fresh("trips") for _ in trips]
        given |= dict(zip(counts, trips, strict=True))
        turns = in_turn(body, slot, slots, counts)
        code = nodes.Block((nodes.Let(slot, places.blocks[0]), *turns.statements))
        made = block_code(code, places.threads, extent, memory, (slot, slots), self.limits)
        total: Number = 1
        for each in trips:
            total = times(total, each)
        in_flight = self._short(self._blocks_in_flight(made, total, slots))
        given[slots] = in_flight
        self.known.numbers[slots] = self._name(in_flight)
        self._launch(name, made.code, made.scratch, extent, (in_flight, 1, 1), places, given)

    def _blocks_in_flight(self, made: ThreadBlock, total: Number, slots: Var) -> Number:
        """How many blocks run at a time where they have arrays in device memory."""
        threads = prod(made.extent)
        each: Number = 0
        for buffer in made.scratch:
            nbytes: Number = buffer.dtype.itemsize * (1 if buffer.shape[0] is slots else threads)
            for e in buffer.shape[1:]:
                nbytes = times(nbytes, self._extent(e))
            each = plus(each, nbytes)
        fitting = ("max", 1, ("//", self.limits.scratch, ("max", 1, each)))
        return ("min", ("min", total, max(1, self.limits.resident // threads)), fitting)

    def _in_parts(self, parts: Sequence[tuple[str, Number]], launch: Callable[[], None]) -> None:
        """A launch, in loops over parts of axes that may be longer than one launch has them."""
        outer, self.plan = self.plan, []
        launch()
        body = tuple(self.plan)
        for part, count in reversed(parts):
            body = (Loop(part, count, body),)
        self.plan = [*outer, *body]

    def _ends(self, s: nodes.For) -> tuple[nodes.For, dict[Node, Number], Number]:
        """A loop whose bounds are known before its launch, the numbers that these need, and how many iterations it has."""
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
        places: Places,
        given: Mapping[Node, Number],
    ) -> None:
        """A launch of a kernel, one that is alike if there is any, and the memory that it needs meanwhile."""
        arrays = [self.allocate(buffer) for buffer in scratch]
        self.may_have_failed |= Uses(code).faults
        kernel = make_kernel(code, extent, places, self.known, given, self.may_have_failed)
        known = self.alike.get(key := kernel_key(kernel))
        if known is None:
            known = self.alike[key] = self.fresh(clean_name(name))
            self.kernels.append(replace(kernel, name=known))
        numbers = [given[v] if v in given else self.known.numbers[v] for v in kernel.numbers]
        arguments = (*(self.known.arrays[b] for b in kernel.arrays), *numbers)
        self.plan.append(Launch(known, grid, (*arguments, self.fault) if kernel.faults else arguments))
        self._free(arrays)

    def _in_flight(self, memory: IterationMemory, count: Number) -> Number:
        """How many iterations run at a time where each has memory of its own."""
        each: Number = 0
        for buffer, shape in memory.slots.items():
            nbytes: Number = buffer.dtype.itemsize
            for e in shape:
                nbytes = times(nbytes, self._extent(e))
            each = plus(each, nbytes)
        fitting = ("max", 1, ("//", self.limits.scratch, ("max", 1, each)))
        return ("min", ("min", count, self.limits.resident), fitting)

    def _prepare(self, s: nodes.Statement, memory: IterationMemory) -> None:
        """Makes numbers of all that the shapes of a kernel's arrays mention."""
        for buffer in (*Uses(s).buffers, *memory.slots):
            for e in (*memory.slots.get(buffer, buffer.shape), *buffer.strides):
                self._extent(e)

    def _short(self, number: Number) -> Number:
        """A number by name, if it is more than a name."""
        return self._name(number) if isinstance(number, tuple) else number


def _is_parallel(s: nodes.Statement) -> TypeGuard[nodes.For]:
    """Whether the iterations of a loop may run in any order."""
    return (
        isinstance(s, nodes.For)
        and s.kind == "parallel"
        and not any(isinstance(inner, nodes.Ordered) for inner in statements_within(s))
    )
