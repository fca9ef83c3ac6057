"""`rd.filter`, `rd.partition`, masks, and sizes that data decides, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd

SIZES = (0, 1, 2, 33, 300)


def check(algorithm, *arguments, expected):
    """The interpreter's results equal the expected ones, types included."""
    results = rd.algorithm(algorithm).interpret(*arguments)
    results = results if isinstance(results, tuple) else (results,)
    for result, array in zip(results, expected, strict=True):
        assert result.dtype == np.asarray(array).dtype
        np.testing.assert_array_equal(result, array)


@pytest.mark.parametrize("n", SIZES)
def test_elements_stay_in_order_and_arrays_of_one_filter_share_their_size(n: int) -> None:
    a, b = np.random.default_rng(n).integers(-9, 9, (2, n)).astype(np.int16)
    keep = a + b > 0

    def both(a, b):
        x, y = rd.filter(lambda p, q: p + q > 0, a, b)
        assert x.shape[0].node is y.shape[0].node
        return x, y, x * y, x.shape[0], rd.sum(x), rd.iota(x.shape[0]) * 2

    x, y = a[keep], b[keep]
    total = keep.sum()
    check(both, a, b, expected=(x, y, x * y, total, x.sum(), np.arange(total) * 2))


@pytest.mark.parametrize("kept", [0.0, 1.0, 0.3])
def test_rows_and_rows_that_differ(kept: float) -> None:
    random = np.random.default_rng(1)
    a, rows, words = random.random(40), random.random((40, 3)), random.integers(0, 9, (40, 2, 2))
    mask = random.random(40) < kept

    def three(mask, a, rows, words):
        first = rd.filter(lambda m, v, r: m & (v == v) & rd.all(r == r), mask, a, rows)
        return first[1:] + rd.filter(lambda m, v, w: m, mask, a, words)[1:]

    check(three, mask, a, rows, words, expected=(a[mask], rows[mask], a[mask], words[mask]))


@pytest.mark.parametrize("n", SIZES)
def test_a_partition_keeps_both_sides_in_order(n: int) -> None:
    a = np.random.default_rng(n).integers(0, 100, n)
    even = a % 2 == 0

    def halves(a):
        kept, rest = rd.partition(lambda x: x % 2 == 0, a)
        whole = rd.concat([kept, rest])
        return kept, rest, whole + a - a

    check(halves, a, expected=(a[even], a[~even], np.concatenate([a[even], a[~even]])))


def test_masks_select_as_numpys() -> None:
    a = np.arange(24.0).reshape(4, 6)
    mask, rows = a % 5 < 2, np.array([True, False, False, True])

    def selected(a, mask, rows):
        return a[mask], a[rows], a[:, mask[0]], a[rows, 1], a[rows, 1:3], a[[True, False, True, False]]

    expected = (a[mask], a[rows], a[:, mask[0]], a[rows, 1], a[rows, 1:3], a[[True, False, True, False]])
    check(selected, a, mask, rows, expected=expected)
    with pytest.raises(rd.ShapeError, match="sizes differ"):
        rd.algorithm(lambda a, m: a[m]).trace(rd.f32[4], rd.bool_[3])


def test_a_mask_selects_from_zipped_arrays_together() -> None:
    @rd.algorithm
    def chosen(a: rd.i64["n"], b: rd.f64["n"]):
        x, y = rd.zip(a, b)[a > 1]
        return x * y

    a, b = np.array([1, 2, 0, 3]), np.array([0.5, 1.5, 2.5, 3.5])
    np.testing.assert_array_equal(chosen.interpret(a, b), (a * b)[a > 1])


