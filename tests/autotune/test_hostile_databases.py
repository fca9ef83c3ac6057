"""Malicious databases: reading one ends, runs nothing, deletes nothing, and prints no control characters."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_jobs import Dice, made_up_job
from test_database import record

import raido as rd
from raido.algo.printable import printable
from raido.autotune.records.choose import best_record
from raido.autotune.records.database import Database, JobState
from raido.autotune.records.exchange import export, merge, read_text
from raido.autotune.records.record import COLUMNS
from raido.cli import main
from raido.tuning_page import render_tuning_page

ESCAPE = "\x1b[2J\x9b31m\u202egnp.exe\x07\r"


def made(path: Path, count: int = 3) -> Path:
    with Database(path) as database:
        database.add_all([record(number=number, at=float(number)) for number in range(count)])
        database.set_job("j1", JobState({"trials": 5}))
    return path


def changed(*statements: str) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        for statement in statements:
            connection.execute(statement)
        connection.close()

    return harm


_ENDLESS = "WITH RECURSIVE endless(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM endless)"
_ROWS = ", ".join(f"x AS {name}" for name in COLUMNS)
HOSTILE = {
    "a view": changed(
        "ALTER TABLE measurements RENAME TO others",
        f"CREATE VIEW measurements AS {_ENDLESS} SELECT {_ROWS} FROM endless",
    ),
    "a view of another case": changed(
        "ALTER TABLE measurements RENAME TO others", "CREATE VIEW Measurements AS SELECT * FROM others"
    ),
    "a view of jobs": changed(
        "DROP TABLE jobs", "CREATE VIEW jobs AS SELECT 1 AS id, 2 AS settings, 3 AS spent, 4 AS ended"
    ),
    "a trigger": changed(
        "CREATE TRIGGER t AFTER INSERT ON measurements BEGIN INSERT INTO jobs SELECT id, 1, 1, 1 FROM jobs; END"
    ),
    "a computed column": changed("ALTER TABLE measurements ADD COLUMN more AS (length(zeroblob(1000000000)))"),
    "an index of an expression": changed("CREATE INDEX more ON measurements (length(zeroblob(1000000000)))"),
    "a virtual table": changed("DROP TABLE jobs", "CREATE VIRTUAL TABLE jobs USING fts3(id, settings, spent, ended)"),
    "a lack": changed("DROP TABLE jobs"),
}


@pytest.mark.parametrize("harm", HOSTILE)
def test_only_tables_that_raido_makes_are_read(tmp_path: Path, harm: str) -> None:
    path = made(tmp_path / "a.db")
    HOSTILE[harm](path)
    for open_it in (
        lambda: Database(path, create=False),
        lambda: Database(path),
        lambda: merge(tmp_path / "b.db", [path]),
    ):
        with pytest.raises(
            rd.TuningError, match=r"a\.db cannot be used .*[\s\S]*it is the database of another program"
        ):
            open_it()


def test_other_tables_beside_them_do_no_harm(tmp_path: Path) -> None:
    path = made(tmp_path / "a.db")
    changed("CREATE VIEW mine AS SELECT name FROM measurements", "CREATE TABLE notes (x)", "ANALYZE", "VACUUM")(path)
    with Database(path, create=False) as database:
        assert len(database.records()) == 3


def pages_within_each_other(path: Path, levels: int = 12, each: int = 100) -> None:
    """Makes the root of the table the first of `levels` pages, each of which names the next `each` times: more rows than can be read."""
    with sqlite3.connect(path) as connection:
        root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'measurements'").fetchone()[0]
        connection.execute("PRAGMA journal_mode = DELETE")
    data = bytearray(path.read_bytes())
    size = struct.unpack(">H", data[16:18])[0]
    count = len(data) // size
    leaf = data[(root - 1) * size : root * size]
    assert leaf[0] == 13
    below = [count + 1 + k for k in range(levels)]

    def page(child: int) -> bytes:
        cells = [struct.pack(">I", child) + bytes([k + 1]) for k in range(each)]
        body, at, places = bytearray(size), size, b""
        for cell in cells:
            at -= len(cell)
            body[at : at + len(cell)] = cell
            places += struct.pack(">H", at)
        body[: 12 + len(places)] = struct.pack(">BHHHBI", 5, 0, each, at, 0, child) + places
        return bytes(body)

    data[(root - 1) * size : root * size] = page(below[0])
    for child in below[1:]:
        data += page(child)
    data += leaf
    data[28:32] = struct.pack(">I", len(data) // size)
    path.write_bytes(data)


def test_pages_that_lie_within_each_other_come_to_an_end(tmp_path: Path) -> None:
    path = made(tmp_path / "a.db")
    pages_within_each_other(path)
    with pytest.raises(rd.TuningError, match=r"a\.db cannot be used"), Database(path, create=False) as database:
        database.records()
    assert merge(tmp_path / "b.db", [path])[0] <= 3


def test_honest_databases_are_far_from_that_end(tmp_path: Path) -> None:
    """The least rows that there can be, so that there are as many of them as a file of that size can hold."""
    path = tmp_path / "a.db"
    small = {"features": (), "schedule": "", "host": {}, "versions": {}, "seconds": (), "program": "p", "key": ""}
    with Database(path) as database:
        database.add_all([record(**{**small, "number": number}) for number in range(30_000)])
    with Database(path, create=False) as database:
        assert len(database.records()) == 30_000
        assert database._instructions < path.stat().st_size


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no way to bound a value")
def test_a_value_that_no_measurement_has_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raido.autotune.records.database._LONGEST", 1 << 20)
    path = made(tmp_path / "a.db")
    changed("UPDATE measurements SET features = zeroblob(2000000) WHERE number = 1")(path)
    with pytest.raises(rd.TuningError, match=r"too big[\s\S]*raido db merge"), Database(path, create=False) as database:
        database.records()
    assert merge(tmp_path / "b.db", [path])[0] == 2


@pytest.mark.parametrize("version", [1, 2])
def test_reading_writes_nothing(tmp_path: Path, version: int) -> None:
    path = made(tmp_path / "a.db")
    if version == 1:
        changed("ALTER TABLE measurements DROP COLUMN relative", "PRAGMA user_version = 1")(path)
    before = path.read_bytes()
    with Database(path, create=False) as database:
        assert len(database.records()) == 3
        with pytest.raises(rd.TuningError, match="readonly"):
            database.add(record())
    assert path.read_bytes() == before and sorted(each.name for each in tmp_path.iterdir()) == ["a.db"]
    (tmp_path / "empty.db").touch()
    with pytest.raises(rd.TuningError, match="it is empty"):
        Database(tmp_path / "empty.db", create=False)
    assert not (tmp_path / "empty.db").stat().st_size


def test_a_journal_beside_a_database_is_not_played_back_by_reading(tmp_path: Path) -> None:
    """raido writes none; opening a stranger's for writing would put what it says into the database."""
    path, journal = made(tmp_path / "a.db"), tmp_path / "a.db-journal"
    changed("PRAGMA journal_mode = DELETE")(path)
    header = bytes.fromhex("d9d505f920a163d7") + struct.pack(">IIIII", 0, 0, path.stat().st_size // 4096, 512, 4096)
    journal.write_bytes(header.ljust(512, b"\0"))
    before = path.read_bytes()
    with pytest.raises(rd.TuningError, match=r"without a\.db-journal"):
        Database(path, create=False)
    assert journal.exists() and path.read_bytes() == before


def test_what_is_no_file_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.db")
    for create in (True, False):
        with pytest.raises(rd.TuningError, match="it is no regular file"):
            Database(tmp_path / "a.db", create=create)
    (tmp_path / "loop").symlink_to("loop")
    for path in ("a\0b", tmp_path / "loop"):
        with pytest.raises(rd.TuningError):
            Database(path)


def run(*arguments: str) -> int:
    try:
        main(list(arguments))
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def test_text_of_a_database_is_printed_without_its_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.db"
    evil: dict[str, Any] = {
        name: f"{name}{ESCAPE}" for name in ("name", "target", "machine", "failure", "detail", "job")
    }
    found = record(**evil, seconds=(), host={"model": ESCAPE}, sizes={f"h{ESCAPE}": 3})
    good = record(**{**evil, "failure": None}, host={"model": ESCAPE, "cores": ESCAPE})
    with Database(path) as database:
        database.add_all([found, good])
    assert run("db", "list", str(path)) == 0
    changed("UPDATE measurements SET kind = kind || name")(path)
    assert run("db", "list", str(path)) == 1
    (tmp_path / f"b{ESCAPE}.jsonl").write_text("no")
    assert run("db", "import", str(path), str(tmp_path / f"b{ESCAPE}.jsonl")) == 1
    printed = "".join(capsys.readouterr())
    assert r"name\x1b[2J\x9b31m\u202egnp.exe\x07\r" in printed
    chosen = best_record([good], "here")
    assert chosen is not None
    for text in (
        printed,
        repr(found),
        printable(chosen.why),
        str(rd.TuningError(ESCAPE)),
        repr(rd.TuningError(ESCAPE)),
    ):
        assert not set(ESCAPE) & set(text) - set("[2Jgnp.exe31m"), text


def test_measurements_keep_their_text_when_they_travel(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with Database(path) as database:
        database.add(record(name=f"blur{ESCAPE}", detail="a line\n\u2028 and another\x85"))
        export(database, tmp_path / "a.jsonl")
        assert read_text(tmp_path / "a.jsonl") == database.records()


CHANGES = {
    "no default": "DELETE FROM measurements WHERE kind = 'default'",
    "no finals": "DELETE FROM measurements WHERE kind = 'final'",
    "no default among finals": "DELETE FROM measurements WHERE kind = 'final' AND number = 0",
    "another default": "UPDATE measurements SET number = 5 WHERE kind = 'default'",
    "no time": "UPDATE measurements SET seconds = '[0.0]', relative = 0",
    "a time that none has": "UPDATE measurements SET seconds = '[1e300]' WHERE number = 0",
    "no schedule": "UPDATE measurements SET schedule = '{}'",
    "a deep schedule": f"UPDATE measurements SET schedule = '{'[' * 100_000}'",
    "another's schedule": 'UPDATE measurements SET schedule = replace(schedule, \'"program": "\', \'"program": "f\')',
    "no settings": "UPDATE jobs SET settings = '[]'",
    "starts that are none": """UPDATE jobs SET ended = '', settings = '{"starts": [5, "x", "[[[["]}'""",
    "starts that are no list": """UPDATE jobs SET ended = '', settings = '{"starts": 5}'""",
    "an end that is none": "UPDATE jobs SET ended = 'never', spent = 1e300",
    "a time that is none": "UPDATE jobs SET spent = 'long'",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_job_whose_measurements_were_changed_is_answered_or_one_error(tmp_path: Path, change: str) -> None:
    path = tmp_path / "a.db"
    with Database(path) as database:
        made_up_job(database, 8, measurer=Dice()).run()
    changed(CHANGES[change])(path)
    with contextlib.suppress(rd.RaidoError), Database(path) as database:
        tuning = made_up_job(database, 8, measurer=Dice()).run()
        str(tuning), repr(tuning), str(tuning.diff()), render_tuning_page("x", tuning)
        assert tuning.speedup > 0 and tuning.finals is not None and tuning.failures is not None
