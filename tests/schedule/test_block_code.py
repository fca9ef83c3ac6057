"""Cooperation of the threads of a block: indices, private memory, shared memory and barriers."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from block_schedules import bound
from nests import add_up, at, f, loop, n, nest, op, parameter, put, scratch, w
from nests import name as name_of
from programs import PROGRAMS
from random_kernels import check_random_kernels
from random_schedules import random_arguments
from test_block_copies import chain, product
from test_thread_folds import CASES

from raido.algo.graph.dtypes import f32, i64
from raido.algo.graph.expr import const, fresh
from raido.algo.graph.index import add, minimum, sub
from raido.schedule.kernels.host_plan import Launch, Loop
from raido.schedule.kernels.kernel import DeviceProgram
from raido.schedule.kernels.limits import Limits
from raido.schedule.kernels.outlining import outline_kernels
from raido.schedule.nest.nodes import Alloc, Barrier, Block, For, If, Nest, While
from raido.schedule.nest.walk import statements_within
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest, sizes_of
from raido.schedule.oracles.interpret_kernels import interpret_program
from raido.schedule.oracles.memory import NestError

PRODUCT = ("matmul", *product(4, 6, 5, 2, 6, 2))
NESTS = [PRODUCT, ("matmul", *product(6, 4, 2, 2, 8, 8)), ("blur", *chain(4, 8, 32, 8)), ("blur", *chain(3, 5, 12, 4))]
NESTS += CASES.values()


def hold(program: DeviceProgram, scalar: Nest, arrays: Any, sizes: Any, seed: int = 0) -> None:
    """The program gives what its nest gives, bit for bit."""
    known = sizes_of(scalar, arrays, sizes)
    found = interpret_program(program, arrays, known, scalar.shapes, seed)
    for got, want in zip(found, interpret_nest(scalar, arrays, sizes), strict=True):
        np.testing.assert_array_equal(got, want)


def barriers(program: DeviceProgram) -> list[int]:
    """How many barriers each kernel has."""
    return [sum(isinstance(s, Barrier) for s in statements_within(k.body)) for k in program.kernels]


@pytest.mark.parametrize("case", range(len(NESTS)))
def test_threads_of_blocks_give_what_the_nest_gives(case: int) -> None:
    name, steps, levels = NESTS[case]
    program = PROGRAMS[name]()
    scalar = bound(program, steps, levels)
    kernels = outline_kernels(scalar)
    for seed in range(3):
        hold(kernels, scalar, *random_arguments(program, random.Random(seed)), seed)


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_of_random_schedules_give_what_their_nests_give(name: str) -> None:
    for seed in range(2):
        check_random_kernels(name, seed)


def test_threads_own_every_so_many_th_element() -> None:
    """Columns of a thread lie a block's width apart: its sums are registers, at the edge of the matrix, too."""
    steps: Any = [
        ("c", "split", {"axis": "y", "factor": 6}),
        ("c", "split", {"axis": "yi", "factor": 3}),
        ("c", "split", {"axis": "x", "factor": 8}),
        ("c", "split", {"axis": "xi", "factor": 4}),
        ("c", "split", {"axis": "r", "factor": 3}),
        ("c", "reorder", {"axes": ("yo", "xo", "ro", "yii", "xii", "ri", "yio", "xio")}),
        ("c", "unroll", {"axis": "yio"}),
        ("c", "unroll", {"axis": "xio"}),
    ]
    program = PROGRAMS["matmul"]()
    levels = {"c": {"yo": "block.y", "xo": "block.x", "yii": "thread.y", "xii": "thread.x"}}
    scalar = bound(program, steps, levels)
    made = outline_kernels(scalar)
    assert barriers(made) == [0]
    (kernel,) = made.kernels
    sums = [s.buffer for s in statements_within(kernel.body) if isinstance(s, Alloc)]
    assert [[getattr(e, "value", None) for e in b.shape] for b in sums] == [[2, 2], [2, 2]]
    for seed in range(6):
        hold(made, scalar, *random_arguments(program, random.Random(seed)), seed)


