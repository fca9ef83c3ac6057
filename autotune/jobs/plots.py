"""Plots of a job for screen and paper: its progress, the model's quality, and the differences of the best schedule from the default.

They are legible in black and white: series differ in shape, too. Needs Matplotlib.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raido.algo.errors import ArgumentError, TuningError
from raido.autotune.jobs.live import best_so_far, predicted_and_measured
from raido.autotune.jobs.tuning import Tuning, spearman
from raido.schedule.schedule import Schedule
from raido.schedule.text.serialise import statements

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INK, _BLUE, _ORANGE, _RED, _GREY = "#1b1f24", "#0550ae", "#bc4c00", "#b31d28", "#8c959f"
_FAINT = "#6e7781"
_MOST_LINES = 34
_STYLE = {
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _INK,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "svg.fonttype": "none",
}


def plot_tuning(tuning: Tuning, path: str | os.PathLike[str] | None = None) -> Figure:
    """All three plots on a page as wide as A4, written to `path` where given."""
    check_plot(path)
    with _matplotlib().rc_context(_STYLE):
        figure, (left, right, below) = _page(tuning)
        draw_progress(left, tuning)
        draw_quality(right, tuning)
        draw_difference(below, tuning)
        if path is not None:
            try:
                figure.savefig(os.fspath(path), dpi=200)
            except OSError as error:
                raise TuningError(f"{path} cannot be written: {error.strerror}") from None
    return figure


def check_plot(path: str | os.PathLike[str] | None = None) -> None:
    """Raises `TuningError` without Matplotlib, `ArgumentError` for a path with an ending that is no known picture format."""
    _matplotlib()
    from matplotlib.backend_bases import FigureCanvasBase

    if path is not None and Path(path).suffix[1:].lower() not in FigureCanvasBase.get_supported_filetypes():
        raise ArgumentError(f"{path}: no kind of picture has the ending {Path(path).suffix!r}; use .png, .svg or .pdf")


def plot_curves(tuning: Tuning) -> Figure:
    """Progress and the model's quality alone, for a page that shows the schedules as text."""
    with _matplotlib().rc_context(_STYLE):
        figure, (left, right) = _curves()
        draw_progress(left, tuning)
        draw_quality(right, tuning)
    return figure


def draw_progress(axes: Any, tuning: Tuning) -> None:
    """Plots the fastest run of every trial, the running best, the default, and failed trials."""
    trials = [record for record in tuning.history if record.number]
    default = next(record for record in tuning.history if not record.number)
    good = [(record.number, record.best * 1e3) for record in trials if record.best is not None]
    axes.plot(*_columns(good), "o", color=_GREY, markersize=3, label="a trial", zorder=2)
    points = [value * 1e3 for value in best_so_far([default, *trials])]
    axes.step(range(len(points)), points, where="post", color=_BLUE, linewidth=1.8, label="the best so far", zorder=3)
    base = (default.best or 0) * 1e3
    axes.axhline(base, color=_INK, linewidth=1, linestyle=(0, (5, 3)), label="the default schedule", zorder=1)
    failed = [record.number for record in trials if record.failure is not None]
    _scale(axes, [base, *(value for _, value in good)])
    if failed:
        edge = axes.get_xaxis_transform()
        axes.plot(
            failed, [0.985] * len(failed), "x", color=_RED, markersize=4, transform=edge, label="failed", clip_on=False
        )
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("trial")
    axes.set_ylabel("fastest run, ms")
    axes.set_title("Progress")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncol=2, fontsize=8)


