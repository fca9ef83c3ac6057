"""`rd.scan` against NumPy and plain loops."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import raido as rd

SIZES = (0, 1, 2, 15, 16, 17, 100)


def scanned(op, neutral, **options):
    return rd.algorithm(lambda a: rd.scan(op, neutral, a, **options))


def folded(op, neutral, values, exclusive=False):
    """A scan written out."""
    state, prefixes = neutral, []
    for value in values:
        prefixes.append(state if exclusive else op(state, value))
        state = op(state, value)
    return prefixes


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("exclusive", [False, True])
def test_sums_of_integers_wrap_as_numpys(n: int, exclusive: bool) -> None:
    values = np.random.default_rng(n).integers(-100, 100, n).astype(np.int8)
    whole = np.cumsum(np.append(np.int8(0), values), dtype=np.int8)
    expected = whole[:-1] if exclusive else whole[1:]
    result = scanned(rd.add, 0, exclusive=exclusive).interpret(values)
    assert result.dtype == np.int8
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("shape", [(2, 3, 4), (0, 3, 4), (2, 0, 4), (2, 3, 0), (1, 1, 1)])
def test_every_axis_of_every_shape(axis: int, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    result = scanned(rd.add, 0, axis=axis).interpret(values)
    np.testing.assert_array_equal(result, np.cumsum(values, axis=axis, dtype=np.float32))


def test_the_start_takes_part_whether_or_not_it_is_neutral() -> None:
    values = np.array([3, 1, 2])
    np.testing.assert_array_equal(scanned(rd.add, 10).interpret(values), [13, 14, 16])
    np.testing.assert_array_equal(scanned(rd.add, 10, exclusive=True).interpret(values), [10, 13, 14])
    np.testing.assert_array_equal(scanned(rd.add, 10).interpret(values[:0]), [])


def test_rows_scan_element_by_element_from_a_row() -> None:
    @rd.algorithm
    def rows(a: rd.i64["n", 3], first: rd.i64[3]):
        return rd.scan(lambda x, y: rd.maximum(x, y) + 0 * x, first, a), rd.scan(rd.add, first, a, exclusive=True)

    a, first = np.random.default_rng(1).integers(-9, 9, (20, 3)), np.array([1, -5, 9])
    highest, sums = rows.interpret(a, first)
    np.testing.assert_array_equal(highest, np.maximum(np.maximum.accumulate(a), first))
    np.testing.assert_array_equal(sums, first + np.cumsum(a, axis=0) - a)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("size", [2, 5])
def test_operators_may_mix_the_elements_of_rows(size: int, exclusive: bool) -> None:
    """Prefix products of matrices, with a vector beside them; small ones in registers, large ones in order."""

    @rd.algorithm
    def products(m: rd.i64["n", size, size], v: rd.i64["n", size], start: rd.i64[size, size]):
        affine = lambda p, q: (p[0] @ q[0], p[1] @ q[0] + q[1])
        return rd.scan(affine, (start, v[0] * 0), m, v, exclusive=exclusive)

    random = np.random.default_rng(size)
    for n in (1, 2, 9):
        m, v = random.integers(-2, 3, (n, size, size)), random.integers(-2, 3, (n, size))
        start = np.eye(size, dtype=np.int64)
        expected = folded(
            lambda p, q: (p[0] @ q[0], p[1] @ q[0] + q[1]), (start, v[0] * 0), list(zip(m, v, strict=True)), exclusive
        )
        for run in (products.interpret, products):
            for k, result in enumerate(run(m, v, start)):
                np.testing.assert_array_equal(result, [e[k] for e in expected])


def test_rows_mix_along_an_inner_axis() -> None:
    many = np.random.default_rng(0).integers(-2, 3, (3, 4, 2, 2))
    result = scanned(lambda p, q: p @ q, np.eye(2, dtype=np.int64), axis=1).interpret(many)
    for matrices, prefixes in zip(many, result, strict=True):
        np.testing.assert_array_equal(prefixes, folded(lambda p, q: p @ q, np.eye(2, dtype=int), matrices)[:])


def test_tuples_and_operators_that_do_not_commute() -> None:
    """Composition of the functions x → a·x + b, modulo 2⁶⁴: a first-order recurrence."""

    def compose(f, g):
        return f[0] * g[0], f[1] * g[0] + g[1]

    recurrence = rd.algorithm(lambda a, b: rd.scan(compose, (1, 0), a, b))
    for n in SIZES:
        a, b = np.random.default_rng(n).integers(-5, 5, (2, n))
        with np.errstate(over="ignore"):
            expected = folded(compose, (np.int64(1), np.int64(0)), list(zip(a, b, strict=True)))
        first, second = recurrence.interpret(a, b)
        np.testing.assert_array_equal(first, [e[0] for e in expected])
        np.testing.assert_array_equal(second, [e[1] for e in expected])


def test_operators_that_round_are_applied_from_the_left() -> None:
    def op(x, y):
        return x * y + y

    values = np.random.default_rng(3).random(40).astype(np.float32)
    expected = folded(lambda x, y: np.float32(float(x) * float(y) + float(y)), np.float32(1), values)
    np.testing.assert_array_equal(scanned(op, 1).interpret(values), np.array(expected, np.float32))


def test_nan_and_zeros_of_both_signs() -> None:
    values = np.array([-0.0, 1.0, -0.0, np.nan, np.inf, 2.0])
    least = scanned(rd.minimum, np.inf).interpret(values)
    np.testing.assert_array_equal(least, [0, 0, 0, np.nan, np.nan, np.nan])
    sums = scanned(rd.add, -0.0).interpret(values[:1])
    assert np.signbit(sums[0])
    assert not np.signbit(scanned(rd.add, 0).interpret(values[:1])[0])


def test_booleans() -> None:
    values = np.array([False, True, False])
    np.testing.assert_array_equal(scanned(rd.logical_or, False).interpret(values), [False, True, True])
    np.testing.assert_array_equal(scanned(rd.logical_and, True, exclusive=True).interpret(values), [True, False, False])


def test_a_scan_in_a_map_in_a_reduction() -> None:
    @rd.algorithm
    def nested(a: rd.i64["n", "m"]):
        prefixes = lambda row: rd.scan(rd.add, 0, row)
        return rd.sum(rd.map(lambda row: rd.max(prefixes(row)), a)), rd.map(prefixes, a)

    a = np.random.default_rng(4).integers(-9, 9, (5, 7))
    total, rows = nested.interpret(a)
    np.testing.assert_array_equal(rows, np.cumsum(a, axis=1))
    assert total == np.cumsum(a, axis=1).max(axis=1).sum()


def test_starts_and_operators_may_use_what_is_around_them() -> None:
    @rd.algorithm
    def nested(a: rd.i64["n", "m"], scale: rd.i64["n"]):
        def row(values, s):
            return rd.scan(lambda x, y: (x + y) % s, s - 1, values)

        return rd.map(row, a, scale)

    a, scale = np.random.default_rng(5).integers(0, 99, (4, 30)), np.array([3, 5, 7, 11])
    expected = (np.cumsum(a, axis=1) + scale[:, None] - 1) % scale[:, None]
    np.testing.assert_array_equal(nested.interpret(a, scale), expected)


def test_in_loops_and_branches() -> None:
    @rd.algorithm
    def often(a: rd.i64["n"], times: rd.i64):
        again = rd.loop(times, lambda t, x: rd.scan(rd.add, t, x), a)
        return rd.cond(times > 2, lambda: rd.scan(rd.maximum, 0, again), lambda: again)

    a = np.array([1, -2, 3])
    expected = a
    for t in range(3):
        expected = np.cumsum(expected) + t
    np.testing.assert_array_equal(often.interpret(a, np.int64(3)), np.maximum(np.maximum.accumulate(expected), 0))


def test_errors_name_what_is_wrong() -> None:
    with pytest.raises(rd.ShapeError, match="axis 1 of an array of rank 1"):
        scanned(rd.add, 0, axis=1).trace(rd.i64["n"])
    with pytest.raises(rd.DTypeError, match="never widens"):
        scanned(lambda x, y: (x + y).astype(rd.f64), 0).trace(rd.f32["n"])
    with pytest.raises(rd.TraceError, match=r"rd\.scan needs an array"):
        scanned(rd.add, 0).trace(rd.i64)
    with pytest.raises(rd.DTypeError, match="float literal"):
        scanned(rd.add, 0.5).trace(rd.i64["n"])


@pytest.mark.parametrize(
    ("op", "neutral", "dtype", "warned"),
    [
        (lambda a, b: 0.9 * a + 0.1 * b, 0.0, "f32", True),
        (lambda a, b: a - b, 0, "i32", True),
        (lambda a, b: ~(a & b), False, "bool_", True),
        (lambda a, b: a * b % 7, 1, "i64", False),
        (lambda a, b: rd.where(b != 0, b, a), 0, "u8", False),
        (lambda a, b: a * b / (a + b), np.inf, "f64", False),
        (rd.logaddexp, -np.inf, "f16", False),
        (rd.hypot, 0.0, "bf16", False),
    ],
)
def test_operators_that_are_not_associative_are_warned_of(op, neutral, dtype, warned):
    for fold in (rd.scan, rd.reduce):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            rd.algorithm(x=f"{dtype}[n]")(lambda x, *, fold=fold: fold(op, neutral, x)).trace()
        assert [w.filename == __file__ for w in caught if w.category is rd.OperatorWarning] == [True] * warned


def test_a_missing_neutral_element_is_said():
    with pytest.raises(rd.TraceError, match=r"rd.scan\(op, neutral, array\)"):
        rd.algorithm(x="f32[n]")(lambda x: rd.scan(rd.add, x)).trace()
