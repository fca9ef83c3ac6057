"""Refusals in schedules of scans, updates and filters: the whole text, against `strategy_refusals.txt` (run this file to write it anew)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import golden
import pytest

import raido as rd
from raido.algo.errors import ScheduleError
from raido.schedule.machine import Gpu, Machine
from raido.schedule.schedule import Schedule

GOLDEN = Path(__file__).with_name("strategy_refusals.txt")


@rd.algorithm
def table(a: rd.f32["h", "w"]):
    smooth = rd.stencil(lambda p: p[0, -1] + p[0, 1], a, boundary="clamp", name="smooth")
    sums = rd.scan(rd.add, 0, smooth, axis=1, name="sums")
    return rd.stencil(lambda p: p[-1, 0] + p[0, 1], sums, boundary="clamp", name="out")


@rd.algorithm
def rows_together(a: rd.f32["h", 4]):
    return rd.scan(rd.add, 0, a, axis=0, name="sums")


@rd.algorithm
def line(a: rd.f32["n"]):
    return rd.scan(rd.add, 0, a, name="sums")


@rd.algorithm
def last_positive(a: rd.i32["n"]):
    return rd.scan(lambda p, q: rd.cond(q > 0, lambda: q, lambda: p), 0, a, name="sums")


@rd.algorithm
def columns(a: rd.f32["h", "w"]):
    return rd.scan(rd.add, 0, a, axis=0, name="sums")


@rd.algorithm
def in_order(a: rd.f32["h", "w"]):
    return rd.sort(a, axis=1, name="rows")


def lanes_around(s: Schedule) -> None:
    s["sums"].strategy("three_phase").part("totals").vectorize("yi")
    s["sums"].vectorize("x")


@rd.algorithm
def histogram(bins: rd.i64["n"], rows: rd.f32["n", "k"]):
    start = rd.tabulate((10, rows.shape[1]), lambda i, j: rd.f32(i), name="start")
    return rd.reduce_by_index(start, rd.add, 0, bins, rows, name="bins")


@rd.algorithm
def nearest(i: rd.i64["n"], v: rd.i64["n"]):
    def nearer(p, q):
        return rd.where(p[0] < q[0], p[0], q[0]), rd.where(p[0] < q[0], p[1], q[1])

    start = (rd.full(5, rd.i64(100)), rd.full(5, rd.i64(0)))
    return rd.reduce_by_index(start, nearer, (100, 0), i, v, v * 2, name="bins")


@rd.algorithm
def branching(d: rd.i32["m"], i: rd.i64["n"], v: rd.i32["n"]):
    power = lambda p, q: rd.loop(1, lambda _, s: s * q, p)
    return rd.reduce_by_index(d, power, 1, i, v, name="bins")


@rd.algorithm
def dividing(d: rd.i32["m"], i: rd.i64["n"], v: rd.i32["n"]):
    return rd.reduce_by_index(d, lambda p, q: p // q, 1, i, v, name="bins")


@rd.algorithm
def after_others(d: rd.i64["n"], i: rd.i64["k"]):
    first = (d * 3).named("first")
    return rd.scatter((first + 1).named("more"), i, first[0] + i, name="put")


@rd.algorithm
def last(d: rd.i32["m"], i: rd.i64["n"], v: rd.i32["n"]):
    return rd.scatter(d, i, v, name="put")


@rd.algorithm
def kept(a: rd.f32["n", "m"]):
    return rd.filter(lambda row: row[0] > 0, a, name="rows")


@rd.algorithm
def used(a: rd.f32["n"]):
    rows = rd.filter(lambda x: x > 0, a, name="rows")
    return rd.map(lambda x: x * 2, rows, name="double"), rows


@rd.algorithm
def segments(v: rd.f32["n", "w"], offsets: rd.i64["k"]):
    sums = rd.segmented_reduce(rd.add, 0, v, offsets, name="sums")
    return rd.map(lambda row: rd.sum(row), sums, name="out")


@rd.algorithm
def quotients(v: rd.f32["n"], offsets: rd.i64["k"]):
    return rd.segmented_reduce(lambda p, q: p + q - p * q, 0, v, offsets, name="sums")


CASES: dict[str, tuple[rd.Algorithm, Callable[[Schedule], object]]] = {
    "unknown strategy": (line, lambda s: s["sums"].strategy("private")),
    "unknown number": (line, lambda s: s["sums"].strategy("chain", blocks=128)),
    "a number for a strategy without": (line, lambda s: s["sums"].strategy("serial", block=128)),
    "a block of nothing": (line, lambda s: s["sums"].strategy("chain", block=0)),
    "a strategy twice": (line, lambda s: s["sums"].strategy("serial").strategy("chain")),
    "a chain on a GPU": (line, lambda s: Schedule(s.graph, (), Machine(gpu=Gpu()))["sums"].strategy("chain")),
    "pieces of rows for threads": (
        rows_together,
        lambda s: (
            Schedule(s.graph, (), Machine(gpu=Gpu()))["sums"]
            .strategy("three_phase", block=64)
            .split("yi", 4)
            .bind("yo", "block.x")
            .bind("yio", "thread.x")
        ),
    ),
    "a strategy after loops": (line, lambda s: s["sums"].vectorize("x").strategy("chain")),
    "threads along a scan": (line, lambda s: s["sums"].parallel("x")),
    "lanes over blocks that are scanned": (line, lambda s: s["sums"].split("x", 64).vectorize("xo")),
    "lanes over a fused loop along a scan": (
        line,
        lambda s: s["sums"].split("x", 64).fuse("xo", "xi").vectorize("xoxi"),
    ),
    "lanes over steps whose last wins": (last, lambda s: s["put"].split("r", 8).vectorize("ro")),
    "another order of steps whose last wins": (last, lambda s: s["put"].split("r", 8).reorder("ri", "ro")),
    "lanes of an operator with a branch": (last_positive, lambda s: s["sums"].vectorize("x")),
    "totals in lanes of an operator with a branch": (
        last_positive,
        lambda s: s["sums"].strategy("three_phase").part("totals").vectorize("xi"),
    ),
    "another order along a scan": (line, lambda s: s["sums"].split("x", 64).reorder("xi", "xo")),
    "overlap along a scan": (line, lambda s: s["sums"].split("x", 64).tail("xi", "shift")),
    "inline a scan": (table, lambda s: s["sums"].inline()),
    "a scan in iterations along it": (table, lambda s: s["sums"].compute_at("out", "x")),
    "share the loops of a scan": (table, lambda s: s["sums"].compute_with("smooth", "y")),
    "blocks by threads in threads": (table, lambda s: s["sums"].strategy("chain", block=64).parallel("y")),
    "keep values over what runs twice": (
        table,
        lambda s: (s["sums"].strategy("chain", block=64), s["smooth"].compute_at("sums", "xi").store_at("sums", "y")),
    ),
    "threads over steps that may meet": (histogram, lambda s: s["bins"].parallel("r")),
    "threads over steps whose last wins": (last, lambda s: s["put"].parallel("r")),
    "bins around their steps": (histogram, lambda s: s["bins"].reorder("y", "r", "x")),
    "bins and rows as one loop": (histogram, lambda s: s["bins"].fuse("y", "x")),
    "what steps read, in the iterations of bins": (histogram, lambda s: s["bins"].cache("rows", "bins", "y")),
    "indivisible sums of floats": (histogram, lambda s: s["bins"].strategy("atomic")),
    "indivisible steps of several values": (nearest, lambda s: s["bins"].strategy("atomic")),
    "indivisible steps that branch": (branching, lambda s: s["bins"].strategy("atomic")),
    "indivisible steps that can fault": (dividing, lambda s: s["bins"].strategy("atomic")),
    "lanes over steps that are sorted": (last, lambda s: s["put"].strategy("sorted").split("r", 8).vectorize("ri")),
    "rows of steps that are sorted": (histogram, lambda s: s["bins"].strategy("sorted")),
    "rows around blocks of segments": (segments, lambda s: s["sums"].strategy("flat")),
    "threads over segments in blocks": (
        segments,
        lambda s: s["sums"].reorder("x", "s").strategy("flat").parallel("s"),
    ),
    "blocks of segments in iterations along them": (
        segments,
        lambda s: s["sums"].reorder("x", "s").strategy("flat").compute_at("out", "x"),
    ),
    "what a segment reads, in blocks": (
        segments,
        lambda s: s["sums"].reorder("x", "s").strategy("flat").cache("v", "sums", "s"),
    ),
    "lanes around blocks of segments": (
        segments,
        lambda s: s["sums"].reorder("x", "s").vectorize("x").strategy("flat"),
    ),
    "threads inside a segment": (segments, lambda s: s["sums"].strategy("rows").part("fold").parallel("value")),
    "lanes of a segment inside lanes": (
        segments,
        lambda s: s["sums"].strategy("rows").vectorize("x").part("fold").vectorize("value"),
    ),
    "lanes of an operator without an identity": (
        quotients,
        lambda s: s["sums"].strategy("rows").part("fold").vectorize("value"),
    ),
    "a part of no strategy": (histogram, lambda s: s["bins"].part("combine")),
    "a part of a stage without strategies": (table, lambda s: s["out"].part("combine")),
    "values of rows in lanes": (
        histogram,
        lambda s: s["bins"].strategy("serial").part("values").split("step", 8).vectorize("stepi"),
    ),
    "values by threads": (last, lambda s: s["put"].strategy("serial").part("values").parallel("step")),
    "values in lanes of lanes": (
        last,
        lambda s: s["put"].strategy("serial").vectorize("r").part("values").split("step", 8).vectorize("stepi"),
    ),
    "values in lanes on a GPU": (
        last,
        lambda s: (
            Schedule(s.graph, (), Machine(gpu=Gpu()))["put"]
            .strategy("serial")
            .part("values")
            .split("step", 8)
            .vectorize("stepi")
        ),
    ),
    "a part that is not there": (histogram, lambda s: s["bins"].strategy("private").part("split")),
    "a place for a part": (histogram, lambda s: s["bins"].strategy("private").part("combine").root()),
    "lanes twice in a part": (
        histogram,
        lambda s: s["bins"].strategy("private").part("combine").vectorize("x").vectorize("y"),
    ),
    "lanes over ranges of bins": (last, lambda s: s["put"].strategy("sorted").part("ranges").vectorize("range")),
    "a part of another strategy": (line, lambda s: s["sums"].strategy("chain").part("combine")),
    "threads inside a block": (line, lambda s: s["sums"].strategy("three_phase").part("totals").parallel("xi")),
    "threads over blocks that are chained": (line, lambda s: s["sums"].strategy("chain").part("totals").parallel("xi")),
    "lanes over blocks": (line, lambda s: s["sums"].strategy("three_phase").part("totals").vectorize("xo")),
    "blocks of blocks": (kept, lambda s: s["rows"].strategy("count_write").part("count").split("yo", 2)),
    "an axis that a part has not": (kept, lambda s: s["rows"].strategy("count_write").part("count").parallel("y")),
    "lanes of a total inside lanes": (
        columns,
        lambda s: s["sums"].strategy("three_phase").vectorize("x").part("totals").vectorize("yi"),
    ),
    "lanes around lanes of a total": (columns, lanes_around),
    "a truth that is a number": (histogram, lambda s: s["bins"].strategy("atomic", reproducible=0)),
    "private bins for writes": (last, lambda s: s["put"].strategy("private")),
    "threads along a filter": (kept, lambda s: s["rows"].parallel("y")),
    "lanes along rows that are kept": (kept, lambda s: s["rows"].vectorize("y")),
    "rows outside of what is kept": (kept, lambda s: s["rows"].reorder("x", "y")),
    "a second filter for one reader": (used, lambda s: s["rows"].clone("double")),
    "lanes along digits": (in_order, lambda s: s["rows"].strategy("radix").vectorize("x")),
    "threads along a sort": (in_order, lambda s: s["rows"].strategy("quicksort").parallel("x")),
    "lanes across sorts": (in_order, lambda s: s["rows"].strategy("quicksort").vectorize("y")),
    "steps that begin with it by way of an inlined one": (
        after_others,
        lambda s: (s["more"].inline(), s["first"].compute_at("put", "r")),
    ),
    "shared memory of a CPU": (used, lambda s: s["rows"].strategy("chain", staged=True)),
    "parts of nothing": (in_order, lambda s: s["rows"].strategy("quicksort", ranked=0)),
    "what decides, in the iterations of a row": (kept, lambda s: s["rows"].cache("a", "rows", "x")),
}


def message(name: str) -> str:
    """The text of the error that a case raises, without lines; what was accepted before must still replay."""
    algorithm, act = CASES[name]
    s = algorithm.schedule()
    with pytest.raises(ScheduleError) as caught:
        act(s)
    assert s.copy() == s
    return re.sub(r"\S*test_strategy_refusals\.py:\d+", "test_strategy_refusals.py:1", str(caught.value))


@pytest.mark.parametrize("name", CASES)
def test_refusal(name):
    assert message(name) == golden.read(GOLDEN).get(name)


def test_no_golden_text_is_left_over():
    assert set(golden.read(GOLDEN)) == set(CASES)


if __name__ == "__main__":
    golden.write(
        GOLDEN,
        "Every refusal of a strategy; written by test_strategy_refusals.py.",
        {name: message(name) for name in CASES},
    )
