"""Successive updates of an array share a loop over rows where rows are independent, and only there; results are the interpreter's."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.schedule.lower import lower
from raido.schedule.nest.nodes import Nest, Produce
from raido.schedule.nest.walk import statements_within
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest


def elimination(m: Any) -> Any:
    """Each row is divided by the pivot, and then changed by what it became."""

    def step(k: Any, m: Any) -> Any:
        m = m.at[k + 1 :, k].set(m[k + 1 :, k] - m[k, k])
        return m.at[k + 1 :, k + 1 :].set(m[k + 1 :, k + 1 :] - m[k + 1 :, k][:, None] * m[k, k + 1 :][None, :])

    return rd.loop(rd.minimum(*m.shape) - 1, step, m)


def symmetric(m: Any) -> Any:
    """Each row is changed by what all rows have become."""

    def step(k: Any, m: Any) -> Any:
        m = m.at[k + 1 :, k].set(m[k + 1 :, k] - m[k, k])
        return m.at[k + 1 :, k + 1 :].add(m[k + 1 :, k][:, None] * m[k + 1 :, k][None, :])

    return rd.loop(m.shape[0] - 1, step, m)


def neighbours(m: Any) -> Any:
    """The second change reads what the first has made of the row above."""

    def step(k: Any, m: Any) -> Any:
        m = m.at[1:, 0].set(m[1:, 0] + k)
        return m.at[1:, 1].add(m[:-1, 0])

    return rd.loop(3, step, m)


def uneven(m: Any) -> Any:
    """The second change makes one row less than the first."""

    def step(k: Any, m: Any) -> Any:
        m = m.at[1:, 0].set(m[1:, 0] + k)
        return m.at[2:, 1].add(m[2:, 0])

    return rd.loop(3, step, m)


def one_row(m: Any) -> Any:
    """The second change reads an element that the first has made, in every row."""

    def step(k: Any, m: Any) -> Any:
        m = m.at[1:, 0].set(m[1:, 0] + k)
        return m.at[1:, 1].add(m[2, 0])

    return rd.loop(3, step, m)


def row_above_all(m: Any) -> Any:
    """The second change reads a row that neither changes."""

    def step(k: Any, m: Any) -> Any:
        m = m.at[1:, 0].set(m[1:, 0] + k)
        return m.at[1:, 2:].add(m[1:, 0][:, None] * m[0, 2:][None, :])

    return rd.loop(3, step, m)


def thrice(m: Any) -> Any:
    """Three changes of each row."""

    def step(k: Any, m: Any) -> Any:
        m = m.at[k:, 0].set(m[k:, 0] + k)
        m = m.at[k:, 1].set(m[k:, 1] - m[k:, 0])
        return m.at[k:, 2:].add(m[k:, 1][:, None])

    return rd.loop(3, step, m)


def two_arrays(m: Any) -> Any:
    """Changes of different arrays."""
    return rd.loop(3, lambda k, s: (s[0].at[1:, 0].set(s[1][1:, 0]), s[1].at[1:, 1].set(k)), (m, m * 2))[0]


@pytest.mark.parametrize(
    ("function", "stages"),
    [
        (elimination, 1),
        (symmetric, 2),
        (neighbours, 2),
        (uneven, 2),
        (one_row, 2),
        (row_above_all, 1),
        (thrice, 1),
        (two_arrays, 2),
    ],
)
def test_rows_are_changed_together_where_none_needs_another(function: Callable[[Any], Any], stages: int) -> None:
    algorithm = rd.algorithm(function)
    complete = algorithm.schedule(rd.i64["n", "n"]).complete()
    nest = check_nest(lower(complete.graph, complete.variants()), "scalar")
    assert changing_stages(nest) == stages, complete.nest_text()
    m = np.random.default_rng(1).integers(-9, 9, (7, 7))
    for seed in range(3):
        np.testing.assert_array_equal(interpret_nest(nest, [m], seed=seed)[0], algorithm.interpret(m))


def changing_stages(nest: Nest) -> int:
    """The stages that loops make in each of their iterations."""
    return sum(isinstance(s, Produce) and s.stage.startswith("loop_1/update") for s in statements_within(nest.body))


def test_compiled_rows_are_the_interpreters() -> None:
    algorithm = rd.algorithm(elimination)
    for shape in ((40, 40), (1, 5), (2, 3), (0, 0)):
        m = np.random.default_rng(2).integers(-9, 9, shape)
        np.testing.assert_array_equal(algorithm(m), algorithm.interpret(m))


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_random_changes_in_a_row_are_the_interpreters(first: int) -> None:
    joined = 0
    for seed in range(first, first + 10):
        source = random_changes(random.Random(seed))
        scope: dict[str, Any] = {"rd": rd}
        exec(source, scope)
        algorithm = scope["program"]
        m = np.random.default_rng(seed).integers(-9, 9, scope["SHAPE"])
        complete = algorithm.schedule().complete()
        nest = check_nest(lower(complete.graph, complete.variants()), "scalar")
        joined += changing_stages(nest) < scope["CHANGES"]
        want = algorithm.interpret(m)
        for order in (None, 1, 2):
            np.testing.assert_array_equal(interpret_nest(nest, [m], seed=order)[0], want, source)
    assert joined


def random_changes(draw: random.Random) -> str:
    """A loop that changes two or three parts of an array in a row; each part reads some others, most of them in its own rows."""
    rank = draw.choice((1, 2, 2, 2, 3))
    shape = tuple(draw.choice((5, 6, 7)) for _ in range(rank))
    rows = draw.choice((":", "1:", "k + 1:", ":-1", "2:-1"))
    along = draw.randrange(rank)
    lines = []
    count = draw.choice((2, 2, 3))
    for _ in range(count):
        part = [draw.choice(("k", "0", "-1", ":", "1:", "k + 1:", ":-2")) for _ in range(rank)]
        part[along] = rows if draw.random() < 0.9 else draw.choice((":", "1:", "::2"))
        place = ", ".join(part)
        reads = [f"m[{place}]"]
        for _ in range(draw.choice((1, 1, 2))):
            # a read of one element along each axis, or of the same part
            other = [draw.choice(("k", "0", "k + 1", "-2")) if ":" in e and draw.random() < 0.6 else e for e in part]
            if draw.random() < 0.75:
                other[along] = part[along]
            elif part[along] == "1:":
                other[along] = ":-1"
            elif part[along] == ":-1":
                other[along] = "1:"

            kept = [f"{e}, None" if ":" in p and ":" not in e else e for e, p in zip(other, part, strict=True)]
            reads.append(f"m[{', '.join(kept)}]")
        how = draw.choice(("set", "set", "add"))
        lines.append(
            f"        m = m.at[{place}].{how}({' + '.join(f'{r} * {j + 1}' for j, r in enumerate(reads))} + k)"
        )
    body = "\n".join(lines)
    sizes = ", ".join(f'"{name}"' for name in ("h", "w", "d")[:rank])
    return f"""
SHAPE, CHANGES = {shape}, {count}

@rd.algorithm
def program(m: rd.i64[{sizes}]):
    def step(k, m):
{body}
        return m
    return rd.loop(2, step, m)
"""
