"""Everything that is to be run on a machine with an NVIDIA GPU, by one command: `python benchmarks/gpu.py`.

It holds the corpus and random programs to what they mean, measures the rows of the table beside a copy on the device, CuPy, PyTorch, CUDA C
by hand and raido on Vulkan, as far as they are there, and runs programs under compute-sanitizer. It keeps within its budget of seconds, and
writes what it has found into a file after every step, under the device's name. On a machine without TVM and NVRTC it runs what
`python benchmarks/gpu.py --prepare` has compiled elsewhere.
"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import typer
from gpu_programs import GPU_ROWS, PARTS, Checked, Timed, prepare, read_part
from host import machine
from law import difference, leaves
from measure import check
from rich.console import Console
from rows.gpu import GpuRow
from store import read_rows, write_rows
from test_corpus import check as check_case

import raido as rd
from raido.algo.errors import RaidoError
from raido.targets.cuda.opened import open_device
from raido.targets.cuda.runtime import CudaDevice
from raido.targets.devices.plan import encode_plan, run_plan
from raido.targets.devices.runtime import LoadedKernel, Memory

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "gpu_results.json"
BATCH = 2e-3  # seconds of launches that one sample has at least
MOST = 200  # launches in a sample
COPY = "copy on the device"
TOOLS = ("memcheck", "racecheck")
SANITIZER_CASES = 60
SUMMARY = re.compile(r"=+ (.*SUMMARY: .*)")
console = Console(highlight=False, soft_wrap=True)

Results = dict[str, Any]
Timer = Callable[[int], float]  # seconds of so many runs in a row


@dataclass(frozen=True)
class Library:
    """A library with arrays on the device: `name` is its module, `stream` the handle of its current stream."""

    name: str
    stream: Callable[[Any], int]


LIBRARIES = {
    "CuPy": Library("cupy", lambda cupy: int(cupy.cuda.get_current_stream().ptr)),
    "PyTorch": Library("torch", lambda torch: int(torch.cuda.current_stream().cuda_stream)),
}


# --- programs that are checked


def run_corpus(programs: list[Checked]) -> Results:
    """The programs that do not give what NumPy gives."""

    def fault(program: Checked) -> str:
        try:
            check_case(program.executable(*program.arguments), program.want, not program.exact[0])
        except (AssertionError, RaidoError, MemoryError) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    return all_faults(programs, fault)


def run_law(programs: list[Checked]) -> Results:
    """The random programs that do not give what they mean."""

    def fault(program: Checked) -> str:
        try:
            got: Any = program.executable(*program.arguments)
        except RaidoError as error:
            got = type(error)
        return difference(program.want, leaves(got), program.exact)

    return all_faults(programs, fault)


def all_faults(programs: list[Checked], fault: Callable[[Checked], str]) -> Results:
    wrong = [{"program": program.what, "fault": found} for program in programs if (found := fault(program))]
    return {"programs": len(programs), "wrong": wrong}


# --- rows that are measured


def sides_of(
    row: GpuRow,
    code: Timed,
    inputs: list[np.ndarray],
    want: tuple[np.ndarray, ...],
    device: CudaDevice,
    absent: Results,
) -> Iterator[tuple[str, Timer]]:
    """The contestants of a row, each checked before; `absent` gets the reasons of those that are not there."""
    there = [rd.device_array(array, device.target) for array in inputs]
    call = code.executable.bind(*there)
    call.run()
    hold("raido", row, call.result(), want)
    yield "raido", lambda number: call.time(number) * number
    if row.streams:
        yield COPY, copy_of(traffic_of(inputs, want), device)
    if code.by_hand:
        yield "CUDA by hand", by_hand(row, code, there, want, device)
    for name, library in LIBRARIES.items():
        run = {"CuPy": row.cupy, "PyTorch": row.torch}[name]
        if run is None:
            continue
        try:
            module = importlib.import_module(library.name)
            yield name, by_library(name, module, library.stream(module), run, row, there, want, device)
        except (Exception, SystemExit) as error:  # whatever another library does, the row goes on
            absent[name] = f"{type(error).__name__}: {error}"
    try:
        yield "Vulkan", on_vulkan(row, inputs)
    except (ImportError, RaidoError, MemoryError) as error:
        absent["Vulkan"] = str(error).partition("\n")[0]


def hold(who: str, row: GpuRow, got: Any, want: tuple[np.ndarray, ...]) -> None:
    found = got if isinstance(got, tuple) else (got,)
    check(f"{row.row.what}: {who}", row.row, [np.asarray(one) for one in found], want)


def traffic_of(inputs: Iterable[np.ndarray], want: Iterable[np.ndarray]) -> int:
    """Bytes that a row reads and writes at least."""
    return sum(array.nbytes for array in (*inputs, *want))


def copy_of(traffic: int, device: CudaDevice) -> Timer:
    """A copy on the device that reads and writes so many bytes together."""
    half = traffic // 2
    source, target = Memory(device, half), Memory(device, half)
    return lambda number: device.time(lambda: [target.copy_from(source, half) for _ in range(number)])


def by_hand(row: GpuRow, code: Timed, there: list[Any], want: tuple[np.ndarray, ...], device: CudaDevice) -> Timer:
    """The plan of kernels in CUDA C."""
    loaded = {name: LoadedKernel(device, kernel) for name, kernel in code.by_hand.items()}
    numbers = row.row.sizes(there)
    plan = encode_plan(row.plan, code.by_hand, list(numbers))
    memories = {value.name: array.memory for value, array in zip(code.executable.signature.inputs, there, strict=True)}
    memories["out"] = out = Memory(device, want[0].nbytes)
    start = lambda: run_plan(plan, device, loaded, numbers=numbers, memories=memories)
    start()
    hold("CUDA by hand", row, out.read(np.empty_like(want[0])), want)
    return lambda number: device.time(lambda: [start() for _ in range(number)])


def by_library(
    name: str,
    module: Any,
    stream: int,
    run: Callable[..., Any],
    row: GpuRow,
    there: list[Any],
    want: tuple[np.ndarray, ...],
    device: CudaDevice,
) -> Timer:
    """Another library on the same arrays; its stream is ordered with raido's, whose clock measures both."""
    arrays = [module.from_dlpack(array) for array in there]
    hold(name, row, rd.from_dlpack(run(module, *arrays)).to("cpu"), want)

    def between(number: int) -> None:
        device.let_wait(stream)
        for _ in range(number):
            run(module, *arrays)
        device.wait_for(stream)

    return lambda number: device.time(lambda: between(number))


