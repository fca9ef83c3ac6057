"""`align`: loops that start at multiples."""

from __future__ import annotations

import random

import numpy as np
import pytest
from programs import PROGRAMS
from random_schedules import check_same, random_arguments, random_state

import raido as rd
from raido.algo.errors import ScheduleError
from raido.algo.interpreter.interpret import interpret
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.printer import print_nest
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.recorded import Directive
from raido.schedule.replay import apply_directive, variant_of
from raido.schedule.stages.form_stages import form_stages


@rd.algorithm
def doubled(a: rd.i64["n"]):
    between = lambda i: a[i // 2] + a[rd.minimum(i // 2 + 1, a.shape[0] - 1)]
    twice = rd.map(lambda i: rd.where(i % 2 == 0, a[i // 2], between(i)), rd.iota(2 * a.shape[0]), name="twice")
    return rd.stencil(lambda w: w[-1] + w[0] + w[1], twice, boundary="clamp", name="out")


def nest_of(schedule):
    complete = schedule.complete(Machine())
    return lower(complete.graph, complete.variants())


@pytest.mark.parametrize("multiple", [2, 4, 6])
def test_an_aligned_stage_starts_at_a_multiple_and_needs_no_remainders(multiple):
    schedule = doubled.schedule()
    schedule["out"].split("x", 9)
    schedule["twice"].compute_at("out", "xo").align("x", multiple).unroll("x", 2)
    nest = nest_of(schedule)
    full, _, rest = print_nest(nest).partition("else:")
    assert "%" not in full and f"//{multiple}" in full and "%" in rest
    for n in (1, 2, 5, 9, 20):
        a = np.random.default_rng(n).integers(-99, 99, n)
        assert (interpret_nest(nest, [a])[0] == interpret(doubled.trace(), [a])[0]).all()


def test_an_aligned_whole_stage_counts_rounds():
    schedule = doubled.schedule()
    schedule["twice"].root().align("x", 2).unroll("x", 2)
    assert "%" not in print_nest(nest_of(schedule)).partition("produce out")[0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_aligned_stages_anywhere_change_no_result(name):
    program = PROGRAMS[name]()
    for seed in range(4):
        chance = random.Random(f"align {name} {seed}")
        state, directives = random_state(form_stages(program), chance)
        for stage in state.plans:
            for axis in state.stage(stage).axes:
                directive = Directive(stage, "align", (("axis", axis.name), ("multiple", chance.choice((2, 3, 4)))))
                try:
                    state = apply_directive(state, directive)
                except ScheduleError:
                    continue
                directives.append(directive)
        try:
            check_same(lower(state.graph, (variant_of(state),)), program, *random_arguments(program, chance))
        except Exception as error:
            raise AssertionError(f"{name}, seed {seed}, under {directives}") from error


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (lambda s: s["twice"].align("x", 2).align("x", 4), "is aligned already"),
        (lambda s: s["twice"].align("x", 1), "`multiple` is 1"),
        (lambda s: s["twice"].align("y", 2), 'no axis "y" of its own'),
        (lambda s: s["twice"].inline().align("x", 2), "inline"),
        (
            lambda s: (s["out"].split("x", 4), s["twice"].compute_at("out", "xi").store_at("out", "xo").align("x", 2)),
            "sliding window",
        ),
    ],
)
def test_refusals(said, why):
    with pytest.raises(ScheduleError) as error:
        said(doubled.schedule())
    assert why in str(error.value)


def test_a_scanned_axis_is_gone_through_as_a_whole():
    scan = rd.algorithm(lambda a: rd.scan(rd.add, 0, a, name="sums"), a=rd.i64["n"])
    with pytest.raises(ScheduleError, match="runs over the whole axis"):
        scan.schedule()["sums"].align("x", 2)