def draw_quality(axes: Any, tuning: Tuning) -> None:
    """Plots the model's prediction for each trial, made before its measurement, against its measured speed."""
    by_number = predicted_and_measured(tuning.history)
    pairs = list(by_number.values())
    axes.set_title("The model before each measurement")
    if len(pairs) < 3:
        axes.axis("off")
        why = "Too few trials to compare it with." if pairs else "No model took part in this search."
        axes.text(0, 0.9, why, color=_INK, va="top", transform=axes.transAxes)
        return
    predicted, speed = _columns(pairs)
    top = max(speed)
    heights = [value / top for value in speed]
    points = axes.scatter(predicted, heights, c=list(by_number), cmap="viridis_r", s=14, edgecolors="none")
    axes.figure.colorbar(points, ax=axes, label="trial", pad=0.02).locator.set_params(integer=True)
    _scale(axes, speed)
    axes.locator_params(axis="x", nbins=5)
    axes.set_ylabel("measured speed, best = 1")
    early, late = pairs[: len(pairs) // 2], pairs[len(pairs) // 2 :]
    halves = f"{spearman(early):+.2f} in the first half, {spearman(late):+.2f} in the second"
    axes.set_xlabel(
        f"predicted log-throughput, relative\nrank correlation {spearman(pairs):+.2f}: {halves}", linespacing=1.6
    )


def draw_difference(axes: Any, tuning: Tuning) -> None:
    """Both schedules side by side, by stage: directives of the default alone (−), of the best alone (+), and of both."""
    axes.axis("off")
    axes.set_title("Where the best schedule differs from the default")
    for x, sign, colour, head, lines in (
        (0.0, "−", _ORANGE, "default", schedule_lines(tuning.default, tuning.tuned)),
        (0.5, "+", _BLUE, "best", schedule_lines(tuning.tuned, tuning.default)),
    ):
        _write(axes, x, 0, _rows(tuning), head, {"color": _INK, "weight": "bold"})
        for number, (only_here, line) in enumerate(lines[: _MOST_LINES - 1], 1):
            last = number == _MOST_LINES - 1 and len(lines) > number
            text = f"… and {len(lines) - number + 1} lines more" if last else f"{sign if only_here else ' '} {line}"
            style = {"color": colour if only_here else _FAINT, "family": "monospace"}
            _write(axes, x, number, _rows(tuning), text, style)


def schedule_lines(schedule: Schedule, other: Schedule) -> list[tuple[bool, str]]:
    """Directives of a schedule, by stage in execution order, each with whether the other schedule lacks it."""
    theirs = set(other.directives)
    by_stage: dict[str, list[tuple[bool, str]]] = {}
    for directive in schedule.directives:
        text = " ".join(statements("s", (directive,)))
        by_stage.setdefault(directive.stage, []).append((directive not in theirs, text))
    order = {name: number for number, name in enumerate(schedule.stages)}
    return [line for name in sorted(by_stage, key=lambda each: order.get(each, -1)) for line in by_stage[name]]


def _write(axes: Any, x: float, line: int, lines: int, text: str, style: dict[str, Any]) -> None:
    axes.text(x, 1 - (line + 0.2) / lines, text, transform=axes.transAxes, fontsize=7.5, va="top", **style)


def _page(tuning: Tuning) -> tuple[Figure, tuple[Any, Any, Any]]:
    text = 0.15 * _rows(tuning) + 0.4
    figure = _figure(4.1 + text)
    figure.suptitle(str(tuning), x=0.01, ha="left", fontsize=10)
    grid = figure.add_gridspec(2, 2, height_ratios=(3.6, text))
    return figure, (figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, :]))


def _curves() -> tuple[Figure, tuple[Any, Any]]:
    figure = _figure(3.7)
    return figure, (figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2))


def _figure(height: float) -> Figure:
    """An empty figure as wide as A4 between its margins."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.3, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _matplotlib() -> Any:
    try:
        import matplotlib as mpl
    except ImportError:
        raise TuningError("plots need Matplotlib: pip install 'raido[tune]'") from None
    return mpl


def _rows(tuning: Tuning) -> int:
    return max(4, min(_MOST_LINES, 1 + max(len(tuning.default.directives), len(tuning.tuned.directives))))


def _columns(pairs: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [a for a, _ in pairs], [b for _, b in pairs]


def _scale(axes: Any, values: Sequence[float]) -> None:
    """Sets the y axis: linear from 0 where the values are within a factor of 4, else logarithmic with plain numbers."""
    if max(values) <= 4 * min(values):
        axes.set_ylim(bottom=0)
        return
    axes.set_yscale("log")
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
