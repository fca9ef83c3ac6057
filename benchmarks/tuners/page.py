"""The results as Markdown: printed, or put into docs/autotuning.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import geometric_mean, median

from measure import DEFAULT, HAND
from report import origin
from store import put_between

from tuners.autoschedulers import AUTOSCHEDULERS
from tuners.kept import Found
from tuners.subjects import HELD, SUBJECTS
from tuners.versus import CHOICE, EARLIER, METASCHEDULE, TUNED

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "autotuning.md"
MARKS = ("<!-- tuners -->\n", "<!-- end of tuners -->")
GOAL = 0.95  # of the speed of the best schedule known
NOISE = 0.044  # the most by which one executable was seen to differ from itself, in turns; for rows that do not say their own
SIDES = (DEFAULT, HAND, CHOICE, TUNED, *AUTOSCHEDULERS, METASCHEDULE)
RATIOS = (
    "tuned: of the best known",
    "tuned / best autoscheduler",
    "model / best autoscheduler",
    "tuned / MetaSchedule",
)
EFFORT = ("row", "trials", "seconds", "to the best: trials", "seconds", *AUTOSCHEDULERS, f"{METASCHEDULE}: trials")

Times = Mapping[str, float]


def times_of(found: Found) -> Times:
    """Milliseconds by side."""
    return {side: ms for side, (ms, _) in found.get("times", {}).get("milliseconds", {}).items()}


def noise_in(found: Found) -> float:
    """The relative difference in time between two equal programs of a row."""
    return max(
        found.get("times", {}).get("noise", NOISE), 0.01
    )  # a hundredth at the least: twenty rounds tell no less apart


def is_default(found: Found, side: str) -> bool:
    """Whether what a side found is the default schedule itself."""
    return side in found.get("times", {}).get("same", ())


def ratios(times: Times) -> tuple[float | None, ...]:
    """Those of `RATIOS`: the first a share of speed, the others of times; None where a side is missing."""
    best = min((times[side] for side in (DEFAULT, HAND, TUNED, EARLIER) if side in times), default=None)
    halide = min((times[side] for side in AUTOSCHEDULERS if side in times), default=None)
    over = lambda mine, other: mine / other if mine is not None and other is not None else None
    tuned, choice = times.get(TUNED), times.get(CHOICE)
    return over(best, tuned), over(tuned, halide), over(choice, halide), over(tuned, times.get(METASCHEDULE))


def cells(name: str, found: Found) -> Iterator[str]:
    """A line of the first table: times, the fastest in bold, and ratios. What is the default schedule itself has no time of its own."""
    times = times_of(found)
    fastest = min(times[side] for side in SIDES if side in times)
    yield SUBJECTS[name].what
    for side in SIDES:
        if is_default(found, side):
            yield "= default"
        elif side in times:
            yield f"**{times[side]:.2f}**" if times[side] == fastest else f"{times[side]:.2f}"
        else:
            yield "failed" if side in found else "–"
    for ratio in ratios(times):
        yield f"{ratio:.2f}" if ratio is not None else "–"


def effort(name: str, found: Found) -> Iterator[str]:
    """A line of the second table: what each tuner did for it."""
    tuned = found.get("tuned", {})
    yield SUBJECTS[name].what
    for key in ("trials", "seconds", "trials to best", "seconds to best"):
        yield f"{tuned[key]:.0f}" if key in tuned else "–"
    for scheduler in AUTOSCHEDULERS:
        did = found.get(scheduler)
        yield "–" if did is None else f"{did['seconds']:.2f}" if "seconds" in did else did["failure"].split(":")[0]
    did = found.get(METASCHEDULE)
    yield "–" if did is None else str(did["trials"])


def counted(values: Mapping[str, float | None], good: str, reached: float, below: bool = True) -> str:
    """How many rows reach something, and which do not, the furthest first."""
    known = {name: value for name, value in values.items() if value is not None}
    missed = {n: v for n, v in known.items() if (v > reached if below else v < reached)}
    furthest = sorted(missed.items(), key=lambda item: -item[1] if below else item[1])
    names = ", ".join(f"{name} ({value:.2f})" for name, value in furthest)
    return f"- {good} on {len(known) - len(missed)} of {len(known)} rows" + (f"; not on {names}." if missed else ".")


def beside(rows: Mapping[str, Found], k: int, what: str, goal: str = "") -> str:
    """On how many rows a ratio of times is below 1 by more than the row's noise, within it, or above."""
    found = {name: ratios(times_of(row))[k] for name, row in rows.items()}
    known = {name: value for name, value in found.items() if value is not None}
    level = [name for name, value in known.items() if abs(value - 1) <= noise_in(rows[name])]
    behind = {name: value for name, value in known.items() if value > 1 and name not in level}
    counts = f"on {len(known) - len(level) - len(behind)} of {len(known)} rows{goal}"
    parts = [f"- {what} {counts}, level within the noise on {len(level)}"]
    furthest = sorted(behind.items(), key=lambda item: -item[1])
    parts += [f"behind on {', '.join(f'{name} ({value:.2f})' for name, value in furthest)}"] if behind else []
    return ", ".join(parts) + "."


