"""Windows of a line in chunks: no checks remain inside them, and sums of their elements are independent of each other."""

import numpy as np

import raido as rd


def test_a_moving_average_runs_several_gangs_and_checks_nothing() -> None:
    @rd.algorithm
    def average(x: rd.f64["n"]):
        return rd.map(lambda i: rd.sum(x[i : i + 20]), rd.iota(x.shape[0] - 19)) / 20

    text = average.schedule().complete().nest_text()
    assert "interleave" in text and "check r" not in text
    x = np.random.default_rng(3).random(40_000)
    np.testing.assert_allclose(average(x), np.convolve(x, np.full(20, 0.05), "valid"))
