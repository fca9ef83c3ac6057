"""Kernels have two codes, one with 32-bit indices for small launches: both give the same results, and the bounds hold."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import hand_made_kernels as kernels
import numpy as np
import pytest
from kernel_vocabulary import at, blocks, integer, kernel, memory, native, put, when
from tvm import tirx
from vulkan_devices import ANYTHING, validated_device

from raido.algo.graph.dtypes import i64
from raido.algo.graph.primitives import evaluate
from raido.targets import tvm_corner as T
from raido.targets.devices.bounds import Bounds
from raido.targets.devices.runtime import LoadedKernel, Memory
from raido.targets.vulkan.library import validation_messages
from raido.targets.vulkan.runtime import VulkanDevice
from raido.targets.vulkan.spirv.generate import generate_kernel
from raido.targets.vulkan.spirv.listing import list_instructions

MOST = 1 << 29
THREADS = 64
Pair = tuple[Any, Callable[[np.ndarray], np.ndarray]]


@pytest.fixture(scope="module")
def opened() -> Iterator[VulkanDevice]:
    with VulkanDevice(validated_device(), validate=True) as opened:
        yield opened
    assert validation_messages() == (0, "")


def operators(a: Pair, b: Pair, divisor: int) -> list[Pair]:
    """What two expressions and a known number can become, with what NumPy computes."""
    (x, f), (y, g) = a, b
    known = integer(divisor, "int64")
    return [
        (x + y, lambda v: f(v) + g(v)),
        (x - y, lambda v: f(v) - g(v)),
        (x * y, lambda v: f(v) * g(v)),
        (T.Min(x, y), lambda v: np.minimum(f(v), g(v))),
        (T.Max(x, y), lambda v: np.maximum(f(v), g(v))),
        (T.Select(x < y, x, y * 2), lambda v: np.where(f(v) < g(v), f(v), g(v) * 2)),
        (tirx.if_then_else(T.EQ(x, y), x + 1, y), lambda v: np.where(f(v) == g(v), f(v) + 1, g(v))),
        (native("floordiv", i64, x, known), lambda v: f(v) // divisor),
        (native("floormod", i64, x, known), lambda v: f(v) % divisor),
        (T.Div(T.Max(x, integer(0, "int64")), known), lambda v: np.maximum(f(v), 0) // divisor),
        (native("shift_right", i64, x, integer(divisor % 40, "int64")), lambda v: f(v) >> divisor % 40),
        (native("bit_and", i64, x, known), lambda v: f(v) & divisor),
        *(
            (native(f"{how}_index", i64, x, known), lambda v, how=how: evaluate(f"{how}_index", i64, [f(v), divisor]))
            for how in ("clamp", "wrap", "mirror", "symmetric")
        ),
        (native("minimum", i64, x, known), lambda v: np.minimum(f(v), divisor)),
        (native("select", i64, native("ne", kernels.bool_, x, y), y, x), lambda v: np.where(f(v) != g(v), g(v), f(v))),
        (native("convert", i64, native("convert", kernels.i32, x)), lambda v: f(v).astype("i4").astype("i8")),
    ]


def drawn(draw: random.Random, leaves: list[Pair], depth: int) -> Pair:
    """A random expression."""
    if depth == 0:
        return draw.choice(leaves)
    parts = [drawn(draw, leaves, draw.randrange(depth)) for _ in range(2)]
    return draw.choice(operators(parts[0], parts[1], draw.choice((1, 2, 7, 64, 1000))))


@pytest.mark.parametrize("seed", range(3))
def test_random_arithmetic_is_that_of_64_bits(opened: VulkanDevice, seed: int) -> None:
    """Thirty expressions of a thread's place and two numbers, small and large: whichever code runs."""
    draw, count = random.Random(seed), 30
    numbers: dict[str, int] = {}
    expected: list[Callable[[np.ndarray], np.ndarray]] = []

    def make(x: Any, out: Any, n: Any, m: Any) -> list[Any]:
        leaves: list[Pair] = [
            (x.i, lambda v: v),
            (n, lambda v: np.full_like(v, numbers["n"])),
            (m, lambda v: np.full_like(v, numbers["m"])),
            *((integer(c, "int64"), lambda v, c=c: np.full_like(v, c)) for c in (3, -5, 1 << 20)),
        ]
        stores = []
        for k in range(count):
            expression, answer = drawn(draw, leaves, 4)
            named = T.Var(f"v{k}", "int64")
            stores += [T.Bind(named, expression), put(out, x.i * count + k, named)]
            expected.append(answer)
        return stores

    made = generate_kernel(kernel("arithmetic", (i64, "int64", "int64"), make), opened.device)
    assert made.narrow
    loaded, out = LoadedKernel(opened, made), Memory(opened, 8 * THREADS * count)
    for numbers in (
        {"n": 77, "m": 5},
        {"n": MOST, "m": -MOST},
        {"n": MOST + 1, "m": 3},
        {"n": 1 << 45, "m": -(1 << 33)},
    ):
        loaded.launch((1, 1, 1), [out, numbers["n"], numbers["m"]])
        results = out.read(np.empty((THREADS, count), np.int64))
        for k, answer in enumerate(expected):
            np.testing.assert_array_equal(results[:, k], answer(np.arange(THREADS)), err_msg=f"{k} {numbers}")


