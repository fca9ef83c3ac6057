"""Merges databases, and converts them to and from text: a header line of JSON, then one line per measurement, oldest first."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from raido.algo import documents
from raido.algo.documents import Unreadable, parse_json
from raido.algo.errors import TuningError
from raido.autotune.records.database import FORMAT, Database
from raido.autotune.records.record import Record, from_json, to_json
from raido.autotune.records.salvage import read_records
from raido.targets.replacing import replaced

_HEADER = {"raido measurements": FORMAT}
_READ = [{"raido measurements": version} for version in range(1, FORMAT + 1)]


def merge(into: str | os.PathLike[str], others: Sequence[str | os.PathLike[str]]) -> tuple[int, list[tuple[str, int]]]:
    """Adds the measurements of other databases to one, which is created if missing; returns the number of new ones, and the paths of
    damaged databases, with the number of measurements read from each."""
    found = [(os.fspath(path), *read_records(path)) for path in others]
    with Database(into) as database:
        new = sum(database.add_all(records) for _, records, _ in found)
    return new, [(path, len(records)) for path, records, whole in found if not whole]


def export(database: Database, path: str | os.PathLike[str]) -> int:
    """Writes all measurements as text, atomically; returns their number."""
    records = database.records()
    try:
        with replaced(Path(path)) as new, new.open("w", encoding="utf-8") as file:
            file.write(json.dumps(_HEADER) + "\n")
            file.writelines(to_json(record) + "\n" for record in records)
    except OSError as error:
        raise TuningError(f"{path} cannot be written: {error.strerror}") from None
    return len(records)


def import_text(database: Database, path: str | os.PathLike[str]) -> int:
    """Adds the measurements of an exported file, all or none; returns the number of new ones."""
    return database.add_all(read_text(path))


def read_text(path: str | os.PathLike[str]) -> list[Record]:
    """The measurements of an exported file. Raises `TuningError`, which names the bad line."""
    try:
        lines = documents.read_text(path).split("\n")
    except Unreadable as error:
        raise TuningError(f"{path} cannot be read: {error}") from None
    lines = lines[:-1] if not lines[-1] else lines
    try:
        known = bool(lines) and parse_json(lines[0]) in _READ
    except Unreadable:
        known = False
    if not known:
        raise TuningError(f"{path} holds no measurements: `raido db export` writes such files")
    return [_read(line, f"{path}, line {number}") for number, line in enumerate(lines[1:], 2)]


def _read(line: str, where: str) -> Record:
    try:
        return from_json(line)
    except TuningError as error:
        raise TuningError(f"{where}: {error}") from None
