"""raido beside Halide (and NumPy) on the same arrays, interleaved in one process: `python benchmarks/compare.py [ROW …]`.

Every result is checked against NumPy first. A round runs each contestant once, in turn; the figures are medians over the rounds, and
what counts are the ratios, since memory bandwidth on shared machines drifts. `--write` puts the rows into docs/benchmarks.md.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Annotated

os.environ.setdefault("RAIDO_NUM_THREADS", "2")
os.environ.setdefault(
    "OPENBLAS_THREAD_TIMEOUT", "1"
)  # its threads would go on spinning in the time of whoever comes next

import numpy as np
import typer
from programs import STENCILS
from reductions import REDUCTIONS
from rich.console import Console
from rich.table import Table
from rows import Row

console = Console()
ROWS = {**STENCILS, **REDUCTIONS}


def make_inputs(row: Row, scale: int) -> list[np.ndarray]:
    """Random numbers of the row's range, the same for every contestant."""
    random = np.random.default_rng(7)
    arrays = []
    for whole in row.shapes:
        shape = tuple(n if n < 11 else max(n // scale, 8) for n in whole)
        flat = random.random(int(np.prod(shape)), dtype=np.float32)
        flat *= np.float32(row.high - row.low)
        flat += np.float32(row.low)
        arrays.append(flat.astype(row.dtype, copy=False).reshape(shape))
    return arrays


def check(name: str, got: np.ndarray, want: np.ndarray, tolerance: float) -> None:
    """Largest error relative to the largest value must be within the row's tolerance."""
    error = np.abs(got.astype(np.float64) - want).max() / max(np.abs(want).max(), 1e-30)
    if not error <= tolerance:
        raise SystemExit(f"{name}: wrong result, relative error {error:.3g}")


def contestants(name: str, row: Row, inputs: list[np.ndarray], want: np.ndarray) -> dict[str, Callable[[], object]]:
    """Calls without arguments, each checked once: "raido hand", "raido default", "halide <schedule>", "numpy"."""
    from halide_programs import VARIANTS
    from halide_reductions import REDUCTION_VARIANTS

    calls: dict[str, Callable[[], object]] = {}
    build, schedules = {**VARIANTS, **REDUCTION_VARIANTS}[name]
    out = np.empty_like(want)

    def add(label: str, call: Callable[[], object]) -> None:
        out.fill(77)
        call()
        check(f"{name} {label}", out, want, row.tolerance)
        calls[label] = call

    for label, schedule in (("raido hand", row.hand(row.algorithm)), ("raido default", None)):
        exe = row.algorithm.compile("llvm", schedule=schedule, sizes=row_sizes(row, inputs))
        add(label, lambda exe=exe: exe(*inputs, out=out))
    for schedule in schedules:
        add(f"halide {schedule}", build([*inputs, out], schedule))
    if row.numpy is not None:
        compute = row.numpy
        calls["numpy"] = lambda: compute(*inputs)
    return calls


def row_sizes(row: Row, inputs: list[np.ndarray]) -> dict[str, int]:
    """The sizes that Halide is given as bounds too."""
    parameters = row.algorithm.trace().parameters
    pairs = (pair for p, a in zip(parameters, inputs, strict=True) for pair in zip(p.shape, a.shape, strict=True))
    return {d.name: n for d, n in pairs if hasattr(d, "name")}


def measure(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of every call in every round, interleaved."""
    times: dict[str, list[float]] = {label: [] for label in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for label, call in calls.items():
            start = time.perf_counter()
            call()
            times[label].append(time.perf_counter() - start)
    return times


def main(
    rows: Annotated[list[str] | None, typer.Argument(help="rows to run; all when none is named")] = None,
    rounds: Annotated[int, typer.Option(help="interleaved rounds")] = 20,
    scale: Annotated[int, typer.Option(help="divide the sizes by this")] = 1,
    write: Annotated[bool, typer.Option(help="write docs/benchmarks.md")] = False,
) -> None:
    """Run the comparison and print the table of medians and ratios."""
    header = (
        "row",
        "raido hand",
        "raido default",
        "Halide hand",
        "its schedule",
        "NumPy",
        "hand / Halide",
        "default / Halide",
    )
    lines = []
    for name in rows or list(ROWS):
        row = ROWS[name]
        inputs = make_inputs(row, scale)
        want = np.asarray(row.answer(*inputs))
        calls = contestants(name, row, inputs, want)
        times = {label: median(ts) * 1e3 for label, ts in measure(calls, rounds).items()}
        best = min((label for label in times if label.startswith("halide")), key=times.__getitem__)
        hand, default, halide = times["raido hand"], times["raido default"], times[best]
        numpy = f"{times['numpy']:.2f}" if "numpy" in times else "–"
        figures = (f"{hand:.2f}", f"{default:.2f}", f"{halide:.2f}", best.split()[1], numpy)
        lines.append((name, *figures, f"{hand / halide:.2f}", f"{default / halide:.2f}"))
        console.print("  ".join(lines[-1]))
    table = Table(*header)
    for line in lines:
        table.add_row(*line)
    console.print(table)
    if write:
        write_table(header, lines, rounds)


def write_table(header: tuple[str, ...], lines: list[tuple[str, ...]], rounds: int) -> None:
    """The table as Markdown, between the marks in docs/benchmarks.md; rows that were not measured now stay as they are."""
    path = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
    before, rest = path.read_text().split("<!-- table -->")
    old, after = rest.split("<!-- end of table -->")
    known = [tuple(cell.strip() for cell in line.strip("|\n ").split("|")) for line in old.splitlines() if "|" in line]
    cells = {line[0]: line for line in known[2:]} if known and known[0] == header else {}
    cells |= {line[0]: line for line in lines}
    ordered = [header, ("---",) * len(header), *(cells[name] for name in ROWS if name in cells)]
    table = ["| " + " | ".join(line) + " |" for line in ordered]
    cpu = (line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
    machine = next((line.split(":")[1].strip() for line in cpu), platform.machine())
    note = f"{machine}, 2 threads, medians of {rounds} interleaved rounds in ms, {time.strftime('%Y-%m-%d')}."
    path.write_text("\n".join([f"{before}<!-- table -->", note, "", *table, f"<!-- end of table -->{after}"]))


if __name__ == "__main__":
    typer.run(main)
