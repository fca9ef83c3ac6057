"""Parts of strategies in spaces: their loops are choices like those of stages, are recognised, told apart, and seen by the cost model."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from space_programs import AVX512, histogram, row_sums, running, space_of

from raido.autotune.features import features_of
from raido.autotune.space import Candidate, Space, key_of
from raido.autotune.space.choices import KEEPING, LEFT_OUT, OF_GPUS, PLACING, RUNNING
from raido.autotune.space.space import stage_of
from raido.schedule.lower import lower
from raido.schedule.recorded import PART
from raido.schedule.schedule import Schedule
from raido.schedule.strategies.parts import OF_BLOCKS
from raido.schedule.strategies.plans_of_parts import DIRECTIVES
from raido.schedule.strategies.table import strategies_of

WITH_PARTS = ("running", "histogram", "kept", "divided", "row_sums")
BLOCKS = {"totals": "xo", "count": "xo", "fold": "block", "search": "block"}


def features(space: Space, candidate: Candidate) -> tuple[float, ...]:
    nest = lower(candidate.schedule.graph, candidate.schedule.variants())
    return tuple(features_of(nest, AVX512, space.sizes).tolist())


def test_parts_are_asked_for_every_directive_that_they_take() -> None:
    asked = {d for question in (*PLACING, *RUNNING, *KEEPING) if question.of_parts for d in question.directives}
    assert asked == set(DIRECTIVES) - set(LEFT_OUT) - set(OF_GPUS)


def test_every_part_of_every_strategy_is_scheduled_by_some_candidate() -> None:
    said: dict[str, set[str]] = defaultdict(set)
    parts: set[str] = set()
    for name in WITH_PARTS:
        space, rng = space_of(name), random.Random(1)
        for stage in space.schedule.graph.stages:
            parts |= {part for strategy in strategies_of(stage).values() for part in strategy.parts}
        for _ in range(320):
            for label, answer in space.sample(rng).decisions:
                stage, _, question = label.rpartition(": ")
                if PART in stage and answer not in ("default", "", 0, False):
                    said[stage.rpartition(PART)[2]].add(question.split()[0])
    assert set(said) == parts
    for part, questions in said.items():
        assert {"loops", "strip" if part == "values" else "parallel"} <= questions, part
        assert ("tile" in questions) == (part not in (*OF_BLOCKS, "values")), part
    assert all({"vector", "interleave", "grain", "dynamic"} <= said[part] for part in ("totals", "count", "check"))


@pytest.mark.parametrize("name", WITH_PARTS)
def test_parts_of_candidates_are_found_again(name: str) -> None:
    space, rng, found = space_of(name), random.Random(2), 0
    while found < 4:
        candidate = space.sample(rng)
        if not any(PART in label and answer == "own" for label, answer in candidate.decisions):
            continue
        found += 1
        again = Schedule.from_json(candidate.schedule.to_json(), candidate.schedule)
        assert again.complete(AVX512, space.sizes).directives == candidate.schedule.directives
        located = space.locate(candidate.schedule)
        assert located is not None and located.key == candidate.key


def test_a_part_said_by_hand_lies_in_the_space_and_can_be_varied() -> None:
    s = running.schedule()
    s["scan"].strategy("three_phase", block=1 << 17).vectorize("xi", interleave=2)
    s["scan"].part("totals").vectorize("xi", interleave=8).parallel("xo", dynamic=True)
    space = space_of("running")
    found = space.locate(s)
    assert found is not None
    said = dict(found.decisions)
    assert said["scan::totals: loops"] == "own"
    assert (said["scan::totals: interleave"], said["scan::totals: dynamic"]) == (8, True)
    other = space.remake(said | {"scan::totals: interleave": 4})
    assert other is not None and other.key != found.key
    assert other.schedule["scan"].plan.loops == found.schedule["scan"].plan.loops


def test_the_default_has_parts_that_can_be_varied() -> None:
    space = space_of("row_sums")
    spelled = dict(space.spell_out(space.default()).decisions)
    assert spelled["sums::fold: interleave"] == 1
    assert spelled["sums::check: tile s"] == 16384
    assert spelled["sums::search: parallel"] == "block"


def test_what_is_said_of_a_part_stays() -> None:
    s = histogram.schedule()
    s["bins"].strategy("private").part("combine").parallel("x")
    space = Space(s, AVX512, {"n": 10_000_000})
    rng = random.Random(0)
    for candidate in (space.sample(rng) for _ in range(10)):
        assert not any(label.startswith("bins::combine") for label, _ in candidate.decisions)
        assert candidate.schedule.directives[: len(s.directives)] == s.directives


def test_names_of_loops_of_parts_and_the_order_of_parts_make_no_difference() -> None:
    a, b = row_sums.schedule(), row_sums.schedule()
    a["sums"].strategy("flat").part("check").split("s", 64).parallel("so")
    a["sums"].part("search").parallel("block", grain=2)
    b["sums"].strategy("flat").part("search").parallel("block", grain=2)
    b["sums"].part("check").split("s", 64, names=("strip", "one")).parallel("strip")
    assert key_of(a.complete(AVX512)) == key_of(b.complete(AVX512))
    c = row_sums.schedule()
    c["sums"].strategy("flat").part("check").split("s", 64).parallel("so", grain=2)
    assert key_of(a.complete(AVX512)) != key_of(c.complete(AVX512))


def test_a_part_goes_with_its_stage_where_candidates_are_crossed() -> None:
    assert stage_of("scan::totals: vector") == stage_of("scan: strategy") == "scan"
    assert stage_of("tile") == "tile"


SEEN = {  # a program, a strategy, its part, and two answers of it that the model must tell apart
    "totals in lanes": ("running", "scan", "three_phase", "totals", {"interleave": 1}, {"interleave": 8}),
    "totals of a chain": ("running", "scan", "chain", "totals", {"interleave": 1}, {"interleave": 8}),
    "totals by threads": ("running", "scan", "three_phase", "totals", {"parallel": ""}, {"parallel": "xo"}),
    "count": ("kept", "kept", "count_write", "count", {"vector": "xi"}, {"vector": "", "parallel": "xo"}),
    "count of a partition": ("divided", "divided", "chain", "count", {"parallel": ""}, {"parallel": "xo"}),
    "combine": ("histogram", "bins", "private", "combine", {"vector": "", "parallel": "x"}, {"vector": "x"}),
    "check": ("row_sums", "sums", "flat", "check", {"tile s": 4096}, {"tile s": 32768}),
    "search": ("row_sums", "sums", "flat", "search", {"vector": "", "dynamic": True}, {"vector": ""}),
    "fold": ("row_sums", "sums", "flat", "fold", {"parallel": ""}, {"parallel": "block"}),
}


@pytest.mark.parametrize("case", SEEN)
def test_the_cost_model_sees_the_loops_of_parts(case: str) -> None:
    name, stage, strategy, part, first, second = SEEN[case]
    space = space_of(name)
    seen = []
    for answers in (first, second):
        said = {"parallel": BLOCKS.get(part, "")} | answers
        own = {f"{stage}::{part}: {question}": label for question, label in said.items()}
        candidate = space.remake({f"{stage}: strategy": (strategy,), f"{stage}::{part}: loops": "own"} | own)
        assert candidate is not None
        seen.append(features(space, candidate))
    assert seen[0] != seen[1]
