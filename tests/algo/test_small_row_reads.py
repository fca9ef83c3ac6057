"""Elements of small rows read from arrays: such an array is computed once, whatever the number of elements."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd
from raido.algo.graph.expr import ArrayLoop, Scan
from raido.algo.graph.rewrite import topological


def count(form: type, algorithm: rd.Algorithm) -> int:
    return sum(isinstance(node, form) for node in topological(*algorithm.trace().results))


@pytest.mark.parametrize("n", [6, 16])
def test_a_loop_that_a_row_of_scalars_reads_is_one_loop(n):
    solve = rd.algorithm(a=f"f64[k, {n}, {n}]", b=f"f64[k, {n}]")(lambda a, b: rd.map(rd.linalg.solve, a, b))
    assert count(ArrayLoop, solve) == 1
    rng = np.random.default_rng(n)
    a, b = rng.standard_normal((5, n, n)), rng.standard_normal((5, n))
    np.testing.assert_allclose(solve(a, b), np.linalg.solve(a, b[..., None])[..., 0], rtol=1e-9)


def test_a_scan_that_a_row_of_scalars_reads_is_one_scan():
    def follow(row):
        sums = rd.scan(rd.add, 0.0, row * 2.0)
        return rd.loop(4, lambda k, s: rd.where(rd.iota(4) <= k, s + sums[::-1], s * sums), row)

    program = rd.algorithm(a=rd.f64["n", 4])(lambda a: rd.map(follow, a))
    assert count(Scan, program) == 1
    a = np.random.default_rng(1).standard_normal((3, 4))
    np.testing.assert_allclose(program(a), program.interpret(a), rtol=1e-12)
