"""Rows that were measured, in JSON files, and tables in documents, between marks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_rows(path: Path) -> dict[str, Any]:
    """The contents of a file, by row; empty if there is no file."""
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def write_rows(path: Path, rows: Mapping[str, Any]) -> None:
    """Puts rows in place of what the file had."""
    path.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")


def put_between(page: Path, marks: tuple[str, str], text: str) -> None:
    """Puts a text in place of what stands between two marks of a document."""
    before, rest = page.read_text("utf-8").split(marks[0])
    page.write_text(before + marks[0] + text + marks[1] + rest.split(marks[1])[1], "utf-8")
