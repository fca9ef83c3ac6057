"""Loops of few iterations: a loop of at most one is a branch; loops behind whole groups of gangs, and folds of chunks, are not copied."""

import numpy as np

import raido as rd
from raido.schedule.nest.nodes import For
from raido.schedule.nest.walk import statements_within
from raido.targets.compile import Compilation


@rd.algorithm
def three(a: rd.f32["h", "w"]):
    return rd.stencil(lambda p: p[0, -1] + p[0, 0] + p[0, 1], a, boundary="clamp", name="out")


@rd.algorithm
def doubled(a: rd.f32["h", "w"]):
    return rd.multiply(a, 2, name="out")


def numbers(h, w):
    return np.random.default_rng(w).integers(0, 100, (h, w)).astype(np.float32)


def in_gangs(algorithm, interleave):
    schedule = algorithm.schedule()
    schedule["out"].vectorize("x", lanes=8, interleave=interleave).partition_boundaries()
    return algorithm.compile(schedule=schedule)


def test_a_border_of_one_element_is_a_branch():
    made = in_gangs(three, 1)
    gang, tir = made.source("gang"), made.source("tir")
    assert "for x in 0..min(1, w):" in gang and "for x in max(min(1, w), w - 1)..w:" in gang
    assert tir.count("for x") == gang.count("for x") - 2 == 1  # the whole gangs
    for w in range(30):
        a = numbers(3, w)
        assert (made(a) == three.interpret(a)).all()


def test_gangs_behind_whole_groups_are_not_copied():
    made = in_gangs(doubled, 4)
    loop = made.source("tir").split("for x_turn")[1]
    assert loop.count("rd.once") == 1
    for w in range(70):
        a = numbers(2, w)
        assert (made(a) == 2 * a).all()


def test_a_gang_behind_whole_gangs_is_a_branch():
    gang = in_gangs(doubled, 1).source("gang")
    assert "if x_rest < w:" in gang and "x_turn" not in gang
    made = in_gangs(doubled, 1)
    for w in range(30):
        a = numbers(2, w)
        assert (made(a) == 2 * a).all()


def test_folds_of_partial_results_are_not_copied():
    @rd.algorithm
    def column_sums(a: rd.f32["h", "w"]):
        return rd.sum(a, axis=0)

    made = Compilation(column_sums.trace(), rd.Target(), None, {})
    for nest in (made.nest, made.gang):
        assert {s.copied for s in statements_within(nest.body) if isinstance(s, For) and s.loop == "chunk"} == {False}
    folds = made.functions["raido_column_sums.reduce_1"].script().split("for chunk")[1].split("rd.give")[0]
    assert folds.count("rd.once") == 1 + folds.count("for x")  # of chunks, and of gangs

    @rd.algorithm
    def product(a: rd.f32["n", "k"], b: rd.f32["k", "m"]):
        return a @ b

    gang = Compilation(product.trace(), rd.Target(), None, {}).source("gang")
    assert gang.count("for chunk") == 2  # of whole groups, and of one under masks, however few gangs it needs