def on_vulkan(row: GpuRow, inputs: list[np.ndarray]) -> Timer:
    """raido's default on the first Vulkan device; TargetError where that is the CPU."""
    from raido.targets.vulkan.library import find_device

    found = find_device()
    if found.kind == "cpu":
        raise rd.TargetError(f"the Vulkan device is {found.name}, the CPU")
    call = row.row.algorithm.compile("vulkan").bind(*(rd.device_array(a, "vulkan") for a in inputs))
    call.run()
    return lambda number: call.time(number) * number


def run_row(row: GpuRow, code: Timed, device: CudaDevice, scale: int, samples: int) -> Results:
    """Seconds of one run by each side: medians of samples that are taken in turn."""
    inputs, absent = row.row.inputs(scale), Results()
    want = row.row.answers(inputs)
    sides = dict(sides_of(row, code, inputs, want, device, absent))
    numbers = {name: min(MOST, 1 + int(BATCH / max(time(1), 1e-7))) for name, time in sides.items()}
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(samples):
        for name, side in sides.items():
            taken[name].append(side(numbers[name]) / numbers[name])
    return {
        "bytes": traffic_of(inputs, want),
        "seconds": {name: median(times) for name, times in taken.items()},
        "absent": absent,
    }


# --- compute-sanitizer


def sanitize(folder: Path, seconds: float) -> Results:
    """The summaries of compute-sanitizer's tools on a part of the corpus, or why there are none."""
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(program).exists():
        return {"absent": "compute-sanitizer is not installed"}
    found: Results = {}
    for tool in TOOLS:
        with tempfile.TemporaryDirectory() as scratch:
            own = [str(HERE / "gpu.py"), f"--folder={folder}", "--only=corpus", f"--cases={SANITIZER_CASES}"]
            command = [program, f"--tool={tool}", "--error-exitcode=9", sys.executable, *own, f"--out={scratch}/r.json"]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=max(5, seconds / len(TOOLS)), check=False
                )
            except subprocess.TimeoutExpired:
                found[tool] = f"stopped after {seconds / len(TOOLS):.0f} s"
                continue
        words = SUMMARY.findall(done.stdout + done.stderr)
        found[tool] = words[-1] if words else f"exit status {done.returncode}: {(done.stdout + done.stderr)[-500:]}"
    return found


# --- results


