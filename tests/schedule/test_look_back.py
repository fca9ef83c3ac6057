"""Chains on GPUs whose blocks may wait for one another: they use decoupled look-back, and give the bits of sequential blocks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent))
from scheduled_programs import TABLES

import raido as rd
from raido.algo.errors import ArithmeticFault, ScheduleError
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Op, const
from raido.algo.graph.index import as_index
from raido.schedule.kernels.kernel import DeviceProgram
from raido.schedule.kernels.limits import limits_of
from raido.schedule.kernels.outlining import _Cutter as Cutter
from raido.schedule.kernels.outlining import outline_kernels
from raido.schedule.kernels.printer import print_program
from raido.schedule.lower import lower
from raido.schedule.machine import Gpu, Machine
from raido.schedule.nest.effects import buffers_read
from raido.schedule.nest.nodes import (
    Alloc,
    Append,
    Await,
    Barrier,
    Carry,
    Let,
    Nest,
    Ordered,
    Publish,
    Statement,
    Store,
)
from raido.schedule.nest.printer import print_nest
from raido.schedule.nest.values import Read
from raido.schedule.nest.walk import expressions_of, map_statements, statements_within
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest, sizes_of
from raido.schedule.oracles.interpret_kernels import interpret_program
from raido.schedule.oracles.memory import NestError
from raido.schedule.oracles.races import find_races
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages

ORDERED = Machine(task=64, gpu=Gpu(threads=8, along=(8, 8, 8), subgroup=2, exchange=2, resident=8, ordered=True))
"""Two threads of a block, of two elements each: blocks look further back than one look reaches."""
UNORDERED = replace(ORDERED, gpu=Gpu(threads=8, along=(8, 8, 8), subgroup=4, exchange=4, resident=8))


@rd.algorithm
def sums(a: rd.f32["n"]):
    return rd.scan(rd.add, 0.25, a, name="s")


@rd.algorithm
def wide_sums(a: rd.f64["n"]):
    return rd.scan(rd.add, 0.25, a, name="s")


@rd.algorithm
def branching(a: rd.i64["n"]):
    return rd.scan(lambda p, q: rd.cond(q > 0, lambda: rd.maximum(p, q), lambda: p), 0, a, name="s")


@rd.algorithm
def quotients(a: rd.i64["n"], b: rd.i64["n"]):
    return rd.scan(rd.add, 0, a // b, name="s")


@rd.algorithm
def rows(a: rd.f32["n", "m"]):
    return rd.scan(rd.add, 0, a, axis=0, name="s")


def nest_of(algorithm: Any, machine: Machine, say: Callable[[Schedule], object] = lambda s: None) -> Nest:
    schedule = Schedule(form_stages(algorithm.trace()), (), machine)
    say(schedule)
    complete = schedule.complete()
    assert complete.complete().directives == complete.directives
    return check_nest(lower(complete.graph, complete.variants(), machine), "scalar")


def kinds(nest: Nest) -> list[type]:
    return [type(s) for s in statements_within(nest.body)]


def device_of(nest: Nest) -> DeviceProgram:
    assert ORDERED.gpu is not None
    return outline_kernels(nest, limits_of(ORDERED.gpu))


def hold(nest: Nest, arrays: list[np.ndarray], seeds: int = 12) -> None:
    """Blocks and threads in many orders, several blocks in flight, have the bits of the nest."""
    sizes = sizes_of(nest, arrays, {})
    want = interpret_nest(nest, arrays, sizes)
    for seed in range(seeds):
        got = interpret_program(device_of(nest), arrays, sizes, shapes=nest.shapes, seed=seed)
        for a, b in zip(got, want, strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("n", (0, 1, 4, 5, 33, 100))
def test_a_chain_has_the_bits_of_its_nest_whoever_comes_first(n: int) -> None:
    nest = nest_of(sums, ORDERED)
    assert kinds(nest).count(Carry) == 1 and Ordered not in kinds(nest)
    a = np.random.default_rng(n).random(n, "float32")
    hold(nest, [a])
    np.testing.assert_allclose(interpret_nest(nest, [a])[0], np.cumsum(a) + 0.25, rtol=1e-5)


@pytest.mark.parametrize(("table", "name"), [(t, name) for t in ("scans", "filters") for name in TABLES[t]])
def test_default_schedules_of_scans_and_filters_keep_results(table: str, name: str) -> None:
    algorithm, inputs = TABLES[table][name]
    arguments = inputs(np.random.default_rng(3), 37, 5)
    schedule = Schedule(form_stages(algorithm.trace(*arguments)), (), ORDERED).complete()
    nest = check_nest(lower(schedule.graph, schedule.variants(), ORDERED), "scalar")
    carried = {
        b for s in statements_within(nest.body) if isinstance(s, Carry) for b in (*s.buffers, *s.totals, s.state)
    }
    assert carried.isdisjoint(race.buffer for race in find_races(nest))
    arrays, _ = algorithm.flatten(arguments)
    hold(nest, arrays, seeds=2)


def test_default_schedules_chain_where_blocks_may_wait_for_one_another() -> None:
    assert '.strategy("chain", block=4)' in str(Schedule(form_stages(sums.trace()), (), ORDERED).complete())
    assert '.strategy("three_phase", block=4)' in str(Schedule(form_stages(sums.trace()), (), UNORDERED).complete())


@rd.algorithm
def roots(a: rd.f32["n"]):
    b = rd.stencil(lambda p: rd.sqrt(rd.abs(p[-1] - p[1])), a, boundary="wrap", name="b")
    return rd.scan(rd.add, 0, b, name="s")


@pytest.mark.parametrize("at", ("xo", "xio", "xii"))
def test_what_a_chain_reads_may_be_computed_in_its_blocks(at: str) -> None:
    def say(s: Schedule) -> None:
        s["s"].strategy("chain", block=4).split("xi", 2).bind("xo", "block.x").bind("xio", "thread.x", subgroup=2)
        s["b"].compute_at("s", at)

    nest = nest_of(roots, ORDERED, say)
    assert Carry in kinds(nest)
    hold(nest, [np.random.default_rng(1).random(50, "float32")], seeds=4)


@pytest.mark.parametrize("n", (0, 3, 4, 50, 131))
def test_threads_hold_their_pieces_from_the_first_pass_to_the_second(n: int) -> None:
    """The block's copy becomes an array of each thread, of which every index is a number, in code of a device whose branches cost one side."""
    assert ORDERED.gpu is not None
    nest = nest_of(sums, replace(ORDERED, task=256, gpu=replace(ORDERED.gpu, branches=True)))
    program = device_of(nest)
    held = [s.buffer for k in program.kernels for s in statements_within(k.body) if isinstance(s, Alloc)]
    assert [b.shape for b in held if b.name == "a_copy" and b.scope == "stack"] == [(as_index(4),)]
    reads = [b for k in program.kernels for s in statements_within(k.body) for b in buffers_read(expressions_of(s))]
    assert "a" in {b.name for b in reads}
    hold(nest, [np.random.default_rng(n).random(n, "float32")], seeds=3)


