"""Halide's programs with the best schedules found for them, compiled in this process for exactly the row's arrays."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from peers.contestant import THREADS, Arena, Contestant

if TYPE_CHECKING:
    from peers.halide.program import Build, Call, Program

SIDE, INSTALL = "Halide", "pip install halide"


def unavailable(arena: Arena) -> list[str]:
    return [] if find_spec("halide") else ["halide"]


def programs() -> dict[str, tuple[Build, tuple[str, ...]]]:
    """By the row's name: what builds the program, and the schedules that compete."""
    os.environ["HL_NUM_THREADS"] = str(THREADS)
    from peers.halide.arithmetic import ARITHMETIC
    from peers.halide.reductions import REDUCTIONS
    from peers.halide.stencils import STENCILS

    return {**STENCILS, **REDUCTIONS, **ARITHMETIC}


def unscheduled(arena: Arena) -> Program | None:
    """The program of a row without a schedule, where there is one."""
    if arena.name not in programs():
        return None
    build, _ = programs()[arena.name]
    return build([*arena.inputs, *arena.room], "")


def contestants(arena: Arena) -> Iterator[Contestant]:
    if arena.name in programs():
        build, schedules = programs()[arena.name]
        for schedule in schedules:
            yield contestant(arena, SIDE, schedule, build([*arena.inputs, *arena.room], schedule).compile())


def contestant(arena: Arena, side: str, variant: str, call: Call) -> Contestant:
    """One who fills the room of the arena."""

    def results() -> Sequence[np.ndarray]:
        call()
        return arena.room

    return Contestant(side, variant, call, results)
