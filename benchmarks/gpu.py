"""All checks and measurements for a machine with an NVIDIA GPU, by one command: `python benchmarks/gpu.py`.

The command checks the corpus and random programs against the interpreter, measures the rows of the table beside all installed libraries
(`gpu_sides.py`), runs programs under compute-sanitizer, and rows on several threads of the CPU. Parts run step by step in processes of
their own: a step that hangs, or loses the device, costs only itself (`gpu_steps.py`). The command keeps within its budget of seconds, and
writes its findings into a file after every step, under the device's name. On a machine without TVM and NVRTC it runs the code that `python
benchmarks/gpu.py --prepare` has compiled elsewhere.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from gpu_programs import GPU_ROWS, Checked, prepare, read_part
from gpu_ranking import rank
from gpu_sides import BY_HAND, COPY, LIBRARIES, TILED, Results, run_row
from gpu_steps import Message, Step, follow, is_wrong, run_here, tell, tell_so_far, tell_steps
from gpu_tuner import tune
from host import machine
from law import difference, leaves
from measure import check
from rich.console import Console
from rows import ROWS
from store import read_rows, write_rows
from test_corpus import check as check_case

import raido as rd
from raido.algo.errors import RaidoError
from raido.targets.cuda.opened import open_device
from raido.targets.cuda.runtime import CudaDevice

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "gpu_results.json"
TOOLS = ("memcheck", "racecheck")
SANITIZER_CASES = 60
SUMMARY = re.compile(r"=+ (.*SUMMARY: .*)")
SANITIZER = "sanitizer"
SHARES = {"corpus": 0.12, "law": 0.25, "table": 0.68, "ranking": 0.77, "tuner": 0.83, "cpu": 0.89, SANITIZER: 1.0}
"""The parts in their order, and the share of the budget by which each has ended."""
PATIENCE = 90.0  # seconds of a step, in which NumPy computes what it must give, too
console = Console(highlight=False, soft_wrap=True)


# --- steps


def steps_of(
    part: str, folder: Path, cases: int | None, scale: int, samples: int, tell: Callable[[Any], object] = id
) -> list[Step]:
    """The steps of a part, which `prepare` has compiled; those of the table `tell` what they have found so far."""
    programs = read_part(folder, part)
    if part == "corpus":
        return [Step(program.what, lambda program=program: corpus_fault(program)) for program in programs[:cases]]
    if part == "law":
        return [Step(program.what, lambda program=program: law_fault(program)) for program in programs[:cases]]
    if part == "cpu":
        return [
            Step(name, lambda name=name, file=file: run_on_cpu(name, folder / file, scale, samples))
            for name, file in programs.items()
        ]
    device = open_device()
    if part == "ranking":
        return [
            Step(name, lambda name=name, some=some: rank(GPU_ROWS[name], some, device, scale))
            for name, some in programs.items()
        ]
    if part == "tuner":
        return [
            Step(name, lambda name=name, pool=pool: tune(name, pool, device, scale)) for name, pool in programs.items()
        ]
    return [
        Step(name, lambda name=name, code=code: run_row(GPU_ROWS[name], code, device, scale, samples, tell))
        for name, code in programs.items()
    ]


def corpus_fault(program: Checked) -> str:
    """The difference between a program's results and NumPy's, as text; "" if there is none."""
    try:
        check_case(program.executable(*program.arguments), program.want, not program.exact[0])
    except AssertionError as error:
        return f"AssertionError: {error}"
    return ""


def law_fault(program: Checked) -> str:
    """The difference between a random program's results and its meaning, as text; "" if there is none."""
    try:
        got: Any = program.executable(*program.arguments)
    except RaidoError as error:
        if type(error) is not program.want:
            raise
        got = type(error)
    return difference(program.want, leaves(got), program.exact)


def run_on_cpu(name: str, library: Path, scale: int, samples: int) -> Results:
    """Seconds of a row on 1, 2, 4 … threads of the CPU, the least of some calls each."""
    row = ROWS[name]
    executable = rd.load(library)
    set_threads = getattr(ctypes.CDLL(str(library.absolute())), f"{library.stem}_set_threads")
    inputs = row.inputs(scale)
    found = executable(*inputs)
    results = list(found) if isinstance(found, tuple) else [found]
    check(row.what, row, results, row.answers(inputs))
    most, count, seconds = len(os.sched_getaffinity(0)), 1, {}
    while count <= most:
        set_threads(count)
        taken = []
        for _ in range(samples):
            begin = time.perf_counter()
            executable(*inputs)
            taken.append(time.perf_counter() - begin)
        seconds[str(count)] = min(taken)
        count = min(2 * count, most) if count < most else most + 1
    return {"seconds": seconds}


