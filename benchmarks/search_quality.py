"""The quality of the schedules that each search finds, by number of trials: `python benchmarks/search_quality.py [ROW …]`.

"model" is the search of `rd.autotune`. Three ablations are the same search without a part of it: "unseen" with a model trained here
without the row's program at any size; "estimate" with the analytic estimate in place of the trained model (both learn from the job's own
measurements); "no model" with scores drawn at random, so that only the measured parents lead it. "random" and "grid" learn nothing. A
row may be one of the five programs that the shipped model was not trained on (`"srad, unseen"`).

Searches follow one protocol: the same space, the default schedule first, rounds of eight, and each candidate measured once for all of
them; each runs once before any runs again, so that other work on the machine affects all alike. Every run is kept in
search_quality.json as it ends, and is not repeated; `--write` draws docs/search_quality.png from it and puts the table into
docs/autotuning.md.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import geometric_mean, median
from typing import Annotated

import matplotlib as mpl
import numpy as np
import typer
from rich.console import Console
from rows.row import Row
from store import put_between, read_rows, write_rows
from tuners.subjects import SUBJECTS

from raido.autotune.jobs.guides import FeatureTable
from raido.autotune.jobs.job import FINALISTS
from raido.autotune.measure.inputs import given_inputs
from raido.autotune.measure.local import LocalMeasurer, Request, Task
from raido.autotune.measure.measurement import Limits, Protocol
from raido.autotune.model import CostModel
from raido.autotune.model.table import Group, groups_of, read_records
from raido.autotune.model.train import MEASUREMENTS
from raido.autotune.model.training import train
from raido.autotune.search import Evolutionary, GridSearch, RandomSearch, Search
from raido.autotune.search.evolutionary import Model
from raido.autotune.space import Space, key_of
from raido.targets.compile import Compilation
from raido.targets.target import Target

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "search_quality.json"
DOCUMENT = HERE.parent / "docs" / "autotuning.md"
PICTURE = HERE.parent / "docs" / "search_quality.png"
MARKS = ("<!-- search quality -->\n", "<!-- end of search quality -->")
CAPTION = """Speed of the schedule that a job would give, as a part of the best known, by any search or by hand (those that ever led are
measured again in turns, which decides, as it does in a job): the median over seeds, and the worst of them in brackets.

![The best schedule so far against trials](search_quality.png)
"""
SCALE = {"sum": 4, "scan_f32": 4, "sgemm_1024": 2}  # what sizes are divided by; others by 2
CHOSEN = ("blur_f32", "harris", "jacobi3d_7", "columns_1e4")
SEARCHES = ("model", "unseen", "estimate", "no model", "random", "grid")
POINTS = (16, 32)
BATCH = 8
PROTOCOL = Protocol(seconds=0.15, runs=12)

console = Console()


class NoModel:
    """In the place of a cost model: scores drawn at random, and nothing learned."""

    def __init__(self, seed: int) -> None:
        self._chance = np.random.default_rng(seed)

    def predict(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A score for each row, and no spread."""
        return self._chance.random(len(features)), np.zeros(len(features))

    def update(self, features: np.ndarray, log_throughput: np.ndarray) -> None:
        """Nothing."""


def unseen_groups(fingerprint: str, name: str) -> list[Group]:
    """The training data of the shipped model without that program at any size: under its name, or under another that means the same."""
    records = read_records([MEASUREMENTS])
    same = {record.name for record in records if record.program == fingerprint} | {name}
    return groups_of([record for record in records if record.name not in same])


def model_of(kind: str, space: Space, seed: int) -> Model:
    """The model of an evolutionary search by name."""
    if kind == "no model":
        return NoModel(seed)
    unseen = lambda: train(unseen_groups(space.schedule.fingerprint, space.schedule.graph.program.name))
    return {"model": CostModel.shipped, "unseen": unseen, "estimate": CostModel}[kind]()


def make_search(kind: str, space: Space, seed: int) -> Search:
    """A search by name."""
    if kind == "random":
        return RandomSearch(space, seed)
    if kind == "grid":
        return GridSearch(space)
    return Evolutionary(space, model_of(kind, space, seed), FeatureTable(space).of, seed)


