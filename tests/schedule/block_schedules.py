"""Lowered schedules with loops bound to blocks and threads, and the check that threads in any order give the same results."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
from random_schedules import random_arguments

from raido.algo.graph.program import Program
from raido.algo.interpreter.interpret import interpret
from raido.schedule.lower import lower
from raido.schedule.machine import Gpu, Machine
from raido.schedule.nest.nodes import Nest
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.recorded import Directive
from raido.schedule.replay import apply_directive, variant_of
from raido.schedule.stages.form_stages import form_stages
from raido.schedule.state import initial_state

GPU = Gpu()
Directives = list[tuple[str, str, dict[str, Any]]]
Levels = Mapping[str, Mapping[str, str]]


def bound(program: Program, steps: Directives, levels: Levels, gpu: Gpu = GPU) -> Nest:
    """The scalar nest of a program under these steps, with loops of stages bound to blocks and threads."""
    state = initial_state(form_stages(program), gpu)
    binds = [(s, "bind", {"axis": axis, "place": place}) for s, own in levels.items() for axis, place in own.items()]
    for stage, directive, arguments in (*steps, *binds):
        state = apply_directive(state, Directive(stage, directive, tuple(arguments.items())))
    return lower(state.graph, (variant_of(state),), Machine(gpu=gpu))


def spread(stage: str, axes: str, threads: int, wide: int) -> tuple[Directives, Levels]:
    """All axes of a stage as one loop that the threads of a block, `wide` along x, go through side by side."""
    name, *others = axes.split()
    steps: Directives = []
    for other in others:
        steps.append((stage, "fuse", {"a": name, "b": other}))
        name += other
    steps += [
        (stage, "split", {"axis": name, "factor": threads}),
        (stage, "split", {"axis": name + "i", "factor": wide}),
    ]
    steps.append((stage, "reorder", {"axes": (name + "io", name + "ii", name + "o")}))
    return steps, {stage: {name + "io": "thread.y", name + "ii": "thread.x"}}


def hold(nest: Nest, program: Program, seed: int) -> None:
    """The nest, its threads in two random orders, gives what the graph interpreter gives."""
    arrays, sizes = random_arguments(program, random.Random(seed))
    expected: Any = interpret(program, arrays)
    check_nest(nest, "scalar")
    for order in (seed, seed + 1):
        for result, wanted in zip(interpret_nest(nest, arrays, sizes, order), expected, strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)
