"""Small programs for tests of tuning, with made-up measurements, and objects in C that misbehave as no compiled program should."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import raido as rd
from raido.autotune.measure.inputs import made_up_inputs
from raido.autotune.measure.local import Task
from raido.autotune.measure.measurement import Limits, Protocol
from raido.targets.compile import Compilation
from raido.targets.signature import Signature
from raido.targets.target import Target

SIZES = {"n": 1000}
QUICK = Protocol(runs=3, agree=2, least=0, seconds=0.02, rounds=3, final_least=0)


@rd.algorithm
def double(a: rd.f32["n"]):
    return (a * 2).named("out")


def completed(schedule: rd.Schedule, sizes: dict[str, int] = SIZES) -> str:
    """A schedule with its defaults written out for this machine, as JSON."""
    return schedule.complete(Target().machine, sizes).to_json()


def any_size(algorithm: Any = double) -> Signature:
    """How code that serves all sizes is called."""
    return Compilation(algorithm.trace(), Target(), None, {}).signature


def task(algorithm: Any = double, sizes: dict[str, int] = SIZES, limits: Limits | None = None) -> Task:
    """What is common to all candidates of an algorithm, on inputs that are made up."""
    program = algorithm.trace()
    inputs = made_up_inputs(program, any_size(algorithm), sizes)
    return Task(program, Target(), inputs, completed(algorithm.schedule(), sizes), limits or Limits(), QUICK)


# Bodies of `int raido_double(float* a, int64_t n, float* out, void* fault)`, by what becomes of whoever runs them.
BODIES = {
    "crash": "*(volatile int*)8 = 1; return 0;",
    "hang": 'for (;;) { __asm__ volatile(""); }',
    "memory": "return malloc(1ull << 46) ? 0 : -1;",
    "wrong": "for (int64_t i = 0; i < n; ++i) out[i] = 2 * a[i]; out[n - 1] += 1; return 0;",
    "fault": "*(int32_t*)fault = 1; return 1;",
    "exit": "_exit(3);",
}


def object_of(body: str, folder: Path) -> bytes:
    """The object of a function with the interface of `double`."""
    source, target = folder / "candidate.c", folder / "candidate.o"
    source.write_text(
        "#include <stdint.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
        f"int32_t raido_double(float* a, int64_t n, float* out, void* fault) {{ {body} }}\n"
    )
    subprocess.run(["cc", "-O1", "-fPIC", "-c", source, "-o", target], check=True)
    return target.read_bytes()
