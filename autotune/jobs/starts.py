"""First candidates of a job: the best schedules of other jobs for the same program, at these sizes or at others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from raido.algo.errors import RaidoError
from raido.autotune.records.choose import best_record, distance
from raido.autotune.records.record import Record
from raido.autotune.search.search import can_lower
from raido.autotune.space import Candidate, Space
from raido.schedule.schedule import Schedule

MOST = 3


def known_schedules(records: Iterable[Record], machine: str, sizes: Mapping[str, int]) -> list[str]:
    """The best schedule for each combination of sizes, nearest sizes first, as JSON; records of this machine take precedence."""
    measured = [record for record in records if record.best is not None]
    sizes_of = {tuple(sorted(record.sizes.items())): record.sizes for record in measured}
    found: dict[str, str] = {}
    for own_sizes in sorted(sizes_of.values(), key=lambda each: (distance(each, sizes), sorted(each.items()))):
        choice = best_record([record for record in measured if record.sizes == own_sizes], machine, own_sizes)
        if choice is not None:
            found.setdefault(choice.record.key, choice.record.schedule)
    return list(found.values())[:MOST]


def starts(space: Space, schedules: Sequence[str]) -> list[Candidate]:
    """Candidates of an unrestricted space for these schedules, except the default."""
    found: dict[str, Candidate] = {}
    for text in schedules:
        try:
            candidate = space.take(Schedule.from_json(text, Schedule(space.schedule.graph, (), space.schedule.target)))
        except RaidoError:  # of another raido, which knew other directives
            continue
        if candidate.key != space.default().key and can_lower(candidate):
            found[candidate.key] = candidate
    return list(found.values())
