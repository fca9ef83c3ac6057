"""Kernels in plain TIR, with arguments and NumPy's results: every kind of statement, access and dtype in kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from kernel_vocabulary import (
    Axes,
    Case,
    at,
    atomic,
    barrier,
    blocks,
    generator,
    integer,
    kernel,
    memory,
    native,
    number,
    put,
    ramp,
    when,
)
from tvm import tirx

from raido.algo.graph.dtypes import DType, bool_, dtype_of, f16, f32, f64, i8, i16, i32, i64, u8, u32, u64
from raido.targets import tvm_corner as T

# --- elementwise


def map_f32() -> Case:
    """b[i] = a[i] * s + 1, where i < n."""
    n = 1000
    a = generator().standard_normal(n).astype("f4")
    function = kernel(
        "map_f32",
        (f32, f32, "float32", "int64"),
        lambda x, a, b, s, n: [when(x.i < n, put(b, x.i, at(a, x.i) * s + number(f32, 1.0)))],
    )
    return Case(function, [a, np.zeros(n, "f4"), np.float32(1.7), np.int64(n)], blocks(n), {1: a * np.float32(1.7) + 1})


def arithmetic(dtype: DType) -> Case:
    """Sum, difference, product, extremes and a comparison of two arrays of a dtype."""
    n, rng = 300, generator()
    kind = dtype.numpy
    if dtype.is_float:
        a, b = (rng.standard_normal(n).astype(kind) for _ in range(2))
    else:
        info = np.iinfo(kind)
        a, b = (rng.integers(info.min, info.max, n, kind, endpoint=True) for _ in range(2))

    def make(x: Axes, a: Any, b: Any, c: Any, d: Any, n: Any) -> list[Any]:
        p, q = at(a, x.i), at(b, x.i)
        return [when(x.i < n, put(c, x.i, p * q + (p - q)), put(d, x.i, T.Select(p < q, T.Max(p, q), T.Min(p, p))))]

    with np.errstate(all="ignore"):
        c = a * b + (a - b)
        d = np.where(a < b, np.maximum(a, b), a)
    function = kernel(f"arithmetic_{dtype.name}", (dtype, dtype, dtype, dtype, "int32"), make)
    arguments = [a, b, np.zeros(n, kind), np.zeros(n, kind), np.int32(n)]
    return Case(function, arguments, blocks(n), {2: c, 3: d})


def booleans() -> Case:
    """Logic on bytes of memory; a booleans scalar."""
    n, rng = 200, generator()
    a, b = (rng.integers(0, 2, n).astype(bool) for _ in range(2))

    def make(x: Axes, a: Any, b: Any, c: Any, flip: Any, n: Any) -> list[Any]:
        p, q = at(a, x.i), at(b, x.i)
        return [when(x.i < n, put(c, x.i, T.NE(tirx.Or(tirx.And(p, T.Not(q)), tirx.And(T.Not(p), q)), flip)))]

    function = kernel("booleans", (bool_, bool_, bool_, "bool", "int32"), make)
    return Case(function, [a, b, np.zeros(n, bool), np.bool_(True), np.int32(n)], blocks(n), {2: ~(a ^ b)})


def divisions(dtype: DType) -> Case:
    """Quotients rounded towards zero and their remainders, for every sign."""
    n, rng = 400, generator()
    info = np.iinfo(dtype.numpy)
    a, b = (rng.integers(info.min, info.max, n, dtype.numpy, endpoint=True) for _ in range(2))
    b = np.where(rng.random(n) < 0.5, b % 7 + 1, b).astype(dtype.numpy)
    b[b == 0] = 3

    def make(x: Axes, a: Any, b: Any, c: Any, d: Any, n: Any) -> list[Any]:
        p, q = at(a, x.i), at(b, x.i)
        return [when(x.i < n, put(c, x.i, T.Div(p, q)), put(d, x.i, tirx.Mod(p, q)))]

    rest = np.fmod(a, b)
    quotient = np.array(
        [abs(int(p)) // abs(int(q)) * (1 if (p < 0) == (q < 0) else -1) for p, q in zip(a, b, strict=True)]
    )
    function = kernel(f"divisions_{dtype.name}", (dtype, dtype, dtype, dtype, "int32"), make)
    arguments = [a, b, np.zeros_like(a), np.zeros_like(a), np.int32(n)]
    return Case(function, arguments, blocks(n), {2: quotient.astype(dtype.numpy), 3: rest})


def narrow_floats() -> Case:
    """f16 in memory, f32 in arithmetic: rounded once, when stored."""
    n = 500
    a = generator().standard_normal(n).astype("f2")

    def make(x: Axes, a: Any, b: Any, n: Any) -> list[Any]:
        wide = T.Cast("float32", at(a, x.i))
        return [when(x.i < n, put(b, x.i, T.Cast("float16", wide * wide + number(f32, 0.1))))]

    expected = (a.astype("f4") ** 2 + np.float32(0.1)).astype("f2")
    return Case(
        kernel("narrow_floats", (f16, f16, "int32"), make),
        [a, np.zeros(n, "f2"), np.int32(n)],
        blocks(n),
        {1: expected},
    )


def conversions() -> Case:
    """Between integers of all widths, floats and booleans."""
    n = 256
    a = np.arange(n).astype("u1").view("i1")

    def make(x: Axes, a: Any, b: Any, c: Any, d: Any, e: Any, n: Any) -> list[Any]:
        v = at(a, x.i)
        there = T.Cast("int8", T.Cast("uint64", v))
        return [
            when(
                x.i < n,
                put(b, x.i, T.Cast("int64", T.Cast("uint8", v))),
                put(c, x.i, T.Cast("float64", v) / number(f64, 3.0)),
                put(d, x.i, T.Cast("int16", T.Cast("float32", there) * number(f32, 1.5))),
                put(e, x.i, T.Cast("bool", v)),
            )
        ]

    expected = {
        1: a.view("u1").astype("i8"),
        2: a.astype("f8") / 3.0,
        3: np.trunc(a.astype("f4") * np.float32(1.5)).astype("i2"),
        4: a != 0,
    }
    function = kernel("conversions", (i8, i64, f64, i16, bool_, "int32"), make)
    return Case(
        function,
        [a, np.zeros(n, "i8"), np.zeros(n), np.zeros(n, "i2"), np.zeros(n, bool), np.int32(n)],
        blocks(n),
        expected,
    )


FLOAT_OPERATIONS: dict[str, Callable[..., Any]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "abs": np.abs,
    "neg": np.negative,
    "sqrt": np.sqrt,
}


def float_operations(dtype: DType) -> Case:
    """Every native operation on one float, in as many arrays."""
    rng = generator()
    special = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-3, np.inf, -np.inf, 1.0e7, 4194303.5]
    a = np.concatenate([special, rng.standard_normal(300) * 10.0 ** rng.integers(-3, 6, 300)]).astype(dtype.numpy)
    n, names = len(a), list(FLOAT_OPERATIONS)

    def make(x: Axes, a: Any, *rest: Any) -> list[Any]:
        outs, n = rest[:-1], rest[-1]
        operand = {"sqrt": native("abs", dtype, at(a, x.i))}
        stores = [put(o, x.i, native(f, dtype, operand.get(f, at(a, x.i)))) for f, o in zip(names, outs, strict=True)]
        return [when(x.i < n, *stores)]

    function = kernel(f"float_operations_{dtype.name}", (dtype, *[dtype] * len(names), "int32"), make)
    operand = {"sqrt": np.abs(a)}
    expected = {k + 1: FLOAT_OPERATIONS[f](operand.get(f, a)) for k, f in enumerate(names)}
    return Case(function, [a, *(np.zeros_like(a) for _ in names), np.int32(n)], blocks(n), expected)


def bit_counts() -> Case:
    """Bits that are set, and zeros above the highest of them."""
    rng = generator()
    a = np.concatenate([[0, 1, 0xFFFFFFFF, 1 << 31], rng.integers(0, 1 << 32, 100) >> rng.integers(0, 32, 100)]).astype(
        "u4"
    )
    n = len(a)

    def make(x: Axes, a: Any, b: Any, c: Any, n: Any) -> list[Any]:
        names = ("popcount", "clz")
        return [when(x.i < n, *(put(o, x.i, native(f, u32, at(a, x.i))) for f, o in zip(names, (b, c), strict=True)))]

    texts = [f"{int(v):032b}" for v in a]
    expected = {
        1: np.array([t.count("1") for t in texts], "u4"),
        2: np.array([len(t) - len(t.lstrip("0")) for t in texts], "u4"),
    }
    function = kernel("bit_counts", (u32, u32, u32, "int32"), make)
    return Case(function, [a, np.zeros(n, "u4"), np.zeros(n, "u4"), np.int32(n)], blocks(n), expected)


def shifts() -> Case:
    n, rng = 200, generator()
    a = rng.integers(-(2**62), 2**62, n)
    b = rng.integers(0, 64, n)

    def make(x: Axes, a: Any, b: Any, c: Any, d: Any, n: Any) -> list[Any]:
        p, q = at(a, x.i), at(b, x.i)
        mixed = (
            native("shift_left", i64, p, q)
            ^ (p >> q)
            ^ (p << q)
            ^ native("shift_right", i64, p, q)
            ^ (p << q)
            ^ (p >> q)
        )
        real = native("bitcast", f64, p & integer((1 << 52) - 1, "int64"))
        return [when(x.i < n, put(c, x.i, mixed), put(d, x.i, real))]

    expected = {2: (a << b) ^ (a >> b), 3: (a & ((1 << 52) - 1)).view("f8")}
    function = kernel("shifts", (i64, i64, i64, f64, "int32"), make)
    return Case(function, [a, b, np.zeros_like(a), np.zeros(n), np.int32(n)], blocks(n), expected)


# --- control flow


def laziness() -> Case:
    """Reads that only a true condition allows: the index of one thread in two lies far outside of the array."""
    n = 100
    a = generator().standard_normal(n).astype("f4")
    index = np.where(np.arange(n) % 2, 1 << 40, np.arange(n)[::-1])

    def make(x: Axes, a: Any, index: Any, b: Any, c: Any, n: Any) -> list[Any]:
        k = at(index, x.i)
        chosen = tirx.if_then_else(k < T.Cast("int64", n), at(a, k), number(f32, -1.0))
        both = tirx.And(k < T.Cast("int64", n), number(f32, 0.0) < at(a, k))
        return [when(x.i < T.Cast("int64", n), put(b, x.i, chosen), put(c, x.i, both))]

    inside = index < n
    picked = np.where(inside, a[np.minimum(index, n - 1)], np.float32(-1))
    function = kernel("laziness", (f32, i64, f32, bool_, "int32"), make)
    arguments = [a, index, np.zeros(n, "f4"), np.zeros(n, bool), np.int32(n)]
    return Case(function, arguments, blocks(n), {2: picked, 3: inside & (picked > 0)})


def collatz() -> Case:
    """A while loop that ends after another number of iterations in every thread."""
    n = 300

    def make(x: Axes, out: Any, n: Any) -> list[Any]:
        value, steps, zero = memory("value", i64, 1, "local"), memory("steps", i32, 1, "local"), integer(0, "int64")
        v, s = at(value, zero), at(steps, zero)
        odd = tirx.EQ(tirx.Mod(v, integer(2, "int64")), integer(1, "int64"))
        following = T.Select(odd, v * 3 + 1, T.Div(v, integer(2, "int64")))
        loop = T.While(integer(1, "int64") < v, T.sequence([put(value, zero, following), put(steps, zero, s + 1)]))
        return [
            *(T.AllocBuffer(value), T.AllocBuffer(steps), put(value, zero, x.i + 1), put(steps, zero, integer(0))),
            *(loop, when(x.i < n, put(out, x.i, s))),
        ]

    def steps(v: int) -> int:
        count = 0
        while v > 1:
            v, count = (3 * v + 1 if v % 2 else v // 2), count + 1
        return count

    expected = np.array([steps(k + 1) for k in range(n)], "i4")
    return Case(kernel("collatz", (i32, "int64"), make), [np.zeros(n, "i4"), np.int64(n)], blocks(n), {0: expected})


def loops() -> Case:
    """Nested loops with bounds that depend on the outer one, one of them to be unrolled, around a private array."""
    n = 40

    def make(x: Axes, out: Any, n: Any) -> list[Any]:
        kept, j, k = memory("kept", f64, 8, "local"), T.Var("j", "int64"), T.Var("k", "int64")
        zero, eight = integer(0, "int64"), integer(8, "int64")
        fill = T.For(j, zero, eight, T.ForKind.UNROLLED, put(kept, j, T.Cast("float64", j * x.i)))
        l, m = T.Var("l", "int64"), T.Var("m", "int64")
        inner = T.For(m, l, eight - l, T.ForKind.SERIAL, put(kept, l, at(kept, l) + at(kept, m) / number(f64, 3.0)))
        outer = T.For(l, zero, eight, T.ForKind.SERIAL, inner)
        write = T.For(k, zero, eight, T.ForKind.SERIAL, put(out, x.i * 8 + k, at(kept, k)))
        return [T.AllocBuffer(kept), when(x.i < n, fill, outer, write)]

    expected = np.zeros((n, 8))
    for i in range(n):
        kept = [float(j * i) for j in range(8)]
        for l in range(8):
            for m in range(l, 8):
                kept[l] = kept[l] + kept[m] / 3.0
        expected[i] = kept
    function = kernel("loops", (f64, "int64"), make)
    return Case(function, [np.zeros((n, 8)), np.int64(n)], blocks(n), {0: expected})


# --- blocks


def stencil() -> Case:
    """Five points with clamped borders, on blocks of 16 × 4."""
    h, w = 37, 53
    a = generator().standard_normal((h, w)).astype("f4")

    def make(x: Axes, a: Any, out: Any, h: Any, w: Any) -> list[Any]:
        r, c, one = x.along(1), x.along(0), integer(1, "int64")
        clamp = lambda v, n: T.Max(T.Min(v, n - 1), integer(0, "int64"))
        load = lambda r, c: at(a, clamp(r, h) * w + clamp(c, w))
        total = load(r - one, c) + load(r + one, c) + load(r, c - one) + load(r, c + one) + load(r, c)
        return [when(tirx.And(r < h, c < w), put(out, r * w + c, total / number(f32, 5.0)))]

    p = np.pad(a, 1, mode="edge")
    expected = (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] + a) / np.float32(5)
    function = kernel("stencil", (f32, f32, "int64", "int64"), make, (16, 4, 1))
    return Case(function, [a, np.zeros_like(a), np.int64(h), np.int64(w)], (-(-w // 16), -(-h // 4), 1), {1: expected})


def transpose() -> Case:
    """Through a tile in shared memory: each thread writes what another has read."""
    n = 64
    a = generator().standard_normal((n, n)).astype("f4")

    def make(x: Axes, a: Any, out: Any) -> list[Any]:
        tile = memory("tile", f32, 16 * 17, "shared")
        tx, ty, bx, by = x.t[0], x.t[1], x.b[0], x.b[1]
        return [
            T.AllocBuffer(tile),
            put(tile, ty * 17 + tx, at(a, (by * 16 + ty) * n + bx * 16 + tx)),
            barrier(),
            put(out, (bx * 16 + ty) * n + by * 16 + tx, at(tile, tx * 17 + ty)),
        ]

    function = kernel("transpose", (f32, f32), make, (16, 16, 1))
    return Case(function, [a, np.zeros_like(a)], (n // 16, n // 16, 1), {1: a.T.copy()})


def tree_reduction() -> Case:
    """The sum of each 128 numbers, halves over halves, a barrier between."""
    rows, n = 7, 128
    a = generator().standard_normal((rows, n)).astype("f4")

    def make(x: Axes, a: Any, out: Any) -> list[Any]:
        kept, half, t = memory("kept", f32, n, "shared"), memory("half", i32, 1, "local"), x.t[0]
        zero = integer(0, "int64")
        h = at(half, zero)
        halve = [
            when(t < h, put(kept, t, at(kept, t) + at(kept, t + h))),
            barrier(),
            put(half, zero, T.Div(h, integer(2))),
        ]
        return [
            *(T.AllocBuffer(kept), T.AllocBuffer(half)),
            put(kept, t, at(a, x.b[0] * n + t)),
            put(half, zero, integer(n // 2)),
            barrier(),
            T.While(integer(0) < h, T.sequence(halve)),
            when(tirx.EQ(t, integer(0)), put(out, x.b[0], at(kept, integer(0)))),
        ]

    total = a
    while total.shape[1] > 1:
        middle = total.shape[1] // 2
        total = total[:, :middle] + total[:, middle:]
    function = kernel("tree_reduction", (f32, f32), make, (n, 1, 1))
    return Case(function, [a, np.zeros(rows, "f4")], (rows, 1, 1), {1: total[:, 0].copy()})


def exchange_in_place() -> Case:
    """Threads of a block turn its part of a buffer round: what they read was written by others before the barrier."""
    n = 256

    def make(x: Axes, a: Any, out: Any) -> list[Any]:
        t = x.t[0]
        return [put(a, x.i, T.Cast("int32", x.i) * 3), barrier(), put(out, x.i, at(a, x.b[0] * 64 + (integer(63) - t)))]

    a = np.arange(n, dtype="i4") * 3
    function = kernel("exchange_in_place", (i32, i32), make)
    return Case(
        function, [np.zeros(n, "i4"), np.zeros(n, "i4")], blocks(n), {1: a.reshape(-1, 64)[:, ::-1].reshape(-1).copy()}
    )


# --- atomic updates


def histogram() -> Case:
    """Private bins of a block in shared memory, added to those of the device."""
    n = 2000
    a = generator().integers(0, 32, n).astype("u1")

    def make(x: Axes, a: Any, bins: Any, n: Any) -> list[Any]:
        private, t = memory("private", i32, 32, "shared"), x.t[0]
        first = when(t < 32, put(private, t, integer(0)))
        count = T.Evaluate(atomic("add", i32, at(private, T.Cast("int32", at(a, x.i))), integer(1)))
        give = T.Evaluate(atomic("add", i32, at(bins, t), at(private, t)))
        return [T.AllocBuffer(private), first, barrier(), when(x.i < n, count), barrier(), when(t < 32, give)]

    function = kernel("histogram", (u8, i32, "int64"), make)
    expected = np.bincount(a, minlength=32).astype("i4")
    return Case(function, [a, np.zeros(32, "i4"), np.int64(n)], blocks(n), {1: expected})


def atomics(dtype: DType) -> Case:
    """Every update of integers, each of one element by all threads; the last one by compare-and-swap in a loop."""
    n = 192
    a = generator().integers(0, 2**31 - 1, n).astype(dtype.numpy)
    names = ("add", "min", "max", "and", "or", "xor")

    def make(x: Axes, a: Any, out: Any, flag: Any) -> list[Any]:
        v, name = at(a, x.i), T.type_name(dtype)
        updates = [T.Evaluate(atomic(f, dtype, at(out, integer(k)), v)) for k, f in enumerate(names)]
        done, zero = memory("done", i32, 1, "local"), integer(0)
        swap = integer(len(names))
        old = T.Var("old", name)
        seen = atomic("compare_exchange", dtype, at(out, swap), old, old + T.IntImm(name, 2))
        attempt = T.sequence(
            [T.Bind(old, atomic("load", dtype, at(out, swap))), when(tirx.EQ(seen, old), put(done, zero, integer(1)))]
        )
        return [
            *updates,
            *(T.AllocBuffer(done), put(done, zero, integer(0))),
            T.While(tirx.EQ(at(done, zero), integer(0)), attempt),
            T.Evaluate(atomic("store", dtype, at(flag, zero), T.IntImm(name, 5))),
            when(
                tirx.EQ(x.i, integer(0, "int64")),
                T.Evaluate(atomic("exchange", dtype, at(flag, integer(1)), T.IntImm(name, 9))),
            ),
        ]

    start = np.zeros(7, dtype.numpy)
    start[1], start[3] = 2**31 - 1, 2**31 - 1
    bits = np.bitwise_and.reduce(a, initial=start[3])
    total = [a.sum(dtype=dtype.numpy), a.min(), a.max(), bits, np.bitwise_or.reduce(a), np.bitwise_xor.reduce(a), 2 * n]
    function = kernel(f"atomics_{dtype.name}", (dtype, dtype, dtype), make)
    arguments = [a, start, np.zeros(2, dtype.numpy)]
    return Case(function, arguments, blocks(n), {1: np.array(total, dtype.numpy), 2: np.array([5, 9], dtype.numpy)})


def atomic_floats() -> Case:
    """Numbers whose sum is exact in any order."""
    n = 256
    a = generator().integers(-100, 100, n).astype("f4")

    def make(x: Axes, a: Any, out: Any) -> list[Any]:
        return [T.Evaluate(atomic("add", f32, at(out, integer(0)), at(a, x.i)))]

    function = kernel("atomic_floats", (f32, f32), make)
    return Case(function, [a, np.zeros(1, "f4")], blocks(n), {1: np.array([a.sum()], "f4")})


# --- vectors


def vectors(dtype: DType) -> Case:
    """16 bytes at once, moved, and computed lane by lane."""
    lanes = 16 // dtype.itemsize
    n = lanes * 128
    rng = generator()
    kind = dtype.numpy
    a = rng.integers(0, 2, n).astype(kind) if dtype is bool_ else rng.integers(0, 100, n).astype(kind)

    def make(x: Axes, a: Any, b: Any) -> list[Any]:
        v = at(a, ramp(x.i * lanes, lanes))
        return [put(b, ramp(x.i * lanes, lanes), T.Not(v) if dtype is bool_ else v + v)]

    function = kernel(f"vectors_{dtype.name}", (dtype, dtype), make)
    return Case(function, [a, np.zeros_like(a)], blocks(128), {1: ~a if dtype is bool_ else a + a})


def shuffled() -> Case:
    """Lanes in another order, a broadcast, a select and a strided load."""
    n = 64

    def make(x: Axes, a: Any, b: Any) -> list[Any]:
        v = at(a, ramp(x.i * 4, 4))
        turned = tirx.Shuffle([v], [integer(k) for k in (3, 2, 1, 0)])
        strided = at(a, T.Ramp(x.i, T.IntImm("int64", 2), 4))
        chosen = T.Select(turned < T.Broadcast(integer(40), 4), turned, strided)
        return [put(b, ramp(x.i * 4, 4), chosen)]

    a = np.arange(n * 4, dtype="i4") % 97
    turned = a.reshape(-1, 4)[:, ::-1]
    strided = np.stack([a[k : n + k] if k else a[:n] for k in (0, 2, 4, 6)], 1)
    expected = np.where(turned < 40, turned, strided).reshape(-1)
    return Case(kernel("shuffled", (i32, i32), make), [a, np.zeros_like(a)], blocks(n), {1: expected})


def many_arguments() -> Case:
    """More arguments than a launch holds: 20 arrays and 20 scalars of all widths."""
    n, kinds = 70, (i8, i16, i32, i64, f16, f32, f64, u8, u32, u64)
    arrays = [np.arange(n).astype(dtype.numpy) for dtype in kinds]
    scalars = [dtype.numpy.type(3) for dtype in kinds]

    def make(x: Axes, *given: Any) -> list[Any]:
        k = len(kinds)
        a, b, s, n = given[:k], given[k : 2 * k], given[2 * k : 3 * k], given[3 * k]
        wide = lambda dtype, v: T.Cast("float32", v) if dtype is f16 else v
        back = lambda dtype, v: T.Cast("float16", v) if dtype is f16 else v
        stores = [
            put(q, x.i, back(dtype, wide(dtype, at(p, x.i)) + wide(dtype, v)))
            for dtype, p, q, v in zip(kinds, a, b, s, strict=True)
        ]
        return [when(x.i < n, *stores)]

    function = kernel("many_arguments", (*kinds, *kinds, *(T.type_name(dtype) for dtype in kinds), "int32"), make)
    outputs = [np.zeros_like(a) for a in arrays]
    expected = {len(kinds) + k: (a + s).astype(a.dtype) for k, (a, s) in enumerate(zip(arrays, scalars, strict=True))}
    return Case(function, [*arrays, *outputs, *scalars, np.int32(n)], blocks(n), expected)


def cases() -> list[Case]:
    """All of them."""
    integers = (i8, i16, i32, i64, u8, u32, u64)
    return [
        *(map_f32(), booleans(), narrow_floats(), conversions(), shifts(), bit_counts()),
        *(arithmetic(dtype) for dtype in (*integers, f32, f64)),
        *(divisions(dtype) for dtype in (i8, i32, i64, u32)),
        *(float_operations(dtype) for dtype in (f32, f64)),
        *(laziness(), collatz(), loops(), stencil(), transpose(), tree_reduction(), exchange_in_place(), histogram()),
        *(atomics(i32), atomics(u64), atomic_floats()),
        *(vectors(dtype) for dtype in (bool_, u8, f16, i32, f32, f64, i64)),
        *(shuffled(), many_arguments()),
    ]


def element_type(array: np.ndarray) -> DType:
    dtype = dtype_of(array.dtype)
    assert dtype is not None
    return dtype
