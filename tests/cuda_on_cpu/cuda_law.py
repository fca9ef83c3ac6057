"""Differential test of CUDA: a random program under a random schedule gives the graph interpreter's results, over the driver without a GPU.

Programs are compiled together, some dozens to a library. Every fourth runs under the default schedule instead.

    python tests/cuda_on_cpu/cuda_law.py --programs 1000
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

here = Path(__file__).resolve().parent
sys.path[:0] = [str(here), str(here.parent), *(str(here.parent / folder) for folder in ("targets", "laws"))]

from fake_driver import load_driver  # noqa: E402
from law import Broken, Completed, difference, leaves, outcome, random_schedule, run_on, shape_of  # noqa: E402
from random_programs import RandomProgram, random_program  # noqa: E402
from twin_compiler import TwinCompiler, twin_compiler  # noqa: E402

from raido.algo.interpreter.interpret import interpret  # noqa: E402
from raido.schedule.schedule import Schedule  # noqa: E402
from raido.targets.compile import executable_of  # noqa: E402
from raido.targets.cuda.opened import open_device  # noqa: E402
from raido.targets.cuda.program import CudaCompilation  # noqa: E402
from raido.targets.devices.executable import DeviceExecutable  # noqa: E402
from raido.targets.target import Target  # noqa: E402

DEFAULTS = 4
TOGETHER = 40
IN_FLIGHT = 3
"""Blocks that run beside one another."""
"""Programs in one library: its compilation takes some seconds."""
SM_90 = Target("cuda", arch="sm_90")


class CompletedForCuda(Completed, CudaCompilation):
    """A compilation for CUDA under a schedule that is complete."""


@dataclass(frozen=True)
class Prepared:
    """A program that waits for its twin."""

    program: RandomProgram
    schedule: Schedule
    executable: DeviceExecutable
    want: Any

    @property
    def wide(self) -> DeviceExecutable:
        """The executable without narrow codes."""
        made = self.executable
        kernels = {name: replace(kernel, narrow=b"") for name, kernel in made.code.kernels.items()}
        return DeviceExecutable(made.signature, replace(made.code, kernels=kernels), made.device, open_device)


def prepare(seed: int, target: Target = SM_90) -> Prepared:
    """Program number `seed` with its schedule and its meaning."""
    shape = shape_of(seed)
    program = random_program(seed, shape.statements, shape.grammar)
    traced = program.algorithm.trace(*program.arguments)
    want = outcome(lambda: interpret(traced, *program.algorithm.flatten(program.arguments)))
    steps = 0 if seed % DEFAULTS == 0 else shape.steps
    schedule = random_schedule(traced, 1000 * seed, steps, target).complete(target.machine)
    executable = executable_of(CompletedForCuda(schedule.graph.program, target, schedule, {}))
    assert isinstance(executable, DeviceExecutable)
    return Prepared(program, schedule, executable, want)


def hold(prepared: Prepared) -> None:
    """Runs a program twice, its blocks and threads in other orders, and the second time no kernel's narrow code; `Broken` where it does
    not give what it means."""
    program = prepared.program

    def compare(way: str, want: Any, got: Any, exact: Sequence[bool]) -> None:
        if fault := difference(want, leaves(got), exact):
            raise Broken(repr(program), f"# {SM_90}\n{prepared.schedule}", way, fault)

    first = run_on(2, lambda: prepared.executable(*program.arguments))
    compare("on the device", prepared.want, first, program.exact)
    again = run_on(2, lambda: prepared.wide(*program.arguments))
    compare("on the device, its indices of 64 bits", leaves(first), again, (True,) * 99)


def check(seeds: Sequence[int], compiler: TwinCompiler) -> Iterator[Broken | None]:
    """Checks programs, compiled together; one answer for each."""
    prepared = [prepare(seed) for seed in seeds]
    compiler.build()
    load_driver().set(workers=IN_FLIGHT)
    yield from map(fault_of, prepared)
    load_driver().set(workers=1)


def fault_of(prepared: Prepared) -> Broken | None:
    """Where a program does not give what it means."""
    try:
        hold(prepared)
    except Broken as broken:
        return broken
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    broken, last = 0, options.first + options.programs
    with twin_compiler(load_driver()) as compiler:
        for start in range(options.first, last, TOGETHER):
            seeds = range(start, min(start + TOGETHER, last))
            for seed, answer in zip(seeds, check(seeds, compiler), strict=True):
                if answer is not None:
                    broken += 1
                    print(f"# program {seed}\n{answer}", flush=True)
    print(f"{options.programs} programs, {broken} wrong")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
