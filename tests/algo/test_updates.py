"""`a.at[key]` with arrays of indices, masks and traced slices, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd
from raido.algo.graph.expr import Update

KEYS = {
    "an index array": (lambda i, j, m: (i,), 5),
    "two index arrays": (lambda i, j, m: (i, j), 5),
    "an array and a slice": (lambda i, j, m: (i, slice(1, 3)), 2),
    "an array and an integer": (lambda i, j, m: (i, 1), 5),
    "a slice and an array": (lambda i, j, m: (slice(None, None, 2), j), 5),
    "a mask": (lambda i, j, m: m, None),
    "a mask of rows": (lambda i, j, m: (m[:, 0], slice(0, 2)), 2),
}
DTYPES = (np.int32, np.float64)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_updates_equal_numpys(key: str, dtype: type) -> None:
    choose, _ = KEYS[key]
    random = np.random.default_rng(3)
    a = random.integers(-9, 9, (6, 5)).astype(dtype)
    i, j, mask = random.integers(0, 6, 5), random.integers(0, 5, 5), random.random((6, 5)) < 0.4
    value = dtype(3)
    changed = rd.algorithm(
        lambda a, i, j, m: (
            a.at[choose(i, j, m)].set(3),
            a.at[choose(i, j, m)].add(3),
            a.at[choose(i, j, m)].multiply(3),
            a.at[choose(i, j, m)].min(3),
            a.at[choose(i, j, m)].max(3),
        )
    ).interpret(a, i, j, mask)
    expected = [a.copy() for _ in range(5)]
    where = choose(i, j, mask)
    expected[0][where] = value
    for array, ufunc in zip(expected[1:], (np.add, np.multiply, np.minimum, np.maximum), strict=True):
        ufunc.at(array, where, value)
    for result, array in zip(changed, expected, strict=True):
        np.testing.assert_array_equal(result, array)


def test_values_are_arrays_and_the_last_wins() -> None:
    put = rd.algorithm(lambda a, i, v, r: (a.at[i].set(v[:, None]), a.at[i].add(r), a.at[a > 0.5].set(a[a > 0.5] * 2)))
    random = np.random.default_rng(4)
    a, i, v, r = random.random((4, 3)), random.integers(0, 4, 20), random.random(20), random.random((20, 3))
    rows, sums, doubled = put.interpret(a, i, v, r)
    expected, added = a.copy(), a.copy()
    for place, value in zip(i, v, strict=True):
        expected[place] = value
    np.add.at(added, i, r)
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(sums, added)
    np.testing.assert_array_equal(doubled, np.where(a > 0.5, a * 2, a))


def test_indices_are_checked_unlike_those_of_scatter() -> None:
    put = rd.algorithm(lambda a, i: a.at[i].set(0))
    with pytest.raises(rd.IndexOutOfRange, match="index 7 is out of range for dimension 0 of size 3") as caught:
        put.interpret(np.arange(3), np.array([1, 7, -1]))
    assert "test_updates.py" in str(caught.value)
    taken = rd.algorithm(lambda a, i: a[i])
    for take in (taken.interpret, taken):
        with pytest.raises(rd.IndexOutOfRange, match=r"array +a: i64\["):
            take(np.arange(3), np.array([1, 7]))
    with pytest.raises(rd.IndexOutOfRange, match="index -1"):
        put.interpret(np.arange(3), np.array([-1]))
    np.testing.assert_array_equal(put.interpret(np.arange(3), np.array([], int)), np.arange(3))


def test_slices_between_traced_bounds() -> None:
    put = rd.algorithm(lambda a, lo, hi: (a.at[lo:hi].set(-1), a.at[lo : lo + 2].add(5)))
    a = np.arange(6)
    for lo, hi in [(1, 4), (0, 6), (3, 3), (4, 2)]:
        first, second = put.interpret(a, np.int64(lo), np.int64(hi))
        expected, added = a.copy(), a.copy()
        expected[lo:hi] = -1
        added[lo : lo + 2] += 5
        np.testing.assert_array_equal(first, expected)
        np.testing.assert_array_equal(second, added)
    with pytest.raises(rd.IndexOutOfRange, match="slice 2:7"):
        put.interpret(a, np.int64(2), np.int64(7))


def test_slices_whose_values_have_a_size_of_their_own_keep_the_array() -> None:
    """A size compared at run time is no new size of the array: the loop's state stays in place, and each iteration writes a slice."""

    @rd.algorithm
    def columns(a: rd.f64["n"], m: rd.f64["k", "k"]):
        k = m.shape[0]
        return rd.loop(k, lambda j, s: s.at[j + 1 : k].add(-(m[j, j + 1 :] * s[j])), a)

    program = columns.trace(rd.f64["n"], rd.f64["k", "k"])
    result = program.results[0]
    assert result.shape == program.parameters[0].shape
    assert isinstance(result.form.results[0].form, Update)
    a, m = np.arange(9.0) - 3, np.arange(49.0).reshape(7, 7) % 5
    expected = a.copy()
    for j in range(7):
        expected[j + 1 : 7] -= m[j, j + 1 :] * expected[j]
    for run in (columns.interpret, columns):
        np.testing.assert_array_equal(run(a, m), expected)
        with pytest.raises((rd.SizeMismatch, rd.IndexOutOfRange)):
            run(a[:5], m)


