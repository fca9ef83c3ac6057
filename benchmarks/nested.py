"""raido's default schedules of nested arrays, and of arrays updated in place, beside plain C: `python benchmarks/nested.py [ROW …]`.

Every result is checked against NumPy first; a round runs both sides once, in turn, on the same arrays, and figures are ratios of
medians (`measure.py`). Rows that other processes disturbed are not kept. `--write` puts all kept rows into docs/benchmarks.md.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

os.environ.setdefault("RAIDO_NUM_THREADS", "2")
os.environ.setdefault("OMP_NUM_THREADS", os.environ["RAIDO_NUM_THREADS"])
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that have nothing to do must not spin in raido's time

import typer
from host import machine
from measure import DEFAULT, best_of, contest, noise_of, own
from peers.contestant import Arena, Contestant
from peers.tools import build, missing
from report import console, disturbed
from rows.nested import NESTED
from store import put_between, read_rows, write_rows

HERE = Path(__file__).resolve().parent
KEPT, PAGE = HERE / "nested_results.json", HERE.parent / "docs" / "benchmarks.md"
MARKS = ("<!-- nested table -->\n", "<!-- end of nested table -->")
SIDE = "C"
CC = ("gcc", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")


def plain_c(arena: Arena) -> Contestant:
    """The row's function in C, on the row's arrays."""
    sources = ["handwritten/nested.c", "handwritten/common.h"]
    library = ctypes.CDLL(str(build(arena.root, sources, [(*CC, "nested.c", "-o", "program.so", "-lm")], "program.so")))
    function = library[arena.name]
    function.restype = None
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*arena.inputs, *arena.room)]
    sizes = [ctypes.c_int64(n) for n in arena.row.sizes(arena.inputs).values()]

    def results() -> list:
        function(*pointers, *sizes)
        return list(arena.room)

    return Contestant(SIDE, arena.name, lambda: function(*pointers, *sizes), results)


def both(arena: Arena) -> Iterator[Contestant]:
    """raido's default, twice, and C."""
    yield from own(arena)
    yield plain_c(arena)


def table() -> str:
    """The kept rows as Markdown."""
    rows = read_rows(KEPT)
    groups: dict[tuple[str, str, int], list[str]] = {}
    for name, row in rows.items():
        groups.setdefault((row["machine"], row["date"], row["rounds"]), []).append(name)
    lines = ["Milliseconds, two threads.", *(f"{m}, {d}, medians of {n} interleaved rounds." for m, d, n in groups), ""]
    lines += ["| row | raido default | C | default / C | noise |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, row in rows.items():
        ours, theirs = row["milliseconds"]
        lines.append(f"| {NESTED[name].what} | {ours:.3f} | {theirs:.3f} | {ours / theirs:.2f} | {row['noise']:.1%} |")
    return "\n".join(lines) + "\n"


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="ROW", help="rows to run; all if none is named")] = None,
    rounds: Annotated[int, typer.Option(help="interleaved rounds")] = 20,
    scale: Annotated[int, typer.Option(help="divide the sizes by this; not kept")] = 1,
    write: Annotated[bool, typer.Option("--write", help="put the kept rows into docs/benchmarks.md")] = False,
) -> None:
    """Run the rows and print a line for each."""
    if unknown := set(names or ()) - NESTED.keys():
        raise SystemExit(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(NESTED)}")
    if missing(None, "gcc"):
        raise SystemExit("gcc is not installed")
    refused: list[str] = []
    for name in names or NESTED:
        times, disturbance = contest(name, NESTED[name], both, rounds, scale)
        figures, noise = best_of(times), noise_of(times)
        ours, theirs = figures[DEFAULT][0], figures[SIDE][0]
        console.print(f"{name:20}{ours:10.3f} ms, C {theirs:10.3f} ms: {ours / theirs:5.2f}   noise {noise:.1%}")
        if why := disturbed(name, disturbance):
            console.print(f"  [red]{why}[/red]")
            refused.append(name)
        elif scale == 1:
            row = {"milliseconds": [ours, theirs], "noise": noise, "rounds": rounds}
            kept = read_rows(KEPT) | {name: {**row, "machine": machine(), "date": time.strftime("%Y-%m-%d")}}
            write_rows(KEPT, {each: kept[each] for each in NESTED if each in kept})
    if write:
        put_between(PAGE, MARKS, table())
    if refused:
        raise SystemExit(f"disturbed, and not kept: {' '.join(refused)}; measure them again when the machine is idle")


if __name__ == "__main__":
    typer.run(main)
