"""Reductions from any initial value, which takes part exactly once under every schedule."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.passes.starts import start_neutral


def last_nonzero(p: Any, q: Any) -> Any:
    return rd.where(q == 0, p, q)


def compose(p: Any, q: Any) -> Any:
    return p[0] * q[0], p[1] * q[0] + q[1]


@rd.algorithm
def folds(a: rd.i64["n"], k: rd.i64):
    return (
        rd.reduce(rd.add, 5, a),
        rd.reduce(rd.add, k, a),
        rd.reduce(rd.maximum, 3, a),
        rd.reduce(lambda p, q: (p[0] + q[0], rd.maximum(p[1], q[1])), (5, 3), a, a)[0],
        rd.reduce(last_nonzero, 5, a),
        rd.reduce(lambda p, q: (p + q) % k, 5, a % k),
        rd.reduce(compose, (2, 3), a, a)[1],
        rd.reduce(
            lambda p, q: p @ q,
            np.array([[1, 1], [0, 2]]),
            rd.map(lambda x: rd.reshape(rd.array([x, 1, 1, 0]), (2, 2)), a),
        )[0],
    )


@pytest.mark.parametrize("a", [[], [4], [3, 0, 0], [1, 2, 3, 0, 5, -1, 2]])
def test_a_start_takes_part_once(a: list[int]) -> None:
    steps = [np.array([[x, 1], [1, 0]]) for x in a]
    expected = (
        5 + sum(a),
        7 + sum(a),
        max([3, *a]),
        5 + sum(a),
        reduce(lambda p, q: q or p, a, 5),
        (5 + sum(a)) % 7,
        reduce(lambda p, q: (p[0] * q, p[1] * q + q), a, (2, 3))[1],
        reduce(np.matmul, steps, np.array([[1, 1], [0, 2]]))[0],
    )
    arguments = np.array(a, np.int64), np.int64(7)
    for got, want in zip(folds.interpret(*arguments), expected, strict=True):
        np.testing.assert_array_equal(got, want)


@rd.algorithm
def neutral(a: rd.i64["n"], x: rd.f32["n"]):
    segment = lambda p, q: (rd.maximum(rd.maximum(p[0], q[0]), p[2] + q[1]), rd.maximum(p[1], p[3] + q[1]))
    longest = lambda p, q: (*segment(p, q), rd.maximum(q[2], p[2] + q[3]), p[3] + q[3])
    sums = [rd.maximum(a, 0)] * 3
    return (
        rd.sum(x),
        rd.argmin(x),
        rd.reduce(compose, (1, 0), a, a)[1],
        rd.reduce(last_nonzero, 0, a),
        rd.reduce(longest, (0, 0, 0, 0), *sums, a)[0],
        rd.reduce(
            lambda p, q: p @ q,
            np.eye(2, dtype=np.int64),
            rd.map(lambda e: rd.reshape(rd.array([e, 1, 1, 0]), (2, 2)), a),
        ),
        rd.bincount(a, 4),
    )


def test_what_starts_from_a_neutral_element_stays_as_it_is() -> None:
    program = neutral.trace(np.ones(3, np.int64), np.ones(3, np.float32))
    assert start_neutral(program) is program
