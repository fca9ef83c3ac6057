"""The machine code of programs under their default schedules: no spills, shared bytes as planned, and local memory only for arrays of a
thread with varying indices.

Every kernel of the corpus is compiled by NVRTC for every architecture; its registers are listed. Where `nvdisasm` is installed
(`pip install nvidia-cuda-nvdisasm`, or its path), instructions are counted too: 16-byte accesses, fused multiply-adds, barriers.

    python tests/cuda_on_cpu/kernel_shapes.py [PROGRAM …] [--architecture sm_90] [--nvdisasm PATH]
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

here = Path(__file__).resolve().parent
sys.path[:0] = [str(here), str(here.parent), str(here.parent / "algo")]

from corpus import CASES, Case  # noqa: E402

from raido.targets.cuda.nvrtc import MachineCode, Resources, compile_source  # noqa: E402
from raido.targets.cuda.program import CudaCompilation  # noqa: E402
from raido.targets.cuda.source.generate import NARROW, STATIC_SHARED  # noqa: E402
from raido.targets.devices import tir  # noqa: E402
from raido.targets.target import Target  # noqa: E402

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100")
PROGRAMS: dict[str, Case] = {case.algorithm.name: case for case in reversed(CASES)}
_FUNCTION = re.compile(r"^\.text\.(\w+):$")
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9.]*(?:\.[\w.]+)?)")


@dataclass(frozen=True)
class Shape:
    """A kernel compiled for an architecture, and what is wrong with it."""

    program: str
    kernel: str
    architecture: str
    resources: Resources
    faults: tuple[str, ...]
    code: bytes


def compilation(name: str, architecture: str) -> CudaCompilation:
    """A program of the corpus under its default schedule for an architecture."""
    case = PROGRAMS[name]
    return CudaCompilation(case.algorithm.trace(*case.arguments), Target("cuda", arch=architecture), None, {})


def shapes(name: str, architecture: str) -> Iterator[Shape]:
    """The kernels of a program of the corpus."""
    work = compilation(name, architecture)
    if not work.functions:
        return
    made: MachineCode = compile_source(work.text.text, architecture)
    planned = {kernel.name: kernel.shared_bytes for kernel in work.text.kernels}
    for kernel, used in made.resources.items():
        plain = kernel.removeprefix(NARROW)
        faults = tuple(faults_of(used, planned[plain], has_indexed_arrays(work.functions[plain])))
        yield Shape(name, kernel, architecture, used, faults, made.code)


def faults_of(used: Resources, planned: int, indexed_arrays: bool) -> Iterator[str]:
    """What a kernel takes of the hardware beside what its schedule says."""
    declared = planned if planned <= STATIC_SHARED else 0
    if used.spill_bytes:
        yield f"{used.spill_bytes} bytes of spills"
    if used.local_bytes and not indexed_arrays:
        yield f"{used.local_bytes} bytes of local memory, and no array of a thread at indices that vary"
    if used.shared_bytes != declared:
        yield f"{used.shared_bytes} bytes of shared memory instead of {declared}"


def has_indexed_arrays(function: Any) -> bool:
    """Whether a kernel has arrays of a thread that it reaches at indices which are no constants: the compiler keeps these in memory."""
    nodes = list(tir.walk(function.body))
    allocated = (node.buffer for node in nodes if tir.kind(node) == "AllocBuffer")
    own = {buffer for buffer in allocated if not str(buffer.scope()).startswith("shared")}
    reached = (node for node in nodes if tir.kind(node) in ("BufferLoad", "BufferStore") and tir.buffer_of(node) in own)
    places = (index.base if tir.kind(index) == "Ramp" else index for node in reached for index in node.indices)
    return any(tir.kind(place) != "IntImm" for place in places)


def count_instructions(code: bytes, nvdisasm: str) -> dict[str, Counter[str]]:
    """For each kernel of machine code the instructions that it has, by name."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "k.cubin").write_bytes(code)
        command = [nvdisasm, "-c", "-ndf", "k.cubin"]
        text = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    found: dict[str, Counter[str]] = {}
    kernel: Counter[str] = Counter()
    for line in text.splitlines():
        if match := _FUNCTION.match(line):
            kernel = found[match[1]] = Counter()
        elif match := _INSTRUCTION.match(line):
            kernel[match[1]] += 1
    return found


def summary(instructions: Counter[str]) -> str:
    """All instructions but padding, and those of a few kinds."""

    def named(*words: str) -> int:
        return sum(n for name, n in instructions.items() if name.startswith(words[0]) and all(w in name for w in words))

    wide = named("LDG", ".128") + named("STG", ".128")
    counts = {
        "instructions": instructions.total() - named("NOP"),
        "16-byte accesses": wide,
        "fused": named("FFMA") + named("DFMA"),
        "barriers": named("BAR"),
        "local": named("LDL") + named("STL"),
        "64-bit integer": named("IMAD.WIDE") + named("IADD3.X") + named("IADD.64"),
    }
    return ", ".join(f"{n} {name}" for name, n in counts.items())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    parser.add_argument("--architecture", action="append", choices=ARCHITECTURES)
    parser.add_argument("--nvdisasm", default=shutil.which("nvdisasm"), metavar="PATH")
    options = parser.parse_args(arguments)
    if unknown := set(options.programs) - PROGRAMS.keys():
        raise SystemExit(f"no program of the corpus: {', '.join(sorted(unknown))}")
    kernels = wrong = most = 0
    for name in options.programs or PROGRAMS:
        for architecture in options.architecture or ARCHITECTURES:
            for shape in shapes(name, architecture):
                counted = count_instructions(shape.code, options.nvdisasm) if options.nvdisasm else {}
                words = f"; {summary(counted[shape.kernel])}" if counted else ""
                said = f"  WRONG: {'; '.join(shape.faults)}" if shape.faults else ""
                print(
                    f"{architecture} {name} {shape.kernel}: {shape.resources.registers} registers{words}{said}",
                    flush=True,
                )
                kernels, wrong = kernels + 1, wrong + bool(shape.faults)
                most = max(most, shape.resources.registers)
    print(f"{kernels} kernels, {most} registers at most, {wrong} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
