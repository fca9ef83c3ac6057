"""The best known schedule for a program, as `compile(db=…)` uses it, with a sentence on the choice."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from raido.algo.errors import ScheduleError
from raido.algo.printable import printable
from raido.autotune.measure.machine import this_machine
from raido.autotune.records.choose import Choice, best_record
from raido.autotune.records.database import Database
from raido.schedule.fingerprint import fingerprint
from raido.schedule.schedule import Schedule
from raido.schedule.stages.stage import StageGraph
from raido.targets.target import Target

_log = logging.getLogger("raido")


def best_schedule(
    db: str | os.PathLike[str], graph: StageGraph, target: Target, sizes: Mapping[str, int] | None = None
) -> tuple[Schedule | None, str]:
    """The schedule to use for a program, and a sentence on the choice; None, and the reason, where the database has none.

    A schedule that this version refuses is skipped. The sentence is also logged (logger "raido", level INFO). Raises `TuningError` when the
    database does not exist or cannot be read.
    """
    schedule, why = _found(db, graph, target, sizes)
    why = printable(why)
    _log.info("%s", why)
    return schedule, why


def _found(
    db: str | os.PathLike[str], graph: StageGraph, target: Target, sizes: Mapping[str, int] | None
) -> tuple[Schedule | None, str]:
    with Database(db, create=False) as database:
        records = database.records(program=fingerprint(graph.program), target=str(target))
    passed_over: set[str] = set()
    name, empty = graph.program.name, Schedule(graph, (), target)
    while choice := best_record(records, this_machine(target).digest, sizes, passed_over):
        schedule = _schedule(choice, empty)
        if schedule is not None:
            skipped = f"; {len(passed_over)} faster ones are refused by this version" if passed_over else ""
            return (
                schedule,
                f"{name}: the schedule of measurement {choice.record.id[:12]} in {db}: {choice.why}{skipped}",
            )
        passed_over.add(choice.record.key)
    return None, f"{name}: the default schedule: {db} has no measurement of it for {target}"


def _schedule(choice: Choice, empty: Schedule) -> Schedule | None:
    try:
        return Schedule.from_json(choice.record.schedule, empty)
    except ScheduleError:
        return None
