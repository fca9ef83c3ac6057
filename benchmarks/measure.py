"""Runs the contestants of a row in turn, in one process, on the same arrays; results are medians over common rounds."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
from peers import PEERS
from peers.contestant import Arena, Contestant
from rows import ROWS
from rows.row import Row

import raido as rd
from raido.autotune.space import key_of
from raido.targets.target import Target

HAND, DEFAULT = "raido hand", "raido default"
ITSELF = "raido default itself"  # the default's executable once more: what it differs by from DEFAULT is noise
PAUSE = 0.002  # seconds between calls, in which threads of the last contestant that still spin go to sleep
HEATS = ((1, 2.0), (2, 1.25))  # rounds, and how far behind the best of its side a variant may then be to stay
UNDISTURBED = 0.05  # other processes' share of a processor in a round that counts
PATIENCE = 60.0  # seconds that undisturbed rounds are waited for

Times = dict[tuple[str, str], list[float]]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a row: seconds of every call by side and variant, for each side that did not run, what is missing, how much of a
    processor other processes had meanwhile, and the variants that are the default schedule itself, by the side that has them."""

    times: Times
    absent: dict[str, str]
    disturbance: float
    same: dict[str, str]


def run_row(
    name: str,
    rounds: int,
    scale: int = 1,
    root: Path | None = None,
    sides: Sequence[str] = (),
    ready: Callable[[], object] | None = None,
    patience: float = PATIENCE,
) -> Outcome:
    """Everyone's times in one row; `ready` is called before they are taken. SystemExit where a result is wrong."""
    absent: dict[str, str] = {}
    row, same = ROWS[name], {}

    def everyone(arena: Arena) -> Iterator[Contestant]:
        yield from own(arena)
        same.update(same_as_default(arena))
        for peer in PEERS:
            if sides and peer.SIDE not in sides:
                continue
            if lacking := peer.unavailable(arena):
                absent[peer.SIDE] = ", ".join(lacking)
            else:
                yield from peer.contestants(arena)

    times, disturbance = contest(name, row, everyone, rounds, scale, root, ready, patience)
    return Outcome(times, absent, disturbance, same)


def contest(
    name: str,
    row: Row,
    everyone: Callable[[Arena], Iterable[Contestant]],
    rounds: int,
    scale: int = 1,
    root: Path | None = None,
    ready: Callable[[], object] | None = None,
    patience: float = PATIENCE,
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
        counted = undisturbed_rounds(chosen, rounds, patience)
        gc.enable()
    times = {(c.side, c.variant): [seconds[k] for _, seconds in counted] for k, c in enumerate(chosen)}
    return times, max(disturbance for disturbance, _ in counted)


def own(arena: Arena) -> list[Contestant]:
    """raido under its default schedule, the same executable once more, and raido under each written schedule."""
    written = [under(arena, HAND, label, each(arena.row.algorithm)) for label, each in arena.row.hand.items()]
    default = under(arena, DEFAULT, "", None)
    return [default, replace(default, side=ITSELF), *written]


def same_as_default(arena: Arena) -> dict[str, str]:
    """The written schedules that, completed, are the default one, by their side: what such a pair differs by is noise."""
    default = completed(arena, arena.row.algorithm.schedule())
    labels = [label for label, each in arena.row.hand.items() if completed(arena, each(arena.row.algorithm)) == default]
    return {HAND: ", ".join(labels)} if labels else {}


def completed(arena: Arena, schedule: rd.Schedule) -> str:
    """The key of a schedule with every default written out for the arena's sizes."""
    return key_of(schedule.complete(Target().machine, arena.row.sizes(arena.inputs)))


def noise_of(times: Times) -> float:
    """How far the median of one executable lies from its own, taken in the same turns, as a share."""
    return abs(median(times[ITSELF, ""]) / median(times[DEFAULT, ""]) - 1)


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


def undisturbed_rounds(found: Sequence[Contestant], rounds: int, patience: float) -> list[tuple[float, list[float]]]:
    """That many rounds, each with the share of a processor that others had. Disturbed ones are repeated; where too few are undisturbed
    when patience (seconds) ends, the least disturbed ones, which nobody keeps."""
    begin, kept = time.perf_counter(), []
    while len(kept) < rounds or (
        sum(disturbance <= UNDISTURBED for disturbance, _ in kept) < rounds and time.perf_counter() - begin < patience
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
