"""bf16: its names, its promotion, and all of its numbers, against `ml_dtypes`, NumPy's f32 and exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import raido as rd
from raido.algo.graph.dtypes import DTYPES, DType, bf16, bool_, f16, f32, f64, i32, i64, u32, u64
from raido.algo.graph.expr import const
from raido.algo.graph.fma import fma
from raido.algo.graph.narrow import convert
from raido.algo.graph.primitives import evaluate

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of ml_dtypes, of NaN and overflow

EVERY = np.arange(1 << 16, dtype=np.uint16).view(bfloat16)
SPECIAL = np.array([0, 1, 1.5, 2.5, -3, 0.1, 100, 255, 256, 3e38, 1e-38, 1e-40, math.inf, math.nan], np.float32)
SPECIAL = np.concatenate([SPECIAL, -SPECIAL]).astype(bfloat16)
PAIRS = (SPECIAL[:, None], SPECIAL[None, :])


def same(got: Any, want: Any, zeros: bool = True) -> None:
    """Equal types, shapes and bits; any NaN is any other, and with `zeros` false any zero is."""
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if got.dtype == bfloat16:
        got, want = got.astype(np.float32), want.astype(np.float32)
    np.testing.assert_array_equal(got, want)
    if zeros and got.dtype.kind == "f":
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number])


def nearest(number: Fraction) -> float:
    """The bf16 nearest to a number, ties to even."""
    if number == 0:
        return 0.0
    exponent = math.floor(math.log2(abs(number.numerator)) - math.log2(number.denominator))
    exponent += (
        1 if abs(number) >= Fraction(2) ** (exponent + 1) else -1 if abs(number) < Fraction(2) ** exponent else 0
    )
    unit = Fraction(2) ** (max(exponent, -126) - 7)
    rounded = abs(round(number / unit) * unit)
    return math.copysign(math.inf if rounded >= 2**128 else float(rounded), number)


# --- types


@pytest.mark.parametrize("name", [rd.bf16, "bf16", "bfloat16", bfloat16, np.dtype(bfloat16)], ids=str)
def test_its_names_are_read_everywhere(name: Any) -> None:
    f = rd.algorithm(lambda a: (a.astype(name), rd.iota(3, name), rd.array([1, 0], name), rd.zeros(2, name)))
    assert {result.dtype for result in f.interpret(np.float32([1, 2]))} == {np.dtype(bfloat16)}
    given = rd.algorithm(lambda a: a, a=name)
    assert given.interpret(0.5).dtype == given.interpret(bfloat16(0.5)).dtype == bfloat16
    same(rd.algorithm(lambda a: a + 1)(np.array([1, 2], bfloat16)), np.array([2, 3], bfloat16))


def test_annotations_and_types_show_it() -> None:
    @rd.algorithm
    def f(a: rd.bf16["n"], b: "bf16[n]"):  # type: ignore[name-defined]
        return a * b

    assert repr(f) == "<algorithm f(a: bf16[n], b: bf16[n])>"
    with pytest.raises(rd.ArgumentError, match=r"must be bf16\[n\], got an array of dtype float32"):
        f.interpret(np.float32([1]), np.float32([1]))


@pytest.mark.parametrize("other", DTYPES, ids=str)
def test_it_takes_in_integers_and_gives_way_to_wider_floats(other: DType) -> None:
    wide = {f16: f32, f32: f32, f64: f64}.get(other, bf16)
    for types in ((bf16, other), (other, bf16)):
        traced = rd.algorithm(lambda a, b: rd.where(a > b, a, b)).trace(*(t["n"] for t in types))
        assert traced.results[0].dtype is wide
    for types in ((bf16, other, i32), (i32, other, bf16), (other, bf16, i32)):
        if other is not u64:
            joined = rd.algorithm(lambda a, b, c: rd.concat([a, b, c])).trace(*(t["n"] for t in types))
            assert joined.results[0].dtype is {f16: f64, f32: f64, f64: f64}.get(other, bf16)


def test_weak_values_take_it() -> None:
    f = lambda a: (
        a * 2.5,
        a + 1,
        a / rd.sqrt(a.shape[0]),
        a + rd.iota(4),
        rd.full(4, 0.1) - a,
        a @ rd.linspace(0, 1, 4),
    )
    a = np.array([1, 2, 3, 4], bfloat16)
    results = rd.algorithm(f).interpret(a)
    assert {result.dtype for result in results} == {np.dtype(bfloat16)}
    same(results[0], a * bfloat16(2.5))


# --- every number


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_number_is_cast_as_the_f32_that_it_is(dtype: DType) -> None:
    wide = EVERY.astype(np.float32)
    same(evaluate("cast", dtype, [EVERY]), EVERY if dtype is bf16 else evaluate("cast", dtype, [wide]))
    if dtype.is_float or dtype is bool_:
        with np.errstate(all="ignore"):
            same(evaluate("cast", dtype, [EVERY]), EVERY.astype(dtype.numpy))


def test_every_number_under_operations_of_one_operand() -> None:
    ufuncs = {"neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "sign": np.sign}
    ufuncs |= {name: getattr(np, name) for name in ("floor", "ceil", "trunc", "rint")}
    with np.errstate(all="ignore"):
        for name, ufunc in ufuncs.items():
            same(evaluate(name, bf16, [EVERY]), ufunc(EVERY), zeros=name != "sign")
        for name in ("isnan", "isinf", "isfinite", "signbit"):
            same(evaluate(name, bool_, [EVERY]), getattr(np, name)(EVERY))
        for name in ("exp", "log", "sin", "tanh", "expm1"):
            same(evaluate(name, bf16, [EVERY]), evaluate(name, f32, [EVERY.astype(np.float32)]).astype(bfloat16))
            got, want = (
                np.sort(x.astype(np.float32)) for x in (evaluate(name, bf16, [EVERY]), getattr(np, name)(EVERY))
            )
            assert np.count_nonzero((got != want) & ~np.isnan(got)) < 100, (
                name
            )  # ties that f32 functions decide otherwise


def test_pairs_of_special_numbers() -> None:
    ufuncs = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "copysign": np.copysign}
    ufuncs |= {"fmod": np.fmod, "minimum": np.minimum, "maximum": np.maximum}
    compared = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal}
    with np.errstate(all="ignore"):
        for name, ufunc in ufuncs.items():
            same(evaluate(name, bf16, PAIRS), ufunc(*PAIRS), zeros=name not in ("minimum", "maximum"))
        for name, ufunc in (compared | {"ne": np.not_equal}).items():
            same(evaluate(name, bool_, PAIRS), ufunc(*PAIRS))
        wide = [x.astype(np.float32) for x in PAIRS]
        for name, ufunc in {"floordiv": np.floor_divide, "floormod": np.remainder}.items():
            same(evaluate(name, bf16, PAIRS), ufunc(*wide).astype(bfloat16))


# --- rounding once


def hard_numbers() -> list[Fraction]:
    """Ties of bf16, and numbers so near to them that f32 and f64 do not tell them apart; the ends of the range."""
    random = np.random.default_rng(0)
    numbers = []
    for exponent in (-140, -130, -126, 0, 5, 20, 62, 100, 127):
        for _ in range(6):
            tie = Fraction(2 * int(random.integers(128, 256)) + 1, 2) * Fraction(2) ** (exponent - 7)
            below = Fraction(2) ** (exponent - 50)
            numbers += [tie, tie + below, tie - below, -tie, -tie - below]
    largest = Fraction(float(np.finfo(np.float32).max))
    return [*numbers, largest, -largest, Fraction(2) ** 1000, Fraction(2) ** -133, Fraction(3, 2) * Fraction(2) ** -134]


def test_f64_is_rounded_once() -> None:
    numbers = np.array([float(number) for number in hard_numbers()])
    assert all(Fraction(float(x)) == number for x, number in zip(numbers, hard_numbers(), strict=True))
    want = np.array([nearest(number) for number in hard_numbers()], np.float32).astype(bfloat16)
    same(convert(numbers, np.dtype(bfloat16)), want)
    same(evaluate("cast", bf16, [numbers]), want)
    assert [const(bf16, float(x)).value for x in numbers] == want.astype(float).tolist()
    assert (numbers.astype(bfloat16) != want).any()  # what is told apart here, ml_dtypes does not


@pytest.mark.parametrize("dtype", [i32, i64, u32, u64], ids=str)
def test_integers_are_rounded_once(dtype: DType) -> None:
    random = np.random.default_rng(1)
    ties = [(2 * int(random.integers(128, 256)) + 1) << shift for shift in range(dtype.bits - 9) for _ in range(3)]
    near = [tie + step for tie in ties for step in (-1, 0, 1)]
    info = np.iinfo(dtype.numpy)
    numbers = [n for n in (*near, *(-n for n in near), info.min, info.max, 0, 1, 3) if info.min <= n <= info.max]
    want = np.array([nearest(Fraction(n)) for n in numbers], np.float32).astype(bfloat16)
    same(evaluate("cast", bf16, [np.array(numbers, dtype.numpy)]), want)


def test_fma_is_rounded_once() -> None:
    random = np.random.default_rng(2)
    a, b, c = (random.standard_normal((3, 2000)) * 2.0 ** random.integers(-70, 60, (3, 2000))).astype(bfloat16)
    c[::2] = -(a[::2] * b[::2])
    exact = [Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) for x, y, z in zip(a, b, c, strict=True)]
    same(fma(a, b, c), np.array([nearest(number) for number in exact], np.float32).astype(bfloat16), zeros=False)


# --- programs


def test_folds_round_as_those_of_f16_do() -> None:
    x = np.linspace(0.1, 30, 200).astype(bfloat16)
    total, wide, mean, deviation, product, largest = rd.algorithm(
        lambda x: (rd.sum(x), rd.sum(x, dtype=rd.f32), rd.mean(x), rd.std(x), rd.matmul(x, x, dtype=rd.f32), rd.max(x))
    ).interpret(x)
    narrow = bfloat16(0)
    for value in x:
        narrow = bfloat16(narrow + value)
    same(total, narrow)
    same(wide, x.astype(np.float32).cumsum(dtype=np.float32)[-1])
    same(mean, bfloat16(x.astype(np.float32).cumsum(dtype=np.float32)[-1] / np.float32(200)))
    assert product.dtype == np.float32 and deviation.dtype == bfloat16
    assert math.isclose(float(deviation), x.astype(float).std(), rel_tol=0.01)
    same(largest, x[-1])


def test_sorts_filters_and_records_hold_it() -> None:
    pair = rd.record(key=rd.bf16, place=rd.i32)
    x = np.array([2, -0.0, math.nan, 0.0, -1, math.inf, 2, 1e-40], bfloat16)

    def f(x: Any) -> Any:
        made = rd.map(lambda v, i: pair(key=v * 2, place=rd.i32(i)), x, rd.iota(8))
        unique, counts = rd.unique(x, return_counts=True)
        kept = rd.filter(lambda v: v > 0, x)
        return rd.sort(x), rd.argsort(x), kept, x[x < 1], unique, counts, made, rd.view(x, rd.u16), rd.cumsum(x[:2])

    sorted_, order, kept, below, unique, counts, made, bits, sums = rd.algorithm(f).interpret(x)
    assert order.tolist() == [4, 1, 3, 7, 0, 6, 5, 2]
    same(sorted_, x[order])
    same(kept, x[x > 0])
    same(below, x[x < 1])
    assert unique.astype(float).tolist()[:-1] == sorted({*x[~np.isnan(x)].astype(float)}) and counts.tolist()[1] == 2
    same(made["key"], x * bfloat16(2))
    same(bits, x.view(np.uint16))
    same(sums, np.array([2, 2], bfloat16))


def test_updates_combine_it() -> None:
    f = rd.algorithm(lambda d, i, v: (rd.reduce_by_index(d, rd.add, 0, i, v), d.at[1].set(2.7), rd.scatter(d, i, v)))
    d, i, v = np.zeros(3, bfloat16), np.array([0, 2, 0]), np.array([256, 1, 1], bfloat16)
    combined, changed, written = f.interpret(d, i, v)
    same(combined, np.array([256, 0, 1], bfloat16))  # 257 lies between two of its numbers
    same(changed, np.array([0, 2.7, 0], bfloat16))
    same(written, np.array([1, 0, 1], bfloat16))


def test_numbers_are_taken_apart_and_put_together() -> None:
    finite = EVERY[np.isfinite(EVERY) & (EVERY != 0)]
    f = rd.algorithm(lambda x: (*rd.frexp(x), rd.ldexp(x, 3), rd.nextafter(x, 0), rd.spacing(x), *rd.modf(x)))
    with np.errstate(all="ignore"):
        mantissa, exponent, larger, next_, gap, fraction, whole = f.interpret(finite)
        same(rd.algorithm(lambda m, e: rd.ldexp(m, e)).interpret(mantissa, exponent), finite)
        same(larger, finite * bfloat16(8))
        same(next_, np.nextafter(finite, np.zeros_like(finite)))
        same(fraction + whole, finite)
        same(gap, np.spacing(finite))


def test_random_numbers_and_replacements() -> None:
    key = rd.random.key(1)
    f = rd.algorithm(
        lambda k, x: (rd.random.uniform(k, 500, rd.bf16), rd.random.normal(k, 500, rd.bf16), rd.nan_to_num(x))
    )
    even, normal, finite = f.interpret(key, SPECIAL)
    assert even.dtype == normal.dtype == bfloat16
    steps = even.astype(float) * 256
    assert (steps == np.floor(steps)).all() and steps.min() >= 0 and 240 < steps.max() < 256
    assert abs(normal.astype(float).std() - 1) < 0.1
    same(
        finite,
        np.nan_to_num(SPECIAL.astype(np.float32), posinf=float(finite.max()), neginf=float(finite.min())).astype(
            bfloat16
        ),
    )
    assert float(finite.max()) == (2 - 2**-7) * 2.0**127


# --- other libraries


class Elsewhere:
    """An array of another library, which gives away its memory by DLPack."""

    def __init__(self, bits: np.ndarray, code: int = 4, dtype: str = "torch.bfloat16") -> None:
        self.bits, self.code, self.dtype = bits, code, dtype

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **options: Any) -> Any:
        import ctypes

        capsule, api = self.bits.__dlpack__(**options), ctypes.pythonapi
        api.PyCapsule_GetName.argtypes, api.PyCapsule_GetName.restype = (ctypes.py_object,), ctypes.c_char_p
        api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
        api.PyCapsule_GetPointer.restype = ctypes.c_void_p
        name = api.PyCapsule_GetName(capsule)
        begin = api.PyCapsule_GetPointer(capsule, name) + (32 if name.endswith(b"versioned") else 0)
        ctypes.c_uint8.from_address(begin + 20).value = self.code
        return capsule


def test_other_libraries_arrays_of_it_are_read_where_they_are() -> None:
    bits = np.array([1, -2], bfloat16).view(np.uint16)
    f = rd.algorithm(lambda a: a * 2, a="bf16[n]")
    same(f.interpret(Elsewhere(bits)), np.array([2, -4], bfloat16))
    result = np.zeros(2, np.uint16)
    f(Elsewhere(bits), out=Elsewhere(result))
    same(result.view(bfloat16), np.array([2, -4], bfloat16))
    with pytest.raises(rd.ArgumentError, match="its element type is not bfloat16"):
        f.interpret(Elsewhere(bits, code=1))
