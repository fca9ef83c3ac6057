"""Programs for the comparison with GLSL: small enough for the caches, since a device that is a CPU repeats its times only there.

Each has a handwritten plan of kernels beside it, in `peers/glsl`. Every operation is rounded on both sides, and sums are of
integers: the results of both are NumPy's, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

import raido as rd
from raido.schedule.kernels.host_plan import Allocate, Free, Launch, Number, Statement
from rows.divergent import LIMIT, mandelbrot
from rows.images import W9, gauss_direct
from rows.indexed import KEPT, histogram, scan_f32
from rows.indexed import filtered as keep_half
from rows.reductions import sgemm, total
from rows.row import uniform, whole_numbers
from rows.stencils import CROSS, jacobi2d_5, weighted


@dataclass(frozen=True)
class DeviceRow:
    """One line of the table: a program, its inputs, NumPy's answer, and a host plan of hand-written kernels.

    The plan finds the inputs under the names of the program's parameters, the result as "out", and the sizes by their names. `on_cuda`: another
    one, where blocks may wait for each other.
    """

    what: str
    algorithm: rd.Algorithm
    inputs: Callable[[], list[np.ndarray]]
    answer: Callable[..., np.ndarray]
    plan: tuple[Statement, ...]
    on_cuda: tuple[Statement, ...] = ()

    @property
    def cuda_plan(self) -> tuple[Statement, ...]:
        """The plan of kernels in CUDA C."""
        return self.on_cuda or self.plan


@rd.algorithm
def ordered(a: rd.u32["n"]):
    return rd.sort(a, name="out")


def rounded(algorithm: rd.Algorithm) -> rd.Algorithm:
    """The program with every operation rounded."""
    return rd.algorithm(algorithm.function, contract=False)


@rd.algorithm
def copy(a: rd.f32["n"]):
    return rd.map(lambda v: v, a).named("out")


def filtered(a: np.ndarray) -> np.ndarray:
    """Gauss' filter of 9 × 9, with its products added in order."""
    p, (h, w) = np.pad(a, 4, mode="edge"), a.shape
    taps = [(dy, dx) for dy in range(9) for dx in range(9)]
    return reduce(add, [p[dy : dy + h, dx : dx + w] * np.float32(W9[dy] * W9[dx]) for dy, dx in taps])


def escaped(ci: np.ndarray, cr: np.ndarray) -> np.ndarray:
    """The number of iterations of z² + c within radius 2, at every point."""
    zr, zi, steps = (np.zeros((len(ci), len(cr)), dtype) for dtype in ("f4", "f4", "i4"))
    with np.errstate(all="ignore"):
        for _ in range(LIMIT):
            inside = zr * zr + zi * zi <= 4
            steps += inside
            moved = zr * zr - zi * zi + cr, np.float32(2) * zr * zi + ci[:, None]
            zr, zi = (np.where(inside, new, old) for new, old in zip(moved, (zr, zi), strict=True))
    return steps


def blocks(size: Number, each: int) -> Number:
    """How many blocks cover a size."""
    return ("//", ("+", size, each - 1), each)


def plane(kernel: str, each: tuple[int, int], *arguments: Number) -> Launch:
    """A launch over an image of h rows of w, in blocks of so many columns and rows."""
    return Launch(kernel, (blocks("w", each[0]), blocks("h", each[1]), 1), arguments)


SHARE, ROW = 8192, 256 * 16
PARTIALS, SCANNED = blocks("n", SHARE), blocks("n", ROW)
TOLD: Number = ("+", SCANNED, 1)

