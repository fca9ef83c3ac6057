"""Programs for CUDA inside an exported library: called from C and from Python over the driver without a GPU, and the choice among its codes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_twin import compile_twin
from fake_driver import FakeDriver, build_driver, load_driver

import raido as rd
from raido.algo.errors import ExportError, IndexOutOfRange, TargetError
from raido.targets import export
from raido.targets.compile import executable_of
from raido.targets.cuda import export as cuda_export
from raido.targets.cuda import program
from raido.targets.cuda.compile import CudaCode, kernels_of
from raido.targets.cuda.export import ARCHITECTURES, write_code_table
from raido.targets.cuda.library import find_device
from raido.targets.cuda.nvrtc import MachineCode, load_nvrtc
from raido.targets.cuda.program import CudaCompilation
from raido.targets.cuda.runtime import CudaDevice
from raido.targets.cuda.source.generate import Source
from raido.targets.devices.runtime import LoadedKernel
from raido.targets.target import Target


@rd.algorithm(a="f32[n]", index="i64[m]", steps="i64")
def chosen(a: rd.Array, index: rd.Array, steps: rd.Array) -> rd.Array:
    """The elements above 2, of so many, of an array that has been smoothed so many times."""
    smooth = rd.loop(steps, lambda t, x: rd.stencil(lambda p: (p[-1] + p[1]) / 2, x, boundary="clamp"), a)
    return rd.filter(lambda x: x > 2, smooth[index])


@rd.algorithm(a="f32[n]")
def twice(a: rd.Array) -> rd.Array:
    return a * 2


SM_90 = Target("cuda", arch="sm_90")


@pytest.fixture
def driver() -> Iterator[FakeDriver]:
    """The driver, which is as it was at first when a test has ended."""
    driver = load_driver()
    yield driver
    driver.set(capability=90)


@pytest.fixture(scope="module")
def work() -> Iterator[CudaCompilation]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "make_kernels", without_code)
        yield CudaCompilation(chosen.trace(), SM_90, None, {})


@pytest.fixture(scope="module")
def library(work: CudaCompilation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library in which code for sm_90 is a twin, and all else what no driver takes."""

    def twin(text: str, architecture: str) -> MachineCode:
        assert text == work.text.text
        return MachineCode(architecture, compile_twin(work.text) if architecture == "sm_90" else b"of another kind", {})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda_export, "compile_source", twin)
        path = tmp_path_factory.mktemp("exported") / "libchosen.so"
        return export.write_library(path, [("chosen", work.signature, work.code)])


def without_code(source: Source, architecture: str) -> CudaCode:
    return CudaCode(architecture, kernels_of(source, b""), {}, source)


MAIN = r"""
#define _GNU_SOURCE
#include "chosen.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define MUST(x) do { if (!(x)) { printf("failed: %s, line %d: %s\n", #x, __LINE__, chosen_message()); exit(1); } } while (0)

int main(int argc, char** argv) {
  float a[5] = {1, 2, 4, 8, 16}, out[3];
  int64_t index[3] = {4, 0, 1}, wrong[3] = {4, 5, 6}, count = -1;
  void (*set)(const char*, int64_t) = 0;
  if (argc > 1) { /* no device runs it */
    if (argc > 2) {
      *(void**)&set = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_set");
      set(argv[1], atoll(argv[2]));
    }
    MUST(chosen(a, index, 1, 5, 3, out, &count) == CHOSEN_BAD_DEVICE);
    puts(chosen_message());
    return 0;
  }
  MUST(chosen(a, index, 1, 5, 3, out, &count) == CHOSEN_OK && count == 2 && out[0] == 12 && out[1] == 2.5f);
  MUST(chosen(a, wrong, 1, 5, 3, out, &count) == CHOSEN_FAULT);
  MUST(strstr(chosen_message(), "index 5 is out of range for dimension 0 of size 5"));
  MUST(chosen_set_device("none such") == CHOSEN_BAD_DEVICE);
  MUST(!strcmp(chosen_message(), "there is no CUDA device called \"none such\""));
  MUST(chosen_set_device("1") == CHOSEN_OK && chosen_set_device("gpu 0") == CHOSEN_OK && chosen_set_device(0) == CHOSEN_OK);
  MUST(chosen(a, index, 0, 5, 3, out, &count) == CHOSEN_OK && count == 1 && out[0] == 16);
  MUST(chosen(0, index, 1, 5, 3, out, &count) == CHOSEN_NULL_POINTER);
  puts("ok");
  return 0;
}
"""


@pytest.fixture(scope="module")
def main(library: Path) -> Path:
    folder = library.parent
    (folder / "main.c").write_text(MAIN)
    (folder / "driver").mkdir()
    (folder / "driver" / "libcuda.so.1").write_bytes(build_driver())
    cc = [*export.find_compiler(), "-std=c99", "-Wall", "-Wextra", "-Werror", "main.c", str(library), "-ldl"]
    subprocess.run([*cc, f"-Wl,-rpath,{folder}", "-o", "main"], cwd=folder, check=True)
    return folder / "main"


