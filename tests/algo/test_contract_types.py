"""The contract on dtypes and sizes, sentence by sentence: interpreted and compiled."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from agreement import Row, hold, row

import raido as rd

rng = np.random.default_rng(0)
A = rng.standard_normal((5, 7)).astype("f")
V = rng.standard_normal(7).astype("f")
I = rng.integers(-50, 50, (5, 7)).astype("i4")
J = rng.integers(-9, 9, 9)
NOT_ZERO = np.where(I == 0, 1, I)[::-1].copy()
EDGES = np.array([1e30, -1e30, np.nan, 3.9, -3.9, np.inf, -np.inf, 255.9, -0.5], "f")
INTEGERS = {
    "i1": rd.i8,
    "u1": rd.u8,
    "i2": rd.i16,
    "u2": rd.u16,
    "i4": rd.i32,
    "u4": rd.u32,
    "i8": rd.i64,
    "u8": rd.u64,
}
BITS = np.array([True, False])


def saturated(x: np.ndarray) -> tuple[np.ndarray, ...]:
    def one(v: float, dtype: str) -> int:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return 0 if np.isnan(v) else high if v >= high else low if v <= low else int(v)

    return tuple(np.array([one(float(v), dtype) for v in x], dtype) for dtype in INTEGERS)


def to_integers(x):
    return tuple(x.astype(dtype) for dtype in INTEGERS.values())


PROMOTION: dict[str, Row] = {
    "literals take a float operand's dtype": row(
        lambda x: (2 * x, x + 1, 1.5 * x, x / 2, 2**x), lambda x: (2 * x, x + 1, np.float32(1.5) * x, x / 2, 2**x), V
    ),
    "sizes take a float operand's dtype": row(lambda x: x * x.shape[0], lambda x: x * np.float32(7), V),
    "indices of tabulate take a float operand's dtype": row(
        lambda x: rd.tabulate(x.shape[0], lambda i: i * x[i]), lambda x: np.arange(7, dtype="f") * x, V
    ),
    "loop counters take a float operand's dtype": row(
        lambda x: rd.map(lambda v: rd.loop(4, lambda i, s: s + i * v, 0.0), x), lambda x: x * 6, V
    ),
    "iota takes a float operand's dtype": row(
        lambda x: rd.iota(x.shape[0]) * x, lambda x: np.arange(7, dtype="f") * x, V
    ),
    "iota counts as i64 beside integers": row(lambda x: rd.iota(9) + x, lambda x: np.arange(9) + x, J.astype("i4")),
    "iota with a dtype has it": row(lambda x: rd.iota(7, dtype=rd.i32) * x, lambda x: np.arange(7) * x.astype("f8"), V),
    "an integer literal takes an integer operand's dtype": row(
        lambda x: x + 100, lambda x: x + np.int8(100), np.array([100, 3], "i1")
    ),
    "an integer literal must fit": row(lambda x: x + 200, TypeError, np.array([100, 3], "i1")),
    "shifts keep the left operand's dtype": row(
        lambda x, y: (x << y, x >> y, 1 << y),
        lambda x, y: (np.left_shift(x, y.astype("i1")), np.right_shift(x, y.astype("i1")), np.int64(1) << y),
        np.array([1, -5], "i1"),
        np.array([3, 2]),
    ),
    "u64 with a signed integer is a TypeError": row(lambda x, y: x + y, TypeError, J.astype("u8"), J.astype("i4")),
    "comparing u64 with a signed integer too": row(lambda x, y: x < y, TypeError, J.astype("u8"), J),
    "u64 with a literal": row(lambda x: x + 1, lambda x: x + np.uint64(1), abs(J).astype("u8")),
    "u8 with i8": row(lambda x, y: x + y, lambda x, y: x + y, np.array([200], "u1"), np.array([1], "i1")),
    "i32 with f32": row(lambda x, y: x + y, lambda x, y: x + y, I, A),
    "f16 with i16": row(lambda x, y: x + y, lambda x, y: x + y, np.array([200], "f2"), np.array([1], "i2")),
    "NumPy scalars are not literals": row(
        lambda x, y: (x * np.float64(2), y + np.int64(2)),
        lambda x, y: (x * np.float64(2), y + np.int64(2)),
        V,
        np.array([1], "i1"),
    ),
    "booleans": row(
        lambda x, y: (x + y, x * y, x | y, x & y, x ^ y, ~x, x + 1),
        lambda x, y: (x + y, x * y, x | y, x & y, x ^ y, ~x, x.astype("i8") + 1),
        BITS,
        ~BITS,
    ),
}

ARITHMETIC: dict[str, Row] = {
    "true division of integers gives f64": row(
        lambda x, y, z: (x / y, x / 2, z / z),
        lambda x, y, z: (x / y, x / 2, np.array([1.0])),
        I,
        NOT_ZERO,
        np.array([5], "i1"),
    ),
    "floor division and remainder": row(lambda x, y: (x // y, x % y), lambda x, y: (x // y, x % y), I, NOT_ZERO),
    "integers wrap": row(
        lambda x: (x + x, x * x, -x, abs(x)),
        lambda x: (x + x, x * x, -x, abs(x)),
        np.array([-(2**31), 2**31 - 1], "i4"),
    ),
    "shifts beyond the width": row(
        lambda x, y: (x << y, x >> y),
        lambda x, y: (x << y, x >> y),
        np.array([1, -5, 77], "i4"),
        np.array([32, 40, 31], "i4"),
    ),
    "floats become integers by truncation and saturation": row(to_integers, saturated, EDGES),
    "doubles too": row(to_integers, saturated, EDGES.astype("f8")),
    "halves too": row(to_integers, saturated, np.clip(EDGES, -60000, 60000).astype("f2")),
    "floats become booleans": row(lambda x: x.astype(rd.bool_), lambda x: x.astype(bool), EDGES),
    "powers of integers": row(lambda x, y: x**y, lambda x, y: x**y, J, abs(J)),
    "a negative power faults": row(lambda x, y: x**y, rd.ArithmeticFault, J, -abs(J) - 1),
    "division by zero faults": row(lambda x, y: x // y, rd.ArithmeticFault, J, J * 0),
    "remainder by zero faults": row(lambda x, y: x % y, rd.ArithmeticFault, J, J * 0),
    "a * b + c is one operation": row(
        lambda x, y: (rd.fma(x, y, x), x * y + x),
        lambda x, y: ((x.astype("f8") * y + x).astype("f"),) * 2,
        V,
        V[::-1].copy(),
    ),
    "unless the algorithm says otherwise": row(
        rd.algorithm(contract=False)(lambda x, y: x * y + x), lambda x, y: x * y + x, V, V[::-1].copy()
    ),
} | {
    f"{dtype}'s least number // -1": row(
        lambda x, y: (x // y, x % y),
        lambda x, y: (x, x * 0),
        np.array([np.iinfo(dtype).min], dtype),
        np.array([-1], dtype),
    )
    for dtype in ("i1", "i2", "i4", "i8")
}

MEETING: dict[str, Row] = {
    "a literal neutral takes the elements' type": row(lambda x: rd.reduce(rd.add, 0, x), lambda x: x.sum(), V),
    "another neutral must have it": row(lambda x: rd.reduce(rd.add, rd.f64(0), x), TypeError, V),
    "a float is no neutral of integers": row(lambda x: rd.reduce(rd.add, 0.0, x), TypeError, J),
    "a literal branch takes the other's type": row(
        lambda x: rd.map(lambda v: rd.cond(v > 0, lambda: v, lambda: 0), x), lambda x: np.maximum(x, 0), V
    ),
    "other branches must have it": row(
        lambda x: rd.map(lambda v: rd.cond(v > 0, lambda: v, lambda: rd.f64(0)), x), TypeError, V
    ),
    "so must what is set": row(lambda x: x.at[0].set(rd.f64(1)), TypeError, V),
    "and the state of a loop": row(lambda x: rd.loop(3, lambda i, s: s * rd.f64(2), x), TypeError, V),
    "and what is returned where that is declared": row(
        rd.algorithm(x="f32[n]", returns="f64[n]")(lambda x: x), TypeError, V
    ),
    "rd.f32(x) converts": row(lambda x: rd.f32(x) * 2, lambda x: x.astype("f") * 2, I),
}

SIZES: dict[str, Row] = {
    "expressions": row(lambda x, y: x[:-1] + y, lambda x, y: x[:-1] + y, V, V[:6].copy(), x="f32[n + 1]", y="f32[n]"),
    "a name that only an expression has": row(lambda x: x[1:], lambda x: x[1:], V, x="f32[2 * n + 1]"),
    "every operation": row(
        lambda x, y, z: rd.sum(x) + rd.sum(y) + rd.sum(z),
        lambda x, y, z: x.sum() + y.sum() + z.sum(),
        np.ones((4, 6), "f"),
        np.ones(12, "f"),
        np.ones(6, "f"),
        x="f32[h, w]",
        y="f32[h * w // 2]",
        z="f32[min(h, w) + w % h]",
    ),
    "a size is an int that serves as one": row(
        lambda n: rd.tabulate((n, n), lambda i, j: i * n + j), lambda n: np.arange(n * n).reshape(n, n), 4, n="size"
    ),
    "a size is an i64 scalar": row(
        lambda x: (x.shape[0] * 2, x.shape[0] + x.shape[1]), (np.int64(10), np.int64(12)), A
    ),
    "iterating a static dimension unrolls": row(
        lambda x: sum(list(x)) + sum(x[i] for i in range(3)), lambda x: 2 * x.sum(), np.ones(3, "f"), x="f32[3]"
    ),
    "a dimension of the literal 1 broadcasts": row(
        lambda x, y: x + y, lambda x, y: x + y, A, A[:, :1].copy(), x="f32[h, w]", y="f32[h, 1]"
    ),
    "one that happens to be 1 does not": row(
        lambda x, y: x + y, rd.SizeMismatch, A, A[:, :1].copy(), x="f32[h, w]", y="f32[h, m]"
    ),
    "sizes that differ are refused while tracing": row(
        lambda x, y: x + y, rd.ShapeError, A, A, x="f32[h, w]", y="f32[h, w + 1]"
    ),
    "empty arrays work everywhere": row(
        lambda x: (
            *(x * 2, rd.sum(x), rd.sum(x, axis=0), rd.map(lambda r: rd.sum(r), x), x.T, x[::-1], rd.concat([x, x])),
            *(rd.stencil(lambda p: p[0, 1] + p[1, 0], x), rd.pad(x, 1), x.reshape(3, -1), rd.mean(x[:, 0])),
        ),
        lambda x: (
            *(x * 2, x.sum(), x.sum(0), x.sum(1), x.T, x[::-1], np.concatenate([x, x])),
            *(x, np.pad(x, 1), x.reshape(3, -1), np.float32(np.nan)),
        ),
        A[:0, :3].copy(),
        x="f32[n, 3]",
    ),
    "the greatest of nothing is refused": row(lambda x: rd.max(x), rd.SizeMismatch, V[:0]),
    "so is its place": row(lambda x: rd.argmax(x), rd.SizeMismatch, V[:0]),
    "unless there is something to start from": row(lambda x: rd.max(x, initial=3.0), np.float32(3), V[:0]),
}


@pytest.mark.parametrize("case", PROMOTION)
def test_types_are_promoted_as_numpy_does_with_four_exceptions(case: str) -> None:
    hold(PROMOTION[case])


@pytest.mark.parametrize("case", ARITHMETIC)
def test_arithmetic_is_numpys_and_total(case: str) -> None:
    hold(ARITHMETIC[case])


@pytest.mark.parametrize("case", MEETING)
def test_types_that_meet_must_agree(case: str) -> None:
    hold(MEETING[case])


@pytest.mark.parametrize("case", SIZES)
def test_sizes(case: str) -> None:
    hold(SIZES[case])


def test_nothing_is_checked_when_asked() -> None:
    def program(x, d, i, e):
        return (x // d) + (x % d) + x[i] + x**e

    algorithm = rd.algorithm(x="i32[n]", d="i32[n]", i="i64[n]", e="i32[n]")(program)
    x, d, e = np.array([7, -7, 9, 2**31 - 1], "i4"), np.array([2, 3, -4, 1], "i4"), np.array([1, 2, 3, 0], "i4")
    i = np.array([0, 3, 2, 1])
    checked, trusting = algorithm.compile(), algorithm.compile(unchecked=True)
    np.testing.assert_array_equal(checked(x, d, i, e), trusting(x, d, i, e))
    assert checked.source("nest").count("check ") == 3 and "cmpxchg" in checked.source("asm")  # of d, i and e
    assert "check " not in trusting.source("nest") and "cmpxchg" not in trusting.source("asm")
    assert trusting(x, d * 0, i, -e).shape == (4,)  # undefined, but it comes back
    sizes = rd.algorithm(lambda x, y: x + y, x="f32[n]", y="f32[m]")
    assert sizes.compile().signature.checks and not sizes.compile(unchecked=True).signature.checks
