"""Host plans encoded as words that the C runtime of a device executes.

Names and arguments are checked when a plan is encoded; the runtime checks values, and arithmetic for overflow.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import c_int64, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from raido.algo.errors import TargetError
from raido.schedule.kernels.host_plan import (
    Allocate,
    Copy,
    Download,
    Free,
    If,
    Launch,
    Let,
    Loop,
    Number,
    ReadBack,
    Statement,
    Swap,
    Upload,
    While,
)
from raido.targets.devices.kernel import Kernel
from raido.targets.devices.library import BUSY
from raido.targets.devices.repetition import is_same_each_time
from raido.targets.devices.runtime import LoadedKernel, Memory, OpenDevice

_SLICE = 200_000_000
"""Nanoseconds between checks for Python's signals during a plan."""


# The numbers of raido_device.h.
_CODES: dict[type, int] = {
    kind: code for code, kind in enumerate((Allocate, Free, Upload, Download, Copy, Launch, ReadBack, Swap), 2)
}
_SET, _COMPUTE, _JUMP, _JUMP_UNLESS, _REPEAT = 0, 1, 10, 11, 12
_OPERATIONS = {op: code for code, op in enumerate(("+", "-", "*", "//", "%", "min", "max", "<", "<=", "==", "!="))}


@dataclass(frozen=True, slots=True)
class Plan:
    """An encoded plan. Numbers are registers, device arrays are slots; `registers`, `slots` and `hosts` map names to their indices."""

    words: tuple[int, ...]
    registers: Mapping[str, int]
    register_count: int
    slots: Mapping[str, int]
    hosts: Mapping[str, int]
    kernels: tuple[str, ...]


def encode_plan(
    statements: Sequence[Statement],
    kernels: Mapping[str, Kernel],
    numbers: Sequence[str] = (),
    beside: Plan | None = None,
) -> Plan:
    """Encodes a plan; `numbers` are its inputs. Raises `TargetError` for a name that is never defined, or arguments that do not fit.

    beside: a plan whose names have the same indices in this one, which runs over the same registers and slots.

    >>> plan = encode_plan([Allocate("a", ("*", "n", 4)), Loop("k", "n", (Swap("a", "b"),))], {}, ["n"])
    >>> sorted(plan.slots), sorted(plan.registers)
    (['a', 'b'], ['k', 'n'])
    """
    encoder = _Encoder(kernels)
    if beside is not None:
        encoder.registers |= beside.registers
        encoder.register_count = beside.register_count
        encoder.slots |= beside.slots
        encoder.hosts |= beside.hosts
    for name in numbers:
        encoder.name_register(name)
    encoder.block(statements)
    return Plan(
        tuple(encoder.words),
        encoder.registers,
        encoder.register_count,
        encoder.slots,
        encoder.hosts,
        tuple(kernels),
    )


