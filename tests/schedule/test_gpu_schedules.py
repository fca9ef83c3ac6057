"""Schedules for GPUs: no bound loop changes a result, random or by default, and the default schedules of ten programs."""

from __future__ import annotations

import random
import re
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent))
import golden
from programs import PROGRAMS
from random_schedules import check_random, random_arguments
from scheduled_programs import TABLES, corpus_programs
from scheduled_programs import trace as trace_of
from strategy_law import decide_a_step

import raido as rd
from raido.algo.errors import RaidoError, ScheduleError
from raido.algo.interpreter.interpret import interpret
from raido.schedule.legal import legal_directives
from raido.schedule.lower import lower
from raido.schedule.machine import Gpu, Machine
from raido.schedule.nest.nodes import Nest
from raido.schedule.nest.printer import print_nest
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.targets.target import Target

GOLDEN = Path(__file__).with_name("gpu_nests.txt")
SMALL = Machine(task=8, gpu=Gpu(threads=16, along=(16, 8, 4), subgroup=4, exchange=4))
"""Blocks and chunks are so small that programs of some dozen elements have several."""
USUAL = Machine(task=1 << 10, gpu=Gpu())
TINY = Machine(task=1 << 6, gpu=Gpu(threads=4, subgroup=4))
"""So few threads that the iterations of their trees are few lines."""
LAWS = [(table, name) for table, programs in TABLES.items() for name in programs]
NESTS = dict.fromkeys(
    ("blur", "matmul", "column_sums", "mandelbrot", "stencil3d", "checked_gather", "segments/sums"), USUAL
)
NESTS |= dict.fromkeys(
    ("row_sums", "flat_sum", "argmin", "scans/running_sum", "filters/several_arrays", "updates/histogram"), TINY
)


def program_of(name: str) -> Any:
    return trace_of(*name.split("/")) if "/" in name else PROGRAMS[name]()


def default_nest(program: Any, machine: Machine) -> Nest:
    complete = Schedule(form_stages(program), (), machine).complete()
    assert complete.complete().directives == complete.directives
    return check_nest(lower(complete.graph, complete.variants(), machine), "scalar")


def outcome(run: Any) -> Any:
    try:
        return [np.asarray(each) for each in run()]
    except RaidoError as error:
        return type(error)


