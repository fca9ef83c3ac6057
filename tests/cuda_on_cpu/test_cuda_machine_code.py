"""Machine code of every kernel for every architecture, by NVRTC: no spills, no local memory, shared bytes as planned; and its errors."""

from __future__ import annotations

import ctypes
import shutil
from typing import Any

import hand_made_kernels as kernels
import pytest
from kernel_shapes import ARCHITECTURES, PROGRAMS, count_instructions, faults_of, has_indexed_arrays, shapes, summary
from kernel_vocabulary import at, integer, kernel, memory, native, put

from raido.algo.errors import CompileError, TargetError
from raido.algo.graph.dtypes import f32
from raido.targets import tvm_corner as T
from raido.targets.cuda import nvrtc
from raido.targets.cuda.compile import compile_kernels
from raido.targets.cuda.nvrtc import Resources, compile_source, read_resources, supported_architectures, version
from raido.targets.cuda.source.generate import NARROW

FUNCTIONS = [case.function for case in kernels.cases()]


@pytest.fixture(scope="module", autouse=True)
def library() -> Any:
    try:
        return nvrtc.load_nvrtc()
    except TargetError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_kernel_stays_in_registers(architecture: str) -> None:
    made = compile_kernels(FUNCTIONS, architecture)
    names = {str(f.attrs["global_symbol"]) for f in FUNCTIONS}
    assert set(made.kernels) == names == {name.removeprefix(NARROW) for name in made.resources}
    for name, used in made.resources.items():
        assert (used.spill_bytes, used.local_bytes) == (0, 0), name
        assert used.shared_bytes == made.kernels[name.removeprefix(NARROW)].shared_bytes, name
        assert 0 < used.registers <= 128, name
    (code,) = {made_kernel.code for made_kernel in made.kernels.values()}
    assert code.startswith(b"\x7fELF")


@pytest.mark.parametrize("number", range(8))
def test_programs_of_the_corpus_take_what_their_schedules_say(number: int) -> None:
    """A sample: `kernel_shapes.py` compiles all of them for every architecture."""
    name, architecture = list(PROGRAMS)[number * len(PROGRAMS) // 8], ARCHITECTURES[number % 4]
    found = list(shapes(name, architecture))
    assert found and [(shape.kernel, shape.faults) for shape in found if shape.faults] == []


@pytest.mark.parametrize("name", ["matmul", "distances"])
def test_sums_of_a_thread_are_in_registers(name: str) -> None:
    """At the edge of an array, too, where a thread has fewer of them than elsewhere."""
    assert [
        (shape.kernel, shape.resources.local_bytes) for shape in shapes(name, "sm_90") if shape.resources.local_bytes
    ] == []


def test_an_iteration_that_is_left_takes_no_registers_of_a_loop() -> None:
    """As a loop of its own, which the compiler cannot tell from a long one, it made the compiler spill registers of these sums."""
    assert [(shape.kernel, shape.faults) for shape in shapes("statistics", "sm_100") if shape.faults] == []


def test_a_kernel_that_takes_more_is_found() -> None:
    """The compiler keeps an array in memory that is reached at places which it does not know."""

    def make(x: Any, a: Any, n: Any) -> list[Any]:
        own = memory("own", f32, 64, "local")
        first, second = put(own, integer(0), at(a, x.i)), put(own, integer(1), at(a, x.i) * 2)
        return [T.AllocBuffer(own), first, second, put(a, x.i, at(own, n))]

    function = kernel("k", (f32, "int64"), make)
    used = compile_kernels([function], "sm_90").resources["k"]
    assert used.local_bytes and has_indexed_arrays(function) and list(faults_of(used, 0, indexed_arrays=True)) == []
    (local,) = faults_of(used, 0, indexed_arrays=False)
    (shared,) = faults_of(Resources(10, 0, 0, 512), 1024, indexed_arrays=False)
    (spills,) = faults_of(Resources(255, 0, 16, 0), 0, indexed_arrays=False)
    assert "bytes of local memory" in local and spills == "16 bytes of spills"
    assert shared == "512 bytes of shared memory instead of 1024"
    assert list(faults_of(Resources(10, 0, 0, 0), 64 << 10, indexed_arrays=False)) == []  # the launch brings it


def test_instructions_are_counted() -> None:
    nvdisasm = shutil.which("nvdisasm")
    if nvdisasm is None:
        pytest.skip("nvdisasm is not installed: pip install nvidia-cuda-nvdisasm")
    made = compile_kernels([{case.name: case for case in kernels.cases()}["vectors_f32"].function], "sm_90")
    for counted in count_instructions(made.kernels["vectors_f32"].code, nvdisasm).values():
        assert "16-byte accesses" in summary(counted) and any(name.startswith("STG.E.128") for name in counted)


def test_ptx_is_for_devices_to_come() -> None:
    made = compile_kernels([FUNCTIONS[0]], "compute_75")
    code = made.kernels["map_f32"].code
    assert b".version 9.0" in code and b".target sm_75" in code and code.endswith(b"\0") and not made.resources


def test_no_product_and_sum_become_one_operation() -> None:
    """An explicit fma is one."""

    def make(x: Any, a: Any) -> list[Any]:
        product = at(a, x.i) * at(a, x.i) + at(a, x.i)
        return [put(a, x.i, native("fma", f32, product, product, product))]

    ptx = compile_kernels([kernel("k", (f32,), make)], "compute_75").kernels["k"].code.decode()
    counts = {name: ptx.count(f"{name} ") for name in ("fma.rn.f32", "mul.rn.f32", "add.rn.f32", "mul.f32", "mad.f32")}
    codes = ptx.count(".entry")
    assert counts["fma.rn.f32"] == codes and counts["mad.f32"] == 0
    assert counts["mul.rn.f32"] + counts["mul.f32"] == codes


def test_sixteen_bytes_are_one_access() -> None:
    cases = {case.name: case for case in kernels.cases()}
    for name, move in (("vectors_f32", "v4.f32"), ("vectors_u8", "v4."), ("vectors_f64", "v2.f64")):
        ptx = compile_kernels([cases[name].function], "compute_75").kernels[name].code.decode()
        assert f"st.global.{move}" in ptx, ptx
        assert "ld.global" in ptx and "st.global.u8" not in ptx


def test_versions_and_architectures_are_known() -> None:
    assert version().startswith("13.") and set(ARCHITECTURES) <= set(supported_architectures())


def test_an_unknown_architecture_lists_the_known() -> None:
    with pytest.raises(TargetError, match=r'NVRTC 13\.\d compiles for no "sm_61"; for sm_75, sm_80'):
        compile_source("", "sm_61")


def test_a_text_that_is_refused_is_raidos_error() -> None:
    with pytest.raises(CompileError, match=r"(?s)NVRTC refuses what raido generated:.*nothing"):
        compile_source('extern "C" __global__ void k() { nothing(); }', "sm_75")


def test_resources_are_read_from_the_words_of_ptxas() -> None:
    log = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90'
ptxas info    : Function properties for first
    72 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 72 bytes cumulative stack size, 2048 bytes smem, 400 bytes cmem[0]
ptxas info    : Compiling entry function 'second' for 'sm_90'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, 360 bytes cmem[0]
"""
    assert read_resources(log) == {"first": Resources(255, 72, 20, 2048), "second": Resources(8, 0, 0, 0)}


def test_a_missing_library_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: Any, **__: Any) -> Any:
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", absent)
    with pytest.raises(TargetError, match=r'compiling for CUDA needs NVRTC.*: pip install "raido\[cuda\]"'):
        nvrtc.load_nvrtc.__wrapped__()