def task_of(row: Row, scale: int) -> tuple[Task, Space]:
    """The tuning task of a row, and the space of its schedules."""
    inputs, target = row.inputs(scale), Target("llvm")
    program = row.algorithm.trace()
    bound = given_inputs(Compilation(program, target, None, {}).signature, inputs)
    space = Space(row.algorithm.schedule(), target.machine, bound.sizes)
    return Task(program, target, bound, space.default().schedule.to_json(), Limits(), PROTOCOL), space


@dataclass
class Tried:
    """The measurements of a row: `runs[search][seed]` are the keys of the candidates in order, `times` what they took, relative to the
    default schedule beside them (None for a failure), `leaders` the schedules that were the fastest so far in some run, `final` the
    median runs of those, taken in turns.
    """

    runs: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    times: dict[str, float | None] = field(default_factory=dict)
    leaders: dict[str, str] = field(default_factory=dict)
    final: dict[str, float] = field(default_factory=dict)

    def run(self, kind: str, seed: int, search: Search, measurer: LocalMeasurer, trials: int) -> None:
        """Lets a search propose and tells it what its candidates took; those known already are not measured again."""
        found: list[str] = []
        fastest = float("inf")
        while len(found) < trials and (batch := search.propose(min(BATCH, trials - len(found)))):
            new = [Request(c.key, c.schedule.to_json()) for c in batch if c.key not in self.times]
            best = min((each for each in self.times.values() if each is not None), default=None)
            self.times.update({each.key: each.relative for each in measurer.measure(new, best)})
            for candidate in batch:
                seconds = self.times[candidate.key]
                search.tell(candidate, seconds)
                found.append(candidate.key)
                if seconds is not None and seconds < fastest:
                    fastest = seconds
                    self.leaders[candidate.key] = candidate.schedule.to_json()
        self.runs.setdefault(kind, {})[str(seed)] = found

    def compare(self, measurer: LocalMeasurer) -> None:
        """Measures all that ever led in turns: the fastest run of one candidate may have been luck."""
        if self.leaders.keys() - self.final.keys():
            requests = [Request(key, schedule) for key, schedule in self.leaders.items()]
            found = {each.key: each.median for each in measurer.compare(requests) if each.median is not None}
            self.final = found or self.final

    def shares(self, kind: str, trials: int) -> list[list[float]]:
        """For every seed, the speed of what a job of 1, 2, … trials gives, as a part of the best speed known of the row: the finals decide
        between the default schedule and the last that were the fastest when they were measured."""
        curves = []
        best = min(self.final.values(), default=0.0)
        for keys in self.runs.get(kind, {}).values():
            led, curve = keys[:1], []
            for key in keys[:trials]:
                taken, fastest = self.times[key], self.times[led[-1]]
                if taken is not None and (fastest is None or taken < fastest):
                    led.append(key)
                finals = [self.final[each] for each in (keys[0], *led[-FINALISTS:]) if each in self.final]
                curve.append(best / min(finals) if finals else 0.0)
            curves.append(curve + curve[-1:] * (trials - len(curve)))
        return curves


def read_results() -> dict[str, Tried]:
    """The measurements so far, by row."""
    return {name: Tried(**row) for name, row in read_rows(RESULTS).items()}


def keep_results(results: Mapping[str, Tried]) -> None:
    """Writes all that was measured."""
    write_rows(RESULTS, {name: asdict(tried) for name, tried in results.items()})


