"""Emits statements of the gang nest as TIR statements, inside one function.

Runtime memory is allocated where a block first needs it and freed at the block's end; statements after a step that can fail run only if no
fault is recorded, so every path frees its memory. Parallel loops become functions of their own (`outline`): nothing inside them aliases,
and they may nest (inner ones then run on the current thread).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol

from raido.algo.errors import CompileError
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.dtypes import bool_, i32, i64, whole_range
from raido.algo.graph.expr import Op
from raido.algo.graph.index import add, as_index, canonical, constant_value, sub
from raido.algo.graph.rewrite import substitute
from raido.schedule.machine import LINE
from raido.schedule.nest.nodes import (
    Alloc,
    Append,
    AtomicUpdate,
    Block,
    Check,
    Fold,
    For,
    If,
    Let,
    Ordered,
    Prefetch,
    Produce,
    Scatter,
    Store,
    VectorStore,
    While,
)
from raido.schedule.nest.uses import Uses
from raido.schedule.nest.values import Buffer, Splat, lanes_of
from raido.schedule.nest.walk import statements_within
from raido.targets import tvm_corner as T
from raido.targets.emit.atomics import emit_atomic
from raido.targets.emit.choices import choices_without_loads
from raido.targets.emit.deinterleave import find_windows
from raido.targets.emit.divider import roots_by_products
from raido.targets.emit.extremes import find_networks
from raido.targets.emit.folds import emit_append, emit_fold
from raido.targets.emit.interleave import find_interleaved
from raido.targets.emit.loops import emit_for
from raido.targets.emit.ordered import emit_ordered
from raido.targets.emit.register_tiles import uses_of_alternative
from raido.targets.emit.stores import emit_interleaved, emit_scatter, emit_store, emit_vector_store
from raido.targets.emit.stream_loops import StreamLoops
from raido.targets.emit.terms import fits_i32, is_plain_index, tir
from raido.targets.emit.unit import Unit, data_of, is_heavy
from raido.targets.emit.values import Values
from raido.targets.llvm.roots import LANES
from raido.targets.llvm.runtime_helpers import LARGEST
from raido.targets.llvm.text import memory_dtype

FRAME = 256  # bytes: a few numbers, which a loop that makes them in every iteration need not ask the runtime for
_REGISTERS = 32 * 64  # bytes of the largest vector register files: larger arrays stay in memory
_SHORT = 4  # iterations
_LARGE_BODY = 12  # vector operations from which LLVM's own unrolling costs registers and brings nothing


class Outliner(Protocol):
    """Emits functions for parallel loops, and for loops that are equal to others; implemented by `Program`."""

    def call_alike(self, statements: Statements, loop: For) -> bool:
        """Emits a call of the function that equal loops share; False for other loops."""
        ...

    def call_apart(self, outer: Unit, block: Block, uses: Uses) -> None:
        """Emits a function for a block with these uses, and its call."""
        ...

    def launch(self, statements: Statements, loop: For) -> None:
        """Emits the launch of a parallel loop."""


def is_taken(s: Alloc) -> bool:
    """Whether a buffer is allocated by the runtime, which may fail; buffers of at most `FRAME` bytes are in the stack frame."""
    buffer = s.buffer
    if buffer.scope != "heap":
        return False
    extents = [constant_value(extent) for extent in buffer.shape]
    known = [n for n in extents if n is not None]
    return (
        bool(buffer.strides)
        or known != extents
        or prod(known) * buffer.lanes * memory_dtype(buffer.dtype).itemsize > FRAME
    )


def may_fail(s: Any) -> bool:
    """Whether a statement contains a check."""
    return any(isinstance(each, Check) for each in statements_within(s))


def _has_an_end(s: Any) -> bool:
    """Whether a statement leaves work for the end of its function: memory to free, a turn to pass on, streamed stores to drain."""
    if isinstance(s, VectorStore):
        return s.stream is not None
    return isinstance(s, Ordered) or (isinstance(s, Alloc) and is_taken(s))


def _stages_may_fail(block: Block) -> bool:
    """Whether a stage in a block contains a check; loops inside one stage stop by their own conditions once a check has failed."""
    return any(isinstance(s, Produce) and may_fail(s) for s in statements_within(block))


class Statements:
    """Emits statements into a unit."""

    def __init__(self, unit: Unit, outliner: Outliner) -> None:
        self.unit = unit
        self.values = Values(unit)
        self.outliner = outliner
        self.streams = False
        self.stream: StreamLoops | None = None
        self.chosen: dict[Any, Op] = {}  # names of choices between lanes
        self.shared: set[Buffer] = set()  # register buffers that loops over threads use
        self.turn: tuple[Any, Any] | None = (
            None  # of an iteration with an ordered section: whose turn it is, and its number
        )
        self.copied = True  # whether LLVM may unroll loops, as far as those around them say
        self.leaves = False  # whether a failing check ends the function at once

    def block(self, statements: Sequence[Any]) -> None:
        """Emits the statements of a block."""
        around, self.values.networks = self.values.networks, find_networks(statements, self.unit.helpers.can)
        self.values.windows |= find_windows(statements)
        self._each(statements)
        self.values.networks = around

    def _each(self, statements: Sequence[Any]) -> None:
        """Emits statements, whose networks and windows are known."""
        stored: set[int] = set()
        for position, s in enumerate(statements):
            if id(s) in stored:
                continue
            if isinstance(s, Alloc) and is_taken(s):
                self._with_heap(s, statements[position + 1 :])
                return
            together = find_interleaved(statements, position)
            if together:
                emit_interleaved(self, together)
                stored.update(map(id, together))
            else:
                self.statement(s)
                if isinstance(s, Produce) and may_fail(s) and not self.leaves:
                    self._unless_failed(statements[position + 1 :])
                    return

    def _unless_failed(self, rest: Sequence[Any]) -> None:
        """Emits statements that run only if no fault is recorded: stages rely on the checks of those before them."""
        if rest:
            outer = self.unit.block()
            self._each(rest)
            inner = self.unit.end_block(outer)
            self.unit.out.append(T.IfThenElse(self.nothing_failed(), inner, None))

    def nested(self, block: Block) -> Any:
        """A nested block as one TIR statement."""
        outer = self.unit.block()
        self.block(block.statements)
        return self.unit.end_block(outer)

    def statement(self, s: Any) -> None:
        """Emits one statement."""
        emit = _EMIT.get(type(s))
        if emit is None:
            raise CompileError(f"internal: {type(s).__name__} cannot stand inside a kernel")
        emit(self, s)

    # --- names and memory

    def _block(self, s: Block) -> None:
        self.block(s.statements)

    def _produce(self, s: Produce) -> None:
        self.block(s.body.statements)

    def _let(self, s: Let) -> None:
        unit = self.unit
        if isinstance(s.value, Op) and s.value.name == "select" and lanes_of(s.value) > 1:
            self.chosen[s.var] = s.value
        term = self.values.scalar(s.value)
        if is_plain_index(s.value, unit.index_like, {}):
            unit.index_like.add(s.var)
            if s.value.dtype is i64 and lanes_of(s.value) == 1:
                unit.known[s.var] = substitute(s.value, unit.known)
        if s.var.dtype is i64 and unit.is_read(s.value):
            unit.read.add(s.var)
        if s.var.dtype is i64 and fits_i32(s.value, unit.ranges):
            unit.ranges.ranges[s.var] = whole_range(i32)
        self.values.inputs.pop(s.var, None)  # another block may have a name like it
        if s.value in self.values.networks.members:
            self.values.inputs[s.var] = self.values.inputs[s.value]
        simple = isinstance(term, (int, T.Var))
        lanes, weight = lanes_of(s.value), self.values.weight[s.value]
        unit.variables[s.var] = (
            term if simple else unit.bind(s.var.name, s.var.dtype, lanes, tir(term, s.var.dtype), weight)
        )
        unit.weights[s.var] = 1 if is_heavy(weight) else weight

    def size_in_bytes(self, buffer: Buffer) -> Any:
        """Size of a buffer in bytes."""
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
        return T.Max(total, T.IntImm("int64", 0))  # the extents of what no iteration needs may be negative

    def take(self, s: Alloc) -> Any:
        """Allocates a buffer from the runtime. A size beyond 64 bits saturates, so that the allocation fails."""
        buffer, runtime, dtype = s.buffer, self.unit.helpers.runtime, memory_dtype(s.buffer.dtype)
        total: Any = dtype.itemsize * buffer.lanes
        terms = self.values.prepare(*(canonical(e) for e in (*buffer.shape, *buffer.strides)))
        if buffer.strides:
            rank = len(buffer.shape)
            elements: Any = 1
            for extent, stride in zip(terms[:rank], terms[rank:], strict=True):
                elements = T.call(runtime.reach(), "int64", tir(elements), tir(extent), tir(stride))
            terms = [elements]
        for known in (term for term in terms if isinstance(term, int)):
            total = min(total * max(known, 0), LARGEST)
        for term in (term for term in terms if not isinstance(term, int)):
            total = T.call(runtime.times(), "int64", tir(total), term)
        return T.call(runtime.take(s.site), T.pointer_type(dtype), tir(total), self.unit.fault)

    def _with_heap(self, s: Alloc, rest: Sequence[Any]) -> None:
        unit, buffer = self.unit, s.buffer
        pointer = T.pointer(unit.fresh_name(buffer.name), memory_dtype(buffer.dtype))
        unit.out.append(T.Bind(pointer, self.take(s)))
        outer = unit.block()
        unit.declare(buffer, pointer)
        self._each(rest)
        inner = unit.end_block(outer)
        unit.out.append(T.IfThenElse(self.nothing_failed(), inner, None))
        unit.effect(unit.helpers.runtime.give(), pointer)

    def nothing_failed(self) -> Any:
        """The condition that no fault is recorded."""
        return T.Not(T.call(self.unit.helpers.runtime.failed(), "bool", self.unit.fault))

    def kernel(self, statements: Sequence[Any]) -> None:
        """Emits the statements of a whole function, which is called only if no fault is recorded.

        Where a fault leaves nothing to do (no memory to free, no threads, no streamed stores to drain), a failing check returns from the
        function: later statements need no tests, and LLVM may assume that the checks have held.
        """
        within = [each for s in statements for each in statements_within(s)]
        if not any(isinstance(s, For) and s.kind == "parallel" for s in within):
            self.leaves = any(isinstance(s, Check) for s in within) and not any(map(_has_an_end, within))
            self.values.choices = choices_without_loads(within)
        self.block(statements)

    def after_call(self, s: For) -> None:
        """Returns from the function after the call of a shared loop that recorded a fault, where a fault leaves nothing to do."""
        if self.leaves and may_fail(s):
            zero = T.IntImm("int32", 0)
            self.unit.out.append(T.IfThenElse(self.nothing_failed(), T.Evaluate(zero), T.Return(zero)))

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
        in_memory = count * memory.itemsize > _REGISTERS
        made = T.flat_buffer(
            unit.fresh_name(buffer.name),
            memory,
            count + LINE // memory.itemsize if in_memory else max(count, 1),
            alignment=64,
        )
        unit.out.append(T.AllocBuffer(made))
        unit.memory[buffer] = made
        if in_memory:
            pointer = T.pointer(unit.fresh_name(buffer.name), memory)
            unit.out.append(
                T.Bind(pointer, T.call(unit.helpers.runtime.aligned(), T.pointer_type(memory), data_of(made)))
            )
            unit.declare(buffer, pointer)

    # --- control

    def iteration(self, s: For, value: Any, copied: bool = True) -> Any:
        """The body of a loop as one statement, for a value of its variable. `copied`: whether LLVM may unroll the loop."""
        unit, outside = self.unit, self.copied
        copied, self.copied = copied and outside and s.copied, outside and s.copied
        outer = unit.block()
        unit.variables[s.var] = value if isinstance(value, T.Var) else unit.bind(s.var.name, i64, 1, value)
        unit.index_like.add(s.var)
        unit.known.pop(s.var, None)
        before = unit.vector_operations
        self._body(s)
        self.copied = outside
        vectors = unit.vector_operations - before
        if not copied or vectors > _LARGE_BODY or self._is_short(s) or (not vectors and self._is_around_loops(s)):
            unit.effect(unit.helpers.runtime.once())
        return unit.end_block(outer)

    def only_iteration(self, s: For, low: Any) -> Any:
        """The body of a loop of at most one iteration as one statement; its variable is `low`, a number or a TIR variable."""
        unit = self.unit
        outer = unit.block()
        unit.variables[s.var] = low
        unit.index_like.add(s.var)
        unit.known.pop(s.var, None)
        if isinstance(low, int):
            unit.known[s.var] = as_index(low)
        self._body(s)
        return unit.end_block(outer)

    def _body(self, s: For) -> None:
        """Emits the statements of a loop's body."""
        unit, around = self.unit, self.values.by_products
        if unit.helpers.can.fused and unit.helpers.can.vector_bits == LANES * 32:
            self.values.by_products = roots_by_products(s.body.statements)
        if not self.leaves and any(isinstance(stage, Produce) and may_fail(stage) for stage in s.body.statements):
            self._unless_failed(s.body.statements)
        else:
            self.block(s.body.statements)
        self.values.by_products = around

    def _is_around_loops(self, s: For) -> bool:
        """Whether a loop contains loops of unknown trip count; unrolled copies of it would compete for their registers."""
        for inner in (each for statement in s.body.statements for each in statements_within(statement)):
            if isinstance(inner, While):
                return True
            if isinstance(inner, For) and inner.kind == "serial":
                length = canonical(substitute(sub(inner.high, inner.low), self.unit.known))
                if constant_value(length) is None:
                    return True
        return False

    def _is_short(self, s: For) -> bool:
        """Whether a loop is a border or tail of a few scalar iterations, which LLVM would otherwise unroll and vectorise.

        Loops over gangs are not: keeping those of a partial register tile from being unrolled costs the whole tile its registers.
        """
        return s.step == 1 and self.runs_at_most(s, _SHORT)

    def runs_at_most(self, s: For, times: int) -> bool:
        """Whether a loop has at most `times` iterations for all sizes."""
        low, high = (canonical(substitute(e, self.unit.known)) for e in (s.low, s.high))
        return Assumptions().less_equal(sub(high, low), times * s.step)

    def _if(self, s: If) -> None:
        condition = self.values.scalar(s.condition)
        if isinstance(condition, bool):
            taken = s.then if condition else s.orelse
            if taken is not None:
                self.block(taken.statements)
            return
        then = self.nested(s.then)
        orelse = self._alternative(s) if s.orelse is not None else None
        self.unit.out.append(T.IfThenElse(condition, then, orelse))

    def _alternative(self, s: If) -> Any:
        """The `else` branch of a branch as one statement: the call of a function where `then` computes whole register tiles."""
        assert s.orelse is not None
        uses = uses_of_alternative(s, self.unit)
        if uses is None:
            return self.nested(s.orelse)
        outer = self.unit.block()
        self.outliner.call_apart(self.unit, s.orelse, uses)
        return self.unit.end_block(outer)

    def _while(self, s: While) -> None:
        unit = self.unit
        again = T.flat_buffer(unit.fresh_name("again"), i32, 1)
        zero, one, stop = T.IntImm("int64", 0), T.IntImm("int32", 1), T.IntImm("int32", 0)
        unit.out += [T.AllocBuffer(again), T.BufferStore(again, one, [zero])]
        outer = unit.block()
        self.block(s.setup.statements)
        condition = tir(self.values.scalar(s.condition), bool_)
        if _stages_may_fail(s.setup) and not self.leaves:
            condition = T.And(condition, self.nothing_failed())
        inner = unit.block()
        # without it LLVM selects states, and iterations wait for the conditions before them
        unit.effect(unit.helpers.runtime.taken())
        self.block(s.body.statements)
        if _stages_may_fail(s.body) and not self.leaves:  # on faulted data the loop might never end
            unit.out.append(T.BufferStore(again, T.Cast("int32", self.nothing_failed()), [zero]))
        body = unit.end_block(inner)
        unit.out.append(T.IfThenElse(condition, body, T.BufferStore(again, stop, [zero])))
        body = unit.end_block(outer)
        unit.out.append(T.While(T.NE(T.BufferLoad(again, [zero]), stop), body))

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
        ends = [T.Return(T.IntImm("int32", 0))] if self.leaves else []
        unit.out.append(T.IfThenElse(some, T.sequence([record, *ends]), None))

    def _prefetch(self, s: Prefetch) -> None:
        self.values.prepare(*s.indices)
        where, offset = self.values.element(s.buffer, s.indices)
        self.unit.effect(self.unit.helpers.memory.prefetch(s.buffer.dtype), data_of(where), tir(offset))


_EMIT: dict[type, Callable[[Any, Any], None]] = {
    Block: Statements._block,
    Produce: Statements._produce,
    Let: Statements._let,
    Alloc: Statements._alloc,
    Store: emit_store,
    VectorStore: emit_vector_store,
    Scatter: emit_scatter,
    Fold: emit_fold,
    AtomicUpdate: emit_atomic,
    Ordered: emit_ordered,
    Append: emit_append,
    For: emit_for,
    If: Statements._if,
    While: Statements._while,
    Check: Statements._check,
    Prefetch: Statements._prefetch,
}


def add_statement(kind: type, emit: Callable[[Any, Any], None]) -> None:
    """Registers the emitter of another kind of statement inside kernels: `emit(statements, s)`."""
    _EMIT[kind] = emit
