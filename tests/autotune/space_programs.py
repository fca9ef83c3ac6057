"""Programs for tests of spaces, with the sizes they are tuned for: together they use every directive."""

from __future__ import annotations

import raido as rd
from raido.autotune.space import Space
from raido.schedule.machine import Machine

AVX512 = Machine(vector_bits=512, registers=32, cores=2, l1=32 << 10, l2=1 << 20, l3=32 << 20)
IMAGE = {"h": 4096, "w": 4096}


@rd.algorithm
def blur(img: rd.f32["h", "w"]):
    rows = rd.stencil(lambda p: (p[0, -1] + p[0, 0] + p[0, 1]) / 3, img, boundary="clamp", name="rows")
    return rd.stencil(lambda p: (p[-1, 0] + p[0, 0] + p[1, 0]) / 3, rows, boundary="clamp", name="cols")


@rd.algorithm
def gauss(img: rd.f32["h", "w"]):
    g1 = rd.stencil(
        lambda p: p[-2, 0] + 4 * p[-1, 0] + 6 * p[0, 0] + 4 * p[1, 0] + p[2, 0], img, boundary="clamp", name="g1"
    )
    return rd.stencil(
        lambda p: p[0, -2] + 4 * p[0, -1] + 6 * p[0, 0] + 4 * p[0, 1] + p[0, 2], g1, boundary="clamp", name="g2"
    )


@rd.algorithm
def jacobi(a: rd.f32["h", "w"]):
    return rd.stencil(lambda p: (p[0, -1] + p[0, 1] + p[-1, 0] + p[1, 0]) / 4, a, boundary="clamp", name="out")


@rd.algorithm
def sgemm(a: rd.f32["n", "k"], b: rd.f32["k", "m"]):
    return rd.matmul(a, b, name="c")


@rd.algorithm
def diamond(a: rd.f32["h", "w"]):
    base = rd.stencil(lambda p: p[0, 0] * p[1, 0] + p[0, 1], a, boundary="wrap", name="base")
    left = rd.stencil(lambda p: p[0, -1] - p[0, 1], base, boundary="wrap", name="left")
    right = rd.stencil(lambda p: p[-1, 0] - p[1, 0], base, boundary="wrap", name="right")
    return (left * right).named("out")


@rd.algorithm
def map_and_sum(a: rd.f32["n"]):
    y = rd.exp(a).named("y")
    return y, rd.sum(y, name="sum")


@rd.algorithm
def running(a: rd.f32["n"]):
    return rd.scan(rd.add, 0, a, name="scan")


@rd.algorithm
def histogram(a: rd.i32["n"]):
    return rd.bincount(a, 256, name="bins")


@rd.algorithm
def kept(a: rd.i32["n"]):
    return rd.filter(lambda x: x < 25, a, name="kept")


@rd.algorithm
def divided(a: rd.i32["n"]):
    return rd.partition(lambda x: x < 25, a, name="divided")


@rd.algorithm
def row_sums(a: rd.f32["n"], offsets: rd.i64["r"]):
    return rd.segmented_reduce(rd.add, 0, a, offsets=offsets, name="sums")


PROGRAMS = {
    "blur": (blur, IMAGE),
    "gauss": (gauss, IMAGE),
    "jacobi": (jacobi, IMAGE),
    "sgemm": (sgemm, {"n": 1024, "k": 1024, "m": 1024}),
    "diamond": (diamond, IMAGE),
    "map_and_sum": (map_and_sum, {"n": 10_000_000}),
    "running": (running, {"n": 10_000_000}),
    "histogram": (histogram, {"n": 10_000_000}),
    "kept": (kept, {"n": 10_000_000}),
    "divided": (divided, {"n": 10_000_000}),
    "row_sums": (row_sums, {"n": 10_000_000, "r": 100_001}),
}


def space_of(name: str) -> Space:
    """The automatic space of a program."""
    algorithm, sizes = PROGRAMS[name]
    return Space(algorithm.schedule(), AVX512, sizes)
