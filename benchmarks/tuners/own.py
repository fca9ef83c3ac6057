"""raido's own tuning of a row: within 64 trials and 105 seconds, and without any measurement."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from rows.row import Arrays, Row

import raido as rd
from raido.autotune.jobs.job import Progress

TRIALS, SECONDS = 64, 105.0


def tune(row: Row, inputs: Arrays, folder: Path, before: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Goes on tuning for at most `seconds`, from where it stood `before`; "ended" is empty while there is more to do."""
    limit = min(SECONDS, before.get("seconds", 0.0) + seconds)
    arrivals: dict[str, float] = dict(before.get("arrivals", {}))

    def watch(progress: Progress) -> None:
        if progress.records:
            arrivals.setdefault(progress.records[-1].key, round(progress.spent, 1))

    tuning = rd.autotune(
        row.algorithm, list(inputs), trials=TRIALS, minutes=limit / 60, db=folder / "tuning.db", progress=watch
    )
    found = {"seconds": round(tuning.seconds, 1), "arrivals": arrivals, "ended": ""}
    if tuning.ended == "minutes" and limit < SECONDS:
        return found
    best = tuning.record
    numbers = {record.key: record.number for record in tuning.history}
    return {
        "seconds": found["seconds"],
        "ended": tuning.ended,
        "trials": len(tuning.history) - 1,
        "failures": tuning.failures,
        "trials to best": numbers.get(best.key, 0),
        "seconds to best": arrivals.get(best.key, 0.0),
        "schedule": tuning.tuned.to_json(),
    }


def choose(row: Row, inputs: Arrays) -> dict[str, Any]:
    """The shipped model's choice without a measurement."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tuning = rd.autotune(row.algorithm, list(inputs), trials=0, db=Path(folder) / "tuning.db", progress=False)
    return {"seconds": round(time.monotonic() - start, 1), "schedule": tuning.tuned.to_json()}


def scheduled(row: Row, text: str) -> rd.Schedule:
    """A schedule of the row from its JSON."""
    return rd.Schedule.from_json(text, row.algorithm.schedule().graph)