def test_a_chain_without_loops_is_dealt_out_to_threads() -> None:
    nest = nest_of(sums, ORDERED, lambda s: s["s"].strategy("chain", block=6))
    assert Carry in kinds(nest)
    hold(nest, [np.random.default_rng(1).random(50, "float32")])


@pytest.mark.parametrize("blocks", (True, False))
def test_a_chain_whose_threads_have_no_pieces_goes_in_phases_with_the_same_bits(blocks: bool) -> None:
    def say(s: Schedule) -> None:
        s["s"].strategy("chain", block=4).split("xi", 2)
        if blocks:
            s["s"].bind("xo", "block.x")

    nest, a = nest_of(sums, ORDERED, say), np.random.default_rng(1).random(50, "float32")
    assert not {Carry, Ordered} & set(kinds(nest))
    hold(nest, [a])
    serial = nest_of(sums, Machine(), lambda s: s["s"].strategy("chain", block=4))
    assert interpret_nest(nest, [a])[0].tobytes() == interpret_nest(serial, [a])[0].tobytes()


@pytest.mark.parametrize(
    "limits", [{"blocks": (3, 3, 3)}, {"shared": 16, "resident": 8}, {"shared": 16, "resident": 8, "scratch": 1}]
)
def test_launches_of_a_part_of_the_blocks_and_blocks_in_turn_go_on_with_the_numbers(limits: dict[str, int]) -> None:
    """Of a device with few blocks in a launch; of one with so little shared memory that blocks have theirs in slots, and take turns."""
    assert ORDERED.gpu is not None
    nest, a = nest_of(sums, ORDERED), np.random.default_rng(1).random(90, "float32")
    program = outline_kernels(nest, replace(limits_of(ORDERED.gpu), **limits))
    assert ("turn" in print_program(program)) == ("shared" in limits)
    want, sizes = interpret_nest(nest, [a]), {"n": len(a)}
    for seed in range(6):
        got = interpret_program(program, [a], sizes, seed=seed)
        assert got[0].tobytes() == want[0].tobytes()


