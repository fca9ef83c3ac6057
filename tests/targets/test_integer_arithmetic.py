"""Arithmetic of integers as a user writes it, on extreme values of every type: interpreted and compiled, against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from emission import CPUS, WIDEST
from processors import lacking

import raido as rd

WIDTHS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
NUMPY = {"bool_": "?", **{name: f"{name[0]}{int(name[1:]) // 8}" for name in WIDTHS}}
CPU = dict(zip(WIDTHS, itertools.cycle(CPUS)))

BOTH = {
    "a + b": lambda a, b: a + b,
    "a - b": lambda a, b: a - b,
    "a * b": lambda a, b: a * b,
    "a / b": lambda a, b: a / b,
    "bits": lambda a, b: (a & b) ^ (a | ~b),
    "(a + 7) * 3 - b": lambda a, b: (a + 7) * 3 - b,
    "(a * 6) // 6": lambda a, b: (a * 6) // 6,
    "(a * 6) % 4": lambda a, b: (a * 6) % 4,
    "a + 1 > a": lambda a, b: a + 1 > a,
    "a - b < 0": lambda a, b: a - b < 0,
    "a // 3": lambda a, b: a // 3,
    "a % 7": lambda a, b: a % 7,
    "100 // b": lambda a, b: 100 // (b | 1),
    "a // b": lambda a, b: a // (b | 1),
    "a % b": lambda a, b: a % (b | 1),
    "a << 3": lambda a, b: a << 3,
    "a >> 3": lambda a, b: a >> 3,
    "a << b": lambda a, b: a << b,
    "a >> b": lambda a, b: a >> b,
    "a >> beyond": lambda a, b: a >> 100,
    "a << beyond": lambda a, b: a << 100,
    "a ** 0": lambda a, b: a**0,
    "a ** 1": lambda a, b: a**1,
    "a ** 2": lambda a, b: a**2,
    "a ** 3": lambda a, b: a**3,
    "a ** 61": lambda a, b: a**61,
    "a ** b": lambda a, b: a ** (b & 127),
    "2 ** b": lambda a, b: 2 ** (b & 127),
    "(-1) ** b": lambda a, b: (0 * a - 1) ** (b & 127),
    "-a": lambda a, b: -a,
    "abs(a)": lambda a, b: abs(a),
    "abs(a - b)": lambda a, b: abs(a - b),
    "-(a // b)": lambda a, b: -(a // (b | 1)),
}
SIGNED = {
    "a // -3": lambda a, b: a // -3,
    "a % -7": lambda a, b: a % -7,
    "a // -1": lambda a, b: a // -1,
    "a % -1": lambda a, b: a % -1,
    "-7 // b": lambda a, b: -7 // (b | 1),
    "-7 % b": lambda a, b: -7 % (b | 1),
    "a << -1": lambda a, b: a << -1,
    "a >> -1": lambda a, b: a >> -1,
}
NAMED = {
    "minimum": lambda n, a, b: n.minimum(a, b + 1),
    "maximum": lambda n, a, b: n.maximum(a, a - 1),
    "clip": lambda n, a, b: n.clip(a, 3, 100),
    "sign": lambda n, a, b: n.sign(a - b),
    "where": lambda n, a, b: n.where(a > b, a - b, b - a),
    "remainder": lambda n, a, b: n.remainder(a, b | 1),
    "fmod": lambda n, a, b: n.fmod(a, b | 1),
    "floor_divide": lambda n, a, b: n.floor_divide(a, b | 1),
}


def extremes(name):
    """Values of a type, all pairs of them."""
    dtype = np.dtype(NUMPY[name])
    if name == "bool_":
        values = np.array([False, True])
    else:
        info, bits = np.iinfo(dtype), 8 * dtype.itemsize
        numbers = {0, 1, 2, 3, 7, 100, bits - 1, bits, bits + 1, info.max, info.max - 1, info.max // 3}
        numbers |= {-n for n in numbers} | {info.min, info.min + 1}
        values = np.array(sorted(n for n in numbers if info.min <= n <= info.max), dtype)
    a, b = np.meshgrid(values, values, indexing="ij")
    return a.ravel(), b.ravel()


def compare(runs, arguments, names, wanted):
    for run in runs:
        for name, got, want in zip(names, run(*arguments), wanted, strict=True):
            assert got.dtype == want.dtype, f"{name}: {got.dtype}, NumPy has {want.dtype}"
            np.testing.assert_array_equal(got, want, f"{name}, {run}")


@pytest.mark.parametrize("name", WIDTHS)
def test_arithmetic_is_numpys(name):
    table = BOTH | (SIGNED if name[0] == "i" else {})
    forms = {**{key: lambda n, a, b, f=f: f(a, b) for key, f in table.items()}, **NAMED}

    @rd.algorithm(a=f"{name}[n]", b=f"{name}[n]")
    def program(a, b):
        return rd.map(lambda x, y: tuple(f(rd, x, y) for f in forms.values()), a, b)

    a, b = extremes(name)
    with np.errstate(all="ignore"):
        wanted = [f(np, a, b) for f in forms.values()]
    target = f"llvm:{WIDEST if lacking(CPU[name]) else CPU[name]}"
    compare((program.interpret, program.compile(target)), (a, b), forms, wanted)


MIXED = {
    "+": lambda n, a, b: a + b,
    "*": lambda n, a, b: a * b,
    "&": lambda n, a, b: a & b,
    "==": lambda n, a, b: a == b,
    "<": lambda n, a, b: a < b,
    "maximum": lambda n, a, b: n.maximum(a, b),
    "where": lambda n, a, b: n.where(a != 0, a, b),
}


@pytest.mark.parametrize("name", NUMPY)
def test_mixed_types_are_promoted_as_numpys(name):
    """Types are settled while tracing; u64 with signed integers is refused."""
    others = list(NUMPY)
    forms = {
        f"{name} {op} {other}": (f, k)
        for op, f in MIXED.items()
        for k, other in enumerate(others)
        if not ("u64" in (name, other) and "i" in (name[0], other[0]))
    }

    @rd.algorithm(a=f"{name}[n]", **{f"b{k}": f"{other}[n]" for k, other in enumerate(others)})
    def program(a, b0, b1, b2, b3, b4, b5, b6, b7, b8):
        rest = (b0, b1, b2, b3, b4, b5, b6, b7, b8)
        return tuple(f(rd, a, rest[k]) for f, k in forms.values())

    a = extremes(name)[0]
    b = [np.resize(extremes(other)[1][::-1], len(a)) for other in others]
    with np.errstate(all="ignore"):
        wanted = [f(np, a, b[k]) for f, k in forms.values()]
    compare((program.interpret,), (a, *b), forms, wanted)


LARGE = 6364136223846793005
COUNTED = {
    "a hash": lambda n, i: (i * LARGE + 1442695040888963407) % 1000,
    "its high bits": lambda n, i: (i * LARGE) >> 60,
    "quotient of a multiple": lambda n, i: (i * (1 << 62) * 4) // 4,
    "remainder of a multiple": lambda n, i: (i * (3 << 61)) % 3,
    "halves": lambda n, i: (i + ((1 << 63) - 1)) // 2,
    "its sign": lambda n, i: i + ((1 << 63) - 1) > 0,
    "negative": lambda n, i: -(i * (1 << 62) * 2) < 0,
    "the lower of neighbours": lambda n, i: n.minimum(i + ((1 << 63) - 4), i + ((1 << 63) - 3)),
    "an index all the same": lambda n, i: (i * 100 + 7) // 10 % 8,
}


def test_counters_wrap_too():
    @rd.algorithm(a="i64[n]")
    def program(a):
        return tuple(rd.tabulate(a.shape, lambda i, f=f: f(rd, i)) for f in COUNTED.values())

    i = np.arange(9)
    with np.errstate(all="ignore"):
        wanted = [f(np, i) for f in COUNTED.values()]
    compare((program.interpret, program.compile()), (i,), COUNTED, wanted)


WRAPPING = {
    "a quotient of a multiple": lambda v: (v * 4) // 4,
    "a remainder of a multiple": lambda v: (v * 6) % 4,
    "the lower of neighbours": lambda v: rd.minimum(v, v + 1),
    "the higher of neighbours": lambda v: rd.maximum(v - 1, v),
}


@pytest.mark.parametrize("mode", ["clamp", "wrap", "mirror", "symmetric"])
def test_indices_from_data_wrap_before_they_are_brought_into_range(mode):
    """Whether they are computed where they are used or before."""

    @rd.algorithm
    def program(c: rd.i64["k"], b: rd.f64["n"]):
        places = [rd.map(f, c).named(f"places{k}") for k, f in enumerate(WRAPPING.values())]
        return tuple(rd.gather(b, place, mode=mode) for place in places)

    c, b = np.array([0, 1, 3, 2**62 + 1, -(2**62) - 3, 2**63 - 1, -(2**63)]), np.arange(5.0)
    wanted = program.interpret(c, b)
    for where in ("inline", "root"):
        schedule = program.schedule()
        for k in range(len(WRAPPING)):
            getattr(schedule[f"places{k}"], where)()
        compare((program.compile(schedule=schedule),), (c, b), WRAPPING, wanted)
