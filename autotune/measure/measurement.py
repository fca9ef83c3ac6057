"""Results and protocol of measuring: `Measurement`, the `Protocol` of timing, and the `Limits` on what a candidate may use."""

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
    """One candidate, measured: the time of every run in seconds, or the kind of its failure and what was seen of it.

    `key` is the candidate's. `machine` is the digest of where it ran, "" where it ran nowhere, and `host` describes it.
    `compile_seconds`: making its code. `relative`: its time over that of the default schedule, the median of runs in turns with it.
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
        """The fastest run; None for a failure."""
        return min(self.seconds) if self.failure is None and self.seconds else None

    @property
    def median(self) -> float | None:
        """The median run; None for a failure."""
        return statistics.median(self.seconds) if self.failure is None and self.seconds else None

    @property
    def spread(self) -> float | None:
        """How far the median lies above the fastest run, as a part of it; None for a failure."""
        best, median = self.best, self.median
        return None if best is None or median is None or not best else median / best - 1


@dataclass(frozen=True, slots=True)
class Protocol:
    """How a candidate is timed.

    After a run that is checked and not counted, runs take turns with runs of the default schedule, so that the machine's pace, which
    changes from second to second, divides out, until `agree` quotients lie within `spread` of their median and `least` seconds have
    passed; at most `runs` in the one case, and `seconds` in the other (two are always made). A run of less than `shortest`
    seconds is repeated within one timing, and the timing divided. A candidate whose first quotient is more than `hopeless` times the
    best one so far is timed once, and one of which `agree` are all more than `behind` times as long so many times. Finalists take turns
    for `rounds` rounds and `final_least` seconds, but not for more than `final_seconds` after the third round, nor for ten times as
    many rounds.
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
    """The resource limits of a candidate: seconds of wall time to compile and to run, bytes of memory for each process.

    A run may take `run` seconds and `slower` times what the default schedule took, all repeats together, whichever is longer; the
    default schedule itself gets `first` seconds. `memory` is what the process that runs candidates may map for all that it
    holds, the inputs and the reference among it (0: three quarters of the memory free at the start).
    """

    compile: float = 60.0
    run: float = 5.0
    slower: float = 20.0
    first: float = 120.0
    memory: int = 0
    compile_memory: int = 8 << 30
