"""Keeps and prints measurements, and makes the table in docs/benchmarks.md from them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from host import machine
from measure import DEFAULT, HAND, ITSELF, UNDISTURBED, Outcome, Times, best_of, noise_of
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


def disturbed(name: str, disturbance: float) -> str:
    """Why a row is not kept; "" where it is."""
    if disturbance <= UNDISTURBED:
        return ""
    return f"{name} is not kept: other processes had up to {disturbance:.0%} of a processor in its rounds (at most {UNDISTURBED:.0%})"


def keep(name: str, outcome: Outcome, rounds: int) -> None:
    """Puts a row into results.json in place of the last one; ValueError for one that was disturbed."""
    if why := disturbed(name, outcome.disturbance):
        raise ValueError(why)
    rows = read_rows(KEPT)
    rows[name] = {
        "milliseconds": figures_of(outcome.times),
        "absent": outcome.absent,
        "rounds": rounds,
        "others": round(outcome.disturbance, 3),
        "noise": round(noise_of(outcome.times), 4),
        "same": outcome.same,
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d"),
    }
    write_rows(KEPT, {each: rows[each] for each in ROWS if each in rows})


def figures_of(times: Times) -> dict[str, list[Any]]:
    """For each side the median of its fastest variant in milliseconds, and which it is."""
    return {side: [round(ms, 3), variant] for side, (ms, variant) in best_of(times).items() if side != ITSELF}


def ratios(figures: Figures) -> list[float | None]:
    """Those of `RATIOS`; None where a side is missing."""
    peers = [ms for side, (ms, _) in figures.items() if side not in (HAND, DEFAULT, ITSELF)]
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
    console.print(f"  noise: the default differs from itself by {noise_of(outcome.times):.1%}")
    for side, labels in outcome.same.items():
        console.print(f"  {side} {labels}: the default schedule itself")


def cells(name: str, kept: Mapping[str, Any]) -> Iterator[str]:
    """A line of the table; the fastest in bold. A written schedule that is the default one has no figure of its own."""
    figures = kept["milliseconds"]
    best = min(ms for ms, _ in figures.values())
    yield ROWS[name].what
    for side in SIDES:
        if side in figures:
            ms, variant = figures[side]
            alike = variant in kept.get("same", {}).get(side, "").split(", ") if variant else False
            yield "= default" if alike else f"**{ms:.2f}**" if ms == best else f"{ms:.2f}"
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
    absent = sorted({side for row in rows.values() for side in row["absent"]})
    installs = [f"{peer.SIDE}: not installed; {peer.INSTALL}." for peer in PEERS if peer.SIDE in absent]
    text = "\n".join(["Milliseconds, two threads.", *origin(rows), *installs, "", *table])
    if write:
        put_between(PAGE, MARKS, text + "\n")
    else:
        print(text)


def origin(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The machine and the day of each row's measurement, and how noisy it was."""
    groups: dict[tuple[str, str, int], list[str]] = {}
    for name, row in rows.items():
        groups.setdefault((row["machine"], row["date"], row["rounds"]), []).append(name)
    for (cpu, date, rounds), names in sorted(groups.items()):
        which = "" if len(groups) == 1 else f": {', '.join(names)}"
        yield f"{cpu}, {date}, medians of {rounds} interleaved rounds{which}."
    noise = {name: row["noise"] for name, row in rows.items() if "noise" in row}
    if noise:
        yield (
            f"Noise: the default's executable beside itself, in the same turns, differed by {median(noise.values()):.1%} (median) and at most "
            f"{max(noise.values()):.1%} on {len(noise)} of {len(rows)} rows; what differs by less is equal."
        )
