"""Emits a whole gang nest as functions: an entry, and one function for each group of `alike` kernels (host-plan steps), parallel loops and
large serial loops.

The entry has the flat C form of `raido.targets.signature`: inputs, sizes, outputs, fault record. It allocates, runs host loops, calls
kernels, swaps buffers by swapping pointers, and frees all memory on every path. Kernels and the bodies of parallel loops are called, never
inlined into the entry: inside them no two pointers alias, outside the same memory may have two names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from raido.algo.collector import seldom_collected
from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import bool_, i64, u8
from raido.algo.graph.expr import Op, SizeVar, fresh
from raido.algo.graph.index import as_index
from raido.algo.graph.rewrite import substitute
from raido.schedule.nest.nodes import Block, For, Let, Nest
from raido.schedule.nest.replace_buffers import map_expressions
from raido.schedule.nest.uses import Uses
from raido.schedule.nest.values import Buffer, lanes_of, replaced
from raido.schedule.nest.walk import statements_within
from raido.targets import tvm_corner as T
from raido.targets.emit.alike import Alike, Kernels, key_of, known_of
from raido.targets.emit.choices import choices_without_loads
from raido.targets.emit.fused_rows import emit_rows
from raido.targets.emit.host import HostPlan, sizes_of_empty_arrays
from raido.targets.emit.loops import emit_in_place, emit_loop, trip_count
from raido.targets.emit.ordered import emit_ordered_iteration
from raido.targets.emit.scopes import hoist_heap, is_ordered, shared_registers
from raido.targets.emit.statements import Statements, add_statement
from raido.targets.emit.terms import tir
from raido.targets.emit.unit import Unit, data_of
from raido.targets.llvm.capabilities import Capabilities
from raido.targets.llvm.helpers import Helpers
from raido.targets.llvm.text import llvm_type, memory_dtype

TURN = 8  # where, after the counter of tickets and on a cache line of its own, stands whose turn an ordered section is
_PIECES = 512  # of a loop whose iterations threads take by ticket, for each thread: fewer wait at the end, more lose streams of memory
_FAULT_TYPE = u8  # what a fault record's pointer points to is the runtime's business


@seldom_collected
def emit_program(nest: Nest, entry: str, can: Capabilities) -> dict[str, Any]:
    """TIR functions by symbol, `entry` among them, for a processor with capabilities `can`."""
    return Program(nest, entry, can).functions


class Program:
    """The functions of one nest."""

    def __init__(self, nest: Nest, entry: str, can: Capabilities) -> None:
        self.helpers = Helpers(f"{entry}.math", can)
        self.functions: dict[str, Any] = {}
        self.alike = Alike(nest)
        self.kernels = Kernels(self.alike.bodies)
        self.loops: dict[tuple[Any, ...], str] = {}  # of those that others are alike, the functions by their keys
        self.entry = entry
        slots: dict[Buffer, Any] = {}
        unit, parameters = self._entry_unit(nest, slots)
        host = HostPlan(self, unit, nest.body, slots)
        host.program(nest.body, sizes_of_empty_arrays(nest))
        body = T.sequence(unit.out)
        self._math_functions()
        self.functions[entry] = T.function(entry, parameters, body, self.helpers.text())

    def _entry_unit(self, nest: Nest, slots: dict[Buffer, Any]) -> tuple[Unit, list[Any]]:
        fault = T.pointer("fault", _FAULT_TYPE)
        unit = Unit(self.helpers, fault)
        parameters = []
        for buffer in nest.inputs:
            parameters.append(T.pointer(f"{buffer.name}_in", memory_dtype(buffer.dtype)))
            unit.declare(buffer, parameters[-1])
        for size in nest.sizes:
            parameters.append(T.variable(size.name, "int64"))
            unit.variables[size] = parameters[-1]
        for buffer in nest.outputs:
            if buffer.scope == "result":
                parameters.append(T.pointer(f"{buffer.name}_slot", i64))
                slots[buffer] = T.flat_buffer(f"{buffer.name}_slot", i64, 1, parameters[-1])
                unit.out.append(T.DeclBuffer(slots[buffer], data=parameters[-1]))
                continue
            parameters.append(T.pointer(f"{buffer.name}_out", memory_dtype(buffer.dtype)))
            unit.declare(buffer, parameters[-1])
        for _, buffer in nest.counts:
            parameters.append(T.pointer(f"{buffer.name}_out", memory_dtype(buffer.dtype)))
            unit.declare(buffer, parameters[-1])
        return unit, [*parameters, fault]

    def symbol(self, stem: str) -> str:
        """A function name made of `stem` that is not taken, reserved in `functions`."""
        clean = "".join(c if c.isascii() and c.isalnum() else "_" for c in stem)
        symbol, k = f"{self.entry}.{clean}", 1
        while symbol in self.functions:
            k += 1
            symbol = f"{self.entry}.{clean}.{k}"
        self.functions[symbol] = None
        return symbol

    def _math_functions(self) -> None:
        """Emits the out-of-line math functions that helpers call; their parameters are the operands and a pointer to the result."""
        for symbol, (name, shapes) in self.helpers.values.math_functions.items():
            dtype, lanes = shapes[0]
            operands = [T.variable(f"x{k}", T.type_name(*shape)) for k, shape in enumerate(shapes)]
            pointer = T.pointer("result", dtype)
            result = T.flat_buffer("result", dtype, lanes, data=pointer)
            zero, one = T.IntImm("int64", 0), T.IntImm("int64", 1)
            value = T.call(self.helpers.values.whole(name, shapes), T.type_name(dtype, lanes), *operands)
            store = T.BufferStore(result, value, [T.Ramp(zero, one, lanes) if lanes > 1 else zero])
            body = T.sequence([T.DeclBuffer(result, data=pointer), store])
            self.functions[symbol] = T.function(symbol, [*operands, pointer], body)

    # --- outlining

    def passed(self, outer: Unit, uses: Uses) -> list[tuple[Any, Any, str]]:
        """Parameters of a function for statements with these uses: each buffer or variable with its argument and LLVM type."""
        given: list[tuple[Any, Any, str]] = []
        for buffer in uses.buffers:
            if buffer in outer.registers:
                raise CompileError(f"internal: register buffer {buffer.name} is used across functions")
            if buffer.scope != "constant":
                given.append((buffer, data_of(outer.buffer(buffer)), "ptr"))
        for variable in uses.variables:
            if variable not in outer.variables:
                raise CompileError(f"internal: variable {variable.name} is not bound where it is used")
            term, lanes = outer.variables[variable], lanes_of(variable)
            if isinstance(term, int):
                continue
            packed, term = is_packed(variable), tir(term, variable.dtype)
            argument = outer.call(self.helpers.values.pack_mask(lanes), u8, lanes, term) if packed else term
            given.append((variable, argument, llvm_type(u8 if packed else variable.dtype, lanes)))
        return given

    def outline(self, outer: Unit, uses: Uses, given: Sequence[tuple[Any, Any, str]]) -> tuple[Unit, list[Any]]:
        """A unit for statements with these uses, and its parameters for the buffers and variables in `given`."""
        fault = T.pointer("fault", _FAULT_TYPE)
        unit = Unit(self.helpers, fault)
        parameters = []
        for each, _, _ in given:
            if isinstance(each, Buffer):
                parameters.append(T.pointer(unit.fresh_name(each.name), memory_dtype(each.dtype)))
                unit.declare(each, parameters[-1])
                continue
            lanes, packed = lanes_of(each), is_packed(each)
            parameter = T.variable(unit.fresh_name(each.name), T.type_name(u8 if packed else each.dtype, lanes))
            parameters.append(parameter)
            unit.variables[each] = (
                unit.call(self.helpers.values.unpack_mask(lanes), bool_, lanes, parameter) if packed else parameter
            )
        for variable in uses.variables:
            if variable in outer.index_like or isinstance(variable, SizeVar):
                unit.index_like.add(variable)
            if variable in outer.known:
                unit.known[variable] = outer.known[variable]
            unit.variables.setdefault(variable, outer.variables[variable])  # a number
        self.constants(unit, uses)
        return unit, [*parameters, fault]

    def constants(self, unit: Unit, uses: Uses) -> None:
        """Declares the constant arrays among the uses."""
        for buffer in uses.buffers:
            if buffer.scope == "constant":
                data: Any = buffer.data
                pointer = T.pointer(unit.fresh_name(buffer.name), memory_dtype(buffer.dtype))
                located = T.call(
                    self.helpers.memory.constant_array(data.digest, data.array),
                    T.pointer_type(memory_dtype(buffer.dtype)),
                )
                unit.out.append(T.Bind(pointer, located))
                unit.declare(buffer, pointer)

    def finish(self, symbol: str, unit: Unit, parameters: Sequence[Any], statements: Statements) -> None:
        """Completes a function with its body."""
        if statements.streams:
            unit.effect(self.helpers.runtime.drain())
        self.functions[symbol] = T.function(symbol, parameters, T.sequence(unit.out))

    def kernel(self, outer: Unit, name: str, body: Block, uses: Uses) -> None:
        """Emits a function for statements of the host plan, unless an equal one exists, and its call in `outer`."""
        given = self.passed(outer, uses)
        symbol, new = self.kernels.symbol(body, known_of(uses.variables, outer), lambda: self.symbol(name))
        if new:
            unit, parameters = self.outline(outer, uses, given)
            statements = Statements(unit, self)
            statements.shared = shared_registers(body)
            hoisted, moved = hoist_heap(body)
            statements.kernel((*moved, *hoisted.statements))
            self.finish(symbol, unit, parameters, statements)
        self._call(outer, symbol, given)

    def call_alike(self, statements: Statements, loop: For) -> bool:
        """Emits a call of the function that equal loops share, and the function at the first call; False for other loops."""
        rows, outer = self.alike.loops.pop(loop, None), statements.unit
        if rows is None:
            return False
        inside = self._names_inside(statements, rows.given)
        uses = Uses()
        for each, named in inside.items():
            if isinstance(each, Buffer):
                uses.buffers[each] = None
            else:
                uses.variables[named] = None
        given, key = self.passed(outer, uses), key_of(rows, known_of(uses.variables, outer))
        if key not in self.loops:
            symbol = self.loops[key] = self.symbol(f"{loop.stage or 'loop'}_{loop.loop or loop.var.name}")
            uses.buffers = dict.fromkeys(inside[each] for each in uses.buffers)
            own = [(inside.get(each, each), argument, kind) for each, argument, kind in given]
            unit, parameters = self.outline(outer, uses, own)
            apart = Statements(unit, self)
            emit_in_place(apart, map_expressions(loop, lambda e: e, lambda b: b, inside))
            self.finish(symbol, unit, parameters, apart)
        self._call(outer, self.loops[key], given)
        return True

    def call_apart(self, outer: Unit, block: Block, uses: Uses) -> None:
        """Emits a function for a block with these uses, and its call in `outer`."""
        given, symbol = self.passed(outer, uses), self.symbol("tiles_at_edges")
        unit, parameters = self.outline(outer, uses, given)
        apart = Statements(unit, self)
        apart.block(block.statements)
        self.finish(symbol, unit, parameters, apart)
        self._call(outer, symbol, given)

    def _names_inside(self, statements: Statements, given: Sequence[Any]) -> dict[Any, Any]:
        """Names, inside the shared function of equal loops, of the expressions and buffers that each loop passes: an expression becomes a
        variable, a buffer gets an outermost extent of 1, so that rows do not enter its type."""
        inside: dict[Any, Any] = {}
        for each in given:
            if isinstance(each, Op):
                inside[each] = fresh("given")
                statements.statement(Let(inside[each], each))
                statements.unit.known.pop(inside[each], None)
        expressions = dict(inside)
        for each in given:
            if isinstance(each, Buffer) and each.scope != "constant":
                shape, strides = ([substitute(e, expressions) for e in part] for part in (each.shape, each.strides))
                if len(shape) > 1 and not strides:
                    shape[0] = as_index(1)
                inside[each] = replaced(each, shape=tuple(shape), strides=tuple(strides))
            else:
                inside.setdefault(each, each)
        return {each: inside[each] for each in given}

    def _call(self, outer: Unit, symbol: str, given: Sequence[tuple[Any, Any, str]]) -> None:
        """Emits the call of a kernel."""
        types = [*(kind for _, _, kind in given), "ptr"]
        arguments = [*(argument for _, argument, _ in given), outer.fault]
        outer.effect(self.helpers.runtime.call_apart(symbol, types), *arguments)

    def launch(self, statements: Statements, loop: For) -> None:
        """Emits a parallel loop: a function for one thread's share of the iterations, unless an equal one exists, and the launch."""
        outer = statements.unit
        low, high = statements.values.prepare(loop.low, loop.high)
        count = tir(trip_count(low, high, loop.step))
        count = outer.bind("iterations", i64, 1, count)
        if not isinstance(low, int):
            low = outer.bind("low", i64, 1, low)
        uses = Uses(loop.body)
        uses.variables.pop(loop.var, None)
        uses.variables.pop(loop.alone, None)
        for buffer in uses.folded:
            raise CompileError(f"internal: the iterations of a loop over threads share the accumulator {buffer.name}")
        passed, known = self.passed(outer, uses), known_of(uses.variables, outer)
        known.append((as_index(loop.low), False, low if isinstance(low, int) else None, None))
        own = replace(loop, certificates=())  # which code does not depend on
        stem = f"{loop.stage or 'loop'}_{loop.loop or loop.var.name}"
        symbol, new = self.kernels.symbol(own, known, lambda: self.symbol(stem))
        if new:
            self._share(symbol, outer, loop, low, uses, passed)
        arguments = [*(argument for _, argument, _ in passed), outer.fault, tir(low), count]
        types = [*(kind for _, _, kind in passed), "ptr", *["i64"] * 5, "ptr"]
        self._launch_shares(outer, loop, symbol, arguments, count, types)

    def _share(
        self, symbol: str, outer: Unit, loop: For, low: Any, uses: Uses, passed: Sequence[tuple[Any, Any, str]]
    ) -> None:
        """Emits the function for one thread's share of a parallel loop from `low` on."""
        unit, parameters = self.outline(outer, uses, passed)
        first = T.variable("first", "int64")
        given = first if not isinstance(low, int) else low
        begin, end, shares, iterations = (
            T.variable(name, "int64") for name in ("begin", "end", "shares", "iterations")
        )
        counter = T.pointer("counter", i64)
        inner = Statements(unit, self)
        inner.shared = shared_registers(loop.body)
        inner.values.choices = choices_without_loads(list(statements_within(loop.body)))
        if loop.alone is not None:
            unit.variables[loop.alone] = T.EQ(shares, T.IntImm("int64", 1))
        hoisted, moved = hoist_heap(loop.body, repeated=True)
        here = [a for a in moved if loop.var in Uses(a).variables]
        body = For(loop.var, loop.low, loop.high, loop.step, Block((*here, *hoisted.statements)))
        ordered = is_ordered(loop.body)
        grain = max(loop.grain, 1) if loop.dynamic or ordered else 0
        share_of = _Share(body, given, iterations, begin, end, shares, counter, grain, ordered)
        inner.block([*(a for a in moved if a not in here), share_of])
        self.finish(symbol, unit, [*parameters, first, iterations, begin, end, shares, counter], inner)

    def _launch_shares(
        self, outer: Unit, loop: For, symbol: str, arguments: list[Any], count: Any, types: list[str]
    ) -> None:
        zero, one = T.IntImm("int64", 0), T.IntImm("int64", 1)
        grain = T.IntImm("int64", max(loop.grain, 1))
        tickets = T.flat_buffer(outer.fresh_name("tickets"), i64, TURN + 1)
        outer.out.append(T.AllocBuffer(tickets))
        outer.out += [T.BufferStore(tickets, zero, [T.IntImm("int64", number)]) for number in (0, TURN)]
        pieces = count if loop.grain <= 1 else T.Div(T.Add(count, T.Sub(grain, one)), grain)
        threads = T.call(self.helpers.runtime.threads(), "int64")
        shares = outer.bind("shares", i64, 1, T.Max(T.Min(threads, pieces), T.IntImm("int64", 0)))
        share = T.variable(outer.fresh_name("share"), "int64")
        apart = self.helpers.runtime.call_apart(symbol, types)
        run = lambda *part: T.Evaluate(T.call(apart, "int32", *arguments, *part, data_of(tickets)))
        bound = lambda share: T.Div(T.Mul(count, share), shares)
        launch = T.For(share, zero, shares, T.ForKind.PARALLEL, run(bound(share), bound(T.Add(share, one)), shares))
        # no thread is woken, and nothing divided, for one share
        alone = T.IfThenElse(T.GT(count, zero), run(zero, count, one), None)
        outer.out.append(T.IfThenElse(T.GT(shares, one), launch, alone))