def test_a_product_has_its_sums_in_registers_and_two_barriers_a_step() -> None:
    name, steps, levels = PRODUCT
    (kernel,) = outline_kernels(bound(PROGRAMS[name](), steps, levels)).kernels
    memory = {s.buffer.name: s.buffer for s in statements_within(kernel.body) if isinstance(s, Alloc)}
    assert [getattr(e, "value", None) for e in memory["sum"].shape] == [2, 2] and memory["sum"].scope == "stack"
    assert memory["a_copy"].scope == memory["b_copy"].scope == "shared"
    steps_of_k = [s for s in statements_within(kernel.body) if isinstance(s, For) and s.loop == "ro"]
    assert [sum(isinstance(s, Barrier) for s in each.body.statements) for each in steps_of_k] == [2, 2]


def test_branches_share_what_is_alike() -> None:
    name, steps, levels = PRODUCT
    (kernel,) = outline_kernels(bound(PROGRAMS[name](), steps, levels)).kernels
    shared = [
        s.buffer.name for s in statements_within(kernel.body) if isinstance(s, Alloc) and s.buffer.scope == "shared"
    ]
    assert sorted(shared) == ["a_copy", "b_copy"]


def without_barrier(block: Block, which: int) -> Block:
    """The block without one of its barriers."""
    left = [which]

    def change(s: Any) -> list[Any]:
        if isinstance(s, Barrier):
            left[0] -= 1
            return [] if left[0] == -1 else [s]
        if isinstance(s, Block):
            return [inside(s)]
        if isinstance(s, If):
            return [If(s.condition, inside(s.then), None if s.orelse is None else inside(s.orelse))]
        if isinstance(s, While):
            return [While(inside(s.setup), s.condition, inside(s.body))]
        return [replace(s, body=inside(s.body))] if isinstance(s, For) else [s]

    def inside(block: Block) -> Block:
        return Block(tuple(made for s in block.statements for made in change(s)))

    return inside(block)


@pytest.mark.parametrize("case", (0, 2, 4))
def test_a_missing_barrier_is_found(case: int) -> None:
    name, steps, levels = NESTS[case]
    program = PROGRAMS[name]()
    scalar = bound(program, steps, levels)
    whole = outline_kernels(scalar)
    (kernel,) = whole.kernels
    for which in range(barriers(whole)[0]):
        damaged = replace(whole, kernels=(replace(kernel, body=without_barrier(kernel.body, which)),))
        with pytest.raises(NestError, match=r"race|before it is written"):
            for seed in range(40):
                hold(damaged, scalar, *random_arguments(program, random.Random(seed)), seed)


def in_blocks(*body: Any, width: int = 4, **how: Any) -> For:
    """A loop over blocks of so many indices."""
    b = how.pop("var")
    return loop(b, n, *body, step=width, kind="parallel", level="block.x", **how)


def over_threads(var: Any, b: Any, *body: Any, width: int = 4, level: str = "thread.x") -> For:
    """A loop over the threads of a block."""
    return loop(var, minimum(n, add(b, width)), *body, low=b, kind="parallel", level=level)


def test_memory_that_each_thread_reaches_at_its_own_elements_is_its_own() -> None:
    out, b, t, u = parameter("out", f32, n), fresh("b"), fresh("t"), fresh("u")
    own = scratch("own", f32, 4, scope="stack")
    first = over_threads(t, b, put(own, sub(t, b), op("cast", t, dtype=f32)))
    then = over_threads(u, b, put(out, u, at(own, sub(u, b))))
    scalar = check_nest(nest([], [out], in_blocks(Alloc(own), first, then, var=b)), "scalar")
    made = outline_kernels(scalar)
    assert barriers(made) == [0]
    hold(made, scalar, [], {"n": 10})


def test_memory_that_other_threads_read_is_shared_behind_a_barrier() -> None:
    out, b, t, u = parameter("out", f32, n), fresh("b"), fresh("t"), fresh("u")
    row = scratch("row", f32, 4, scope="stack")
    first = over_threads(t, b, put(row, sub(t, b), op("cast", t, dtype=f32)))
    then = over_threads(u, b, put(out, u, at(row, const(i64, 0))))
    scalar = nest([], [out], in_blocks(Alloc(row), first, then, var=b))
    made = outline_kernels(scalar)
    assert barriers(made) == [1]
    hold(made, scalar, [], {"n": 10})


