"""Arrays of private size inside mapped functions, reduced at once: interpreted and as machine code, against NumPy row by row."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd

random = np.random.default_rng(0)
ROWS = random.normal(size=(11, 9))
CUTS = np.array([0, 1, 2, 3, 8, 2, 9, 0, 5, 5, 4])


def pairs(a, b):
    return a[0] + b[0], rd.maximum(a[1], b[1])


CASES = {
    "sum": (lambda r, k: rd.sum(rd.filter(lambda v: v > 0.3, r)), lambda r, k: r[r > 0.3].sum()),
    "count": (lambda r, k: rd.filter(lambda v: v > 0.3, r).shape[0], lambda r, k: (r > 0.3).sum()),
    "largest": (lambda r, k: rd.max(r[r < 0.3], initial=-9.0), lambda r, k: max([-9.0, *r[r < 0.3]])),
    "mean": (lambda r, k: rd.mean(rd.filter(lambda v: v > -3, r)), lambda r, k: r[r > -3].mean()),
    "place": (lambda r, k: rd.argmin(rd.filter(lambda v: v > -0.5, r)), lambda r, k: r[r > -0.5].argmin()),
    "mapped": (
        lambda r, k: rd.sum(rd.map(lambda v: v * v + 1, rd.filter(lambda v: v > 0.3, r))),
        lambda r, k: (r[r > 0.3] ** 2 + 1).sum(),
    ),
    "twice": (
        lambda r, k: rd.sum(rd.filter(lambda w: w < 1, rd.filter(lambda v: v > 0.3, r))),
        lambda r, k: r[(r > 0.3) & (r < 1)].sum(),
    ),
    "pairs": (
        lambda r, k: rd.reduce(pairs, (0.0, -5.0), *[rd.filter(lambda v: v > 0.3, r)] * 2)[1],
        lambda r, k: max([-5.0, *r[r > 0.3]]),
    ),
    "slice": (lambda r, k: rd.sum(r[k:] * 2), lambda r, k: (r[k:] * 2).sum()),
    "dot": (lambda r, k: r[:k] @ r[:k], lambda r, k: r[:k] @ r[:k]),
    "counted up": (lambda r, k: rd.sum(rd.iota(k)), lambda r, k: k * (k - 1) // 2),
    "table": (lambda r, k: rd.sum(rd.tabulate(k, lambda i: r[i] * i)), lambda r, k: (r[:k] * np.arange(k)).sum()),
    "loop": (
        lambda r, k: rd.while_loop(lambda s: s[1] > 0, lambda s: (s[0] + 1.0, r[r > s[0]].shape[0]), (0.0, rd.i64(1)))[
            0
        ],
        lambda r, k: next(float(t) + 1 for t in range(99) if not (r > t).any()),
    ),
    "divided": (
        lambda r, k: rd.sum(rd.map(lambda v: 100 // v, rd.filter(lambda v: v > 0, rd.iota(9, rd.i64) - k))),
        lambda r, k: sum(100 // v for v in range(-k, 9 - k) if v > 0),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rows_of_private_size_are_reduced_without_memory(case: str) -> None:
    function, reference = CASES[case]
    program = rd.algorithm(lambda rows, cuts: rd.map(function, rows, cuts))
    expected = [reference(row, int(k)) for row, k in zip(ROWS, CUTS, strict=True)]
    for run in (program.interpret, program):
        np.testing.assert_allclose(run(ROWS, CUTS), expected, rtol=1e-13)


def test_faults_inside_them_are_reported_with_their_line() -> None:
    sums = rd.algorithm(lambda rows, cuts: rd.map(lambda r, k: rd.sum(r[k:]), rows, cuts))
    empty = rd.algorithm(lambda rows: rd.map(lambda r: rd.max(rd.filter(lambda v: v > 9, r)), rows))
    for run, again in ((sums.interpret, empty.interpret), (sums, empty)):
        with pytest.raises(rd.IndexOutOfRange, match="slice 10:9 leaves a dimension of size 9") as caught:
            run(ROWS, CUTS * 2 - 8 * (CUTS > 5))
        assert "test_private_sizes.py" in str(caught.value)
        with pytest.raises(rd.SizeMismatch, match="empty axis"):
            again(ROWS)


def test_long_expressions_with_shared_parts_are_looked_through_once():
    """Each statement reads the one before twice: as a tree, the last would have 2**60 operations."""

    @rd.algorithm
    def squared(x: rd.f64):
        for _ in range(60):
            x = x * x
        return x

    assert squared.interpret(np.float64(1.0)) == 1.0
