"""`python -m raido.autotune.model.train [MEASUREMENTS …]`: makes the shipped cost model, and reports its quality on unseen programs.

Measurements are databases, or files of `raido db export`. The default is the shipped model's own training data, which is in the repository:
the same files result, given the same version of xgboost.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer

from raido.algo.errors import RaidoError
from raido.autotune.model.cost_model import SHIPPED
from raido.autotune.model.table import groups_of, read_records
from raido.autotune.model.training import Quality, Unmeasured, held_out, judge_unmeasured, left_out, train

ROOT = Path(__file__).resolve().parents[2]
MEASUREMENTS = ROOT / "benchmarks" / "tuning_measurements.jsonl.gz"
CAUTIONS, THRESHOLDS = (1.0, 2.0, 3.0), (0.1, 0.3, 0.5)
MARKS = ("<!-- quality -->", "<!-- end of quality -->")


def main(
    measurements: Annotated[list[Path] | None, typer.Argument(help="databases, or exported text, also .gz")] = None,
    into: Annotated[Path, typer.Option(help="the folder of the model")] = SHIPPED,
    seed: Annotated[int, typer.Option(help="seed of the draws")] = 0,
    quality: Annotated[
        bool, typer.Option(help="train six times more without a sixth of the programs, and judge")
    ] = True,
    unmeasured: Annotated[
        bool,
        typer.Option(help="judge rules that choose without measurements, on programs left out of training; no more"),
    ] = False,
    write: Annotated[bool, typer.Option(help="write the quality into docs/autotuning.md")] = False,
) -> None:
    """Train the model, save it, and print its quality."""
    try:
        groups = groups_of(read_records(measurements or [MEASUREMENTS]))
    except RaidoError as error:
        raise SystemExit(str(error)) from None
    if unmeasured:
        print(f"{len(groups)} programs, each by a model that was trained without it")
        print(unmeasured_table(judge_unmeasured(left_out(groups, seed), CAUTIONS, THRESHOLDS)))
        return
    train(groups, seed).save(into)
    print(f"trained on {sum(len(g.log_throughput) for g in groups)} schedules of {len(groups)} programs: {into}")
    if quality or write:
        table = quality_table(held_out(groups, seed))
        print(table)
        if write:
            path = ROOT / "docs" / "autotuning.md"
            before, rest = path.read_text("utf-8").split(MARKS[0])
            after = rest.split(MARKS[1])[1]
            path.write_text(f"{before}{MARKS[0]}\n{table}\n{MARKS[1]}{after}", "utf-8")


def quality_table(rows: list[tuple[Quality, Quality]]) -> str:
    """A Markdown table: every program, and the mean."""
    lines = [
        "| program (left out of training) | schedules | top-1 | top-8 | pairs in order | estimate alone: top-1 | top-8 | pairs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for learned, physics in rows:
        figures = (learned.top1, learned.top8, learned.pairs, physics.top1, physics.top8, physics.pairs)
        lines.append(f"| {learned.name} | {learned.schedules} | " + " | ".join(f"{x:.2f}" for x in figures) + " |")
    names = ("top1", "top8", "pairs")
    means = [fmean(getattr(row[which], name) for row in rows) for which in (0, 1) for name in names]
    total = sum(learned.schedules for learned, _ in rows)
    lines.append(f"| **mean** | {total} | " + " | ".join(f"**{x:.2f}**" for x in means) + " |")
    return "\n".join(lines)


def unmeasured_table(rules: list[Unmeasured]) -> str:
    """A Markdown table with a line for every rule."""
    lines = [
        "| caution | sure above | leaves the default | for a faster one | for a slower one | mean speed | least |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in rules:
        counts = f"{r.leaves} | {r.faster} | {r.slower}"
        lines.append(f"| {r.caution:g} | {r.sure:g} | {counts} | {r.mean:.2f} | {r.least:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    typer.run(main)
