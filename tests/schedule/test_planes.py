"""Planes that no stage mixes: row tiles lie within one plane, and threads share the row tiles of all planes."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.targets.target import CPUS

MACHINE = CPUS["sapphirerapids"].machine
SQUARE = [(i, j) for i in range(-2, 3) for j in range(-2, 3)]


def total(p, *plane):
    return sum((p[(*plane, *t)] for t in SQUARE[1:]), p[(*plane, *SQUARE[0])])


@rd.algorithm
def colours(a: rd.f32["c", "h", "w"]):
    first = rd.stencil(lambda p: total(p, 0), a, boundary="clamp", name="first")
    return rd.stencil(lambda p: total(p, 0), first, boundary="clamp", name="second")


@rd.algorithm
def batch(a: rd.f32["n", "c", "h", "w"]):
    first = rd.stencil(lambda p: total(p, 0, 0), a, boundary="clamp", name="first")
    return rd.stencil(lambda p: total(p, 0, 0), first, boundary="clamp", name="second")


@rd.algorithm
def volume(a: rd.f32["c", "h", "w"]):
    first = rd.stencil(lambda p: total(p, 0) + p[1, 0, 0], a, boundary="clamp", name="first")
    return rd.stencil(lambda p: total(p, 0), first, boundary="clamp", name="second")


def completed(algorithm, **sizes):
    return str(Schedule(form_stages(algorithm.trace())).complete(MACHINE, sizes))


@pytest.mark.parametrize("sizes", [{}, {"c": 1, "h": 1000, "w": 1000}, {"c": 100, "h": 28, "w": 28}], ids=str)
def test_strips_are_of_one_plane(sizes):
    text = completed(colours, **sizes)
    assert '.fuse("z", "yo")' in text and '.parallel("zyo"' in text
    assert 's["first"].compute_at("second", "zyo")' in text


def test_planes_of_planes_are_shared_too():
    text = completed(batch)
    assert '.parallel("d0zyo")' in text and 's["first"].compute_at("second", "d0zyo")' in text


def test_stages_that_read_other_planes_have_strips_of_planes():
    assert '.fuse("z", "yo")' not in completed(volume)


@pytest.mark.parametrize("algorithm, rank", [(colours, 3), (batch, 4), (volume, 3)])
def test_results_are_the_interpreters(algorithm, rank):
    exe = algorithm.compile()
    for shape in ((1, 2, 40, 70), (3, 1, 3, 5), (2, 5, 33, 18), (0, 2, 4, 4)):
        a = np.random.default_rng(1).random(shape[-rank:], np.float32)
        np.testing.assert_array_equal(exe(a), algorithm.interpret(a))


@rd.algorithm
def rooted(a: rd.f32["c", "h", "w"]):
    return rd.sqrt(a, name="root")


@rd.algorithm
def products(a: rd.f32["b", "m", "k"], b: rd.f32["b", "k", "n"]):
    return rd.matmul(a, b, name="product")


def test_threads_share_the_rows_of_few_planes():
    assert '.split("zyx", 16384).parallel("zyxo")' in completed(rooted)  # rows may be short
    assert '.fuse("z", "y").parallel("zy"' in completed(rooted, c=1, h=1000, w=1000)
    assert '.parallel("z"' in completed(rooted, c=64, h=1000, w=1000)


def test_threads_share_the_rows_of_few_products():
    sizes = {"m": 1000, "k": 1000, "n": 1000}
    assert '.fuse("z", "yo").parallel("zyo")' in completed(products, b=1, **sizes)
    assert '.parallel("z")' in completed(products, b=64, **sizes)
    exe = products.compile(sizes={"b": 3})
    a, b = (np.random.default_rng(k).random((3, 40, 40), np.float32) for k in (1, 2))
    np.testing.assert_allclose(exe(a, b), a @ b, rtol=1e-4)