def run(main: Path, *arguments: object, driver: bool = True) -> str:
    environment = {"LD_LIBRARY_PATH": str(main.parent / "driver") if driver else ""}
    command = [str(main), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_c_program_runs_a_library_on_a_device(main: Path) -> None:
    assert run(main) == "ok\n"


def test_a_library_says_why_no_device_runs_it(main: Path) -> None:
    assert "there is no CUDA driver on this machine" in run(main, "absent", driver=False)
    for setting, value, message in (
        ("version", 11080, "the CUDA driver is of version 11.8, and raido needs 12.0 or newer"),
        ("devices", 0, "there is no CUDA device on this machine"),
        ("capability", 70, "Imagined GPU 0 has compute capability 7.0, and the library needs 7.5"),
        ("capability", 120, "its code is for another architecture than that of Imagined GPU 0, sm_120"),
    ):
        assert message in run(main, setting, value)


def test_a_library_is_loaded_back(library: Path, driver: FakeDriver) -> None:
    loaded = rd.load(library)
    a = np.array([1, 2, 4, 8, 16], "f4")
    np.testing.assert_array_equal(loaded(a, np.array([4, 0, 1]), 1), np.array([12, 2.5], "f4"))
    with pytest.raises(
        IndexOutOfRange, match=r"index 9 is out of range for dimension 0 of size 5(?s:.)*test_cuda_export"
    ):
        loaded(a, np.array([9]), 0)


def test_the_header_names_the_devices(library: Path) -> None:
    header = (library.parent / "chosen.h").read_text()
    assert "a CUDA device from compute capability 7.5 on, with a driver of CUDA 13.0 or newer" in header
    assert 'a part of its name ("H100")' in header and "CHOSEN_BAD_DEVICE = 7" in header


@pytest.mark.parametrize(
    ("capability", "taken"),
    [(75, "sm_75"), (80, "sm_80"), (86, "sm_80"), (90, "sm_90a"), (95, "sm_90"), (103, "sm_100"), (110, "compute_75")],
)
def test_a_device_gets_the_newest_code_that_it_executes(
    driver: FakeDriver, work: CudaCompilation, tmp_path: Path, capability: int, taken: str
) -> None:
    """All other codes of the table are what no driver takes."""
    (tmp_path / "twin.so").write_bytes(compile_twin(work.text))
    driver.register("the one", tmp_path / "twin.so", "")
    table = write_code_table(
        [(name, b"the one\0" if name == taken else b"another") for name in ("sm_90a", *ARCHITECTURES)]
    )
    kernel = replace(next(iter(work.kernels.values())), code=table, narrow=table)
    driver.set(capability=capability)
    with CudaDevice(find_device()) as device:
        LoadedKernel(device, kernel)
    driver.set(capability=70)
    message = f"kernel {kernel.name}: there is no code for the architecture of Imagined GPU 0, sm_70"
    with CudaDevice(find_device()) as device, pytest.raises(TargetError, match=message):
        LoadedKernel(device, kernel)


def test_programs_of_two_kinds_of_devices_are_refused(work: CudaCompilation, tmp_path: Path) -> None:
    rows = [("one", work.signature, work.code), ("other", work.signature, replace(work.code, api="vulkan"))]
    with pytest.raises(ExportError, match="one for cuda and other for vulkan are two: export them apart"):
        export.write_library(tmp_path / "libtwo.so", rows)


def test_a_library_has_code_for_every_architecture(tmp_path: Path) -> None:
    try:
        load_nvrtc()
    except TargetError as error:
        pytest.skip(str(error))
    exe = executable_of(CudaCompilation(twice.trace(), Target.parse("cuda:sm_80"), None, {}))
    data = exe.export(tmp_path / "libtwice.so").read_bytes()
    assert data.count(b"RaidoCU\0") == 2 and data.count(b"\x7fELF\x02\x01\x01") == 1 + 4 and b".target sm_75" in data


def test_architectures_are_chosen(work: CudaCompilation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def compile_one(text: str, architecture: str) -> MachineCode:
        compiled.append(architecture)
        return MachineCode(architecture, b"code", {})

    monkeypatch.setattr(cuda_export, "compile_source", compile_one)
    part = cuda_export.part_for(["sm_90", "sm_86", "sm_90"])
    table = next(iter(part.prepare(work.code).kernels.values())).code
    assert compiled == ["sm_90", "sm_86"] and table.startswith(b"RaidoCU\0\2\0")
    assert "{86, " in part.write_needs([work.code])
    assert part.devices == "a CUDA device that executes code for sm_90 or sm_86, with a driver of CUDA 13.0 or newer"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [(["sm_90", "sm_70"], "'sm_70'"), (["hopper"], "'hopper'"), ("sm_90", "'sm_90'"), ([], "none"), ([90], "90")],
)
def test_an_unknown_architecture_is_one_error(work: CudaCompilation, tmp_path: Path, wrong: Any, said: str) -> None:
    executable: Any = executable_of(work)
    with pytest.raises(ExportError, match=f"architectures= has {said}\n  takes     a list of"):
        executable.export(tmp_path / "libchosen.so", architectures=wrong)
    assert not list(tmp_path.iterdir())


def test_architectures_are_those_of_cuda(work: CudaCompilation, tmp_path: Path) -> None:
    code = replace(work.code, api="vulkan")
    with pytest.raises(ExportError, match="architectures= is for programs that were compiled for CUDA"):
        export.write_library(tmp_path / "libone.so", [("one", work.signature, code)], architectures=["sm_90"])


def test_a_missing_compiler_is_one_error(
    work: CudaCompilation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(text: str, architecture: str) -> Any:
        raise TargetError('compiling for CUDA needs NVRTC, which is not installed: pip install "raido[cuda]"')

    monkeypatch.setattr(cuda_export, "compile_source", missing)
    with pytest.raises(ExportError, match=r'pip install "raido\[cuda\]"'):
        executable_of(work).export(tmp_path / "libchosen.so")
    assert not list(tmp_path.iterdir())