def check_same(nest: Nest, program: Any, arrays: Any, sizes: Any) -> None:
    wanted, got = (
        outcome(lambda: interpret(program, arrays, sizes)),
        outcome(lambda: interpret_nest(nest, arrays, sizes)),
    )
    assert isinstance(wanted, type) == isinstance(got, type)
    if isinstance(wanted, type):
        assert wanted is got
        return
    for a, b in zip(wanted, got, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(b, a, rtol=1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_bound_loop_changes_a_result(name: str) -> None:
    for seed in range(2):
        check_random(name, seed, SMALL.gpu)


@pytest.mark.parametrize(("table", "name"), LAWS)
def test_default_schedules_of_strategies_keep_results(table: str, name: str) -> None:
    program, arrays, sizes = drawn(table, name)
    check_same(default_nest(program, SMALL), program, arrays, sizes)


@pytest.mark.parametrize(("table", "name"), LAWS[::5])
def test_no_bound_loop_of_a_strategy_changes_a_result(table: str, name: str) -> None:
    program, arrays, sizes = drawn(table, name)
    draw, schedule = random.Random(f"{table} {name}"), Schedule(form_stages(program), (), SMALL)
    for _ in range(8):
        decide_a_step(schedule, draw, {"bind": 5})
    complete = schedule.complete()
    nest = check_nest(lower(complete.graph, complete.variants(), SMALL), "scalar")
    check_same(nest, program, arrays, sizes)


def drawn(table: str, name: str) -> tuple[Any, Any, Any]:
    """A program of the laws of strategies, and inputs for it."""
    algorithm, inputs = TABLES[table][name]
    draw = random.Random(name)
    arguments = inputs(
        np.random.default_rng(zlib.crc32(name.encode())), draw.choice((16, 33, 67)), draw.choice((2, 5, 9))
    )
    program = algorithm.trace(*arguments)
    arrays, sizes = algorithm.flatten(arguments)
    return program, arrays, sizes


def test_default_schedules_of_the_corpus_keep_results() -> None:
    for _, program, _ in corpus_programs():
        default_nest(program, SMALL)


def test_a_default_schedule_binds_what_it_says() -> None:
    text = str(Schedule(form_stages(PROGRAMS["blur"]()), (), USUAL).complete())
    places = re.findall(r'bind\("(\w+)", "([a-z.]+)"\)', text)
    assert places[:4] == [("yo", "block.y"), ("xo", "block.x"), ("yi", "thread.y"), ("xi", "thread.x")]
    assert "vectorize" not in text and "parallel" not in text


@pytest.mark.parametrize("axis", ("y", "x"))
def test_loops_in_which_others_are_placed_are_dealt_out_too(axis: str) -> None:
    program = PROGRAMS["blur"]()
    schedule = Schedule(form_stages(program), (), SMALL)
    schedule["rows"].compute_at("cols", axis)
    complete = schedule.complete()
    assert {"block", "thread"} <= {loop.level.partition(".")[0] for loop in complete["cols"].plan.loops}
    nest = check_nest(lower(complete.graph, complete.variants(), SMALL), "scalar")
    check_same(nest, program, *random_arguments(program, random.Random(1)))


def test_bind_is_a_legal_step_on_a_gpu_alone() -> None:
    s = Schedule(form_stages(PROGRAMS["blur"]()), (), USUAL)
    s["cols"].split("x", 32)
    assert any(directive.name == "bind" for directive in legal_directives(s.state, "cols"))
    s["cols"].bind("xi", "thread.x")
    with pytest.raises(ScheduleError, match="for a CPU"):
        s.complete(Machine())


@rd.algorithm
def blur(img: rd.f32["h", "w"]):
    return rd.stencil(lambda p: p[0, -1] + p[0, 1], img, boundary="clamp", name="out")


def test_a_schedule_for_a_gpu_travels_as_json_and_python() -> None:
    s = blur.schedule(target="vulkan")
    s["out"].split("x", 32).bind("xo", "block.x").bind("xi", "thread.x")
    again = rd.Schedule.from_json(s.to_json(), blur)
    assert again == s and again.target == s.target
    scope: dict[str, Any] = {"blur": blur}
    exec(str(s), scope)
    assert scope["s"] == s and scope["s"].target == s.target


def test_targets_of_gpus() -> None:
    absent = Target("vulkan", device="lavapipe")
    assert absent.machine.gpu is not None and absent.machine.gpu.threads == 1024
    assert Target.parse("vulkan:lavapipe") == absent
    with pytest.raises(rd.TargetError, match="without one: any, lavapipe"):
        Target("vulkan", device="no such device")
    with pytest.raises(rd.TargetError, match="no cpu"):
        Target("vulkan", cpu="znver4")


def text(name: str) -> str:
    return print_nest(default_nest(program_of(name), NESTS[name])).rstrip()


@pytest.mark.parametrize("name", NESTS)
def test_default_nests_read_as_they_did(name: str) -> None:
    assert text(name) == golden.read(GOLDEN).get(name)


def main() -> None:
    golden.write(
        GOLDEN, "Default schedules for a GPU, lowered; written by test_gpu_schedules.py.", {n: text(n) for n in NESTS}
    )


def test_a_few_long_rows_are_folded_by_all_blocks_and_short_ones_by_one_each() -> None:
    @rd.algorithm
    def few(a: rd.i32[3, "m"]):
        return rd.sum(a, axis=1)

    program = few.trace()
    nest = default_nest(program, SMALL)
    assert re.search(r"if m > (\d+):.*for x in 0..3:.*block.x ro.*else:.*block.x xo", print_nest(nest), re.DOTALL)
    for m in (0, 5, 600):
        a = np.arange(3 * m, dtype=np.int32).reshape(3, m)
        check_same(nest, program, [a], {"m": m})


if __name__ == "__main__":
    main()


@rd.algorithm
def counts_of_steps(a: rd.i32["n"]):
    return rd.bincount(a, 256, weights=rd.replicate(a.shape[0], rd.i32(1)), name="out")


def test_steps_of_a_chosen_strategy_are_dealt_out() -> None:
    """One thread would be alone with all of them."""
    s = counts_of_steps.schedule(target="vulkan:any")
    s["out"].strategy("atomic")
    assert '.bind("ro", "block.x").bind("ri", "thread.x")' in str(s.complete())


def test_results_that_start_as_constants_are_not_set_before_chunks() -> None:
    """Each begins as its constant where it takes in the bins of the chunks."""
    text = print_nest(default_nest(counts_of_steps.trace(), USUAL))
    (in_chunks, _, in_order) = text.partition("else:")
    assert "sum = 0" in in_chunks and "out[xi] = 0" not in in_chunks and "out[xi] = 0" in in_order


def test_an_index_of_a_step_is_read_once() -> None:
    """It is asked for before it is used."""
    text = print_nest(default_nest(counts_of_steps.trace(), USUAL))
    assert text.count("a[ro]") == text.count("index = i64(a[ro])") == 2


@rd.algorithm
def softmax(a: rd.f32["n", "m"]):
    def of_row(row: Any) -> Any:
        e = rd.exp(row - rd.max(row, initial=-np.inf))
        return e / rd.sum(e)

    return rd.map(of_row, a)


@rd.algorithm
def shares(a: rd.f32["n", "m"]):
    def of_row(row: Any) -> Any:
        e = rd.exp(rd.sin(rd.cos(rd.log1p(rd.abs(row)))))
        return e / rd.sum(e)

    return rd.map(of_row, a)


@rd.algorithm
def spreads_of_pairs(a: rd.f32["n"], b: rd.f32["m"]):
    def of_element(x: Any) -> Any:
        e = rd.exp(rd.sin(rd.cos(rd.log1p(rd.abs(x * b)))))
        return rd.sum(rd.abs(e - rd.mean(e)))

    return rd.map(of_element, a)


@pytest.mark.parametrize("algorithm", (softmax, shares))
def test_threads_share_the_rows_of_a_mapped_function(algorithm: Any) -> None:
    """A row of its own for each thread would have neighbours load a row apart; rows of known length are no exception."""
    program, draw = algorithm.trace(), np.random.default_rng(1)
    for sizes in ({}, {"m": 1024}):
        complete = Schedule(form_stages(program), (), USUAL).complete(sizes=sizes)
        assert complete["map_1"].plan.loops[3].level == "thread.x" and "compute_at" not in str(complete)
    nest = default_nest(program, SMALL)
    for shape in ((0, 3), (5, 40), (3, 1)):
        check_same(nest, program, [draw.random(shape, "f4")], dict(zip("nm", shape, strict=True)))


def test_values_that_are_cheaper_than_their_memory_are_computed_again() -> None:
    """An exponential takes a GPU less time than its element takes to memory and back."""
    assert 's["elementwise_1"].inline()' in str(Schedule(form_stages(softmax.trace()), (), USUAL).complete())
    assert 's["elementwise_1"].inline()' not in str(Schedule(form_stages(shares.trace()), (), USUAL).complete())


def test_rows_that_no_array_has_stay_in_their_thread() -> None:
    """All of them at once may be more than memory holds."""
    assert 'compute_at("map_1"' in str(Schedule(form_stages(spreads_of_pairs.trace()), (), USUAL).complete())


@rd.algorithm
def transposed(a: rd.f32["n", "m"], b: rd.f32["m", "n"]):
    return a.T * 2 + b


@rd.algorithm
def turned(a: rd.u8["n", "m"]):
    return rd.flip(a, 0).T


@rd.algorithm
def planes_of_colours(a: rd.i32["k", "n", "m", "c"]):
    return rd.transpose(a, (0, 3, 1, 2))


@pytest.mark.parametrize("algorithm", (transposed, turned, planes_of_colours))
def test_arrays_read_across_their_rows_go_through_shared_memory(algorithm: Any) -> None:
    """Neighbouring threads load neighbouring elements, and store them, and columns of the copy lie in different banks."""
    program = algorithm.trace()
    for machine in (USUAL, SMALL):
        text = str(Schedule(form_stages(program), (), machine).complete())
        assert text.count('scope="shared")') == 1 and ".store(pad=1)" in text and '.bind("xi", "thread.x")' in text
    nest = default_nest(program, SMALL)
    for seed in range(6):
        check_same(nest, program, *random_arguments(program, random.Random(seed)))
