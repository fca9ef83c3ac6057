"""The database: written measurements stay, whatever happens next; the best of them is found and explained."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import raido as rd
from raido.autotune.records.choose import best_record
from raido.autotune.records.database import Database, JobState
from raido.autotune.records.exchange import export, import_text, merge
from raido.autotune.records.record import Record
from raido.database_commands import compared

BASE = Record(
    program="p" * 64,
    name="blur",
    sizes={"h": 480, "w": 640},
    dtypes=("float32",),
    target="llvm:znver4",
    machine="here",
    host={"model": "some processor"},
    job="j1",
    number=1,
    kind="trial",
    key="k1",
    schedule="{}",
    seconds=(0.1, 0.2, 1 / 3),
    features=(0.5, -1.25),
    features_version=2,
    predicted=0.125,
    versions={"raido": "0.1.0"},
    at=1.0,
)


def record(**fields: Any) -> Record:
    return replace(BASE, id=os.urandom(8).hex(), **fields)


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    bad = record(key="k2", seconds=(), failure="crash", detail="SIGSEGV", predicted=None, at=2.0)
    with Database(tmp_path / "a.db") as database:
        database.add(BASE)
        database.add(bad)
        assert database.records() == [BASE, bad]
        assert database.records(key="k2", program=BASE.program) == [bad]
        assert database.add_all([BASE]) == 0
    with Database(tmp_path / "a.db", create=False) as database:
        assert database.records() == [BASE, bad]


def test_the_state_of_a_job_is_kept(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        assert database.job("j1") is None
        database.set_job("j1", JobState({"trials": 5}))
        database.set_job("j1", JobState({"trials": 5}, 2.5, "trials"))
        assert database.job("j1") == JobState({"trials": 5}, 2.5, "trials") == database.jobs()["j1"]


WRITER = """
import sys
from dataclasses import replace
sys.path.insert(0, sys.argv[2])
from test_database import BASE
from raido.autotune.records.database import Database
with Database(sys.argv[1]) as database:
    for number in range(int(sys.argv[3])):
        database.add(replace(BASE, id=f"{sys.argv[4]}-{number}", job=sys.argv[4], number=number))
        print(number, flush=True)
