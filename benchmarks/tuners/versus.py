"""The comparison of the schedules that every tuner found for a row, and raido's own, in turns on the same arrays."""

from __future__ import annotations

import time
from collections.abc import Iterator

from host import machine
from measure import completed, contest, noise_of, own, under
from peers.contestant import Arena, Contestant
from report import figures_of

from tuners import autoschedulers, metaschedule
from tuners.kept import Found, folder_of
from tuners.own import scheduled
from tuners.subjects import SUBJECTS

TUNED, CHOICE, EARLIER = "raido tuned", "raido model", "raido tuned before"
METASCHEDULE = "MetaSchedule"
OURS = {TUNED: "tuned", CHOICE: "choice", EARLIER: "earlier"}


def compare(name: str, found: Found, rounds: int) -> Found:
    """Everyone's medians, in milliseconds, and which schedules are the default one itself; SystemExit where a result is wrong."""
    same: list[str] = []

    def everyone(arena: Arena) -> Iterator[Contestant]:
        yield from own(arena)
        default = completed(arena, arena.row.algorithm.schedule())
        for side, key in OURS.items():
            if text := found.get(key, {}).get("schedule"):
                schedule = scheduled(arena.row, text)
                same.extend([side] if completed(arena, schedule) == default else [])
                yield under(arena, side, "", schedule)
        for scheduler in autoschedulers.AUTOSCHEDULERS:
            if "seconds" in found.get(scheduler, {}):
                yield autoschedulers.contestant(arena, scheduler, folder_of(name))
        if found.get(METASCHEDULE, {}).get("trials"):
            yield from metaschedule.contestants(arena, folder_of(name))

    times, disturbance = contest(name, SUBJECTS[name], everyone, rounds)
    return {
        "milliseconds": figures_of(times),
        "rounds": rounds,
        "others": round(disturbance, 3),
        "noise": round(noise_of(times), 4),
        "same": same,
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d"),
    }
