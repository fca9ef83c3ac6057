"""Emits statements of scalar nests as TIR statements of one thread.

Register buffers are arrays of the thread, whose indices are constant once loops are unrolled. The first failed check claims the fault
record; the thread continues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import DType, bool_, i32, i64, u32
from raido.algo.graph.expr import Expr, Node, Op, Var, conjunction
from raido.algo.graph.index import as_index, canonical, constant_value
from raido.algo.graph.rewrite import substitute
from raido.schedule.kernels.wide_moves import LEAST_COPIED
from raido.schedule.nest.effects import reads_memory
from raido.schedule.nest.nodes import (
    Alloc,
    AtomicUpdate,
    Await,
    AwaitCopies,
    Barrier,
    Block,
    Broadcast,
    Check,
    CommitCopies,
    Exchange,
    FirstThread,
    For,
    If,
    Let,
    Publish,
    Store,
    Ticket,
    VectorStore,
    While,
)
from raido.schedule.nest.passes.own_counters import Counted
from raido.schedule.nest.values import Buffer, Read, VectorRead
from raido.targets import tvm_corner as T
from raido.targets.emit.terms import Term, tir
from raido.targets.kernels.atomics import emit_atomic, store_in_word
from raido.targets.kernels.faults import Faults
from raido.targets.kernels.matrices import emit_matrix
from raido.targets.kernels.unit import Form, Storage, Unit, atomic, condition, load, operation
from raido.targets.kernels.values import Values, encode, from_word, to_word
from raido.targets.kernels.warpgroups import emit_warpgroup

_UNROLL_LIMIT = 256


class Statements:
    """Emits statements into a unit. `forms`: storage forms of buffers that are not "plain"; `limit`: limit of iterations of a
    data-dependent loop, except loops with their own counters (`counted`); `threads`: the variables of a thread's index in its block;
    `extent`: the number of threads along each axis."""

    def __init__(
        self,
        unit: Unit,
        forms: dict[Buffer, Form],
        limit: int,
        threads: tuple[Var, Var, Var] | None = None,
        extent: tuple[int, int, int] = (1, 1, 1),
        counted: Mapping[While, Counted] | None = None,
    ) -> None:
        self.unit, self.forms, self.limit, self.counted = unit, forms, limit, counted or {}
        self.threads, self.extent, self.faults = threads, extent, Faults()
        self.meanings: dict[Node, Expr] = {}  # of named indices, in terms of places, sizes and loops
        self.values = Values(unit, self.meanings)

    def block(self, statements: Sequence[Any]) -> None:
        """Emits the statements of a block."""
        for s in statements:
            emit = _EMIT.get(type(s))
            if emit is None:
                raise CompileError(f"internal: {type(s).__name__} cannot stand inside a kernel")
            emit(self, s)

    def nested(self, block: Block) -> Any:
        """A nested block as one TIR statement."""
        outer = self.unit.block()
        self.block(block.statements)
        return self.unit.end_block(outer)

    def store(self, held: Storage, offset: Term, value: Any) -> None:
        """Emits a store of an element."""
        if held.form == "words":
            store_in_word(self.unit, held, offset, value)
        else:
            self.unit.put(held.buffer, encode(held.dtype, value) if held.form == "bits" else value, offset)

    # --- names and memory

    def _block(self, s: Block) -> None:
        self.block(s.statements)

    def _let(self, s: Let) -> None:
        unit = self.unit
        term, below = self.values.prepare(s.value, s.below)
        if below is not None:
            term = operation("within", i64, tir(term), tir(below))
        unit.variables[s.var] = unit.bind(s.var.name, s.var.dtype, term)
        if s.var.dtype is i64 and not reads_memory(s.value):
            self.meanings[s.var] = substitute(s.value, self.meanings)

    def _alloc(self, s: Alloc) -> None:
        buffer, unit = s.buffer, self.unit
        extents = [self._constant(extent) for extent in buffer.shape]
        if any(extent is None for extent in extents):
            raise CompileError(f"internal: {buffer.scope} buffer {buffer.name} has no constant size in a kernel")
        shape = [max(int(extent or 0), 0) for extent in extents]
        count = 1
        for extent in shape:
            count *= extent
        if buffer.strides and count:
            strides = [self._constant(stride) or 0 for stride in buffer.strides]
            count = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
        own = buffer.scope != "shared"
        form = "plain" if own else self.forms.get(buffer, "plain")
        held = Storage(None, buffer.dtype, form)
        if form == "words":
            count = -(-count * buffer.dtype.itemsize // 4)
        made = T.flat_buffer(
            unit.fresh_name(buffer.name), held.memory, max(count, 1), scope="local" if own else "shared"
        )
        unit.out.append(T.AllocBuffer(made))
        unit.memory[buffer] = Storage(made, buffer.dtype, form, own)

    def _constant(self, e: Any) -> int | None:
        """The constant value of an extent after substitution of unrolled loop variables, or None."""
        known = {v: as_index(term) for v, term in self.unit.variables.items() if type(term) is int}
        return constant_value(canonical(substitute(as_index(e), known)))

    def _store(self, s: Store) -> None:
        value, predicate, *_ = self.values.prepare(s.value, s.predicate, *s.indices)
        if predicate is False:
            return
        held, offset = self.values.element(s.buffer, s.indices)
        outer = self.unit.block()
        if s.asynchronous and isinstance(s.value, Read) and s.buffer.dtype.itemsize >= LEAST_COPIED:
            source, at = self.values.element(s.value.buffer, s.value.indices)
            self._copy(held, offset, source, at, 1)
        else:
            self.store(held, offset, tir(value, s.value.dtype))
        made = self.unit.end_block(outer)
        self.unit.out.append(made if predicate in (None, True) else T.IfThenElse(predicate, made, None))

    def _move(self, s: VectorStore) -> None:
        """Emits a copy of several elements at once (`schedule/kernels/wide_moves.py`)."""
        read = s.value
        if not isinstance(read, VectorRead) or s.mask is not None or read.mask is not None:
            raise CompileError(f"internal: vectors of {s.buffer.name} are computed with inside a kernel")
        self.values.prepare(*s.indices, *read.indices)
        (target, to), (source, at) = (self.values.element(each.buffer, each.indices) for each in (s, read))
        if s.asynchronous:
            self._copy(target, to, source, at, read.lanes)
            return
        ramp = lambda first: [T.Ramp(tir(first), T.IntImm("int64", 1), read.lanes)]
        self.unit.out.append(T.BufferStore(target.buffer, T.BufferLoad(source.buffer, ramp(at)), ramp(to)))

    def _copy(self, target: Storage, to: Term, source: Storage, at: Term, count: int) -> None:
        """Emits an asynchronous copy of consecutive elements."""
        addresses = (T.address_of(load(held.buffer, offset)) for held, offset in ((target, to), (source, at)))
        self.unit.out.append(T.Evaluate(operation("copy", i32, *addresses, T.IntImm("int32", count))))

    def _commit(self, s: CommitCopies) -> None:
        self.unit.out.append(T.Evaluate(operation("copy_commit", i32)))

    def _arrive(self, s: AwaitCopies) -> None:
        self.unit.out.append(T.Evaluate(operation("copy_await", i32, T.IntImm("int32", s.left))))

    def _atomic(self, s: AtomicUpdate) -> None:
        emit_atomic(self.unit, self.values, s)

    def _exchange(self, s: Exchange) -> None:
        """Emits a shuffle of values from another thread; narrow ones are passed as 32-bit words."""
        distance, width = (T.IntImm("int32", number) for number in (s.distance, s.width))
        for var, value, term in zip(s.vars, s.values, self.values.prepare(*s.values), strict=True):
            self._passed(var, value.dtype, term, "exchange", distance, width)

    def _broadcast(self, s: Broadcast) -> None:
        """Emits a broadcast of one thread's values in its subgroup; narrow ones are passed as 32-bit words."""
        source, *terms = self.values.prepare(s.source, *s.values)
        source = self.unit.bind("source", i32, tir(source, i32))
        for var, value, term in zip(s.vars, s.values, terms, strict=True):
            self._passed(var, value.dtype, term, "broadcast", source, T.IntImm("int32", s.width))

    def _first_thread(self, s: FirstThread) -> None:
        holds = condition(self.values.scalar(s.condition))
        found = operation("first_thread", i32, holds, T.IntImm("int32", s.width))
        self.unit.variables[s.var] = self.unit.bind(s.var.name, i32, found)

    def _passed(self, var: Var, dtype: DType, term: Term, name: str, *how: Any) -> None:
        """Binds another thread's value of a term, by the exchange operation `name`."""
        given = tir(term, dtype)
        word = given if dtype.bits >= 32 else to_word(dtype, given)
        kind = dtype if dtype.bits >= 32 else u32
        found = self.unit.bind("found", kind, operation(name, kind, word, *how))
        made = found if dtype.bits >= 32 else from_word(dtype, found, T.IntImm("uint32", 0))
        self.unit.variables[var] = self.unit.bind(var.name, dtype, made)

    def _barrier(self, s: Barrier) -> None:
        self.unit.out.append(T.barrier())

    # --- what blocks hand each other

    def _ticket(self, s: Ticket) -> None:
        held, offset = self.values.element(s.state, (as_index(0),))
        drawn = atomic("add", i64, held.buffer, offset, T.IntImm("int64", 1))
        self.unit.variables[s.var] = self.unit.bind(s.var.name, i64, drawn)

    def _publish(self, s: Publish) -> None:
        value, *_ = self.values.prepare(s.value, s.index)
        held, offset = self.values.element(s.state, (s.index,))
        address = T.address_of(load(held.buffer, offset))
        self.unit.out.append(T.Evaluate(operation(_alone("publish", s.alone), i64, address, tir(value))))

    def _await(self, s: Await) -> None:
        self.values.prepare(s.index)
        held, offset = self.values.element(s.state, (s.index,))
        found = operation(_alone("await", s.alone), i64, T.address_of(load(held.buffer, offset)))
        self.unit.variables[s.var] = self.unit.bind(s.var.name, i64, found)

    # --- control

    def _for(self, s: For) -> None:
        unit = self.unit
        if s.kind in ("parallel", "vector"):
            raise CompileError(f"internal: a {s.kind} loop over {s.var.name} cannot stand inside a kernel")
        if s.kind == "matrix" and (emit_warpgroup if s.threads else emit_matrix)(self, s):
            return
        low, high = self.values.prepare(s.low, s.high)
        if isinstance(low, int) and isinstance(high, int):
            if high <= low:
                return
            if s.kind == "unroll" and (high - low) // s.step < _UNROLL_LIMIT:
                for value in range(low, high, s.step):
                    unit.variables[s.var] = value
                    self.meanings[s.var] = as_index(value)
                    self.block(s.body.statements)
                return
        index = T.variable(unit.fresh_name(s.var.name), "int64")
        count: Any = tir(high) if isinstance(low, int) and low == 0 else T.Sub(tir(high), tir(low))
        first = tir(low)
        outer = unit.block()
        value: Any = index
        if s.step != 1:
            rounded = T.Add(count, T.IntImm("int64", s.step - 1))
            count, first = T.Div(T.Max(rounded, T.IntImm("int64", 0)), T.IntImm("int64", s.step)), T.IntImm("int64", 0)
            value = unit.bind(s.var.name, i64, T.Add(tir(low), T.Mul(index, T.IntImm("int64", s.step))))
        unit.variables[s.var] = value
        self.meanings.pop(s.var, None)  # another branch may name it
        self.block(s.body.statements)
        body = unit.end_block(outer)
        unit.out.append(T.For(index, first, count, T.ForKind.SERIAL, body))

    def _if(self, s: If) -> None:
        test = self.values.scalar(s.condition)
        if isinstance(test, bool):
            taken = s.then if test else s.orelse
            if taken is not None:
                self.block(taken.statements)
            return
        then = self.nested(s.then)
        otherwise = self.nested(s.orelse) if s.orelse is not None else None
        self.unit.out.append(T.IfThenElse(test, then, otherwise))

    def _while(self, s: While) -> None:
        """Emits a data-dependent loop, with a limit of iterations where it may never end; reaching it is a fault. For a loop with its own
        counter, the countdown replaces the counter's test."""
        unit, counted = self.unit, self.counted.get(s)
        stopped = (s.site >= 0 or unit.fault is not None) and counted is None
        number = lambda value: T.IntImm("int32", value)
        left = unit.cell("left", i32, number(counted.most if counted else self.limit if stopped else 1))
        outer = unit.block()
        self.block(s.setup.statements)
        holds = conjunction(counted.tests) if counted else s.condition
        test = condition(self.values.scalar(holds))
        again = unit.block()
        self.block(s.body.statements)
        if stopped or counted:
            unit.put(left, T.Sub(load(left), number(1)))
        body = unit.end_block(again)
        unit.out.append(T.IfThenElse(test, body, T.BufferStore(left, number(-1), [tir(0)])))
        unit.repeat(T.GT(load(left), number(0)), outer)
        if stopped:
            self.faults.note(unit, T.EQ(load(left), number(0)), "steps", s.site, [T.IntImm("int64", self.limit)])

    def _check(self, s: Check) -> None:
        bad: Any = Op("logical_not", bool_, (s.holds,))
        if s.predicate is not None:
            bad = Op("logical_and", bool_, (s.predicate, bad))
        term, *values = self.values.prepare(bad, *map(_in_few_words, s.values))
        if term is False:
            return
        self.faults.note(self.unit, condition(term), s.kind, s.site, [tir(value) for value in values])