def table(results: Mapping[str, Tried], trials: int) -> str:
    """The table of the document."""
    points = [n for n in POINTS if n <= trials]
    kinds = [kind for kind in SEARCHES if any(kind in tried.runs for tried in results.values())]
    lines = ["| row | default | " + " | ".join(f"{kind}, {n} trials" for kind in kinds for n in points) + " |"]
    lines.append("|" + "---|" * (2 + len(kinds) * len(points)))
    totals: dict[tuple[str, int], list[float]] = {}
    for name, tried in results.items():
        first = next(iter(tried.runs))
        cells = [f"{tried.shares(first, 1)[0][0]:.2f}"]
        for kind in kinds:
            curves = tried.shares(kind, trials)
            for n in points:
                if not curves:
                    cells.append("")
                    continue
                reached = [curve[n - 1] for curve in curves]
                totals.setdefault((kind, n), []).append(geometric_mean(reached))
                cells.append(f"{median(reached):.2f} ({min(reached):.2f})" if len(reached) > 1 else f"{reached[0]:.2f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    keys = [(kind, n) for kind in kinds for n in points]
    means = [f"**{geometric_mean(totals[key]):.2f}**" if key in totals else "" for key in keys]
    return "\n".join([*lines, "| all | | " + " | ".join(means) + " |"]) + "\n"


def draw(results: Mapping[str, Tried], trials: int) -> None:
    """One panel a row: the median over seeds, and between the worst and the best of them."""
    mpl.use("Agg")
    from matplotlib import pyplot

    columns = 2
    figure, panels = pyplot.subplots(-(-len(results) // columns), columns, figsize=(8, 5.5), sharex=True, sharey=True)
    styles = {
        "model": ("black", "-"),
        "unseen": ("tab:red", (0, (5, 1))),
        "estimate": ("tab:green", "-."),
        "no model": ("tab:orange", (0, (1, 1))),
        "random": ("tab:blue", "--"),
        "grid": ("tab:gray", ":"),
    }
    curves = [curve for tried in results.values() for kind in styles for curve in tried.shares(kind, trials)]
    lowest = min((min(curve) for curve in curves), default=0.05)
    for panel, (name, tried) in zip(panels.flat, results.items(), strict=False):
        for kind, (colour, dashes) in styles.items():
            steps = list(zip(*tried.shares(kind, trials), strict=True))
            if not steps:
                continue
            axis = range(1, len(steps) + 1)
            panel.plot(axis, [median(step) for step in steps], linestyle=dashes, color=colour, label=kind)
            panel.fill_between(axis, [min(s) for s in steps], [max(s) for s in steps], color=colour, alpha=0.15, lw=0)
        panel.set_title(name, fontsize=9)
        panel.set_ylim(lowest - 0.05, 1.02)
        panel.grid(alpha=0.3)
    panels.flat[0].legend(fontsize=8, loc="lower right")
    figure.supxlabel("trials", fontsize=9)
    figure.supylabel("part of the best speed known", fontsize=9)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=150)


def write(results: Mapping[str, Tried], trials: int) -> None:
    """The table and the picture of the document."""
    put_between(DOCUMENT, MARKS, table(results, trials) + "\n" + CAPTION)
    draw(results, trials)


def main(
    names: Annotated[list[str] | None, typer.Argument(help="rows of the benchmarks, or unseen programs")] = None,
    trials: Annotated[int, typer.Option(help="candidates that each search may try")] = 32,
    seeds: Annotated[int, typer.Option(help="runs of each search that draws")] = 5,
    minutes: Annotated[float, typer.Option(help="no run begins later than this")] = 1e9,
    searches: Annotated[list[str] | None, typer.Option("--search", help="of " + ", ".join(SEARCHES))] = None,
    only_write: Annotated[bool, typer.Option("--write", help="measure nothing; draw what there is")] = False,
) -> None:
    """Runs every search on every row with every seed, and prints the table."""
    for kind, given, known in (("row", names, SUBJECTS), ("search", searches, SEARCHES)):
        if unknown := set(given or ()) - set(known):
            raise SystemExit(f"no such {kind}: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    results, start = read_results(), time.monotonic()
    late = lambda: time.monotonic() - start > 60 * minutes
    for name in [] if only_write else names or CHOSEN:
        row = SUBJECTS[name]
        tried = results.get(name, Tried())
        missing = [
            (kind, seed)
            for seed in range(seeds)
            for kind in searches or SEARCHES
            if (kind != "grid" or seed == 0) and str(seed) not in tried.runs.get(kind, {})
        ]
        if not missing or late():
            continue
        task, space = task_of(row, SCALE.get(name, 2))
        with closing(LocalMeasurer(task)) as measurer:
            for kind, seed in missing:
                if late():
                    break
                tried.run(kind, seed, make_search(kind, space, seed), measurer, trials)
            hand = [record(row.algorithm).complete(task.target, task.inputs.sizes) for record in row.hand.values()]
            tried.leaders.update({key_of(schedule): schedule.to_json() for schedule in hand})
            tried.compare(measurer)
        results[name] = tried
        keep_results(results)
    console.print(table(results, trials))
    if only_write:
        write(results, trials)


if __name__ == "__main__":
    typer.run(main)
