"""Features of loops whose bounds are read from memory, against counts by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import raido as rd
from raido.schedule.cost.tree import Loop

sys.path.insert(0, str(Path(__file__).resolve().parent))

from test_features import path, tree, value

SEGMENTS = {"n": 3_000_000, "s": 75_001}  # 40 values in each, in the mean


@rd.algorithm
def segments(a: rd.f32["n"], offsets: rd.i64["s"]):
    return rd.segmented_reduce(rd.add, 0, a, offsets, name="out")


@rd.algorithm
def picked_segments(a: rd.f32["n"], i: rd.i32["n"], x: rd.f32["k"], offsets: rd.i64["s"]):
    return rd.segmented_reduce(rd.add, 0, a * rd.gather(x, i, mode="clamp"), offsets, name="out")


@rd.algorithm
def after_filter(a: rd.f32["n"]):
    return (rd.filter(lambda x: x > 0.5, a, name="kept") * 2.0).named("out")


@rd.algorithm
def histogram(i: rd.i32["n"]):
    return rd.bincount(i, 256).named("out")


def loops(root: Loop) -> list[Loop]:
    """All loops inside one."""
    return [inner for loop in root.loops for inner in (loop, *loops(loop))]


def rows(s: Any) -> None:
    s["out"].strategy("rows").root().parallel("s")


def flat(s: Any) -> None:
    s["out"].strategy("flat", block=65536).root()


def test_a_loop_along_a_segment_makes_the_mean_number_of_rounds():
    walk, traffic = tree(segments, SEGMENTS, rows)
    over, along = path(walk)
    assert (over.iterations, along.iterations, along.weight) == (75_000, 40, 1.0)
    assert along.used_lanes == pytest.approx(40 / (along.runs_of_body * along.lanes * along.interleave))
    values, offsets, results = 3_000_000 * 4, 75_001 * 8, 75_000 * 4
    assert traffic.costs[over].touched_bytes == values + offsets + 2 * results, "all segments together are the array"


def test_what_a_program_reads_along_segments_decides_their_length():
    walk, _ = tree(picked_segments, {"n": 1_000_000, "k": 500, "s": 1001}, rows)
    assert path(walk)[1].iterations == 1000, "neither the indices' range nor its extent count"


def test_threads_take_blocks_of_segments_and_each_touches_its_part_of_the_values():
    """3,075,000 values and ends in 47 blocks: 1,595.7 segments begin in each, of which the first is a border."""
    walk, traffic = tree(segments, SEGMENTS, flat)
    blocks = next(
        loop for loop in walk.root.loops if loop.kind == "parallel" and loop.iterations == 47 and len(loop.loops) == 2
    )
    inside = blocks.loops[1]
    along = inside.loops[0]
    assert (inside.iterations, along.iterations) == (1595, 40)
    assert traffic.costs[inside].touched_bytes == pytest.approx(1595 * (40 * 4 + 8 + 2 * 4), rel=1e-3)
    assert traffic.costs[blocks].touched_bytes == pytest.approx(3_000_000 * 4 + 75_001 * 8 + 2 * 75_000 * 4, rel=1e-3)


def test_one_segment_is_summed_in_the_pieces_of_the_blocks():
    walk, _ = tree(segments, {"n": 3_000_000, "s": 2}, flat)
    assert max(loop.iterations for loop in loops(walk.root)) == 65536, "as many values as a block has"


def test_lanes_over_segments_wait_for_the_longest_of_them():
    """Of lengths spread exponentially the longest of 16 is 1 + 1/2 + … + 1/16 = 3.38 times the mean; lanes along each are no more."""
    walk, _ = tree(segments, SEGMENTS, lambda s: s["out"].strategy("rows").root().vectorize("s", lanes=16))
    over, along = path(walk)
    assert (over.kind, over.lanes, along.kind) == ("vector", 16, "serial")
    assert along.iterations == 40 and along.runs_of_body == pytest.approx(40 * 3.3807, rel=1e-4)
    assert along.loads[4] > 0 and along.loads[2] == along.loads[3] == 0, "each lane reads at a place of its own"


def test_schedules_of_the_rounds_along_segments_differ():
    lanes = lambda s: s["out"].strategy("rows").root().vectorize("s", lanes=16)
    assert value(segments, SEGMENTS, rows, "estimate") < value(segments, SEGMENTS, lanes, "estimate") - 2


def test_half_of_what_is_filtered_is_taken_to_be_kept():
    walk, _ = tree(
        after_filter, {"n": 1_000_000}, lambda s: s["out"].root().split("x", 10_000).parallel("xo").vectorize("xi")
    )
    over, inside = next([loop, *loop.loops] for loop in walk.root.loops if loop.iterations == 50)
    assert (over.kind, inside.iterations) == ("parallel", 10_000)


def test_updates_by_lanes_that_may_meet_are_made_one_after_the_other():
    one = lambda s: s["out"].strategy("private", replicas=4).root()
    lanes = lambda s: s["out"].strategy("private", replicas=4).root().vectorize("r", interleave=4)
    sizes = {"n": 10_000_000}
    assert value(histogram, sizes, lanes, "estimate") > value(histogram, sizes, one, "estimate")
    updates = [loop for loop in loops(tree(histogram, sizes, lanes)[0].root) if loop.stores[4]]
    gang = [loop.lanes * loop.interleave for loop in updates]
    assert updates and all(loop.cycles > 20 * many / 4 for loop, many in zip(updates, gang, strict=True)), (
        "a quarter is in range"
    )