def _in_few_words(value: Any) -> Any:
    """An integer as an i32 if its dtype has no more values, else as an i64."""
    while isinstance(value, Op) and value.name == "cast" and value.dtype is i64 and value.args[0].dtype.kind in "iu":
        value = value.args[0]
    fits = value.dtype is i32 or (value.dtype.kind in "iub" and value.dtype.bits < 32)
    dtype = i32 if fits else i64
    return value if value.dtype is dtype else Op("cast", dtype, (value,))


def _alone(name: str, alone: bool) -> str:
    return f"{name}_alone" if alone else name


_EMIT: dict[type, Callable[[Any, Any], None]] = {
    Block: Statements._block,
    Let: Statements._let,
    Alloc: Statements._alloc,
    Store: Statements._store,
    VectorStore: Statements._move,
    AtomicUpdate: Statements._atomic,
    Barrier: Statements._barrier,
    CommitCopies: Statements._commit,
    AwaitCopies: Statements._arrive,
    Exchange: Statements._exchange,
    Broadcast: Statements._broadcast,
    FirstThread: Statements._first_thread,
    Ticket: Statements._ticket,
    Publish: Statements._publish,
    Await: Statements._await,
    For: Statements._for,
    If: Statements._if,
    While: Statements._while,
    Check: Statements._check,
}
