"""Random legal schedules, and the property of every one: both levels of the nest give the graph interpreter's results."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from programs import PROGRAMS

from raido.algo.errors import RaidoError, ScheduleError
from raido.algo.graph import index as ix
from raido.algo.graph.expr import SizeVar
from raido.algo.graph.program import Program
from raido.algo.interpreter.interpret import interpret
from raido.schedule.checks.levels import PLACES
from raido.schedule.defaults.array_loops import decide_array_loops
from raido.schedule.defaults.draft import Draft
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.machine import Gpu, Machine
from raido.schedule.nest.nodes import Nest
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.recorded import Directive
from raido.schedule.replay import apply_directive, variant_of
from raido.schedule.stages.form_stages import form_stages
from raido.schedule.stages.stage import StageGraph
from raido.schedule.state import State, initial_state

EXTENTS = (0, 1, 2, 3, 5, 7, 9, 13, 16)
DIRECTIVES = (
    *("split", "split", "fuse", "reorder", "vectorize", "unroll", "unroll_by", "parallel", "inline"),
    *(
        "compute_at",
        "compute_at",
        "store_at",
        "compute_with",
        "partition_boundaries",
        "cache",
        "clone",
        "store",
        "align",
    ),
)


def scheduled(program: Program, directives: list[tuple[str, str, dict[str, Any]]]) -> Nest:
    """The scalar nest of a program under these steps: (stage, directive, arguments)."""
    state = initial_state(form_stages(program))
    for stage, directive, arguments in directives:
        state = apply_directive(state, Directive(stage, directive, tuple(arguments.items())))
    return lower(state.graph, (variant_of(state),))


def random_state(graph: StageGraph, chance: random.Random, gpu: Gpu | None = None) -> tuple[State, list[Any]]:
    """A state after random steps, and the steps that were accepted."""
    state, directives = initial_state(graph, gpu), []
    for _ in range(chance.randint(0, 16)):
        stage = chance.choice(list(state.plans))
        proposal = random_step(state, stage, chance)
        if proposal is None:
            continue
        directive, arguments = proposal
        try:
            state = apply_directive(state, Directive(stage, directive, tuple(arguments.items())))
        except ScheduleError:
            continue
        directives.append((stage, directive, arguments))
    return state, directives


def random_step(state: State, stage: str, chance: random.Random) -> tuple[str, dict[str, Any]] | None:
    """A directive for a stage, perhaps not a legal one."""
    loops = [loop.name for loop in state.plans[stage].loops]
    other = chance.choice(list(state.plans))
    theirs = [loop.name for loop in state.plans[other].loops]
    directive = chance.choice(DIRECTIVES) if state.gpu is None else chance.choice((*DIRECTIVES, *["bind"] * 12))
    if not loops or not theirs:
        return None
    loop, shuffled = chance.choice(loops), chance.sample(loops, len(loops))
    if directive == "split":
        return directive, {"axis": loop, "factor": chance.choice((1, 2, 3, 4, 5, 8))}
    if directive == "fuse":
        k = chance.randrange(len(loops))
        return None if k + 1 == len(loops) else (directive, {"a": loops[k], "b": loops[k + 1]})
    if directive == "reorder":
        return directive, {"axes": tuple(shuffled)}
    if directive == "unroll_by":
        return "unroll", {"axis": loop, "factor": chance.choice((2, 3))}
    if directive in ("compute_at", "store_at", "compute_with"):
        return directive, {"stage": other, "axis": chance.choice(theirs)}
    if directive == "cache":
        arrays = [a for a in state.uses.loads.get(stage, {}) if a]
        layout = {"layout": tuple(shuffled[: chance.randint(1, len(loops))])} if chance.random() < 0.6 else {}
        where = {"stage": other, "axis": chance.choice([*theirs, None])}
        return (directive, {"array": chance.choice(arrays), **where, **layout}) if arrays else None
    if directive == "store":
        return directive, {"layout": tuple(shuffled)} if chance.random() < 0.7 else {"pad": 3}
    if directive == "clone":
        return directive, {"consumer": other}
    if directive == "bind":
        if state.gpu is not None and state.gpu.exchange and loop[0] == "r":  # a reduction's
            return directive, {"axis": loop, "place": "thread.x", "subgroup": chance.choice((2, state.gpu.exchange))}
        return directive, {"axis": loop, "place": chance.choice(PLACES)}
    if directive == "align":
        return directive, {
            "axis": chance.choice(state.stage(stage).all_axes).name,
            "multiple": chance.choice((2, 3, 4)),
        }
    if directive == "partition_boundaries":
        return directive, {"axes": ()}
    return directive, {} if directive == "inline" else {"axis": loop}


def random_arguments(program: Program, chance: random.Random) -> tuple[list[np.ndarray], dict[str, int]]:
    """Inputs of random small sizes; floats are multiples of 1/4, so that sums of them are exact."""
    sizes = {size.name: chance.choice(EXTENTS) for size in program.sizes}
    numbers = np.random.default_rng(chance.randrange(1 << 30))
    arrays = []
    for parameter in program.parameters:
        shape = tuple(sizes[e.name] if isinstance(e, SizeVar) else ix.constant_value(e) or 0 for e in parameter.shape)
        top = 8 if parameter.dtype.is_float else max(1, sizes.get("n", 4))
        values = numbers.integers(-8 if parameter.dtype.is_float else 0, top, shape)
        arrays.append((values / 4 if parameter.dtype.is_float else values).astype(parameter.dtype.numpy))
    return arrays, sizes


def check_same(nest: Nest, program: Program, arrays: list[np.ndarray], sizes: dict[str, int]) -> None:
    """The nest and its gangs are well formed and give what the graph interpreter gives, faults included."""
    expected: Any
    try:
        expected = interpret(program, arrays)
    except RaidoError as error:
        expected = error
    gangs = form_gangs(check_nest(nest, "scalar"), 128)
    for each in (nest, check_nest(gangs, "gang")):
        try:
            results = interpret_nest(each, arrays, sizes)
        except RaidoError as error:
            assert type(error) is type(expected), error
            continue
        assert not isinstance(expected, RaidoError), expected
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)


def check_random(name: str, seed: int, gpu: Gpu | None = None) -> None:
    """One program under one random schedule on one random size."""
    chance = random.Random(f"{name} {seed}")
    program = PROGRAMS[name]()
    state, directives = random_state(form_stages(program), chance, gpu)
    try:
        draft = Draft(state, Machine(gpu=gpu), {})
        decide_array_loops(draft)
        nest = lower(state.graph, (variant_of(draft.state),), Machine(gpu=gpu))
        check_same(nest, program, *random_arguments(program, chance))
    except Exception as error:
        raise AssertionError(f"{name}, seed {seed}, under {directives}") from error
