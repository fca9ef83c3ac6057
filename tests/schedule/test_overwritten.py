"""Initial contents that a loop overwrites before they are read: neither copied nor filled. All others are."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd
from raido.schedule.lower import lower
from raido.schedule.nest.printer import print_nest
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest


@rd.algorithm
def levels(x: rd.f32["n"]):
    def body(i, state):
        level, out = state
        level = level + 0.5 * (x[i] - level)
        return level, out.at[i].set(level)

    return rd.loop(x.shape[0], body, (0.0, rd.zeros_like(x)))[1]


@rd.algorithm
def two_filled_alike(x: rd.f32["n"]):
    def body(i, state):
        level, a, b = state
        return level + x[i], a.at[i].set(level), b.at[i].set(level * x[i])

    return rd.loop(x.shape[0], body, (0.0, rd.zeros_like(x), rd.zeros_like(x)))[1:]


@rd.algorithm
def from_the_element_before(x: rd.f32["n"]):
    return rd.loop(x.shape[0] - 2, lambda i, s: s.at[i + 2].add(s[i] * s[i + 1]), x)


@rd.algorithm
def from_the_last(x: rd.f32["n"]):
    n = x.shape[0]
    return rd.loop(n - 1, lambda i, s: s.at[n - 2 - i].set(s[n - 1 - i] + x[n - 2 - i]), x)


@rd.algorithm
def down_columns(m: rd.f32["n", "n"]):
    return rd.loop(m.shape[0] - 1, lambda i, s: s.at[i + 1].set(rd.where(s[0] > 0, s[i] + m[i + 1], s[i + 1])), m)


@rd.algorithm
def columns_of_a_map(m: rd.f32["n", "n"]):
    column = lambda c: rd.loop(c.shape[0] - 1, lambda i, s: s.at[i + 1].set(s[i] + c[i + 1]), c)
    return rd.map(column, m.T).T


@rd.algorithm
def diagonals(m: rd.f32["n", "n"]):
    return rd.loop(m.shape[0] - 1, lambda i, s: s.at[i + 1, 1:].set(s[i, :-1] + m[i + 1, 1:]), m)


@rd.algorithm
def half(x: rd.f32["n"]):
    return rd.loop(x.shape[0] // 2, lambda i, s: s.at[i + 1].set(s[i] + x[i + 1]), x)


@rd.algorithm
def at_odd_places(x: rd.f32["n"]):
    return rd.loop(x.shape[0] // 2, lambda i, s: s.at[2 * i].set(s[2 * i + 1] + 1), x)


@rd.algorithm
def read_by_position(x: rd.f32["n"]):
    n = x.shape[0]
    return rd.loop(n, lambda i, s: s.at[i].set(s[(i * 7) % n] + 1), x)


@rd.algorithm
def mirrored(x: rd.f32["n"]):
    n = x.shape[0]
    return rd.loop(n, lambda i, s: s.at[i].set(s[n - 1 - i] + 1), x)


@rd.algorithm
def until_a_large_one(x: rd.f32["n"]):
    body = lambda s: (s[0] + 1, s[1].at[s[0]].set(x[s[0]] + 1))
    return rd.while_loop(lambda s: s[0] < x.shape[0] - 1, body, (0, rd.zeros_like(x)))[1]


@rd.algorithm
def filled_in_part(x: rd.f32["n"]):
    """The zeros are stored in a part of an array whose other elements stay."""
    start = (x * 2).at[1:3].set(0)
    return rd.loop(x.shape[0] - 1, lambda i, s: s.at[i + 1].set(s[i] + s[i + 1] + x[i]), start)


NARROWED = [levels, two_filled_alike, from_the_element_before, from_the_last, down_columns, columns_of_a_map, diagonals]
WHOLE = [half, at_odd_places, read_by_position, mirrored, until_a_large_one, filled_in_part]


def nest_of(algorithm):
    complete = algorithm.schedule().complete()
    return check_nest(lower(complete.graph, complete.variants()), "scalar")


@pytest.mark.parametrize("algorithm", [*NARROWED, *WHOLE], ids=lambda each: each.name)
def test_contents_that_are_read_are_there(algorithm):
    nest = nest_of(algorithm)
    for n in (3, 5, 21, *((0, 1, 2) if algorithm in NARROWED else ())):
        x = (
            np.random.default_rng(n)
            .integers(-4, 5, (n,) * len(algorithm.trace().parameters[0].shape))
            .astype(np.float32)
        )
        expected = algorithm.interpret(x)
        expected = expected if isinstance(expected, tuple) else (expected,)
        got = algorithm(x)
        for results in (interpret_nest(nest, [x]), got if isinstance(got, tuple) else (got,)):
            for result, want in zip(results, expected, strict=True):
                np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize("algorithm", NARROWED, ids=lambda each: each.name)
def test_contents_that_are_overwritten_are_not_copied(algorithm):
    text = print_nest(nest_of(algorithm))
    assert " = copy " not in text
    assert "produce move" not in text
    assert text.count("produce copy") == (
        0 if algorithm in (levels, two_filled_alike) else 2 if algorithm is diagonals else 1
    )


@pytest.mark.parametrize("algorithm", [half, at_odd_places, read_by_position, mirrored], ids=lambda each: each.name)
def test_contents_that_may_be_read_are_copied_whole(algorithm):
    assert " = copy " in print_nest(nest_of(algorithm))
