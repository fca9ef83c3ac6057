"""raido beside Halide on the same arrays, interleaved in one process: `python benchmarks/compare.py [ROW …]`.

Every result is checked against NumPy first. A round runs each contestant once, in turn; the figures are medians over the rounds, and
what counts are the ratios, since memory bandwidth on shared machines drifts. `--write` puts the table into docs/benchmarks.md.
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

import numpy as np
import typer
from programs import ROWS, Row
from rich.console import Console
from rich.table import Table

console = Console()


def make_input(row: Row, scale: int) -> np.ndarray:
    """Random numbers of the row's range, the same for every contestant."""
    shape = tuple(n if n < 8 else max(n // scale, 8) for n in row.shape)
    flat = np.random.default_rng(7).random(int(np.prod(shape)), dtype=np.float32)
    return (flat * np.float32(row.high - row.low) + np.float32(row.low)).astype(row.dtype).reshape(shape)


def check(name: str, got: np.ndarray, want: np.ndarray, tolerance: float) -> None:
    """Largest error relative to the largest value must be within the row's tolerance."""
    error = np.abs(got.astype(np.float64) - want).max() / max(np.abs(want).max(), 1e-30)
    if not error <= tolerance:
        raise SystemExit(f"{name}: wrong result, relative error {error:.3g}")


def contestants(name: str, row: Row, source: np.ndarray, want: np.ndarray) -> dict[str, Callable[[], object]]:
    """Calls without arguments, each checked once: "raido hand", "raido default", "halide <schedule>"."""
    from halide_programs import VARIANTS

    calls: dict[str, Callable[[], object]] = {}
    build, schedules = VARIANTS[name]
    out = np.empty_like(want)

    def add(label: str, call: Callable[[], object]) -> None:
        out.fill(77)
        call()
        check(f"{name} {label}", out, want, row.tolerance)
        calls[label] = call

    for label, schedule in (("raido hand", row.hand(row.algorithm)), ("raido default", None)):
        exe = row.algorithm.compile("llvm", schedule=schedule, sizes=row_sizes(row, source))
        add(label, lambda exe=exe: exe(source, out=out))
    for schedule in schedules:
        add(f"halide {schedule}", build([source, out], schedule))
    return calls


def row_sizes(row: Row, source: np.ndarray) -> dict[str, int]:
    """The sizes that Halide is given as bounds too."""
    parameter = row.algorithm.trace().parameters[0]
    return {d.name: n for d, n in zip(parameter.shape, source.shape, strict=True) if hasattr(d, "name")}


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
    lines = []
    for name in rows or list(ROWS):
        row = ROWS[name]
        source = make_input(row, scale)
        want = row.answer(source)
        calls = contestants(name, row, source, want)
        times = {label: median(ts) * 1e3 for label, ts in measure(calls, rounds).items()}
        best = min((label for label in times if label.startswith("halide")), key=times.__getitem__)
        hand, default, halide = times["raido hand"], times["raido default"], times[best]
        lines.append(
            (
                name,
                f"{hand:.2f}",
                f"{default:.2f}",
                f"{halide:.2f}",
                best.split()[1],
                f"{hand / halide:.2f}",
                f"{default / halide:.2f}",
            )
        )
        console.print("  ".join(lines[-1]))
    header = (
        "row",
        "raido hand (ms)",
        "raido default (ms)",
        "Halide hand (ms)",
        "its schedule",
        "hand / Halide",
        "default / Halide",
    )
    table = Table(*header)
    for line in lines:
        table.add_row(*line)
    console.print(table)
    if write:
        write_table(header, lines, rounds)


def write_table(header: tuple[str, ...], lines: list[tuple[str, ...]], rounds: int) -> None:
    """The table as Markdown, between the marks in docs/benchmarks.md."""
    rows = ["| " + " | ".join(cells) + " |" for cells in (header, ("---",) * len(header), *lines)]
    machine = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    note = f"{machine}, 2 threads, medians of {rounds} interleaved rounds, {time.strftime('%Y-%m-%d')}."
    path = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
    text = path.read_text()
    before, rest = text.split("<!-- table -->")
    after = rest.split("<!-- end of table -->")[1]
    path.write_text("\n".join([f"{before}<!-- table -->", note, "", *rows, f"<!-- end of table -->{after}"]))


if __name__ == "__main__":
    typer.run(main)
