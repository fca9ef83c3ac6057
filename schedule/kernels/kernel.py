"""The code of a device: kernels as plain data, and a whole program of them.

A kernel's body is what one thread does. It is a scalar nest of serial loops, whose statements may mention the thread's place, and
`Barrier`, at which the threads of a block wait for one another; all of a block's threads come to each, or none does.
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
    """Code for a launch on blocks × threads, x first. `blocks` and `threads` are the variables (i64) of a thread's place, which begin at 0;
    `extent` is how many threads a block has along each.

    `arrays` in device memory and `numbers` are what a launch gives, in this order. Buffers that the body allocates are of scope "shared"
    (one for the block), "stack" or "register" (one for the thread). `faults`: a launch gives the fault record behind all else, and the
    kernel does nothing where something is on record at its entry: its body may fail, or what ran before may have failed. `site`: the
    number of the line of its loops (-1: unknown).
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
    """An array on the device, under the name that a plan has for it."""

    name: str
    buffer: Buffer


@dataclass(frozen=True, eq=False, slots=True)
class DeviceProgram:
    """A program for a device: kernels, and the plan that launches them.

    The plan finds `inputs` and `outputs` on the device under their names, those of `constants` too, and `sizes` among its numbers. It
    leaves `counts`, sizes that data decide, among its numbers, and allocates `results`, outputs that nothing bounds. `fault` names the
    fault record where any kernel may fail (else ""): all zeros before the plan runs.
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
