"""Running a device's program in Python: its plan statement by statement, its kernels thread by thread.

Blocks of a launch run in shuffled order, and so do the threads of a block between barriers. Blocks that wait for others are in flight
together, a few at a time: which of them goes on, from barrier to barrier, is drawn. Memory is checked as in the interpreter of nests
(`schedule/oracles/memory.py`), and holds nothing until it is written.
"""

from __future__ import annotations

import itertools
import operator
import random
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from raido.algo.graph.dtypes import DType
from raido.algo.graph.expr import Expr, SizeVar
from raido.algo.graph.faults import fault_error
from raido.algo.graph.node import Node
from raido.algo.graph.rewrite import topological
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
from raido.schedule.kernels.kernel import DeviceArray, DeviceProgram, Kernel
from raido.schedule.kernels.numbers import number_of
from raido.schedule.nest.effects import writes
from raido.schedule.nest.values import contents
from raido.schedule.nest.walk import statements_within
from raido.schedule.oracles.interpret import compile_lines
from raido.schedule.oracles.kernel_source import AWAITS, KernelSource
from raido.schedule.oracles.memory import Memory, NestError
from raido.schedule.oracles.watched_memory import Clock, WatchedMemory

_MOST_ITERATIONS = 1_000_000
_IN_FLIGHT = 4  # blocks beside one another …
_MOST_IDLE = 1_000  # … of which none has gone on in so many tries


def interpret_program(
    program: DeviceProgram,
    arrays: Sequence[np.ndarray],
    sizes: Mapping[str, int],
    shapes: Sequence[Sequence[Expr]] = (),
    seed: int | None = None,
    watch: bool = True,
) -> list[np.ndarray]:
    """The outputs of a program for these inputs, in order. sizes: every size by name; shapes: the part in use of each output. Raises the
    program's fault, or NestError where the program itself is wrong.

    seed: blocks and threads run in a random order. watch: whether races between threads are detected.
    """
    kernels = {kernel.name: compile_kernel(kernel) for kernel in program.kernels}
    run = _Run(program, kernels, dict(sizes), None if seed is None else random.Random(seed), watch)
    with np.errstate(all="ignore"):
        run.begin(arrays)
        run.statements(program.plan)
    if run.faults:
        kind, site, values = run.faults[0]
        raise fault_error(kind, values, program.sites[site] if 0 <= site < len(program.sites) else None)
    return run.outputs(shapes)


def compile_kernel(kernel: Kernel) -> Any:
    """The kernel as a function of (arrays, numbers, faults, launch, watched, clock)."""
    source = KernelSource(kernel)
    return compile_lines(source.text, kernel.name, source.constants)


class _Bytes:
    """Memory of the device: bytes, and which of them were written."""

    __slots__ = ("data", "name", "valid")

    def __init__(self, name: str, nbytes: int) -> None:
        if nbytes < 0:
            raise NestError(f"{name} has {nbytes} bytes")
        self.name, self.data, self.valid = name, np.zeros(nbytes, np.uint8), np.zeros(nbytes, bool)

    def memory(self, name: str, dtype: DType, shape: Sequence[int], strides: Sequence[int], form: Any = Memory) -> Any:
        """A typed view of the bytes, as a kernel has it."""
        whole = len(self.data) // dtype.itemsize * dtype.itemsize
        return form.over(
            name, shape, strides, self.data[:whole].view(dtype.numpy), self.valid[: whole : dtype.itemsize]
        )


