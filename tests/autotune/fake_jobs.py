"""Tuning jobs with fake searches and times; the job's own code is the real one."""

from __future__ import annotations

import functools
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tuning_programs import SIZES, double, task

import raido as rd
from raido.autotune.jobs.job import Budget, Guide, Job
from raido.autotune.measure.local import Request
from raido.autotune.measure.measurement import Measurement
from raido.autotune.records.database import Database
from raido.autotune.space import Candidate, Space
from raido.targets.target import Target


class Drawn:
    """A search that goes through candidates in an order that a seed decides, and remembers what it was told."""

    def __init__(self, seed: int, most: int = 10**6) -> None:
        self.waiting = list(drawn())[:most]
        random.Random(seed).shuffle(self.waiting)
        self.told: list[tuple[str, float | None]] = []

    def propose(self, count: int) -> list[Candidate]:
        found, self.waiting = self.waiting[:count], self.waiting[count:]
        return found

    def tell(self, candidate: Candidate, seconds: float | None) -> None:
        self.told.append((candidate.key, seconds))


@functools.cache
def drawn() -> tuple[Candidate, ...]:
    """Many candidates for `double`."""
    space, rng = Space(double.schedule(), Target().machine, SIZES), random.Random(5)
    found = {candidate.key: candidate for candidate in (space.sample(rng) for _ in range(600))}
    found.pop(space.default().key, None)
    return tuple(found.values())


class MadeUpTime:
    """In the place of the module `time`, for one that waits: time that passes only when somebody sleeps, and a microsecond with each
    look at the date, since records are in its order."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        self.now += 1e-6
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Dice:
    """A measurer whose times follow from the key of a candidate; one in eight fails.

    pause: seconds that a measurement takes, by the clock. spares_first: the first one never fails, as in a new job over a real space,
    whose default schedule may have any key.
    """

    def __init__(self, pause: float = 0.0, clock: Any = time, spares_first: bool = False) -> None:
        self.spares_first = spares_first
        self.pause = pause
        self.clock = clock
        self.measured: list[str] = []
        self.closed = False

    def features(self, requests: Sequence[Request]) -> Mapping[str, Sequence[float]]:
        return {}

    def measure(
        self, requests: Sequence[Request], best: float | None = None, seconds: float = math.inf
    ) -> Iterator[Measurement]:
        for request in requests:
            self.clock.sleep(self.pause)
            self.measured.append(request.key)
            yield outcome(request.key, may_fail=len(self.measured) > self.spares_first)

    def compare(self, requests: Sequence[Request]) -> list[Measurement]:
        return [outcome(request.key, may_fail=False) for request in requests]

    def close(self) -> None:
        self.closed = True


def outcome(key: str, may_fail: bool) -> Measurement:
    """What becomes of a candidate, always the same."""
    number = int(key[:6], 16)
    if may_fail and number % 8 == 0:
        return Measurement(key, failure=("crash", "hang", "wrong")[number % 3], detail="made up", machine="made up")
    return Measurement(key, (number * 1e-9, number * 2e-9), machine="made up")


def default_space() -> Space:
    space = Space(double.schedule(), Target().machine, SIZES)
    space.default = lambda: _DEFAULT  # type: ignore[method-assign]  # one that never fails, whatever its key is
    return space


_TASK = task()
_PLAIN = Space(double.schedule(), Target().machine, SIZES).default()
_DEFAULT = Candidate(_PLAIN.schedule, "0fffff" + _PLAIN.key[6:], _PLAIN.decisions)


def made_up_job(
    database: Database,
    trials: int = 20,
    minutes: float | None = None,
    measurer: Any = None,
    guide: Callable[[], Guide] | None = None,
    most: int = 10**6,
    settings: Mapping[str, Any] | None = None,
) -> Job:
    """A job of `double` whose digest is always the same."""
    space = default_space()
    search = guide or (lambda: Guide(Drawn(1, most), lambda c: int(c.key[:4], 16) / 65536, lambda c: (1.0, 2.0), 7))
    budget, made = Budget(trials, minutes), measurer or Dice()
    return Job(
        _TASK,
        space,
        _DEFAULT,
        "digest",
        settings or {"seed": 1},
        database,
        budget,
        search,
        lambda: made,
        {"raido": rd.__version__},
    )
