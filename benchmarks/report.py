"""Keeps what was measured, prints it, and makes of it the table in docs/benchmarks.md."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from measure import DEFAULT, HAND, UNDISTURBED, Outcome, Times, best_of
from peers import PEERS
from rich.console import Console
from rows import ROWS
from store import put_between, read_rows, write_rows

HERE = Path(__file__).resolve().parent
KEPT, PAGE = HERE / "results.json", HERE.parent / "docs" / "benchmarks.md"
MARKS = ("<!-- table -->\n", "<!-- end of table -->")
SIDES = (HAND, DEFAULT, *(peer.SIDE for peer in PEERS))
RATIOS = ("hand / best peer", "default / best peer", "default / Futhark")
console = Console(highlight=False)

Figures = Mapping[str, tuple[float, str]]


def keep(name: str, outcome: Outcome, rounds: int) -> None:
    """Puts a row into results.json in place of the last one."""
    rows = read_rows(KEPT)
    rows[name] = {
        "milliseconds": figures_of(outcome.times),
        "absent": outcome.absent,
        "rounds": rounds,
        "others": round(outcome.disturbance, 2),
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d"),
    }
    write_rows(KEPT, {each: rows[each] for each in ROWS if each in rows})


def figures_of(times: Times) -> dict[str, list[Any]]:
    """For each side the median of its fastest variant in milliseconds, and which it is."""
    return {side: [round(ms, 3), variant] for side, (ms, variant) in best_of(times).items()}


def machine() -> str:
    """The processor's name."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def ratios(figures: Figures) -> list[float | None]:
    """Those of `RATIOS`; None where a side is missing."""
    peers = [ms for side, (ms, _) in figures.items() if side not in (HAND, DEFAULT)]
    best, futhark = min(peers, default=None), figures.get("Futhark", (None,))[0]
    pairs = ((HAND, best), (DEFAULT, best), (DEFAULT, futhark))
    return [figures[mine][0] / other if other and mine in figures else None for mine, other in pairs]


def print_row(name: str, outcome: Outcome) -> None:
    """One line for each side of a row."""
    figures = best_of(outcome.times)
    texts = (f"{ratio:.2f}" if ratio else "–" for ratio in ratios(figures))
    summary = "   ".join(f"{what} {text}" for what, text in zip(RATIOS, texts, strict=True))
    console.print(f"[bold]{name}[/bold]   {summary}", soft_wrap=True)
    for side, (ms, variant) in figures.items():
        console.print(f"  {side:14s} {ms:9.2f} ms   {variant}")
    for side, lacking in outcome.absent.items():
        console.print(f"  {side:14s} –, not installed: {lacking}")
    if outcome.disturbance > UNDISTURBED:
        console.print(f"  [red]other processes had up to {outcome.disturbance:.0%} of a processor[/red]")


def cells(name: str, kept: Mapping[str, Any]) -> Iterator[str]:
    """A line of the table; the fastest in bold."""
    figures = kept["milliseconds"]
    best = min(ms for ms, _ in figures.values())
    yield ROWS[name].what
    for side in SIDES:
        if side in figures:
            ms = figures[side][0]
            yield f"**{ms:.2f}**" if ms == best else f"{ms:.2f}"
        else:
            yield "not installed" if side in kept["absent"] else "–"
    for ratio in ratios(figures):
        yield f"{ratio:.2f}" if ratio else "–"


def write_table(write: bool) -> None:
    """Prints the table as Markdown, or puts it between the marks in docs/benchmarks.md."""
    rows = read_rows(KEPT)
    header = ("row", *SIDES, *RATIOS)
    lines = [header, ("---", *("---:" for _ in header[1:])), *(tuple(cells(name, rows[name])) for name in rows)]
    table = ["| " + " | ".join(line) + " |" for line in lines]
    told = sorted({(row["machine"], row["date"], row["rounds"]) for row in rows.values()})
    note = "; ".join(f"{cpu}, {date}, medians of {rounds} interleaved rounds" for cpu, date, rounds in told)
    others = max(row["others"] for row in rows.values())
    absent = sorted({side for row in rows.values() for side in row["absent"]})
    installs = [f"{peer.SIDE}: not installed; {peer.INSTALL}." for peer in PEERS if peer.SIDE in absent]
    noise = f"Other processes had up to {others:.0%} of a processor in the rounds that count."
    text = "\n".join([f"Milliseconds, two threads. {note}. {noise}", *installs, "", *table])
    if write:
        put_between(PAGE, MARKS, text + "\n")
    else:
        print(text)
