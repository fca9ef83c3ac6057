"""The cost model's number of rows in a register tile of a stencil: the terms by hand, the choice, and estimates without jumps."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import raido as rd
from raido.algo.graph import index
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Expr, Var
from raido.schedule.cost.rows import Rows, Work, affine_of, description
from raido.schedule.cost.streams import may_be_streamed
from raido.schedule.machine import Machine
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.targets.target import CPUS

Y, X = Var("y", i64, 0), Var("x", i64, 1)
CROSS = ((0, 0), (0, -1), (0, 1), (-1, 0), (1, 0))
INTEL = CPUS["sapphirerapids"].machine


@rd.algorithm
def sweep(a: rd.f32["h", "w"]):
    return rd.stencil(lambda p: sum((p[t] for t in CROSS[1:]), p[0, 0]) * 0.2, a, boundary="clamp", name="out")


@rd.algorithm
def corners(a: rd.f32["h", "w"]):
    dx = rd.stencil(lambda p: p[-1, 1] - p[-1, -1] + p[1, 1] - p[1, -1], a, boundary="clamp", name="dx")
    dy = rd.stencil(lambda p: p[1, -1] - p[-1, -1] + p[1, 1] - p[-1, 1], a, boundary="clamp", name="dy")
    around = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    taps = lambda p, q: sum((p[t] * q[t] for t in around[1:]), p[around[0]] * q[around[0]])
    return rd.stencil(taps, dx, dy, boundary="clamp", name="out")


@rd.algorithm
def box(a: rd.f32["h", "w"]):
    across = rd.stencil(lambda p: p[0, 0] + p[0, 1] + p[0, 2], a, boundary="valid", name="across")
    return rd.stencil(lambda p: p[0, 0] + p[1, 0] + p[2, 0], across, boundary="valid", name="out")


SWEEP, CORNERS, BOX = (form_stages(each.trace()) for each in (sweep, corners, box))


def rows_of(stage: str, graph, machine: Machine, **sizes: int) -> int:
    """How many rows of a stage are made side by side by default; 1 where it makes them one by one."""
    text = str(Schedule(graph).complete(machine, sizes))
    found = re.search(rf's\["{stage}"\][^\n]*split\("yi?", (\d+)\)\.reorder', text)
    return int(found[1]) if found else 1


def cross(height: int, width: int) -> Work:
    """A sweep over five points, without a schedule."""
    work = Work(((Y, height), (X, width)), (4,), 5)
    assert work.add_reads("a", [(index.add(Y, dy), index.add(X, dx)) for dy, dx in CROSS], {}, 4)
    return work


def test_reads_of_scalars_are_no_streams() -> None:
    def lessened(a: rd.f32["h", "w"]):
        mean = rd.sum(a).named("mean")
        return rd.stencil(lambda p: p[-1, 0] + p[1, 0] - mean, a, boundary="clamp", name="out")

    def plain(a: rd.f32["h", "w"]):
        return rd.stencil(lambda p: p[-1, 0] + p[1, 0], a, boundary="clamp", name="out")

    of = lambda program: rows_of("out", form_stages(rd.algorithm(program).trace()), INTEL, h=10_000, w=10_000)
    assert of(lessened) == of(plain)


def test_an_index_is_affine_inside_its_boundaries() -> None:
    clamped: Expr = index.add(index.mul(Y, 2), 3)
    assert affine_of(clamped, {}) == (3, ((Y, 2),))
    assert affine_of(index.add(clamped, X), {Y: X}) == (3, ((X, 3),))
    assert affine_of(index.mod(Y, 2), {}) is None


@pytest.mark.parametrize("width, rows", [(9984, 4), (10_000, 12), (10_016, 8), (10_240, 3)])
def test_rows_of_a_sweep_are_those_measured_on_a_zen_4(width: int, rows: int) -> None:
    assert rows_of("out", SWEEP, CPUS["znver4"].machine, h=10_000, w=width) == rows


@pytest.mark.parametrize("width, rows", [(9984, 4), (10_000, 12), (10_016, 8), (10_001, 12), (10_240, 1)])
def test_rows_that_must_lie_apart_are_streamed_one_by_one_where_they_do_not(width: int, rows: int) -> None:
    assert rows_of("out", SWEEP, replace(INTEL, streams_apart=192, streams=16), h=10_000, w=width) == rows


@pytest.mark.parametrize("width", [8192, 8194, 8208, 9984, 10_000, 10_001, 10_240])
def test_rows_of_every_width_are_streamed_side_by_side_where_vectors_are_shifted_into_lines(width: int) -> None:
    """As measured on an Emerald Rapids: six rows are best, wherever they begin; twelve take up to 1.4 times as long."""
    assert rows_of("out", BOX, INTEL, h=4802, w=width) == 6
    assert rows_of("out", SWEEP, INTEL, h=10_000, w=width) == 6


@pytest.mark.parametrize("width, one_by_one", [(8192, True), (8200, True), (10_000, True), (6402, False)])
def test_rows_that_begin_off_lines_are_streamed_one_by_one_by_shorter_vectors(width: int, one_by_one: bool) -> None:
    assert (rows_of("out", BOX, replace(INTEL, vector_bits=256), h=4802, w=width) == 1) == one_by_one


def test_rows_that_lie_near_one_another_in_their_pages_are_not_streamed_side_by_side() -> None:
    streamed = lambda pitch, rows: may_be_streamed(pitch, rows, Machine(), shifted=False)
    assert streamed(4096, 1) and not streamed(4096, 2)
    assert streamed(4096 + 192, 2) and not streamed(4096 + 128, 2)
    assert streamed(1024, 4) and not streamed(1024, 5)
    assert may_be_streamed(4096, 2, Machine(streams_apart=0), shifted=False)
    assert not streamed(10_004, 2)  # rows are not whole lines
    assert may_be_streamed(10_004, 2, Machine(), shifted=True)


def test_streams_that_crowd_a_set_cost_more_than_those_that_do_not() -> None:
    of = lambda rows, width, ways: Rows(cross(10_000, width), replace(INTEL, l1_ways=ways, l1=ways * 4096)).cycles(
        rows, False
    )
    assert of(3, 8192, 8) < of(4, 8192, 8)  # five rows that are read and three that are stored, in eight ways
    assert of(4, 8192, 12) < of(3, 8192, 12) and of(4, 8208, 8) < of(3, 8208, 8)


def test_rows_of_stages_that_share_loops_are_streams_of_one_loop() -> None:
    assert 's["dy"].compute_with("dx"' in str(Schedule(CORNERS).complete(INTEL, {"h": 4096, "w": 4096}))
    assert (
        rows_of("dx", CORNERS, INTEL, h=4096, w=4096) <= 3
    )  # three of each, and five that they are made of, in twelve ways
    assert rows_of("dx", CORNERS, INTEL, h=4096, w=4112) == 4


@pytest.mark.parametrize("name", CPUS)
def test_more_cache_never_means_fewer_rows(name: str) -> None:
    machine = CPUS[name].machine
    larger = (
        replace(machine, l1=2 * machine.l1, l1_ways=2 * machine.l1_ways),
        replace(machine, l2=2 * machine.l2),
    )
    for width in (8192, 10_000, 10_240):
        few = rows_of("out", SWEEP, machine, h=10_000, w=width)
        assert all(rows_of("out", SWEEP, each, h=10_000, w=width) >= few for each in larger)


@pytest.mark.parametrize("name", CPUS)
def test_one_more_row_or_column_changes_an_estimate_by_less_than_a_twentieth(name: str) -> None:
    for height, width in ((500, 1000), (10_000, 10_000), (3001, 7919)):
        for streamed in (False, True):
            estimate = lambda h, w: Rows(cross(h, w), CPUS[name].machine).cycles(4, streamed)  # noqa: B023
            here = estimate(height, width)
            assert abs(estimate(height + 1, width) / here - 1) < 0.05
            assert abs(estimate(height, width + 1) / here - 1) < 0.05


def test_descriptions_tell_work_apart_but_not_its_names() -> None:
    def work(array: str, row: Var, column: Var, reach: int = 1, itemsize: int = 4) -> Work:
        made = Work(((row, 100), (column, 1000)), stored=(4,), operations=3, far=True)
        points = [(index.add(row, dy), index.add(column, reach)) for dy in (0, 1)]
        assert made.add_reads(array, points, {}, itemsize)
        return made

    turned = Work(((Y, 100), (X, 1000)), stored=(4,), operations=3, far=True)
    assert turned.add_reads("a", [(index.add(X, dy), index.add(Y, 1)) for dy in (0, 1)], {}, 4)
    first = work("a", Y, X)
    assert description(first) == description(work("b", Var("i", i64, 2), Var("j", i64, 3)))
    others = (work("a", Y, X, reach=2), work("a", Y, X, itemsize=8), replace(first, apart=True), turned)
    assert len({description(each) for each in (first, *others)}) == 5