@dataclass
class _Encoder:
    kernels: Mapping[str, Kernel]
    words: list[int] = field(default_factory=list)
    registers: dict[str, int] = field(default_factory=dict)
    register_count: int = 0
    slots: dict[str, int] = field(default_factory=dict)
    hosts: dict[str, int] = field(default_factory=dict)

    def block(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, s: Statement) -> None:
        match s:
            case Let(name, value):
                self.assign(name, self.number(value))
            case Allocate(array, nbytes):
                self.write(s, self.slot(array), self.number(nbytes))
            case Free(array):
                self.write(s, self.slot(array))
            case Upload(array, source, nbytes):
                self.write(s, self.slot(array), self.host(source), self.number(nbytes))
            case Download(target, array, nbytes):
                self.write(s, self.host(target), self.slot(array), self.number(nbytes))
            case Copy(target, source, nbytes, at, offset):
                numbers = [self.number(number) for number in (at, offset, nbytes)]
                self.write(s, self.slot(target), numbers[0], self.slot(source), *numbers[1:])
            case Launch():
                self.launch(s)
            case ReadBack(name, array, dtype, offset):
                number = self.number(offset)
                self.write(
                    s, self.name_register(name), self.slot(array), number, dtype.itemsize, int(dtype.kind == "i")
                )
            case Swap(first, second):
                self.write(s, self.slot(first), self.slot(second))
            case If(condition, then, otherwise):
                skip = self.jump_unless(condition)
                self.block(then)
                leave = self.jump() if otherwise else None
                self.land(skip)
                self.block(otherwise)
                if leave is not None:
                    self.land(leave)
            case Loop(index, count, body) if is_same_each_time(s):
                self.repetition(count, body)
            case Loop(index, count, body):
                last = self.number(count)
                self.assign(index, self.number(0))
                self.repeat(
                    lambda: self.compute("<", self.registers[index], last), (*body, Let(index, ("+", index, 1)))
                )
            case While(condition, body):
                self.repeat(lambda: self.number(condition), body)

    def launch(self, s: Launch) -> None:
        """Encodes a launch; its arguments are sorted into scalars and arrays by the kernel's parameters."""
        if s.kernel not in self.kernels:
            raise TargetError(f'a plan launches "{s.kernel}", and there is no such kernel')
        kernel = self.kernels[s.kernel]
        if len(s.arguments) != len(kernel.arguments):
            raise TargetError(f"kernel {s.kernel} takes {len(kernel.arguments)} arguments, not {len(s.arguments)}")
        scalars, arrays = [], []
        for argument, given in zip(kernel.arguments, s.arguments, strict=True):
            if not argument.pointer:
                scalars += [argument.offset, max(4, argument.dtype.itemsize), self.number(given)]
            elif isinstance(given, str):
                arrays.append(self.slot(given))
            else:
                raise TargetError(f"kernel {s.kernel} takes an array for {argument.name}, not {given}")
        grid = [self.number(blocks) for blocks in s.grid]
        which = list(self.kernels).index(s.kernel)
        self.write(s, which, *grid, len(scalars) // 3, *scalars, len(arrays), *arrays)

    def repetition(self, count: Number, body: Sequence[Statement]) -> None:
        """Encodes a loop with identical iterations, which a device may record and replay."""
        left = self.compute("+", self.number(count), self.number(0))
        self.words += [_REPEAT, left, -1]
        begin = len(self.words)
        self.block(body)
        self.words[begin - 1] = len(self.words) - begin

    # --- words

    def write(self, s: Statement, *operands: int) -> None:
        self.words += [_CODES[type(s)], *operands]

    def jump(self) -> int:
        """Encodes a jump; returns the position of its target, still to be written."""
        self.words += [_JUMP, -1]
        return len(self.words) - 1

    def jump_unless(self, condition: Number) -> int:
        register = self.number(condition)
        self.words += [_JUMP_UNLESS, register, -1]
        return len(self.words) - 1

    def land(self, jump: int) -> None:
        """Sets a jump's target to the current position."""
        self.words[jump] = len(self.words)

    def repeat(self, condition: Any, body: Sequence[Statement]) -> None:
        begin = len(self.words)
        register = condition()
        self.words += [_JUMP_UNLESS, register, -1]
        leave = len(self.words) - 1
        self.block(body)
        self.words += [_JUMP, begin]
        self.land(leave)

    # --- names and numbers

    def slot(self, array: str) -> int:
        return self.slots.setdefault(array, len(self.slots))

    def host(self, name: str) -> int:
        return self.hosts.setdefault(name, len(self.hosts))

    def fresh_register(self) -> int:
        self.register_count += 1
        return self.register_count - 1

    def name_register(self, name: str) -> int:
        if name not in self.registers:
            self.registers[name] = self.fresh_register()
        return self.registers[name]

    def assign(self, name: str, value: int) -> None:
        """Copies a register, as a sum with 0, since there is no copy instruction."""
        zero = self.number(0)
        self.words += [_COMPUTE, _OPERATIONS["+"], self.name_register(name), value, zero]

    def compute(self, op: str, left: int, right: int) -> int:
        made = self.fresh_register()
        self.words += [_COMPUTE, _OPERATIONS[op], made, left, right]
        return made

    def number(self, size: Number) -> int:
        """The register of a number; emits its computation."""
        if isinstance(size, int):
            made = self.fresh_register()
            self.words += [_SET, made, size]
            return made
        if isinstance(size, str):
            if size not in self.registers:
                raise TargetError(f'a plan uses the number "{size}" before anything gives it a value')
            return self.registers[size]
        op, left, right = size
        return self.compute(op, self.number(left), self.number(right))


class _Run(ctypes.Structure):
    """`RdPlan` of raido_device.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("device", "words", "registers", "slots", "arrays", "kernels")),
        *(("word_count", c_uint64), ("at", c_uint64)),
        *((name, c_uint32) for name in ("register_count", "slot_count", "array_count", "kernel_count")),
    )


def run_plan(
    plan: Plan,
    device: OpenDevice,
    kernels: Mapping[str, LoadedKernel],
    *,
    numbers: Mapping[str, int] | None = None,
    memories: Mapping[str, Memory] | None = None,
    arrays: Mapping[str, np.ndarray] | None = None,
) -> dict[str, int]:
    """Runs a plan and returns its numbers. `memories` are device arrays, `arrays` C-contiguous arrays of the caller.

    Launches may still be running afterwards. Arrays that the plan has allocated and not freed are freed, after a failure too.
    """
    return run_and_keep(plan, device, kernels, numbers=numbers, memories=memories, arrays=arrays)[0]


def run_and_keep(
    plan: Plan,
    device: OpenDevice,
    kernels: Mapping[str, LoadedKernel],
    keep: Sequence[str] = (),
    *,
    numbers: Mapping[str, int] | None = None,
    memories: Mapping[str, Memory] | None = None,
    arrays: Mapping[str, np.ndarray] | None = None,
) -> tuple[dict[str, int], dict[str, Memory]]:
    """Runs a plan as `run_plan` does; returns its numbers and the arrays named in `keep` that it has allocated."""
    memories, arrays = memories or {}, arrays or {}
    for what, needed, given in (("number", (), numbers or {}), ("array of the caller", plan.hosts, arrays)):
        for name in needed:
            if name not in given:
                raise TargetError(f'a plan needs the {what} "{name}"')
    registers = (c_int64 * max(1, plan.register_count))()
    for name, value in (numbers or {}).items():
        registers[plan.registers[name]] = value
    slots = (c_void_p * max(1, len(plan.slots)))()
    for name, memory in memories.items():
        slots[plan.slots[name]] = memory.handle
    given = set(slots)
    hosts = (c_void_p * max(1, len(plan.hosts)))(*(arrays[name].ctypes.data for name in plan.hosts))
    loaded = (c_void_p * max(1, len(plan.kernels)))(*(kernels[name].handle for name in plan.kernels))
    words = (c_int64 * len(plan.words))(*plan.words)
    parts = [ctypes.cast(part, c_void_p).value for part in (words, registers, slots, hosts, loaded)]
    counts = (plan.register_count, len(plan.slots), len(plan.hosts), len(plan.kernels))
    run = _Run(device.handle.value, *parts, len(plan.words), 0, *counts)
    kept: dict[str, Memory] = {}
    try:
        while (code := device.call.rd_plan_run(ctypes.byref(run), _SLICE)) == BUSY:
            pass
        device.check(code)
        kept = {name: Memory.adopt(device, slots[plan.slots[name]]) for name in keep if slots[plan.slots[name]]}
    finally:
        for handle in set(slots) - given - {memory.handle.value for memory in kept.values()}:
            device.call.rd_buffer_free(handle)
    return {name: registers[register] for name, register in plan.registers.items()}, kept
