"""Halide's autoschedulers on the Halide programs of the benchmarks: each in a process of its own, since some abort or never end.

`python -m tuners.autoschedulers ROW NAME FILE SHAPES` is that process: it schedules, keeps the pipeline in FILE, compiles and runs it
once, and prints the processor time of scheduling and of compiling, which other work on the machine does not affect.
"""

from __future__ import annotations

import itertools
import json
import resource
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from peers import halide
from peers.contestant import THREADS, Arena, Contestant

from tuners.subjects import SUBJECTS, aligned

AUTOSCHEDULERS = ("Mullapudi2016", "Adams2019", "Li2018")
HERE = Path(__file__).resolve().parent.parent
LIMIT = 120  # seconds of a processor for scheduling, compiling and one run
STALLED = 900.0  # seconds after which one is ended that waits for something


def autoschedule(name: str, scheduler: str, folder: Path, shapes: tuple[list[Any], list[Any]]) -> dict[str, Any]:
    """Runs an autoscheduler: its seconds, or how it failed."""
    file = folder / f"{scheduler}.hlpipe"
    file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tuners.autoschedulers", name, scheduler, str(file), json.dumps(shapes)]
    try:
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=STALLED, check=False)
    except subprocess.TimeoutExpired:
        return {"failure": "stalls"}
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    if done.returncode == -signal.SIGXCPU:
        return {"failure": f"not done in {LIMIT} s"}
    said = [line for line in done.stderr.splitlines() if line.strip()]
    died = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit {done.returncode}"
    return {"failure": f"{died}: {said[-1].strip()[:200]}" if said else died}


def contestant(arena: Arena, scheduler: str, folder: Path) -> Contestant:
    """An autoscheduler's schedule of a row, compiled here for the arena's arrays."""
    program = halide.unscheduled(arena)
    if program is None:
        raise SystemExit(f"{arena.name} has no program in Halide")
    call = program.restore((folder / f"{scheduler}.hlpipe").read_bytes())
    return halide.contestant(arena, scheduler, "", call)


def main(name: str, scheduler: str, file: str, text: str) -> None:
    """Schedules, compiles and runs once."""
    inputs, room = ([aligned(tuple(shape), kind) for shape, kind in part] for part in json.loads(text))
    for array in (*inputs, *room):
        array.fill(1)
    with ExitStack() as cleanup:
        arena = Arena(name, SUBJECTS[name], inputs, room, None, cleanup)
        program = halide.unscheduled(arena)
        if program is None:
            raise SystemExit(f"{name} has no program in Halide")
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 1))
        times = [time.process_time()]
        Path(file).write_bytes(program.autoschedule(scheduler, THREADS))
        times.append(time.process_time())
        call = contestant(arena, scheduler, Path(file).parent).call
        times.append(time.process_time())
        call()
    seconds, compiling = (round(later - earlier, 3) for earlier, later in itertools.pairwise(times))
    print(json.dumps({"seconds": seconds, "compile": compiling}))


if __name__ == "__main__":
    main(*sys.argv[1:])
