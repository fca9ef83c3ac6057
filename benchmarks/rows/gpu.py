"""Programs for the table on a GPU, of sizes that its caches do not hold, beside each what CuPy and PyTorch have for it.

A plan of hand-written kernels is that of the same program in `device.py`: its kernels stand in `peers/cuda`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import raido as rd
from raido.schedule.kernels.host_plan import Statement
from rows import ROWS
from rows.device import DEVICE_ROWS, copy
from rows.indexed import KEPT
from rows.row import Row, drawn, uniform

Call = Callable[..., Any]


@dataclass(frozen=True)
class GpuRow:
    """One line of the table: `cupy` and `torch` take the library and its arrays, None where it has nothing for the row; `plan` launches
    kernels written by hand. A row that streams is held to a copy of as many bytes."""

    row: Row
    cupy: Call | None = None
    torch: Call | None = None
    plan: tuple[Statement, ...] = ()
    streams: bool = False


@rd.algorithm
def ordered(a: rd.i32["n"]):
    return rd.sort(a, name="out")


def plan(name: str) -> tuple[Statement, ...]:
    return DEVICE_ROWS[name].cuda_plan


COPY = Row("copy of 10⁸ f32", copy, drawn((100_000_000,)), np.copy, tolerance=0)
SORT = Row(
    "sort of 2²⁶ i32",
    ordered,
    lambda scale: [uniform((1 << 26) // scale, high=1 << 30, dtype="i4")],
    np.sort,
    tolerance=0,
)


def bins(count: int) -> dict[str, Call]:
    return {
        "cupy": lambda cupy, a: cupy.bincount(a, minlength=count),
        "torch": lambda torch, a: torch.bincount(a, minlength=count),
    }


def product() -> dict[str, Call]:
    return {"cupy": lambda cupy, a, b: cupy.matmul(a, b), "torch": lambda torch, a, b: torch.matmul(a, b)}


GPU_ROWS = {
    "copy": GpuRow(COPY, lambda cupy, a: a.copy(), lambda torch, a: a.clone(), plan("copy"), streams=True),
    "sum": GpuRow(ROWS["sum"], lambda cupy, a: a.sum(), lambda torch, a: a.sum(), plan("reduce"), streams=True),
    "dot": GpuRow(ROWS["dot"], lambda cupy, a, b: cupy.dot(a, b), lambda torch, a, b: torch.dot(a, b), streams=True),
    "rows_1e4": GpuRow(ROWS["rows_1e4"], lambda cupy, a: a.sum(axis=1), lambda torch, a: a.sum(dim=1), streams=True),
    "rows_1e6": GpuRow(ROWS["rows_1e6"], lambda cupy, a: a.sum(axis=1), lambda torch, a: a.sum(dim=1), streams=True),
    "columns_1e4": GpuRow(
        ROWS["columns_1e4"], lambda cupy, a: a.sum(axis=0), lambda torch, a: a.sum(dim=0), streams=True
    ),
    "scan_f32": GpuRow(
        ROWS["scan_f32"],
        lambda cupy, a: cupy.cumsum(a),
        lambda torch, a: torch.cumsum(a, 0),
        plan("scan"),
        streams=True,
    ),
    "histogram_256": GpuRow(ROWS["histogram_256"], **bins(256), plan=plan("histogram"), streams=True),
    "histogram_1e6": GpuRow(ROWS["histogram_1e6"], **bins(1_000_000)),
    "filter": GpuRow(ROWS["filter"], lambda cupy, a: a[a < KEPT], lambda torch, a: a[a < KEPT], streams=True),
    "sort": GpuRow(SORT, lambda cupy, a: cupy.sort(a), lambda torch, a: torch.sort(a)[0]),
    "segments": GpuRow(ROWS["segments"]),
    "spmv": GpuRow(ROWS["spmv"]),
    "jacobi2d_5": GpuRow(ROWS["jacobi2d_5"], plan=plan("stencil"), streams=True),
    "jacobi2d_9": GpuRow(ROWS["jacobi2d_9"], streams=True),
    "jacobi3d_7": GpuRow(ROWS["jacobi3d_7"], streams=True),
    "sgemm_1024": GpuRow(ROWS["sgemm_1024"], **product(), plan=plan("sgemm")),
    "sgemm_2048": GpuRow(ROWS["sgemm_2048"], **product(), plan=plan("sgemm")),
    "mandelbrot": GpuRow(ROWS["mandelbrot"], plan=plan("mandelbrot")),
    "nbody": GpuRow(ROWS["nbody"]),
    "black_scholes": GpuRow(ROWS["black_scholes"], streams=True),
}
