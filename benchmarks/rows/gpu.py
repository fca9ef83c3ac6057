"""Programs for the table on a GPU, of sizes that exceed its caches, with their counterparts in CuPy and PyTorch.

A plan of handwritten kernels is that of the same program in `device.py`: its kernels are in `peers/cuda`. Where CuPy and PyTorch have
no counterpart, CuPy compiles a kernel from there (`RawKernel`), with its own options.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from peers.tools import HERE as PEERS

import raido as rd
from raido.algo.graph.dtypes import dtype_named
from raido.schedule.kernels.host_plan import Launch, Statement
from raido.targets.target import Target
from rows import ROWS
from rows.device import CUDA_ROWS, blocks, copy, plane
from rows.indexed import KEPT
from rows.row import Row, drawn, uniform, whole_numbers
from rows.stencils import CROSS, SQUARE, weighted

Call = Callable[..., Any]
Scheduler = Callable[[rd.Algorithm, Target], rd.Schedule]
SHORT_NAMES = (
    "typedef int i32; typedef long long i64; typedef unsigned u32; typedef unsigned long long u64; typedef float f32;\n"
)


@dataclass(frozen=True)
class Bound:
    """`make` takes the library and its arrays, and returns the call that is timed: what is made of arrays once is not."""

    make: Callable[..., Callable[[], Any]]


@dataclass(frozen=True)
class GpuRow:
    """One line of the table: `cupy`, `cub` and `torch` take the library (CuPy for CUB) and its arrays, None where it has nothing for the row;
    `plan` launches kernels written by hand, `tiled` others that read through shared memory; `schedules` are raido's beside the default,
    `warpgroups` those for sm_90a alone. A row that streams is held to a copy of as many bytes."""

    row: Row
    cupy: Call | Bound | None = None
    torch: Call | Bound | None = None
    plan: tuple[Statement, ...] = ()
    streams: bool = False
    tiled: tuple[Statement, ...] = ()
    schedules: dict[str, Scheduler] = field(default_factory=dict)
    warpgroups: dict[str, Scheduler] = field(default_factory=dict)
    cub: Bound | None = None


@rd.algorithm
def ordered(a: rd.i32["n"]):
    return rd.sort(a, name="out")


@rd.algorithm
def ordered_rows(a: rd.i32["n", "m"]):
    return rd.sort(a, axis=1, name="out")


@rd.algorithm
def four_sweeps(a: rd.f32["h", "w"]):
    for k in range(4):
        name = "out" if k == 3 else f"sweep_{k}"
        a = rd.stencil(
            lambda p: (p[0, 0] + p[0, -1] + p[0, 1] + p[-1, 0] + p[1, 0]) * 0.2, a, boundary="clamp", name=name
        )
    return a


@rd.algorithm
def product_of_halves(a: rd.f16["n", "k"], b: rd.f16["k", "m"]):
    return rd.matmul(a, b, dtype=rd.f32, name="out")


@rd.algorithm
def product_of_brains(a: rd.bf16["n", "k"], b: rd.bf16["k", "m"]):
    return rd.matmul(a, b, dtype=rd.f32, name="out")


@rd.algorithm
def product_in_tf32(a: rd.f32["n", "k"], b: rd.f32["k", "m"]):
    return rd.matmul(rd.round_to_tf32(a), rd.round_to_tf32(b), name="out")


def plan(name: str) -> tuple[Statement, ...]:
    return CUDA_ROWS[name].cuda_plan


def volume(kernel: str, planes: int) -> Launch:
    """A launch over a volume of d planes of h rows of w, in blocks of 32 × 8 columns through so many planes."""
    return Launch(kernel, (blocks("w", 32), blocks("h", 8), blocks("d", planes)), ("a", "out", "d", "h", "w"))


# --- schedules beside the default


def through_shared_memory(algorithm: rd.Algorithm, target: Target) -> rd.Schedule:
    """A tile of a block and its border are copied to shared memory first."""
    s = algorithm.schedule(target=target)
    s["out"].tile(y=8, x=32).bind("yo", "block.y").bind("xo", "block.x").bind("yi", "thread.y").bind("xi", "thread.x")
    s["out"].cache("a", "out", "xo", scope="shared")
    return s


def volume_through_shared_memory(algorithm: rd.Algorithm, target: Target) -> rd.Schedule:
    """Tiles of four planes of a volume, with their borders, are copied to shared memory first."""
    s = algorithm.schedule(target=target)
    s["out"].tile(z=4, y=8, x=32).bind("zo", "block.z").bind("yo", "block.y").bind("xo", "block.x")
    s["out"].bind("zi", "thread.z").bind("yi", "thread.y").bind("xi", "thread.x")
    s["out"].cache("a", "out", "xo", scope="shared")
    return s


def in_time(algorithm: rd.Algorithm, target: Target) -> rd.Schedule:
    """A block makes all sweeps of a tile: those before the last in shared memory, each with a border that is one narrower."""
    s = algorithm.schedule(target=target)
    s["out"].tile(y=32, x=32).split("yi", 4).reorder("yo", "xo", "yii", "xi", "yio")
    s["out"].bind("yo", "block.y").bind("xo", "block.x").bind("yii", "thread.y").bind("xi", "thread.x")
    for k in reversed(range(3)):
        s[f"sweep_{k}"].compute_at("out", "xo").store(scope="shared")
    return s


def wide_tiles(buffers: int) -> Scheduler:
    """Tiles of 128 × 128 sums by four subgroups, 128 sums a thread: a third less is read from L2 for each product than by default tiles of
    128 × 64, and copies run `buffers` − 1 iterations ahead."""

    def schedule(algorithm: rd.Algorithm, target: Target) -> rd.Schedule:
        s = algorithm.schedule(target=target)
        s["out"].split("y", 2048).split("yi", 128).split("yii", 32).split("yiii", 8)
        s["out"].split("x", 128).split("xi", 8).split("xii", 2).split("r", 32)
        s["out"].reorder("yo", "xo", "yio", "ro", "yiio", "yiiii", "xiio", "ri", "yiiio", "xio", "xiii")
        s["out"].bind("yo", "block.z").bind("xo", "block.y").bind("yio", "block.x")
        s["out"].bind("yiio", "thread.z").bind("yiiii", "thread.y").bind("xiio", "thread.x")
        s["out"].unroll("yiiio").unroll("xio").unroll("xiii").tensorize("ri")
        for array, rows, line in (("a", "y", "r"), ("b", "r", "x")):  # 16 bytes at once, by all threads of the block
            s["out"].cache(array, "out", "ro", scope="shared")
            copy, part = s[f"{array}_copy"], f"{rows}{line}o"
            copy.split(line, 8).fuse(rows, f"{line}o").split(part, 128).split(f"{part}i", 32).split(f"{part}ii", 4)
            copy.reorder(f"{part}io", f"{part}iio", f"{part}iii", f"{part}o").bind(f"{part}io", "thread.z")
            copy.bind(f"{part}iio", "thread.y").bind(f"{part}iii", "thread.x").vectorize(f"{line}i")
            copy.store(pad=8, buffers=buffers)
        return s

    return schedule


def by_warpgroups(columns: int, buffers: int) -> Scheduler:
    """Tiles of 128 × `columns` sums by two warpgroups. Eight threads that follow each other copy the 16 bytes of eight lines, which lie side by
    side in shared memory, and 32 of them four parts of each line."""

    def schedule(algorithm: rd.Algorithm, target: Target) -> rd.Schedule:
        s = algorithm.schedule(target=target)
        s["out"].split("y", 2048).split("yi", 128).split("yii", 16).split("yiii", 8)
        s["out"].split("x", columns).split("xi", 8).split("xii", 2).split("r", 64)
        s["out"].reorder("yo", "xo", "yio", "ro", "yiio", "yiiii", "xiio", "ri", "yiiio", "xio", "xiii")
        s["out"].bind("yo", "block.z").bind("xo", "block.y").bind("yio", "block.x")
        s["out"].bind("yiio", "thread.z").bind("yiiii", "thread.y").bind("xiio", "thread.x")
        s["out"].unroll("yiiio").unroll("xio").unroll("xiii")
        for array, rows, line in (("a", "y", "r"), ("b", "r", "x")):
            s["out"].cache(array, "out", "ro", scope="shared")
            copy = (
                s[f"{array}_copy"].split(line, 8).split(rows, 8).reorder(f"{rows}o", f"{line}o", f"{rows}i", f"{line}i")
            )
            copy.store(layout=(f"{line}o", rows, f"{line}i"), buffers=buffers)
            (pair, *_) = copy.fuse(f"{rows}o", f"{line}o").axes
            (part, *_) = copy.fuse(pair, f"{rows}i").axes
            copy.split(part, 256).split(f"{part}i", 32).split(f"{part}ii", 4)
            copy.reorder(f"{part}io", f"{part}iio", f"{part}iii", f"{part}o").bind(f"{part}io", "thread.z")
            copy.bind(f"{part}iio", "thread.y").bind(f"{part}iii", "thread.x").vectorize(f"{line}i")
        s["out"].tensorize("ri", threads=128)
        return s

    return schedule


# --- what CuPy and PyTorch are asked


def raw(
    name: str, block: tuple[int, ...], blocks: Callable[..., tuple[int, ...]], results: Callable[..., list]
) -> Bound:
    """A kernel of `peers/cuda`, one element a thread, compiled by CuPy: `results` are shapes and types, and sizes its last arguments."""

    def make(cupy: Any, *arrays: Any) -> Callable[[], Any]:
        kernel = cupy.RawKernel(SHORT_NAMES + (PEERS / "cuda" / f"{name}.cu").read_text("utf-8"), name)
        out = tuple(cupy.empty(shape, dtype) for shape, dtype in results(*arrays))
        sizes = tuple(np.int64(size) for size in out[0].shape)

        def run() -> Any:
            kernel(blocks(*sizes), block, (*arrays, *out, *sizes))
            return out

        return run

    return Bound(make)


def on_a_line(name: str, results: int) -> Bound:
    shapes = lambda first, *others: [(first.shape, "float32")] * results
    return raw(name, (256,), lambda n: (-(-int(n) // 256),), shapes)


def segments_in_cupy(cupy: Any, offsets: Any, values: Any) -> Any:
    """Sums from each offset on. `reduceat` gives an element where a segment has none, and takes no offset at the end."""
    out, filled = cupy.zeros(len(offsets) - 1, values.dtype), offsets[1:] > offsets[:-1]
    out[filled] = cupy.add.reduceat(values, offsets[:-1][filled])
    return out


def segments_in_cub(cupy: Any, offsets: Any, values: Any) -> Callable[[], Any]:
    """CUB's own reduction of segments, compiled by `nvcc`, in memory that it asks for once."""
    count, out = len(offsets) - 1, cupy.empty(len(offsets) - 1, values.dtype)
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/segments.so"
        source = str(PEERS / "cuda" / "segments_cub.cu")
        command = ["nvcc", "-O3", "-arch=native", "-shared", "-Xcompiler", "-fPIC", source, "-o", library]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        function = ctypes.CDLL(library).segments
    pointer, size = ctypes.c_void_p, ctypes.c_size_t(0)
    function.argtypes = (
        pointer,
        ctypes.POINTER(ctypes.c_size_t),
        pointer,
        pointer,
        ctypes.c_longlong,
        pointer,
        pointer,
    )

    def run(memory: int | None) -> Any:
        stream = cupy.cuda.get_current_stream().ptr
        code = function(memory, size, values.data.ptr, out.data.ptr, count, offsets.data.ptr, stream)
        if code:
            raise RuntimeError(f"CUB answers {code}")
        return out

    run(None)
    memory = cupy.empty(max(1, size.value), "u1")
    return lambda: run(memory.data.ptr)


