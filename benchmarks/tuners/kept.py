"""Results by row, in benchmarks/tuning_results.json; results that JSON cannot hold are in a temporary folder."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from store import read_rows, write_rows

from tuners.subjects import SUBJECTS

RESULTS = Path(__file__).resolve().parent.parent / "tuning_results.json"

# Of a row: "tuned", "choice" and each peer's name lead to what it did ("seconds", "schedule", "failure" …), "times" to the comparison.
Found = dict[str, Any]


def read_results() -> dict[str, Found]:
    """Everything found so far."""
    return read_rows(RESULTS)


def keep(name: str, found: Found) -> None:
    """Puts what is known of a row in place of what was."""
    rows = {**read_results(), name: found}
    write_rows(RESULTS, {each: rows[each] for each in SUBJECTS if each in rows})


def folder_of(name: str) -> Path:
    """The folder of a row's databases and pipelines."""
    folder = Path(tempfile.gettempdir()) / "raido-benchmarks" / "tuning" / name.replace(", ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
