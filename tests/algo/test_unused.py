"""Unused results are not computed, and faults in them are not raised."""

from __future__ import annotations

import numpy as np

import raido as rd
from raido.algo.graph.expr import Generate


def test_one_of_two_results() -> None:
    @rd.algorithm
    def remainders(a: rd.i32["n"], d: rd.i32):
        _, rest = rd.elementwise(lambda v: (v // (d - d), v % d), a)
        return rd.sum(rest)

    values = np.arange(10, dtype=np.int32)
    traced = remainders.trace(values, np.int32(3))
    assert [len(form.bodies) for form in traced.order if isinstance(form, Generate)][:1] == [1]
    assert remainders.interpret(values, np.int32(3)) == remainders(values, np.int32(3)) == (values % 3).sum()


def test_results_keep_their_order() -> None:
    @rd.algorithm
    def parts(a: rd.f64["n"]):
        first, _, third, _ = rd.elementwise(lambda v: (v + 1, v * 2, v - 3, v / 4), a, name="parts")
        return third, rd.sum(first), first

    a = np.arange(4.0)
    for run in (parts.interpret, parts):
        third, total, first = run(a)
        np.testing.assert_array_equal(third, a - 3)
        np.testing.assert_array_equal(first, a + 1)
        assert total == (a + 1).sum()
    assert parts.schedule().stages[0] == "parts"