def test_traced_slices_are_checked() -> None:
    parts = rd.algorithm(lambda a, lo, hi: (a[lo:hi], a[lo:], a[:hi], a[lo:hi:2], a[lo : lo + 2]))
    a = np.arange(10)
    for lo, hi in [(2, 7), (0, 10), (8, 8), (7, 3)]:
        results = parts.interpret(a, np.int64(lo), np.int32(hi))
        expected = (a[lo:hi], a[lo:], a[:hi], a[lo:hi:2], a[lo : lo + 2])
        for result, array in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, array)
    assert parts.trace(a, np.int64(0), np.int32(0)).results[4].shape[0].value == 2
    one = rd.algorithm(lambda a, lo, hi: a[lo:hi])
    for lo, hi in [(-1, 3), (0, 11), (11, 11)]:
        with pytest.raises(rd.IndexOutOfRange, match=f"slice {lo}:{hi} leaves a dimension of size 10") as caught:
            one.interpret(a, np.int64(lo), np.int64(hi))
        assert "test_filter.py" in str(caught.value)
    with pytest.raises(rd.IndexOutOfRange, match="index 10"):
        rd.algorithm(lambda a, lo: a[lo : lo + 2]).interpret(a, np.int64(9))
    with pytest.raises(rd.TraceError, match="negative step"):
        rd.algorithm(lambda a, lo: a[lo::-1]).trace(rd.f32["n"], rd.i64)


def test_arrays_of_traced_sizes() -> None:
    def made(n, m):
        return rd.iota(n), rd.tabulate((n, m), lambda i, j: i * j), rd.replicate(m, 1.5), rd.full((2, n), rd.u8(7))

    for n, m in [(0, 3), (4, 0), (3, 5)]:
        expected = (np.arange(n), np.outer(np.arange(n), np.arange(m)), np.full(m, 1.5), np.full((2, n), np.uint8(7)))
        check(made, np.int64(n), np.int64(m), expected=expected)
    with pytest.raises(rd.SizeMismatch, match="a size must not be negative, this one is -2"):
        rd.algorithm(lambda n: rd.iota(n)).interpret(np.int64(-2))


def test_sizes_that_may_differ_are_compared_when_they_are_known() -> None:
    @rd.algorithm
    def added(a: rd.i64["n"], b: rd.i64["m"]):
        return rd.filter(lambda x: x > 0, a) + rd.filter(lambda x: x > 0, b)

    np.testing.assert_array_equal(added.interpret(np.array([1, -1, 2]), np.array([3, 4])), [4, 6])
    with pytest.raises(rd.SizeMismatch, match=r"sizes \d and \d do not agree"):
        added.interpret(np.array([1, -1, 2]), np.array([3, -4]))
    kept = lambda a: rd.filter(lambda x: x > 0, a)
    a, b, c = np.array([1, -1, 2]), np.array([3, 4, -2]), np.array([1, 2, 3])
    for join in (
        lambda a, b: rd.stack([kept(a), kept(b)]),
        lambda a, b: rd.concat([kept(a)[None], kept(b)[None]]),
        lambda a, b: kept(a) @ kept(b),
        lambda a, b: rd.reduce(lambda p, q: (p[0] + q[0], p[1] + q[1]), (0, 0), kept(a), kept(b)),
        lambda a, b: rd.scan(lambda p, q: (p[0] + q[0], p[1] + q[1]), (0, 0), kept(a), kept(b)),
        lambda a, b: rd.reduce_by_index(rd.full(9, rd.i64(0)), rd.add, 0, kept(a), kept(b)),
        lambda a, b: kept(a)[kept(b) > 3],
        lambda a, b: rd.repeat(kept(a), kept(b)),
    ):
        joined = rd.algorithm(join)
        joined.interpret(a, b)
        with pytest.raises(rd.SizeMismatch, match=r"sizes \d and \d do not agree"):
            joined.interpret(a, c)
    two = rd.algorithm(lambda a, b: a - b, a=rd.i64["k"], b=rd.i64["k"])
    with pytest.raises(rd.ShapeError, match="sizes that data decides may differ"):
        rd.algorithm(lambda a, b: two(kept(a), kept(b))).trace(a, b)


def test_borders_and_gathers_check_that_there_is_something_to_read() -> None:
    kept = rd.algorithm(lambda a: (rd.pad(a[a > 1], 1, mode="edge"), rd.gather(a[a > 1], rd.iota(3), mode="wrap")))
    padded, wrapped = kept.interpret(np.array([2, 0, 3]))
    np.testing.assert_array_equal(padded, [2, 2, 3, 3])
    np.testing.assert_array_equal(wrapped, [2, 3, 2])
    with pytest.raises(rd.IndexOutOfRange, match="size 0"):
        kept.interpret(np.array([1, 0]))


