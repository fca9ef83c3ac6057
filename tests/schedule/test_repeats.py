"""`show()` names the stages that a schedule computes more than twice over, and none for default schedules."""

from __future__ import annotations

import pytest

import raido as rd
from raido.schedule.lower import lower
from raido.schedule.repeats import repeats


@rd.algorithm
def blur(img: rd.f32["h", "w"]):
    rows = rd.stencil(lambda p: p[0, -1] + p[0, 0] + p[0, 1], img, boundary="clamp", name="rows")
    return rd.stencil(lambda p: p[-1, 0] + p[0, 0] + p[1, 0], rows, boundary="clamp", name="cols")


@rd.algorithm
def twice_multiplied(a: rd.f32["n", "n"], x: rd.f32["n"]):
    y = rd.map(lambda row: rd.sum(row * x), a, name="y")
    return rd.map(lambda row: rd.sum(row * y), a, name="z")


@rd.algorithm
def relaxed(a: rd.f32["n", "n"]):
    def step(i, u):
        rows = rd.stencil(lambda p: p[0, -1] + p[0, 1], u, boundary="clamp", name="rows")
        return rd.stencil(lambda p: p[-1, 0] + p[1, 0], rows, boundary="clamp", name="cols")

    return rd.loop(50, step, a)


def times(schedule: rd.Schedule) -> dict[str, float]:
    complete = schedule.complete()
    variants = complete.variants()
    found = repeats(lower(complete.graph, variants), complete.graph.stages, variants)
    return {each.stage: round(each.times, 2) for each in found}


def test_rows_made_for_each_row_that_reads_them() -> None:
    schedule = blur.schedule()
    schedule["rows"].compute_at("cols", "y")
    assert times(schedule) == {"rows": 3.0}
    assert '# "rows" is computed 3.0 times' in schedule.nest_text()


def test_strips_and_kept_rows_are_no_repetition() -> None:
    row_tiles = blur.schedule()
    row_tiles["cols"].split("y", 32)
    row_tiles["rows"].compute_at("cols", "yo")
    kept = blur.schedule()
    kept["rows"].compute_at("cols", "y").store_at("cols")
    assert times(row_tiles) == times(kept) == {}


def test_sums_made_in_the_loop_of_another_sum() -> None:
    schedule = twice_multiplied.schedule()
    schedule["y"].compute_at("z", "r")
    assert times(schedule) == {"y": 1024.0}


def test_rounds_of_array_loops_do_not_count() -> None:
    schedule = relaxed.schedule()
    assert times(schedule) == {}
    schedule["loop_1/rows"].compute_at("loop_1/cols", "y")
    assert times(schedule) == {"loop_1/rows": 3.0}


@pytest.mark.parametrize("algorithm", [blur, twice_multiplied, relaxed])
def test_default_schedules_repeat_nothing(algorithm: rd.Algorithm) -> None:
    assert times(algorithm.schedule()) == {}