# --- compute-sanitizer


def sanitize(folder: Path, seconds: float) -> Results:
    """The summaries of compute-sanitizer's tools on a part of the corpus, or why there are none."""
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(program).exists():
        return {"absent": "compute-sanitizer is not installed"}
    found: Results = {}
    for tool in TOOLS:
        with tempfile.TemporaryDirectory() as scratch:
            own = [str(HERE / "gpu.py"), f"--folder={folder}", "--only=corpus", f"--cases={SANITIZER_CASES}", "--here"]
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
    """The device, and the origin of the code that ran on it."""
    info = device.device
    return {
        "device": device.name,
        "architecture": info.architecture,
        "driver": info.driver,
        "processors": info.processors,
        "compiled for": about["architecture"],
        "NVRTC": about["nvrtc"],
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d"),
    }


def gathered(part: str, before: Any, name: str, found: Any) -> Any:
    """The findings of a part, with those of one more step."""
    if part not in ("corpus", "law"):
        return (before or {}) | {name: found}
    before = before or {"programs": 0, "wrong": []}
    fault = found["wrong"] if is_wrong(found) else found
    return {
        "programs": before["programs"] + 1,
        "wrong": [*before["wrong"], *([{"program": name, "fault": fault}] if fault else [])],
    }


def table(rows: Results) -> str:
    """The rows as Markdown: times, the speed as a share of a copy's, and raido's time over those of others."""
    others = (BY_HAND, TILED, *LIBRARIES, "Vulkan")
    heads = ["row", "raido, ms", "GB/s", "of a copy", *(f"raido / {name}" for name in others), "other schedules, ms"]
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    for name, found in rows.items():
        if is_wrong(found) or name not in GPU_ROWS:
            what = GPU_ROWS[name].row.what if name in GPU_ROWS else name or "the process"
            lines.append(f"| {what} | {found['wrong']} |{' |' * (len(heads) - 2)}")
            continue
        seconds = found["seconds"]
        own, pace = seconds["raido"], found["bytes"] / seconds["raido"]
        share = f"{seconds[COPY] / own:.2f}" if COPY in seconds else ""
        cells = [GPU_ROWS[name].row.what, f"{own * 1e3:.3f}", f"{pace / 1e9:.0f}", share]
        cells += [f"{own / seconds[peer]:.2f}" if peer in seconds else "" for peer in others]
        more = [
            f"{which}: {seconds[which] * 1e3:.3f}"
            for which in (*GPU_ROWS[name].schedules, *GPU_ROWS[name].warpgroups)
            if which in seconds
        ]
        more += [f"then {found['unfinished']}"] if "unfinished" in found else []
        lines.append(f"| {' | '.join([*cells, '; '.join(more)])} |")
    return "\n".join(lines) + "\n"


def in_short(found: Any) -> str:
    """One line about the findings of a step, for progress output."""
    if isinstance(found, dict) and "rank correlation" in found:
        return f"{len(found['candidates'])} candidates, rank correlation {found['rank correlation']:.2f}"
    if isinstance(found, dict) and "best / default" in found:
        return f"{len(found['records'])} records of {found['candidates']} candidates, best / default {found['best / default']}"
    return str(found or "right")


def scaling(rows: Results) -> str:
    """The speed on threads of the CPU, by that on one."""
    return "".join(
        f"{ROWS[name].what if name in ROWS else 'the process'} on {machine()}: "
        + (
            found["wrong"]
            if is_wrong(found)
            else ", ".join(f"{found['seconds']['1'] / s:.1f} × on {n}" for n, s in found["seconds"].items())
        )
        + "\n"
        for name, found in rows.items()
    )


# --- the command


