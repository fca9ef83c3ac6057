"""Differential test of kernels: a program cut into kernels and a host plan gives its nest's results, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from law import difference, outcome, random_schedule, shape_of
from random_programs import random_program

from raido.schedule.kernels.limits import Limits
from raido.schedule.kernels.outlining import outline_kernels
from raido.schedule.lower import lower
from raido.schedule.machine import Gpu, Machine
from raido.schedule.nest.nodes import Nest
from raido.schedule.oracles.interpret import interpret_nest, sizes_of
from raido.schedule.oracles.interpret_kernels import interpret_program
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages


@dataclass(frozen=True)
class Drawn:
    """A nest and what it is run on."""

    nest: Nest
    arrays: Sequence[np.ndarray]
    sizes: Mapping[str, int]


SMALL = Machine(
    task=8, gpu=Gpu(threads=16, along=(16, 8, 4), subgroup=4, exchange=4)
)  # programs of some dozen elements have several blocks
ORDERED = replace(SMALL, gpu=Gpu(threads=16, along=(16, 8, 4), subgroup=4, exchange=4, ordered=True))
"""The same where blocks may wait for one another."""


def random_nest(seed: int) -> Drawn:
    """The nest of random program number `seed`: of three, one under a random schedule, and two by default, for a CPU and for a GPU."""
    shape = shape_of(seed)
    program = random_program(seed, shape.statements, shape.grammar)
    traced = program.algorithm.trace(*program.arguments)
    if seed % 3 == 2:
        machine = ORDERED if seed % 2 else SMALL
        schedule = Schedule(form_stages(traced), (), machine).complete()
    else:
        machine = Machine(cores=4)
        schedule = random_schedule(traced, 1000 * seed, shape.steps if seed % 3 else 0).complete(machine)
    arrays, given = program.algorithm.flatten(program.arguments)
    nest = lower(schedule.graph, schedule.variants(), machine)
    return Drawn(nest, arrays, sizes_of(nest, arrays, given))


def differs(drawn: Drawn, limits: Limits, seed: int) -> Any:
    """How the kernels' answer differs from the nest's; false where it does not."""
    want = outcome(lambda: interpret_nest(drawn.nest, drawn.arrays, drawn.sizes, seed=seed))
    program = outline_kernels(drawn.nest, limits)
    got = outcome(lambda: interpret_program(program, drawn.arrays, drawn.sizes, shapes=drawn.nest.shapes, seed=seed))
    return difference(want, got, (True,) * len(drawn.nest.outputs))
