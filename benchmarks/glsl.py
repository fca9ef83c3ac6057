"""raido's default on a Vulkan device beside handwritten GLSL: `python benchmarks/glsl.py [ROW …] [--write]`.

Both run on the same device through the same runtime, on arrays that stay there; every result is checked against NumPy first. A sample
records a program's launches 40 times and waits once; the samples of both sides are taken in turn, and their medians are compared.
`--write` puts the table into docs/benchmarks.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import typer
from host import machine
from measure import PAUSE, others
from peers.glsl import INSTALL, compile_shader, unavailable
from rich.console import Console
from rows.device import DEVICE_ROWS, DeviceRow
from store import put_table

import raido as rd
from raido.algo.graph.expr import SizeVar
from raido.targets.devices.plan import encode_plan, run_plan
from raido.targets.devices.runtime import LoadedKernel, Memory, OpenDevice
from raido.targets.vulkan.opened import open_device

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
MARKS = ("<!-- GLSL table -->\n", "<!-- end of GLSL table -->")
RESUBMITS = 40  # runs of a sample, which is waited for once
LEAST = 5  # samples that a row has, however long they take
console = Console(highlight=False)


@dataclass(frozen=True)
class Side:
    """A side of a row: `start` records its launches once, `result` waits and gives what the last of them made."""

    start: Callable[[], object]
    result: Callable[[], np.ndarray]


@dataclass(frozen=True)
class Outcome:
    """Seconds of one run by raido and by GLSL, medians of so many samples each, and what other processes had of a processor."""

    own: float
    peer: float
    samples: int
    disturbance: float


def raido_side(row: DeviceRow, inputs: list[np.ndarray], device: OpenDevice) -> Side:
    """The default schedule."""
    call = row.algorithm.compile("vulkan").bind(*(rd.device_array(a, device.target) for a in inputs))
    return Side(call.start, lambda: np.asarray(call.result()))


def glsl_side(row: DeviceRow, inputs: list[np.ndarray], want: np.ndarray, device: OpenDevice) -> Side:
    """The kernels written by hand."""
    parameters, numbers = row.algorithm.trace().parameters, dict[str, int]()
    for parameter, array in zip(parameters, inputs, strict=True):
        numbers |= {
            size.name: n for size, n in zip(parameter.shape, array.shape, strict=True) if isinstance(size, SizeVar)
        }
    names = sorted({each.kernel for each in row.plan if hasattr(each, "kernel")})
    kernels = {name: compile_shader(name) for name in names}
    loaded = {name: LoadedKernel(device, kernel) for name, kernel in kernels.items()}
    plan = encode_plan(row.plan, kernels, list(numbers))
    memories = {"out": Memory(device, want.nbytes)}
    for parameter, array in zip(parameters, inputs, strict=True):
        memories[parameter.name] = Memory(device, array.nbytes)
        memories[parameter.name].write(array)
    start = lambda: run_plan(plan, device, loaded, numbers=numbers, memories=memories)
    return Side(start, lambda: memories["out"].read(np.empty_like(want)))


def run_row(row: DeviceRow, device: OpenDevice, samples: int, patience: float) -> Outcome:
    """Both sides' times; SystemExit where a result is wrong. After `patience` seconds no more samples are taken than a row needs."""
    inputs = row.inputs()
    want = np.asarray(row.answer(*inputs))
    sides = (raido_side(row, inputs, device), glsl_side(row, inputs, want, device))
    for name, side in zip(("raido", "GLSL"), sides, strict=True):
        side.start()
        if not np.array_equal(side.result(), want):
            raise SystemExit(f"{row.what}: {name}'s result is wrong")
    begin, before = time.perf_counter(), others()
    times: list[tuple[float, ...]] = []
    while len(times) < samples and (len(times) < LEAST or time.perf_counter() - begin < patience):
        times.append(tuple(sample(side, device) for side in sides))
    disturbance = (others() - before) / (time.perf_counter() - begin)
    own, peer = (median(column) for column in zip(*times, strict=True))
    return Outcome(own, peer, len(times), disturbance)


def sample(side: Side, device: OpenDevice) -> float:
    """Seconds of one run, by a sample."""
    time.sleep(PAUSE)
    start = time.perf_counter()
    for _ in range(RESUBMITS):
        side.start()
    device.finish()
    return (time.perf_counter() - start) / RESUBMITS


def table(outcomes: dict[str, Outcome], device: OpenDevice) -> str:
    """The outcomes as Markdown."""
    worst = max(outcome.disturbance for outcome in outcomes.values())
    lines = [
        f"{device.name}, on {machine()}, {time.strftime('%Y-%m-%d')}: milliseconds of one run, medians of interleaved samples of "
        f"{RESUBMITS} runs each. Other processes had at most {worst:.0%} of a processor.\n",
        "| row | raido default | GLSL | raido / GLSL | samples |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {DEVICE_ROWS[name].what} | {o.own * 1e3:.3f} | {o.peer * 1e3:.3f} | {o.own / o.peer:.2f} | {o.samples} |"
        for name, o in outcomes.items()
    ]
    return "\n".join(lines) + "\n"


def main(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="ROW", help="rows to run; all when none is named")
    ] = None,
    samples: Annotated[int, typer.Option(help="interleaved samples of a row")] = 40,
    patience: Annotated[float, typer.Option(help="seconds that a row is measured for, at most")] = 30.0,
    write: Annotated[bool, typer.Option("--write", help="put the table of all rows into docs/benchmarks.md")] = False,
) -> None:
    """Run the comparison and print the table."""
    if unknown := set(names or ()) - DEVICE_ROWS.keys():
        raise SystemExit(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(DEVICE_ROWS)}")
    if lacking := unavailable():
        raise SystemExit(f"{', '.join(lacking)} is not installed ({INSTALL})")
    device, outcomes = open_device(), dict[str, Outcome]()
    for name in names or DEVICE_ROWS:
        outcomes[name] = o = run_row(DEVICE_ROWS[name], device, samples, patience)
        console.print(
            f"{name:12} raido {o.own * 1e3:8.3f} ms   GLSL {o.peer * 1e3:8.3f} ms   ratio {o.own / o.peer:.2f}"
        )
    text = table(outcomes, device)
    console.print(text, soft_wrap=True)
    if not write:
        return
    worst = max(outcomes.values(), key=lambda outcome: outcome.disturbance).disturbance
    put_table(PAGE, MARKS, text, set(outcomes) == set(DEVICE_ROWS), worst)


if __name__ == "__main__":
    typer.run(main)