def test_bounds_hold_what_they_bound() -> None:
    draw = random.Random(5)
    n, m = T.Var("n", "int64"), T.Var("m", "int64")
    ranges = {n: (0, 1000), m: (-40, MOST)}
    columns = [np.random.default_rng(1).integers(*ranges[v], 50, endpoint=True) for v in (n, m)]
    leaves: list[Pair] = [(v, lambda _, k=k: columns[k]) for k, v in enumerate((n, m))]
    narrowed = 0
    for _ in range(200):
        bounds = Bounds()
        bounds.known.update(ranges)
        expression, answer = drawn(draw, leaves, 3)
        low, high = bounds.of(expression)
        values = answer(columns[0])
        assert low <= values.min() and values.max() <= high, expression
        narrowed += bounds.fit(expression)
    assert 50 < narrowed < 200


def test_indices_of_narrow_code_have_32_bits() -> None:
    """A stencil's, whose sizes are i64: nothing is multiplied or compared in 64 bits."""
    made = generate_kernel(kernels.stencil().function, ANYTHING)
    wide = next(line.split()[0] for line in list_instructions(made.narrow).splitlines() if "OpTypeInt 64" in line)
    found = {
        code: {line.split()[2] for line in list_instructions(code).splitlines() if f" {wide[1:]} " in line}
        for code in (made.code, made.narrow)
    }
    assert "OpIMul" in found[made.code]
    assert not {"OpIMul", "OpIAdd", "OpISub", "OpSelect"} & found[made.narrow]


def test_loops_and_named_numbers_are_narrow_where_they_fit(opened: VulkanDevice) -> None:
    """A loop from n to n + m in steps of 3; its sum is too large for 32 bits where n is."""

    def make(x: Any, out: Any, n: Any, m: Any) -> list[Any]:
        j, total = T.Var("j", "int64"), memory("total", i64, 1, "local")
        zero = integer(0, "int64")
        add = put(total, zero, at(total, zero) + j * x.i)
        loop = T.For(j, n, m, T.ForKind.SERIAL, add, step=integer(3, "int64"))
        return [T.AllocBuffer(total), put(total, zero, zero), when(x.i < 100, loop, put(out, x.i, at(total, zero)))]

    loaded = LoadedKernel(opened, generate_kernel(kernel("steps", (i64, "int64", "int64"), make), opened.device))
    out = Memory(opened, 8 * 100)
    for n, m in ((0, 20), (-7, 100), (MOST, 9), (1 << 40, 9), (5, 0), (5, -3)):
        loaded.launch(blocks(100), [out, n, m])
        total = sum(range(n, n + m, 3))
        np.testing.assert_array_equal(out.read(np.empty(100, np.int64)), total * np.arange(100))


def test_blocks_of_a_launch_are_bounded_by_how_far_apart_they_lie() -> None:
    """2²⁹ indices: of tiles that are named, and of a grid that is folded into rows of 65,535 blocks."""

    def make(x: Any, a: Any) -> list[Any]:
        tile = T.Var("tile", "int64")
        across, down, deep = (T.Cast("int64", b) for b in x.b)
        folded = down * (65_535 * 512)
        return [T.Bind(tile, across * 8 + deep), put(a, tile * 64 + folded, at(a, x.i))]

    made = generate_kernel(kernel("tiles", (i64,), make), ANYTHING)
    assert made.narrow_grid == (1 << 20, 16, 1 << 23)


def test_bounds_see_what_cancels() -> None:
    bounds = Bounds()
    n, first, t = (T.Var(name, "int64") for name in ("n", "first", "t"))
    bounds.known.update({n: (0, MOST), first: (0, MOST), t: (0, 255)})
    number = lambda value: integer(value, "int64")
    live = T.Div(T.Min(n, first + 4096) + first * number(-1) + 15, number(16))
    assert bounds.of(T.Min(n, first + 4096) - first + 15)[1] == 4111
    assert bounds.of(T.Div(T.Max(T.Min(live, number(256)) - t + 255, number(0)), number(256))) == (0, 1)
    inner = T.Min(T.Min(first + 15, n - 1), number(1 << 20) + t) + 1 - first
    assert bounds.of(inner)[1] == 16
    assert bounds.of(first - T.Max(n, first - 3))[1] == 3


def test_a_loop_of_one_iteration_is_a_branch() -> None:
    """The loop of a thread over every 256th element of at most 256."""

    def make(x: Any, out: Any, n: Any) -> list[Any]:
        k, first = T.Var("k", "int64"), x.i - T.Cast("int64", x.t[0])
        count = T.Div(T.Max(T.Min(n, first + 64) - x.i + 63, integer(0, "int64")), integer(64, "int64"))
        return [T.For(k, integer(0, "int64"), count, T.ForKind.SERIAL, put(out, x.i + k * 64, n))]

    made = generate_kernel(kernel("strided", (i64, "int64"), make), ANYTHING)
    assert "OpLoopMerge" in list_instructions(made.code) and "OpLoopMerge" not in list_instructions(made.narrow)
