"""The programs on which the autotuner's cost model is trained, and those held out from training.

`python -m raido.autotune.model.collect benchmarks/tuning_corpus.py` measures schedules of `PROGRAMS`. Sizes are small enough for many
measurements, and large enough that data which streams from memory at full size does so here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from real import finance, graphs, grids, sequences, spaces
from rows import divergent, images, reductions, stencils

import raido as rd


@dataclass(frozen=True)
class CorpusProgram:
    """A program to tune: its algorithm, sizes, and a maker of arguments (drawn from the parameters' types where None)."""

    name: str
    algorithm: Any
    sizes: Mapping[str, int]
    make: Callable[[np.random.Generator, Mapping[str, int]], tuple[Any, ...]] | None = None

    def arguments(self) -> tuple[Any, ...]:
        """The same arguments every time."""
        random = np.random.default_rng(11)
        if self.make is not None:
            return self.make(random, self.sizes)
        return tuple(self._draw(random, p) for p in self.algorithm.trace().parameters)

    def _draw(self, random: np.random.Generator, parameter: Any) -> np.ndarray:
        shape = tuple(self.sizes[n.name] if hasattr(n, "name") else int(n.value) for n in parameter.shape)
        if parameter.dtype.is_float:
            return (random.random(shape, dtype=np.float32) + np.float32(0.1)).astype(parameter.dtype.numpy)
        return random.integers(0, 50, shape).astype(parameter.dtype.numpy)


@rd.algorithm
def running_sum(a: rd.f32["n"]):
    return rd.scan(rd.add, 0, a, name="out")


@rd.algorithm
def histogram(a: rd.i32["n"]):
    return rd.bincount(a, 256)


@rd.algorithm
def kept(a: rd.i32["n"]):
    return rd.filter(lambda x: x < 25, a, name="out")


W9 = [float(w) for w in np.exp(-((np.arange(9) - 4) ** 2) / 8.0).astype(np.float32)]


@rd.algorithm
def gauss_separable(a: rd.f32["h", "w"]):
    g1 = rd.stencil(lambda p: reduce(add, [p[k, 0] * W9[k + 4] for k in range(-4, 5)]), a, boundary="clamp", name="g1")
    return rd.stencil(
        lambda p: reduce(add, [p[0, k] * W9[k + 4] for k in range(-4, 5)]), g1, boundary="clamp", name="g2"
    )


@rd.algorithm
def softmax(a: rd.f32["h", "w"]):
    top = rd.max(a, axis=1, keepdims=True, initial=-1e30)
    e = rd.exp(a - top).named("e")
    return (e / rd.sum(e, axis=1, keepdims=True)).named("out")


@rd.algorithm
def convolution(a: rd.f32["c", "h", "w"], k: rd.f32["o", "c", 3, 3]):
    """Channels last in the sum: what networks call a 3 × 3 convolution, at the places where the window fits."""
    height, width = a.shape[1] - 2, a.shape[2] - 2

    def point(o, y, x):
        taps = rd.tabulate((a.shape[0], 3, 3), lambda c, dy, dx: a[c, y + dy, x + dx] * k[o, c, dy, dx])
        return rd.sum(taps)

    return rd.tabulate((k.shape[0], height, width), point).named("out")


@rd.algorithm
def product_with_transposed(a: rd.f32["n", "k"], b: rd.f32["m", "k"]):
    return rd.matmul(a, b.T).named("out")


@rd.algorithm
def matrix_vector(a: rd.f32["n", "k"], x: rd.f32["k"]):
    return rd.matmul(a, x).named("out")


@rd.algorithm
def transposed(a: rd.f32["h", "w"]):
    return (a.T * 2).named("out")


@rd.algorithm
def variance(a: rd.f32["h", "w"]):
    mean = rd.mean(a, axis=1, keepdims=True)
    return rd.mean((a - mean) * (a - mean), axis=1)


def _sparse(random: np.random.Generator, sizes: Mapping[str, int]) -> tuple[Any, ...]:
    """Rows of random lengths."""
    offsets = np.sort(random.integers(0, sizes["k"] + 1, sizes["r"]))
    offsets[0], offsets[-1] = 0, sizes["k"]
    return random.random(sizes["k"]), random.integers(0, sizes["n"], sizes["k"]), offsets, random.random(sizes["n"])


def _iterations(count: int) -> Callable[[np.random.Generator, Mapping[str, int]], tuple[Any, ...]]:
    def make(random: np.random.Generator, sizes: Mapping[str, int]) -> tuple[Any, ...]:
        return *(1 + random.random((sizes["h"], sizes["w"])) for _ in range(2)), np.int64(count)

    return make


def _plane(random: np.random.Generator, sizes: Mapping[str, int]) -> tuple[Any, ...]:
    side = np.linspace(-1.5, 1.5, sizes["h"], dtype="f4"), np.linspace(-2, 1, sizes["w"], dtype="f4")
    return side


PROGRAMS: tuple[CorpusProgram, ...] = (
    CorpusProgram("blur_u16", images.blur_u16, {"h": 2402, "w": 3202}),
    CorpusProgram("blur_f32", images.blur_f32, {"h": 2402, "w": 3202}),
    CorpusProgram("jacobi2d_5", stencils.jacobi2d_5, {"h": 4000, "w": 4000}),
    CorpusProgram("jacobi2d_9", stencils.jacobi2d_9, {"h": 4000, "w": 4000}),
    CorpusProgram("jacobi3d_7", stencils.jacobi3d_7, {"d": 256, "h": 256, "w": 256}),
    CorpusProgram("jacobi3d_13", stencils.jacobi3d_13, {"d": 256, "h": 256, "w": 256}),
    CorpusProgram("sobel", images.sobel, {"h": 3000, "w": 3000}),
    CorpusProgram("unsharp", images.unsharp, {"h": 1024, "w": 1024}),
    CorpusProgram("harris", images.harris, {"h": 1536, "w": 1536}),
    CorpusProgram("gauss_separable", gauss_separable, {"h": 2000, "w": 2000}),
    CorpusProgram("total", reductions.total, {"n": 20_000_000}),
    CorpusProgram("dot", reductions.dot, {"n": 10_000_000}),
    CorpusProgram("row_sums", reductions.row_sums, {"h": 4000, "w": 4000}),
    CorpusProgram("short_row_sums", reductions.row_sums, {"h": 300_000, "w": 50}),
    CorpusProgram("column_sums", reductions.column_sums, {"h": 4000, "w": 4000}),
    CorpusProgram("sgemm", reductions.sgemm, {"n": 512, "k": 512, "m": 512}),
    CorpusProgram("product_with_transposed", product_with_transposed, {"n": 400, "k": 400, "m": 400}),
    CorpusProgram("matrix_vector", matrix_vector, {"n": 3000, "k": 3000}),
    CorpusProgram("convolution", convolution, {"c": 16, "h": 130, "w": 130, "o": 16}),
    CorpusProgram("softmax", softmax, {"h": 2000, "w": 1000}),
    CorpusProgram("variance", variance, {"h": 2000, "w": 3000}),
    CorpusProgram("transposed", transposed, {"h": 3000, "w": 3000}),
    CorpusProgram("running_sum", running_sum, {"n": 10_000_000}),
    CorpusProgram("histogram", histogram, {"n": 10_000_000}),
    CorpusProgram("kept", kept, {"n": 10_000_000}),
    CorpusProgram("escape_times", divergent.mandelbrot, {"h": 600, "w": 600}, _plane),
    CorpusProgram("pull_of_bodies", divergent.nbody, {"n": 2500}),
    CorpusProgram("option_prices", divergent.black_scholes, {"n": 2_000_000}),
    CorpusProgram("hotspot", grids.hotspot, {"h": 1500, "w": 1500}, _iterations(2)),
    CorpusProgram("spmv", graphs.spmv, {"k": 3_000_000, "r": 75_001, "n": 100_000}, _sparse),
    CorpusProgram("mri_q", spaces.mri_q, {"n": 1000, "m": 500}),
    CorpusProgram("maximum_segment_sum", sequences.maximum_segment_sum, {"n": 2_000_000}),
)


def _srad(random: np.random.Generator, sizes: Mapping[str, int]) -> tuple[Any, ...]:
    return 1 + random.random((sizes["h"], sizes["w"])), np.int64(2)


def _life(random: np.random.Generator, sizes: Mapping[str, int]) -> tuple[Any, ...]:
    return random.integers(0, 2, (sizes["h"], sizes["w"])).astype(np.int8), np.int64(4)


def _canny(random: np.random.Generator, sizes: Mapping[str, int]) -> tuple[Any, ...]:
    return random.integers(0, 50, (sizes["h"], sizes["w"])).astype(np.int32), np.int32(60), np.int32(110)


HELD_OUT: tuple[CorpusProgram, ...] = (
    CorpusProgram("srad", grids.srad, {"h": 1500, "w": 1500}, _srad),
    CorpusProgram("game_of_life", grids.game_of_life, {"h": 3000, "w": 3000}, _life),
    CorpusProgram("canny", grids.canny, {"h": 1000, "w": 1000}, _canny),
    CorpusProgram("black_scholes", finance.black_scholes, {"n": 1_000_000}),
    CorpusProgram("back_projection", spaces.back_projection, {"a": 100, "n": 300}),
)
