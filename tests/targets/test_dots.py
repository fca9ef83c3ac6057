"""Sums of products of narrow integers, and of absolute differences, by the instructions that take several at a time: the same bits as
without, on every processor, and with the instruction in the loop."""

import re

import numpy as np
import pytest
from emission import assembly_of
from test_emit_assembly import loops

import raido as rd

rng = np.random.default_rng(5)


@rd.algorithm
def products(x: rd.u8["m", "k"], w: rd.i8["k", "n"]):
    return x.astype(rd.i32) @ w.astype(rd.i32)


@rd.algorithm
def row_products(x: rd.i16["m", "k"], w: rd.i16["k"]):
    return rd.sum(x.astype(rd.i32) * w.astype(rd.i32), axis=1, dtype=rd.i32)


@rd.algorithm
def byte_products(x: rd.i8["m", "k"], w: rd.u8["k"]):
    return rd.sum(x.astype(rd.i32) * w.astype(rd.i32), axis=1)


@rd.algorithm
def differences(x: rd.u8["m", "k"], w: rd.u8["k"]):
    return rd.sum(abs(x.astype(rd.i32) - w.astype(rd.i32)), axis=1)


@rd.algorithm
def squares(x: rd.u8["m", "k"], w: rd.u8["k"]):
    d = x.astype(rd.i32) - w.astype(rd.i32)
    return rd.sum(d * d, axis=1)


@rd.algorithm
def counts(x: rd.u8["m", "k"], w: rd.u8["k"]):
    return rd.sum(x > w, axis=1)


@rd.algorithm
def sums(x: rd.i8["m", "k"], w: rd.u8["k"]):
    return rd.sum(x.astype(rd.i32), axis=1) + rd.sum(w.astype(rd.i32))


def bits_apart(bits, dtype, each):
    @rd.algorithm(x=f"u{bits}[m, {each}]", y=f"i{bits}[n, {each}]")
    def differing_bits(x, y):
        term = lambda i, j: lambda k: rd.popcount(x[i, k] ^ y[j, k].astype(x.dtype) & 0x7B).astype(dtype)
        return rd.tabulate((x.shape[0], y.shape[0]), lambda i, j: rd.sum(rd.tabulate((each,), term(i, j)), dtype=dtype))

    return differing_bits


@pytest.mark.parametrize("hidden", [(), ("avx512f", "avx_vnni")])
@pytest.mark.parametrize("bits, dtype, each", [(8, rd.i32, 34), (16, rd.u32, 20), (8, rd.i64, 19), (16, rd.i64, 9)])
def test_bits_are_counted_in_words(bits, dtype, each, hidden):
    exe = bits_apart(bits, dtype, each).compile(rd.Target("llvm", hidden=hidden), sizes={"m": 30, "n": 70})
    lines = exe.source("gang").splitlines()
    assert any("popcount(" in line and "packed" in line for line in lines) == (bits == 8 or dtype is rd.u32)
    x, y = (rng.integers(0, 1 << bits, (n, each)).astype(f"u{bits // 8}") for n in (30, 70))
    wanted = np.bitwise_count(x[:, None] ^ (y & 0x7B)[None]).sum(2)
    np.testing.assert_array_equal(exe(x, y.view(f"i{bits // 8}")), wanted)


WIDE = np.int64
PROGRAMS = {
    products: lambda x, w: x.astype(WIDE) @ w,
    row_products: lambda x, w: (x.astype(WIDE) * w).sum(1),
    byte_products: lambda x, w: (x.astype(WIDE) * w).sum(1),
    differences: lambda x, w: abs(x.astype(WIDE) - w).sum(1),
    squares: lambda x, w: ((x.astype(WIDE) - w) ** 2).sum(1),
    counts: lambda x, w: (x > w).sum(1),
    sums: lambda x, w: x.astype(WIDE).sum(1) + w.astype(WIDE).sum(),
}


