"""Every primitive, on every element type it takes, against NumPy and Python integers."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from ml_dtypes import finfo

from raido.algo.graph import dtypes
from raido.algo.graph.dtypes import DTYPES, DType, bf16, bool_, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from raido.algo.graph.narrow import widen
from raido.algo.graph.primitives import FUNCTIONS, PRIMITIVES, evaluate, evaluator, result_dtype

INTEGERS = [d for d in DTYPES if d.is_integer]
FLOATS = [f16, bf16, f32, f64]


def samples(dtype: DType) -> np.ndarray:
    """Extremes, zeros, neighbours of powers of two, and a few ordinary values."""
    if dtype is bool_:
        return np.array([False, True])
    if dtype.is_float:
        info = finfo(dtype.numpy)
        plain = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.1, -7.0, 3.0, math.inf, -math.inf, math.nan]
        return np.array([*plain, info.max, info.min, info.tiny, -info.tiny, info.eps], dtype.numpy)
    info = np.iinfo(dtype.numpy)
    values = {info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 8, 100, 1 << (dtype.bits - 2)}
    if dtype.kind == "i":
        values |= {-1, -2, -3, -7, -8, -100}
    return np.array(sorted(values), dtype.numpy)


def wrap(value: int, dtype: DType) -> int:
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "i" and value >> (dtype.bits - 1) else value


def check(name: str, dtype: DType, args: list[np.ndarray], expected: np.ndarray, zeros: bool = True) -> None:
    """Bit equality; NaN equals NaN; with `zeros` false the sign of a zero may differ."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        actual = evaluate(name, dtype, args)
    assert actual.dtype == dtype.numpy
    actual, expected = widen(actual), widen(expected)
    np.testing.assert_array_equal(actual, expected)
    if zeros and dtype.is_float:
        number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(actual)[number], np.signbit(expected)[number])


def pairs(dtype: DType) -> list[np.ndarray]:
    values = samples(dtype)
    return [values[:, None], values[None, :]]


def python_floor(name: str, a: int, b: int) -> int:
    return 0 if b == 0 else a // b if name == "floordiv" else a % b


def python_trunc(name: str, a: int, b: int) -> int:
    if b == 0:
        return 0
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient if name == "truncdiv" else a - quotient * b


INTEGER_MEANING = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "minimum": min,
    "maximum": max,
    "bit_and": lambda a, b: a & b,
    "bit_or": lambda a, b: a | b,
    "bit_xor": lambda a, b: a ^ b,
    "floordiv": lambda a, b: python_floor("floordiv", a, b),
    "floormod": lambda a, b: python_floor("floormod", a, b),
    "mod": lambda a, b: python_floor("floormod", a, b),
    "truncdiv": lambda a, b: python_trunc("truncdiv", a, b),
    "truncrem": lambda a, b: python_trunc("truncrem", a, b),
    "ipow": lambda a, b: 1 if b < 0 else pow(a, b, 1 << 64) if b < 1 << 63 else 0,
}


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", INTEGER_MEANING)
def test_integer_arithmetic_is_pythons_wrapped(name: str, dtype: DType) -> None:
    a, b = pairs(dtype)
    if name == "ipow":
        b = b[b < 1 << 20][None, :]
    exact = [[wrap(INTEGER_MEANING[name](int(x), int(y)), dtype) for y in b[0]] for x in a[:, 0]]
    check(name, dtype, [a, b], np.array(exact, dtype.numpy))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_operations_of_one_operand(dtype: DType) -> None:
    values = samples(dtype)
    meanings = {"neg": lambda x: -x, "abs": abs, "bit_not": lambda x: ~x, "sign": lambda x: (x > 0) - (x < 0)}
    for name, meaning in meanings.items():
        check(name, dtype, [values], np.array([wrap(meaning(int(x)), dtype) for x in values], dtype.numpy))
    patterns = [f"{int(x) & ((1 << dtype.bits) - 1):0{dtype.bits}b}" for x in values]
    check("popcount", u8, [values], np.array([p.count("1") for p in patterns], np.uint8))
    check("clz", i64, [values], np.array([len(p) - len(p.lstrip("0")) for p in patterns]))
    check("ctz", dtype, [values], np.array([len(p) - len(p.rstrip("0")) for p in patterns], dtype.numpy))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_shifts_beyond_the_width_are_numpys(dtype: DType) -> None:
    values = samples(dtype)[:, None]
    counts = np.array([0, 1, 3, dtype.bits - 1, dtype.bits, dtype.bits + 1, 100], dtype.numpy)[None, :]
    left = [[wrap(int(x) << int(c), dtype) for c in counts[0]] for x in values[:, 0]]
    right = [[int(x) >> int(c) for c in counts[0]] for x in values[:, 0]]
    check("shl", dtype, [values, counts], np.array(left, dtype.numpy))
    check("shr", dtype, [values, counts], np.array(right, dtype.numpy))
    if dtype.kind == "i":
        back = np.full((1, 1), -1, dtype.numpy)
        check("shl", dtype, [values, back], np.zeros_like(values))
        check("shr", dtype, [values, back], np.where(values < 0, -1, 0).astype(dtype.numpy))


