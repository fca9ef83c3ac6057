"""`rd.segmented_reduce`, `rd.segmented_scan` and `rd.repeat` against plain loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import raido as rd

OFFSETS = {
    "none": [0],
    "one": [0, 40],
    "empty ones": [0, 0, 5, 5, 5, 39, 40, 40],
    "skewed": [0, 1, 2, 39, 40],
    "not everything": [3, 7, 7, 20],
    "single elements": list(range(41)),
}


def segments_of(values, offsets):
    return [values[a:b] for a, b in itertools.pairwise(offsets)]


@pytest.mark.parametrize("case", OFFSETS)
@pytest.mark.parametrize("dtype", [np.int8, np.float32])
def test_sums_of_segments(case: str, dtype: type) -> None:
    offsets = np.array(OFFSETS[case], np.int32)
    values = np.random.default_rng(1).integers(-50, 50, 40).astype(dtype)
    both = rd.algorithm(
        lambda v, o: (rd.segmented_reduce(rd.add, 3, v, o), rd.segmented_scan(rd.add, 3, v, o)),
    )
    sums, prefixes = both.interpret(values, offsets)
    expected = np.full(40, 3, dtype)
    for a, b in itertools.pairwise(offsets):
        expected[a:b] = 3 + np.cumsum(values[a:b], dtype=dtype)
    np.testing.assert_array_equal(prefixes, expected)
    totals = [dtype(3) + s.sum(dtype=dtype) for s in segments_of(values, offsets)]
    np.testing.assert_array_equal(sums, np.array(totals, dtype))
    assert sums.dtype == dtype


@pytest.mark.parametrize("case", OFFSETS)
def test_rows_tuples_and_operators_that_do_not_commute(case: str) -> None:
    """The first and the last of each segment, over rows."""

    def ends(x, y):
        none = x[0] == -1
        return rd.where(none, y[0], x[0]), rd.where(y[1] == -1, x[1], y[1])

    offsets, rows = np.array(OFFSETS[case]), np.random.default_rng(2).integers(0, 99, (40, 3))
    first, last = rd.algorithm(lambda a, o: rd.segmented_reduce(ends, (-1, -1), (a, a), o)).interpret(rows, offsets)
    for k, segment in enumerate(segments_of(rows, offsets)):
        np.testing.assert_array_equal(first[k], segment[0] if len(segment) else [-1] * 3)
        np.testing.assert_array_equal(last[k], segment[-1] if len(segment) else [-1] * 3)
    assert len(first) == len(offsets) - 1


def test_operators_that_round_are_applied_from_the_left() -> None:
    values, offsets = np.random.default_rng(3).random(40).astype(np.float32), np.array(OFFSETS["skewed"])
    op = lambda x, y: rd.sqrt(x * x + y)
    plain = rd.algorithm(lambda v, o: rd.segmented_scan(op, 1, v, o), contract=False).interpret(values, offsets)
    for a, b in itertools.pairwise(offsets):
        state = np.float32(1)
        for i in range(a, b):
            state = np.sqrt(state * state + values[i])
            assert plain[i] == state


def test_offsets_are_checked() -> None:
    sums = rd.algorithm(lambda v, o: rd.segmented_reduce(rd.add, 0, v, o))
    for offsets, words in [([0, 5, 3], "offsets 5, 3"), ([0, 11], "offsets 0, 11"), ([-1, 2], "offsets -1, 2")]:
        with pytest.raises(rd.IndexOutOfRange, match=words) as caught:
            sums.interpret(np.arange(10), np.array(offsets))
        assert "test_segments.py" in str(caught.value)
    with pytest.raises(rd.SizeMismatch):
        sums.interpret(np.arange(10), np.array([], int))


def test_segments_inside_maps_loops_and_branches() -> None:
    @rd.algorithm
    def nested(a: rd.i64["n", "m"], offsets: rd.i64["n", "k"]):
        rows = rd.map(lambda row, o: rd.segmented_reduce(rd.add, row[0], row, o), a, offsets)
        final = rd.loop(3, lambda t, s: rd.segmented_scan(rd.maximum, t, s, offsets[0]), a[0])
        return rows, rd.cond(final[0] > 0, lambda: final, lambda: -final)

    a, offsets = np.arange(12).reshape(2, 6) + 1, np.array([[0, 2, 6], [1, 1, 5]])
    rows, final = nested.interpret(a, offsets)
    for row, o, result in zip(a, offsets, rows, strict=True):
        np.testing.assert_array_equal(result, [row[0] + s.sum() for s in segments_of(row, o)])
    np.testing.assert_array_equal(final, [2, 2, 3, 4, 5, 6])


@pytest.mark.parametrize("counts", [[], [0, 0], [1, 0, 3, 2], [5]])
def test_repeat_by_counts(counts: list[int]) -> None:
    counts = np.array(counts, np.int32)
    values, rows = np.arange(len(counts)) * 10, np.random.default_rng(4).random((2, len(counts)))
    repeated = rd.algorithm(lambda v, r, c: (rd.repeat(v, c), rd.repeat(r, c, axis=1), rd.repeat(v, c).shape[0]))
    first, second, size = repeated.interpret(values, rows, counts)
    np.testing.assert_array_equal(first, np.repeat(values, counts))
    np.testing.assert_array_equal(second, np.repeat(rows, counts, axis=1))
    assert size == counts.sum()


def test_repeat_by_one_count() -> None:
    a = np.arange(6).reshape(2, 3)
    repeated = rd.algorithm(lambda a, n: (rd.repeat(a, 2), rd.repeat(a, 3, axis=-1), rd.repeat(a, 0), rd.repeat(a, n)))
    for n in (0, 2):
        results = repeated.interpret(a, np.int64(n))
        expected = (np.repeat(a, 2, 0), np.repeat(a, 3, 1), np.repeat(a, 0, 0), np.repeat(a, n, 0))
        for result, array in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, array)
    with pytest.raises(rd.SizeMismatch, match="a size must not be negative, this one is -1"):
        repeated.interpret(a, np.int64(-1))
    with pytest.raises(rd.SizeMismatch, match="this one is -3"):
        rd.algorithm(lambda a, c: rd.repeat(a, c)).interpret(a, np.array([1, -3]))


def test_reductions_of_what_may_be_empty_are_checked_when_they_run() -> None:
    @rd.algorithm
    def extremes(a: rd.i64["n"]):
        kept = a[a > 2]
        return rd.max(kept), rd.argmin(kept), rd.max(kept, initial=7)

    assert extremes.interpret(np.array([1, 5, 3])) == (5, 1, 7)
    with pytest.raises(rd.SizeMismatch, match="empty axis"):
        extremes.interpret(np.array([1, 2]))


def test_errors_name_what_is_wrong() -> None:
    values = rd.f32["n"]
    cases = [
        (lambda v, o: rd.segmented_reduce(rd.add, 0, v, o), rd.f32["k"], rd.DTypeError, "are integers, not f32"),
        (lambda v, o: rd.segmented_reduce(rd.add, 0, v, o), rd.i64["k", 2], rd.TraceError, r"not i64\[k, 2\]"),
        (lambda v, o: rd.repeat(v, o), rd.f32["n"], rd.DTypeError, "are integers, not f32"),
        (lambda v, o: rd.repeat(v, o), rd.i64["k", 2], rd.ShapeError, "an array of rank 1"),
        (lambda v, o: rd.repeat(v, 2, axis=1), rd.i64, rd.ShapeError, "axis 1 of an array of rank 1"),
    ]
    for function, offsets, error, words in cases:
        with pytest.raises(error, match=words):
            rd.algorithm(function).trace(values, offsets)


@pytest.mark.parametrize("scan", [False, True])
def test_one_offset_bounds_no_segment(scan: bool) -> None:
    fold = rd.segmented_scan if scan else rd.segmented_reduce
    program = rd.algorithm(lambda v, o: fold(rd.add, 5, v, o))
    for run in (program.interpret, program):
        for offset in (0, 2, 3):
            assert run(np.ones(3), np.array([offset])).tolist() == ([5, 5, 5] if scan else [])
