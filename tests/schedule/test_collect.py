"""Reductions by exchange between threads: the bits of the tree in shared memory, and fewer barriers."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from block_schedules import Directives, bound
from programs import PROGRAMS
from random_schedules import random_arguments

import raido as rd
from raido.algo.errors import ScheduleError
from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Op, fresh
from raido.schedule.kernels.limits import limits_of
from raido.schedule.kernels.outlining import outline_kernels
from raido.schedule.lower import lower
from raido.schedule.machine import Gpu, Machine
from raido.schedule.nest.nodes import Barrier, Block, Exchange, If, Nest
from raido.schedule.nest.walk import statements_within
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest, sizes_of
from raido.schedule.oracles.interpret_kernels import interpret_program
from raido.schedule.oracles.memory import NestError
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages

GPU = Gpu(threads=64, along=(64, 8, 4), subgroup=4, exchange=4)
ROWS = [
    ("s", "split", {"axis": "r", "factor": 8}),
    ("s", "split", {"axis": "x", "factor": 3}),
    ("s", "reorder", {"axes": ("xo", "ri", "xi", "ro")}),
    ("s", "bind", {"axis": "xo", "place": "block.x"}),
    ("s", "bind", {"axis": "xi", "place": "thread.y"}),
]
PIECES = [
    ("best", "split", {"axis": "r", "factor": 14}),
    ("best", "split", {"axis": "ri", "factor": 2}),
    ("best", "bind", {"axis": "ro", "place": "block.x"}),
]
CASES: dict[str, tuple[str, Directives, str, str]] = {
    "rows": ("row_sums", ROWS, "s", "ri"),
    "pieces in order": ("argmin", PIECES, "best", "rio"),
}


def with_subgroups(case: str, subgroup: int) -> Nest:
    """The nest of a case, whose threads combine so many parts among themselves."""
    name, steps, stage, axis = CASES[case]
    bind = (stage, "bind", {"axis": axis, "place": "thread.x", "subgroup": subgroup})
    return check_nest(bound(PROGRAMS[name](), [*steps, bind], {}, GPU), "scalar")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("subgroup", (2, 4))
def test_parts_are_combined_in_the_order_of_the_tree(case: str, subgroup: int) -> None:
    program = PROGRAMS[CASES[case][0]]()
    nests = [with_subgroups(case, width) for width in (0, subgroup)]
    devices = [outline_kernels(nest, limits_of(GPU)) for nest in nests]
    kinds = [[type(s) for k in each.kernels for s in statements_within(k.body)] for each in devices]
    assert Exchange not in kinds[0] and Exchange in kinds[1]
    assert kinds[1].count(Barrier) < kinds[0].count(Barrier)
    for seed in range(6):
        arrays, sizes = random_arguments(program, random.Random(seed))
        want = interpret_nest(nests[0], arrays, sizes)
        known = sizes_of(nests[0], arrays, sizes)
        others = [interpret_program(each, arrays, known, seed=seed) for each in devices]
        for got in (interpret_nest(nests[1], arrays, sizes, seed), *others):
            for result, wanted in zip(got, want, strict=True):
                np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"axis": "ri", "subgroup": 3}, "a power of two, not 3"),
        ({"axis": "ri", "subgroup": 8}, "at most 4 threads can exchange values"),
        ({"axis": "x", "subgroup": 4}, '"x" is not a loop of a reduction'),
        ({"axis": "ri", "subgroup": 4, "place": "thread.y"}, 'neighbours along "thread.x", not "thread.y"'),
    ],
)
def test_threads_that_cannot_hand_each_other_parts_are_refused(arguments: dict[str, Any], why: str) -> None:
    bind = ("s", "bind", {"place": "thread.x", **arguments})
    with pytest.raises(ScheduleError, match=why):
        bound(PROGRAMS["row_sums"](), [ROWS[0], bind], {}, GPU)


def test_half_a_subgroup_cannot_exchange_values() -> None:
    nest = with_subgroups("rows", 4)
    program = outline_kernels(nest, limits_of(GPU))
    (kernel,) = program.kernels
    few = Op("lt", bool_, (kernel.threads[0], ix.as_index(2)))
    exchange = Exchange((fresh("other"),), (kernel.threads[0],), 1, 4)
    broken = replace(program, kernels=(replace(kernel, body=Block((If(few, Block((exchange,))),))),))
    arrays, sizes = random_arguments(PROGRAMS["row_sums"](), random.Random(1))
    with pytest.raises(NestError, match="some threads of a subgroup of s_xo exchange values, and others do not"):
        interpret_program(broken, arrays, sizes_of(nest, arrays, sizes))


@rd.algorithm
def recurrence(a: rd.i64["n"], b: rd.i64["n"]):
    """x[i] = a[i] * x[i − 1] + b[i]: the order matters."""
    return rd.scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (1, 0), a, b, name="s")[1]


def scanned_by(threads: int, subgroup: int) -> Nest:
    """Two elements for each of so many threads, of which so many scan their parts among themselves."""
    schedule = Schedule(form_stages(recurrence.trace()), (), Machine(gpu=GPU))
    schedule["s"].strategy("three_phase", block=2 * threads).split("xi", 2).bind("xo", "block.x")
    schedule["s"].bind("xio", "thread.x", subgroup=subgroup)
    complete = schedule.complete()
    return check_nest(lower(complete.graph, complete.variants(), Machine(gpu=GPU)), "scalar")


@pytest.mark.parametrize(("threads", "subgroup"), [(4, 4), (16, 4), (64, 4), (6, 2), (3, 4)])
def test_prefixes_are_collected_in_order(threads: int, subgroup: int) -> None:
    """By one subgroup, a few whose totals each thread folds, and so many that those are scanned; on a device that exchanges nothing, too."""
    nest = scanned_by(threads, subgroup)
    devices = [outline_kernels(nest, limits) for limits in (limits_of(GPU), replace(limits_of(GPU), exchange=0))]
    kinds = [[type(s) for k in each.kernels for s in statements_within(k.body)] for each in devices]
    assert Exchange in kinds[0] and Exchange not in kinds[1]
    barriers = [
        type(s) for k in outline_kernels(scanned_by(threads, 0)).kernels for s in statements_within(k.body)
    ].count(Barrier)
    assert kinds[0].count(Barrier) < barriers or threads == subgroup * 16 or threads == 3
    for n in (1, 2, 2 * threads - 1, 5 * threads):
        draw = np.random.default_rng(n)
        arrays = [draw.integers(-3, 3, n), draw.integers(-3, 3, n)]
        want, known = recurrence.interpret(*arrays), sizes_of(nest, arrays, {})
        np.testing.assert_array_equal(interpret_nest(nest, arrays, known, seed=n)[0], want)
        for device in devices:
            np.testing.assert_array_equal(interpret_program(device, arrays, known, seed=n)[0], want)