def test_sizes_of_their_own_inside_mapped_functions() -> None:
    @rd.algorithm
    def rows(a: rd.f64["n", "m"], counts: rd.i64["n"]):
        def row(values, count):
            kept = rd.filter(lambda v: v > 0.5, values)
            first, rest = rd.partition(lambda v: v > 0.7, kept)
            nested = rd.sum(rd.map(lambda v: rd.sum(rd.iota(count) * v), kept))
            middle = values[count : values.shape[0] - 1]
            return rd.sum(kept), kept.shape[0], rd.sum(first) - rd.sum(rest), nested, rd.max(middle, initial=0.0)

        return rd.map(row, a, counts)

    a, counts = np.random.default_rng(6).random((6, 9)), np.array([0, 1, 2, 3, 8, 2])
    a[2] = 0
    results = rows.interpret(a, counts)
    for k, (values, count) in enumerate(zip(a, counts, strict=True)):
        kept = values[values > 0.5]
        first, rest = kept[kept > 0.7], kept[kept <= 0.7]
        expected = (kept.sum(), len(kept), first.sum() - rest.sum(), (np.outer(kept, np.arange(count))).sum())
        np.testing.assert_allclose([r[k] for r in results[:4]], expected, rtol=1e-13)
        assert results[4][k] == max([0.0, *values[count:8]])
    with pytest.raises(rd.TraceError, match="whose size depends on the element leaves the function"):
        rd.algorithm(lambda a: rd.map(lambda r: rd.filter(lambda v: v > 0, r), a)).trace(rd.f32["n", "m"])


def test_filters_in_loops_and_branches() -> None:
    @rd.algorithm
    def drained(a: rd.i64["n"]):
        iterations = rd.loop(3, lambda t, s: s + rd.filter(lambda x: x > t, a).shape[0], 0)
        return iterations, rd.cond(iterations > 5, lambda: rd.sum(a[a > 2]), lambda: rd.sum(a[a < 2]))

    a = np.array([3, 1, 4, 1, 5])
    check(drained.function, a, expected=(np.int64(5 + 3 + 3), np.int64(12)))


def test_empty_matrices_and_rows() -> None:
    for shape in [(0, 3), (3, 0), (0, 0)]:
        a = np.zeros(shape)
        kept = rd.algorithm(lambda a: rd.filter(lambda r: rd.sum(r) == 0, a)).interpret(a)
        assert kept.shape == shape


def test_errors_name_what_is_wrong() -> None:
    with pytest.raises(rd.TraceError, match=r"the predicate of rd\.filter returns one bool_, not i64"):
        rd.algorithm(lambda a: rd.filter(lambda x: x, a)).trace(rd.i64["n"])
    with pytest.raises(rd.TraceError, match=r"the predicate of rd\.partition returns one bool_"):
        rd.algorithm(lambda a: rd.partition(lambda x: (x > 0, x), a)).trace(rd.i64["n"])


@pytest.mark.parametrize("n", [0, 1, 3, 7])
def test_what_is_empty_is_never_read(n: int) -> None:
    """Slices that begin beyond the end, joined, padded and shifted."""
    joined = rd.algorithm(
        lambda x: (rd.concat([x, x[5:], x[100:]]), rd.pad(x[9:], 1, rd.constant(7)), rd.shift(x[4:], 1)), x="f32[n]"
    )
    x = np.arange(n, dtype=np.float32)
    expected = (np.concatenate([x, x[5:]]), np.pad(x[9:], 1, constant_values=7), np.append(0, x[4:])[: len(x[4:])])
    for run in (joined.interpret, joined):
        for result, array in zip(run(x), expected, strict=True):
            np.testing.assert_array_equal(result, array)


def test_an_element_of_what_is_kept() -> None:
    program = rd.algorithm(lambda a, i: (a[a > 0][i], rd.sum(a[a > 0][1:9])), a="i64[n]", i="i64")
    a = np.arange(-3, 6)
    for run in (program.interpret, program):
        assert run(a, 2) == (3, 14)
        with pytest.raises(rd.IndexOutOfRange, match="index 5 is out of range for dimension 0"):
            run(a, 5)
