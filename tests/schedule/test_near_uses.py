"""Bindings in the bodies of register tiles stand near their uses, and never behind a write to an array that they read."""

import re

import numpy as np

import raido as rd
from raido.algo.graph.dtypes import f32, i64
from raido.algo.graph.expr import Op, const, fresh
from raido.schedule.gang.near_uses import name_near_uses
from raido.schedule.nest.nodes import Block, Let, Store
from raido.schedule.nest.values import Buffer, Read


@rd.algorithm
def distances(a: rd.f32["n", "d"], b: rd.f32["m", "d"]):
    def squared(i, j):
        return rd.sum(rd.tabulate((a.shape[1],), lambda k: (a[i, k] - b[j, k]) ** 2))

    return rd.tabulate((a.shape[0], b.shape[0]), squared, name="out")


def tile_of(text):
    """The lines of the first body that adds to a tile of sums."""
    lines = text.splitlines()
    last = next(k for k, line in enumerate(lines) if re.search(r"sum\w*\[11, 1\] = fma", line))
    first = max(k for k in range(last) if lines[k].lstrip().startswith("for "))
    return [line.strip() for line in lines[first + 1 : last + 1]]


def test_what_a_tile_reads_is_named_where_its_sums_need_it():
    s = distances.schedule()
    s["out"].tile(i=12, j=32).reorder("io", "jo", "r", "ii", "ji").unroll("ii").vectorize("ji", 16, interleave=2)
    body = tile_of(distances.compile(schedule=s).source("gang"))
    names = [line.split(" = ")[0] for line in body if re.match(r"\w+ = ", line)]
    assert len(names) >= 12
    for name in names:
        at, use = [k for k, line in enumerate(body) if re.search(rf"\b{name}\b", line)][:2]
        assert use - at <= 4, f"{name} waits for {use - at} statements"
    a, b = (np.random.default_rng(k).random((n, 9), dtype=np.float32) for k, n in enumerate((40, 70)))
    expected = ((a[:, None] - b[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(distances.compile(schedule=s)(a, b), expected, rtol=1e-5)


def buffer(name, scope, *shape):
    return Buffer(name, f32, tuple(const(i64, n) for n in shape), scope, fresh(name).serial, (), 1, None)


def test_what_is_read_is_named_before_it_is_overwritten():
    memory, acc, first, second = (
        buffer("m", "heap", 4),
        buffer("acc", "register"),
        fresh("first", f32),
        fresh("second", f32),
    )
    zero = (const(i64, 0),)
    old = Let(first, Read(memory, zero, None))
    twice = Let(second, Op("mul", f32, (first, first)))
    over = Store(memory, zero, const(f32, 1.0), None)
    update = Store(acc, (), Op("add", f32, (Read(acc, (), None), second)), None)
    other = Store(buffer("o", "heap", 4), zero, const(f32, 2.0), None)
    made = name_near_uses(Block((old, twice, other, over, update)))
    assert made.statements == (other, old, over, twice, update)


def test_blocks_without_sums_in_registers_stay_as_they_are():
    memory, first = buffer("m", "heap", 4), fresh("first", f32)
    zero, one = (const(i64, 0),), (const(i64, 1),)
    block = Block(
        (
            Let(first, Read(memory, zero, None)),
            Store(memory, one, const(f32, 1.0), None),
            Store(memory, zero, first, None),
        )
    )
    assert name_near_uses(block).statements == block.statements