class _Run:
    """One run: the numbers and arrays of the plan so far."""

    def __init__(
        self,
        program: DeviceProgram,
        kernels: Mapping[str, Any],
        numbers: dict[str, int],
        chance: random.Random | None,
        watch: bool,
    ) -> None:
        self.clock, self.watch = Clock(), watch
        self.program, self.compiled, self.numbers, self.chance = program, kernels, numbers, chance
        self.kernels = {kernel.name: kernel for kernel in program.kernels}
        self.faults: list[tuple[str, int, tuple[int, ...]]] = []
        self.arrays: dict[str, _Bytes] = {}

    def begin(self, arrays: Sequence[np.ndarray]) -> None:
        """Puts inputs and constants on the device, and allocates outputs."""
        constants = [(a, contents(a.buffer)) for a in self.program.constants]
        for each, given in (*zip(self.program.inputs, arrays, strict=True), *constants):
            memory = self._allocate(each)
            memory.fill(given)
        for each in self.program.outputs:
            if each not in self.program.results:
                self._allocate(each)

    def _allocate(self, array: DeviceArray) -> Memory:
        buffer = array.buffer
        shape, strides = ([self._size(e) for e in part] for part in (buffer.shape, buffer.strides))
        size = len(Memory(buffer.name, buffer.dtype, shape, strides, 1).data)
        made = self.arrays[array.name] = _Bytes(array.name, size * buffer.dtype.itemsize)
        return made.memory(buffer.name, buffer.dtype, shape, strides)

    def _size(self, e: Expr) -> int:
        names: dict[Node, str] = {size: size.name for size in topological(e) if isinstance(size, SizeVar)}
        number = number_of(e, names)
        assert number is not None
        return self.number(number)

    def outputs(self, shapes: Sequence[Sequence[Expr]]) -> list[np.ndarray]:
        """The contents of the program's outputs."""
        counts = {name: self.number(number) for name, number in self.program.counts}
        self.numbers |= counts
        found = []
        for each, shape in zip(
            self.program.outputs, shapes or [a.buffer.shape for a in self.program.outputs], strict=True
        ):
            whole, used = ([self._size(e) for e in part] for part in (each.buffer.shape, shape))
            memory = self.arrays[each.name].memory(each.name, each.buffer.dtype, whole, ())
            found.append(memory.part(used))
        return found

    # --- the plan

    def number(self, number: Number) -> int:
        """The value of a number."""
        if isinstance(number, int):
            return number
        if isinstance(number, str):
            if number not in self.numbers:
                raise NestError(f"the plan uses {number} before anything gives it a value")
            return self.numbers[number]
        value = int(_OPERATORS[number[0]](self.number(number[1]), self.number(number[2])))
        if not -(1 << 63) <= value < 1 << 63:
            raise NestError("a size is beyond 64 bits")
        return value

    def statements(self, statements: Sequence[Statement]) -> None:
        """Runs a list of the plan."""
        for s in statements:
            self.statement(s)

    def statement(self, s: Statement) -> None:
        """Runs a statement of the plan."""
        if isinstance(s, Let):
            self.numbers[s.name] = self.number(s.value)
        elif isinstance(s, Allocate):
            if s.array in self.arrays:
                raise NestError(f"{s.array} has memory already")
            self.arrays[s.array] = _Bytes(s.array, self.number(s.nbytes))
        elif isinstance(s, Free):
            self.arrays.pop(s.array, None)
        elif isinstance(s, Copy):
            self._copy(s)
        elif isinstance(s, Launch):
            self._launch(s)
        elif isinstance(s, ReadBack):
            self.numbers[s.name] = self._read_back(s)
        elif isinstance(s, Swap):
            first, second = self.arrays.pop(s.first, None), self.arrays.pop(s.second, None)
            self.arrays |= {name: a for name, a in ((s.first, second), (s.second, first)) if a is not None}
        elif isinstance(s, If):
            self.statements(s.then if self.number(s.condition) else s.otherwise)
        elif isinstance(s, Loop):
            for k in range(self.number(s.count)):
                self.numbers[s.index] = k
                self.statements(s.body)
        elif isinstance(s, While):
            iterations = 0
            while self.number(s.condition):
                iterations += 1
                if iterations > _MOST_ITERATIONS:
                    raise NestError("a while loop of the plan does not end")
                self.statements(s.body)
        else:
            raise NestError(f"{type(s).__name__} is no statement of a plan without a caller's arrays")

    def _copy(self, s: Copy) -> None:
        at, offset, count = map(self.number, (s.at, s.offset, s.nbytes))
        target, source = self.arrays[s.target], self.arrays[s.source]
        if min(at, offset, count) < 0 or at + count > len(target.data) or offset + count > len(source.data):
            raise NestError(f"{count} bytes from {offset} of {s.source} to {at} of {s.target}")
        target.data[at : at + count] = source.data[offset : offset + count]
        target.valid[at : at + count] = source.valid[offset : offset + count]

    def _read_back(self, s: ReadBack) -> int:
        if s.array == self.program.fault:
            return int(bool(self.faults))
        if self.faults:
            return 0  # kernels have done nothing since, and nobody uses it
        element = self.number(s.offset) // s.dtype.itemsize
        memory = self.arrays[s.array].memory(s.array, s.dtype, (element + 1,), ())
        return int(memory.read((element,)))

    def _launch(self, s: Launch) -> None:
        kernel = self.kernels[s.kernel]
        if kernel.faults and self.faults:
            return
        count = len(kernel.arrays)
        arrays = [self.arrays[name] for name in s.arguments[:count] if isinstance(name, str)]
        numbers = [self.number(each) for each in s.arguments[count : count + len(kernel.numbers)]]
        grid = tuple(map(self.number, s.grid))
        if min(grid) < 0:
            raise NestError(f"{s.kernel} is launched on {grid} blocks")

        def launch(block: Any) -> None:
            self.clock.begin()
            self._blocks(kernel.name, [block(*at, partial(self._threads, kernel, at)) for at in self._indices(grid)])

        updated = {w.buffer for inner in statements_within(kernel.body) for w in writes(inner) if w.atomic}
        seen = [
            partial(self._seen, array, self.watch and buffer not in updated)
            for array, buffer in zip(arrays, kernel.arrays, strict=True)
        ]
        self.compiled[s.kernel](seen, numbers, self.faults, launch, self._watched, self.clock)

    def _seen(
        self, array: _Bytes, watch: bool, name: str, dtype: DType, shape: Sequence[int], strides: Sequence[int]
    ) -> Memory:
        """An array as a kernel sees it, watched for races if `watch`."""
        if not watch:
            return array.memory(name, dtype, shape, strides)
        return array.memory(name, dtype, shape, strides, WatchedMemory).watch(self.clock)

    def _watched(self, memory: Memory) -> Memory:
        """The shared memory of a block, watched for races."""
        if not self.watch:
            return memory
        watched = WatchedMemory.over(memory.name, memory.shape, memory.strides, memory.data, memory.valid)
        return watched.watch(self.clock)

    def _indices(self, extent: Sequence[int]) -> list[tuple[int, ...]]:
        """Every place in a box of that extent, shuffled if there is a seed."""
        indices = list(itertools.product(*map(range, extent)))
        if self.chance is not None:
            self.chance.shuffle(indices)
        return indices

    def _blocks(self, name: str, blocks: Sequence[Any]) -> None:
        """Runs blocks, at most `_IN_FLIGHT` at a time; NestError if they deadlock."""
        coming, flight, idle = list(reversed(blocks)), [], 0
        while coming or flight:
            if coming and len(flight) < _IN_FLIGHT:
                flight.append(coming.pop())
            chosen = 0 if self.chance is None else self.chance.randrange(len(flight))
            block = flight.pop(chosen)
            stop = next(block, None)
            if stop is not None:
                flight.append(block)
            idle = idle + 1 if stop == AWAITS else 0
            if idle > _MOST_IDLE:
                raise NestError(f"blocks of {name} wait for one another")

    def _threads(self, kernel: Kernel, block: Any, thread: Any) -> Iterator[str]:
        """Runs the threads of a block from barrier to barrier; yields whenever threads await other blocks, and at barriers."""
        waiting: list[tuple[Any, Any]] = []
        for index in self._indices(kernel.extent):
            self.clock.go(block, index, 0)
            running = thread(*index)
            if running is not None:
                waiting.append((index, running))
        phase = 0
        while waiting:
            reached = yield from self._to_barrier(kernel, block, phase, waiting)
            if len(reached) > 1:
                raise NestError(f"threads of a block of {kernel.name} come to different barriers")
            phase += 1
            waiting = [] if None in reached else waiting
            yield "barrier"

    def _to_barrier(
        self, kernel: Kernel, block: Any, phase: int, threads: Sequence[tuple[Any, Any]]
    ) -> Generator[str, None, set[Any]]:
        """Runs threads until each has reached a barrier, or its end (None), and returns the barriers reached.
        Subgroups exchange values together."""
        reached: set[Any] = set()
        going = list(threads)
        met: dict[Any, list[tuple[Any, Any]]] = {}
        while going:
            if self.chance is not None:
                self.chance.shuffle(going)
            awaiting: list[tuple[Any, Any]] = []
            for index, running in going:
                self.clock.go(block, index, phase)
                stop = next(running, None)
                if stop == AWAITS:
                    awaiting.append((index, running))
                elif isinstance(stop, tuple):
                    met.setdefault((_number_in_block(kernel, index) // stop[1], *stop), []).append((index, running))
                else:
                    reached.add(stop)
            together = [key for key, group in met.items() if len(group) == key[-1]]
            exchanged = [each for key in together for each in met.pop(key)]
            if met and not (exchanged or awaiting):
                raise NestError(f"some threads of a subgroup of {kernel.name} exchange values, and others do not")
            if awaiting:
                yield AWAITS if len(awaiting) == len(going) else "others"
            going = [*exchanged, *awaiting]
        return reached


def _number_in_block(kernel: Kernel, index: Sequence[int]) -> int:
    """The number of a thread in its block; it increases by one along x."""
    (x, y, z), (width, height, _) = index, kernel.extent
    return x + width * (y + height * z)


def _floor(a: int, b: int) -> int:
    return a // b if b else 0


_OPERATORS: dict[str, Any] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": _floor,
    "%": lambda a, b: a - _floor(a, b) * b if b else 0,
    "min": min,
    "max": max,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