DEVICE_ROWS = {
    "copy": DeviceRow(
        "copy of 2¹⁷ f32",
        copy,
        lambda: [uniform(1 << 17)],
        np.copy,
        (Launch("copy", (blocks("n", 1024), 1, 1), ("a", "out", "n")),),
    ),
    "stencil": DeviceRow(
        "Jacobi, 5 points, 256 × 512",
        rounded(jacobi2d_5),
        lambda: [uniform(256, 512)],
        weighted(1, CROSS, 0.2),
        (plane("stencil", (32, 8), "a", "out", "h", "w"),),
    ),
    "gauss": DeviceRow(
        "Gauss 9 × 9, 256²",
        rounded(gauss_direct),
        lambda: [uniform(256, 256)],
        filtered,
        (plane("gauss", (16, 16), "a", "out", "h", "w"),),
    ),
    "reduce": DeviceRow(
        "sum of 2¹⁸ f32",
        total,
        lambda: whole_numbers((1 << 18,))(1),
        lambda a: a.sum(dtype=np.float64).astype(np.float32),
        (
            Allocate("partials", ("*", PARTIALS, 4)),
            Launch("reduce", (PARTIALS, 1, 1), ("a", "partials", "n", SHARE)),
            Launch("reduce", (1, 1, 1), ("partials", "out", PARTIALS, PARTIALS)),
            Free("partials"),
        ),
    ),
    "scan": DeviceRow(
        "inclusive scan of 2¹⁷ f32",
        scan_f32,
        lambda: whole_numbers((1 << 17,))(1),
        np.cumsum,
        (
            Allocate("totals", ("*", SCANNED, 4)),
            Allocate("before", ("*", SCANNED, 4)),
            Launch("reduce", (SCANNED, 1, 1), ("a", "totals", "n", ROW)),
            Launch("scan", (1, 1, 1), ("totals", "totals", "before", SCANNED)),
            Launch("scan", (SCANNED, 1, 1), ("a", "before", "out", "n")),
            Free("totals"),
            Free("before"),
        ),
        (
            Allocate("state", ("*", TOLD, 8)),
            Launch("clear", (blocks(("*", TOLD, 2), 256), 1, 1), ("state", ("*", TOLD, 2))),
            Launch("scan", (SCANNED, 1, 1), ("a", "state", "out", "n")),
            Free("state"),
        ),
    ),
    "histogram": DeviceRow(
        "histogram of 2¹⁸ i32 in 256 bins",
        histogram(256),
        lambda: [uniform(1 << 18, high=256, dtype="i4")],
        lambda a: np.bincount(a, minlength=256).astype(np.int32),
        (
            Launch("clear", (1, 1, 1), ("out", 256)),
            Launch("histogram", (blocks("n", ROW), 1, 1), ("a", "out", "n")),
        ),
    ),
    "sgemm": DeviceRow(
        "sgemm 256³",
        rounded(sgemm),
        lambda: whole_numbers((256, 256), (256, 256))(1),
        np.matmul,
        (Launch("sgemm", (blocks("m", 64), blocks("n", 64), 1), ("a", "b", "out", "n", "k", "m")),),
    ),
    "mandelbrot": DeviceRow(
        "Mandelbrot 256², 256 rounds",
        rounded(mandelbrot),
        lambda: [np.linspace(-1.5, 1.5, 256, dtype=np.float32), np.linspace(-2, 1, 256, dtype=np.float32)],
        escaped,
        (plane("mandelbrot", (16, 16), "ci", "cr", "out", "h", "w"),),
    ),
}

DIGITS: Number = 4 * 256
WORDS: Number = ("*", TOLD, 256)


def passes(*arrays: str) -> tuple[Statement, ...]:
    """The launches that move keys from array to array, by eight bits each time."""
    each = zip(arrays, arrays[1:], range(0, 32, 8), strict=False)
    return tuple(
        launch
        for source, target, low in each
        for launch in (
            Launch("clear", (blocks(WORDS, 256), 1, 1), ("state", WORDS)),
            Launch("sort", (SCANNED, 1, 1), (source, "bins", "state", target, "n", low)),
        )
    )


CUDA_ROWS = {
    **DEVICE_ROWS,
    "filter": DeviceRow(
        "filter of 2¹⁷ i32, half kept",
        keep_half,
        lambda: [uniform(1 << 17, high=1000, dtype="i4")],
        lambda a: a[a < KEPT],
        (),
        (
            Allocate("state", ("*", TOLD, 8)),
            Launch("clear", (blocks(("*", TOLD, 2), 256), 1, 1), ("state", ("*", TOLD, 2))),
            Launch("filter", (SCANNED, 1, 1), ("a", "state", "out", "n")),
            Free("state"),
        ),
    ),
    "sort": DeviceRow(
        "sort of 2¹⁷ u32",
        ordered,
        lambda: [uniform(1 << 17, high=(1 << 31) - 1, dtype="u4") * np.uint32(2)],
        np.sort,
        (),
        (
            *(Allocate(name, ("*", "n", 4)) for name in ("one", "two")),
            Allocate("bins", ("*", DIGITS, 4)),
            Allocate("state", ("*", WORDS, 4)),
            Launch("clear", (4, 1, 1), ("bins", DIGITS)),
            Launch("digits", (blocks("n", 256 * 64), 1, 1), ("a", "bins", "n")),
            Launch("starts", (4, 1, 1), ("bins",)),
            *passes("a", "one", "two", "one", "out"),
            *(Free(name) for name in ("one", "two", "bins", "state")),
        ),
    ),
}
"""Rows that have kernels in CUDA C; a kernel whose blocks wait for each other has none in GLSL."""
