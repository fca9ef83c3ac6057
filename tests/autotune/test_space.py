"""Spaces of schedules: their content, all of it legal and equivalent, and equal candidates are one."""

from __future__ import annotations

import random
import sys
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent / "schedule"))  # graphs by hand, and the law of schedules
from programs import PROGRAMS as GRAPHS
from random_schedules import check_same, random_arguments
from space_programs import AVX512, IMAGE, PROGRAMS, blur, gauss, jacobi, map_and_sum, running, sgemm, space_of

import raido as rd
from raido.algo.errors import ScheduleError
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import const
from raido.autotune.space import Candidate, Space, key_of
from raido.autotune.space.choices import KEEPING, LEFT_OUT, OF_GPUS, PLACING, RUNNING
from raido.autotune.space.factors import factors
from raido.autotune.space.identity import plans_shape
from raido.autotune.space.space import stage_of
from raido.schedule.directives import RULES
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.plan import At, Branch, Inline, Prefetch, Split
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.schedule.state import plain_plan

EVERY = [question for group in (PLACING, RUNNING, KEEPING) for question in group]


def sampled(space: Space, count: int, seed: int = 0) -> list[Candidate]:
    rng = random.Random(seed)
    return [space.sample(rng) for _ in range(count)]


# What is in a space


def test_every_directive_is_asked_for_once_or_left_out_for_a_reason() -> None:
    asked = [directive for question in EVERY for directive in question.directives]
    assert len(asked) == len(set(asked))
    assert set(asked).isdisjoint(LEFT_OUT)
    assert {*asked, *LEFT_OUT} == set(RULES), "a directive joins the space by a row in autotune/space/choices.py"
    assert all(LEFT_OUT.values())


def test_every_directive_is_said_by_some_candidate() -> None:
    said: set[str] = set()
    for name in PROGRAMS:
        rng, space = random.Random(1), space_of(name)
        for _ in range(150):
            candidate = space.sample(rng)
            said |= {directive.name for directive in candidate.schedule.directives}
            if said >= set(RULES) - set(LEFT_OUT) - set(OF_GPUS):
                return
    assert said >= set(RULES) - set(LEFT_OUT) - set(OF_GPUS), set(RULES) - said


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_default_schedule_is_the_first_point(name: str) -> None:
    space = space_of(name)
    default = space.default()
    assert default.schedule == space.schedule.complete(AVX512, space.sizes)
    assert next(space.grid()).schedule == default.schedule
    assert all(label in ("default", "", 0, False) for _, label in default.decisions)


def test_what_a_schedule_says_already_stays() -> None:
    s = blur.schedule()
    s["cols"].tile(y=48, x=96).vectorize("xi").parallel("yo")
    space = Space(s, AVX512, IMAGE)
    candidates = sampled(space, 20)
    assert all(candidate.schedule.directives[: len(s.directives)] == s.directives for candidate in candidates)
    assert not any(name == "cols: loops" for candidate in candidates for name, _ in candidate.decisions)
    assert len({candidate.key for candidate in candidates}) > 10


def test_branches_on_sizes_stay() -> None:
    s = jacobi.schedule()
    s.when("w % 16 == 0")["out"].vectorize("x", 16)
    space = Space(s, AVX512, IMAGE)
    for candidate in sampled(space, 5):
        assert candidate.schedule.directives[0].name == "when"
        assert len(candidate.schedule.variants()) == 2


def test_the_questions_and_the_size_of_a_space_are_known() -> None:
    space = Space(jacobi.schedule(), AVX512, IMAGE)
    decisions = {decision.name: decision.options for decision in space.decisions}
    assert decisions["out: loops"] == ("default", "own")
    assert {8, 16, 32, 64} <= set(decisions["out: tile y"])
    assert set(decisions["out: vector"]) == {"x", "y", ""}
    assert space.size > 1_000_000
    assert Space(jacobi.schedule(), AVX512, IMAGE).size == space.size


