"""The handwritten CUDA C kernels of the benchmarks give NumPy's results; and the counting of instructions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fake_driver import load_driver
from twin_compiler import TwinCompiler, twin_compiler

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "benchmarks"))

from machine_paths import Route, main_path, read_code, units
from peers.cuda import source_of
from rows.device import CUDA_ROWS
from rows.gpu import GPU_ROWS

from raido.algo.graph.expr import SizeVar
from raido.targets.cuda.opened import open_device
from raido.targets.devices.kernel import Kernel
from raido.targets.devices.plan import encode_plan, run_plan
from raido.targets.devices.runtime import LoadedKernel, Memory

LONGEST = {1: 9001, 2: 67}  # by rank: no tile divides them

LOOPS = """
.text.k:
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/              @P0 EXIT ;
.L_x_1:
        /*0020*/                   LDG.E.128 R4, [R2] ;
        /*0030*/              @!P1 BRA `(.L_x_2) ;
        /*0040*/                   FADD R8, R4, R8 ;
.L_x_2:
        /*0050*/                   IADD3 R2, R2, 0x10, RZ ;
        /*0060*/               @P2 BRA `(.L_x_1) ;
        /*0070*/                   STG.E [R6], R8 ;
        /*0080*/                   EXIT ;
.L_x_3:
        /*0090*/                   BRA `(.L_x_3) ;
        /*00a0*/                   NOP ;
"""


@pytest.fixture(scope="module")
def kernels() -> Iterator[dict[str, Kernel]]:
    with twin_compiler(load_driver()) as compiler:
        yield made_by(compiler)
    open_device().close()


def made_by(compiler: TwinCompiler) -> dict[str, Kernel]:
    names = sorted({each.kernel for row in CUDA_ROWS.values() for each in row.cuda_plan if hasattr(each, "kernel")})
    made = {name: compiler.make_kernels(source_of(name), "sm_90").kernels[name] for name in names}
    compiler.build()
    return made


@pytest.mark.parametrize("name", CUDA_ROWS)
def test_cuda_by_hand_agrees_with_numpy(kernels: dict[str, Kernel], name: str) -> None:
    row, device = CUDA_ROWS[name], open_device()
    inputs = [np.ascontiguousarray(a[tuple(slice(LONGEST[a.ndim]) for _ in a.shape)]) for a in row.inputs()]
    if name == "mandelbrot":
        inputs = [a[::7] for a in inputs]
    want = np.asarray(row.answer(*inputs))
    parameters, numbers = row.algorithm.trace().parameters, dict[str, int]()
    memories = {"out": Memory(device, want.nbytes)}
    for parameter, array in zip(parameters, inputs, strict=True):
        sizes = zip(parameter.shape, array.shape, strict=True)
        numbers |= {size.name: n for size, n in sizes if isinstance(size, SizeVar)}
        memories[parameter.name] = Memory(device, array.nbytes)
        memories[parameter.name].write(np.ascontiguousarray(array))
    used = {each.kernel: kernels[each.kernel] for each in row.cuda_plan if hasattr(each, "kernel")}
    loaded = {each: LoadedKernel(device, kernel) for each, kernel in used.items()}
    plan = encode_plan(row.cuda_plan, used, list(numbers))
    run_plan(plan, device, loaded, numbers=numbers, memories=memories)
    np.testing.assert_array_equal(memories["out"].read(np.empty_like(want)), want)


STENCILS = [(name, which) for name in ("jacobi2d_9", "jacobi3d_7") for which in ("plan", "tiled")]


@pytest.fixture(scope="module")
def stencils() -> Iterator[dict[str, Kernel]]:
    with twin_compiler(load_driver()) as compiler:
        launched = [each.kernel for name, which in STENCILS for each in getattr(GPU_ROWS[name], which)]
        made = {name: compiler.make_kernels(source_of(name), "sm_90").kernels[name] for name in launched}
        compiler.build()
        yield made
    open_device().close()


@pytest.mark.parametrize(("name", "which"), STENCILS)
def test_stencils_of_the_table_agree_with_numpy(stencils: dict[str, Kernel], name: str, which: str) -> None:
    """Without and with tiles in shared memory, at sizes that no tile divides."""
    row, device = GPU_ROWS[name], open_device()
    shape = (45, 67) if name == "jacobi2d_9" else (35, 11, 37)
    (a,) = [np.random.default_rng(9).random(shape, "float32")]
    (want,) = row.row.answers([a])
    numbers = dict(zip(("h", "w") if a.ndim == 2 else ("d", "h", "w"), a.shape, strict=True))
    memories = {"a": Memory(device, a.nbytes), "out": Memory(device, want.nbytes)}
    memories["a"].write(a)
    statements = getattr(row, which)
    used = {each.kernel: stencils[each.kernel] for each in statements}
    loaded = {each: LoadedKernel(device, kernel) for each, kernel in used.items()}
    run_plan(encode_plan(statements, used, list(numbers)), device, loaded, numbers=numbers, memories=memories)
    np.testing.assert_array_equal(memories["out"].read(np.empty_like(want)), want)


def test_instructions_are_counted_on_the_path_that_does_most() -> None:
    code = read_code(LOOPS)["k"]
    assert main_path(code, units("LDG")) == Route(4, 4)
    assert main_path(code, units("FADD")) == Route(5, 1)
    assert main_path(code, units("STG")) == Route(8, 1)