"""


def writer(path: Path, count: int, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), str(Path(__file__).parent), str(count), name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_writers_and_one_killed_lose_nothing_that_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    one, two, doomed = writer(path, 40, "one"), writer(path, 40, "two"), writer(path, 100_000, "doomed")
    assert doomed.stdout is not None
    seen = -1
    while seen < 25:
        seen = int(doomed.stdout.readline())
    doomed.kill()
    seen = max([seen, *map(int, doomed.stdout.read().split())])
    for process in (one, two, doomed):
        process.communicate()
    with Database(path) as database:
        assert len(database.records(job="one")) == len(database.records(job="two")) == 40
        found = [each.number for each in database.records(job="doomed")]
    assert sorted(found) == list(range(len(found))) and len(found) > seen


def test_other_files_are_refused_in_one_sentence(tmp_path: Path) -> None:
    text = tmp_path / "notes.db"
    text.write_text("not a database, and longer than the header of one, which has sixteen bytes" * 20)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE songs (title)")
    later = tmp_path / "later.db"
    Database(later).close()
    with sqlite3.connect(later) as connection:
        connection.execute("PRAGMA user_version = 99")
    cases = {
        text: "file is not a database",
        other: "the database of another program",
        later: "it has format 99, and this raido knows format 2",
        tmp_path: "cannot be used as a database|there is no database",
    }
    for path, message in cases.items():
        with pytest.raises(rd.TuningError, match=message):
            Database(path)
    assert text.read_text().startswith("not a database")
    with pytest.raises(rd.TuningError, match=r"there is no database .*absent"):
        Database(tmp_path / "absent.db", create=False)
    with pytest.raises(rd.TuningError, match="there is no folder"):
        Database(tmp_path / "absent" / "a.db")


def test_measurements_of_the_first_format_are_read(tmp_path: Path) -> None:
    path, text = tmp_path / "a.db", tmp_path / "a.jsonl"
    with Database(path) as database:
        database.add(record())
        export(database, text)
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE measurements DROP COLUMN relative")
        connection.execute("PRAGMA user_version = 1")
    lines = text.read_text().splitlines()
    old = json.loads(lines[1])
    del old["relative"]
    text.write_text('{"raido measurements": 1}\n' + json.dumps(old) + "\n")
    with Database(path) as database, Database(tmp_path / "b.db") as other:
        assert import_text(other, text) == 1
        assert [each.relative for each in (*database.records(), *other.records())] == [None, None]
        database.add(record(relative=0.5, at=2.0))
        assert [each.cost for each in database.records()] == [record().best, 0.5]


def test_a_damaged_database_is_an_error_not_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with Database(path) as database:
        database.add_all([record(number=number) for number in range(500)])
    data = bytearray(path.read_bytes())
    data[8192:65536] = os.urandom(65536 - 8192)
    path.write_bytes(data)
    with (
        pytest.raises(rd.TuningError, match=r"a\.db cannot be used as a database of measurements"),
        Database(path) as database,
    ):
        database.records()


def spoil_a_page(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[65536:73728] = os.urandom(8192)
    path.write_bytes(data)


def lose_the_end(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def spoil_a_row(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE measurements SET seconds = '[1,' WHERE number = 7")


@pytest.mark.parametrize(("harm", "least"), [(spoil_a_page, 400), (lose_the_end, 200), (spoil_a_row, 499)])
def test_what_can_be_read_of_a_damaged_database_is_saved(tmp_path: Path, harm: Any, least: int) -> None:
    path, new = tmp_path / "a.db", tmp_path / "new.db"
    written = [record(number=number, at=float(number)) for number in range(500)]
    with Database(path) as database:
        database.add_all(written)
    harm(path)
    with pytest.raises(rd.TuningError, match=r"raido db merge NEW\.db .*a\.db"), Database(path) as database:
        database.records()
    count, damaged = merge(new, [path])
    assert least <= count < 500 and damaged == [(str(path), count)]
    with Database(new) as database:
        saved = database.records()
    assert len(saved) == count and set(map(repr, saved)) <= set(map(repr, written))
    assert all(each == written[each.number] for each in saved)


def test_nothing_is_saved_of_what_is_no_database_of_measurements(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("hello " * 1000)
    with Database(tmp_path / "lost.db") as database:
        database.add(BASE)
    with (tmp_path / "lost.db").open("r+b") as file:
        file.seek(100)
        file.write(os.urandom(10000))
    cases = {
        "text.db": "another file",
        "absent.db": "there is no database",
        "lost.db": "none of its measurements can be",
    }
    for name, words in cases.items():
        with pytest.raises(rd.TuningError, match=words):
            merge(tmp_path / "new.db", [tmp_path / name])
    assert not (tmp_path / "new.db").exists()


def test_a_database_that_may_only_be_read_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"
    with Database(path) as database:
        database.add(BASE)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    monkeypatch.setattr(os, "access", lambda *_: False)  # the tests may run as root, whom no mode of a file stops
    with Database(path, create=False) as database:
        assert database.records() == [BASE]
        with pytest.raises(rd.TuningError, match="readonly"):
            database.add(record())


def test_what_waits_beside_a_database_that_may_only_be_read_is_read_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.db"
    with Database(path) as writer:
        writer.add(BASE)
        assert path.with_name("a.db-wal").stat().st_size
        monkeypatch.setattr(os, "access", lambda *_: False)
        with Database(path, create=False) as database:
            assert database.records() == [BASE]


def test_databases_travel_as_text_and_are_put_together(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as a, Database(tmp_path / "b.db") as b, Database(tmp_path / "c.db") as c:
        a.add_all([BASE, record(at=3.0)])
        b.add_all([BASE, record(at=2.0, failure="hang", seconds=())])
        places = [a.path, b.path]
        assert merge(c.path, places) == (3, []) and merge(c.path, places) == (0, [])
        assert export(c, tmp_path / "c.jsonl") == 3
        with Database(tmp_path / "d.db") as d:
            assert import_text(d, tmp_path / "c.jsonl") == 3
            assert d.records() == c.records()
            (tmp_path / "bad.jsonl").write_text((tmp_path / "c.jsonl").read_text() + '{"id": 1}\n')
            with pytest.raises(rd.TuningError, match=r"bad\.jsonl, line 5: not a measurement"):
                import_text(d, tmp_path / "bad.jsonl")
            with pytest.raises(rd.TuningError, match="holds no measurements"):
                import_text(d, __file__)


@pytest.mark.parametrize(
    "harm",
    [
        {"seconds": [-1.0]},
        {"seconds": [float("nan")]},
        {"seconds": ["x"]},
        {"sizes": "h=3"},
        {"sizes": {"h": 1.5}},
        {"at": "now"},
        {"number": "x"},
        {"kind": "guess"},
        {"schedule": 5},
        {"id": None},
        {"relative": float("inf")},
        {"more": 1},
        {"number": 1 << 63},
        {"sizes": {"h": -1}},
        {"features": [1e39]},
        {"features": ["1"]},
        {"at": 1e12},
        {"detail": "\ud800"},
    ],
)
def test_a_measurement_that_is_none_is_not_imported(tmp_path: Path, harm: dict[str, Any]) -> None:
    text = tmp_path / "a.jsonl"
    with Database(tmp_path / "a.db") as database, Database(tmp_path / "b.db") as other:
        database.add_all([BASE, record(at=2.0)])
        export(database, text)
        head, first, second = text.read_text().splitlines()
        text.write_text("\n".join([head, first, json.dumps({**json.loads(second), **harm})]))
        with pytest.raises(rd.TuningError, match=r"a\.jsonl, line 3: not a measurement"):
            import_text(other, text)
        assert other.records() == []


def test_whole_numbers_where_others_stand_are_kept(tmp_path: Path) -> None:
    text = tmp_path / "a.jsonl"
    with Database(tmp_path / "a.db") as database, Database(tmp_path / "b.db") as other:
        database.add(BASE)
        export(database, text)
        head, line = text.read_text().splitlines()
        text.write_text(f"{head}\n{json.dumps({**json.loads(line), 'predicted': 1 << 63, 'at': 5})}\n")
        assert import_text(other, text) == 1
        assert other.records() == [replace(BASE, predicted=float(1 << 63), at=5.0)]


def test_the_best_is_of_the_nearest_sizes_and_says_so() -> None:
    small = record(sizes={"h": 100, "w": 100}, seconds=(0.001,), key="small")
    large = record(sizes={"h": 1000, "w": 1000}, seconds=(0.1,), key="large")
    near = best_record([small, large], "here", {"h": 900, "w": 500})
    assert near is not None and near.record is large and "the nearest sizes (h=1000,w=1000)" in near.why
    exact = best_record([small, large], "here", {"h": 100, "w": 100})
    assert exact is not None and exact.record is small and "for these sizes" in exact.why
    unsaid = best_record([small, large], "here")
    assert (
        unsaid is not None
        and unsaid.record is large
        and unsaid.why == "100 ms, the fastest of 1 that were tried, measured as compiled for h=1000,w=1000"
    )


def test_this_machine_comes_first_and_failures_never() -> None:
    other = record(machine="there", seconds=(0.001,), key="other")
    failed = record(seconds=(), failure="wrong", key="failed")
    slow = record(seconds=(9.0,), key="slow")
    chosen = best_record([other, failed, slow], "here", BASE.sizes)
    assert chosen is not None and chosen.record is slow
    chosen = best_record([other, failed], "here", BASE.sizes)
    assert chosen is not None and chosen.record is other and "on another machine (some processor)" in chosen.why
    threaded = replace(other, host={"model": "some processor", "cores": 2})  # or this one, on fewer threads
    chosen = best_record([threaded], "here", BASE.sizes)
    assert chosen is not None and chosen.why.endswith(", on another machine (some processor, 2 threads)")
    assert best_record([failed], "here") is None
    assert best_record([slow], "here", exclude={"slow"}) is None


def test_turns_against_the_default_decide_before_single_trials() -> None:
    lucky = record(seconds=(0.05,), key="lucky")
    finals = [
        record(kind="final", number=0, key="default", seconds=(0.2, 0.2), at=5.0),
        record(kind="final", number=1, key="good", seconds=(0.1, 0.12), at=5.0),
        # a set of a noisy hour: slower seconds, but no better against its own default
        record(kind="final", number=0, key="default", seconds=(0.02,), at=6.0, job="j2"),
        record(kind="final", number=1, key="less", seconds=(0.018,), at=6.0, job="j2"),
    ]
    chosen = best_record([lucky, *finals], "here", BASE.sizes)
    assert chosen is not None and chosen.record.key == "good"
    assert (
        chosen.why
        == "110 ms against 200 ms of the default, in turns, measured as compiled for these sizes (h=480,w=640)"
    )
    stay = best_record([finals[0], record(kind="final", key="worse", seconds=(0.3,), at=5.0)], "here", BASE.sizes)
    assert stay is not None and stay.record.key == "default" and "no measured schedule was faster" in stay.why
    alone = best_record([finals[0]], "here", BASE.sizes)
    assert alone is not None and alone.why.startswith("the default schedule: no other was measured")


def test_a_listing_compares_as_a_job_does() -> None:
    default = record(kind="final", number=0, seconds=(1.0, 2.0, 3.0), key="default")
    steady = record(
        kind="final", number=1, seconds=(0.5, 1.0, 9.0), key="steady"
    )  # 0.5 of the default in two rounds of three
    better = record(
        kind="final", number=2, seconds=(0.4, 1.9, 1.0), key="better"
    )  # the same median, but 0.4 of the default
    assert compared([default, steady, better]) == ("2000 ms", "1000 ms", "2.50")
    assert compared([record(kind="default", number=0, seconds=(3.0,)), record(seconds=(2.0, 5.0))])[2] == "1.50"
    assert compared([record(seconds=(), failure="hang")]) == ("-", "-", "-")
