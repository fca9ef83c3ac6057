"""Documents are read strictly, and any defect is `Unreadable`, in a few printable words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import raido as rd
from raido.algo.documents import DEEPEST, Unreadable, expect, field, parse_json, read_bytes, read_text, shown
from raido.algo.errors import explain
from raido.algo.printable import printable


def test_json_is_read_as_it_was_written() -> None:
    text = '{"a": [1, -2.5e3, true, null, "\\u00e9\\ud83d\\ude00"], "b": {"c": 18446744073709551615, "d": -9223372036854775808}}'
    value = {"a": [1, -2500.0, True, None, "é😀"], "b": {"c": (1 << 64) - 1, "d": -(1 << 63)}}
    assert parse_json(text) == parse_json(text.encode()) == parse_json(b"\xef\xbb\xbf" + text.encode()) == value
    assert parse_json("[" * DEEPEST + "]" * DEEPEST)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON: Expecting value"),
        ("{", "not JSON"),
        ('{"a": 1, "b": 2, "a": 3}', "'a' stands twice"),
        ("[NaN]", "NaN is no number"),
        ("[-Infinity]", "-Infinity is no number"),
        ("[1e999]", "does not fit 64 bits"),
        ("[18446744073709551616]", "does not fit 64 bits"),
        ("[" + "9" * 5000 + "]", "does not fit 64 bits"),
        ('["\\ud800"]', "surrogates not allowed"),
        ('{"\\udfff": 1}', "surrogates not allowed"),
        ('["\ud800"]', "surrogates not allowed"),
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), f"deeper than {DEEPEST} brackets"),
        ("[" * 100_000, "deeper than"),
        ('{"a":' * 100_000, "deeper than"),
        (b"\xff\xfe[\x001\x00]\x00", "not JSON: 'utf-8' codec"),
        (None, "not JSON"),
        (5, "not JSON"),
    ],
)
def test_what_is_no_json_of_ours_is_one_error(text: Any, words: str) -> None:
    with pytest.raises(Unreadable, match=words) as caught:
        parse_json(text)
    assert len(str(caught.value)) < 300
    str(caught.value).encode()


def test_parts_are_of_their_kinds() -> None:
    assert expect(3, float, "x") == 3 and field({"a": "b"}, "a", str, "it") == "b"
    for value, kind in (
        ("3", int),
        (True, int),
        (True, float),
        (3.5, int),
        (None, str),
        ([], dict),
        ("x" * 10**6, int),
    ):
        with pytest.raises(Unreadable, match=r"^x is ") as caught:
            expect(value, kind, "x")
        assert len(str(caught.value)) < 200
    with pytest.raises(Unreadable, match="it has no `a`"):
        field({}, "a", str, "it")
    with pytest.raises(Unreadable, match="x is nan"):
        expect(float("nan"), float, "x")


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    (tmp_path / "huge").touch()
    os.truncate(tmp_path / "huge", 1 << 40)
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbfx = 1")
    assert read_text(tmp_path / "marked") == "x = 1"
    for name, words in (
        ("pipe", "no regular file"), ("latin", "not text in UTF-8: .* at byte 3"), ("huge", "1048576 MB"), ("none", "No such file"),
        ("", "a folder"), ("a\0b", "no file can have such a name"), ("/dev/zero", "no regular file"),
    ):  # fmt: skip
        with pytest.raises(Unreadable, match=words):
            read_text(os.path.join(str(tmp_path), name))
    with pytest.raises(Unreadable, match="no file can have such a name"):
        read_bytes("\udcff\ud800")


def test_messages_are_printable_and_end() -> None:
    assert printable("blur\x1b[2J\n\tx") == "blur\\x1b[2J\n\tx" and printable("größe 😀") == "größe 😀"
    assert printable("a\u202eb\u2028\x9b\r\ud800") == r"a\u202eb\u2028\x9b\r\ud800"
    assert len(shown({"x" * 1000: [list(range(10**5))]})) < 300
    assert len(str(rd.ScheduleError(explain("a" * 10**6, why="b" * 10**6)))) < 3000
    assert str(rd.ScheduleError("a\x1b")) == "a\\x1b"
