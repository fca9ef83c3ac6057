"""Futhark's programs: compiled to C libraries (both back ends for processors), called in this process on arrays of Futhark's own."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from peers.contestant import THREADS, Arena, Contestant
from peers.tools import build, missing

SIDE, INSTALL = "Futhark", "apt-get install futhark ispc (Debian 13), or futhark-lang.org"
CC = ("gcc", "-O3", "-march=native", "-std=gnu99", "-w", "-shared", "-fPIC")
ISPC = ("ispc", "-O3", "--woff", "--pic", "--addressing=64", "--target=host")
ELEMENTS = {"f32": "f4", "i32": "i4", "i64": "i8", "u16": "u2"}

# row: the file, and the entries that compete
ENTRIES: dict[str, tuple[str, tuple[str, ...]]] = {
    **{name: ("reductions", (name,)) for name in ("sum", "dot")},
    **{f"rows_{size}": ("reductions", ("row_sums",)) for size in ("10", "1e4", "1e6", "1e7")},
    "columns_1e4": ("reductions", ("column_sums", "column_sums_by_rows")),
    **{f"sgemm_{n}": ("reductions", ("sgemm", "sgemm_by_rows")) for n in (1024, 2048)},
    **{name: ("indexed", (name,)) for name in ("scan_f32", "scan_i32", "histogram_256", "histogram_1e6", "filter")},
    **{name: ("indexed", (f"{name}_rows", f"{name}_flat")) for name in ("spmv", "segments")},
    **{name: ("stencils", (name,)) for name in ("jacobi2d_5", "jacobi2d_9", "jacobi3d_7", "jacobi3d_13")},
    **{
        name: ("images", (name,))
        for name in ("blur_u16", "blur_f32", "sobel", "gauss_direct", "gauss_separable", "unsharp", "harris")
    },
    **{name: ("divergent", (name,)) for name in ("mandelbrot", "nbody", "black_scholes")},
    "ambient_occlusion": ("rays", ("ambient_occlusion",)),
}


def unavailable(arena: Arena) -> list[str]:
    return missing(arena.root, "futhark", "ispc", "gcc")


class Library:
    """A compiled Futhark file: its functions as its manifest describes them, and a context with its threads."""

    def __init__(self, arena: Arena, file: str, backend: str) -> None:
        steps: list[tuple[str, ...]] = [("futhark", backend, "--library", f"{file}.fut", "-o", "program")]
        objects: tuple[str, ...] = ()
        if backend == "ispc":
            steps.append((*ISPC, "program.kernels.ispc", "-o", "kernels.o"))
            objects = ("kernels.o",)
        steps.append((*CC, "program.c", *objects, "-o", "program.so", "-lm", "-pthread"))
        path = build(arena.root, [f"futhark/{file}.fut"], steps, "program.so")
        self.manifest: dict[str, Any] = json.loads(path.with_name("program.json").read_text())
        self.code = ctypes.CDLL(str(path))
        config = self._pointer("futhark_context_config_new")
        self.code.futhark_context_config_set_num_threads(config, THREADS)
        self.context = self._pointer("futhark_context_new", config)
        arena.cleanup.callback(self.code.futhark_context_config_free, config)
        arena.cleanup.callback(self.code.futhark_context_free, self.context)

    def _pointer(self, function: str, *arguments: Any) -> ctypes.c_void_p:
        call = self.code[function]
        call.restype = ctypes.c_void_p
        return ctypes.c_void_p(call(*arguments))

    def check(self, status: int) -> None:
        if status:
            raise SystemExit(ctypes.string_at(self._pointer("futhark_context_get_error", self.context)).decode())

    def array(self, kind: str, values: np.ndarray) -> ctypes.c_void_p:
        """A copy of an array in Futhark's memory."""
        shape = [ctypes.c_int64(n) for n in values.shape]
        data = ctypes.c_void_p(values.ctypes.data)
        return self._pointer(self.manifest["types"][kind]["ops"]["new"], self.context, data, *shape)

    def values(self, kind: str, array: ctypes.c_void_p) -> np.ndarray:
        described = self.manifest["types"][kind]
        code = self.code[described["ops"]["shape"]]
        code.restype = ctypes.POINTER(ctypes.c_int64)
        found = code(self.context, array)[: described["rank"]]
        result = np.empty(tuple(found), ELEMENTS[described["elemtype"]])
        self.check(self.code[described["ops"]["values"]](self.context, array, ctypes.c_void_p(result.ctypes.data)))
        self.check(self.code.futhark_context_sync(self.context))
        return result

    def free(self, kind: str, array: ctypes.c_void_p) -> None:
        self.code[self.manifest["types"][kind]["ops"]["free"]](self.context, array)


def contestants(arena: Arena) -> Iterator[Contestant]:
    if arena.name not in ENTRIES:
        return
    file, entries = ENTRIES[arena.name]
    for backend in ("multicore", "ispc"):
        library = Library(arena, file, backend)
        kinds = [parameter["type"] for parameter in library.manifest["entry_points"][entries[0]]["inputs"]]
        inputs = [library.array(kind, values) for kind, values in zip(kinds, arena.inputs, strict=True)]
        for kind, array in zip(kinds, inputs, strict=True):
            arena.cleanup.callback(library.free, kind, array)
        for entry in entries:
            yield from _contestant(library, f"{backend} {entry}", entry, inputs)


def _contestant(library: Library, variant: str, entry: str, inputs: Sequence[ctypes.c_void_p]) -> Iterator[Contestant]:
    described = library.manifest["entry_points"][entry]
    kinds = [output["type"] for output in described["outputs"]]
    function = library.code[described["cfun"]]
    scalars = {"f32": ctypes.c_float, "i32": ctypes.c_int32, "i64": ctypes.c_int64}

    def run() -> list[Any]:
        outputs = [scalars[kind]() if kind in scalars else ctypes.c_void_p() for kind in kinds]
        library.check(function(library.context, *(ctypes.byref(output) for output in outputs), *inputs))
        library.check(library.code.futhark_context_sync(library.context))
        return outputs

    def release(outputs: Sequence[Any]) -> None:
        for kind, output in zip(kinds, outputs, strict=True):
            if kind not in scalars:
                library.free(kind, output)

    def results() -> list[np.ndarray]:
        outputs = run()
        pairs = list(zip(kinds, outputs, strict=True))
        found = [np.array(o.value) if kind in scalars else library.values(kind, o) for kind, o in pairs]
        release(outputs)
        return found

    yield Contestant(SIDE, variant, lambda: release(run()), results)