def test_blocks_that_no_kernel_holds_run_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    fits = Cutter._fits
    monkeypatch.setattr(
        Cutter, "_fits", lambda self, s: not getattr(s, "level", "").startswith("block") and fits(self, s)
    )
    nest, a = nest_of(sums, ORDERED), np.random.default_rng(1).random(30, "float32")
    program = device_of(nest)
    assert "await" not in print_program(program)
    (got,) = interpret_program(program, [a], {"n": len(a)}, seed=1)
    assert got.tobytes() == interpret_nest(nest, [a])[0].tobytes()


def test_launches_draw_numbers_and_publish_what_others_await() -> None:
    text = print_program(device_of(nest_of(wide_sums, ORDERED)))
    for line in ("drawn = next of state[0], below blocks", "publish state[after] = 1", "state_2 = await state[entry]"):
        assert line in text


def test_a_value_that_leaves_two_bits_of_a_word_is_published_with_its_state() -> None:
    """Nothing else is read of other blocks then: no totals, and nothing is ordered in memory."""
    for algorithm, alone in ((sums, True), (wide_sums, False)):
        nest = nest_of(algorithm, ORDERED)
        (carry,) = (s for s in statements_within(nest.body) if isinstance(s, Carry))
        code = [s for kernel in device_of(nest).kernels for s in statements_within(kernel.body)]
        assert bool(carry.totals) != alone
        assert {s.alone for s in code if isinstance(s, (Publish, Await))} == {alone}


@pytest.mark.parametrize("dtype", ["bool", "u8", "i16", "f16", "bf16", "u32", "i32", "f32"])
def test_values_of_every_narrow_type_are_one_word(dtype: str) -> None:
    @rd.algorithm(a=f"{dtype}[n]")
    def highest(a: rd.Array) -> rd.Array:
        return rd.scan(rd.logical_or, False, a, name="s") if dtype == "bool" else rd.scan(rd.maximum, 1, a, name="s")

    nest = nest_of(highest, ORDERED)
    (carry,) = (s for s in statements_within(nest.body) if isinstance(s, Carry))
    assert not carry.totals
    draw = np.random.default_rng(3).integers(0, 2 if dtype == "bool" else 100, 45) - (40 if dtype[0] in "if" else 0)
    hold(nest, [draw.astype(highest.trace().parameters[0].dtype.numpy)], seeds=3)


def test_whole_blocks_have_code_of_their_own_where_pieces_move_at_once() -> None:
    """Neither their threads nor their elements are counted there; the last block is held by the tests above."""
    assert ORDERED.gpu is not None
    nest = nest_of(sums, replace(ORDERED, task=256, gpu=replace(ORDERED.gpu, branches=True)))
    assert kinds(nest).count(Carry) == 2
    assert print_program(device_of(nest)).count("live = ") == 1
    hold(nest, [np.random.default_rng(5).random(64, "float32")], seeds=3)


def test_so_have_those_of_scans_in_three_phases() -> None:
    """In the launch that totals blocks, and in that which goes through them."""
    gpu = UNORDERED.gpu
    assert gpu is not None
    nest = nest_of(sums, replace(UNORDERED, task=256, gpu=replace(gpu, branches=True)))
    assert Carry not in kinds(nest)
    totals, through = (text for text in print_nest(nest).split("block.x xo in ")[1:])
    for text in (totals, through):
        whole = text.split("else:", 1)[0]
        assert " <= n:" in whole and "live = " not in whole and "min(" not in whole.split(" <= n:")[1]
    assert "live = " in totals
    for n in (0, 1, 63, 64, 100):
        hold(nest, [np.random.default_rng(n).random(n, "float32")], seeds=3)


@rd.algorithm
def kept(a: rd.f32["n"]):
    return rd.filter(lambda x: x > 0.5, a, name="s")


@pytest.mark.parametrize("machine", [ORDERED, UNORDERED])
def test_neighbouring_threads_store_neighbouring_kept_elements(machine: Machine) -> None:
    """From shared memory, in which the threads of a block have put them together."""
    nest = nest_of(kept, machine)
    (stored,) = (s for s in statements_within(nest.body) if isinstance(s, Store) and s.buffer.name == "out")
    (appended,) = (s for s in statements_within(nest.body) if isinstance(s, Append))
    assert [b.scope for b in appended.buffers] == ["shared"] and isinstance(stored.value, Read)
    assert stored.value.buffer is appended.buffers[0]
    assert f"k in t..kept_2 step {machine.gpu and machine.gpu.usual_threads}" in print_nest(nest)
    plain = nest_of(kept, machine, lambda s: s["s"].strategy("count_write", block=8, staged=True))
    assert not [s for s in statements_within(plain.body) if isinstance(s, Alloc) and s.buffer.name == "staged"]
    a = np.random.default_rng(1).random(60, "float32")
    hold(nest, [a], seeds=3)
    with pytest.raises(NestError, match=r"race|before it is written"):
        for seed in range(20):
            interpret_program(without(Barrier, lambda s: iter(()), kept, machine), [a], {"n": len(a)}, seed=seed)


