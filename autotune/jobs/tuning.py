"""`Tuning`, the result of a tuning job, with the best schedule, every trial in order, and plots."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from raido.algo.errors import TuningError
from raido.algo.graph.program import Program
from raido.algo.html import listing, text, titled
from raido.algo.printable import printable
from raido.algo.trace.attributes import NearAttributes
from raido.autotune.measure.measurement import IN_WORDS
from raido.autotune.records.choose import best_record, final_sets, in_turns, milliseconds, size_text
from raido.autotune.records.record import Record
from raido.schedule.recorded import Directive
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.schedule.stages.stage import StageGraph
from raido.schedule.text.diff import Difference
from raido.targets.target import Target

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from raido.targets.executable import Executable


@dataclass(frozen=True)
class Tuning(NearAttributes):
    """The outcome of a job, or of the part done so far: its records, in order, as the database has them.

    `graph` has the stages of the program; `ended` is the reason why the job is over ("trials", "minutes", "exhausted", or "" while it
    runs); `seconds` is the time over all its runs. `default_counts`: whether the default schedule may be the best; False where a given
    space lacks it. `unmeasured`: for a job without trials, the default of the space, and the default.
    """

    name: str
    graph: StageGraph
    sizes: Mapping[str, int]
    target: str
    records: tuple[Record, ...]
    ended: str
    seconds: float
    default_counts: bool = True
    unmeasured: tuple[Schedule, Schedule] | None = None
    _display_name: ClassVar[str] = "tuning"

    @cached_property
    def best(self) -> Schedule:
        """The best schedule for all sizes: `tuned` behind a test for the sizes of the job, specialised for them, and the default schedule
        elsewhere. It is `tuned` itself for a program without sizes, and for one that has branches already."""
        tests = [
            f"{size.name} == {self.sizes[size.name]}" for size in self.graph.program.sizes if size.name in self.sizes
        ]
        if not tests or any(directive.branches_program for directive in self.tuned.directives):
            return self.tuned
        return Schedule(
            self.graph, (Directive("", "when", (), ((" and ".join(tests), self.tuned.directives),)),), self.tuned.target
        )

    @cached_property
    def tuned(self) -> Schedule:
        """The best schedule for the sizes of the job, complete: the fastest by turns with the default and the other finalists; without
        trials the default."""
        return self.unmeasured[0] if self.unmeasured else self._schedule(self.record)

    def compile(self) -> Executable:
        """The program under `best`: one executable for all sizes, on this machine. Raises the errors of `Algorithm.compile`."""
        from raido.targets.compile import compile_program

        return compile_program(self.graph.program, self.target, self.best)

    @cached_property
    def default(self) -> Schedule:
        """The default schedule, complete, the baseline of all comparisons."""
        if self.unmeasured:
            return self.unmeasured[1]
        return self._schedule(next(record for record in self.records if record.kind == "default"))

    @cached_property
    def record(self) -> Record:
        """The record of the best schedule."""
        return self._choice[0]

    @property
    def why(self) -> str:
        """The reason why that record is the best, in words."""
        return self._choice[1]

    @cached_property
    def history(self) -> tuple[Record, ...]:
        """Every trial in the order of the search, failures included, the default schedule first. A schedule that two processes measured for
        the same job at the same time occurs once."""
        return tuple({record.key: record for record in self.records if record.kind != "final"}.values())

    @cached_property
    def finals(self) -> tuple[Record, ...]:
        """The finalists of the last comparison by turns."""
        sets = final_sets(self.records)
        return tuple(sets[-1]) if sets else ()

    @cached_property
    def speedup(self) -> float:
        """The run time of the default divided by that of the best schedule: by turns, else by the fastest runs; 1 without either."""
        if self.unmeasured:
            return 1.0
        pool = self.finals or self.history
        default = next((record for record in pool if record.number == 0), None)
        best = next((record for record in pool if record.key == self.record.key), self.record)
        if default is None or not best.best or not default.best:
            return 1.0
        quotient = in_turns(best, default) if self.finals else best.relative
        return 1 / quotient if quotient else default.best / best.best

    @property
    def failures(self) -> dict[str, int]:
        """The number of failed trials by kind."""
        found: dict[str, int] = {}
        for record in self.history:
            if record.failure is not None:
                found[record.failure] = found.get(record.failure, 0) + 1
        return found

    def diff(self) -> Difference:
        """The difference between the tuned schedule and the default."""
        return self.default.diff(self.tuned)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Progress, the model's quality, and the differences of the best schedule from the default, as a Matplotlib figure; written to
        `path` (.png, .svg, .pdf) where given."""
        if self.unmeasured:
            raise TuningError(f"{self.name}: nothing was measured, so there is nothing to plot")
        from raido.autotune.jobs.plots import plot_tuning

        return plot_tuning(self, path)

    def __reduce__(self) -> tuple[Any, ...]:
        rest = (self.target, self.records, self.ended, self.seconds, self.default_counts, self.unmeasured)
        return _restored, (self.name, self.graph.program, dict(self.sizes), *rest)

    def __str__(self) -> str:
        count = len(self.history) - 1
        none = "; no trial was measured in that time" if not count and self.ended == "minutes" else ""
        failed = "".join(
            f", {number} {IN_WORDS.get(kind) or printable(kind)}" for kind, number in sorted(self.failures.items())
        )
        sizes = size_text(self.sizes)
        where = f"{self.name} on {self.target}{' at ' if sizes else ''}{sizes}"
        if self.unmeasured:
            what = "the default schedule" if self.tuned == self.default else "a schedule other than the default one"
            return f"{where}: {what}; nothing was measured"
        took = f" in {self.seconds:.0f} s" if self.seconds else ""
        best = milliseconds((self.record.median if self.finals else self.record.best) or 0)
        return f"{where}: {best}, {self.speedup:.2f} times as fast as the default; {count} trial{'' if count == 1 else 's'}{failed}{took}{none}"

    def __repr__(self) -> str:
        return f"<Tuning {self}>"

    def _repr_html_(self) -> str:
        why = "" if self.unmeasured else f"<p>{text(self.why)}</p>"
        return titled(f"Tuning of {self.name}", f"<p>{text(str(self))}</p>", why, listing(str(self.best)))

    @cached_property
    def _choice(self) -> tuple[Record, str]:
        if self.unmeasured:
            raise TuningError(f"{self.name}: nothing was measured, so there is no record")
        machines = [record.machine for record in self.records if record.best is not None]
        exclude = () if self.default_counts else {record.key for record in self.records if record.kind == "default"}
        choice = best_record(self.records, machines[-1] if machines else "", self.sizes, exclude)
        if choice is None:
            raise TuningError(f"{self.name}: none of the schedules of the space could be measured: {self.failures}")
        return choice.record, printable(choice.why)

    def _schedule(self, record: Record) -> Schedule:
        return Schedule.from_json(record.schedule, Schedule(self.graph, (), Target.parse(self.target)))


def _restored(name: str, program: Program, sizes: Mapping[str, int], *rest: Any) -> Tuning:
    """A pickled tuning; the stages are formed of its program again."""
    return Tuning(name, form_stages(program), sizes, *rest)


def spearman(pairs: list[tuple[float, float]]) -> float:
    """Spearman's rank correlation of pairs: 1 for a monotone relation, 0 for none, and for fewer than three pairs."""
    import numpy as np

    if len(pairs) < 3:
        return 0.0
    ranks: list[Any] = [np.argsort(np.argsort(values)).astype(float) for values in zip(*pairs, strict=True)]
    a, b = (rank - rank.mean() for rank in ranks)
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / scale if scale else 0.0
