"""`Measurement`, the result of measuring; `Protocol`, the timing protocol; `Limits`, the resource limits of a candidate."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# What may become of a candidate instead of a time. "compile": it is refused, or code generation fails. "crash": a process died of it.
# "hang": it went past its time. "memory": it asked for more than it may. "wrong": another result than the default schedule's.
# "fault": the program reported a fault (an index out of range, …) that it does not report under the default schedule.
FAILURES = ("compile", "crash", "hang", "memory", "wrong", "fault")
IN_WORDS = {
    "compile": "did not compile",
    "crash": "crashed",
    "hang": "took too long",
    "memory": "took too much memory",
    "wrong": "gave another result",
    "fault": "failed a check",
}


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measurement of one candidate: the time of every run in seconds, or the kind and details of its failure.

    `key` is the candidate's. `machine` is the digest of the machine it ran on, "" where it did not run, and `host` describes that.
    `compile_seconds`: its compile time. `relative`: its time divided by the default schedule's, the median over runs by turns.
    """

    key: str
    seconds: tuple[float, ...] = ()
    failure: str | None = None
    detail: str = ""
    machine: str = ""
    compile_seconds: float = 0.0
    host: Mapping[str, Any] = field(default_factory=dict, compare=False)
    relative: float | None = None

    @property
    def best(self) -> float | None:
        """The fastest run in seconds; None for a failure."""
        return min(self.seconds) if self.failure is None and self.seconds else None

    @property
    def median(self) -> float | None:
        """The median run in seconds; None for a failure."""
        return statistics.median(self.seconds) if self.failure is None and self.seconds else None

    @property
    def spread(self) -> float | None:
        """Relative distance of the median from the fastest run; None for a failure."""
        best, median = self.best, self.median
        return None if best is None or median is None or not best else median / best - 1


@dataclass(frozen=True, slots=True)
class Protocol:
    """The timing protocol of a candidate.

    After a checked warm-up run, runs alternate with runs of the default schedule, so that the machine's speed, which changes from second to
    second, cancels, until `agree` quotients lie within `spread` of their median and `least` seconds have passed; at most `runs` runs and
    `seconds` seconds (two runs are always made). A run of less than `shortest` seconds is repeated within one timing, and the timing
    divided. A candidate whose first quotient is more than `hopeless` times the best one so far is timed once, and one with `agree`
    quotients all more than `behind` times the best that many times. Finalists take turns for `rounds` rounds and `final_least` seconds, but
    not for more than `final_seconds` after the third round, nor for ten times as many rounds.
    """

    runs: int = 400
    agree: int = 3
    spread: float = 0.02
    least: float = 0.03
    seconds: float = 0.5
    shortest: float = 2e-4
    hopeless: float = 5.0
    behind: float = 1.6
    rounds: int = 15
    final_least: float = 1.0
    final_seconds: float = 6.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of a candidate: seconds of wall time to compile and to run, bytes of memory for each process.

    A run may take the longer of `run` seconds and `slower` times the default schedule's time, all repeats together; the default schedule
    itself gets `first` seconds. `memory` bounds everything that the running process maps, the inputs and the reference included (0: three
    quarters of the memory free at the start).
    """

    compile: float = 60.0
    run: float = 5.0
    slower: float = 20.0
    first: float = 120.0
    memory: int = 0
    compile_memory: int = 8 << 30
