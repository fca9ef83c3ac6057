"""The CPU version of a text of kernels: the same CUDA C compiled for the CPU, a shared library that launches them block by block, thread by
thread.

The library has for each kernel a function `twin_<name>(arguments, grid, block, seed, workers)`, whose arguments are the block of bytes of a
launch.
"""

from __future__ import annotations

import ctypes
import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from raido.algo.graph.dtypes import u32
from raido.targets.cuda.source.generate import Source, prelude
from raido.targets.cuda.source.values import memory_type
from raido.targets.devices.kernel import Argument

HERE = Path(__file__).parent
_FLAGS = "-std=c++17 -O0 -w -fPIC -shared -pthread -ffp-contract=off -fno-strict-aliasing -fno-gnu-unique -U_FORTIFY_SOURCE -Wl,-z,nodelete"
_SHARED = re.compile(r"__shared__ alignas\(16\) (\w+) (\w+)\[(\d+)\];")
_CARVED = "extern __shared__ __align__(16) u8 raido_shared[];"


def twin_source(sources: Mapping[str, Source]) -> str:
    """C++ for the CPU of several texts; the names of each text's twins begin with its prefix, by which they are told apart."""
    parts = ['#include "cuda_on_cpu.h"', prelude()]
    for prefix, source in sources.items():
        kernels = re.split(r'(?=extern "C" __global__)', source.body)
        body = "\n".join(map(_with_rubbish, kernels)).replace('extern "C" __global__', "__global__")
        names = [(name, k.arguments) for k in source.kernels for name in (k.name, k.narrow) if name]
        wrappers = "".join(_wrapper(prefix, name, arguments) for name, arguments in names)
        parts.append(f"namespace text_{prefix} {{\n{body}\n{wrappers}}}")
    return "\n".join(parts)


def _with_rubbish(kernel: str) -> str:
    """Arrays of a block in memory that is rubbish when the block begins: what a block has left another never sees."""
    used = 0

    def place(match: re.Match[str]) -> str:
        nonlocal used
        made_of, name, length = match.groups()
        start, used = used, used + -(-int(length) * 8 // 16) * 16
        return f"{made_of}* const {name} = ({made_of}*)(on_cpu::shared + {start});"

    return _SHARED.sub(place, kernel).replace(_CARVED, "u8* const raido_shared = on_cpu::shared;")


def _wrapper(prefix: str, name: str, arguments: Sequence[Argument]) -> str:
    values = []
    for argument in arguments:
        made_of = argument.dtype if argument.dtype.bits >= 32 else u32
        kind = f"{memory_type(argument.dtype)}*" if argument.pointer else made_of.name
        values.append(f"*({kind}*)(arguments + {argument.offset})")
    return f"""
extern "C" void twin_{prefix}{name}(char* arguments, const unsigned* grid, const unsigned* block, unsigned seed, int workers) {{
  on_cpu::launch([=] {{ {name}({", ".join(values)}); }}, {{grid[0], grid[1], grid[2]}}, {{block[0], block[1], block[2]}}, seed, workers);
}}
"""


@functools.cache
def find_compiler() -> str:
    found = shutil.which("g++")
    if found is None:
        pytest.skip("g++ is not installed: kernels for CUDA are tested on the CPU, as C++")
    return found


def compile_twin(source: Source, defined: str = "") -> bytes:
    """The shared library, with a name defined for the prelude; the test is skipped where there is no C++ compiler."""
    return compile_text((f"#define {defined}\n" if defined else "") + twin_source({"": source}))


@functools.cache
def compile_text(text: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "twin.cpp").write_text(text)
        command = [find_compiler(), *_FLAGS.split(), f"-I{HERE}", "twin.cpp", "-o", "twin.so"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:4000]
        return (Path(folder) / "twin.so").read_bytes()


class Twin:
    """A loaded twin."""

    def __init__(self, source: Source, defined: str = "") -> None:
        self.kernels = {kernel.name: kernel for kernel in source.kernels}
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(compile_twin(source, defined))
            file.flush()
            self.library = ctypes.CDLL(file.name)

    def launch(self, name: str, grid: Sequence[int], given: Sequence[Any], seed: int = 1, workers: int = 1) -> None:
        """Runs a kernel on arrays, which it changes, and scalars."""
        kernel = self.kernels[name]
        block = bytearray(max(1, kernel.argument_bytes))
        for argument, value in zip(kernel.arguments, given, strict=True):
            if argument.pointer:
                data = int(value.ctypes.data).to_bytes(8, "little")
            else:
                kind = np.dtype("u4") if argument.dtype.bits == 1 else argument.dtype.numpy
                data = np.asarray(value, kind).tobytes()
            block[argument.offset : argument.offset + len(data)] = data
        axes = ctypes.c_uint32 * 3
        memory = (ctypes.c_char * len(block)).from_buffer(block)
        getattr(self.library, f"twin_{name}")(memory, axes(*grid), axes(*kernel.block), seed, workers)
