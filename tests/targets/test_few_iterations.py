"""Loops of few iterations: a loop of at most one iteration is a branch, and gangs left after whole groups share one loop body."""

import numpy as np

import raido as rd


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
