"""Every primitive at every dtype by native operations alone: a back end that has those has every primitive.

`NativeOnly` is such a back end. It refuses operations outside of the table, and operands for which hardware promises nothing.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from operands import operand_columns, operations, same_bits, special_values

from raido.algo.graph.dtypes import DTYPES, bool_, dtype_named, dtype_of, f64, i64, u32
from raido.algo.graph.fma import fma
from raido.algo.graph.primitives import FUNCTIONS, PRIMITIVES, evaluate
from raido.algo.recipes import RECIPES, Value, build_recipe
from raido.algo.recipes.native import NATIVE, is_native


def _divided(x, y):
    assert (y != 0).all() and (x.dtype.kind == "u" or (y != -1).all())
    below = x // y
    return below + ((below * y != x) & ((x < 0) != (y < 0))).astype(x.dtype)


def _shifted(shift):
    def checked(x, count):
        assert ((count >= 0) & (count < 8 * x.itemsize)).all()
        return shift(x, count)

    return checked


_NUMPYS = """
    add=add sub=subtract mul=multiply div=divide neg=negative abs=abs lt=less le=less_equal gt=greater ge=greater_equal eq=equal ne=not_equal
    minimum=minimum maximum=maximum select=where bit_and=bitwise_and bit_or=bitwise_or bit_xor=bitwise_xor logical_and=logical_and
    logical_or=logical_or logical_xor=logical_xor logical_not=logical_not sqrt=sqrt floor=floor ceil=ceil trunc=trunc rint=rint
    popcount=bitwise_count
