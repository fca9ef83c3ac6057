"""Scans and filters whose blocks are distributed to threads, in parts: commutative and other operators, from the tables in tests/laws."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from random_kernels import check_kernels
from scheduled_programs import TABLES, trace

from raido.algo.errors import ScheduleError
from raido.algo.interpreter.interpret import interpret
from raido.schedule.kernels.limits import Limits
from raido.schedule.lower import lower
from raido.schedule.nest.nodes import Nest
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.targets.target import Target

SCANS = (
    "running_sum",
    "exclusive_from_five",
    "matrix_products",
    "every_row",
    "scan_of_a_scan",
    "rows_between_stencils",
)
FILTERS = ("several_arrays", "both_parts", "histogram_of_what_is_kept", "positions")
SIZES = (0, 1, 5, 12, 13, 36, 67)
ANY = Target("vulkan", device="any")
STRATEGY = {"scans": "three_phase", "filters": "count_write"}


def on_threads(table: str, name: str) -> Nest:
    """The nest of a program of the table: blocks of twelve elements, pieces of three for each thread."""
    schedule = Schedule(form_stages(trace(table, name)))
    for stage in schedule.stages:
        if STRATEGY[table] in schedule[stage].strategies():
            view = schedule[stage].strategy(STRATEGY[table], block=12)
            view.split(next(loop.name for loop in reversed(view.plan.loops) if loop.name.endswith("i")), 3)
    (variant,) = schedule.variants()
    plans = []
    for plan in variant.plans:
        if plan.strategy is not None:
            blocks = next(k for k, loop in enumerate(plan.loops) if loop.kind == "parallel")
            loops = list(plan.loops)
            loops[blocks] = replace(loops[blocks], level="block.x")
            loops[blocks + 1] = replace(loops[blocks + 1], kind="parallel", level="thread.x")
            plan = replace(plan, loops=tuple(loops))
        plans.append(plan)
    return check_nest(lower(schedule.graph, (replace(variant, plans=tuple(plans)),)), "scalar")


@pytest.mark.parametrize(("table", "name"), [*(("scans", n) for n in SCANS), *(("filters", n) for n in FILTERS)])
def test_threads_scan_what_the_program_says(table: str, name: str) -> None:
    nest, program, inputs = on_threads(table, name), trace(table, name), TABLES[table][name][1]
    for k, n in enumerate(SIZES):
        arrays = list(inputs(np.random.default_rng(k), n, 3))
        for result, wanted in zip(interpret_nest(nest, arrays, {}, k), interpret(program, arrays), strict=True):
            kept = result[: len(wanted)] if np.ndim(result) else result
            np.testing.assert_allclose(kept, wanted, rtol=1e-5)


def test_rows_that_are_scanned_together_are_not_dealt_out() -> None:
    with pytest.raises(ScheduleError, match="the elements of the scan are rows"):
        on_threads("scans", "every_column")


@pytest.mark.parametrize("name", ["matrix_products", "every_row", "middle_axis"])
def test_threads_of_a_block_scan_a_row_from_end_to_end(name: str) -> None:
    """Twelve elements at a time, three for each thread; the kernels give the nest's bits."""
    program, inputs = trace("scans", name), TABLES["scans"][name][1]
    schedule = Schedule(form_stages(program), target=ANY)
    (stage,) = (each for each in schedule.stages if "serial" in schedule[each].strategies())
    *others, scanned = ("z", "x", "y") if name == "middle_axis" else ("y", "x")
    view = schedule[stage].split(scanned, 12).split(scanned + "i", 3)
    view.reorder(*others, scanned + "o", scanned + "io", scanned + "ii").bind(others[-1], "block.x")
    view.bind(scanned + "io", "thread.x")
    (variant,) = schedule.complete(ANY.machine).variants()
    nest = check_nest(lower(schedule.graph, (variant,), ANY.machine), "scalar")
    for k, n in enumerate(SIZES):
        arrays = list(inputs(np.random.default_rng(k), n, 3))
        for result, wanted in zip(interpret_nest(nest, arrays, {}, k), interpret(program, arrays), strict=True):
            np.testing.assert_array_equal(result, wanted)
        check_kernels(nest, arrays, {}, Limits(threads=4, most_threads=16), k)


def test_scans_that_share_the_threads_of_a_block_are_not_dealt_out() -> None:
    view = Schedule(form_stages(trace("scans", "every_row")), target=ANY)["scan_1"].split("y", 4).split("x", 12)
    view.split("xi", 3).reorder("yo", "xo", "yi", "xio", "xii").bind("yo", "block.x").bind("yi", "thread.y")
    with pytest.raises(ScheduleError, match="each iteration needs the one before it"):
        view.bind("xio", "thread.x")
