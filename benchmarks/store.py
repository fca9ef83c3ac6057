"""Storage of measured rows in JSON files, and of tables between marks in documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from measure import UNDISTURBED


def read_rows(path: Path) -> dict[str, Any]:
    """The contents of a file, by row; empty if there is no file."""
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def write_rows(path: Path, rows: Mapping[str, Any]) -> None:
    """Puts rows in place of what the file had; one that is interrupted leaves the file as it was."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")
    beside.replace(path)


def put_table(page: Path, marks: tuple[str, str], text: str, whole: bool, disturbance: float) -> None:
    """Puts a table there, if it has all rows, and if other processes had little of a processor meanwhile; else SystemExit."""
    if disturbance > UNDISTURBED or not whole:
        raise SystemExit(
            f"not written: the table needs all rows, and at most {UNDISTURBED:.0%} of a processor for others ({disturbance:.0%})"
        )
    put_between(page, marks, text)


def put_between(page: Path, marks: tuple[str, str], text: str) -> None:
    """Puts a text in place of what stands between two marks of a document."""
    before, rest = page.read_text("utf-8").split(marks[0])
    page.write_text(before + marks[0] + text + marks[1] + rest.split(marks[1])[1], "utf-8")
