"""Regions read at mirrored indices: the rows next to a row tile, reflected at the borders, and no others."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd
from raido.algo.interpreter.interpret import interpret
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.printer import print_nest
from raido.schedule.oracles.interpret import interpret_nest


def chain(boundary: str, reach: int):
    """Two stencils, one after the other, the first computed in strips of four rows of the second."""

    @rd.algorithm
    def rows_and_columns(a: rd.f64["h", "w"]):
        rows = rd.stencil(lambda w: w[0, -1] + w[0, 0] + w[0, 1], a, boundary=boundary, name="rows")
        return rd.stencil(lambda w: w[-reach, 0] + w[0, 0] + w[reach, 0], rows, boundary=boundary, name="cols")

    schedule = rows_and_columns.schedule()
    schedule["cols"].split("y", 4).vectorize("x")
    schedule["rows"].compute_at("cols", "yo").vectorize("x")
    complete = schedule.complete(Machine())
    return rows_and_columns, lower(complete.graph, complete.variants())


@pytest.mark.parametrize("boundary", ["mirror", "symmetric"])
@pytest.mark.parametrize("reach", [1, 3])
def test_a_strip_needs_its_own_rows_and_those_next_to_it(boundary: str, reach: int) -> None:
    algorithm, nest = chain(boundary, reach)
    assert f"rows: f64[{4 + 2 * reach}, w]" in print_nest(nest)
    for shape in ((1, 1), (2, 3), (3, 5), (4, 4), (5, 2), (13, 6)):
        a = np.random.default_rng(shape[0]).random(shape)
        assert (interpret_nest(nest, [a])[0] == interpret(algorithm.trace(), [a])[0]).all()
