"""`raido db`: lists and merges databases of measurements, and converts them to and from text."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raido.algo.errors import ArgumentError
from raido.locate import find_algorithm
from raido.options import Statics, TargetName, Traceback
from raido.printing import complain, say

if TYPE_CHECKING:
    from raido.autotune.records.record import Record

db_app = typer.Typer(no_args_is_help=True, help="Look at measurements, and at the best schedules among them.")

DatabaseFile = Annotated[Path, typer.Argument(metavar="FILE.db", help="a database that `raido tune` has written")]


@db_app.command("list")
def db_list(database: DatabaseFile, traceback: Traceback = False) -> None:
    """List what was measured: program, sizes, target, trials and failures, the default's time, the best time, and the date.

    Programs of one name (changed since, or with other --set) are told apart by the first digits of their fingerprints. Times are those of
    the finals, in which schedules run in turns with the default, or of the trials for a job without finals.
    """
    from raido.autotune.records.choose import size_text
    from raido.autotune.records.database import Database

    with Database(database, create=False) as opened:
        groups: dict[tuple[str, ...], list[Record]] = {}
        for record in opened.records():
            # a candidate that did not compile ran on no machine, and is listed with the rest of its job
            key = (record.name, record.program, size_text(record.sizes), record.target, record.job)
            groups.setdefault(key, []).append(record)
    rows = [("PROGRAM", "SIZES", "TARGET", "MACHINE", "TRIALS", "FAILED", "DEFAULT", "BEST", "TIMES AS FAST", "LAST")]
    programs = {(name, program) for name, program, *_ in groups}
    for (name, program, sizes, target, _), records in groups.items():
        trials = {record.key: record for record in records if record.kind == "trial"}.values()
        machine = next((record.machine for record in records if record.machine), "")
        rows.append(
            (
                f"{name} {program[:8]}" if sum(name == each for each, _ in programs) > 1 else name,
                sizes or "-",
                target,
                machine[:8],
                str(len(trials)),
                str(sum(record.failure is not None for record in trials)),
                *compared(records),
                time.strftime("%Y-%m-%d %H:%M", time.localtime(max(record.at for record in records))),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows if groups else ():
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    count = sum(map(len, groups.values()))
    say(f"{count} measurement{'' if count == 1 else 's'} in {database}")


def compared(records: list[Record]) -> tuple[str, str, str]:
    """The time of a job's default schedule, its best time, and their ratio, as text; from the last finals (runs in turns), else fastest
    runs."""
    from raido.autotune.records.choose import final_sets, in_turns, milliseconds

    last = (final_sets(records) or [[]])[-1]
    reference = next((record for record in last if not record.number), None)
    if reference is not None:
        quotients = {record.id: in_turns(record, reference) for record in last}
        best = min(last, key=lambda record: quotients[record.id] or math.inf)
        times = 1 / (quotients[best.id] or math.inf)
        return milliseconds(reference.median or 0), milliseconds(best.median or 0), f"{times:.2f}"
    default = next((record.best for record in records if record.kind == "default"), None)
    fastest = min((record.best for record in records if record.best is not None), default=None)
    return (
        milliseconds(default) if default else "-",
        milliseconds(fastest) if fastest else "-",
        f"{default / fastest:.2f}" if default and fastest else "-",
    )


@db_app.command("best")
def db_best(
    database: DatabaseFile,
    program: Annotated[str, typer.Argument(metavar="FILE.py:ALG", help="a Python file and an algorithm in it")],
    sizes: Annotated[
        str, typer.Option("--sizes", metavar="h=480,w=640", help="the sizes for which the schedule is wanted")
    ] = "",
    target: TargetName = "llvm",
    set_: Statics = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, for --schedule, instead of Python")] = False,
    traceback: Traceback = False,
) -> None:
    """Print the best known schedule of an algorithm, and on standard error which measurement it is, and why that."""
    from raido.autotune.records.lookup import best_schedule
    from raido.targets.target import Target
    from raido.tune_command import parse_sizes

    algorithm = find_algorithm(program, set_)
    empty, wanted = algorithm.schedule(), parse_sizes(sizes)
    known = [size.name for size in empty.graph.program.sizes]
    for name in wanted:
        if name not in known:
            raise ArgumentError(f"{algorithm.name} has no size {name!r}; its sizes: {', '.join(known) or 'none'}")
    schedule, why = best_schedule(database, empty.graph, Target.parse(target), wanted or None)
    complain(why)
    say((schedule or empty).to_json() if as_json else schedule or empty)


@db_app.command("merge")
def db_merge(
    into: Annotated[
        Path, typer.Argument(metavar="INTO.db", help="the database to which measurements are added; created if missing")
    ],
    others: Annotated[
        list[Path], typer.Argument(metavar="FILE.db…", help="the databases whose measurements are added")
    ],
    traceback: Traceback = False,
) -> None:
    """Add the measurements of other databases to one; what it has already is left alone. Of a damaged one, what can be read is added."""
    from raido.autotune.records.exchange import merge

    new, damaged = merge(into, others)
    for path, count in damaged:
        complain(f"{path} is damaged: {count} of its measurements could be read")
    say(f"{new} new measurement{'' if new == 1 else 's'} in {into}")


@db_app.command("export")
def db_export(
    database: DatabaseFile,
    output: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="a line of JSON for each measurement")],
    traceback: Traceback = False,
) -> None:
    """Write all measurements as text."""
    from raido.autotune.records.database import Database
    from raido.autotune.records.exchange import export

    with Database(database, create=False) as opened:
        say(f"{export(opened, output)} measurements in {output}")


@db_app.command("import")
def db_import(
    database: Annotated[Path, typer.Argument(metavar="FILE.db", help="the database; created if missing")],
    text: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="what `raido db export` wrote")],
    traceback: Traceback = False,
) -> None:
    """Add the measurements that `raido db export` wrote."""
    from raido.autotune.records.database import Database
    from raido.autotune.records.exchange import read_text

    records = read_text(text)
    with Database(database) as opened:
        say(f"{opened.add_all(records)} new measurements in {database}")
