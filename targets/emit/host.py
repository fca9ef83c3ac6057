"""Emits the entry function: the host plan, which allocates, loops and branches around calls of kernels.

Structure (blocks, allocations, host loops, branches, swaps, copies) is emitted in place; every `Produce`, and every other statement that
computes, becomes a kernel. So does a whole loop around stages that use no threads and cannot fail: a call for each iteration would cost
more than a small stage, and hide from LLVM values that one iteration passes to the next. A buffer that is swapped is reached through a slot
that holds its pointer, which is reloaded for each use; the slot of a "result" is the caller's. After a statement that may fail the rest
runs only if no fault is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from raido.algo.graph.dtypes import bool_, i32, i64
from raido.algo.graph.expr import SizeVar
from raido.algo.graph.limits import LARGEST_SIZE
from raido.schedule.nest.nodes import Alloc, Block, Check, Copy, For, If, Let, Nest, Produce, Swap, View, While
from raido.schedule.nest.uses import Uses
from raido.schedule.nest.values import Buffer
from raido.schedule.nest.walk import statements_within
from raido.targets import tvm_corner as T
from raido.targets.emit.loops import emit_loop, trip_count
from raido.targets.emit.scopes import swapped_buffers
from raido.targets.emit.statements import Outliner, Statements, is_taken
from raido.targets.emit.terms import tir
from raido.targets.emit.unit import Unit, data_of
from raido.targets.llvm.text import memory_dtype

_LARGE_COPY = 2 << 20  # bytes from which rd_copy wakes a second thread


class Kernels(Outliner, Protocol):
    """Emits statements as functions; implemented by `Program`."""

    def kernel(self, outer: Unit, name: str, body: Block, uses: Uses) -> None:
        """Emits a function for statements with these uses, and its call in `outer`."""
        ...

    def constants(self, unit: Unit, uses: Uses) -> None:
        """Declares the constant arrays among the uses."""


class HostPlan(Statements):
    """Emits the statements of the entry function; statements that compute become kernels."""

    def __init__(self, kernels: Kernels, unit: Unit, body: Block, slots: dict[Buffer, Any]) -> None:
        super().__init__(unit, kernels)
        self.kernels = kernels
        self.slots = slots
        self.swapped = swapped_buffers(body)
        self.viewed: set[Buffer] = set()  # memory of two names
        self.can_fail = False

    def program(self, body: Block, sizes: Sequence[SizeVar]) -> None:
        """Emits the whole plan, after checks that `sizes`, which no argument's memory bounds, are at most `LARGEST_SIZE`."""
        if not sizes:
            self.block(body.statements)
            return
        for size in sizes:
            too_large = T.GT(self.unit.variables[size], T.IntImm("int64", LARGEST_SIZE))
            symbol = self.unit.helpers.runtime.fault(1, "limit_1", -1, [(i64, 1)])
            record = T.call(symbol, "int32", self.unit.fault, T.IntImm("bool", 1), self.unit.variables[size])
            self.unit.out.append(T.IfThenElse(too_large, T.Evaluate(record), None))
        outer = self.unit.block()
        self.block(body.statements)
        inner = self.unit.end_block(outer)
        self.unit.out.append(T.IfThenElse(self.nothing_failed(), inner, None))

    def _each(self, statements: Sequence[Any]) -> None:
        for position, s in enumerate(statements):
            rest = statements[position + 1 :]
            if isinstance(s, Alloc) and (is_taken(s) or s.buffer in self.swapped):
                self.can_fail = True
                self._with_heap(s, rest)
                return
            if self._step(s):
                self.can_fail = True
                if rest:
                    outer = self.unit.block()
                    self._each(rest)
                    inner = self.unit.end_block(outer)
                    self.unit.out.append(T.IfThenElse(self.nothing_failed(), inner, None))
                return

    def _step(self, s: Any) -> bool:
        """Emits one statement; returns whether it may have failed."""
        if isinstance(s, Block):
            return self._inside(s)
        if isinstance(s, Produce):
            return self._kernel(s.stage, s.body)
        if isinstance(s, Swap):
            self._swap(s)
        elif isinstance(s, View):
            self._view(s)
        elif isinstance(s, Copy):
            self._copy(s)
        elif isinstance(s, Alloc):
            self._host_memory(s)
        elif isinstance(s, Let):
            self._see(s.value)
            self._let(s)
        elif isinstance(s, If):
            return self._branch(s)
        elif isinstance(s, While):
            self._host_while(s)
            return True
        elif isinstance(s, Check):
            self._see(s.holds, *s.values)
            self._check(s)
            return True
        elif isinstance(s, For) and s.kind != "parallel" and _has_host_structure(s.body):
            return self._kernel(s.stage or "step", Block((s,))) if self._is_one_kernel(s) else self._host_for(s)
        elif isinstance(s, _Guard):
            self.unit.out.append(self._guarded(s.block))
            return self._last_failed
        elif isinstance(s, _WhileTest):
            return self._test_iteration(s)
        elif isinstance(s, _Continue):
            self.unit.out.append(T.BufferStore(s.again, T.IntImm("int32", 1), [T.IntImm("int64", 0)]))
        else:
            return self._kernel(getattr(s, "stage", "") or "step", Block((s,)))
        return False

    def _inside(self, block: Block) -> bool:
        before, self.can_fail = self.can_fail, False
        outer = self.unit.block()
        self.block(block.statements)
        self.unit.out, made = outer, self.unit.out
        self.unit.out += made
        failed, self.can_fail = self.can_fail, before or self.can_fail
        return failed

    def _kernel(self, name: str, body: Block) -> bool:
        uses = Uses(body)
        self._see_buffers(uses)
        self.kernels.kernel(self.unit, name, body, uses)
        return uses.faults

    def _is_one_kernel(self, loop: For) -> bool:
        """Whether a host loop can be one kernel: no parallel loop, swap, view or copy inside, no step that may fail, no memory with two
        names."""
        within = list(statements_within(loop))
        may_fail = any(isinstance(s, Check) or (isinstance(s, Alloc) and is_taken(s)) for s in within)
        shared = any(isinstance(s, (Swap, View, Copy)) or (isinstance(s, For) and s.kind == "parallel") for s in within)
        return not may_fail and not shared and self.viewed.isdisjoint(Uses(loop).buffers)

    def _see(self, *expressions: Any) -> None:
        """Declares the buffers that expressions read, in the current block."""
        uses = Uses(*(Let(None, e) for e in expressions if e is not None))  # type: ignore[arg-type]
        self._see_buffers(uses)

    def _see_buffers(self, uses: Uses) -> None:
        self.kernels.constants(self.unit, uses)
        for buffer in uses.buffers:
            if buffer in self.slots:
                pointer = T.pointer(self.unit.fresh_name(buffer.name), memory_dtype(buffer.dtype))
                self.unit.out.append(T.Bind(pointer, self._held(buffer)))
                self.unit.declare(buffer, pointer)

    def _held(self, buffer: Buffer) -> Any:
        symbol = self.unit.helpers.runtime.load_pointer()
        return T.call(symbol, T.pointer_type(memory_dtype(buffer.dtype)), data_of(self.slots[buffer]))

    def _with_heap(self, s: Alloc, rest: Sequence[Any]) -> None:
        buffer = s.buffer
        if buffer not in self.swapped:
            super()._with_heap(s, rest)
            return
        unit, memory = self.unit, memory_dtype(buffer.dtype)
        slot = T.flat_buffer(unit.fresh_name("slot"), i64, 1)
        unit.out.append(T.AllocBuffer(slot))
        pointer = T.pointer(unit.fresh_name(buffer.name), memory)
        unit.out.append(T.Bind(pointer, self.take(s)))
        self.slots[buffer] = slot
        unit.effect(unit.helpers.runtime.store_pointer(), data_of(slot), pointer)
        outer = unit.block()
        self.block(rest)
        inner = unit.end_block(outer)
        unit.out.append(T.IfThenElse(self.nothing_failed(), inner, None))
        unit.effect(unit.helpers.runtime.give(), self._held(buffer))

    def _host_memory(self, s: Alloc) -> None:
        """Emits an allocation of the host plan. Register buffers become stack memory, so that kernels can take their address."""
        buffer = s.buffer
        if buffer.scope == "register":
            made = Buffer(buffer.name, buffer.dtype, buffer.shape, "stack", buffer.serial, (), buffer.lanes, None)
            self._alloc(Alloc(made))
            self.unit.memory[buffer] = self.unit.memory.pop(made)
        else:
            self._alloc(s)

    def _swap(self, s: Swap) -> None:
        unit = self.unit
        left, right = (T.pointer(unit.fresh_name(b.name), memory_dtype(b.dtype)) for b in (s.left, s.right))
        unit.out += [T.Bind(left, self._held(s.left)), T.Bind(right, self._held(s.right))]
        for buffer, pointer in ((s.left, right), (s.right, left)):
            unit.effect(unit.helpers.runtime.store_pointer(), data_of(self.slots[buffer]), pointer)

    def _view(self, s: View) -> None:
        self.viewed |= {s.buffer, s.source}
        if s.source in self.slots:
            self.slots[s.buffer] = self.slots[s.source]
        else:
            self.unit.declare(s.buffer, data_of(self.unit.buffer(s.source)))

    def _copy(self, s: Copy) -> None:
        uses = Uses(s)
        self._see_buffers(uses)
        source, destination = (data_of(self.unit.buffer(b)) for b in (s.source, s.destination))
        size = self.size_in_bytes(s.source)
        by_threads = not isinstance(size, T.IntImm) or size.value >= _LARGE_COPY
        self.unit.effect(self.unit.helpers.runtime.copy(by_threads), destination, source, size)

    def _guarded(self, block: Block) -> Any:
        """A nested block as one statement, which runs only if no fault is recorded where the block itself may fail."""
        outer = self.unit.block()
        before, self.can_fail = self.can_fail, False
        self.block(block.statements)
        body = self.unit.end_block(outer)
        if self.can_fail:
            body = T.IfThenElse(self.nothing_failed(), body, None)
        self._last_failed, self.can_fail = self.can_fail, before or self.can_fail
        return body

    def _branch(self, s: If) -> bool:
        self._see(s.condition)
        condition = self.values.scalar(s.condition)
        if isinstance(condition, bool):
            taken = s.then if condition else s.orelse
            return self._inside(taken) if taken is not None else False
        then = self._guarded(s.then)
        failed = self._last_failed
        orelse = self._guarded(s.orelse) if s.orelse is not None else None
        failed |= self._last_failed
        self.unit.out.append(T.IfThenElse(condition, then, orelse))
        return failed

    def _host_for(self, s: For) -> bool:
        self._see(s.low, s.high)
        low, high = self.values.prepare(s.low, s.high)
        before, self.can_fail = self.can_fail, False
        guarded: Any = _Guard(s.body)  # a statement of the host plan alone
        inner = For(s.var, s.low, s.high, s.step, Block((guarded,)))
        self.unit.out.append(emit_loop(self, inner, low, tir(trip_count(low, high, s.step))))
        failed, self.can_fail = self.can_fail, before or self.can_fail
        return failed

    def _host_while(self, s: While) -> None:
        unit = self.unit
        again = T.flat_buffer(unit.fresh_name("again"), i32, 1)
        zero, stop = T.IntImm("int64", 0), T.IntImm("int32", 0)
        unit.out += [T.AllocBuffer(again), T.BufferStore(again, T.IntImm("int32", 1), [zero])]
        outer = unit.block()
        unit.out.append(T.BufferStore(again, stop, [zero]))
        self.block((*s.setup.statements, _WhileTest(s, again)))
        body = unit.end_block(outer)
        unit.out.append(T.While(T.NE(T.BufferLoad(again, [zero]), stop), body))

    def _test_iteration(self, s: _WhileTest) -> bool:
        self._see(s.loop.condition)
        condition = tir(self.values.scalar(s.loop.condition), bool_)
        outer = self.unit.block()
        self.block((*s.loop.body.statements, _Continue(s.again)))
        inner = self.unit.end_block(outer)
        self.unit.out.append(T.IfThenElse(condition, inner, None))
        return True