FLOAT_MEANING = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "copysign": np.copysign,
    "floordiv": np.floor_divide,
    "floormod": np.remainder,
    "fmod": np.fmod,
    "truncrem": np.fmod,
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", FLOAT_MEANING)
def test_float_arithmetic_is_numpys(name: str, dtype: DType) -> None:
    a, b = pairs(dtype)
    with np.errstate(all="ignore"):
        expected = FLOAT_MEANING[name](a, b)
    check(name, dtype, [a, b], expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_operations_of_one_operand_are_numpys(dtype: DType) -> None:
    values = samples(dtype)
    ufuncs = {"neg": np.negative, "abs": np.abs, "sign": np.sign, "sqrt": np.sqrt}
    ufuncs |= {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint}
    for name, ufunc in ufuncs.items():
        with np.errstate(all="ignore"):
            expected = ufunc(values)
        check(
            name, dtype, [values], expected, zeros=(name, dtype) != ("sign", bf16)
        )  # in ml_dtypes that of -0.0 is -0.0
    for name in ("isnan", "isinf", "isfinite", "signbit"):
        check(name, bool_, [values], getattr(np, name)(values))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_comparisons_and_extremes_are_numpys_up_to_the_sign_of_zero(dtype: DType) -> None:
    a, b = pairs(dtype)
    ufuncs = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
    for name, ufunc in {**ufuncs, "eq": np.equal, "ne": np.not_equal}.items():
        with np.errstate(invalid="ignore"):  # of ml_dtypes
            expected = ufunc(a, b)
        check(name, bool_, [a, b], expected)
    with np.errstate(all="ignore"):
        check("minimum", dtype, [a, b], np.minimum(a, b), zeros=False)
        check("maximum", dtype, [a, b], np.maximum(a, b), zeros=False)
    with np.errstate(invalid="ignore"):
        first = a < b
    check("select", dtype, [first, a, b], np.where(first, a, b))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_minus_zero_is_below_zero_for_extremes(dtype: DType) -> None:
    a = np.array([0.0, -0.0], dtype.numpy)
    for name, of_both in (("minimum", a[1]), ("maximum", a[0])):
        check(name, dtype, [a, -a], np.array([of_both, of_both]))
        check(name, dtype, [a, a], a)


@pytest.mark.parametrize("source, target", list(itertools.product(DTYPES, DTYPES)), ids=str)
def test_casts_wrap_integers_and_saturate_floats(source: DType, target: DType) -> None:
    values = samples(source)
    with np.errstate(all="ignore"):
        one_by_one = np.array([evaluator("cast", target)(value) for value in values])
        assert one_by_one.tobytes() == evaluate("cast", target, [values]).tobytes()
    if source.is_float and target.is_integer:
        info = np.iinfo(target.numpy)
        edges = [info.min - 0.5, info.min - 1.0, info.max + 0.5, float(info.max) + 1.0, 0.5, -0.5, 1.75, -1.75]
        with np.errstate(all="ignore"):
            values = np.concatenate([values, np.array(edges, source.numpy)])
        exact = [0 if math.isnan(x) else x for x in map(float, values)]
        exact = [min(max(int(x) if math.isfinite(x) else x, info.min), info.max) for x in exact]
        check("cast", target, [values], np.array([int(x) for x in exact], target.numpy))
        return
    if source.is_integer and target.is_integer:
        expected = np.array([wrap(int(x), target) for x in values], target.numpy)
    else:
        with np.errstate(all="ignore"):
            expected = values.astype(target.numpy)
    check("cast", target, [values], expected)


def test_bitcast_keeps_the_bits() -> None:
    for source, target in [(f32, i32), (u32, f32), (f64, i64), (u64, f64), (f16, i16), (bf16, u16)]:
        values = samples(source)
        assert evaluate("bitcast", target, [values]).tobytes() == values.tobytes()
    assert evaluate("bitcast", u32, [np.float32(1)]) == 0x3F800000


def test_boolean_operations() -> None:
    a, b = pairs(bool_)
    for name, expected in {"and": a & b, "or": a | b, "xor": a ^ b}.items():
        check(f"logical_{name}", bool_, [a, b], expected)
        check(f"bit_{name}", bool_, [a, b], expected)
    check("logical_not", bool_, [a], ~a)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("name", ["clamp", "wrap", "mirror", "symmetric"])
def test_boundary_indices_are_those_of_numpys_pad(name: str, n: int) -> None:
    reach = 4 * n + 3
    mode = {"clamp": "edge", "wrap": "wrap", "mirror": "reflect", "symmetric": "symmetric"}[name]
    expected = np.pad(np.arange(n), reach, mode=mode)
    check(f"{name}_index", i64, [np.arange(-reach, n + reach), np.int64(n)], expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_fma_rounds_once(dtype: DType) -> None:
    one = dtype.numpy.type(1)
    eps = finfo(dtype.numpy).eps
    result = evaluate("fma", dtype, [one + eps, one + eps, -(one + 2 * eps)])
    assert result == eps * eps
    with np.errstate(over="ignore", invalid="ignore"):
        a, b = pairs(dtype)
        plain = (a.astype(np.float64) * b.astype(np.float64)) if dtype is not f64 else None
    if plain is not None:
        with np.errstate(all="ignore"):
            expected = (plain + np.float64(0)).astype(dtype.numpy)
        check("fma", dtype, [a, b, np.zeros((1, 1), dtype.numpy)], expected, zeros=False)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("erf", "erfc", "rsqrt", "pow", "atan2", "hypot")])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_math_functions_are_close_to_numpys(name: str, dtype: DType) -> None:
    values = np.linspace(0.05, 0.95, 31).astype(dtype.numpy) + (1 if name == "acosh" else 0)
    ufunc = {"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh}
    ufunc |= {"acosh": np.arccosh, "atanh": np.arctanh}
    expected = ufunc.get(name, getattr(np, name, None))(values.astype(np.float64))
    np.testing.assert_allclose(evaluate(name, dtype, [values]), expected, rtol=4 * finfo(dtype.numpy).eps)


def test_every_row_has_a_result_type_and_refuses_others() -> None:
    for row in PRIMITIVES.values():
        kind = row.kinds[-1]
        operand = next(d for d in DTYPES if d.kind == kind)
        operands = [bool_, operand, operand] if row.rule == "select" else [operand] * row.arity
        assert result_dtype(row.name, operands, operand) is (bool_ if row.rule in ("compare", "predicate") else operand)
        with pytest.raises(TypeError):
            result_dtype(row.name, operands[1:])
        if row.arity == 2:
            with pytest.raises(TypeError):
                result_dtype(row.name, [i8, f32])
    with pytest.raises(TypeError, match="64 bits"):
        result_dtype("bitcast", [f64], i32)
    with pytest.raises(TypeError, match="told"):
        result_dtype("cast", [f64])


def test_scalars_and_empty_arrays_evaluate_too() -> None:
    assert evaluate("add", i8, [np.int8(127), np.int8(1)]).shape == ()
    assert evaluate("add", i8, [np.int8(127), np.int8(1)]) == -128
    assert evaluate("floordiv", i64, [np.zeros((0, 3), np.int64), np.int64(0)]).shape == (0, 3)
    assert evaluate("cast", i32, [np.zeros(0, np.float32)]).dtype == np.int32
    assert dtypes.f32.itemsize == 4


@pytest.mark.parametrize("dtype", [f16, bf16, f32], ids=str)
def test_evaluators_give_what_evaluate_gives(dtype: DType) -> None:
    a, b = pairs(dtype)
    for name in ("add", "fma", "floordiv", "truncdiv", "minimum", "lt", "isnan", "exp", "sign", "neg", "select"):
        operands = [np.signbit(a), a, b] if name == "select" else [a, b, a][: PRIMITIVES[name].arity]
        result = bool_ if PRIMITIVES[name].rule in ("compare", "predicate") else dtype
        with np.errstate(all="ignore"):
            check(name, result, operands, evaluator(name, result)(*operands))
