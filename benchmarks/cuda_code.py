"""raido's machine code for CUDA beside handwritten CUDA C: `python benchmarks/cuda_code.py [ROW …] [--write]`; no GPU is needed.

Both are compiled by NVRTC with the same options. The instructions on the path that does most of the work are counted (one iteration of
the innermost loop that has most of it, or the path through the kernel where no loop has any), and divided by that work.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from machine_paths import Code, Route, disassemble, heaviest_kernel, units
from peers.cuda import source_of
from rich.console import Console
from rows.device import CUDA_ROWS, DeviceRow
from rows.reductions import sgemm
from store import put_between

from raido.targets.cuda.nvrtc import compile_source, version
from raido.targets.cuda.program import CudaCompilation
from raido.targets.cuda.source.generate import NARROW
from raido.targets.target import Target

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
MARKS = ("<!-- CUDA code table -->\n", "<!-- end of CUDA code table -->")
INSTALL = "pip install nvidia-cuda-nvdisasm"
console = Console(highlight=False)


@dataclass(frozen=True)
class Work:
    """The unit that a row's instructions are divided by, in words, and the instructions that do it. `count`: units on the path, where such
    instructions only tell which path that is."""

    unit: str
    of: Callable[[str], int]
    count: int = 0


WORK = {
    "copy": Work("element stored", units("STG")),
    "stencil": Work("element stored", units("STG")),
    "gauss": Work("product", units("FMUL")),
    "reduce": Work("element loaded", units("LDG")),
    "scan": Work("element scanned", units("FADD", "LDG", "STG"), 16),
    "filter": Work("element filtered", units("LDG"), 16),
    "sort": Work("key moved by a digit", units("LDG", "LDS", "STS", "STG"), 16),
    "histogram": Work("element counted", units("ATOMS")),
    "sgemm": Work("multiply-add", units("FFMA")),
    "mandelbrot": Work("product", units("FMUL")),
}
ROWS: dict[str, DeviceRow] = {**CUDA_ROWS, "sgemm": replace(CUDA_ROWS["sgemm"], algorithm=sgemm)}


def own_path(name: str, architecture: str, nvdisasm: str) -> Route:
    """The path of raido's default schedule, in the codes with indices of 32 bits where there are any."""
    work = CudaCompilation(ROWS[name].algorithm.trace(), Target("cuda", arch=architecture), None, {})
    found = disassemble(compile_source(work.text.text, architecture).code, nvdisasm)
    narrow = {
        kernel: code for kernel, code in found.items() if kernel.startswith(NARROW) or NARROW + kernel not in found
    }
    return path_of(narrow, name)


def peer_path(name: str, architecture: str, nvdisasm: str) -> Route:
    """The path of the kernel written by hand."""
    code = compile_source(source_of(name).text, architecture).code
    return path_of(disassemble(code, nvdisasm), name)


def path_of(kernels: dict[str, Code], name: str) -> Route:
    """The path through the kernels of a row, with its units of work."""
    found = heaviest_kernel(kernels, WORK[name].of)
    return replace(found, work=WORK[name].count or found.work)


def table(rows: dict[tuple[str, str], tuple[Route, Route]]) -> str:
    """The counts as Markdown."""
    lines = [
        f"NVRTC {version()}; instructions on the main path, over the work on it.\n",
        "| row | architecture | raido default | by hand | a unit of work | raido / by hand |",
        "| --- | --- | ---: | ---: | --- | ---: |",
    ]
    for (name, architecture), (own, peer) in rows.items():
        lines.append(
            f"| {name} | {architecture} | {_ratio_text(own)} | {_ratio_text(peer)} | {WORK[name].unit} | {each(own) / each(peer):.2f} |"
        )
    return "\n".join(lines) + "\n"


def each(path: Route) -> float:
    """Instructions for a unit of work."""
    return path.instructions / path.work


def _ratio_text(path: Route) -> str:
    return f"{path.instructions} / {path.work}"


def main(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="ROW", help="rows to compile; all when none is named")
    ] = None,
    architecture: Annotated[list[str] | None, typer.Option(help="sm_90 and its like; may be repeated")] = None,
    nvdisasm: Annotated[str | None, typer.Option(help="where it is not on the path")] = shutil.which("nvdisasm"),
    write: Annotated[bool, typer.Option("--write", help="put the table of all rows into docs/benchmarks.md")] = False,
) -> None:
    """Compile both and print the table."""
    if unknown := set(names or ()) - ROWS.keys():
        raise SystemExit(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    if nvdisasm is None:
        raise SystemExit(f"nvdisasm is not installed ({INSTALL})")
    rows = {
        (name, chip): (own_path(name, chip, nvdisasm), peer_path(name, chip, nvdisasm))
        for name in names or ROWS
        for chip in architecture or ["sm_90"]
    }
    text = table(rows)
    console.print(text, soft_wrap=True)
    if write and not names:
        put_between(PAGE, MARKS, text)


if __name__ == "__main__":
    typer.run(main)