def operands(algorithm, extreme):
    """Two arrays of odd sizes; the least values alone (and the greatest of unsigned ones), whose products wrap, or any."""
    shapes = [(37, 71), (71, 39)] if algorithm is products else [(5, 331), (331,)]
    for dtype, shape in zip([p.dtype.numpy for p in algorithm.trace().parameters], shapes, strict=True):
        info = np.iinfo(dtype)
        end = info.min if info.min else info.max
        yield np.full(shape, end, dtype) if extreme else rng.integers(info.min, info.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("algorithm", PROGRAMS, ids=lambda f: f.name)
@pytest.mark.parametrize("hidden", [(), ("avx512_vnni",), ("avx512f", "avx_vnni"), ("avx2", "avx512f")])
def test_sums_are_numpys(algorithm, hidden):
    sizes = {"m": 37, "k": 71, "n": 39} if algorithm is products else {}  # of unknown ones there are many loops
    exe = algorithm.compile(rd.Target("llvm", hidden=hidden), sizes=sizes)
    for extreme in (False, True):
        x, w = operands(algorithm, extreme)
        got = np.asarray(exe(x, w))
        np.testing.assert_array_equal(got, PROGRAMS[algorithm](x, w).astype(got.dtype))


@pytest.mark.parametrize("cpu", ["x86-64-v2", "haswell", "cascadelake", "alderlake"])
@pytest.mark.parametrize("algorithm", [products, row_products, differences, squares, counts], ids=lambda f: f.name)
def test_the_instruction_is_used(algorithm, cpu):
    sizes = {"m": 24, "k": 256} | ({"n": 64} if algorithm is products else {})
    assembly = assembly_of(algorithm, cpu, **sizes)
    dots = "vpdpbusd" if cpu in ("cascadelake", "alderlake") else "pmaddwd"
    names = {products: (dots,), differences: ("psadbw",), counts: ("psadbw",)}.get(algorithm, ("pmaddwd", "vpdpwssd"))
    assert any(name in assembly for name in names)
    assert algorithm is products or not any(name in assembly for name in ("pinsrb", "vpermt2", "vpermi2"))
    assert not any(name in assembly for name in ("pmulld", "pabs", "gather"))


@rd.algorithm
def wide_products(x: rd.i16["m", "k"], w: rd.i16["k", "n"]):
    return x.astype(rd.i32) @ w.astype(rd.i32)


@pytest.mark.parametrize("algorithm, dots", [(products, "vpdpbusd"), (wide_products, "vpdpwssd")])
def test_rows_are_joined_by_one_permutation(algorithm, dots):
    bodies = loops(assembly_of(algorithm, "sapphirerapids", m=48, k=256, n=64))
    tile = max(bodies, key=lambda body: sum(i.startswith(dots) for i in body))
    assert sum(i.startswith(dots) for i in tile) == 24 and not any(i.startswith("vpmaddwd") for i in tile)
    assert sum(i.startswith(("vperm", "vpunpck", "vpshuf")) for i in tile) == 2


@rd.algorithm
def block_differences(x: rd.u8["n", 16, 16], y: rd.u8[16, 16]):
    return rd.sum(abs(x.astype(rd.i32) - y.astype(rd.i32)), axis=(1, 2))


@rd.algorithm
def block_costs(x: rd.u8["16*h", "16*w"], y: rd.u8["16*h + 16", "16*w + 16"]):
    """The costs of 17 x 17 displacements of each block of 16 x 16 bytes."""

    def cost(i, j, dy, dx):
        apart = lambda u, v: abs(rd.i32(x[16 * i + u, 16 * j + v]) - rd.i32(y[16 * i + dy + u, 16 * j + dx + v]))
        return rd.sum(rd.tabulate((16, 16), apart), dtype=rd.i32)

    return rd.tabulate((x.shape[0] // 16, x.shape[1] // 16, 17, 17), cost)


@pytest.mark.parametrize("cpu", ["haswell", "x86-64-v4"])
def test_rows_of_a_block_are_added_before_lanes_are_combined(cpu):
    """17 displacements filled two registers in part, each of bytes widened to 16 bits: 3.5 times as long."""
    block = max(loops(assembly_of(block_costs, cpu)), key=lambda body: sum("psadbw" in i for i in body))
    assert sum("psadbw" in i for i in block) == 16 and sum("shuf" in i for i in block) == 1
    for extreme in (False, True):
        x, y = (rng.integers(255 * extreme, 256, shape).astype(np.uint8) for shape in ((32, 32), (48, 48)))
        y *= not extreme
        np.testing.assert_array_equal(block_costs(x, y), block_costs.interpret(x, y))


@pytest.mark.parametrize("size", [16, 17])
def test_sums_over_windows_stay_narrow_as_long_as_they_cannot_overflow(size):
    def least(x: rd.u8["h", "w"], y: rd.u8["h", "w"]):
        h, w = x.shape
        window = lambda a, i, j: a[i : i + size, j : j + size].astype(rd.i32)
        cost = lambda i, j: lambda d: rd.sum(abs(window(x, i, j + 9) - window(y, i, j + 9 - d)), dtype=rd.i32)
        pixel = lambda i, j: rd.argmin(rd.tabulate(9, cost(i, j)))
        return rd.tabulate((h - size + 1, w - size - 8), pixel, name="out")

    algorithm = rd.algorithm(least)
    assert "unroll" not in str(algorithm.schedule().complete("llvm"))  # of nine candidates, each with loops of its own
    lines = algorithm.compile(rd.Target("llvm", cpu="x86-64-v3")).source("gang").splitlines()
    few = next(k for k, line in enumerate(lines) if re.search(r"few\w*: u16x16", line))
    indent = lambda line: len(line) - len(line.lstrip())
    rows = next(k for k, line in enumerate(lines) if "for ry in" in line)
    assert (indent(lines[few]) == indent(lines[rows])) == (size <= 16)
    x, y = np.full((size + 2, size + 40), 255, np.uint8), np.zeros((size + 2, size + 40), np.uint8)
    y[1:, 5] = 9
    np.testing.assert_array_equal(algorithm(x, y), algorithm.interpret(x, y))


@rd.algorithm
def bit_differences(x: rd.u64["m", 32], y: rd.u64[32]):
    return rd.sum(rd.popcount(x ^ y), axis=1)


@rd.algorithm
def weighted_bits(x: rd.u8["m", 64]):
    return rd.sum((x > 100).astype(rd.u8) << rd.arange(64).astype(rd.u8), axis=1)


def test_short_rows_take_short_registers_and_wide_values_stay_apart():
    """Words whose bits are counted, and values of an index, are no narrow neighbours in memory."""
    assert "%xmm" in next(line for line in assembly_of(block_differences, "haswell").splitlines() if "psadbw" in line)
    for algorithm in (bit_differences, weighted_bits):
        assert "byte_differences" not in algorithm.compile().source("gang")


@rd.algorithm
def convolution(x: rd.u8["h", "w", 8], k: rd.i8[3, 3, 8, 32]):
    term = lambda y, z, o: lambda a, b, c: x[y + a, z + b, c].astype(rd.i32) * k[a, b, c, o].astype(rd.i32)
    shape = (x.shape[0] - 2, x.shape[1] - 2, 32)
    return rd.tabulate(shape, lambda y, z, o: rd.sum(rd.tabulate((3, 3, 8), term(y, z, o)), dtype=rd.i32))


def test_rows_beside_a_tile_take_dots_too():
    """The rows that no tile holds are a loop inside the one over the products."""
    exe = convolution.compile(sizes={"h": 4, "w": 17})
    x, k = rng.integers(0, 256, (4, 17, 8)).astype("u1"), rng.integers(-128, 128, (3, 3, 8, 32)).astype("i1")
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(WIDE), (3, 3), (0, 1))
    np.testing.assert_array_equal(np.asarray(exe(x, k)), np.einsum("yzcab,abco->yzo", windows, k.astype(WIDE)))
    assert " * " not in exe.source("gang").replace("12*", "")