def test_factors_are_powers_of_two_what_lies_between_and_divisors() -> None:
    assert list(factors(1000, 16, 40)) == [16, 20, 24, 25, 32, 40]
    assert factors(1000, 16, 40)[25] == 1.0 > factors(1000, 16, 40)[24]
    assert factors(7, 8, 64) == {}


# Legal, and of the same meaning


@pytest.mark.parametrize("name", PROGRAMS)
def test_candidates_are_complete_and_legal_and_travel_as_json(name: str) -> None:
    space = space_of(name)
    for candidate in sampled(space, 4):
        schedule = candidate.schedule
        again = Schedule(schedule.graph, schedule.directives)  # replays every step, with every check
        assert again.complete(AVX512, space.sizes).directives == schedule.directives
        assert key_of(again) == candidate.key
        assert Schedule.from_json(schedule.to_json(), schedule).directives == schedule.directives


@pytest.mark.parametrize("name", GRAPHS)
def test_no_candidate_changes_a_result(name: str) -> None:
    program = GRAPHS[name]()
    space = Space(Schedule(form_stages(program)), Machine(vector_bits=128), {})
    for seed, candidate in enumerate(sampled(space, 2)):
        try:
            nest = lower(candidate.schedule.graph, candidate.schedule.variants())
        except ScheduleError as error:
            assert "in scope" in str(error)  # known only when regions are
            continue
        check_same(nest, program, *random_arguments(program, random.Random(seed)))


# Moving about


def test_the_same_seed_draws_the_same_candidates() -> None:
    first, second = ([c.key for c in sampled(space_of("blur"), 12, seed=5)] for _ in range(2))
    assert first == second
    assert len(set(first)) > 9


@pytest.mark.parametrize("name", ["blur", "sgemm", "running"])
def test_a_mutation_changes_an_answer_and_the_schedule(name: str) -> None:
    space, rng = space_of(name), random.Random(3)
    candidate = space.sample(rng)
    for _ in range(20):
        mutant = space.mutate(candidate, rng)
        assert mutant.key != candidate.key
        assert dict(mutant.decisions) != dict(candidate.decisions)
        candidate = mutant


def test_a_number_often_moves_to_one_beside_it() -> None:
    space, rng = Space(jacobi.schedule(), AVX512, IMAGE), random.Random(0)
    start = space.remake({"out: loops": "own", "out: tile y": 32})
    assert start is not None
    tiles = [dict(space.mutate(start, rng).decisions).get("out: tile y") for _ in range(200)]
    moved = [tile for tile in tiles if tile not in (32, None)]
    assert sum(tile in (24, 40) for tile in moved) > len(moved) / 3


def test_a_child_has_each_stage_from_one_parent() -> None:
    space, rng = space_of("blur"), random.Random(2)
    for _ in range(10):
        a, b = space.sample(rng), space.sample(rng)
        child = space.cross(a, b, rng)
        for stage in ("rows", "cols"):
            own = {name: label for name, label in child.decisions if stage_of(name) == stage}
            shared = [sum(own.get(n) == v for n, v in p.decisions if stage_of(n) == stage) for p in (a, b)]
            assert max(shared) >= 1


def test_the_grid_visits_each_candidate_once_nearest_to_the_default_first() -> None:
    space = Space(running.schedule(), AVX512, {"n": 10_000_000})
    found = list(islice(space.grid(), 60))
    assert len({candidate.key for candidate in found}) == 60
    departures = [sum(label not in ("default", "", 0, False) for _, label in c.decisions) for c in found[:20]]
    assert departures[0] == 0 and max(departures[1:8]) <= 4


# When two are one


def test_names_of_loops_and_the_order_of_saying_make_no_difference() -> None:
    a = blur.schedule()
    a["cols"].split("y", 64).split("yi", 4, names=("ym", "yr")).reorder("ym", "x", "yr").unroll("yr")
    b = blur.schedule()
    b["cols"].split("y", 64, names=("a", "b")).split("b", 4).reorder("bo", "x", "bi").unroll("bi")
    assert key_of(a.complete(AVX512)) == key_of(b.complete(AVX512))
    c = blur.schedule()
    c["cols"].split("y", 64).split("yi", 8, names=("ym", "yr")).reorder("ym", "x", "yr").unroll("yr")
    assert key_of(a.complete(AVX512)) != key_of(c.complete(AVX512))