def run_all(
    folder: Path,
    only: list[str],
    out: Path,
    cases: int | None,
    scale: int,
    samples: int,
    budget: float,
    here: bool,
) -> Results:
    """Runs the parts in turn, and keeps what each step has found. `here`: in this process, which a step may then take with it."""
    begin = time.monotonic()
    found: Results = {}
    own = [str(HERE / "gpu.py"), f"--folder={folder}", f"--scale={scale}", f"--samples={samples}"]
    own += [] if cases is None else [f"--cases={cases}"]

    def keep(part: str, value: Any) -> None:
        found[part] = value
        if "device" in found:
            write_rows(out, read_rows(out) | {found["device"]: found})

    def messages(part: str) -> Iterator[Message]:
        if here:
            yield {"about": describe_here(folder)}
            yield from run_here(steps_of(part, folder, cases, scale, samples))
        else:
            command = [sys.executable, *own, f"--part={part}"]
            yield from follow(lambda k: [*command, f"--begin={k}"], PATIENCE, begin + SHARES[part] * budget)

    for part in (part for part in SHARES if part in only):
        if part == SANITIZER:
            keep(part, sanitize(folder, begin + SHARES[part] * budget - time.monotonic()))
            console.print(found[part], markup=False)
            continue
        for message in messages(part):
            if "about" in message:
                found = message["about"] | found
                continue
            if "device" not in found:
                raise SystemExit(f"nothing can be measured here: {message['found']['wrong']}")
            keep(part, gathered(part, found.get(part), message["name"], message["found"]))
            console.print(
                f"{part}, {message['name'].partition(chr(10))[0][:60]}: {in_short(message['found'])}", markup=False
            )
        if part == "table":
            console.print(table(found.get(part, {})), markup=False)
        if part == "cpu":
            console.print(scaling(found.get(part, {})), markup=False)
    return found


def describe_here(folder: Path) -> Results:
    try:
        return describe(open_device(), read_part(folder, "about"))
    except rd.TargetError as error:
        raise SystemExit(f"nothing can be measured here: {error}") from None


def main(
    folder: Annotated[Path, typer.Option(help="where the compiled programs are, or are written to")] = Path(
        "build/gpu"
    ),
    prepare_only: Annotated[bool, typer.Option("--prepare", help="compile the programs, and run nothing")] = False,
    arch: Annotated[str, typer.Option(help="the architecture that they are compiled for")] = "sm_90",
    law: Annotated[int, typer.Option(help="random programs")] = 300,
    only: Annotated[
        list[str] | None,
        typer.Option(help="corpus, law, table, ranking, cpu, sanitizer: the parts to run; all, unless named"),
    ] = None,
    cases: Annotated[int | None, typer.Option(help="programs of the corpus and of the law at most")] = None,
    scale: Annotated[int, typer.Option(help="divides the sizes of rows")] = 1,
    samples: Annotated[int, typer.Option(help="samples of each side of a row")] = 9,
    budget: Annotated[float, typer.Option(help="seconds that everything may take")] = 540.0,
    out: Annotated[Path, typer.Option(help="the file that keeps the results")] = RESULTS,
    here: Annotated[
        bool, typer.Option("--here", help="run everything in this process, as a debugger wants it")
    ] = False,
    part: Annotated[
        str, typer.Option(help="the one part whose steps this process runs and tells of", hidden=True)
    ] = "",
    begin: Annotated[int, typer.Option(help="the first of them", hidden=True)] = 0,
) -> None:
    """Compile what is not compiled yet, run it on the first CUDA device, print a table and keep the results."""
    if part:
        tell({"about": describe_here(folder)})
        tell_steps(steps_of(part, folder, cases, scale, samples, tell_so_far), begin)
        return
    if unknown := set(only or ()) - SHARES.keys():
        raise SystemExit(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(SHARES)}")
    if prepare_only or not (folder / "about.pickle.gz").exists():
        prepare(folder, arch, range(law))
    if prepare_only:
        return
    found = run_all(folder, only or [*SHARES], out, cases, scale, samples, budget, here)
    wrong = [each for name in ("corpus", "law") for each in found.get(name, {}).get("wrong", ())]
    raise SystemExit(
        bool(wrong)
        or any(
            is_wrong(row) or "unfinished" in row for name in ("table", "cpu") for row in found.get(name, {}).values()
        )
    )


if __name__ == "__main__":
    typer.run(main)
