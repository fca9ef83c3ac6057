"""Updates whose iterations are distributed to the threads of a block, which share bins: programs of the tables in tests/laws."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from scheduled_programs import TABLES, trace

from raido.algo.interpreter.interpret import interpret
from raido.schedule.lower import lower
from raido.schedule.nest.nodes import Alloc, AtomicUpdate, Nest
from raido.schedule.nest.walk import statements_within
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.plan import StagePlan
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.schedule.state import is_reduction

NAMES = ("histogram", "weights", "histogram_of_each_row", "rows_of_bins", "two_dimensions", "cumulative_histogram")


def on_threads(name: str, chunks: int, replicas: int, strided: bool) -> Nest:
    """The nest of a program: chunks to blocks, steps to four threads, one after the other or all at a stride."""
    schedule = Schedule(form_stages(trace("updates", name)))
    for stage in schedule.stages:
        if "private" not in schedule[stage].strategies():
            continue
        view = schedule[stage].strategy("private", chunks=chunks, replicas=replicas)
        steps = next(
            loop.name for loop in view.plan.loops if is_reduction(schedule.state.stage(stage), view.plan, loop.name)
        )
        view.split(steps, 4)
        if strided:
            view.reorder(steps + "i", steps + "o")
    (variant,) = schedule.variants()
    plans = tuple(with_threads(plan) for plan in variant.plans)
    return check_nest(lower(schedule.graph, (replace(variant, plans=plans),)), "scalar")


def with_threads(plan: StagePlan) -> StagePlan:
    """The plan with the inner half of a split bound to threads."""
    inner = {relation.inner for relation in plan.relations}  # type: ignore[union-attr]
    loops = (replace(l, kind="parallel", level="thread.x") if l.name in inner else l for l in plan.loops)
    return replace(plan, loops=tuple(loops))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("strided", (False, True))
def test_threads_fill_bins_as_the_program_says(name: str, strided: bool) -> None:
    nest, program, inputs = on_threads(name, 3, 2, strided), trace("updates", name), TABLES["updates"][name][1]
    for k, n in enumerate((0, 1, 3, 8, 17)):
        arrays = list(inputs(np.random.default_rng(k), n, 3))
        for result, wanted in zip(interpret_nest(nest, arrays, {}, k), interpret(program, arrays), strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-5)


def test_bins_of_constant_size_are_shared_and_others_are_not() -> None:
    for name, scope in (("histogram", "shared"), ("weights", "heap")):
        statements = list(statements_within(on_threads(name, 3, 2, True).body))
        atomic = {s.buffer for s in statements if isinstance(s, AtomicUpdate) and s.buffer.scope != "parameter"}
        assert {s.buffer.scope for s in statements if isinstance(s, Alloc) and s.buffer in atomic} == {scope}
