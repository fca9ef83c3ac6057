"""Halide's programs with the best schedules that we found, compiled in this process for exactly the row's arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec

import numpy as np

from peers.contestant import THREADS, Arena, Contestant

SIDE, INSTALL = "Halide", "pip install halide"
Build = Callable[[Sequence[np.ndarray], str], Callable[[], object]]


def unavailable(arena: Arena) -> list[str]:
    return [] if find_spec("halide") else ["halide"]


def contestants(arena: Arena) -> Iterator[Contestant]:
    os.environ["HL_NUM_THREADS"] = str(THREADS)
    from peers.halide.arithmetic import ARITHMETIC
    from peers.halide.reductions import REDUCTIONS
    from peers.halide.stencils import STENCILS

    programs: dict[str, tuple[Build, tuple[str, ...]]] = {**STENCILS, **REDUCTIONS, **ARITHMETIC}
    if arena.name in programs:
        build, schedules = programs[arena.name]
        for schedule in schedules:
            call = build([*arena.inputs, *arena.room], schedule)

            def results(call=call) -> Sequence[np.ndarray]:
                call()
                return arena.room

            yield Contestant(SIDE, schedule, call, results)
