"""Sorts by blocks of a GPU: for every dtype and number of elements they give the interpreter's results, in any order of arrival."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent))
from random_programs import leaves_of
from scheduled_programs import TABLES

import raido as rd
from raido.algo.errors import ScheduleError
from raido.schedule.kernels.limits import limits_of
from raido.schedule.kernels.outlining import outline_kernels
from raido.schedule.lower import lower
from raido.schedule.machine import Gpu, Machine
from raido.schedule.nest.nodes import Barrier, Nest, Publish, Statement
from raido.schedule.nest.printer import print_nest
from raido.schedule.nest.walk import map_statements
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest, sizes_of
from raido.schedule.oracles.interpret_kernels import interpret_program
from raido.schedule.oracles.memory import NestError
from raido.schedule.oracles.races import find_races
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.schedule.strategies.table import strategies_of

GPU = Gpu(threads=8, along=(8, 8, 8), subgroup=2, exchange=2, resident=8, ordered=True)
MACHINE = Machine(task=64, gpu=GPU)
WAYS = ("three_phase", "chain")


def nest_of(algorithm: Any, arguments: Any, strategy: str, **numbers: Any) -> Nest:
    """The nest of a program whose sorts go by blocks of a few elements."""
    schedule = Schedule(form_stages(algorithm.trace(*arguments)), (), MACHINE)
    chosen = {"block": 8, "threads": 4, "subgroup": 2, "staged": True, **numbers}
    for stage in schedule.stages:
        if "radix" in schedule[stage].strategies():
            try:
                schedule[stage].strategy(strategy, **chosen)
            except ScheduleError as error:
                assert "would run several sorts at once" in str(error)
    complete = schedule.complete()
    assert complete.complete().directives == complete.directives
    return check_nest(lower(complete.graph, complete.variants(), MACHINE), "scalar")


def hold(nest: Nest, algorithm: Any, every: Iterable[Any], seeds: int = 2) -> None:
    """Nest and kernels have the results of the program for all those arguments, blocks and threads in any order."""
    program = outline_kernels(nest, limits_of(GPU))
    for arguments in every:
        arrays, sizes = algorithm.flatten(arguments)
        want = interpret_nest(nest, arrays, sizes)
        for a, b in zip(want, leaves_of(algorithm.interpret(*arguments)), strict=True):
            assert a.tobytes() == b.tobytes()
        for seed in range(seeds):
            got = interpret_program(program, arrays, sizes_of(nest, arrays, sizes), shapes=nest.shapes, seed=seed)
            for a, b in zip(got, want, strict=True):
                assert a.tobytes() == b.tobytes()


def drawn(dtype: str, n: int) -> np.ndarray:
    """Numbers of which some are equal, and some special."""
    draw = np.random.default_rng(n)
    if dtype[0] in "fb" and dtype != "bool":
        special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -2.0, 300.0])
        return draw.choice(special, n)
    if dtype == "bool":
        return draw.integers(0, 2, n)
    few = draw.integers(0, 5, n)
    bits = int(dtype[1:])
    low, high = (0, 1 << bits) if dtype[0] == "u" else (-(1 << bits - 1), 1 << bits - 1)
    return np.where(few == 0, few, draw.integers(low, high, n, dtype="u8" if dtype[0] == "u" else "i8").astype(object))


def numpys(dtype: str, values: np.ndarray) -> np.ndarray:
    """The values as elements of a type."""

    @rd.algorithm(a=f"{dtype}[n]")
    def same(a: rd.Array) -> rd.Array:
        return a

    return values.astype(same.trace().parameters[0].dtype.numpy)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["bool", "i8", "u16", "bf16", "f32"])
def test_every_type_is_sorted(dtype: str, way: str) -> None:
    @rd.algorithm(a=f"{dtype}[n]")
    def both(a: rd.Array) -> tuple[rd.Array, rd.Array]:
        return rd.sort(a, descending=True, name="s"), rd.argsort(a, name="places")

    every = [(numpys(dtype, drawn(dtype, n)),) for n in (0, 8, 19)]
    hold(nest_of(both, every[0], way), both, every)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "numbers", [{"staged": False}, {"subgroup": 1}, {"block": 16, "threads": 8}, {"block": 4, "threads": 1}]
)
def test_blocks_of_any_number_of_threads_sort(way: str, numbers: dict[str, Any]) -> None:
    @rd.algorithm
    def ordered(a: rd.i16["n"], b: rd.f16["n"]):
        places = rd.argsort(a % 7, name="s")
        return rd.sort((a % 7, b), name="t"), places

    draw = np.random.default_rng(0)
    some = 2 * numbers.get("block", 8) + 5
    every = [(draw.integers(-99, 99, n).astype("i2"), draw.random(n).astype("f2")) for n in (5, some)]
    hold(nest_of(ordered, every[0], way, **numbers), ordered, every, seeds=1)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", TABLES["sorts"])
def test_programs_that_sort_keep_their_results(name: str, way: str) -> None:
    algorithm, inputs = TABLES["sorts"][name]
    every = [inputs(np.random.default_rng(n), n, 5) for n in (3, 11)]
    nest = nest_of(algorithm, every[0], way)
    assert all(race.loop.stage.startswith("scan") for race in find_races(nest))
    hold(nest, algorithm, every, seeds=1)


@pytest.mark.parametrize(("length", "staged"), [(8, True), (19, True), (19, False)])
def test_blocks_sort_a_row_each(length: int, staged: bool) -> None:
    """Rows that a block has at once, and longer ones, part by part; of two axes, the outer one a loop in the block."""

    @rd.algorithm
    def rows(a: rd.f16["p", "n", "m"], b: rd.i8["p", "n", "m"]):
        return rd.sort(a, axis=2, name="s"), rd.argsort(b, axis=2, name="t")

    draw = np.random.default_rng(length)
    shape = (2, 2, length)
    arguments = (numpys("f16", drawn("f16", 4 * length)).reshape(shape), draw.integers(-3, 3, shape).astype("i1"))
    schedule = Schedule(form_stages(rows.trace(*arguments)), (), MACHINE)
    for stage in ("s", "t"):
        schedule[stage].strategy("three_phase", block=8, threads=4, subgroup=2, staged=staged).bind("y", "block.x")
    schedule["t"].bind("z", "block.y")
    complete = schedule.complete()
    nest = check_nest(lower(complete.graph, complete.variants(), MACHINE), "scalar")
    assert not list(find_races(nest))
    hold(nest, rows, [arguments], seeds=1)


def test_long_rows_are_a_block_each_and_few_of_many_elements_one_after_the_other() -> None:
    @rd.algorithm
    def rows(a: rd.f32["n", "m"]):
        return rd.sort(a, axis=1, name="s")

    machine = Machine(task=1024, gpu=Gpu(exchange=32, ordered=True))
    text = str(Schedule(form_stages(rows.trace()), (), machine).complete())
    each = strategies_of(form_stages(rows.trace()).stages[0], machine)["three_phase"].numbers
    assert f'when("x > {each["threads"]} and {each["block"]} * y < x")' in text
    assert (
        text.index('"chain"') < text.index('"three_phase"') < text.index('bind("y", "block.x")') < text.index("radix")
    )


@rd.algorithm
def tens(a: rd.f64["n"], b: rd.i64["n"], c: rd.u32["n"]):
    return rd.sort((a, b, c), name="s"), rd.argsort(c, name="t")


@pytest.mark.parametrize("shared", [16, 32, 64, 99, 163, 227])
@pytest.mark.parametrize("exchange", [0, 32])
def test_default_blocks_fit_into_shared_memory(shared: int, exchange: int) -> None:
    machine = Machine(task=1024, gpu=Gpu(shared=shared << 10, exchange=exchange, ordered=exchange > 0))
    schedule = Schedule(form_stages(tens.trace()), (), machine).complete()
    words = 3  # of the keys of "s": each is a sort
    assert str(schedule).count('strategy("chain"' if exchange else 'strategy("three_phase"') == words + 1
    lower(schedule.graph, schedule.variants(), machine)


def test_blocks_that_no_device_has_are_refused() -> None:
    @rd.algorithm
    def rows(a: rd.f32["n", "m"]):
        return rd.sort(a, axis=1, name="s")

    cpu, gpu, small = (
        Schedule(form_stages(a.trace()), (), m) for a, m in ((tens, Machine()), (rows, MACHINE), (tens, MACHINE))
    )
    with pytest.raises(ScheduleError, match="sorts in the blocks of a GPU"):
        cpu["s"].strategy("chain")
    with pytest.raises(ScheduleError, match='iterations of "y" would run several sorts at once'):
        gpu["s"].strategy("three_phase", threads=4).parallel("y")
    chained = Schedule(form_stages(rows.trace()), (), MACHINE)["s"].bind("y", "block.x")
    with pytest.raises(
        ScheduleError, match=r'iterations of "y" would run several sorts at once[\s\S]*strategy\("three_phase"\)'
    ):
        chained.strategy("chain", threads=4)
    with pytest.raises(ScheduleError, match="would have 16 threads, and the device allows 8"):
        small["s"].strategy("three_phase", threads=16)
    unordered = Schedule(form_stages(tens.trace()), (), Machine(gpu=Gpu()))
    with pytest.raises(ScheduleError, match="each block of a chain waits"):
        unordered["s"].strategy("chain")


def test_devices_whose_subgroups_take_turns_keep_chunks() -> None:
    machine = Machine(task=1024, gpu=Gpu(in_turn=True))
    assert 'strategy("radix"' in str(Schedule(form_stages(tens.trace()), (), machine).complete())


@pytest.mark.parametrize(
    ("kind", "why"), [(Publish, "wait for one another"), (Barrier, "race|before it is written|out of bounds")]
)
def test_what_is_left_out_of_a_block_is_found(kind: type, why: str) -> None:
    @rd.algorithm
    def ordered(a: rd.u8["n"]):
        return rd.sort(a, name="s")

    arguments = (np.arange(20, dtype="u1")[::-1],)
    program = outline_kernels(nest_of(ordered, arguments, "chain"), limits_of(GPU))

    def kept(s: Statement) -> Iterator[Statement]:
        yield from () if isinstance(s, kind) else (s,)

    kernels = tuple(replace(k, body=map_statements(k.body, kept)) for k in program.kernels)
    with pytest.raises(NestError, match=why):
        interpret_program(replace(program, kernels=kernels), list(arguments), {"n": 20}, seed=1)


def test_threads_remember_what_they_have_counted_and_whole_blocks_test_no_element() -> None:
    """Of each element its counter, of each counter its number; where a digit ends among the elements of a block is found by bisection."""

    @rd.algorithm
    def ordered(a: rd.u32["n"]) -> Any:
        return rd.sort(a, name="s")

    text = print_nest(nest_of(ordered, (np.zeros(20, "u4"),), "chain"))
    moving = text[text.rindex("digits: u8[8] shared") :]
    assert all(moving.count(name) == 1 for name in ("counters: i32[4, 2] stack", "counters_2: i32[4, 2] stack"))
    assert all(moving.count(name) == 1 for name in ("kept: i32[4, 16] stack", "kept_2: i32[4, 16] stack"))
    wholes = [each.split("else:")[0] for each in moving.split("if 8 <= count:")[1:]]
    assert len(wholes) == 2 and not any("if " in whole for whole in wholes)
    assert moving.count("found = found + ") == 4