def is_packed(variable: Any) -> bool:
    """Whether a variable is a vector mask, which is passed to functions as bytes."""
    return variable.dtype is bool_ and lanes_of(variable) > 1


class _Share:
    """One thread's share of a parallel loop: a contiguous range of iterations, or with grain > 0 chunks that threads take from a shared
    counter.

    A chunk has at least `grain` iterations, and 1/`_PIECES` of a thread's even share if that is more. `ordered`: iterations have ordered
    sections, and each is a chunk.
    """

    def __init__(
        self,
        loop: For,
        low: Any,
        iterations: Any,
        begin: Any,
        end: Any,
        shares: Any,
        counter: Any,
        grain: int,
        ordered: bool,
    ) -> None:
        self.loop, self.low, self.iterations, self.grain, self.ordered = loop, low, iterations, grain, ordered
        self.begin, self.end, self.shares, self.counter = begin, end, shares, counter

    def emit(self, statements: Statements) -> None:
        """Emits the share's loop."""
        if self.grain:
            self._by_ticket(statements)
            return
        self._chunk(statements, self.begin, T.Sub(self.end, self.begin))

    def _chunk(self, statements: Statements, begin: Any, size: Any) -> None:
        """Emits the loop over `size` iterations from `begin` on."""
        if not emit_rows(statements, self.loop, begin, size):
            statements.unit.out.append(emit_loop(statements, self.loop, self.low, size, begin))

    def _by_ticket(self, statements: Statements) -> None:
        unit = statements.unit
        zero = T.IntImm("int64", 0)
        grain: Any = T.IntImm("int64", 1)
        if not self.ordered:
            many = T.Div(self.iterations, T.Mul(self.shares, T.IntImm("int64", _PIECES)))
            grain = unit.bind("grain", i64, 1, T.Max(many, T.IntImm("int64", self.grain)))
        ticket = T.flat_buffer(unit.fresh_name("place"), i64, 1)
        take = lambda: T.BufferStore(
            ticket, T.Mul(T.call(unit.helpers.runtime.ticket(), "int64", self.counter), grain), [zero]
        )
        unit.out += [T.AllocBuffer(ticket), take()]
        outer = unit.block()
        begin = unit.bind("begin", i64, 1, T.BufferLoad(ticket, [zero]))
        size = T.Min(grain, T.Sub(self.iterations, begin))
        piece = lambda: self._chunk(statements, begin, size)
        if self.ordered:
            turn = T.call(unit.helpers.runtime.turn_of(TURN), T.pointer_type(i64), self.counter)
            emit_ordered_iteration(statements, turn, begin, piece)
        else:
            piece()
        unit.out.append(take())
        body = unit.end_block(outer)
        unit.out.append(T.While(T.LT(T.BufferLoad(ticket, [zero]), self.iterations), body))


add_statement(_Share, lambda statements, share: share.emit(statements))
