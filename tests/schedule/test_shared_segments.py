"""Segments shared by the threads of a block: kernels give the nest's bits in any order of threads, and no thread has much work alone."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent))
from random_kernels import check_kernels
from scheduled_programs import TABLES, trace

import raido as rd
from raido.algo.errors import ScheduleError
from raido.algo.interpreter.interpret import interpret
from raido.schedule.kernels.limits import Limits
from raido.schedule.lower import lower
from raido.schedule.machine import Gpu, Machine
from raido.schedule.nest.nodes import Nest
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages

GPU = Gpu(threads=16, along=(16, 8, 4), subgroup=4, exchange=4)
SIZES = ((0, 1), (1, 2), (5, 1), (40, 1), (40, 9), (67, 30))


def shared(name: str, block: int, threads: int, subgroup: int = 0) -> Nest:
    """The nest of a program whose blocks have so many threads."""
    schedule = Schedule(form_stages(trace("segments", name)), (), Machine(task=8, gpu=GPU))
    for stage in schedule.stages:
        if "flat" in schedule[stage].strategies():
            schedule[stage].strategy("flat", block=block)
            fold = schedule[stage].part("fold").bind("block", "block.x").split("value", threads)
            fold.bind("valuei", "thread.x", **({"subgroup": subgroup} if subgroup else {}))
            schedule[stage].part("join").parallel("block")
    complete = schedule.complete()
    return check_nest(lower(complete.graph, complete.variants(), Machine(gpu=GPU)), "scalar")


@pytest.mark.parametrize("name", ["sums", "from_a_start", "last_of_each", "smallest_and_where", "sparse_product"])
@pytest.mark.parametrize(("block", "threads", "subgroup"), [(32, 4, 0), (32, 8, 4), (6, 8, 2), (5, 3, 0)])
def test_threads_share_segments(name: str, block: int, threads: int, subgroup: int) -> None:
    nest, program = shared(name, block, threads, subgroup), trace("segments", name)
    limits = Limits(threads=4, most_threads=16, private=64, shared=4096, blocks=(3, 3, 3), resident=64, exchange=4)
    for k, (n, m) in enumerate(SIZES):
        arrays = list(TABLES["segments"][name][1](np.random.default_rng(k), n, m))
        check_kernels(nest, arrays, {}, limits, k)
        wanted = outcome(lambda: interpret(program, arrays))  # noqa: B023
        if not isinstance(wanted, type):
            for result, want in zip(interpret_nest(nest, arrays), wanted, strict=True):
                np.testing.assert_allclose(result, want, rtol=1e-5)


def outcome(run: Any) -> Any:
    try:
        return run()
    except rd.RaidoError as error:
        return type(error)


def test_defaults_share_where_threads_run_side_by_side() -> None:
    """Not on a CPU, where they would take turns."""
    for in_turn, wanted in ((False, r'bind\("valuei", "thread.x"'), (True, r'part\("fold"\).parallel\("block"\)')):
        machine = Machine(task=1 << 10, gpu=Gpu(in_turn=in_turn))
        text = str(Schedule(form_stages(trace("segments", "sums")), (), machine).complete())
        assert re.search(wanted, text), text


@pytest.mark.parametrize(
    ("say", "why"),
    [
        (lambda p: p.bind("block", "thread.x"), "can be bound to blocks of the GPU only"),
        (lambda p: p.split("value", 4).bind("valueo", "thread.x"), "can be bound to blocks of the GPU only"),
        (lambda p: p.split("block", 4), "fixes the loops of this part"),
    ],
)
def test_refusals(say: Any, why: str) -> None:
    schedule = Schedule(form_stages(trace("segments", "sums")), (), Machine(gpu=GPU))
    name = next(stage for stage in schedule.stages if "flat" in schedule[stage].strategies())
    schedule[name].strategy("flat", block=8)
    with pytest.raises(ScheduleError, match=why):
        say(schedule[name].part("fold"))
