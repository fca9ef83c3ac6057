"""`raido tune --html`: one page about a tuning job, readable offline, on a screen and on paper.

The page shows the best time and its speed-up, the plots as SVG, the finalists, the best schedule beside the default, failures by kind,
and, folded away and left out in print, every trial.
"""

from __future__ import annotations

import io
import platform
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from raido.page import STYLE, table, write_whole

if TYPE_CHECKING:
    from raido import Schedule, Tuning

_MORE = """
figure { margin: 1rem 0; background: #fff; padding: .5rem; border-radius: 6px } figure svg { width: 100%; height: auto }
.numbers { display: flex; flex-wrap: wrap; gap: 1rem 3rem; margin: 1.2rem 0 } .numbers div { color: var(--note) }
.numbers b { display: block; font-size: 1.5rem; color: var(--ink); font-weight: 600 }
.only { color: var(--word); font-weight: 600 } .pair { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem }
@media print { figure { padding: 0; break-inside: avoid } .numbers { gap: .5rem 1.6rem } .numbers b { font-size: 13pt } .pair { gap: .5rem } }
"""


def write_tuning_page(path: Path, title: str, tuning: Tuning) -> None:
    """Writes the report of a job; an old file is replaced only when the new one is complete."""
    write_whole(path, render_tuning_page(title, tuning))


def render_tuning_page(title: str, tuning: Tuning) -> str:
    """The report as HTML."""
    from raido.autotune.records.choose import milliseconds, size_text

    default, best = tuning.history[0], tuning.record
    seconds = (best.median if tuning.finals else best.best) or 0.0
    numbers = [
        (milliseconds(seconds), "the best schedule" + (", median in turns" if tuning.finals else ", fastest run")),
        (f"{tuning.speedup:.2f} ×", "as fast as the default schedule"),
        (str(len(tuning.history) - 1), "schedules tried"),
        (str(sum(tuning.failures.values())), "of them failed"),
        (f"{tuning.seconds:.0f} s", "taken in all"),
    ]
    where = ", ".join(
        filter(None, (size_text(tuning.sizes), tuning.target, str(default.host.get("model", platform.machine()))))
    )
    parts = [
        f"<h1>{escape(tuning.name)}: which schedule is fast</h1>",
        f'<p class="where">{escape(title)}<br>{escape(where)}</p>',
        '<div class="numbers">' + "".join(f"<div><b>{escape(a)}</b>{escape(b)}</div>" for a, b in numbers) + "</div>",
        f"<p>The best is {escape(tuning.why)}.</p>",
        f"<figure>{_drawing(tuning)}</figure>",
        _finalists(tuning),
        '<h2>Schedules, with every default written out</h2><div class="pair">',
        f"<div>The best<pre>{_schedule(tuning.tuned, tuning.default)}</pre></div>",
        f"<div>The default<pre>{_schedule(tuning.default, tuning.tuned)}</pre></div></div>",
        _failures(tuning),
        f"<details><summary>Every trial</summary>{_trials(tuning)}</details>",
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}{_MORE}</style></head>\n'
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _drawing(tuning: Tuning) -> str:
    """The plots as an SVG element, without the XML prologue of a file."""
    from raido.autotune.jobs.plots import plot_curves

    text = io.StringIO()
    plot_curves(tuning).savefig(text, format="svg")
    return re.sub(r"^.*?(?=<svg )", "", text.getvalue(), flags=re.DOTALL)


def _finalists(tuning: Tuning) -> str:
    from raido.autotune.records.choose import milliseconds

    if not tuning.finals:
        return ""
    default = next((record.median for record in tuning.finals if not record.number), None)
    numbers = {record.key: record.number for record in tuning.history}
    rows = []
    for record in sorted(tuning.finals, key=lambda each: each.median or 0.0):
        median = record.median or 0.0
        times = f"{default / median:.2f}" if default and median else ""
        number = numbers.get(record.key)
        name = "the default" if not record.number else "of an earlier job" if number is None else f"trial {number}"
        rows.append((name, milliseconds(median), milliseconds(record.best or 0.0), str(len(record.seconds)), times))
    return "<h2>Finalists, run in turns</h2>" + table(("schedule", "median", "fastest", "runs", "times as fast"), rows)


def _schedule(schedule: Schedule, other: Schedule) -> str:
    """The directives stage by stage as HTML; directives that `other` lacks are marked by a sign beside their colour."""
    from raido.autotune.jobs.plots import schedule_lines

    lines = schedule_lines(schedule, other)
    return "\n".join(
        f'<span class="only">▸ {escape(line)}</span>' if only else f"  {escape(line)}" for only, line in lines
    )


def _failures(tuning: Tuning) -> str:
    if not tuning.failures:
        return ""
    seen: dict[str, str] = {}
    for record in tuning.history:
        if record.failure is not None:
            seen.setdefault(record.failure, " ".join(record.detail.split())[:200])
    rows: Sequence[Sequence[str]] = [(kind, str(tuning.failures[kind]), seen[kind]) for kind in sorted(seen)]
    return "<h2>Failures</h2>" + table(("kind", "trials", "the first said"), rows)


def _trials(tuning: Tuning) -> str:
    from raido.autotune.records.choose import milliseconds

    rows = []
    for record in tuning.history:
        score = "" if record.predicted is None else f"{record.predicted:+.2f}"
        what = milliseconds(record.best) if record.best is not None else str(record.failure)
        spread = f"{(record.median or 0) / record.best - 1:.1%}" if record.best else ""
        rows.append(
            (str(record.number), score, what, spread, str(len(record.seconds)), f"{record.compile_seconds:.2f} s")
        )
    return table(("trial", "predicted", "fastest run", "median above it", "runs", "compiled in"), rows)
