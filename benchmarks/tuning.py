"""The autotuner and other tuners: `python benchmarks/tuning.py [ROW …]`.

For each row: `rd.autotune` with 64 trials in at most 105 seconds; the schedule that the shipped model chooses unmeasured; Halide's three
autoschedulers and TVM's MetaSchedule where they can run the row; then all schedules found, with raido's default and written schedules, in
turns. Results are kept in benchmarks/tuning_results.json and not measured again, unless `--again` is given; a comparison that other
processes disturbed is not kept. After `--seconds` the command ends; the same command resumes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cached_property
from typing import Annotated

os.environ.setdefault("RAIDO_NUM_THREADS", "2")
os.environ.setdefault("TVM_NUM_THREADS", os.environ["RAIDO_NUM_THREADS"])
os.environ.setdefault("HL_NUM_THREADS", os.environ["RAIDO_NUM_THREADS"])

import typer
from peers import halide
from report import disturbed
from rich.console import Console
from rows.row import Arrays
from tuners import autoschedulers, metaschedule, own, page
from tuners.kept import Found, folder_of, keep, read_results
from tuners.page import times_of
from tuners.subjects import SUBJECTS, room_for, shapes_of
from tuners.versus import EARLIER, METASCHEDULE, TUNED, compare

console = Console(highlight=False)
COMPARISON = 30.0  # seconds that must be left for one; and for a tuner to begin, half of that


class Go:
    """One go at a row: what is known of it, until when it may take, and whether what is done is to be done again."""

    def __init__(self, name: str, until: float, rounds: int, again: bool) -> None:
        self.name, self.until, self.rounds, self.again = name, until, rounds, again
        self.row, self.folder = SUBJECTS[name], folder_of(name)
        self.found: Found = read_results().get(name, {})

    @cached_property
    def inputs(self) -> Arrays:
        """The arrays that are tuned on."""
        return self.row.inputs(1)

    @property
    def seconds(self) -> float:
        """The remaining seconds."""
        return self.until - time.monotonic()

    def keep(self, **news: Found) -> None:
        """Adds to what is known, by another go at the same time too."""
        self.found = {**read_results().get(self.name, {}), **news}
        keep(self.name, self.found)


def tune(go: Go) -> None:
    """raido's tuner, from a database of its own."""
    before = go.found.get("tuned", {})
    if go.again or not before:
        for file in go.folder.glob("tuning.db*"):
            file.unlink()
        if "schedule" in before:
            times = times_of(go.found)
            worse = EARLIER in times and times[EARLIER] < times.get(TUNED, 0.0)
            go.keep(earlier=go.found["earlier"] if worse else before)
        before = {}
    if not before.get("ended") and go.seconds > COMPARISON / 2:
        go.keep(tuned=own.tune(go.row, go.inputs, go.folder, before, go.seconds), times={})


def choose(go: Go) -> None:
    """The model's choice."""
    if go.again or "choice" not in go.found:
        before, choice = go.found.get("choice", {}), own.choose(go.row, go.inputs)
        same = before.get("schedule") == choice["schedule"]
        go.keep(choice=choice, **({} if same else {"times": {}}))


def autoschedule(go: Go) -> None:
    """Halide's autoschedulers."""
    missing = [each for each in autoschedulers.AUTOSCHEDULERS if go.again or each not in go.found]
    if missing and go.name in halide.programs():
        shapes = shapes_of(go.inputs), shapes_of(room_for(go.row, go.inputs))
        for scheduler in missing:
            go.keep(**{scheduler: autoschedulers.autoschedule(go.name, scheduler, go.folder, shapes)})


def metaschedule_too(go: Go) -> None:
    """TVM's MetaSchedule."""
    before = {} if go.again else go.found.get(METASCHEDULE, {})
    if go.name in metaschedule.ROWS and not before.get("ended") and go.seconds > COMPARISON / 2:
        sizes = go.row.sizes(go.inputs)
        go.keep(**{METASCHEDULE: metaschedule.tune(go.name, go.folder, sizes, before, go.seconds)})


def compare_all(go: Go) -> None:
    """Everyone in turns, once raido's tuner has ended, and again when it or the model has found something else."""
    known = times_of(go.found) and not go.again
    if go.found.get("tuned", {}).get("ended") and not known and go.seconds > COMPARISON:
        vars(go).pop("inputs", None)  # the comparison makes its own
        times = compare(go.name, go.found, go.rounds)
        if why := disturbed(go.name, times["others"]):
            console.print(f"[red]{why}[/red]")
        else:
            go.keep(times=times)


STEPS: dict[str, Callable[[Go], None]] = {
    "halide": autoschedule,
    "metaschedule": metaschedule_too,
    "choice": choose,
    "tune": tune,
    "compare": compare_all,
}


def main(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="ROW", help="rows to tune; all when none is named")
    ] = None,
    step: Annotated[list[str] | None, typer.Option(help="only these steps: " + ", ".join(STEPS))] = None,
    seconds: Annotated[float, typer.Option(help="when to end; what is not done goes on next time")] = 86400.0,
    rounds: Annotated[int, typer.Option(help="interleaved rounds of the comparison")] = 20,
    again: Annotated[bool, typer.Option("--again", help="do the steps again, whatever is known")] = False,
    table: Annotated[
        bool, typer.Option("--table", help="print what is known; works only on rows that are named")
    ] = False,
    write: Annotated[bool, typer.Option("--write", help="put it into docs/autotuning.md; likewise")] = False,
) -> None:
    """Tunes rows, compares what was found, and keeps it."""
    for kind, given, known in (("row", names, SUBJECTS), ("step", step, STEPS)):
        if unknown := set(given or ()) - known.keys():
            raise SystemExit(f"no such {kind}: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    until = time.monotonic() + seconds
    for name in names or ([] if table or write else SUBJECTS):
        go = Go(name, until, rounds, again)
        for each in step or STEPS:
            STEPS[each](go)
        if go.seconds < COMPARISON / 2:
            break
        shown = "   ".join(f"{side} {ms:.2f} ms" for side, ms in times_of(go.found).items())
        console.print(f"[bold]{name}[/bold]   {shown}", soft_wrap=True)
    if write:
        page.write(read_results())
    elif table:
        print(page.text_of(read_results()))


if __name__ == "__main__":
    typer.run(main)