@rd.algorithm
def parted(a: rd.f32["n"]):
    return rd.partition(lambda x: x > 0.5, a, name="s")


@pytest.mark.parametrize("branches", [False, True])
def test_rejected_elements_are_behind_the_kept_ones_of_their_block(branches: bool) -> None:
    """In shared memory; neighbouring threads store both parts."""
    machine = replace(ORDERED, task=256, gpu=replace(ORDERED.gpu, branches=branches))  # type: ignore[type-var]
    nest = nest_of(parted, machine)
    stored = [s for s in statements_within(nest.body) if isinstance(s, Store) and s.buffer.name == "out"]
    appended = [s for s in statements_within(nest.body) if isinstance(s, Append)]
    assert {b.scope for s in appended for b in s.buffers} == {"shared"}
    assert all(isinstance(s.value, Read) and s.value.buffer.scope == "shared" for s in stored)
    for n in (0, 1, 63, 64, 100):
        hold(nest, [np.random.default_rng(n).random(n, "float32")], seeds=3)


def without(
    kind: type, instead: Callable[[Any], Iterator[Statement]], algorithm: Any = wide_sums, machine: Machine = ORDERED
) -> DeviceProgram:
    """The program of a chain with statements of one kind replaced."""
    program = device_of(nest_of(algorithm, machine))
    change = lambda s: instead(s) if isinstance(s, kind) else iter((s,))
    kernels = (replace(k, body=map_statements(k.body, change)) for k in program.kernels)
    return replace(program, kernels=tuple(kernels))


@pytest.mark.parametrize(
    ("kind", "instead", "why"),
    [
        (Publish, lambda s: iter((Store(s.state, (s.index,), s.value),)), "race: (before|totals)"),
        (
            Await,
            lambda s: iter((Let(s.var, Read(s.state, (s.index,), None)),)),
            "race: (before|totals)|before it is written",
        ),
        (Barrier, lambda s: iter(()), "race|before it is written"),
        (Publish, lambda s: iter(()), "wait for one another"),
    ],
)
def test_what_is_left_out_of_a_look_back_is_found(kind: type, instead: Any, why: str) -> None:
    program, a = without(kind, instead), np.random.default_rng(1).random(60)
    with pytest.raises(NestError, match=why):
        for seed in range(20):
            interpret_program(program, [a], {"n": len(a)}, seed=seed)


def test_blocks_look_further_back_than_one_look_reaches() -> None:
    """Where looking on goes nowhere, that is found: the other tests take this way, too."""

    def stopped(s: Store) -> Iterator[Statement]:
        goes_on = s.buffer.name == "top" and isinstance(s.value, Op)
        yield replace(s, value=const(i64, 1 << 20)) if goes_on else s

    program, a = without(Store, stopped, sums), np.random.default_rng(1).random(200, "float32")
    with pytest.raises(NestError):
        for seed in range(20):
            interpret_program(program, [a], {"n": len(a)}, seed=seed)


@pytest.mark.parametrize(
    ("algorithm", "stage", "why"),
    [
        (rows, "s", 'elements are rows along "x", and blocks of a GPU pass only single values'),
        (branching, "s", 'the operator of "s" branches, loops, reads arrays or may fault'),
    ],
)
def test_what_blocks_cannot_hand_on_is_refused(algorithm: Any, stage: str, why: str) -> None:
    schedule = Schedule(form_stages(algorithm.trace()), (), ORDERED)
    with pytest.raises(ScheduleError, match=why) as error:
        schedule[stage].strategy("chain", block=4)
    assert 'strategy("three_phase")' in str(error.value)


def test_faults_in_a_chain_are_found_and_nobody_waits_for_ever() -> None:
    nest = nest_of(quotients, ORDERED)
    assert Carry in kinds(nest)
    a, b = np.arange(1, 41), np.ones(40, "int64")
    hold(nest, [a, b])
    b[17] = 0
    for seed in range(4):
        with pytest.raises(ArithmeticFault, match="division of 18 by zero"):
            interpret_program(device_of(nest), [a, b], sizes_of(nest, [a, b], {}), seed=seed)
