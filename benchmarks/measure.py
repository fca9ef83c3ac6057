"""Runs the contestants of a row in turn, in one process, on the same arrays; what counts are medians of the same rounds."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from peers import PEERS
from peers.contestant import Arena, Contestant
from rows import ROWS
from rows.row import Row

import raido as rd

HAND, DEFAULT = "raido hand", "raido default"
PAUSE = 0.002  # seconds between calls, in which threads of the last contestant that still spin go to sleep
HEATS = ((1, 2.0), (2, 1.25))  # rounds, and how far behind the best of its side a variant may then be to stay
UNDISTURBED = 0.05  # other processes' share of a processor in a round that counts
PATIENCE = 8.0  # seconds that undisturbed rounds are waited for

Times = dict[tuple[str, str], list[float]]


@dataclass(frozen=True)
class Outcome:
    """What a row gave: seconds of every call by side and variant, for each side that did not run, what is missing, and how much
    of a processor other processes had meanwhile."""

    times: Times
    absent: dict[str, str]
    disturbance: float


def run_row(
    name: str,
    rounds: int,
    scale: int = 1,
    root: Path | None = None,
    sides: Sequence[str] = (),
    ready: Callable[[], object] | None = None,
) -> Outcome:
    """Everyone's times in one row; `ready` is called before they are taken. SystemExit where a result is wrong."""
    absent: dict[str, str] = {}

    def everyone(arena: Arena) -> Iterator[Contestant]:
        yield from own(arena)
        for peer in PEERS:
            if sides and peer.SIDE not in sides:
                continue
            if lacking := peer.unavailable(arena):
                absent[peer.SIDE] = ", ".join(lacking)
            else:
                yield from peer.contestants(arena)

    times, disturbance = contest(name, ROWS[name], everyone, rounds, scale, root, ready)
    return Outcome(times, absent, disturbance)


def contest(
    name: str,
    row: Row,
    everyone: Callable[[Arena], Iterable[Contestant]],
    rounds: int,
    scale: int = 1,
    root: Path | None = None,
    ready: Callable[[], object] | None = None,
) -> tuple[Times, float]:
    """The times of all contestants of a row, by side and variant, and the share of a processor that other processes had."""
    inputs = row.inputs(scale)
    want = row.answers(inputs)
    room = row.room(inputs, want)
    with ExitStack() as cleanup:
        found = list(everyone(Arena(name, row, inputs, room, root, cleanup)))
        for contestant in found:
            for array in room:
                array.fill(77)
            check(f"{name}: {contestant.side}, {contestant.variant}", row, contestant.results(), want)
        del want
        gc.collect()
        if ready:
            ready()
        gc.disable()
        chosen = finalists(found)
        counted = undisturbed_rounds(chosen, rounds)
        gc.enable()
    times = {(c.side, c.variant): [seconds[k] for _, seconds in counted] for k, c in enumerate(chosen)}
    return times, max(disturbance for disturbance, _ in counted)


def own(arena: Arena) -> list[Contestant]:
    """raido under its default schedule and under each written one."""
    written = [under(arena, HAND, label, each(arena.row.algorithm)) for label, each in arena.row.hand.items()]
    return [under(arena, DEFAULT, "", None), *written]


def under(arena: Arena, side: str, label: str, schedule: rd.Schedule | None) -> Contestant:
    """raido under a schedule, or the default one."""
    exe = arena.row.algorithm.compile(schedule=schedule, sizes=arena.row.sizes(arena.inputs))
    out = arena.room[0] if len(arena.room) == 1 else tuple(arena.room)
    call = lambda: exe(*arena.inputs, out=out)
    return Contestant(side, label, call, lambda: r if isinstance(r := call(), tuple) else (r,))


def check(who: str, row: Row, got: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> None:
    """Holds results to NumPy's, within the row's tolerance, by pieces: rows are large."""
    for mine, true in zip(got, want, strict=True):
        if mine.shape != true.shape:
            raise SystemExit(f"{who}: shape {mine.shape} instead of {true.shape}")
        a, b, wrong, worst = mine.reshape(-1), true.reshape(-1), 0, 0.0
        limit = row.tolerance * float(max(abs(b.max(initial=0)), abs(b.min(initial=0))))
        for start in range(0, b.size, 1 << 22):
            piece = slice(start, start + (1 << 22))
            error = np.abs(a[piece].astype(np.float64) - b[piece])
            wrong += int((~(error <= limit)).sum())
            worst = max(worst, float(error.max(initial=0)))
        if wrong > row.stray * b.size:
            raise SystemExit(f"{who}: {wrong:,} of {b.size:,} results are wrong, the furthest by {worst:.3g}")


def finalists(found: Sequence[Contestant]) -> Sequence[Contestant]:
    """The contestants without the variants that a few rounds show to be far behind another of their side."""
    for rounds, leeway in HEATS:
        heats = [take_turns(found) for _ in range(rounds)]
        times = [min(heat[k] for heat in heats) for k in range(len(found))]
        best = {c.side: min(t for d, t in zip(found, times, strict=True) if d.side == c.side) for c in found}
        found = [c for c, t in zip(found, times, strict=True) if t <= leeway * best[c.side]]
    return found


def take_turns(found: Sequence[Contestant]) -> list[float]:
    """One round: the seconds that everyone takes."""
    times = []
    for c in found:
        time.sleep(PAUSE)
        start = time.perf_counter()
        c.call()
        times.append(time.perf_counter() - start)
    return times


def undisturbed_rounds(found: Sequence[Contestant], rounds: int) -> list[tuple[float, list[float]]]:
    """That many rounds, each with the share of a processor that others had: where too few are undisturbed, the least disturbed ones."""
    begin, kept = time.perf_counter(), []
    while len(kept) < rounds or (
        sum(disturbance <= UNDISTURBED for disturbance, _ in kept) < rounds and time.perf_counter() - begin < PATIENCE
    ):
        start, before = time.perf_counter(), others()
        times = take_turns(found)
        kept.append(((others() - before) / (time.perf_counter() - start), times))
    return sorted(kept, key=lambda each: each[0])[:rounds]


def others() -> float:
    """Seconds of processor time that have gone to other processes since the system started."""
    busy = [int(ticks) for ticks in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = busy[3] + busy[4]
    own = os.times()
    return (sum(busy) - idle) / os.sysconf("SC_CLK_TCK") - own.user - own.system


def best_of(times: Times) -> dict[str, tuple[float, str]]:
    """The median of the fastest variant of each side, in milliseconds, and its name."""
    found: dict[str, tuple[float, str]] = {}
    for (side, variant), seconds in times.items():
        figure = (median(seconds) * 1e3, variant)
        found[side] = min(figure, found.get(side, figure))
    return found
