"""The database of measurements: one SQLite file in WAL mode, one row per measurement, written at once.

A row is committed before the next trial begins, so whatever ends a job, at most the running trial is lost; several jobs may write
concurrently. Opening a file executes nothing from it. A damaged file, one of another program or of a later version is a `TuningError`.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raido.algo.documents import Unreadable, expect, parse_json, shown
from raido.algo.errors import TuningError, explain
from raido.autotune.records.record import COLUMNS, Record, from_row, to_row

FORMAT = 2
_APPLICATION = 0x5241494F  # "RAIO": what marks a SQLite file as ours
_PATIENCE = 60.0  # seconds that one writer waits for another
_SCHEMA = """
CREATE TABLE measurements (
    id TEXT PRIMARY KEY, program TEXT NOT NULL, name TEXT NOT NULL, sizes TEXT NOT NULL, dtypes TEXT NOT NULL, target TEXT NOT NULL,
    machine TEXT NOT NULL, host TEXT NOT NULL, job TEXT NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
    schedule TEXT NOT NULL, seconds TEXT NOT NULL, failure TEXT, detail TEXT NOT NULL, features BLOB NOT NULL,
    features_version INTEGER NOT NULL, predicted REAL, compile_seconds REAL NOT NULL, versions TEXT NOT NULL, at REAL NOT NULL, relative REAL
);
CREATE INDEX measurements_of_program ON measurements (program, target);
CREATE INDEX measurements_of_job ON measurements (job, number);
CREATE TABLE jobs (id TEXT PRIMARY KEY, settings TEXT NOT NULL, spent REAL NOT NULL, ended TEXT NOT NULL);
"""


_LIMIT_LENGTH = 0  # sqlite3.SQLITE_LIMIT_LENGTH
_LONGEST = 64 << 20  # bytes of a value: a schedule has some thousands
_INSTRUCTIONS = 1_000_000  # of SQLite's machine, some milliseconds, between two looks at how many there have been
_INSTRUCTIONS_OF_A_BYTE = (
    10  # a row has at least 128 bytes, and reading and sorting one takes some hundred instructions
)


FAILURES = (sqlite3.Error, UnicodeDecodeError)  # the second: of sqlite3 itself, where its message quotes a damaged name


@dataclass(frozen=True)
class JobState:
    """The progress of a job: its settings, its seconds over all runs, and the reason why it ended ("" while it has not): "trials",
    "minutes" or "exhausted"."""

    settings: Mapping[str, Any]
    spent: float = 0.0
    ended: str = ""


def _tables_of(schema: str) -> dict[str, str]:
    """Name and text of every table and index, as SQLite stores them, but without spaces."""
    return {each.split()[2]: "".join(each.split()) for each in schema.split(";") if each.strip()}


_KNOWN_TABLES = [_tables_of(_SCHEMA), _tables_of(_SCHEMA.replace(", relative REAL", ""))]


class Database:
    """A database of measurements at a path; `create=False` only reads an existing one. For one thread at a time; a context manager."""

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True) -> None:
        try:
            self.path = Path(path)
        except TypeError:
            raise TuningError(f"the database is a path, not {path!r}") from None
        if "\0" in str(path):
            raise TuningError(f"the database is a path, not {path!r}")
        there = os.path.lexists(self.path)
        self._reading = not create
        self._columns = list(COLUMNS)
        self._instructions = 0
        if self._reading and not there:
            raise TuningError(f"there is no database {self.path}")
        if there and not self.path.is_file():
            what = "a folder" if self.path.is_dir() else "no regular file"
            raise TuningError(_unusable(self.path, f"it is {what}", "a file, such as tuning.db"))
        if not self.path.parent.is_dir():
            raise TuningError(f"the database {self.path} cannot be made: there is no folder {self.path.parent}")
        with self._reported():
            self._connection = self._open()
            self._check()

    def add(self, record: Record) -> None:
        """Writes one measurement durably."""
        self.add_all([record])

    def add_all(self, records: Iterable[Record]) -> int:
        """Writes measurements, all or none; existing ones stay unchanged. Returns the number of new ones."""
        marks = ", ".join("?" * len(COLUMNS))
        with self._reported(), self._writing() as connection:
            before = connection.total_changes
            connection.executemany(
                f"INSERT OR IGNORE INTO measurements ({', '.join(COLUMNS)}) VALUES ({marks})", map(to_row, records)
            )
            return connection.total_changes - before

    def records(self, **wanted: Any) -> list[Record]:
        """Measurements whose fields have the wanted values (`program=`, `target=`, `machine=`, `job=`, `key=`, `kind=`, `name=`), oldest
        first."""
        where = " AND ".join(f"{name} = ?" for name in wanted) or "1"
        query = f"SELECT {', '.join(self._columns)} FROM measurements WHERE {where} ORDER BY at, number, rowid"
        with self._reported():
            return [from_row(row) for row in self._connection.execute(query, tuple(wanted.values()))]

    def job(self, digest: str) -> JobState | None:
        """The state of a job, or None for one never begun."""
        with self._reported():
            row = self._connection.execute("SELECT settings, spent, ended FROM jobs WHERE id = ?", (digest,)).fetchone()
            return None if row is None else _job_state(digest, *row)

    def set_job(self, digest: str, state: JobState) -> None:
        """Writes the state of a job."""
        with self._reported(), self._writing() as connection:
            connection.execute(
                "INSERT INTO jobs VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET spent = excluded.spent, ended = excluded.ended",
                (digest, json.dumps(dict(state.settings), sort_keys=True), state.spent, state.ended),
            )

    def jobs(self) -> dict[str, JobState]:
        """All jobs by digest."""
        with self._reported():
            rows = self._connection.execute("SELECT id, settings, spent, ended FROM jobs").fetchall()
            return {row[0]: _job_state(*row) for row in rows}

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> sqlite3.Connection:
        connection = self._connected()
        connection.execute("PRAGMA trusted_schema = OFF")  # nothing that the file's own tables say is run
        connection.execute("PRAGMA cell_size_check = ON")
        if self._reading:
            connection.execute("PRAGMA query_only = ON")
            connection.set_progress_handler(self._count_instructions, _INSTRUCTIONS)
        bound_values(connection)
        return connection

    def _connected(self) -> sqlite3.Connection:
        """A connection, writable even for reading alone, since SQLite otherwise leaves its WAL index behind; but read-only where a rollback
        journal, which raido never writes, lies beside the file: opening it would apply that journal."""
        writable = os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        uri = self.path.absolute().as_uri()
        if not self.path.exists():
            return sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
        if writable and not (self._reading and self._beside("-journal").exists()):
            return sqlite3.connect(uri + "?mode=rw", uri=True, timeout=_PATIENCE, isolation_level=None)
        connection = sqlite3.connect(uri + "?mode=ro", uri=True, timeout=_PATIENCE, isolation_level=None)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master")
        except sqlite3.OperationalError:  # no room beside it for the index of what waits to be written into it
            connection.close()
            for waiting in (self._beside("-wal"), self._beside("-journal")):
                if waiting.exists() and waiting.stat().st_size:
                    raise sqlite3.OperationalError(
                        f"it cannot be read without {waiting.name}, nor with it in this folder"
                    ) from None
            return sqlite3.connect(uri + "?mode=ro&immutable=1", uri=True, isolation_level=None)
        return connection

    def _count_instructions(self) -> int:
        """Ends a query with more instructions of SQLite than all rows of a file of this size could need: its pages then form a cycle."""
        self._instructions += _INSTRUCTIONS
        waiting = self._beside("-wal")
        size = self.path.stat().st_size + (waiting.stat().st_size if waiting.exists() else 0)
        return self._instructions > _INSTRUCTIONS + _INSTRUCTIONS_OF_A_BYTE * size

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    def _check(self) -> None:
        """Creates the tables of a new file; refuses other programs' files, and unknown formats."""
        connection = self._connection
        if self._pragma("application_id") == 0 and not self._tables():
            if self._reading:
                raise sqlite3.DatabaseError("it is empty, and so the database of another program")
            self._set_wal()
            with self._writing():
                if not self._tables():  # another process may have made them meanwhile
                    for statement in _SCHEMA.split(";"):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                    connection.execute(f"PRAGMA user_version = {FORMAT}")
        if not is_ours(connection):
            raise sqlite3.DatabaseError("it is the database of another program")
        version = self._pragma("user_version")
        if version == 1 and self._reading:
            self._columns[-1] = "NULL"
        elif version == 1:
            version = self._add_relative()
        if version not in (1, FORMAT):
            raise sqlite3.DatabaseError(f"it has format {version}, and this raido knows format {FORMAT}")
        connection.execute("PRAGMA synchronous = FULL")

    def _add_relative(self) -> int:
        """Adds the column that format 2 introduced to a file of format 1; returns the new format."""
        with self._writing() as connection:
            if self._pragma("user_version") == 1:  # another process may have done it meanwhile
                connection.execute("ALTER TABLE measurements ADD COLUMN relative REAL")
                connection.execute("PRAGMA user_version = 2")
        return 2

    def _set_wal(self) -> None:
        """Switches to WAL, which needs the whole file for a moment; SQLite does not wait for that itself, so it is retried."""
        end = time.monotonic() + _PATIENCE
        while not self._try_wal(last=time.monotonic() > end):
            time.sleep(0.02)

    def _try_wal(self, last: bool) -> bool:
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if last:
                raise
            return False
        return True

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    def _tables(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @contextmanager
    def _reported(self) -> Iterator[None]:
        self._instructions = 0
        try:
            yield
        except TuningError as error:  # a row that holds no measurement
            raise TuningError(_unusable(self.path, str(error)[:300], _SAVE.format(path=self.path))) from None
        except FAILURES as error:
            why = str(error)[:300]
            remedy = next(remedy for words, remedy in _REMEDIES if words in why.partition(" with text ")[0])
            raise TuningError(_unusable(self.path, why, remedy.format(path=self.path))) from None


def bound_values(connection: sqlite3.Connection) -> None:
    """Limits the length of values on a connection, beyond any that a measurement has."""
    set_limit: Any = getattr(connection, "setlimit", None)  # from Python 3.11 on
    if set_limit is not None:
        set_limit(_LIMIT_LENGTH, _LONGEST)


def is_ours(connection: sqlite3.Connection) -> bool:
    """Whether a SQLite file is marked as a database of measurements, and its tables are exactly raido's: no views, which could be endless,
    no triggers, no computed columns."""
    if int(connection.execute("PRAGMA application_id").fetchone()[0]) != _APPLICATION:
        return False
    query = "SELECT name, sql FROM sqlite_master WHERE lower(tbl_name) IN ('measurements', 'jobs') AND NOT (type = 'index' AND sql IS NULL)"
    return {name: "".join(str(sql).split()) for name, sql in connection.execute(query)} in _KNOWN_TABLES


def _job_state(digest: object, settings: object, spent: object, ended: object) -> JobState:
    try:
        known = expect(parse_json(expect(settings, str, "its settings")), dict, "its settings")
        return JobState(known, expect(spent, float, "its time"), expect(ended, str, "its end"))
    except Unreadable as error:
        raise TuningError(f"job {shown(digest)} cannot be read: {error}") from None


def _unusable(path: Path, why: str, remedy: str) -> str:
    return explain(f"{path} cannot be used as a database of measurements", why=why, **{"try": remedy})


def is_damage(error: TuningError) -> bool:
    """Whether an error of a `Database` means that the file is a database of measurements, but damaged."""
    return "raido db merge" in str(error)


_SAVE = "`raido db merge NEW.db {path}`, which saves what can still be read"
_REMEDIES = (  # by what SQLite, or a check of ours, says
    ("full", "make room on the disk: what has been measured is kept, and the same job goes on"),
    ("readonly", "a database that you may write to; `compile(db=…)` and `raido db list` only read"),
    ("unable to open", "a file in a folder that you may write in"),
    ("-wal", "a copy of both files in a folder that you may write in"),
    ("-journal", "a copy of it without that file, which raido does not write"),
    ("locked", "again, once the other process has finished writing"),
    (f"knows format {FORMAT}", "the version of raido that wrote it, or a later one"),
    ("another program", "another file"),
    ("not a database", "another file"),
    ("", _SAVE),
)
