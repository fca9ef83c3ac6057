"""Combinators inside functions of other combinators: interpreted and compiled they give NumPy's results, row by row."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from agreement import agree

import raido as rd

rng = np.random.default_rng(5)
A = rng.integers(-5, 9, (5, 7))
K = np.array([3, 0, 4, 1, 2])

# Programs over the rows r of A and the numbers k of K: the function of an element, and the same in NumPy.
Case = tuple[Callable[..., Any], Callable[..., Any]]
ROWS: dict[str, Case] = {
    "scan what is kept": (
        lambda r, k: rd.sum(rd.scan(rd.add, 0, rd.filter(lambda x: x > 0, r))),
        lambda r, k: np.cumsum(r[r > 0]).sum(),
    ),
    "sort what is kept": (
        lambda r, k: rd.max(rd.sort(r[r > 0])[:2], initial=0),
        lambda r, k: np.sort(r[r > 0])[:2].max(initial=0),
    ),
    "an element of what is kept": (
        lambda r, k: rd.cond(rd.sum(r > 0) > 1, lambda: rd.sort(r[r > 0])[1], lambda: rd.i64(-1)),
        lambda r, k: np.sort(r[r > 0])[1] if (r > 0).sum() > 1 else -1,
    ),
    "all pairs of what is kept": (
        lambda r, k: rd.sum((lambda h: rd.tabulate((h.shape[0], h.shape[0]), lambda i, j: h[i] * h[j]))(r[r > 0])),
        lambda r, k: np.outer(r[r > 0], r[r > 0]).sum(),
    ),
    "scan a count": (lambda r, k: rd.sum(rd.scan(rd.add, 0, rd.iota(k))), lambda r, k: np.cumsum(np.arange(k)).sum()),
    "bins of a count": (
        lambda r, k: rd.bincount(rd.iota(k) % 3, 3),
        lambda r, k: np.bincount(np.arange(k) % 3, minlength=3),
    ),
    "update a count": (
        lambda r, k: rd.sum(rd.replicate(k, 1).at[rd.iota(k) // 2].add(2) * rd.iota(k)),
        lambda r, k: sum(i * (1 + 2 * len([j for j in range(k) if j // 2 == i])) for i in range(k)),
    ),
    "maxima of a slice": (
        lambda r, k: rd.sum(rd.scan(rd.maximum, -9, r[:k])),
        lambda r, k: np.maximum.accumulate(r[:k]).sum(),
    ),
    "partition": (
        lambda r, k: rd.concat(rd.partition(lambda x: x > 1, r)),
        lambda r, k: np.concatenate([r[r > 1], r[r <= 1]]),
    ),
    "partition a slice": (
        lambda r, k: rd.sum(rd.partition(lambda x: x > 1, r[:k])[1]),
        lambda r, k: r[:k][r[:k] <= 1].sum(),
    ),
    "median of the distinct": (
        lambda r, k: (lambda u: u[u.shape[0] // 2])(rd.unique(r)),
        lambda r, k: np.unique(r)[len(np.unique(r)) // 2],
    ),
    "repeat": (
        lambda r, k: rd.sum(rd.scan(rd.add, 0, rd.repeat(r, rd.abs(r)))),
        lambda r, k: np.cumsum(np.repeat(r, abs(r))).sum(),
    ),
    "repeat by one count": (
        lambda r, k: rd.sum(rd.unique(rd.repeat(r, k))),
        lambda r, k: np.unique(np.repeat(r, k)).sum(),
    ),
    "filter what is kept": (
        lambda r, k: rd.sum(rd.sort(rd.filter(lambda y: y < 6, rd.filter(lambda x: x > 0, r)))[:2]),
        lambda r, k: np.sort(r[(r > 0) & (r < 6)])[:2].sum(),
    ),
    "scans over what is kept": (
        lambda r, k: rd.sum(rd.map(lambda x: rd.sum(rd.scan(rd.add, 0, rd.iota(x))), rd.filter(lambda x: x > 0, r))),
        lambda r, k: sum(np.cumsum(np.arange(x)).sum() for x in r if x > 0),
    ),
    "three deep": (
        lambda r, k: rd.map(lambda x: rd.sum(rd.sort(r[r > x])[:2]), r),
        lambda r, k: np.array([np.sort(r[r > x])[:2].sum() for x in r]),
    ),
    "sorts as many as each says": (
        lambda r, k: rd.sum(rd.map(lambda j: rd.sum(rd.sort(r[: rd.minimum(j, 4)])[:1]), rd.iota(k))),
        lambda r, k: sum(np.sort(r[:j])[:1].sum() for j in range(k)),
    ),
    "scans in a scan": (
        lambda r, k: rd.sum(rd.scan(rd.add, 0, rd.map(lambda j: rd.sum(rd.scan(rd.add, 0, rd.iota(j))), rd.iota(k)))),
        lambda r, k: np.cumsum(np.array([np.cumsum(np.arange(j)).sum() for j in range(k)], int)).sum(),
    ),
    "rows of a table": (
        lambda r, k: rd.sum(rd.sort(rd.tabulate((k, 3), lambda i, j: (i * 7 + j * 5) % 4), axis=0)[:, 0] * rd.iota(k)),
        lambda r, k: np.sort((np.arange(k)[:, None] * 7 + np.arange(3) * 5) % 4, axis=0)[:, 0] @ np.arange(k),
    ),
    "segments as many as each says": (
        lambda r, k: rd.sum(
            rd.segmented_reduce(rd.maximum, 0, r, rd.concat([rd.array([rd.i64(0)]), rd.iota(k) + 1])) * rd.iota(k)
        ),
        lambda r, k: sum(max(0, r[s]) * s for s in range(k)),
    ),
    "a histogram": (lambda r, k: rd.bincount(r, 4), lambda r, k: np.bincount(r[(r >= 0) & (r < 4)], minlength=4)),
    "a sort": (lambda r, k: rd.sort(r), lambda r, k: np.sort(r)),
    "an order": (lambda r, k: rd.argsort(r), lambda r, k: np.argsort(r, kind="stable")),
    "ranks": (
        lambda r, k: rd.scatter(rd.replicate(7, 0), rd.argsort(r), rd.iota(7)),
        lambda r, k: np.argsort(np.argsort(r, kind="stable")),
    ),
    "segments": (
        lambda r, k: rd.segmented_reduce(rd.add, 0, r, rd.stack([rd.i64(0), k, rd.i64(7)])),
        lambda r, k: np.array([r[:k].sum(), r[k:].sum()]),
    ),
    "a sort in a loop of scalars": (
        lambda r, k: rd.loop(3, lambda i, s: s + rd.sort(r * s)[i], r[0]),
        lambda r, k: _folded(3, lambda i, s: s + np.sort(r * s)[i], r[0]),
    ),
    "what is kept in a loop of scalars": (
        lambda r, k: rd.loop(k, lambda i, s: s + rd.sum(rd.sort(rd.filter(lambda x: x > s, r))[:1]), rd.i64(0)),
        lambda r, k: _folded(k, lambda i, s: s + np.sort(r[r > s])[:1].sum(), 0),
    ),
    "rows that grow": (
        lambda r, k: rd.sum(rd.loop(k, lambda i, x: rd.concat([x, x + i]), r[:2])),
        lambda r, k: _folded(k, lambda i, x: np.concatenate([x, x + i]), r[:2]).sum(),
    ),
    "rows that are filtered": (
        lambda r, k: rd.sum(rd.loop(2, lambda t, s: rd.sort(rd.filter(lambda x: x != t + 1, s)), r)[:3]),
        lambda r, k: np.sort(r[(r != 1) & (r != 2)])[:3].sum(),
    ),
    "rows that are filtered while": (
        lambda r, k: rd.while_loop(lambda s: s.shape[0] > 3, lambda s: rd.filter(lambda x: x != rd.max(s), s), r).shape[
            0
        ],
        lambda r, k: _shrunk(r),
    ),
    "a branch of another size": (
        lambda r, k: rd.sum(rd.scan(rd.add, 0, rd.cond(k > 2, lambda: r, lambda: r[:k]))),
        lambda r, k: np.cumsum(r if k > 2 else r[:k]).sum(),
    ),
    "filter in a branch": (
        lambda r, k: rd.cond(
            k > 0, lambda: rd.sum(rd.scan(rd.add, 0, rd.filter(lambda x: x % k == 0, r))), lambda: rd.i64(0)
        ),
        lambda r, k: np.cumsum(r[r % k == 0]).sum() if k > 0 else 0,
    ),
    "sort in a branch": (
        lambda r, k: rd.cond(k > 0, lambda: rd.sort(r // k)[0], lambda: rd.i64(0)),
        lambda r, k: np.sort(r // k)[0] if k > 0 else 0,
    ),
    "segments in a branch": (
        lambda r, k: rd.cond(
            k < 4,
            lambda: rd.sum(rd.segmented_reduce(rd.maximum, 0, r, rd.stack([k, rd.i64(3), rd.i64(7)]))),
            lambda: rd.i64(0),
        ),
        lambda r, k: r[k:3].max(initial=0) + r[3:].max(initial=0) if k < 4 else 0,
    ),
    "repeats in a branch": (
        lambda r, k: rd.cond(k > 0, lambda: rd.sum(rd.sort(rd.repeat(r[:3], k - 1))[:2]), lambda: rd.i64(-1)),
        lambda r, k: np.sort(np.repeat(r[:3], k - 1))[:2].sum() if k > 0 else -1,
    ),
    "a size in a branch": (
        lambda r, k: rd.cond(k > 2, lambda: rd.sum(rd.scan(rd.add, 0, rd.iota(k - 3))), lambda: rd.i64(-1)),
        lambda r, k: np.cumsum(np.arange(k - 3)).sum() if k > 2 else -1,
    ),
}


def _folded(iterations: int, step: Callable[[int, Any], Any], state: Any) -> Any:
    for i in range(iterations):
        state = step(i, state)
    return state


def _shrunk(row: np.ndarray) -> int:
    while len(row) > 3:
        row = row[row != row.max()]
    return len(row)


@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str) -> None:
    function, oracle = ROWS[name]
    program = rd.algorithm(lambda a, k: rd.map(function, a, k))
    want = np.array([oracle(r, k) for r, k in zip(A, K, strict=True)])
    agree(program.interpret(A, K), want)
    agree(program(A, K), want)


@pytest.mark.parametrize("shape", [(0, 7), (3, 0)])
@pytest.mark.parametrize("name", ["scan what is kept", "sort what is kept", "scan a count", "partition a slice"])
def test_empty_rows(name: str, shape: tuple[int, int]) -> None:
    function, oracle = ROWS[name]
    program = rd.algorithm(lambda a, k: rd.map(function, a, k))
    a, k = np.zeros(shape, int), np.zeros(shape[0], int)
    want = np.array([oracle(r, n) for r, n in zip(a, k, strict=True)], int)
    agree(program.interpret(a, k), want)
    agree(program(a, k), want)


def test_medians_of_floats() -> None:
    def median(row):
        high = rd.sort(row[row > 0.3])
        n = high.shape[0]
        return rd.cond(n > 0, lambda: high[n // 2], lambda: 0.0), rd.mean(high), rd.sum(high * high)

    program = rd.algorithm(lambda a: rd.map(median, a))
    a = np.random.default_rng(6).random((5, 7))
    kept = [np.sort(row[row > 0.3]) for row in a]
    want = tuple(np.array(v) for v in zip(*((h[len(h) // 2], h.mean(), h @ h) for h in kept), strict=True))
    agree(program.interpret(a), want)
    agree(program(a), want)


def test_rows_of_rows_are_filtered() -> None:
    program = rd.algorithm(
        lambda a: rd.map(lambda r: rd.sum(rd.scan(rd.add, 0, rd.filter(lambda p: p[0] > 0, rd.stack([r, r * 2]).T))), a)
    )
    want = np.array([3 * np.cumsum(r[r > 0]).sum() for r in A])
    agree(program.interpret(A), want)
    agree(program(A), want)


FAULTS: dict[str, tuple[Callable[..., Any], type[Exception], str]] = {
    "size": (lambda r, k: rd.sum(rd.scan(rd.add, 0, rd.iota(k - 1))), rd.SizeMismatch, "this one is -1"),
    "index": (lambda r, k: rd.sort(r[r > 0])[k + 3], rd.IndexOutOfRange, "out of range for dimension 0"),
    "update": (
        lambda r, k: rd.sum(rd.sort(r[r > 0]).at[k + 2].set(1)),
        rd.IndexOutOfRange,
        "out of range for dimension 0",
    ),
    "slice": (lambda r, k: rd.sum(rd.sort(r[: k + 5])), rd.IndexOutOfRange, "slice 0:8|slice 0:9"),
    "division": (
        lambda r, k: rd.sum(rd.scan(rd.add, 0, rd.filter(lambda x: x % k == 0, r))),
        rd.ArithmeticFault,
        "zero",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_in_arrays_of_elements_name_the_line(name: str) -> None:
    function, kind, words = FAULTS[name]
    program = rd.algorithm(lambda a, k: rd.map(function, a, k))
    for run in (program.interpret, program):
        with pytest.raises(kind, match=words) as fault:
            run(A, K)
        assert "test_nesting.py" in str(fault.value)


def test_sizes_of_branches_not_taken_need_no_memory() -> None:
    few = lambda n: rd.cond(n < 9, lambda: rd.sum(rd.scan(rd.add, 0, rd.iota(n))), lambda: rd.i64(-1))
    program = rd.algorithm(lambda k: rd.map(few, k))
    k = np.array([3, 10**15, 2])
    agree(program.interpret(k), np.array([4, -1, 1]))
    agree(program(k), np.array([4, -1, 1]))