def describe(device: CudaDevice, about: Results) -> Results:
    """The device, and whose code ran on it."""
    info = device.device
    return {
        "architecture": info.architecture,
        "driver": info.driver,
        "processors": info.processors,
        "compiled for": about["architecture"],
        "NVRTC": about["nvrtc"],
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d"),
    }


def table(rows: Results) -> str:
    """The rows as Markdown: times, the speed as a share of a copy's, and raido's time over those of others."""
    others = ("CUDA by hand", *LIBRARIES, "Vulkan")
    heads = ["row", "raido, ms", "GB/s", "of a copy", *(f"raido / {name}" for name in others)]
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    for name, found in rows.items():
        if "wrong" in found:
            lines.append(f"| {GPU_ROWS[name].row.what} | {found['wrong']} |{' |' * (len(heads) - 2)}")
            continue
        own, pace = found["seconds"]["raido"], found["bytes"] / found["seconds"]["raido"]
        share = f"{found['seconds'][COPY] / own:.2f}" if COPY in found["seconds"] else ""
        cells = [GPU_ROWS[name].row.what, f"{own * 1e3:.3f}", f"{pace / 1e9:.0f}", share]
        cells += [f"{own / found['seconds'][peer]:.2f}" if peer in found["seconds"] else "" for peer in others]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def run_all(
    folder: Path, only: list[str], out: Path, cases: int | None, scale: int, samples: int, budget: float
) -> Results:
    """Runs the parts in turn, and keeps what each has found; rows and sanitizer get what is left of the budget."""
    begin = time.monotonic()
    try:
        device = open_device()
    except rd.TargetError as error:
        raise SystemExit(f"nothing can be measured here: {error}") from None
    left = lambda: budget - (time.monotonic() - begin)
    found: Results = describe(device, read_part(folder, "about"))

    def keep(part: str, value: Any) -> None:
        found[part] = value
        write_rows(out, read_rows(out) | {device.name: found})

    for part, run in (("corpus", run_corpus), ("law", run_law)):
        if part in only:
            keep(part, run(read_part(folder, part)[:cases]))
            console.print(f"{part}: {found[part]['programs']} programs, {len(found[part]['wrong'])} wrong")
            for each in found[part]["wrong"]:
                console.print(f"{each['program']}\n  {each['fault']}", markup=False)
    if "table" in only:
        rows: Results = {}
        for name, code in read_part(folder, "table").items():
            if left() < budget / 4:
                console.print(f"{name} and what follows: no time is left")
                break
            try:
                rows[name] = run_row(GPU_ROWS[name], code, device, scale, samples)
            except (SystemExit, RaidoError, MemoryError) as error:
                rows[name] = {"wrong": str(error).partition("\n")[0]}
            keep("table", rows)
        console.print(table(rows), markup=False)
    if "sanitizer" in only:
        keep("sanitizer", sanitize(folder, left()))
        console.print(found["sanitizer"])
    return found


def main(
    folder: Annotated[Path, typer.Option(help="where the compiled programs are, or are written to")] = Path(
        "build/gpu"
    ),
    prepare_only: Annotated[bool, typer.Option("--prepare", help="compile the programs, and run nothing")] = False,
    arch: Annotated[str, typer.Option(help="the architecture that they are compiled for")] = "sm_90",
    law: Annotated[int, typer.Option(help="random programs")] = 300,
    only: Annotated[
        list[str] | None, typer.Option(help="corpus, law, table, sanitizer: the parts to run; all, unless named")
    ] = None,
    cases: Annotated[int | None, typer.Option(help="programs of the corpus and of the law at most")] = None,
    scale: Annotated[int, typer.Option(help="divides the sizes of rows")] = 1,
    samples: Annotated[int, typer.Option(help="samples of each side of a row")] = 9,
    budget: Annotated[float, typer.Option(help="seconds that everything may take")] = 540.0,
    out: Annotated[Path, typer.Option(help="the file that keeps the results")] = RESULTS,
) -> None:
    """Compile what is not compiled yet, run it on the first CUDA device, print a table and keep the results."""
    parts = [*PARTS, "sanitizer"]
    if unknown := set(only or ()) - set(parts):
        raise SystemExit(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    if prepare_only or not (folder / "about.pickle").exists():
        prepare(folder, arch, range(law))
    if prepare_only:
        return
    found = run_all(folder, only or parts, out, cases, scale, samples, budget)
    wrong = [each for part in ("corpus", "law") for each in found.get(part, {}).get("wrong", ())]
    raise SystemExit(bool(wrong) or any("wrong" in row for row in found.get("table", {}).values()))


if __name__ == "__main__":
    typer.run(main)
