"""A compiler of CUDA C in place of NVRTC whose machine code the driver without a GPU runs: many texts in one library.

Machine code is a key. The texts behind the keys are compiled together when `build` is called, before any of them is loaded: a C++ compiler
takes seconds to start, and a program's kernels some hundredths of that.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from cuda_twin import compile_text, twin_source
from fake_driver import FakeDriver, load_driver

from raido.targets.compile import executable_of
from raido.targets.cuda import program
from raido.targets.cuda.compile import CudaCode, kernels_of
from raido.targets.cuda.opened import open_device
from raido.targets.cuda.program import CudaCompilation
from raido.targets.cuda.source.generate import Source

Key = TypeVar("Key")


class TwinCompiler:
    """Keeps the texts that it is given; `build` compiles those that are new."""

    def __init__(self, driver: FakeDriver, folder: Path) -> None:
        self.driver, self.folder = driver, folder
        self.waiting: dict[str, Source] = {}
        self.count = 0

    def make_kernels(self, source: Source, architecture: str) -> CudaCode:
        """Stands in for `raido.targets.cuda.compile.make_kernels`."""
        prefix, self.count = f"t{self.count}_", self.count + 1
        self.waiting[prefix] = source
        code = f"twin of {prefix}".encode() + b"\0"
        return CudaCode(architecture, kernels_of(source, code), {}, source)

    def build(self) -> None:
        """Compiles the texts of which there is no twin yet."""
        library = self.folder / f"twins{self.count}.so"
        library.write_bytes(compile_text(twin_source(self.waiting)))
        for prefix in self.waiting:
            self.driver.register(f"twin of {prefix}", library, prefix)
        self.waiting = {}


@contextmanager
def twin_compiler(driver: FakeDriver) -> Iterator[TwinCompiler]:
    """The compiler, in the place of NVRTC."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        compiler = TwinCompiler(driver, Path(folder))
        patch.setattr(program, "make_kernels", compiler.make_kernels)
        yield compiler


@contextmanager
def executables_of(
    compilations: Mapping[Key, Callable[[], CudaCompilation]], in_flight: int = 1
) -> Iterator[dict[Key, Any]]:
    """The executables of compilations on the device that is the CPU, of whose blocks so many are in flight meanwhile."""
    driver = load_driver()
    with twin_compiler(driver) as compiler:
        made = {key: executable_of(compilation()) for key, compilation in compilations.items()}
        compiler.build()
        driver.set(workers=in_flight)
        yield made
    driver.set(workers=1)
    open_device().close()
