"""The time from a Python function to callable code, in milliseconds, each step apart: `python benchmarks/compile_speed.py [PROGRAM …]`.

Every program is compiled in a process of its own, which has imported everything and compiled another program before: the price in a session
of one more program. `warm` is the same call in another process, which finds the code on disk. `with imports` is the time of
this process from its start to its end. Times are those of one processor (`time.process_time`), the least of `--runs`, so that other
work on the machine disturbs them little; `warm` and `with imports` wait for the disk, too, and are seconds of the clock.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import reduce
from operator import add
from typing import Any

import raido as rd

FIVE = [(0, 0), (0, -1), (0, 1), (-1, 0), (1, 0)]
SQUARE = [(dy, dx) for dy in range(-2, 3) for dx in range(-2, 3)]
PHASES = ("trace", "stages", "complete", "lower", "gang", "tir", "llvm", "load")


@rd.algorithm
def row_sums(a: rd.f32["h", "w"]):
    return rd.sum(a, axis=1)


@rd.algorithm
def product(a: rd.f32["n", "k"], b: rd.f32["k", "m"]):
    return a @ b


@rd.algorithm
def five_points(a: rd.f32["h", "w"]):
    root = rd.sqrt(a, name="root")
    return rd.stencil(lambda p: reduce(add, [p[t] for t in FIVE]) * 0.2, root, boundary="clamp", name="out")


@rd.algorithm
def ten_stages(a: rd.f32["h", "w"]):
    for k in range(2):
        a = smoothed(a, k)
    return a


@rd.algorithm
def chain_32(a: rd.u16["h", "w"]):
    for k in range(32):
        weighted = lambda p: reduce(add, [p[dy, dx] * rd.u16((dx + 3) * (dy + 3)) for dy, dx in SQUARE])
        a = rd.stencil(weighted, a, boundary="clamp", name=f"stage_{k}")
    return a


@rd.algorithm
def stages_250(a: rd.f32["h", "w"]):
    for k in range(50):
        a = smoothed(a, k)
    return a


def smoothed(a: Any, k: int) -> Any:
    """Five stages: a blur along both axes, its loss against the input, the loss of each row, and the blur with a part of the loss added
    back."""
    rows = rd.stencil(lambda p: (p[0, -1] + p[0, 0] + p[0, 1]) / 3, a, boundary="clamp", name=f"rows_{k}")
    cols = rd.stencil(lambda p: (p[-1, 0] + p[0, 0] + p[1, 0]) / 3, rows, boundary="clamp", name=f"cols_{k}")
    lost = rd.subtract(a, cols, name=f"lost_{k}")
    loss = rd.sum(abs(lost), axis=1, keepdims=True, name=f"loss_{k}")
    return rd.add(cols, lost / (1 + loss), name=f"put_back_{k}")


PROGRAMS = {each.name: each for each in (row_sums, product, five_points, ten_stages, chain_32, stages_250)}


@rd.algorithm
def other(a: rd.f32["n"]):
    return a * 2 + 1


def cold(algorithm: rd.Algorithm) -> dict[str, float]:
    """Milliseconds of each step; the code is left in the cache of this process."""
    from raido.schedule.stages.form_stages import form_stages
    from raido.targets.compile import Compilation, compile_program, executable_of

    compile_program(other.trace(), use_cache=False)
    times: dict[str, float] = {}

    def timed(phase: str, action: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = action()
        times[phase] = 1000 * (time.process_time() - start)
        return result

    gc.collect()
    program = timed("trace", algorithm.trace)
    graph = timed("stages", lambda: form_stages(program))
    work = Compilation(program, rd.Target(), rd.Schedule(graph), {})
    timed("complete", lambda: work.schedule)
    timed("lower", lambda: work.nest)
    timed("gang", lambda: work.gang)
    timed("tir", lambda: work.functions)
    timed("llvm", lambda: work.object_bytes)
    timed("load", lambda: executable_of(work))
    return times


def warm(algorithm: rd.Algorithm) -> dict[str, float]:
    """Milliseconds of a call of `compile` that finds the code on disk, of the clock."""
    other.compile()
    start = time.perf_counter()
    algorithm.compile()
    return {"warm": 1000 * (time.perf_counter() - start)}


def measure(name: str, runs: int) -> dict[str, float]:
    """The least of some runs, each in processes of its own."""
    found: list[Mapping[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"RAIDO_CACHE_DIR": folder}
        child(name, "fill", environment)
        for _ in range(runs):
            times = child(name, "cold", environment)
            times["in all"] = sum(times[phase] for phase in PHASES)
            start = time.perf_counter()
            times |= child(name, "warm", environment)
            found.append(times | {"with imports": 1000 * (time.perf_counter() - start)})
    return {phase: min(times[phase] for times in found) for phase in found[0]}


def child(name: str, what: str, environment: Mapping[str, str]) -> dict[str, float]:
    """The output of a process of its own."""
    command = [sys.executable, __file__, name, "--in-this-process", what]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def fill(algorithm: rd.Algorithm) -> dict[str, float]:
    """Puts the code into the cache."""
    other.compile()
    algorithm.compile()
    return {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", choices=[[], *PROGRAMS], metavar="PROGRAM", help=", ".join(PROGRAMS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--in-this-process", choices=("fill", "cold", "warm"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.in_this_process:
        print(
            json.dumps({"fill": fill, "cold": cold, "warm": warm}[given.in_this_process](PROGRAMS[given.programs[0]]))
        )
        return
    heads = ("program", *PHASES, "in all", "warm", "with imports")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name in given.programs or PROGRAMS:
        times = measure(name, given.runs)
        print(f"| {name} | {' | '.join(f'{times[phase]:.0f}' for phase in heads[1:])} |", flush=True)


if __name__ == "__main__":
    main()