"""
MEANING = {
    "fma": fma,
    "clz": lambda x: 32 - np.frexp(x.astype(np.float64))[1],
    "quotient": _divided,
    "shift_left": _shifted(np.left_shift),
    "shift_right": _shifted(np.right_shift),
    **{name: getattr(np, numpys) for name, numpys in (pair.split("=") for pair in _NUMPYS.split())},
}


def _converted(x, dtype):
    if x.dtype.kind == "f" and dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        assert all(info.min <= int(number) <= info.max for number in np.unique(x))  # NaN is no int
    return x.astype(dtype.numpy)


class NativeOnly:
    """A builder over arrays that has native operations and nothing else."""

    def constant(self, dtype, value):
        return np.full(1, value, dtype.numpy)

    def operation(self, name, dtype, *args):
        operands = [dtype_of(a.dtype) for a in args]
        if not is_native(name, dtype, operands):
            return build_recipe(name, dtype, *(Value(self, d, a) for d, a in zip(operands, args, strict=True))).raw
        if name == "convert":
            return _converted(args[0], dtype)
        if name == "bitcast":
            return args[0].view(dtype.numpy)
        return MEANING[name](*args).astype(dtype.numpy)

    def rare(self, condition, usual, unusual):
        return np.where(condition, unusual(), usual)


def check(name, dtype, columns):
    with np.errstate(all="ignore"):
        got = NativeOnly().operation(name, dtype, *columns)
    want = evaluate(name, dtype, columns)
    assert got.dtype == want.dtype
    bad = np.flatnonzero(~same_bits(got, want))
    shown = [([c[k] for c in columns], got[k], want[k]) for k in bad[:5]]
    assert not len(bad), f"{name} of {dtype_of(columns[-1].dtype)} to {dtype}: {len(bad)} wrong, {shown}"


@pytest.mark.parametrize("name", [dtype.name for dtype in DTYPES])
def test_native_operations_are_enough(name):
    dtype = dtype_named(name)
    for row, target in operations(dtype):
        check(row.name, target, operand_columns(dtype, row.arity))
    x, y = operand_columns(dtype, 2)
    check("select", dtype, [np.arange(len(x)) % 3 == 0, x, y])
    for function in FUNCTIONS if dtype.is_float else ():
        arity = PRIMITIVES[function].arity
        check(function, dtype, [column[:: 1 if arity == 1 else 11] for column in operand_columns(dtype, arity)])


def test_native_operations_are_enough_for_indices():
    index, size = (a.ravel() for a in np.meshgrid(np.arange(-20, 20), [1, 2, 3, 7]))
    for name in ("clamp_index", "wrap_index", "mirror_index", "symmetric_index", "mod"):
        check(name, i64, [index, size])


@pytest.mark.parametrize(("name", "periods"), [("wrap_index", 1), ("mirror_index", 2), ("symmetric_index", 2)])
def test_indices_at_most_a_period_away_are_brought_back_without_a_division(name, periods):
    class Divides(NativeOnly):
        def rare(self, condition, usual, unusual):
            assert not condition.any()
            return usual

    index, size = (a.ravel() for a in np.meshgrid(np.arange(-5, 10), [5, 6, 7]))
    index = np.where(index < periods * (size - 1), index, 0)
    assert (Divides().operation(name, i64, index, size) == evaluate(name, i64, [index, size])).all()
    far = np.full_like(size, 1000)
    with pytest.raises(AssertionError):
        Divides().operation(name, i64, far, size)


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_rests_of_quotients_of_any_size_are_exact(name):
    dtype, random = dtype_named(name), np.random.default_rng(0)
    x, y = np.frombuffer(random.bytes(6000 * dtype.itemsize), dtype.numpy).reshape(2, 3000)
    powers = np.ldexp(dtype.numpy.type(1), random.integers(-100, 100, 3000))
    with np.errstate(all="ignore"):
        multiples = y * random.integers(1, 1 << 20, 3000).astype(dtype.numpy)
        below = np.nextafter(multiples, dtype.numpy.type(0))
    for dividend, divisor in ((x, y), (x, powers), (multiples, y), (below, y)):
        check("fmod", dtype, [dividend, divisor])


def test_a_machine_without_fused_multiply_add_has_the_recipe():
    """Of f64 of all magnitudes, with products that the addend nearly cancels, and with results below the normal range."""
    random = np.random.default_rng(0)
    x, y, z = np.frombuffer(random.bytes(3 * 20000 * 8)).reshape(3, -1)
    small = np.ldexp(random.random((2, 5000)) + 0.5, random.integers(-560, -500, (2, 5000)))
    least = np.ldexp(random.random(5000) - 0.5, random.integers(-1080, -1010, 5000))
    special = np.array(np.meshgrid(*[special_values(f64)] * 3)).reshape(3, -1)
    with np.errstate(all="ignore"):
        cancelled = np.array([x, y, -(x * y) * (1 + random.integers(-3, 4, len(x)) * 2.0**-52)])
        for columns in ((x, y, z), (*small, least), special, cancelled):
            got = build_recipe("fma", f64, *(Value(NativeOnly(), f64, column) for column in columns)).raw
            assert same_bits(got, fma(*columns)).all()


def test_every_row_of_the_table_is_needed_and_has_a_name_that_languages_accept():
    assert set(NATIVE) == {*MEANING, "convert", "bitcast"}
    assert all(re.fullmatch("[a-z][a-z0-9_]*", name) for name in (*NATIVE, *PRIMITIVES))
    assert not [name for name in PRIMITIVES if name not in RECIPES and name not in NATIVE]


def test_constants_are_folded():
    """Divisors and counts known while code is written leave nothing of what guards them."""
    seen = []

    class Recording(NativeOnly):
        def operation(self, name, dtype, *args):
            if is_native(name, dtype, [dtype_of(a.dtype) for a in args]):
                seen.append(name)
            return super().operation(name, dtype, *args)

    x = Value(Recording(), u32, special_values(u32))
    build_recipe("shl", u32, x, x.lift(3))
    build_recipe("floordiv", u32, x, x.lift(7))
    assert seen == ["shift_left", "quotient", "mul", "sub"]
    assert (
        (x.lift(2) + x.lift(3)).known == 5
        and is_native("convert", f64, [u32])
        and not is_native("lt", bool_, [bool_] * 2)
    )
