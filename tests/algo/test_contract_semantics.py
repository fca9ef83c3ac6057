"""Edge cases of semantics: empty arrays, faults in any lane, integers that wrap, NaN, infinities, signed zeros, denormals."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from agreement import Row, hold, row

import raido as rd

E, E2, E3 = np.empty(0), np.empty((0, 3)), np.empty((3, 0))
NONE = np.empty(0, int)
ONE = np.array([0])

EMPTY: dict[str, Row] = {
    "maps": row(
        lambda a, b, c: (rd.map(lambda x: x + 1, a), rd.map(lambda r: r * 2, b), rd.map(rd.sum, c), a + a),
        (E, E2, np.zeros(3), E),
        *(E, E2, E3),
    ),
    "reductions give the neutral element": row(
        lambda a, b, c: (
            rd.reduce(rd.add, 0, a),
            rd.reduce(rd.maximum, -np.inf, b),
            rd.reduce(rd.add, 0, c, axis=1),
            rd.reduce(lambda p, q: (p[0] + q[0], rd.maximum(p[1], q[1])), (0.0, -1.0), a, a),
        ),
        (np.float64(0), np.full(3, -np.inf), np.zeros(3), (np.float64(0), np.float64(-1))),
        *(E, E2, E3),
    ),
    "NumPy's reductions": row(
        lambda a: (
            rd.sum(a),
            rd.prod(a),
            rd.any(a > 0),
            rd.all(a > 0),
            rd.min(a, initial=3.0),
            rd.max(a, initial=-1.0),
        ),
        tuple(map(np.asarray, (0.0, 1.0, False, True, 3.0, -1.0))),
        E,
    ),
    "a mean is NaN": row(lambda a: rd.mean(a), np.float64(np.nan), E),
    "min": row(lambda a: rd.min(a), rd.SizeMismatch, E),
    "argmax": row(lambda a: rd.argmax(a), rd.SizeMismatch, E),
    "scans": row(
        lambda a, b, c: (
            rd.scan(rd.add, 0, a),
            rd.scan(rd.add, 0, a, exclusive=True),
            rd.scan(rd.add, 0, b),
            rd.scan(rd.add, 0, c, axis=1),
        ),
        (E, E, E2, E3),
        *(E, E2, E3),
    ),
    "bins": row(
        lambda a, i, d: (
            rd.reduce_by_index(d, rd.add, 0, i, a),
            rd.reduce_by_index(a, rd.add, 0, rd.iota(4), d),
            rd.bincount(i, 3),
            rd.scatter(d, i, a),
            rd.scatter(a, rd.iota(4), d),
        ),
        (np.full(4, 2.0), E, np.zeros(3, int), np.full(4, 2.0), E),
        *(E, NONE, np.full(4, 2.0)),
    ),
    "gathers": row(lambda a, i: (a[i], i[i]), (E, NONE), np.ones(3), NONE),
    "an element of nothing": row(lambda a, i: a[i], rd.IndexOutOfRange, E, ONE),
    "sizes": row(
        lambda a, b, i: (
            rd.filter(lambda x: x > 0, a),
            rd.filter(lambda r: rd.sum(r) >= 0, b),
            *rd.partition(lambda x: x > 0, a),
            rd.repeat(a, i),
            rd.repeat(rd.iota(3), rd.iota(3) * 0),
            rd.unique(a),
        ),
        (E, E2, E, E, E, NONE, E),
        *(E, E2, NONE),
    ),
    "sorts": row(lambda a, c: (rd.sort(a), rd.argsort(a), rd.sort(c, axis=1)), (E, NONE, E3), E, E3),
    "stencils": row(
        lambda a: tuple(
            rd.stencil(lambda p: p[-1] + p[1], a, boundary=b)
            for b in ("clamp", "wrap", "mirror", "symmetric", "valid", rd.constant(1.0))
        ),
        (E,) * 6,
        E,
    ),
    "segments": row(
        lambda a, b, o: (
            rd.segmented_reduce(rd.add, 0, a, o),
            rd.segmented_reduce(rd.add, 7, b, o),
            rd.segmented_reduce(rd.add, 0, a, o[:1]),
            rd.segmented_scan(rd.add, 0, a, o),
        ),
        (np.zeros(2), np.full((2, 3), 7.0), E, E),
        *(E, E2, np.zeros(3, int)),
    ),
    "products": row(lambda a, b: (a @ b, b @ a), (np.zeros((3, 3)), np.zeros((0, 0))), E3, E2),
    "loops": row(
        lambda a, k: (
            rd.loop(3, lambda t, s: s + 1, a),
            rd.loop(k, lambda t, s: s + 1, k),
            rd.loop(k, lambda t, s: s[1:], a),
        ),
        (E, np.int64(-3), E),
        *(E, np.int64(-3)),
    ),
    "moves": row(
        lambda a, b: (rd.roll(a, 1), rd.shift(a, 1), b.T, rd.concat([a, a]), rd.pad(a, 2), b.flatten(), a[::-1]),
        (E, E, E2.T, E, np.zeros(4), E, E),
        *(E, E2),
    ),
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_arrays(name: str) -> None:
    hold(EMPTY[name])


# Programs over d that fault where it is 0 (or 9): each must report one fault, with this line and the numbers, wherever it is.
DIVISION, INDEX = (
    (rd.ArithmeticFault, "integer division of 100 by zero"),
    (rd.IndexOutOfRange, "index 9 is out of range"),
)
FAULTS: dict[str, tuple[Callable[..., Any], tuple[type[Exception], str]]] = {
    "division": (lambda a, d: (100 // d, a[d % 3]), DIVISION),
    "remainder in a sum": (lambda a, d: rd.sum(100 % d), DIVISION),
    "scan": (lambda a, d: rd.scan(rd.add, 0, 100 // d), DIVISION),
    "filter": (lambda a, d: rd.filter(lambda x: 100 // x > 0, d), DIVISION),
    "sort": (lambda a, d: rd.sort(100 // d), DIVISION),
    "bins": (lambda a, d: rd.bincount(100 // d, 3), DIVISION),
    "segments": (
        lambda a, d: rd.segmented_reduce(rd.add, 0, 100 // d, rd.stack([rd.i64(0), rd.i64(d.shape[0])])),
        DIVISION,
    ),
    "a power": (lambda a, d: 2 ** (d - 1), (rd.ArithmeticFault, "negative power")),
    "gather": (lambda a, d: a[rd.where(d == 0, 9, 0)], INDEX),
    "gather in a reduction": (lambda a, d: rd.max(a[rd.where(d == 0, 9, 1)]), INDEX),
    "update": (lambda a, d: a.at[rd.where(d == 0, 9, 2)].add(1.0), INDEX),
    "offsets": (
        lambda a, d: rd.segmented_reduce(rd.add, 0, a, rd.where(d == 0, 9, 3)),
        (rd.IndexOutOfRange, "offsets [0-9], [0-9] must not decrease"),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_in_any_lane_are_reported_once(name: str) -> None:
    function, (kind, words) = FAULTS[name]
    program = rd.algorithm(a="f64[3]", d="i64[n]")(function)
    exe = program.compile()
    a = np.ones(3)
    for n in (2, 7, 33, 1000):
        for place in {0, n // 2, n - 1}:
            d = np.ones(n, int)
            d[place] = 0
            for run in (program.interpret, exe):
                with pytest.raises(kind, match=words) as fault:
                    run(a, d)
                assert len(re.findall(r"test_contract_semantics\.py:\d+", str(fault.value))) == 1


def test_nothing_is_written_past_the_end() -> None:
    exe = rd.algorithm(a="f64[3]", i="i64[n]")(lambda a, i: a[i]).compile()
    for n in (1, 9, 100):
        around = np.full(n + 32, 7.0)
        with pytest.raises(rd.IndexOutOfRange, match="index 3"):
            exe(np.ones(3), np.append(np.zeros(n - 1, int), 3), out=around[16:-16])
        assert (around[:16] == 7).all() and (around[-16:] == 7).all()


def test_bins_and_targets_out_of_range_are_ignored() -> None:
    index = np.array([-1, 3, 2**40, -(2**40), 1, np.iinfo(int).min])
    hold(row(lambda i: rd.bincount(i, 3), np.array([0, 1, 0]), index))
    hold(row(lambda i: rd.scatter(rd.full(3, 0), i, i), np.array([0, 1, 0]), index))
    hold(row(lambda i: rd.scatter(rd.full((3, 2), 0), (i, i - 1), i), np.array([[0, 0], [1, 0], [0, 0]]), index))


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8"])
def test_integers_wrap(dtype: str) -> None:
    low = np.iinfo(dtype).min
    x, y = np.array([low, low, 7, -7, 5], dtype), np.array([-1, 1, -2, 2, -5], dtype)

    def expected(x, y):
        over = (x == low) & (y == -1)
        quotient, rest = np.where(over, low, x // np.where(over, 1, y)), np.where(over, 0, x % y)
        return quotient.astype(dtype), rest.astype(dtype), -x, abs(x), x * y, x - y

    hold(row(lambda x, y: (x // y, x % y, -x, abs(x), x * y, x - y), expected, x, y))


def test_unsigned_integers_wrap_and_name_their_dividend() -> None:
    x = np.array([2**64 - 1, 0, 3], np.uint64)
    hold(row(lambda x: (x + x, -x, x - 5, x * x), lambda x: (x + x, -x, x - np.uint64(5), x * x), x))
    for run in ((divide := rd.algorithm(lambda x: x // (x - x))).interpret, divide):
        with pytest.raises(rd.ArithmeticFault, match=f"integer division of {2**64 - 1} by zero"):
            run(x)


def _special(dtype: str) -> np.ndarray:
    info = np.finfo(dtype)
    small = float(info.smallest_subnormal)
    return np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 1.0, small, -small, info.tiny, 5 * small], dtype)


def _same_bits(got: Any, want: Any) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    if want.dtype.kind == "f":
        there = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got[there]), np.signbit(want[there]))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_special_values(dtype: str) -> None:
    x = _special(dtype)
    a, b = (m.ravel().copy() for m in np.meshgrid(x, x))
    compare = lambda a, b: (a < b, a <= b, a == b, a != b, a > b)
    two = np.array(2, dtype)[()]
    tables: list[tuple[Any, Any, tuple[np.ndarray, ...]]] = [
        (lambda a, b: compare(a, b), compare, (a, b)),
        (
            lambda a: (rd.argsort(a), rd.sort(a)),
            lambda a: (np.argsort(a, kind="stable"), np.sort(a, kind="stable")),
            (x[::-1].copy(),),
        ),
        (
            lambda a: (rd.min(a), rd.max(a), rd.argmin(a), rd.argmax(a)),
            lambda a: (a.min(), a.max(), a.argmin(), a.argmax()),
            (x,),
        ),
        (
            lambda a: (rd.scan(rd.maximum, -np.inf, a), rd.scan(rd.minimum, np.inf, a)),
            lambda a: (np.maximum.accumulate(a), np.minimum.accumulate(a)),
            (x[::-1].copy(),),
        ),
        (
            lambda a: (a / 2, a * 2, a + a, a - a / 2, -a, abs(a)),
            lambda a: (a / two, a * two, a + a, a - a / two, -a, abs(a)),
            (x,),
        ),
        (lambda a: rd.reduce(rd.add, -0.0, a), lambda a: np.array(-0.0, dtype), (np.array([-0.0, -0.0], dtype),)),
    ]
    for function, oracle, arguments in tables:
        program = rd.algorithm(function)
        with np.errstate(all="ignore"):
            want = oracle(*arguments)
        for run in (program.interpret, program):
            got = run(*arguments)
            for g, w in zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]:
                _same_bits(g, w)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_min_and_max_propagate_nan(dtype: str) -> None:
    x = _special(dtype)
    a, b = (m.ravel().copy() for m in np.meshgrid(x, x))
    program = rd.algorithm(lambda a, b: (rd.minimum(a, b), rd.maximum(a, b)))
    for got, want in zip(program(a, b), (np.minimum(a, b), np.maximum(a, b)), strict=True):
        np.testing.assert_array_equal(got, want)
    for got, want in zip(program(a, b), program.interpret(a, b), strict=True):
        _same_bits(got, want)


def test_a_quotient_by_a_power_of_two_is_rounded_before_it_is_added() -> None:
    """As a product with 0.125 it might be fused with the sum: denormals would tell."""
    program = rd.algorithm(x="f32[n]", y="f32[n]")(lambda x, y: x / 8 + y)
    small = np.float32(1e-45)
    x, y = np.tile(small * np.arange(1, 9, dtype="f4"), 8), np.repeat(small * np.arange(8, dtype="f4"), 8)
    exe = program.compile()
    _same_bits(exe(x, y), x / np.float32(8) + y)
    assert "vdivps" not in exe.source("asm") and "divps" not in exe.source("asm")


def test_starts_that_are_not_neutral_count_once() -> None:
    a = np.arange(200000)
    hold(
        row(
            lambda a: (
                rd.sum(a, initial=5),
                rd.max(a, initial=10**6),
                rd.scan(rd.add, 5, a)[-1],
                rd.scan(rd.add, 5, a, exclusive=True)[0],
            ),
            (np.int64(a.sum() + 5), np.int64(10**6), np.int64(a.sum() + 5), np.int64(5)),
            a,
        )
    )
