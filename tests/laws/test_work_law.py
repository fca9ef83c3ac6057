"""The test of asymptotic work on a sample of random programs, and on former counter-examples. `work_law.py` runs any number of them."""

from __future__ import annotations

import numpy as np
import pytest
from nested_programs import nested_program
from work_law import CONSTANT, SMALL, check, check_nested, check_work, count_schedule, measure

import raido as rd
from raido.schedule.lower.lowered_stage import flat
from raido.schedule.oracles.baseline import baseline
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.schedule.stages.stage import Stage


@pytest.mark.parametrize("first", range(0, 60, 12))
def test_no_default_does_more_than_random_programs_say(first):
    assert sum(check(seed) for seed in range(first, first + 12)) >= 6


@pytest.mark.parametrize("seed", [100118, 100125, 100999, 101081, 101936, 102514, 103175, 103921])
def test_random_programs_that_broke_it(seed):
    assert check(seed)


def test_random_programs_with_nested_arrays_that_broke_it():
    assert check_nested(200164)


@pytest.mark.parametrize("first", range(0, 120, 10))
def test_no_default_does_more_than_random_programs_with_nested_arrays_say(first):
    assert all(check_nested(seed) for seed in range(first, first + 10))


def rows(factor: int, *extra: np.ndarray):
    rng = np.random.default_rng(factor)
    return [rng.uniform(0.5, 1.5, (12 * factor, 10)).astype(np.float32), *extra], {}


def line(factor: int, *extra: np.ndarray):
    return [np.random.default_rng(factor).uniform(0.5, 1.5, 200 * factor).astype(np.float32), *extra], {}


def square(factor: int):
    rng = np.random.default_rng(factor)
    return [rng.uniform(0.5, 1.5, (4 * factor, 4 * factor)).astype(np.float32) for _ in range(4)], {}


@rd.algorithm
def sum_of_scans(x: rd.f32["n"], v: rd.f32["d"]):
    return rd.sum(rd.map(lambda a: rd.scan(rd.add, 0.0, v * a)[2], x))


@rd.algorithm
def chained_products(ys: rd.f32["n", "n"], b: rd.f32["n", "n"], a: rd.f32["n", "n"], x: rd.f32["n", "n"]):
    return rd.map(lambda y: x @ (a @ (b @ y)), ys)


@rd.algorithm
def tiles_in_a_loop(m: rd.f32["n"]):
    def step(d, m):
        tile = lambda k: rd.loop(2, lambda i, t: t * 0.5, rd.replicate((8, 8), rd.f32(k)))
        tiles = rd.map(tile, rd.iota(rd.minimum(d + 1, 3)))
        return rd.scatter(m, rd.iota(tiles.shape[0] * 64), tiles.reshape(-1))

    return rd.loop(4, step, m)


@rd.algorithm
def scan_of_sums(a: rd.f32["n", "m"]):
    return rd.scan(rd.add, 0.0, rd.map(rd.sum, a))


@rd.algorithm
def filter_of_sums(a: rd.f32["n", "m"]):
    return rd.filter(lambda x: x > 9.0, rd.map(rd.sum, a))


@rd.algorithm
def scan_of_exp(a: rd.f32["n"]):
    return rd.scan(rd.add, 0.0, rd.exp(a) * rd.sin(a))


@rd.algorithm
def reversed_rows(a: rd.f32["n", "m"], b: rd.f32["m"]):
    return rd.map(lambda row: rd.map(lambda v: (b * v)[-1], row), a)[::-1] * 2.0


@rd.algorithm
def parted_sums(a: rd.f32["n", "m"]):
    return rd.partition(lambda x: x > 24.0, rd.sum(a, axis=0))


@rd.algorithm
def scan_of_pixels(a: rd.f64["m", "k", 3]):
    return rd.scan(rd.add, 0.0, a, axis=0)


