"""Stages and cached copies that the threads of a block compute together, in shared memory."""

from __future__ import annotations

import random

import pytest
from block_schedules import GPU, Directives, Levels, bound, hold, spread
from programs import PROGRAMS

from raido.algo.errors import ScheduleError
from raido.schedule.lower import lower
from raido.schedule.machine import Gpu, Machine
from raido.schedule.nest.nodes import Alloc, For, Nest
from raido.schedule.nest.walk import statements_within
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages


def product(y: int, x: int, r: int, tile: int, threads: int, wide: int) -> tuple[Directives, Levels]:
    """A product of matrices: tiles of both in shared memory, and squares of sums for each thread."""
    a, a_levels = spread("a_copy", "y r", threads, wide)
    b, b_levels = spread("b_copy", "r x", threads, wide)
    steps: Directives = [
        ("c", "split", {"axis": "y", "factor": y}),
        ("c", "split", {"axis": "yi", "factor": tile}),
        ("c", "split", {"axis": "x", "factor": x}),
        ("c", "split", {"axis": "xi", "factor": tile}),
        ("c", "split", {"axis": "r", "factor": r}),
        ("c", "reorder", {"axes": ("yo", "xo", "ro", "yio", "xio", "ri", "yii", "xii")}),
        ("c", "unroll", {"axis": "yii"}),
        ("c", "unroll", {"axis": "xii"}),
        ("c", "cache", {"array": "a", "stage": "c", "axis": "ro", "scope": "shared"}),
        ("c", "cache", {"array": "b", "stage": "c", "axis": "ro", "scope": "shared"}),
        *a,
        *b,
    ]
    levels = {"c": {"yo": "block.y", "xo": "block.x", "yio": "thread.y", "xio": "thread.x"}}
    return steps, {**levels, **a_levels, **b_levels}


def chain(y: int, x: int, threads: int, wide: int) -> tuple[Directives, Levels]:
    """A chain of stencils, tile by tile: what is read, and the rows between, in shared memory."""
    rows, row_levels = spread("rows", "y x", threads, wide)
    copy, copy_levels = spread("img_copy", "y x", threads, wide)
    steps: Directives = [
        ("cols", "split", {"axis": "y", "factor": y}),
        ("cols", "split", {"axis": "x", "factor": x}),
        ("cols", "reorder", {"axes": ("yo", "xo", "yi", "xi")}),
        ("rows", "compute_at", {"stage": "cols", "axis": "xo"}),
        ("rows", "store", {"scope": "shared"}),
        *rows,
        ("rows", "cache", {"array": "img", "stage": "cols", "axis": "xo", "scope": "shared"}),
        *copy,
    ]
    levels = {"cols": {"yo": "block.y", "xo": "block.x", "yi": "thread.y", "xi": "thread.x"}}
    return steps, {**levels, **row_levels, **copy_levels}


def allocated(nest: Nest, scope: str) -> list[str]:
    """The shapes of buffers of a scope."""
    buffers = (s.buffer for s in statements_within(nest.body) if isinstance(s, Alloc))
    return [f"{b.name} {[str(getattr(e, 'value', '?')) for e in b.shape]}" for b in buffers if b.scope == scope]


@pytest.mark.parametrize("seed", range(6))
def test_products_by_shared_tiles(seed: int) -> None:
    chance = random.Random(seed)
    tile = chance.choice((1, 2, 3))
    y, x = tile * chance.choice((1, 2, 4)), tile * chance.choice((2, 3))
    steps, levels = product(y, x, chance.choice((1, 2, 5)), tile, chance.choice((6, 8)), chance.choice((2, 8)))
    program = PROGRAMS["matmul"]()
    hold(bound(program, steps, levels), program, seed)


@pytest.mark.parametrize("seed", range(6))
def test_chains_of_stencils_by_shared_tiles(seed: int) -> None:
    chance = random.Random(seed)
    steps, levels = chain(
        chance.choice((1, 3, 4)), chance.choice((2, 5, 8)), chance.choice((8, 12)), chance.choice((4, 12))
    )
    program = PROGRAMS["blur"]()
    hold(bound(program, steps, levels), program, seed)


def test_tiles_and_halos_have_constant_sizes() -> None:
    steps, levels = chain(4, 8, 32, 8)
    assert allocated(bound(PROGRAMS["blur"](), steps, levels), "shared") == ["img_copy ['6', '10']", "rows ['6', '8']"]


def test_threads_that_copy_a_tile_divide_by_its_constant_width() -> None:
    steps, levels = chain(4, 8, 32, 8)
    nest = bound(PROGRAMS["blur"](), steps, levels)
    (iterations,) = (
        s for s in statements_within(nest.body) if isinstance(s, For) and s.loop == "yxo" and s.stage == "rows"
    )
    assert (getattr(iterations.high, "value", None), iterations.step) == (48, 32)


def test_shared_memory_belongs_to_a_block() -> None:
    steps: Directives = [("rows", "compute_at", {"stage": "cols", "axis": "y"}), ("rows", "store", {"scope": "shared"})]
    with pytest.raises(ScheduleError, match="no loop around the stage is bound to blocks"):
        bound(PROGRAMS["blur"](), steps, {})


def test_local_memory_belongs_to_a_thread() -> None:
    steps: Directives = [
        ("cols", "split", {"axis": "x", "factor": 8}),
        ("rows", "compute_at", {"stage": "cols", "axis": "xi"}),
        ("rows", "store", {"scope": "local"}),
    ]
    program = PROGRAMS["blur"]()
    nest = bound(program, steps, {"cols": {"y": "block.y", "xo": "block.x", "xi": "thread.x"}})
    assert allocated(nest, "stack") == ["rows ['3', '1']"]
    hold(nest, program, 0)
    with pytest.raises(ScheduleError, match="no loop around the stage is bound to threads"):
        bound(program, steps, {"cols": {"y": "block.y"}})


def test_what_has_no_constant_size_is_not_shared() -> None:
    steps: Directives = [
        ("rows", "compute_at", {"stage": "cols", "axis": "y"}),
        ("rows", "store", {"scope": "shared"}),
    ]
    with pytest.raises(ScheduleError, match="which has no constant size"):
        bound(PROGRAMS["blur"](), steps, {"cols": {"y": "block.x"}})


def test_a_block_has_as_much_shared_memory_as_the_device() -> None:
    steps, levels = chain(32, 32, 256, 32)
    bound(PROGRAMS["blur"](), steps, levels)
    with pytest.raises(ScheduleError, match="a block would have 8976 bytes of shared memory"):
        bound(PROGRAMS["blur"](), steps, levels, Gpu(shared=8 << 10))


def test_what_a_block_makes_is_spread_over_its_threads_by_default() -> None:
    schedule = Schedule(form_stages(PROGRAMS["blur"]()), (), Machine(gpu=GPU))
    cols = schedule["cols"].tile(y=8, x=32)
    for axis, place in {"yo": "block.y", "xo": "block.x", "yi": "thread.y", "xi": "thread.x"}.items():
        cols.bind(axis, place)
    schedule["rows"].compute_at("cols", "xo").store(scope="shared").cache("img", "cols", "xo", scope="shared")
    complete = schedule.complete()
    for name in ("rows", "img_copy"):
        assert [(loop.name, loop.level) for loop in complete[name].plan.loops] == [
            ("yxio", "thread.y"),
            ("yxii", "thread.x"),
            ("yxo", ""),
        ]
    assert complete.complete().directives == complete.directives
    hold(lower(complete.graph, complete.variants(), Machine(gpu=GPU)), PROGRAMS["blur"](), 2)
