"""Parallel loops whose iterations have a section in order: the same result on any number of threads, without deadlock."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent.parent / "schedule"))

from emission import compile_body, index, n
from nests import add_up, at, loop, op, parameter, put, scratch

from raido.algo.graph.dtypes import f32
from raido.algo.graph.expr import Op, fresh
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.nest.nodes import Alloc, Block, Fold, For, If, Let, Nest, Ordered, Produce, Store
from raido.schedule.nest.printer import print_nest
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.oracles.memory import NestError
from raido.targets.native import set_threads

BLOCK = 1000


def chained_scan(skip=None, kind="serial"):
    """Prefix sums of x in blocks: each round sums its block, takes what came before in order, and goes over the block again."""
    x, y = parameter("x", f32, n), parameter("y", f32, n)
    carry, total, running = (scratch(name, f32) for name in ("carry", "total", "running"))
    xo, i, j = fresh("xo"), fresh("i"), fresh("j")
    end = op("minimum", op("add", xo, index(BLOCK)), n)
    offset, result = fresh("offset", f32), fresh("result", f32)
    left, right = fresh("left", f32), fresh("right", f32)
    section = Ordered(
        Block((Let(offset, at(carry)), Store(running, (), offset), Store(carry, (), op("add", offset, at(total)))))
    )
    guarded = section if skip is None else If(op("ne", xo, index(skip)), Block((section,)))
    both = (op("add", left, right),)
    scan = Fold((running,), (), both, (left,), (right,), both, (), values=(at(x, j),), after=(result,))
    body = (
        Alloc(total),
        put(total, Op("cast", f32, (index(0),))),
        loop(i, end, add_up(total, (), at(x, i)), low=xo, kind=kind),
        Alloc(running),
        put(running, Op("cast", f32, (index(0),))),
        guarded,
        loop(j, end, scan, put(y, j, result), low=xo, kind=kind),
    )
    start = put(carry, Op("cast", f32, (index(0),)))
    blocks = For(xo, index(0), n, BLOCK, Block(body), "parallel")
    return [x], [y], [Alloc(carry), start, blocks]


def program(kind="serial", skip=None):
    inputs, outputs, body = chained_scan(skip, kind)
    return Nest("chained", tuple(inputs), (n,), tuple(outputs), Block((Produce("scan", Block(tuple(body))),)))


@pytest.mark.parametrize("kind", ["serial", "vector"])
def test_the_interpreter_runs_sections_in_order(kind):
    x = np.arange(4321, dtype="f4") % 7
    nest = check_nest(program(kind), "scalar")
    for bits in (128, 512):
        gang = check_nest(form_gangs(nest, bits), "gang")
        for each in (nest, gang):
            (y,) = interpret_nest(each, [x], seed=1)
            np.testing.assert_array_equal(y, np.cumsum(x))
    assert "ordered:" in print_nest(nest)


def test_an_ordered_section_stands_in_a_loop_over_threads():
    nest = Nest("loose", (), (n,), (), Block((Produce("loose", Block((Ordered(Block(())),))),)))
    with pytest.raises(NestError, match="ordered section outside a parallel loop"):
        check_nest(nest, "scalar")


@pytest.fixture
def threads():
    yield set_threads
    set_threads(None)


@pytest.mark.parametrize("kind", ["serial", "vector"])
def test_bits_do_not_depend_on_the_threads(threads, kind):
    nest = form_gangs(program(kind), 512)
    run = compile_body(nest.body.statements[0].body.statements, nest.inputs, nest.outputs)
    x = np.random.default_rng(1).random(400_123, dtype="f4")
    results = []
    for count in (1, 2, 8, 8, 8):
        threads(count)
        y = np.empty_like(x)
        run((x,), (len(x),), (y,))
        results.append(y)
    for y in results[1:]:
        np.testing.assert_array_equal(y.view("u4"), results[0].view("u4"))
    np.testing.assert_allclose(results[0], np.cumsum(x, dtype="f8"), rtol=1e-4)


def test_no_rounds_and_few_rounds(threads):
    nest = form_gangs(program("vector"), 512)
    run = compile_body(nest.body.statements[0].body.statements, nest.inputs, nest.outputs)
    threads(8)
    for size in (0, 1, 999, 1000, 1001):
        x = np.ones(size, "f4")
        y = np.zeros_like(x)
        run((x,), (size,), (y,))
        np.testing.assert_array_equal(y, np.cumsum(x))


def test_a_round_that_does_not_come_passes_its_turn_on(threads):
    nest = form_gangs(program("vector", skip=2 * BLOCK), 512)
    run = compile_body(nest.body.statements[0].body.statements, nest.inputs, nest.outputs)
    x = np.ones(10 * BLOCK, "f4")
    expected = np.arange(1, len(x) + 1)
    expected[2 * BLOCK :] -= BLOCK
    expected[2 * BLOCK : 3 * BLOCK] = np.arange(1, BLOCK + 1)
    for count in (1, 2, 8):
        threads(count)
        y = np.empty_like(x)
        run((x,), (len(x),), (y,))
        np.testing.assert_array_equal(y, expected)
