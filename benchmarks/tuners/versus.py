"""The comparison of a row: what every tuner found, and our own schedules, in turns on the same arrays."""

from __future__ import annotations

import time
from collections.abc import Iterator

from measure import contest, own, under
from peers.contestant import Arena, Contestant
from report import figures_of, machine

from tuners import autoschedulers, metaschedule
from tuners.kept import Found, folder_of
from tuners.own import scheduled
from tuners.subjects import SUBJECTS

TUNED, CHOICE, EARLIER = "raido tuned", "raido model", "raido tuned before"
METASCHEDULE = "MetaSchedule"
OURS = {TUNED: "tuned", CHOICE: "choice", EARLIER: "earlier"}


def compare(name: str, found: Found, rounds: int) -> Found:
    """Everyone's medians, in milliseconds; SystemExit where a result is wrong."""

    def everyone(arena: Arena) -> Iterator[Contestant]:
        yield from own(arena)
        for side, key in OURS.items():
            if text := found.get(key, {}).get("schedule"):
                yield under(arena, side, "", scheduled(arena.row, text))
        for scheduler in autoschedulers.AUTOSCHEDULERS:
            if "seconds" in found.get(scheduler, {}):
                yield autoschedulers.contestant(arena, scheduler, folder_of(name))
        if found.get(METASCHEDULE, {}).get("trials"):
            yield from metaschedule.contestants(arena, folder_of(name))

    times, disturbance = contest(name, SUBJECTS[name], everyone, rounds)
    return {
        "milliseconds": figures_of(times),
        "rounds": rounds,
        "others": round(disturbance, 2),
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d"),
    }
