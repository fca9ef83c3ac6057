"""Statements of the gang nest as TIR statements, inside one function.

Memory from the runtime is taken where a block begins to need it and given back at the block's end; what follows a step that can fail
runs only while nothing is on record, so every path gives back what it took. Loops over threads become functions of their own
(`outline`): nothing inside them aliases, and loops over threads may nest (inner ones then run on the thread they are on).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import bool_, i32, i64
from raido.algo.graph.expr import Op
from raido.algo.graph.facts import Facts
from raido.algo.graph.index import add, as_index, canonical, constant_value, sub
from raido.algo.graph.rewrite import substitute
from raido.schedule.nest.nodes import (
    Alloc,
    Append,
    AtomicUpdate,
    Block,
    Buffer,
    Check,
    Fold,
    For,
    If,
    Let,
    Ordered,
    Prefetch,
    Prefix,
    Produce,
    Read,
    Scatter,
    Splat,
    Store,
    VectorStore,
    While,
    lanes_of,
)
from raido.targets import tvm_corner as T
from raido.targets.emit.atomics import emit_atomic
from raido.targets.emit.divider import roots_by_products
from raido.targets.emit.interleave import find_interleaved
from raido.targets.emit.scopes import Uses
from raido.targets.emit.stream_loops import StreamLoops
from raido.targets.emit.streams import find_stream
from raido.targets.emit.unit import Term, Unit, data_of, is_heavy, is_plain_index, tir
from raido.targets.emit.values import Values
from raido.targets.llvm.roots import LANES
from raido.targets.llvm.text import memory_dtype

_UNROLL_LIMIT = 256
_SHORT = 4  # rounds
_LARGE_BODY = 12  # vector operations from which LLVM's own unrolling costs registers and brings nothing


class Outliner(Protocol):
    """Makes functions of loops over threads."""

    def launch(self, statements: Statements, loop: For) -> None:
        """Appends the launch of a parallel loop to the current block."""


class Statements:
    """Appends statements to a unit."""

    def __init__(self, unit: Unit, outliner: Outliner) -> None:
        self.unit = unit
        self.values = Values(unit)
        self.outliner = outliner
        self.streams = False
        self.stream: StreamLoops | None = None
        self.shared: set[Buffer] = set()  # register buffers that loops over threads use
        self.turn: tuple[Any, Any] | None = None  # of a round with an ordered section: whose turn it is, and its number

    def block(self, statements: Sequence[Any]) -> None:
        """The statements of a block, to its end."""
        position = 0
        while position < len(statements):
            s = statements[position]
            if isinstance(s, Alloc) and s.buffer.scope == "heap":
                self._with_heap(s.buffer, statements[position + 1 :])
                return
            together = find_interleaved(statements, position)
            if together:
                self._store_interleaved(together)
            else:
                self.statement(s)
            position += len(together) or 1

    def nested(self, block: Block) -> Any:
        """A block of its own, as one TIR statement."""
        outer = self.unit.block()
        self.block(block.statements)
        return self.unit.end_block(outer)

    def statement(self, s: Any) -> None:
        """One statement."""
        method = _METHODS.get(type(s))
        if method is None:
            raise CompileError(f"internal: {type(s).__name__} cannot stand inside a kernel")
        method(self, s)

    # --- names and memory

    def _block(self, s: Block) -> None:
        self.block(s.statements)

    def _produce(self, s: Produce) -> None:
        self.block(s.body.statements)

    def _let(self, s: Let) -> None:
        unit = self.unit
        term = self.values.scalar(s.value)
        if is_plain_index(s.value, unit, {}):
            unit.index_like.add(s.var)
            if s.value.dtype is i64 and lanes_of(s.value) == 1:
                unit.known[s.var] = substitute(s.value, unit.known)
        simple = isinstance(term, (int, T.Var))
        lanes, weight = lanes_of(s.value), self.values.weight[s.value]
        unit.variables[s.var] = (
            term if simple else unit.bind(s.var.name, s.var.dtype, lanes, tir(term, s.var.dtype), weight)
        )
        unit.weights[s.var] = 1 if is_heavy(weight) else weight

    def size_in_bytes(self, buffer: Buffer) -> Any:
        """How much memory a buffer takes."""
        last: Any = as_index(1)
        if buffer.strides:
            for extent, stride in zip(buffer.shape, buffer.strides, strict=True):
                last = add(last, Op("mul", i64, (sub(extent, 1), stride)))
        else:
            for extent in buffer.shape:
                last = Op("mul", i64, (last, extent))
        count = self.values.scalar(canonical(last))
        size = memory_dtype(buffer.dtype).itemsize * buffer.lanes
        if isinstance(count, int):
            return T.IntImm("int64", max(count, 0) * size)
        total = T.Mul(tir(count), T.IntImm("int64", size))
        return T.Max(total, T.IntImm("int64", 0))  # the extents of what no round needs may be negative

    def _with_heap(self, buffer: Buffer, rest: Sequence[Any]) -> None:
        unit = self.unit
        memory = memory_dtype(buffer.dtype)
        pointer = T.pointer(unit.fresh_name(buffer.name), memory)
        taken = T.call(unit.helpers.runtime.take(), T.pointer_type(memory), self.size_in_bytes(buffer), unit.fault)
        unit.out.append(T.Bind(pointer, taken))
        outer = unit.block()
        unit.declare(buffer, pointer)
        self.block(rest)
        inner = unit.end_block(outer)
        unit.out.append(T.IfThenElse(self.nothing_failed(), inner, None))
        unit.effect(unit.helpers.runtime.give(), pointer)

    def nothing_failed(self) -> Any:
        """The condition that no fault is on record."""
        return T.Not(T.call(self.unit.helpers.runtime.failed(), "bool", self.unit.fault))

    def _alloc(self, s: Alloc) -> None:
        buffer, unit = s.buffer, self.unit
        shape = [constant_value(canonical(substitute(extent, unit.known))) for extent in buffer.shape]
        if any(extent is None for extent in shape):
            raise CompileError(f"internal: {buffer.scope} buffer {buffer.name} has no constant size")
        memory = memory_dtype(buffer.dtype)
        extents = [int(extent or 0) for extent in shape]
        if buffer.scope == "register" and buffer not in self.shared:
            unit.registers[buffer] = cells = {}
            for key in itertools.product(*map(range, extents)):
                cells[key] = T.flat_buffer(unit.fresh_name(buffer.name), memory, buffer.lanes, alignment=64)
                unit.out.append(T.AllocBuffer(cells[key]))
            return
        count = buffer.lanes
        for extent in extents:
            count *= extent
        if buffer.strides and count:
            strides = [constant_value(canonical(substitute(stride, unit.known))) for stride in buffer.strides]
            if any(stride is None for stride in strides):
                raise CompileError(f"internal: stack buffer {buffer.name} has strides that are not constant")
            last = sum((n - 1) * int(stride or 0) for n, stride in zip(extents, strides, strict=True))
            count = (last + 1) * buffer.lanes
        made = T.flat_buffer(unit.fresh_name(buffer.name), memory, max(count, 1), alignment=64)
        unit.out.append(T.AllocBuffer(made))
        unit.memory[buffer] = made

    # --- stores

    def _store(self, s: Store) -> None:
        lanes = s.buffer.lanes
        value, predicate, *_ = self.values.prepare(s.value, s.predicate, *s.indices)
        if predicate is False:
            return
        where, offset = self.values.element(s.buffer, s.indices)
        if lanes > 1 and lanes_of(s.value) == 1:
            value = T.Broadcast(tir(value, s.value.dtype), lanes)
        index = T.Ramp(tir(offset), T.IntImm("int64", 1), lanes) if lanes > 1 else tir(offset)
        stored = self.values.to_memory(s.buffer.dtype, lanes, tir(value, s.value.dtype))
        if s.predicate is not None and lanes_of(s.predicate) > 1:
            mask = tir(predicate, bool_)
            helper = self.unit.helpers.memory.store(s.buffer.dtype, lanes, masked=True)
            self.unit.effect(helper, data_of(where), tir(offset), stored, mask)
            return
        made = T.BufferStore(where, stored, [index])
        if predicate is not None and predicate is not True:
            made = T.IfThenElse(predicate, made, None)
        self.unit.out.append(made)

    def _vector_store(self, s: VectorStore) -> None:
        lanes, helpers = lanes_of(s.value), self.unit.helpers
        value, mask, *_ = self.values.prepare(s.value, s.mask, *s.indices)
        where, offset = self.values.element(s.buffer, s.indices)
        stored = self.values.to_memory(s.buffer.dtype, lanes, tir(value, s.value.dtype))
        if self.stream is not None and self.stream.changes(s):
            self.stream.store(s, data_of(where), tir(offset), stored)
        elif mask is None and s.stride == 1:
            self.unit.out.append(T.BufferStore(where, stored, [T.Ramp(tir(offset), T.IntImm("int64", 1), lanes)]))
        else:
            helper = helpers.memory.store(s.buffer.dtype, lanes, mask is not None, s.stride)
            extra = [] if mask is None else [tir(mask, bool_)]
            self.unit.effect(helper, data_of(where), tir(offset), stored, *extra)

    def _store_interleaved(self, stores: Sequence[VectorStore]) -> None:
        first, lanes = stores[0], lanes_of(stores[0].value)
        terms = self.values.prepare(*(s.value for s in stores), *first.indices)
        where, offset = self.values.element(first.buffer, first.indices)
        dtype = first.buffer.dtype
        values = [
            self.values.to_memory(dtype, lanes, tir(term, s.value.dtype))
            for term, s in zip(terms, stores, strict=False)
        ]
        helper = self.unit.helpers.memory.store_interleaved(dtype, lanes, len(stores))
        self.unit.effect(helper, data_of(where), tir(offset), *values)

    def _scatter(self, s: Scatter) -> None:
        lanes = max(lanes_of(i) for i in s.indices)
        value, mask, *_ = self.values.prepare(s.value, s.mask, *s.indices)
        where, offsets = self.values.lane_offsets(s.buffer, s.indices)
        value = tir(value, s.value.dtype)
        if lanes_of(s.value) == 1:
            value = T.Broadcast(value, lanes)
        stored = self.values.to_memory(s.buffer.dtype, lanes, value)
        extra = [] if mask is None else [tir(mask, bool_)]
        helper = self.unit.helpers.memory.scatter(s.buffer.dtype, lanes, mask is not None)
        self.unit.effect(helper, data_of(where), offsets, stored, *extra)

    def _fold(self, s: Fold) -> None:
        now = {left: Read(buffer, s.indices, None) for left, buffer in zip(s.left, s.buffers, strict=True)}
        steps = [substitute(step, now) for step in s.step]
        unit = self.unit
        terms = self.values.prepare(*steps, *s.indices)[: len(steps)]
        if len(steps) > 1:  # all are computed before any is stored
            pairs = zip(terms, steps, strict=True)
            terms = [unit.bind("step", e.dtype, lanes_of(e), tir(term, e.dtype)) for term, e in pairs]
        for buffer, term, step in zip(s.buffers, terms, steps, strict=True):
            lanes = buffer.lanes
            where, offset = self.values.element(buffer, s.indices)
            value = tir(term, step.dtype)
            if lanes > 1 and lanes_of(step) == 1:
                value = T.Broadcast(value, lanes)
            index = T.Ramp(tir(offset), T.IntImm("int64", 1), lanes) if lanes > 1 else tir(offset)
            unit.out.append(T.BufferStore(where, self.values.to_memory(buffer.dtype, lanes, value), [index]))

    def _prefix(self, s: Prefix) -> None:
        unit = self.unit
        held = [Read(buffer, s.indices, None) for buffer in s.buffers]
        terms = self.values.prepare(*held, *s.values)
        for var, term in zip((*s.left, *s.right), terms, strict=True):
            unit.variables[var] = unit.bind(var.name, var.dtype, 1, tir(term, var.dtype))
        after = self.values.prepare(*s.combine, *s.indices)[: len(s.combine)]
        after = [unit.bind("after", e.dtype, 1, tir(term, e.dtype)) for term, e in zip(after, s.combine, strict=True)]
        for buffer, term in zip(s.buffers, after, strict=True):
            where, offset = self.values.element(buffer, s.indices)
            unit.out.append(T.BufferStore(where, self.values.to_memory(buffer.dtype, 1, term), [tir(offset)]))
        for var, left, term in zip(s.results, s.left, after, strict=True):
            unit.variables[var] = unit.variables[left] if s.exclusive else term

    def _append(self, s: Append) -> None:
        unit = self.unit
        outer = unit.block()
        place = Read(s.position, (), None)
        self.values.prepare(place, *s.values)
        terms = [self.values.memo[value] for value in s.values]
        at = unit.bind("place", i64, 1, self.values.tir(place))
        for buffer, term, value in zip(s.buffers, terms, s.values, strict=True):
            stored = self.values.to_memory(buffer.dtype, 1, tir(term, value.dtype))
            unit.out.append(T.BufferStore(unit.buffer(buffer), stored, [at]))
        where, offset = self.values.element(s.position, ())
        unit.out.append(T.BufferStore(where, T.Add(at, T.IntImm("int64", 1)), [tir(offset)]))
        body = unit.end_block(outer)
        condition = self.values.scalar(s.predicate)
        unit.out.append(T.IfThenElse(tir(condition, bool_), body, None))

    # --- sections in order

    def _ordered(self, s: Ordered) -> None:
        """Wait for the round before, run, and let the next one in. What the section uses is seen, and shown, at its borders."""
        if self.turn is None:
            raise CompileError("internal: an ordered section outside the loop over threads that it orders")
        unit = self.unit
        unit.effect(unit.helpers.runtime.wait_for_turn(), *self.turn)
        inside = [data_of(unit.memory[buffer]) for buffer in Uses(s).buffers if buffer in unit.memory]
        for pointer in inside:
            unit.effect(unit.helpers.runtime.expose(), pointer)
        outer = unit.block()
        self.block(s.body.statements)
        unit.out, made = outer, unit.out
        unit.out += made
        for pointer in inside:
            unit.effect(unit.helpers.runtime.expose(), pointer)
        unit.effect(unit.helpers.runtime.pass_turn(), *self.turn)

    def ordered_round(self, turn: Any, ticket: Any, rounds: Callable[[], None]) -> None:
        """A round whose ordered section has that number; a round that did not come to it passes its turn on."""
        unit = self.unit
        before, self.turn = self.turn, (turn, ticket)
        rounds()
        self.turn = before
        outer = unit.block()
        unit.effect(unit.helpers.runtime.wait_for_turn(), turn, ticket)
        unit.effect(unit.helpers.runtime.pass_turn(), turn, ticket)
        left_out = unit.end_block(outer)
        passed = T.call(unit.helpers.runtime.has_turn_passed(), "bool", turn, ticket)
        unit.out.append(T.IfThenElse(T.Not(passed), left_out, None))

    # --- control

    def _for(self, s: For) -> None:
        if s.kind == "parallel":
            self.outliner.launch(self, s)
        elif s.kind == "unroll" and self._unroll(s):
            return
        else:
            self._serial(s)

    def _unroll(self, s: For) -> bool:
        """Copies of the body, where the trip count is constant and moderate."""
        known = self.unit.known
        low, high = (canonical(substitute(as_index(e), known)) for e in (s.low, s.high))
        extent = constant_value(sub(high, low))
        if extent is None or -(-extent // s.step) > _UNROLL_LIMIT:
            return False
        first = self.values.scalar(s.low)
        for k in range(0, max(extent, 0), s.step):
            known[s.var] = add(low, k)
            term = first + k if isinstance(first, int) else T.Add(first, T.IntImm("int64", k)) if k else first
            self.unit.variables[s.var] = term
            self.unit.index_like.add(s.var)
            self.block(s.body.statements)
        return True

    def trip_count(self, low: Term, high: Term, step: int) -> Term:
        """⌈(high − low) / step⌉, or some number that is not positive."""
        if isinstance(low, int) and isinstance(high, int):
            return -((low - high) // step)
        extent = tir(high) if isinstance(low, int) and low == 0 else T.Sub(tir(high), tir(low))
        if step == 1:
            return extent
        extent = T.Add(extent, T.IntImm("int64", step - 1))
        if step & (step - 1) == 0:
            return T.RShift(extent, T.IntImm("int64", step.bit_length() - 1))
        return T.Div(extent, T.IntImm("int64", step))

    def _serial(self, s: For) -> None:
        low, high = self.values.prepare(s.low, s.high)
        count = self.trip_count(low, high, s.step)
        if isinstance(count, int) and count <= 0:
            return
        stream = find_stream(s)
        if stream is not None:
            outer, self.stream = self.stream, StreamLoops(self, stream)
            self.stream.emit(s, tir(low), tir(count))
            self.stream, self.streams = outer, True
        else:
            self.unit.out.append(self.loop(s, low, tir(count)))

    def loop(self, s: For, low: Term, count: Any, first: Any = None) -> Any:
        """The body of `s` for its iterations first … first + count − 1 (or all from 0)."""
        unit = self.unit
        if s.step == 1 and first is None:
            counter = T.Var(unit.fresh_name(s.var.name), "int64")
            start, value = tir(low), counter
        else:
            counter = T.Var(unit.fresh_name(s.var.name + "_round"), "int64")
            start = T.IntImm("int64", 0) if first is None else first
            value = None
        if value is None:
            scaled = T.Mul(counter, T.IntImm("int64", s.step)) if s.step != 1 else counter
            value = scaled if isinstance(low, int) and low == 0 else T.Add(tir(low), scaled)
        return T.For(counter, start, count, T.ForKind.SERIAL, self.round(s, value))

    def round(self, s: For, value: Any, copied: bool = True) -> Any:
        """The body of a loop, as one statement, for that value of its variable. copied: whether LLVM may unroll the loop."""
        unit = self.unit
        outer = unit.block()
        unit.variables[s.var] = value if isinstance(value, T.Var) else unit.bind(s.var.name, i64, 1, value)
        unit.index_like.add(s.var)
        unit.known.pop(s.var, None)
        before = unit.vector_operations
        around = self.values.by_products
        if unit.helpers.fused and unit.helpers.vector_bits == LANES * 32:
            self.values.by_products = roots_by_products(s.body.statements)
        self.block(s.body.statements)
        self.values.by_products = around
        if not copied or unit.vector_operations - before > _LARGE_BODY or self._is_short(s):
            unit.effect(unit.helpers.runtime.once())
        return unit.end_block(outer)

    def _is_short(self, s: For) -> bool:
        """Whether a loop is a border or tail of a few rounds, which LLVM would unroll and vectorise all the same.

        Not loops over gangs: kept from being copied, those of a cut register tile cost the whole tile its registers.
        """
        low, high = (canonical(substitute(e, self.unit.known)) for e in (s.low, s.high))
        return s.step == 1 and Facts().less_equal(sub(high, low), _SHORT)

    def _if(self, s: If) -> None:
        condition = self.values.scalar(s.condition)
        if isinstance(condition, bool):
            taken = s.then if condition else s.orelse
            if taken is not None:
                self.block(taken.statements)
            return
        then = self.nested(s.then)
        orelse = self.nested(s.orelse) if s.orelse is not None else None
        self.unit.out.append(T.IfThenElse(condition, then, orelse))

    def _while(self, s: While) -> None:
        unit = self.unit
        again = T.flat_buffer(unit.fresh_name("again"), i32, 1)
        zero, one = T.IntImm("int64", 0), T.IntImm("int32", 1)
        unit.out += [T.AllocBuffer(again), T.BufferStore(again, one, [zero])]
        outer = unit.block()
        self.block(s.setup.statements)
        condition = tir(self.values.scalar(s.condition), bool_)
        stop = T.BufferStore(again, T.IntImm("int32", 0), [zero])
        unit.out.append(T.IfThenElse(condition, self.nested(s.body), stop))
        body = unit.end_block(outer)
        unit.out.append(T.While(T.NE(T.BufferLoad(again, [zero]), T.IntImm("int32", 0)), body))

    def _check(self, s: Check) -> None:
        holds: Any = s.holds
        lanes = max(lanes_of(holds), 1 if s.predicate is None else lanes_of(s.predicate))
        if lanes > 1 and lanes_of(holds) == 1:
            holds = Splat(holds, lanes)
        bad: Any = Op("logical_not", bool_, (holds,))
        if s.predicate is not None:
            predicate = s.predicate if lanes_of(s.predicate) == lanes else Splat(s.predicate, lanes)
            bad = Op("logical_and", bool_, (predicate, bad))
        helpers, unit = self.unit.helpers, self.unit
        term, *values = self.values.prepare(bad, *s.values)
        if term is False:
            return
        term = tir(term, bool_)
        some = term
        if lanes > 1:
            term = unit.bind("bad", bool_, lanes, term)
            some = unit.call(helpers.values.reduce("or", bool_, lanes), bool_, 1, term)
        symbol = helpers.runtime.fault(lanes, s.kind, s.site, [(v.dtype, lanes_of(v)) for v in s.values])
        listed = [tir(t, v.dtype) for t, v in zip(values, s.values, strict=True)]
        record = T.Evaluate(T.call(symbol, "int32", unit.fault, term, *listed))
        unit.out.append(T.IfThenElse(some, record, None))

    def _prefetch(self, s: Prefetch) -> None:
        self.values.prepare(*s.indices)
        where, offset = self.values.element(s.buffer, s.indices)
        self.unit.effect(self.unit.helpers.memory.prefetch(s.buffer.dtype), data_of(where), tir(offset))


_METHODS: dict[type, Callable[[Any, Any], None]] = {
    Block: Statements._block,
    Produce: Statements._produce,
    Let: Statements._let,
    Alloc: Statements._alloc,
    Store: Statements._store,
    VectorStore: Statements._vector_store,
    Scatter: Statements._scatter,
    Fold: Statements._fold,
    AtomicUpdate: emit_atomic,
    Prefix: Statements._prefix,
    Ordered: Statements._ordered,
    Append: Statements._append,
    For: Statements._for,
    If: Statements._if,
    While: Statements._while,
    Check: Statements._check,
    Prefetch: Statements._prefetch,
}


def add_statement(kind: type, emit: Callable[[Any, Any], None]) -> None:
    """Lets kernels contain another kind of statement: `emit(statements, s)`."""
    _METHODS[kind] = emit
