"""The dtype of every ufunc's result, for every pair of dtypes and for literals beside them, is NumPy's, but for the exceptions listed
here."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raido as rd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from agreement import hold, row

from raido.algo.language.ufuncs import OPERATOR_OF_UFUNC

TYPES = [rd.bool_, rd.i8, rd.i16, rd.i32, rd.i64, rd.u8, rd.u16, rd.u32, rd.u64, rd.f16, rd.f32, rd.f64]
TYPES += [rd.complex64, rd.complex128]
LITERALS = (True, 3, 2.5, 1j)
MORE = ("round", "real", "imag", "conj", "angle")
UFUNCS = sorted({name for name in OPERATOR_OF_UFUNC if isinstance(getattr(np, name, None), np.ufunc)} - {"matmul"})

ORDERINGS = {"less", "less_equal", "greater", "greater_equal", "minimum", "maximum", "fmin", "fmax"}
SHIFTS = {"left_shift", "right_shift", "bitwise_left_shift", "bitwise_right_shift"}


def is_signed(kind: Any) -> bool:
    return isinstance(kind, type(rd.i8)) and kind.kind == "i"


def is_complex(kind: Any) -> bool:
    return isinstance(kind, complex) or kind in (rd.complex64, rd.complex128)


def exception(name: str, kinds: tuple[Any, ...]) -> str | None:
    """The rule of the contract by which a result may differ from NumPy's, or be refused."""
    if name in SHIFTS:
        return "shifts keep the left operand's dtype"
    if rd.u64 in kinds and any(is_signed(kind) for kind in kinds):
        return "u64 with a signed integer is a TypeError"
    if name in ORDERINGS and any(is_complex(kind) for kind in kinds):
        return "complex numbers have no order"
    return None


def traced(function: Any, kinds: tuple[Any, ...]) -> str:
    """The type of a function's result for operands of these kinds, an array of a type or a literal; "refused"."""
    names = [f"a{k}" for k, kind in enumerate(kinds) if not isinstance(kind, (bool, int, float, complex))]
    operands = [f"a{k}" if f"a{k}" in names else repr(kind) for k, kind in enumerate(kinds)]
    program = eval(f"lambda {', '.join(names)}: function({', '.join(operands)})", {"function": function})
    try:
        found = rd.algorithm(program).trace(*(kinds[int(name[1:])]["n"] for name in names))
    except rd.DTypeError:
        return "refused"
    dtype = found.results[0].dtype.numpy
    return f"complex{16 * dtype.itemsize}" if found.complex_outputs else dtype.name


def in_numpy(function: Any, kinds: tuple[Any, ...]) -> str:
    literals = (bool, int, float, complex)
    try:
        with np.errstate(all="ignore"):
            result = function(*(kind if isinstance(kind, literals) else np.ones(1, kind.numpy) for kind in kinds))
    except TypeError:
        return "refused"
    return np.asarray(result).dtype.name


def combinations(count: int) -> list[tuple[Any, ...]]:
    if count == 1:
        return [(kind,) for kind in TYPES]
    beside = [pair for kind in TYPES for literal in LITERALS for pair in ((kind, literal), (literal, kind))]
    return [*itertools.product(TYPES, repeat=2), *beside]


@pytest.mark.parametrize("name", [*UFUNCS, *MORE])
def test_results_have_numpys_types(name: str) -> None:
    reference = getattr(np, name)
    function = getattr(rd, name, None) or OPERATOR_OF_UFUNC[name]
    for kinds in combinations(getattr(reference, "nin", 1)):
        ours, theirs = traced(function, kinds), in_numpy(reference, kinds)
        if ours != theirs:
            assert exception(name, kinds), f"{name}{kinds}: {ours}, in NumPy {theirs}"


@pytest.mark.parametrize("decimals", [-1, 0, 1])
def test_round_keeps_integers(decimals: int) -> None:
    for kind in TYPES[1:]:
        values = np.array([5, 15, 25, 127, 44]).astype(kind.numpy)
        result = rd.algorithm(lambda a: rd.round(a, decimals)).interpret(values)
        expected = np.round(values, decimals)
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    "name", ["floor_divide", "remainder", "fmod", "power", "square", "reciprocal", "bitwise_count"]
)
def test_bools_are_small_integers_where_numpy_makes_them_so(name: str) -> None:
    p, q = np.array([True, False]), np.array([True, True])
    reference = getattr(np, name)
    arguments = (p, q) if reference.nin == 2 else (q,)
    program = (lambda p, q: getattr(rd, name)(p, q)) if reference.nin == 2 else (lambda q: getattr(rd, name)(q))
    hold(row(program, reference(*arguments), *arguments))


def test_functions_of_mixed_small_integers_stay_small() -> None:
    a, b = np.array([3, -4], np.int8), np.array([4, 3], np.uint8)
    program = lambda a, b: (rd.hypot(a, b), rd.arctan2(a, b), rd.logaddexp(a, b), rd.rint(a))
    hold(row(program, lambda a, b: (np.hypot(a, b), np.arctan2(a, b), np.logaddexp(a, b), np.rint(a)), a, b))
