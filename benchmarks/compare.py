"""raido beside handwritten C and ISPC, Futhark, Halide and Numba: `python benchmarks/compare.py [ROW …]`.

Every result is checked against NumPy first. A round runs each contestant once, in turn, on the same arrays; figures are medians over the
rounds, of which the ratios count, since memory bandwidth drifts within minutes. The default's executable takes part twice: the difference
between the two is the noise. Each row is kept in benchmarks/results.json as soon as it is measured, with the machine's name, unless other
processes disturbed it; `--write` puts all kept rows into docs/benchmarks.md. A contestant that is not installed is named in its column.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

os.environ.setdefault("RAIDO_NUM_THREADS", "2")
os.environ.setdefault("OMP_NUM_THREADS", os.environ["RAIDO_NUM_THREADS"])
os.environ.setdefault("NUMBA_NUM_THREADS", os.environ["RAIDO_NUM_THREADS"])
os.environ.setdefault("OPENBLAS_NUM_THREADS", os.environ["RAIDO_NUM_THREADS"])
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that have nothing to do must not spin in the
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "1")  # time of whoever comes next

import typer
from measure import run_row
from report import console, disturbed, keep, print_row, write_table
from rows import ROWS


def main(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="ROW", help="rows to run; all when none is named")
    ] = None,
    rounds: Annotated[int, typer.Option(help="interleaved rounds")] = 20,
    scale: Annotated[int, typer.Option(help="divide the sizes by this; not kept, and not for Halide")] = 1,
    root: Annotated[
        Path | None,
        typer.Option(help="a folder with another system in which futhark, ispc and gcc are called by chroot"),
    ] = None,
    beside: Annotated[list[str] | None, typer.Option(help="only these: Futhark, Halide, Numba, or 'C, ISPC'")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="once a row is ready, wait for a line of input to measure it")
    ] = False,
    table: Annotated[
        bool, typer.Option("--table", help="print the rows that are kept; measures only rows that are named")
    ] = False,
    write: Annotated[bool, typer.Option("--write", help="put the kept rows into docs/benchmarks.md; likewise")] = False,
) -> None:
    """Run the comparison and print a line for each row."""
    unknown = set(names or ()) - ROWS.keys()
    if unknown:
        raise SystemExit(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    refused: list[str] = []
    for name in names or ([] if table or write else ROWS):
        outcome = run_row(name, rounds, scale, root, beside or (), (lambda: input("ready\n")) if wait else None)
        print_row(name, outcome)
        if why := disturbed(name, outcome.disturbance):
            console.print(f"  [red]{why}[/red]")
            refused.append(name)
        elif scale == 1 and not beside:
            keep(name, outcome, rounds)
    if table or write:
        write_table(write)
    if refused:
        raise SystemExit(f"disturbed, and not kept: {' '.join(refused)}; measure them again when the machine is idle")


if __name__ == "__main__":
    typer.run(main)