def sizes_of_empty_arrays(nest: Nest) -> list[SizeVar]:
    """Sizes of inputs with several dimensions. Memory does not bound them, since another dimension of the array may be 0."""
    sizes = (e for buffer in nest.inputs if len(buffer.shape) > 1 for e in buffer.shape)
    return [size for size in dict.fromkeys(sizes) if isinstance(size, SizeVar)]


class _Guard:
    """A block of the host plan that runs only if no fault is recorded."""

    def __init__(self, block: Block) -> None:
        self.block = block


class _WhileTest:
    """Test and body of a host while loop."""

    def __init__(self, loop: While, again: Any) -> None:
        self.loop, self.again = loop, again


class _Continue:
    """A statement that sets the flag of a while loop: another iteration follows."""

    def __init__(self, again: Any) -> None:
        self.again = again


def _has_host_structure(block: Block) -> bool:
    """Whether a block contains statements of the host plan, so that it cannot be one kernel."""
    for s in block.statements:
        if isinstance(s, (Produce, Swap, View, Copy)):
            return True
        if isinstance(s, Block) and _has_host_structure(s):
            return True
        if isinstance(s, (For, While)) and _has_host_structure(s.body):
            return True
        if isinstance(s, If) and (
            _has_host_structure(s.then) or (s.orelse is not None and _has_host_structure(s.orelse))
        ):
            return True
    return False