@rd.algorithm
def scan_of_exp_of_rows(a: rd.f32["n", 3]):
    return rd.scan(rd.add, 0.0, rd.map(lambda row: rd.exp(row) * rd.sin(row), a, name="made"))


@rd.algorithm
def turned_states(a: rd.f32[3, "n"]):
    return rd.loop(8, lambda i, a: a[::-1], a)


@rd.algorithm
def steps_of_elements(a: rd.f32["n", "n"]):
    return rd.loop(6, lambda i, s: rd.stencil(lambda s, p: 0.5 * s[0, 0] + p[0, 1], s, a, boundary="clamp"), a)


@rd.algorithm
def kept_remainders(a: rd.f32["n"], b: rd.f32["k"]):
    remainders = rd.tabulate(a.shape, lambda i: i % b.shape[0])
    return rd.sum(remainders[remainders == 1])


@rd.algorithm
def counted(a: rd.f32["n"]):
    return rd.filter(lambda x: rd.exp(x) > 2.0, a).shape[0]


@rd.algorithm
def transposed_rows(a: rd.f32["n", "m"], b: rd.f32["m"]):
    return rd.map(lambda row: row * row[0] + rd.exp(-b), a).T


CAUSES = {
    "a region along a reduced axis is what its loop chose": (sum_of_scans, lambda f: line(f, np.ones(5, np.float32))),
    "a producer stands inside the loops that decide it": (chained_products, square),
    "elements of arrays made for each index are read from memory": (tiles_in_a_loop, line),
    "what a block of a scan reads is the block's": (scan_of_sums, rows),
    "what a block of a filter reads is the block's": (filter_of_sums, rows),
    "what two passes read is made once": (scan_of_exp, line),
    "rows are made where they are read, in any order": (reversed_rows, lambda f: rows(f, np.ones(10, np.float32))),
    "what both phases of a partition read is made before them": (
        parted_sums,
        lambda f: ([np.ones((24 * f, 24 * f), np.float32)], {}),
    ),
    "short axes of side by side scans stand inside the strip": (
        scan_of_pixels,
        lambda f: ([np.ones((16 * f, 5 * f, 3))], {}),
    ),
    "states whose old contents nobody needs are not exchanged": (
        turned_states,
        lambda f: ([np.ones((3, 40 * f), np.float32)], {}),
    ),
    "states whose elements are made of themselves change where they are": (
        steps_of_elements,
        lambda f: ([np.ones((16 * f, 16 * f), np.float32)], {}),
    ),
    "arithmetic on indices that makes values counts, named or not": (
        kept_remainders,
        lambda f: line(f, np.ones(5, np.float32)),
    ),
    "what is only counted is not moved": (counted, line),
    "what is the same for all rows is made once for them": (
        transposed_rows,
        lambda f: rows(f, np.ones(10, np.float32)),
    ),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_causes_that_broke_the_law(cause):
    program, arguments = CAUSES[cause]
    check_work(program.trace(*arguments(1)[0]), arguments)


def test_the_baseline_of_nested_arrays_does_no_more_than_all_stages_at_root():
    """The judge itself: a place that made values again would hide the same fault of a default schedule."""
    for seed in range(60):
        program = nested_program(seed)
        arguments = program.arguments(16, 16)
        graph = form_stages(program.algorithm.trace(*arguments))
        whole = Schedule(graph)
        for stage in flat(graph.stages):
            if isinstance(stage, Stage):
                whole[stage.name].root()
        placed, rooted = (count_schedule(each, arguments, {})[0].total for each in (baseline(graph), whole))
        assert placed <= 1.1 * rooted + CONSTANT, program.source


@pytest.mark.parametrize(("program", "shape"), [(scan_of_exp, (800,)), (scan_of_exp_of_rows, (800, 3))])
def test_producers_of_scans_in_blocks_are_made_once(program, shape):
    """Twice would be within the law's bound."""
    array = np.ones(shape, np.float32)
    assert measure(form_stages(program.trace(array)), [array], {}).ratio < 1.3


def test_rows_that_each_of_their_elements_reads_are_made_once():
    """The baseline has the same stages, so it cannot show it: what has a name is always a stage."""

    def products(named: bool) -> int:
        made = lambda row: rd.exp(row).named("made") if named else rd.exp(row)

        @rd.algorithm
        def program(a: rd.f32["n", "m"]):
            return rd.map(lambda row: rd.map(lambda v: rd.sum(made(row) * v), row), a)

        a = np.ones((8, 8), np.float32)
        return count_schedule(Schedule(form_stages(program.trace(a))).complete(SMALL), [a], {})[0].total

    assert products(named=False) == products(named=True)


def test_schedules_that_make_values_again_are_seen():
    @rd.algorithm
    def smooth(a: rd.f32["n"]):
        return rd.stencil(lambda p: p[-2] + p[-1] + p[0] + p[1] + p[2], rd.exp(a).named("made"), boundary="clamp")

    (array,), sizes = line(1)
    graph = form_stages(smooth.trace(array))
    again = Schedule(graph)
    again["made"].inline()
    assert measure(graph, [array], sizes, again.complete(SMALL)).ratio > 1.5
    assert measure(graph, [array], sizes).ratio < 1.2


def test_memory_is_counted_while_it_is_alive():
    @rd.algorithm
    def two(a: rd.f32["n"]):
        first = rd.scan(rd.add, 0.0, a)
        return rd.sum(first * first[::-1])

    (array,), sizes = line(1)
    work, _ = count_schedule(baseline(form_stages(two.trace(array))), [array], sizes)
    assert work.alive == 0 and work.most == array.nbytes


@pytest.mark.parametrize(("size", "times"), [(1024, 1), (8192, 2)])
def test_lines_come_from_beyond_the_last_cache_again_where_it_is_too_small(size, times):
    @rd.algorithm
    def two(a: rd.f32["n"]):
        return rd.sum(a), rd.max(a)

    array = np.ones(size, np.float32)
    work, _ = count_schedule(baseline(form_stages(two.trace(array))), [array], {})
    assert 0 <= work.brought - times * array.nbytes < 4 * 64


@pytest.mark.parametrize(("shape", "most"), [((256, 16), 1.15), ((64, 64), 1.15), ((16, 256), 1.3)])
def test_rows_of_sums_that_the_first_cache_holds_count_as_registers(shape, most):
    """Eight rows are added at a time: what is beyond the work of one is where they end."""
    graph = form_stages(rd.algorithm(lambda a: rd.sum(a, axis=0), a="f32[n, m]").trace())
    assert measure(graph, [np.ones(shape, np.float32)], dict(zip("nm", shape, strict=True))).ratio < most


@rd.algorithm
def sweeps(u: rd.f64["n", "n"]):
    count = u.shape[0] - 2

    def solved(line):
        ahead = lambda k, s: (s[0] + line[k], s[1].at[k].set(s[0]))
        there = rd.loop(count, ahead, (0.0, rd.zeros(count, rd.f64)))[1]
        back = lambda k, s: (s[0] + there[count - 1 - k], s[1].at[count - 1 - k].set(s[0]))
        return rd.loop(count, back, (0.0, rd.zeros(count, rd.f64)))[1]

    def step(_, u):
        lines = rd.pad(rd.map(solved, u[1:-1, 1:-1]), ((1, 1), (0, 0)), constant_values=1.0)
        return rd.pad(rd.map(solved, lines[:-2] + lines[2:]), 1)

    return rd.loop(2, step, u)


def test_guards_of_a_loop_are_tested_before_it_and_not_in_its_iterations():
    """In the iterations, a change of one element would become a choice for each. The baseline has the same stages, so it cannot show it."""
    graph = form_stages(sweeps.trace(np.ones((8, 8))))
    small, large = (measure(graph, [np.ones((n, n))], {}).default.total for n in (8, 32))
    assert large < 30 * small  # (32 - 2)² / (8 - 2)² = 25