def test_what_the_default_would_say_may_be_said() -> None:
    said = jacobi.schedule()
    said["out"].root()
    assert key_of(said.complete(AVX512, IMAGE)) == Space(jacobi.schedule(), AVX512, IMAGE).default().key
    assert key_of(jacobi.schedule().complete(AVX512)) != key_of(blur.schedule().complete(AVX512))


# Holes


def test_holes_are_the_space() -> None:
    s = blur.schedule()
    s["cols"].tile(y=rd.choose("ty", [16, 32, 64]), x=512)
    s.choose(
        "place",
        near=lambda s: s["rows"].compute_at("cols", rd.choose("at", ["yo", "xo"])),
        far=lambda s: s["rows"].root(),
    )
    space = Space(s, AVX512, IMAGE)
    assert {d.name: d.options for d in space.decisions} == {
        "ty": (16, 32, 64),
        "place": ("near", "far"),
        "at": ("yo", "xo"),
    }
    assert space.size == 12
    found = list(space.grid())
    assert len(found) == 9  # `at` is no question where `place` is "far"
    assert space.default().decisions == (("ty", 16), ("place", "near"), ("at", "yo"))
    assert {c.key for c in sampled(space, 60)} == {c.key for c in found}
    assert space.locate(s.with_(ty=32, place="far")) in found


def test_fillings_that_the_rules_refuse_are_no_candidates() -> None:
    s = sgemm.schedule()
    s["c"].split("r", rd.choose("n", [4, 400])).reorder("ro", "y", "x", "ri").unroll(rd.choose("axis", ["ri", "x"]))
    space = Space(s, AVX512, {})
    with pytest.raises(ScheduleError):
        s.with_(n=400, axis="ri")
    assert {tuple(label for _, label in c.decisions) for c in space.grid()} == {(4, "ri")}
    assert {c.key for c in sampled(space, 5)} == {space.default().key}


def test_a_candidate_takes_some_thousand_calls_for_each_stage() -> None:
    """Functions that are called, which on every machine are as many: about 8,000 for each of two stages, which take some 3 ms."""
    space, rng = Space(gauss.schedule(), AVX512, IMAGE), random.Random(0)
    space.sample(rng)
    calls = 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        for _ in range(20):
            space.sample(rng)
    finally:
        sys.setprofile(None)
    assert 100 < calls / 20 / 2 < 20_000


def test_a_guest_of_a_stage_whose_loops_are_its_own() -> None:
    space = Space(map_and_sum.schedule(), AVX512, {"n": 1_000_000})
    made = space.remake({"sum: place": "with y", "y: loops": "own", "y: tile x": 4096})
    assert made is not None
    assert made.schedule["sum"].plan.compute_with is not None


def test_no_part_of_a_plan_is_left_out_of_what_tells_schedules_apart() -> None:
    plan = plain_plan(Schedule(form_stages(blur.trace())).state.stage("cols"))
    other = {
        "relations": (Split("x", "xo", "xi", 4),),
        "loops": plan.loops[:1],
        "compute": Inline(),
        "store": At("cols", "y"),
        "compute_with": At("cols", "y"),
        "partition": ("x",),
        "stream_stores": 0,
        "prefetches": (Prefetch("img", "y", 2),),
        "aligned": (("x", 4),),
        "layout": ("x", "y"),
        "scope": "heap",
        "pad": 3,
        "buffers": 2,
        "strategy": ("serial", ()),
        "parts": (replace(plan, stage="cols::part"),),
        "instead": (Branch("x > 4", const(bool_, True), plan),),
    }
    assert {"stage", *other} == {field.name for field in fields(plan)}
    for name, value in other.items():
        assert plans_shape({"cols": plan}) != plans_shape({"cols": replace(plan, **{name: value})}), name