def test_in_maps_and_loops() -> None:
    @rd.algorithm
    def nested(a: rd.i64["n", "m"], i: rd.i64["n", "k"]):
        rows = rd.map(lambda row, at: row.at[at].add(1), a, i)
        return rows, rd.loop(4, lambda t, s: s.at[i[0]].add(t), a[0])

    random = np.random.default_rng(5)
    a, i = random.integers(0, 9, (3, 4)), random.integers(0, 4, (3, 6))
    rows, final = nested.interpret(a, i)
    for row, at, result in zip(a, i, rows, strict=True):
        expected = row.copy()
        np.add.at(expected, at, 1)
        np.testing.assert_array_equal(result, expected)
    expected = a[0].copy()
    for t in range(4):
        np.add.at(expected, i[0], t)
    np.testing.assert_array_equal(final, expected)


def test_errors_name_what_is_wrong() -> None:
    with pytest.raises(rd.ShapeError, match=r"i64\[3\] does not fit into i64\[1\]"):
        rd.algorithm(lambda a, i, v: a.at[i].set(v)).trace(rd.i64["n"], rd.i64[1], rd.i64[3])
    with pytest.raises(rd.DTypeError, match="f32 into an array of i64"):
        rd.algorithm(lambda a, i, v: a.at[i].set(v)).trace(rd.i64["n"], rd.i64["k"], rd.f32["k"])


def test_one_place_known_at_run_time_takes_one_step() -> None:
    """A recurrence writes n elements in all, not n times n."""
    fill = rd.algorithm(lambda a: rd.loop(a.shape[0] - 2, lambda t, x: x.at[t + 2].set(x[t] + x[t + 1]), a))
    rows = rd.algorithm(lambda m: rd.loop(m.shape[0] - 1, lambda t, x: x.at[t + 1].add(x[t] * 2), m))
    a, m = np.arange(9), np.arange(12.0).reshape(4, 3)
    first, second = a.copy(), m.copy()
    for t in range(7):
        first[t + 2] = first[t] + first[t + 1]
    for t in range(3):
        second[t + 1] += second[t] * 2
    for program, argument, expected in ((fill, a, first), (rows, m, second)):
        assert isinstance(program.trace(argument).results[0].form.results[0].form, Update)
        for run in (program.interpret, program):
            np.testing.assert_array_equal(run(argument), expected)


def test_a_product_added_to_one_element_is_rounded_once_with_it():
    """`a.at[i].add(x * y)` is `a.at[i].set(a[i] + x * y)`; with `contract=False`, each operation is rounded."""
    add = lambda a, b: rd.loop(a.shape[0] - 1, lambda i, s: s.at[i + 1].add(s[i] * b[i]), a)
    write = lambda a, b: rd.loop(a.shape[0] - 1, lambda i, s: s.at[i + 1].set(s[i + 1] + s[i] * b[i]), a)
    a, b = np.random.default_rng(3).uniform(-1, 1, (2, 40)).astype(np.float32)
    for contract in (True, False):
        adding, writing = (rd.algorithm(each, contract=contract) for each in (add, write))
        expected = writing.interpret(a, b)
        for run in (adding, adding.interpret):
            np.testing.assert_array_equal(run(a, b), expected)
    assert (rd.algorithm(add)(a, b) != rd.algorithm(add, contract=False)(a, b)).any()
