"""What was found, as Markdown: printed, or put into docs/autotuning.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import geometric_mean, median

from measure import DEFAULT, HAND
from store import put_between

from tuners.autoschedulers import AUTOSCHEDULERS
from tuners.kept import Found
from tuners.subjects import HELD, SUBJECTS
from tuners.versus import CHOICE, EARLIER, METASCHEDULE, TUNED

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "autotuning.md"
MARKS = ("<!-- tuners -->\n", "<!-- end of tuners -->")
GOAL = 0.95  # of the speed of the best schedule known
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


def ratios(times: Times) -> tuple[float | None, ...]:
    """Those of `RATIOS`: the first a share of speed, the others of times; None where a side is missing."""
    best = min((times[side] for side in (DEFAULT, HAND, TUNED, EARLIER) if side in times), default=None)
    halide = min((times[side] for side in AUTOSCHEDULERS if side in times), default=None)
    over = lambda mine, other: mine / other if mine is not None and other is not None else None
    tuned, choice = times.get(TUNED), times.get(CHOICE)
    return over(best, tuned), over(tuned, halide), over(choice, halide), over(tuned, times.get(METASCHEDULE))


def cells(name: str, found: Found) -> Iterator[str]:
    """A line of the first table: times, the fastest in bold, and ratios."""
    times = times_of(found)
    fastest = min(times[side] for side in SIDES if side in times)
    yield SUBJECTS[name].what
    for side in SIDES:
        if side in times:
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


def summary(rows: Mapping[str, Found]) -> list[str]:
    """What the tables come to, goal by goal, misses included."""
    found = {name: ratios(times_of(row)) for name, row in rows.items()}
    column = lambda k, unseen: {name: each[k] for name, each in found.items() if (name in HELD) == unseen or k}
    middle = lambda key: median(row["tuned"][key] for row in rows.values() if "tuned" in row)
    lines = [
        counted(column(0, False), f"Tuned schedules reach {GOAL} of the speed of the best known of ours", GOAL, False),
        counted(column(1, False), "They are ahead of every autoscheduler of Halide", 1.0),
        counted(column(3, False), "They are ahead of MetaSchedule", 1.0),
        counted(
            column(2, False), "Without a measurement, the model's choice is ahead of them (goal: three in four)", 1.0
        ),
    ]
    speedups = {
        unseen: [
            t[DEFAULT] / t[TUNED]
            for name, row in rows.items()
            if (name in HELD) == unseen and TUNED in (t := times_of(row))
        ]
        for unseen in (False, True)
    }
    for unseen, what in ((False, "the rows"), (True, "the programs that the model never saw")):
        if speedups[unseen]:
            mean = geometric_mean(speedups[unseen])
            lines.append(f"- Tuning makes {what} {mean:.2f} times as fast as the default schedule (geometric mean).")
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
    told = sorted({(row["times"]["machine"], row["times"]["date"], row["times"]["rounds"]) for row in rows.values()})
    note = "; ".join(f"{cpu}, {date}, medians of {rounds} interleaved rounds" for cpu, date, rounds in told)
    others = max(row["times"]["others"] for row in rows.values())
    noise = f"Other processes had up to {others:.0%} of a processor in the rounds that count."
    first = table(("row", *SIDES, *RATIOS), (cells(name, row) for name, row in rows.items()))
    second = table(EFFORT, (effort(name, row) for name, row in rows.items()))
    intro = "What each tuner did: raido's trials and seconds; seconds of a processor that Halide's autoschedulers took; trials of MetaSchedule."
    return "\n".join(
        [f"Milliseconds, two threads. {note}. {noise}", "", *first, "", *summary(rows), "", intro, "", *second, ""]
    )


def write(results: Mapping[str, Found]) -> None:
    """Puts it between the marks in docs/autotuning.md."""
    put_between(PAGE, MARKS, text_of(results))
