"""The live view of a job on a terminal: best time so far, trials and failures, predicted versus measured speed, time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from raido.algo.printable import printable
from raido.autotune.jobs.job import Progress, Watcher
from raido.autotune.jobs.tuning import spearman
from raido.autotune.measure.measurement import IN_WORDS
from raido.autotune.records.choose import milliseconds
from raido.autotune.records.record import Record

_LAST = 5
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 48


@contextmanager
def live_view(wanted: bool | None = None) -> Iterator[Watcher | None]:
    """A live view on standard error, if wanted (None: on a terminal); yields the function to call at each step, or None."""
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.live import Live

    state: list[Progress] = []
    view = Live(
        get_renderable=lambda: render(state[-1]) if state else "",
        console=Console(stderr=True),
        refresh_per_second=4,
        transient=True,
    )
    with view:
        yield state.append


def render(progress: Progress) -> Any:
    """The view as a Rich table."""
    from rich.table import Table
    from rich.text import Text

    trials = [record for record in progress.records if record.kind == "trial"]
    default = next((record for record in progress.records if record.kind == "default"), None)
    good = [record.best for record in (*trials, *([default] if default else [])) if record.best is not None]
    view = Table.grid(padding=(0, 2))
    view.add_column(style="bold")
    view.add_column()
    view.add_row("", Text(f"{progress.title}: {progress.phase}", style="bold"))
    view.add_row("trials", f"{bar(len(trials), progress.trials)} {len(trials)} of {progress.trials}{_failures(trials)}")
    spent = progress.spent + time.monotonic() - progress.told
    view.add_row("time", f"{clock(spent)}{_left(progress, spent, len(trials))}")
    if good and default is not None and default.best is not None:
        best = min(good)
        view.add_row(
            "best",
            f"{milliseconds(best)}, {default.best / best:.2f} times as fast as the default's {milliseconds(default.best)}",
        )
        view.add_row("", Text(sparkline(best_so_far([default, *trials])), style="green"))
    pairs = list(predicted_and_measured(trials).values())
    if len(pairs) >= 3:
        view.add_row("model", f"rank correlation {spearman(pairs):+.2f} between predicted and measured speed")
    if trials:
        view.add_row("last", _last(trials))
    return view


def predicted_and_measured(trials: Iterable[Record]) -> dict[int, tuple[float, float]]:
    """The model's score and the measured speed (runs per second) of every trial that has both, by its number."""
    return {r.number: (r.predicted, 1 / r.cost) for r in trials if r.predicted is not None and r.cost}


def best_so_far(records: list[Record]) -> list[float]:
    """Running minimum of the records' run times."""
    best: list[float] = []
    for record in records:
        if record.best is not None:
            best.append(min(record.best, best[-1]) if best else record.best)
        elif best:
            best.append(best[-1])
    return best


def sparkline(values: list[float]) -> str:
    """Numbers as a row of bars, from 0 to the largest; the last of each group where there are more than `_WIDTH`."""
    if not values:
        return ""
    stride = max(1, -(-len(values) // _WIDTH))
    shown = values[::-1][::stride][::-1]
    top = max(shown) or 1.0
    return "".join(_BARS[min(7, int(8 * value / top))] for value in shown)


def bar(done: int, total: int, width: int = 24) -> str:
    """A text progress bar."""
    filled = min(width, round(width * done / max(1, total)))
    return "━" * filled + "╌" * (width - filled)


def clock(seconds: float) -> str:
    """Seconds as 3:07, or 1:02:07."""
    whole = int(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def _failures(trials: list[Record]) -> str:
    kinds: dict[str, int] = {}
    for record in trials:
        if record.failure is not None:
            kinds[record.failure] = kinds.get(record.failure, 0) + 1
    listed = ", ".join(f"{count} {IN_WORDS.get(kind) or printable(kind)}" for kind, count in sorted(kinds.items()))
    return f", {sum(kinds.values())} failed ({listed})" if kinds else ""


def _left(progress: Progress, spent: float, done: int) -> str:
    """Text of the remaining time, by the pace so far or the minutes allowed, whichever ends first."""
    ends = []
    if done:
        ends.append(progress.spent / done * max(0, progress.trials - done))
    if progress.minutes is not None:
        ends.append(max(0.0, progress.minutes * 60 - spent))
    return f", about {clock(min(ends))} left" if ends else ""


def _last(trials: list[Record]) -> Any:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for record in trials[-_LAST:]:
        score = "" if record.predicted is None else f"predicted {record.predicted:+.2f}"
        what = milliseconds(record.best) if record.best is not None else printable(f"{record.failure}")
        table.add_row(f"{record.number}", what, score)
    return table
