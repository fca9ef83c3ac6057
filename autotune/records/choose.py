"""Chooses the best record for a program, a target and sizes, with the reason in words.

Only records of the program and the target count. Records of this machine take precedence; among them those of the nearest sizes (the sum of
|log₂| of the quotients of sizes), without sizes those of the largest. Among these a schedule that was compared by turns with the default
takes precedence, by the median quotient of the rounds; else the fastest run decides.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from raido.autotune.records.record import Record


@dataclass(frozen=True)
class Choice:
    """The chosen record, and the reason in words."""

    record: Record
    why: str


def best_record(
    records: Iterable[Record], machine: str, sizes: Mapping[str, int] | None = None, exclude: Collection[str] = ()
) -> Choice | None:
    """The best of the records of one program and target; None when none has a time. `exclude`: keys to ignore."""
    measured_at_all = [record for record in records if record.best is not None]
    references = {(r.job, r.at): r for r in measured_at_all if r.kind == "final" and r.number == 0}
    good = [record for record in measured_at_all if record.key not in exclude]
    if not good:
        return None
    here = [record for record in good if record.machine == machine]
    pool = here or good
    machine_note = ""
    if not here:
        model, threads = (good[-1].host.get(name) for name in ("model", "cores"))
        machine_note = f", on another machine ({model or good[-1].machine}{f', {threads} threads' if threads else ''})"
        pool = [record for record in good if record.machine == good[-1].machine]
    nearest = _nearest(pool, sizes)
    pool = [record for record in pool if record.sizes == nearest]
    measured = size_text(nearest)
    if sizes is None:
        where = f"measured as compiled for {measured}" if measured else "measured"
    elif dict(sizes) == dict(nearest):
        where = f"measured as compiled for these sizes ({measured})" if measured else "measured"
    else:
        where = f"measured as compiled for the nearest sizes ({measured})"
    record, how = _fastest(pool, references)
    return Choice(record, f"{how}, {where}{machine_note}")


def size_text(sizes: Mapping[str, int]) -> str:
    """Sizes in the command line's syntax: h=480,w=640."""
    return ",".join(f"{name}={value}" for name, value in sorted(sizes.items()))


def milliseconds(seconds: float) -> str:
    """A time in milliseconds, as text."""
    return f"{seconds * 1e3:.4g} ms"


def _nearest(records: Sequence[Record], sizes: Mapping[str, int] | None) -> Mapping[str, int]:
    if sizes is None:
        return max(
            (record.sizes for record in records), key=lambda s: (math.prod(v + 1 for v in s.values()), size_text(s))
        )
    return min((record.sizes for record in records), key=lambda s: (distance(s, sizes), size_text(s)))


def distance(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """The distance between sizes: the sum of |log₂| of their quotients."""
    names = one.keys() & other.keys()
    return sum(abs(math.log2((one[name] + 1) / (other[name] + 1))) for name in names)


def _fastest(records: Sequence[Record], references: Mapping[tuple[str, float], Record]) -> tuple[Record, str]:
    """The best of records of the same sizes and machine, with the reason; `references`: the default schedule in each set of finalists."""
    best: tuple[float, Record, Record] | None = None
    for record in records:
        reference = references.get((record.job, record.at)) if record.kind == "final" else None
        quotient = None if reference is None else in_turns(record, reference)
        if reference is None or quotient is None:
            continue
        if best is None or quotient < best[0]:
            best = quotient, record, reference
    if best is not None:
        _, record, reference = best
        if record is reference and all(each.key == record.key for each in records):
            return record, "the default schedule: no other was measured"
        if record is reference:
            return record, "the default schedule: no measured schedule was faster"
        times = f"{milliseconds(record.median or 0)} against {milliseconds(reference.median or 0)} of the default"
        return record, f"{times}, in turns"
    record = min(records, key=lambda each: each.best or math.inf)
    return record, f"{milliseconds(record.best or 0)}, the fastest of {len(records)} that were tried"


def in_turns(record: Record, reference: Record) -> float | None:
    """A record's time divided by a reference's: the median over rounds in which they took turns; None without measurements."""
    rounds = zip(record.seconds, reference.seconds, strict=False)
    quotients = [own / its for own, its in rounds if its > 0]
    return statistics.median(quotients) if quotients and record.failure is None else None


def final_sets(records: Iterable[Record]) -> list[list[Record]]:
    """The finals among the records by set: those of one job that were written together."""
    sets: dict[tuple[str, float], list[Record]] = {}
    for record in records:
        if record.kind == "final":
            sets.setdefault((record.job, record.at), []).append(record)
    return list(sets.values())
