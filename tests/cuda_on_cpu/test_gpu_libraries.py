"""The benchmark's CuPy and CUB code, over NumPy in their place: names, arguments and results, where neither is installed."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_driver import load_driver
from scipy import sparse

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "benchmarks"))

import gpu_sides
from peers.cuda import source_of
from rows import gpu as gpu_rows
from rows.gpu import GPU_ROWS, segments_in_cupy

import raido as rd
from raido.targets.cuda.opened import open_device

SCALE, OF_KERNELS = 50_000, 50
ROWS = [name for name, row in GPU_ROWS.items() if row.cupy is not None]
SEGMENTS_IN_C = """
int segments(void* memory, unsigned long* bytes, const float* values, float* sums, long long count, const long long* offsets, void* stream) {
  if (!memory) { *bytes = 5; return 0; }
  for (long long s = 0; s < count; ++s) {
    sums[s] = 0;
    for (long long k = offsets[s]; k < offsets[s + 1]; ++k) sums[s] += values[k];
  }
  return 0;
}
"""


class Array(np.ndarray):
    """An array as CuPy has them: `data` is where it lies."""

    @property
    def data(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(ptr=self.ctypes.data)


class RawKernel:
    """Takes its arguments as a kernel of `peers/cuda` takes them, in blocks that cover all elements; gives what is expected of it."""

    want: tuple[np.ndarray, ...] = ()

    def __init__(self, code: str, name: str) -> None:
        assert f" {name}(" in code
        self.source = source_of(name).kernels[0]

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
        assert tuple(block) == self.source.block[: len(block)]
        for each, value in zip(self.source.arguments, arguments, strict=True):
            assert isinstance(value, Array if each.pointer else np.int64) and value.dtype == each.dtype.numpy
        sizes = [int(value) for value in arguments if not isinstance(value, Array)]
        assert all(n <= g * b < n + b for n, g, b in zip(reversed(sizes), grid, block, strict=True))
        for out, values in zip(
            [a for a in arguments if isinstance(a, Array)][-len(self.want) :], self.want, strict=True
        ):
            out[...] = values


def in_numpy() -> Any:
    """A stand-in for CuPy over NumPy, with the functions that the benchmark calls and no others."""
    same = ("add", "bincount", "cumsum", "dot", "matmul", "minimum", "sort", "where")
    made = {name: partial(_made, getattr(np, name)) for name in same if name != "add"}
    return SimpleNamespace(
        **made,
        add=SimpleNamespace(reduceat=partial(_made, np.add.reduceat)),
        empty=partial(_made, np.empty),
        zeros=partial(_made, np.zeros),
        from_dlpack=lambda array: array.to("cpu").view(Array),
        RawKernel=RawKernel,
        cuda=SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=0)),
    )


def _made(function: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
    return np.asarray(function(*arguments, **more)).view(Array)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    load_driver()
    library = in_numpy()
    monkeypatch.setitem(sys.modules, "cupy", library)
    for name in ("cupyx", "cupyx.scipy", "cupyx.scipy.sparse"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["cupyx.scipy.sparse"].csr_matrix = sparse.csr_matrix  # type: ignore[attr-defined]
    monkeypatch.setattr(gpu_sides, "to_cpu", np.asarray)
    yield library
    open_device().close()


@pytest.mark.parametrize("name", ROWS)
def test_cupy_code_gives_the_answers(cupy: Any, name: str) -> None:
    row, device = GPU_ROWS[name], open_device()
    inputs = row.row.inputs(OF_KERNELS if name in ("mandelbrot", "nbody") else SCALE)
    RawKernel.want = row.row.answers(inputs)
    there = [rd.device_array(array, device.target) for array in inputs]
    gpu_sides.by_library("CuPy", row.cupy, row, there, RawKernel.want, device)


def test_segments_may_be_empty_at_the_end(cupy: Any) -> None:
    offsets, values = np.array([0, 0, 3, 3, 4, 4, 4]).view(Array), np.arange(1, 5, dtype="f4").view(Array)
    np.testing.assert_array_equal(segments_in_cupy(cupy, offsets, values), [0, 6, 0, 4, 0, 0])


def test_cub_is_called_as_its_library_is_written(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_c(command: list[str], **how: Any) -> None:
        assert (
            command[0] == "nvcc"
            and 'extern "C" int segments(void* memory, size_t* bytes' in Path(command[-3]).read_text()
        )
        run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", command[-1]], input=SEGMENTS_IN_C.encode(), check=True)

    run = subprocess.run
    monkeypatch.setattr(gpu_rows.subprocess, "run", in_c)
    row, device = GPU_ROWS["segments"], open_device()
    inputs = row.row.inputs(SCALE)
    there = [rd.device_array(array, device.target) for array in inputs]
    gpu_sides.by_library("CUB", row.cub, row, there, row.row.answers(inputs), device)
    assert ctypes.sizeof(ctypes.c_size_t) == ctypes.sizeof(ctypes.c_ulong)