def matrix_in_cupy(cupy: Any, offsets: Any, columns: Any, values: Any, x: Any) -> Callable[[], Any]:
    from cupyx.scipy.sparse import csr_matrix

    matrix = csr_matrix((values, columns, offsets.astype("int32")), shape=(len(offsets) - 1, len(x)))
    return lambda: matrix @ x


def matrix_in_torch(torch: Any, offsets: Any, columns: Any, values: Any, x: Any) -> Callable[[], Any]:
    matrix = torch.sparse_csr_tensor(offsets.int(), columns, values, (len(offsets) - 1, len(x)))
    return lambda: matrix @ x


def exact_sums(torch: Any, a: Any, b: Any) -> Any:
    """The product of short factors in f32."""
    return torch.mm(a, b, out_dtype=torch.float32)


def in_tf32(torch: Any, a: Any, b: Any) -> Any:
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        return torch.matmul(a, b)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


# --- rows


def exact_factors(side: int, dtype: str) -> Callable[[int], list[np.ndarray]]:
    """Square factors of whole numbers, which every type has and whose sums of products f32 has."""
    made, numpys = whole_numbers((side, side), (side, side)), dtype_named(dtype).numpy
    return lambda scale: [a.astype(numpys) for a in made(scale)]


def multiplied(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.matmul(a.astype(np.float32), b.astype(np.float32))


def matrix_row(algorithm: rd.Algorithm, dtype: str, what: str, side: int) -> Row:
    return Row(f"{what} product, {side:,}³", algorithm, exact_factors(side, dtype), multiplied, tolerance=0)


def swept(a: np.ndarray) -> np.ndarray:
    for _ in range(4):
        a = weighted(1, CROSS, 0.2)(a)
    return a


def rows_of_keys(scale: int) -> list[np.ndarray]:
    return [uniform(max(1, (1 << 16) // scale), 1024, high=1 << 30, dtype="i4")]


COPY = Row("copy of 10⁸ f32", copy, drawn((100_000_000,)), np.copy, tolerance=0)
SORT = Row(
    "sort of 2²⁶ i32",
    ordered,
    lambda scale: [uniform((1 << 26) // scale, high=1 << 30, dtype="i4")],
    np.sort,
    tolerance=0,
)
SORT_ROWS = Row("sort of 2¹⁶ rows of 1024 i32", ordered_rows, rows_of_keys, partial(np.sort, axis=1), tolerance=0)
SWEEPS = Row("Jacobi, 5 points, 10,000², four sweeps", four_sweeps, SQUARE, swept)


def bins(count: int) -> dict[str, Call]:
    return {
        "cupy": lambda cupy, a: cupy.bincount(a, minlength=count),
        "torch": lambda torch, a: torch.bincount(a, minlength=count),
    }


def product() -> dict[str, Call]:
    return {"cupy": lambda cupy, a, b: cupy.matmul(a, b), "torch": lambda torch, a, b: torch.matmul(a, b)}


WIDE = {f"raido, 128 × 128, {buffers} buffers": wide_tiles(buffers) for buffers in (2, 3, 4)}
BY_WARPGROUPS = {
    f"raido, 128 × {columns} by warpgroups": by_warpgroups(columns, buffers)
    for columns, buffers in ((128, 3), (256, 4))
}
WIDE_ROW = {"torch": exact_sums, "schedules": WIDE, "warpgroups": BY_WARPGROUPS}
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
    "filter": GpuRow(
        ROWS["filter"], lambda cupy, a: a[a < KEPT], lambda torch, a: a[a < KEPT], plan("filter"), streams=True
    ),
    "sort": GpuRow(
        SORT, lambda cupy, a: cupy.sort(a), lambda torch, a: torch.sort(a)[0], plan("sort")
    ),  # no key is below 0
    "sort_rows": GpuRow(SORT_ROWS, lambda cupy, a: cupy.sort(a, axis=1), lambda torch, a: torch.sort(a, dim=1)[0]),
    "segments": GpuRow(
        ROWS["segments"],
        segments_in_cupy,
        cub=Bound(segments_in_cub),
        torch=lambda torch, offsets, values: torch.segment_reduce(values, "sum", offsets=offsets, unsafe=True),
    ),
    "spmv": GpuRow(ROWS["spmv"], Bound(matrix_in_cupy), Bound(matrix_in_torch)),
    "jacobi2d_5": GpuRow(
        ROWS["jacobi2d_5"],
        plan=plan("stencil"),
        streams=True,
        tiled=(plane("stencil_shared", (32, 8), "a", "out", "h", "w"),),
        schedules={"raido, in shared memory": through_shared_memory},
    ),
    "jacobi2d_9": GpuRow(
        ROWS["jacobi2d_9"],
        plan=(plane("box", (32, 8), "a", "out", "h", "w"),),
        streams=True,
        tiled=(plane("box_shared", (32, 8), "a", "out", "h", "w"),),
        schedules={"raido, in shared memory": through_shared_memory},
    ),
    "jacobi3d_7": GpuRow(
        ROWS["jacobi3d_7"],
        plan=(volume("star", 1),),
        streams=True,
        tiled=(volume("star_shared", 32),),
        schedules={"raido, in shared memory": volume_through_shared_memory},
    ),
    "sweeps_4": GpuRow(SWEEPS, schedules={"raido, tiles in time": in_time}),
    "sgemm_1024": GpuRow(ROWS["sgemm_1024"], **product(), plan=plan("sgemm")),
    "sgemm_2048": GpuRow(ROWS["sgemm_2048"], **product(), plan=plan("sgemm")),
    "f16_4096": GpuRow(matrix_row(product_of_halves, "f16", "f16", 4096), torch=exact_sums),
    "bf16_4096": GpuRow(matrix_row(product_of_brains, "bf16", "bf16", 4096), **WIDE_ROW),
    "bf16_8192": GpuRow(matrix_row(product_of_brains, "bf16", "bf16", 8192), **WIDE_ROW),
    "tf32_4096": GpuRow(matrix_row(product_in_tf32, "f32", "tf32", 4096), torch=in_tf32),
    "mandelbrot": GpuRow(
        ROWS["mandelbrot"],
        raw(
            "mandelbrot",
            (16, 16),
            lambda h, w: (-(-int(w) // 16), -(-int(h) // 16)),
            lambda ci, cr: [((len(ci), len(cr)), "int32")],
        ),
        plan=plan("mandelbrot"),
    ),
    "nbody": GpuRow(ROWS["nbody"], on_a_line("nbody", 3)),
    "black_scholes": GpuRow(ROWS["black_scholes"], on_a_line("black_scholes", 2), streams=True),
}
