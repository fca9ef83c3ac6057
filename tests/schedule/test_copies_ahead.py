"""Copies to shared memory ahead of the loop that reads them: they arrive before they are read, and results stay the same."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from block_schedules import bound, hold
from programs import PROGRAMS
from test_block_copies import product

from raido.algo.errors import ScheduleError
from raido.algo.passes.specialise import specialise
from raido.schedule.kernels.kernel import DeviceProgram
from raido.schedule.kernels.limits import limits_of
from raido.schedule.kernels.outlining import outline_kernels
from raido.schedule.kernels.printer import print_program
from raido.schedule.lower import lower
from raido.schedule.machine import Gpu, Machine
from raido.schedule.nest.nodes import AwaitCopies, Barrier, CommitCopies, Nest, Statement, Store, VectorStore
from raido.schedule.nest.printer import print_nest
from raido.schedule.nest.walk import map_statements, statements_within
from raido.schedule.oracles.interpret import interpret_nest, sizes_of
from raido.schedule.oracles.interpret_kernels import interpret_program
from raido.schedule.oracles.memory import NestError
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages

AHEAD = Gpu(threads=16, along=(16, 8, 4), subgroup=4, branches=True, asynchronous=True, shared=64 << 10)


def matmul(a_buffers: int, b_buffers: int, r: int = 2) -> Nest:
    """A product by tiles of 4 × 4, whose factors are copied as many iterations ahead."""
    steps, levels = product(4, 4, r, 2, 4, 2)
    counts = (("a_copy", a_buffers), ("b_copy", b_buffers))
    said = [(name, "store", {"buffers": count}) for name, count in counts if count > 1]
    return bound(PROGRAMS["matmul"](), [*steps, *said], levels, AHEAD)


def factors(n: int, k: int, m: int) -> list[np.ndarray]:
    draw = np.random.default_rng(n + k + m)
    return [draw.random((n, k), "float32"), draw.random((k, m), "float32")]


def kernels_of(nest: Nest) -> DeviceProgram:
    return outline_kernels(nest, limits_of(AHEAD))


def run(program: DeviceProgram, nest: Nest, arrays: list[np.ndarray], seed: int) -> np.ndarray:
    (got,) = interpret_program(program, arrays, sizes_of(nest, arrays, {}), seed=seed)
    return got


@pytest.mark.parametrize("buffers", [(2, 2), (2, 1), (2, 3), (5, 2)])
@pytest.mark.parametrize("sizes", [(4, 1, 4), (7, 9, 5)])
def test_products_are_those_of_copies_in_their_iterations(buffers: tuple[int, int], sizes: tuple[int, ...]) -> None:
    arrays, nest = factors(*sizes), matmul(*buffers)
    (want,) = interpret_nest(matmul(1, 1), arrays)
    np.testing.assert_array_equal(interpret_nest(nest, arrays)[0], want)
    for seed in range(2):
        np.testing.assert_array_equal(run(kernels_of(nest), nest, arrays, seed), want)


@pytest.mark.parametrize("seed", range(4))
def test_threads_of_a_nest_may_go_in_any_order(seed: int) -> None:
    hold(matmul(random.Random(seed).choice((2, 3)), 2, 1 + seed), PROGRAMS["matmul"](), seed)


def test_threads_wait_once_an_iteration() -> None:
    """A copy goes to the buffer that the iteration before has read, behind the barrier by which the next one has arrived."""
    for nest, barriers in ((matmul(1, 1), 2), (matmul(2, 2), 1), (matmul(2, 3), 1)):
        (kernel,) = kernels_of(nest).kernels
        text = print_program(kernels_of(nest))
        loops = re.split(r"\n(?=\s+for ro in)", text)[1:]
        assert loops and all(loop.count("barrier") == barriers for loop in loops), text
        waits = [s for s in statements_within(kernel.body) if isinstance(s, AwaitCopies)]
        assert bool(waits) == (barriers == 1)


def test_all_that_lies_side_by_side_is_copied_at_once() -> None:
    """But for the rows along which the reduction runs, which are stored transposed: a thread loads four of them at once."""
    schedule = Schedule(form_stages(PROGRAMS["matmul"]()), (), Machine(gpu=AHEAD)).complete()
    assert ".store(buffers=2)" in str(schedule) and '.store(layout=("r", "y"), pad=4, buffers=2)' in str(schedule)
    nest = lower(schedule.graph, schedule.variants(), Machine(gpu=AHEAD))
    (kernel,) = kernels_of(nest).kernels
    ahead = [s for s in statements_within(kernel.body) if isinstance(s, (Store, VectorStore)) and s.asynchronous]
    assert any(isinstance(s, VectorStore) for s in ahead) and any(isinstance(s, Store) for s in ahead)
    assert "(asynchronous)" in print_nest(nest)
    for sizes in ((8, 8, 8), (9, 7, 13)):
        arrays = factors(*sizes)
        np.testing.assert_array_equal(run(kernels_of(nest), nest, arrays, 1), interpret_nest(nest, arrays)[0])


def changed(nest: Nest, change: Callable[[Statement], Iterator[Statement]]) -> DeviceProgram:
    program = kernels_of(nest)
    return replace(program, kernels=tuple(replace(k, body=map_statements(k.body, change)) for k in program.kernels))


def without(*kinds: type) -> Callable[[Statement], Iterator[Statement]]:
    return lambda s: iter(() if isinstance(s, kinds) else (s,))


def too_early(s: Statement) -> Iterator[Statement]:
    yield AwaitCopies(s.left + 1) if isinstance(s, AwaitCopies) else s


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (without(AwaitCopies), "before it is written"),
        (without(CommitCopies), "before it is written"),
        (too_early, "before it is written"),
        (without(Barrier), "race|before it is written"),
    ],
)
def test_what_is_left_out_is_found(change: Callable[[Statement], Iterator[Statement]], why: str) -> None:
    nest, arrays = matmul(2, 2), factors(4, 8, 4)
    with pytest.raises(NestError, match=why):
        for seed in range(8):
            run(changed(nest, change), nest, arrays, seed)


def test_a_nest_that_reads_a_copy_before_it_awaits_it_is_wrong() -> None:
    def late(s: Any) -> Any:
        return replace(s, left=s.left + 1) if isinstance(s, AwaitCopies) else s

    nest = matmul(3, 3)
    early = replace(nest, body=_each(nest.body, late))
    with pytest.raises(NestError, match="before it is written"):
        interpret_nest(early, factors(4, 8, 4))


def _each(s: Any, change: Callable[[Any], Any]) -> Any:
    """A statement with `change` made to those inside it."""
    s = change(s)
    for field in ("body", "then", "orelse"):
        if getattr(s, field, None) is not None:
            s = replace(s, **{field: _each(getattr(s, field), change)})
    return replace(s, statements=tuple(_each(i, change) for i in s.statements)) if hasattr(s, "statements") else s


def test_shared_memory_counts_every_buffer() -> None:
    steps, levels = product(4, 4, 4, 2, 4, 2)
    said = [("a_copy", "store", {"buffers": 8, "pad": 4})]
    with pytest.raises(ScheduleError, match="a block would have 960 bytes of shared memory"):
        bound(PROGRAMS["matmul"](), [*steps, *said], levels, replace(AHEAD, shared=512))


def test_tiles_have_all_usual_threads_where_copies_run_ahead_of_enough_of_them() -> None:
    """A tile of twice the side reads half as much for each product; a device with fewer than two for each processor has smaller ones."""
    gpu = Gpu(branches=True, asynchronous=True, processors=4)

    def text(gpu: Gpu, side: int = 0) -> str:
        program = PROGRAMS["matmul"]()
        known = specialise(program, dict.fromkeys("nkw", side)) if side else program
        return str(Schedule(form_stages(known), (), Machine(gpu=gpu)).complete()).replace('\ns["c"]', "")

    large, small = '.split("x", 128).split("xi", 64).split("xii", 4)', '.split("x", 64).split("xi", 32).split("xii", 4)'
    assert large in text(gpu) and large in text(gpu, 512) and small in text(gpu, 256)
    assert small in text(replace(gpu, asynchronous=False))
    assert '.split("x", 64).split("xi", 8)' in text(replace(gpu, asynchronous=False, branches=False))
