"""Default schedules at twenty sizes around each row of the table: `python benchmarks/neighbours.py [ROW …] [--write]`.

The candidates of a row are the default schedules for each of these sizes, and the one for unknown sizes. At each size all candidates run in
turn, on the same arrays: the default of that size should be at most 1.1 times as slow as the best of them. The second figure is the time
per element of the inputs at the slowest size, divided by the median over all sizes: it shows sizes whose rows conflict in a cache set, or
leave a tail. Executables are compiled for any sizes, so that a candidate is one binary.
"""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

os.environ.setdefault("RAIDO_NUM_THREADS", "2")

import numpy as np
import typer
from host import machine
from measure import PAUSE, others
from rich.console import Console
from rows import ROWS
from rows.row import Row, aligned
from store import put_table

import raido as rd
from raido.algo.graph.expr import SizeVar
from raido.autotune.space import key_of
from raido.targets.target import Target

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
MARKS = ("<!-- neighbours table -->\n", "<!-- end of neighbours table -->")
AROUND = 20  # sizes of a row
SMALL = 16  # a shorter axis is part of the program: a point, a colour
BOUND = {
    "spmv",
    "segments",
}  # rows in which the values of one array say how long others are: theirs cannot be stretched
AGAIN = 1.05  # a default this far behind is measured once more, with four times as many turns
console = Console(highlight=False)
Sizes = dict[str, int]


@dataclass(frozen=True)
class Found:
    """A row's outcome: its sizes and how many candidates it has; by size, the default's time over the best candidate's, and the seconds for an
    element of the inputs."""

    sizes: Sizes
    candidates: int
    behind: dict[str, float]
    per_element: dict[str, float]


def sizes_around(sizes: Sizes, line: int) -> list[Sizes]:
    """Twenty sizes: the last axis, the first and all of them, changed by one, by a line of the cache (`line` elements), to a power of two, a
    prime, a page's multiple and by larger steps."""
    names = [name for name, n in sizes.items() if n > SMALL]
    found: list[Sizes] = [sizes]
    for step in _steps(line):
        for changed in ([names[-1]], [names[0]], names):
            each = {name: max(step(n), 1) if name in changed else n for name, n in sizes.items()}
            if each not in found and len(found) <= AROUND:
                found.append(each)
    return found[1:]


def _steps(line: int) -> Iterator:
    yield lambda n: n + 1
    yield lambda n: n - 1
    yield lambda n: n + line
    yield lambda n: n - line
    yield lambda n: 2 ** round(math.log2(n))
    yield lambda n: next(k for k in range(n + 1, 2 * n) if _is_prime(k))
    yield lambda n: n + line // 2
    yield lambda n: -(-n // (64 * line)) * 64 * line
    for percent in (95, 105, 90, 110, 80, 120, 70, 130, 60, 140, 50, 150, 75, 125):
        yield lambda n, percent=percent: n * percent // 100


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % k for k in range(2, math.isqrt(n) + 1))


def run_row(row: Row, turns: int) -> Found:
    """Times all candidates of a row at all sizes around its own."""
    inputs = row.inputs(1)
    base = row.sizes(inputs)
    around = sizes_around(base, 64 // inputs[0].itemsize)
    schedule, host = row.algorithm.schedule(), Target().machine
    of_size = [schedule.complete(host, sizes) for sizes in around]
    schedules = {key_of(s): s for s in (schedule.complete(host), *of_size)}
    executables = {key: row.algorithm.compile(schedule=s) for key, s in schedules.items()}
    behind, per_element = {}, {}
    for sizes, own in zip(around, map(key_of, of_size), strict=True):
        arrays = [
            np.resize(
                array,
                tuple(
                    sizes[s.name] if isinstance(s, SizeVar) else n for s, n in zip(p.shape, array.shape, strict=True)
                ),
            )
            for p, array in zip(row.algorithm.trace().parameters, inputs, strict=True)
        ]
        label = " × ".join(str(n) for n in sizes.values())
        times = time_all(row, executables, arrays, turns)
        if times[own] > AGAIN * min(times.values()):
            times = time_all(row, executables, arrays, 4 * turns)
        behind[label] = times[own] / min(times.values())
        per_element[label] = times[own] / math.prod(sizes.values())
    return Found(base, len(executables), behind, per_element)


def time_all(row: Row, executables: dict[str, rd.Executable], arrays: list[np.ndarray], turns: int) -> dict[str, float]:
    """Median seconds of each executable on the same arrays, in turns."""
    first = next(iter(executables.values()))(*arrays)
    results = first if isinstance(first, tuple) else (first,)
    room = [aligned(arrays[0].shape if row.filtered else r.shape, r.dtype) for r in results]
    del first, results
    out = room[0] if len(room) == 1 else tuple(room)
    times: dict[str, list[float]] = {key: [] for key in executables}
    gc.disable()
    for turn in range(turns + 1):
        for key, executable in executables.items():
            time.sleep(PAUSE)
            start = time.perf_counter()
            executable(*arrays, out=out)
            if turn:
                times[key].append(time.perf_counter() - start)
    gc.enable()
    return {key: median(seconds) for key, seconds in times.items()}


def table(found: dict[str, Found], disturbance: float) -> str:
    """The outcomes as Markdown."""
    lines = [
        f"{machine()}, {time.strftime('%Y-%m-%d')}, two threads; other processes had {disturbance:.0%} of a processor.\n",
        "| row | sizes | candidates | default / best candidate, worst | at | time an element, slowest / median | at |",
        "| --- | --- | ---: | ---: | --- | ---: | --- |",
    ]
    for name, each in found.items():
        worst, slowest = (max(figures, key=figures.__getitem__) for figures in (each.behind, each.per_element))
        relative = each.per_element[slowest] / median(each.per_element.values())
        sizes = " × ".join(str(n) for n in each.sizes.values())
        lines.append(
            f"| {name} | {sizes} | {each.candidates} | {each.behind[worst]:.2f} | {worst} | {relative:.2f} | {slowest} |"
        )
    return "\n".join(lines) + "\n"


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="ROW", help="all when none is named")] = None,
    turns: Annotated[int, typer.Option(help="interleaved turns at a size")] = 7,
    write: Annotated[bool, typer.Option("--write", help="put the table of all rows into docs/benchmarks.md")] = False,
) -> None:
    """Run the rows and print the table."""
    rows = {name: row for name, row in ROWS.items() if name not in BOUND}
    if unknown := set(names or ()) - rows.keys():
        raise SystemExit(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(rows)}")
    found: dict[str, Found] = {}
    begin, before = time.perf_counter(), others()
    for name in names or rows:
        found[name] = each = run_row(rows[name], turns)
        console.print(f"{name:20} {each.candidates} candidates, worst {max(each.behind.values()):.2f}")
    disturbance = (others() - before) / (time.perf_counter() - begin)
    text = table(found, disturbance)
    console.print(text, soft_wrap=True)
    if write:
        put_table(PAGE, MARKS, text, set(found) == set(rows), disturbance)


if __name__ == "__main__":
    typer.run(main)