def unmeasured(rows: Mapping[str, Found]) -> list[str]:
    """How often the model leaves the default schedule without a measurement, and what for."""
    said = {name: row for name, row in rows.items() if "same" in row.get("times", {}) and CHOICE in times_of(row)}
    lines = []
    if said:
        own = {name: row for name, row in said.items() if not is_default(row, CHOICE)}
        gains = {name: times_of(row)[DEFAULT] / times_of(row)[CHOICE] for name, row in own.items()}
        faster = sum(gain > 1 + noise_in(own[name]) for name, gain in gains.items())
        slower = sum(gain < 1 / (1 + noise_in(own[name])) for name, gain in gains.items())
        lines.append(
            f"- Without a measurement, the model takes the default schedule itself on {len(said) - len(own)} of {len(said)} rows; its own "
            f"choice is faster on {faster}, slower on {slower}, and within the noise on {len(own) - faster - slower}."
        )
    if len(said) < len(rows):
        lines.append(
            f"- Where the model's choice without a measurement is the default schedule itself, as it mostly is, was not noted for "
            f"{len(rows) - len(said)} rows: its column and ratio say how fast that is, and nothing of the model."
        )
    return lines


def speedup(rows: Mapping[str, Found], what: str) -> str:
    """The gain of tuning: a mean, and on how many rows more than noise. The default schedule itself counts as 1."""
    gains = {}
    for name, row in rows.items():
        times = times_of(row)
        if TUNED in times:
            gains[name] = 1.0 if is_default(row, TUNED) else times[DEFAULT] / times[TUNED]
    faster = [name for name, gain in gains.items() if gain > 1 + noise_in(rows[name])]
    slower = [name for name, gain in gains.items() if gain < 1 / (1 + noise_in(rows[name]))]
    listed = f" ({', '.join(f'{name} {gains[name]:.2f}' for name in faster)})" if faster else ""
    return (
        f"- Tuning makes {what} {geometric_mean(gains.values()):.2f} times as fast as the default schedule (geometric mean): by more than the "
        f"noise on {len(faster)} of {len(gains)}{listed}, slower by more on {len(slower)}."
    )


def summary(rows: Mapping[str, Found]) -> list[str]:
    """The summary of the tables, goal by goal, misses included."""
    first = {name: ratios(times_of(row))[0] for name, row in rows.items() if name not in HELD}
    searched = {name: row for name, row in rows.items() if row.get(METASCHEDULE, {}).get("trials", 0) > 1}
    single = [name for name, row in rows.items() if row.get(METASCHEDULE, {}).get("trials", 0) == 1]
    middle = lambda key: median(row["tuned"][key] for row in rows.values() if "tuned" in row)
    lines = [
        counted(first, f"Tuned schedules reach {GOAL} of the speed of the best known of ours", GOAL, False),
        beside(rows, 1, "They are ahead of every autoscheduler of Halide"),
        *([beside(searched, 3, "They are ahead of MetaSchedule, where it had a choice,")] if searched else []),
    ]
    if single:
        lines.append(
            f"- For {', '.join(single)} MetaSchedule proposes one schedule in all: beside that, nothing is compared."
        )
    lines += unmeasured(rows)
    for unseen, what in ((False, "the rows"), (True, "the programs that the model never saw")):
        if part := {name: row for name, row in rows.items() if (name in HELD) == unseen and TUNED in times_of(row)}:
            lines.append(speedup(part, what))
    if any("tuned" in row for row in rows.values()):
        told = f"{middle('seconds to best'):.0f} seconds and {middle('trials to best'):.0f} trials"
        lines.append(f"- The best schedule was found after {told} (medians over rows).")
    return lines


def table(header: tuple[str, ...], lines: Iterator[Iterator[str]]) -> list[str]:
    """Markdown's table, all columns but the first to the right."""
    rows = [header, ("---", *("---:" for _ in header[1:])), *lines]
    return ["| " + " | ".join(row) + " |" for row in rows]


def text_of(results: Mapping[str, Found]) -> str:
    """Both tables, and what they come to."""
    rows = {name: found for name, found in results.items() if times_of(found)}
    if not rows:
        return "Nothing has been compared yet."
    note = list(origin({name: row["times"] for name, row in rows.items()}))
    if any("noise" not in row["times"] for row in rows.values()):
        note.append(
            f"Rows without a noise of their own are held to {NOISE:.1%}, the most by which one executable was seen to differ from itself."
        )
    if absent := [name for name in results if name not in rows]:
        note.append(
            f"Not compared since other processes disturbed their comparison, which is not kept: {', '.join(absent)}."
        )
    first = table(("row", *SIDES, *RATIOS), (cells(name, row) for name, row in rows.items()))
    second = table(EFFORT, (effort(name, row) for name, row in rows.items()))
    intro = "What each tuner did: raido's trials and seconds; seconds of a processor that Halide's autoschedulers took; trials of MetaSchedule."
    return "\n".join(["Milliseconds, two threads.", *note, "", *first, "", *summary(rows), "", intro, "", *second, ""])


def write(results: Mapping[str, Found]) -> None:
    """Puts it between the marks in docs/autotuning.md."""
    put_between(PAGE, MARKS, text_of(results))
