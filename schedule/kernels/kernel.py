"""The code of a device as plain data: kernels, and a whole program of them.

A kernel's body is the code of one thread. It is a scalar nest of serial loops, whose statements may mention the thread's place, and
`Barrier`, at which the threads of a block wait for one another; either all of a block's threads reach a barrier, or none does.
"""

from __future__ import annotations

from dataclasses import dataclass

from raido.algo.graph.expr import SizeVar, Var
from raido.algo.graph.program import Site
from raido.schedule.kernels.host_plan import Number, Statement
from raido.schedule.nest.nodes import Block
from raido.schedule.nest.values import Buffer


@dataclass(frozen=True, eq=False, slots=True)
class Kernel:
    """Code for a launch on blocks × threads, x first.

    `blocks` and `threads` are the variables (i64) of a thread's place, counted from 0; `extent` is the number of threads of a block along
    each axis. `arrays` in device memory and `numbers` are the arguments of a launch, in this order. Buffers that the body allocates are of
    scope "shared" (one for each block), "stack" or "register" (one for each thread).

    faults: the last argument of a launch is the fault record, and the kernel does nothing if a fault is recorded at its entry: its body may
    fault, or a kernel before it may have. site: the number of the source line of its loops (−1: unknown).
    """

    name: str
    arrays: tuple[Buffer, ...]
    numbers: tuple[Var | SizeVar, ...]
    blocks: tuple[Var, Var, Var]
    threads: tuple[Var, Var, Var]
    extent: tuple[int, int, int]
    body: Block
    faults: bool
    site: int = -1


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """An array on the device, under its name in a plan."""

    name: str
    buffer: Buffer


@dataclass(frozen=True, eq=False, slots=True)
class DeviceProgram:
    """A program for a device: kernels, and the plan that launches them.

    The plan finds `inputs`, `outputs` and `constants` on the device under their names, and `sizes` among its numbers. It leaves `counts`,
    data-dependent sizes, among its numbers, and allocates `results`, outputs of unbounded size. `fault` names the fault record, all zeros
    before the plan runs; "" if no kernel may fault.
    """

    name: str
    kernels: tuple[Kernel, ...]
    plan: tuple[Statement, ...]
    inputs: tuple[DeviceArray, ...]
    outputs: tuple[DeviceArray, ...]
    results: tuple[DeviceArray, ...]
    constants: tuple[DeviceArray, ...]
    sizes: tuple[str, ...]
    counts: tuple[tuple[str, Number], ...]
    fault: str
    sites: tuple[Site | None, ...]