def test_names_and_small_memory_of_a_block_are_copies_of_each_thread() -> None:
    a, out, b, r, t = parameter("a", f32, n), parameter("out", f32, n), fresh("b"), fresh("r"), fresh("t")
    total = scratch("total", f32)
    whole = loop(r, n, add_up(total, (), at(a, r)))
    then = over_threads(t, b, put(out, t, at(total)))
    scalar = nest([a], [out], in_blocks(Alloc(total), put(total, f(0)), whole, then, var=b))
    made = outline_kernels(scalar)
    assert barriers(made) == [0]
    hold(made, scalar, [np.arange(10, dtype=np.float32)], {"n": 10})


def test_large_memory_that_no_thread_reaches_alone_is_the_blocks() -> None:
    """Stored by the first thread, read by all."""
    out, b, t, x = parameter("out", f32, n), fresh("b"), fresh("t"), fresh("x")
    large = scratch("large", f32, 40, scope="heap")
    fill = loop(x, const(i64, 40), put(large, x, op("cast", x, dtype=f32)))
    total, named = name_of("total", at(large, const(i64, 39)))
    then = over_threads(t, b, put(out, t, total))
    scalar = nest([], [out], in_blocks(Alloc(large), fill, named, then, var=b))
    for limits in (Limits(private=16), Limits(private=16, shared=16)):
        made = outline_kernels(scalar, limits)
        assert barriers(made) == [2 if limits.shared == 16 else 1]
        hold(made, scalar, [], {"n": 10})


def test_large_memory_of_blocks_has_slots_for_those_in_flight() -> None:
    out, b, t, u, y, z = parameter("out", f32, n, w), *map(fresh, "btuyz")
    rows = scratch("rows", f32, 4, w, scope="heap")
    first = over_threads(t, b, loop(y, w, put(rows, sub(t, b), y, op("cast", add(t, y), dtype=f32))))
    last = op("sub", w, op("add", z, const(i64, 1)))
    start = op("sub", const(i64, 0), op("sub", b, b))
    then = over_threads(u, b, loop(z, w, put(out, u, z, op("add", at(rows, start, last), at(rows, sub(u, b), z)))))
    scalar = nest([], [out], in_blocks(Alloc(rows), first, then, var=b), sizes=(n, w))
    made = outline_kernels(scalar, Limits(resident=8))
    assert barriers(made) == [2]
    hold(made, scalar, [], {"n": 23, "w": 3})


def test_threads_take_long_loops_in_turn() -> None:
    out, b, t = parameter("out", f32, n, w), fresh("b"), fresh("t")
    body = loop(t, w, put(out, b, t, op("cast", t, dtype=f32)), kind="parallel", level="thread.x")
    scalar = nest([], [out], in_blocks(body, width=1, var=b), sizes=(n, w))
    made = outline_kernels(scalar, Limits(threads=4))
    assert made.kernels[0].extent == (4, 1, 1)
    hold(made, scalar, [], {"n": 3, "w": 11})


def test_grids_longer_than_a_launch_are_launched_in_parts() -> None:
    out, b, t = parameter("out", f32, n), fresh("b"), fresh("t")
    scalar = nest([], [out], in_blocks(over_threads(t, b, put(out, t, f(1))), var=b))
    made = outline_kernels(scalar, Limits(blocks=(2, 1, 1)))
    (parts,) = (s for s in made.plan if isinstance(s, Loop))
    assert isinstance(parts.body[0], Launch)
    hold(made, scalar, [], {"n": 23})


def test_loops_that_would_wait_apart_from_others_are_serial() -> None:
    """Rows of threads that end at different times cannot wait for one another inside."""
    out, b, t, x, u = parameter("out", f32, n, w), *map(fresh, "btxu")
    row = scratch("row", f32, 3, scope="stack")
    write = loop(x, const(i64, 3), put(row, x, op("cast", add(t, x), dtype=f32)), kind="parallel", level="thread.x")
    turned = at(row, sub(const(i64, 2), u))
    read = loop(u, const(i64, 3), put(out, t, u, turned), kind="parallel", level="thread.x")
    rows = over_threads(t, b, Alloc(row), write, read, level="thread.y")
    scalar = nest([], [out], in_blocks(rows, var=b), sizes=(n, w))
    made = outline_kernels(scalar)
    assert barriers(made) == [0]
    hold(made, scalar, [], {"n": 10, "w": 3})
