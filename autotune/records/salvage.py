"""Recovery of a damaged database: measurements are read one by one, so that a lost one does not affect others."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from raido.algo.errors import TuningError
from raido.autotune.records.database import FAILURES, FORMAT, Database, bound_values, is_damage, is_ours
from raido.autotune.records.record import COLUMNS, Record, from_row

_LEAST = 128  # bytes that a measurement takes up at least


def read_records(path: str | os.PathLike[str]) -> tuple[list[Record], bool]:
    """The measurements of a database, oldest first, and whether they are complete; of a damaged one those that can be read.

    Raises `TuningError` where there is no database of measurements, or none can be read.
    """
    try:
        with Database(path, create=False) as database:
            return database.records(), True
    except TuningError as error:
        if not is_damage(error):
            raise
    found = _salvaged(Path(path))
    if not found:
        raise TuningError(f"{path} is damaged, and none of its measurements can be read")
    return found, False


def _salvaged(path: Path) -> list[Record]:
    connection = sqlite3.connect(path.absolute().as_uri() + "?mode=ro", uri=True)
    found = []
    with contextlib.closing(connection):
        try:
            bound_values(connection)
            connection.execute("PRAGMA writable_schema = ON")  # SQLite then opens files that have lost their end, too
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if not is_ours(connection) or not 1 <= version <= FORMAT:
                return []
        except FAILURES:
            return []
        columns = [name if version > 1 or name != "relative" else "NULL" for name in COLUMNS]
        query = f"SELECT {', '.join(columns)} FROM measurements WHERE rowid = ?"
        for number in range(1, _size(path) // _LEAST + 1):
            with contextlib.suppress(*FAILURES, TuningError):
                row = connection.execute(query, (number,)).fetchone()
                if row is not None:
                    found.append(from_row(row))
    return sorted(found, key=lambda record: (record.at, record.number))


def _size(path: Path) -> int:
    """Bytes of a database file and its WAL."""
    waiting = path.with_name(path.name + "-wal")
    return path.stat().st_size + (waiting.stat().st_size if waiting.exists() else 0)
