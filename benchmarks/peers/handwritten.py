"""Handwritten programs in C with intrinsics, and in ISPC, called in this process on the row's own arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from peers.contestant import Arena, Contestant
from peers.tools import build, missing

SIDE, INSTALL = "C, ISPC", "gcc 12 or later on a processor with AVX-512; ispc for the rest"
CC = ("gcc", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")
ISPC = ("ispc", "-O3", "--opt=fast-math", "--woff", "--pic", "--addressing=64", "--target=host")

# row: the file, and the functions that compete
FUNCTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    **{name: ("reductions", (name,)) for name in ("sum", "dot")},
    **{f"rows_{size}": ("reductions", ("row_sums",)) for size in ("10", "1e4", "1e6")},
    "rows_1e7": ("reductions", ("narrow_row_sums", "narrow_row_sums_across")),
    "columns_1e4": ("reductions", ("column_sums",)),
    **{f"sgemm_{n}": ("reductions", ("sgemm",)) for n in (1024, 2048)},
    **{
        name: ("indexed", (name,))
        for name in ("scan_f32", "scan_i32", "histogram_256", "histogram_1e6", "spmv", "segments")
    },
    "filter": ("indexed", ("filter_chain", "filter_two_passes")),
    **{name: ("stencils", (name,)) for name in ("jacobi2d_5", "jacobi2d_9")},
    **{name: ("stencils", (name, f"{name}_streamed")) for name in ("jacobi3d_7", "jacobi3d_13")},
    **{name: ("divergent", (name, f"{name}_ispc")) for name in ("mandelbrot", "nbody")},
    **{name: ("divergent", (f"{name}_ispc",)) for name in ("black_scholes", "ambient_occlusion")},
}


def unavailable(arena: Arena) -> list[str]:
    flags = Path("/proc/cpuinfo").read_text()
    return missing(arena.root, "gcc", "ispc") + [need for need in ("avx512f", "avx512bw") if need not in flags]


def contestants(arena: Arena) -> Iterator[Contestant]:
    if arena.name not in FUNCTIONS:
        return
    file, functions = FUNCTIONS[arena.name]
    sources, steps, parts = [f"handwritten/{file}.c", "handwritten/common.h"], [], [f"{file}.c"]
    if file == "divergent":
        sources.append(f"handwritten/{file}.ispc")
        steps.append((*ISPC, f"{file}.ispc", "-o", "kernels.o"))
        parts.append("kernels.o")
    steps.append((*CC, *parts, "-o", "program.so", "-lm"))
    library = ctypes.CDLL(str(build(arena.root, sources, steps, "program.so")))
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*arena.inputs, *arena.room)]
    sizes = [ctypes.c_int64(n) for n in arena.row.sizes(arena.inputs).values()]
    for name in functions:
        function = library[name]
        function.restype = ctypes.c_int64 if arena.row.filtered else None

        def results(function=function) -> list[np.ndarray]:
            count = function(*pointers, *sizes)
            return [out[:count] if arena.row.filtered else out for out in arena.room]

        yield Contestant(SIDE, name, lambda function=function: function(*pointers, *sizes), results)
