"""The long run of a differential test: `python tests/laws/fuzz.py --programs 50000 --first 1000000`; `--against numpy` for the test against
NumPy, `--against vulkan` for the test of devices, under Vulkan's validation layer.

Ranges of seeds are checked in order, each in a process of its own, and recorded in `done.txt` of the output folder, so that an interrupted
run, or one after a fix, resumes where it stopped. Counter-examples are reduced by
dropping statements and directives, and written to a file each.
"""

from __future__ import annotations

import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor, as_completed
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]

import numpy_law.law  # noqa: E402
from device_law import check_validated as check_on_device  # noqa: E402
from law import Shape, check, shape_of  # noqa: E402

SLICE = 250


class Against(str, Enum):
    """The other side: raido's ways to run a program on the CPU, NumPy, or a Vulkan device."""

    itself = "itself"
    numpy = "numpy"
    vulkan = "vulkan"


def check_slice(first: int, count: int, out: Path, every: int, against: Against) -> None:
    """Checks these seeds, and writes a line for the slice when all of them are done."""
    hold = {Against.itself: check, Against.numpy: numpy_law.law.check, Against.vulkan: check_on_device}[against]
    runs = broken = 0
    start = time.process_time()
    for seed in range(first, first + count):
        try:
            runs += hold(seed, compiled=seed % every == 0)
        except BaseException as error:  # noqa: PERF203
            if isinstance(error, KeyboardInterrupt):
                raise
            broken += 1
            told = narrow(seed, seed % every == 0) if against is Against.itself else traceback.format_exc()
            (out / f"{seed}.txt").write_text(told)
            print(
                f"{seed}: {type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}", flush=True
            )
    with (out / "done.txt").open("a") as done:
        print(first, count, runs, broken, f"{time.process_time() - start:.1f}", file=done)


def narrow(seed: int, compiled: bool) -> str:
    """The smallest form of a counter-example that still fails: fewest statements, then fewest steps."""
    shape = shape_of(seed)
    for statements in range(1, shape.statements + 1):
        for steps in range(shape.steps + 1):
            try:
                check(seed, Shape(statements, steps, shape.grammar), compiled=compiled)
            except BaseException:  # noqa: PERF203
                return f"seed {seed}, statements {statements}, steps {steps}\n{traceback.format_exc()}"
    return f"seed {seed}: does not fail a second time\n{traceback.format_exc()}"


def main(
    programs: Annotated[int, typer.Option(help="how many programs")] = 2000,
    first: Annotated[int, typer.Option(help="the first seed")] = 0,
    workers: Annotated[int, typer.Option(help="processes at a time")] = 2,
    every: Annotated[int, typer.Option(help="compile one program in so many; the others are interpreted")] = 1,
    out: Annotated[Path, typer.Option(help="where counter-examples and progress are written")] = Path("out/fuzz"),
    against: Annotated[
        Against, typer.Option(help="the law: raido's ways to run a program, NumPy, or Vulkan")
    ] = Against.itself,
    slices: Annotated[int, typer.Option(help="stop after so many slices; 0: after all")] = 0,
    here: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Check that many random programs and count; go on where an earlier run stopped."""
    out.mkdir(parents=True, exist_ok=True)
    if here:
        check_slice(first, programs, out, every, against)
        return
    finished = {line.split()[0] for line in progress(out)}
    starts = [k for k in range(first, first + programs, SLICE) if str(k) not in finished]
    with ThreadPoolExecutor(workers) as pool:
        jobs = {
            pool.submit(in_its_own_process, k, min(SLICE, first + programs - k), every, out, against): k
            for k in starts[: slices or None]
        }
        for job in as_completed(jobs):
            if job.result():
                print(f"the slice from {jobs[job]} ended with exit status {job.result()}", flush=True)
    rows = [[float(n) for n in line.split()[1:]] for line in progress(out)]
    count, runs, broken, seconds = (sum(column) for column in zip(*rows, strict=True)) if rows else (0, 0, 0, 0)
    print(f"{count:.0f} programs, {runs:.0f} comparisons, {broken:.0f} broken, {seconds:.0f} s of one core")
    raise SystemExit(1 if broken or len(rows) * SLICE < programs else 0)


def progress(out: Path) -> list[str]:
    """The slices that are done: first seed, programs, comparisons, counter-examples, seconds."""
    done = out / "done.txt"
    return done.read_text().splitlines() if done.exists() else []


def in_its_own_process(first: int, count: int, every: int, out: Path, against: Against) -> int:
    """Runs one slice; its exit status."""
    options = [
        f"--programs={count}",
        f"--first={first}",
        f"--every={every}",
        f"--out={out}",
        f"--against={against.value}",
        "--here",
    ]
    return subprocess.run([sys.executable, __file__, *options], check=False).returncode


if __name__ == "__main__":
    typer.run(main)
