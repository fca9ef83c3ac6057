"""The compile cache: stored entries are found by every process; damage and hostile places do no harm."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from raido.targets.cache import Cache, default_folder, key_of

KEY, OTHER = key_of("a"), key_of("b")


def test_what_is_put_is_found(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "deep" / "store")
    assert cache.get(KEY) is None and cache.entries() == [] and cache.size() == 0
    data, metadata = bytes(range(256)) * 5, {"name": "blur\n", "sizes": ["h", 3], "größe": None}
    assert cache.put(KEY, data, metadata)
    assert cache.get(KEY) == (data, metadata)
    assert Cache(tmp_path / "deep" / "store").get(KEY) == (data, metadata)
    assert cache.put(KEY, b"", {}) and cache.get(KEY) == (b"", {})
    cache.put(OTHER, b"x", {})
    assert {entry.key for entry in cache.entries()} == {KEY, OTHER}
    cache.remove(OTHER)
    cache.remove(OTHER)
    cache.clear()
    assert cache.get(KEY) is None and cache.size() == 0


def test_keys_tell_parts_apart() -> None:
    assert key_of("ab", "c") != key_of("a", "bc") and key_of("a") == key_of(b"a")
    with pytest.raises(ValueError, match="64 lowercase"):
        Cache("unused").get("../../etc/passwd")


@pytest.mark.parametrize("change", ["cut", "flip", "empty", "other key"])
def test_a_damaged_entry_counts_as_absent_and_is_replaced(tmp_path: Path, change: str) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, b"object" * 100, {"a": 1})
    (path,) = tmp_path.glob("*/*.entry")
    blob = path.read_bytes()
    if change == "other key":
        cache.put(OTHER, b"object", {})
        blob = next(p for p in tmp_path.glob("*/*.entry") if p != path).read_bytes()
    path.write_bytes({"cut": blob[:-1], "flip": blob[:-9] + b"?" + blob[-8:], "empty": b"", "other key": blob}[change])
    assert cache.get(KEY) is None
    assert cache.put(KEY, b"new", {}) and cache.get(KEY) == (b"new", {})


def test_an_unwritable_folder_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = Cache(tmp_path / "file" / "store")
    with pytest.warns(RuntimeWarning, match="without a compile cache"):
        assert not cache.put(KEY, b"x", {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not cache.put(KEY, b"x", {}) and cache.get(KEY) is None


def test_the_longest_unused_entries_go_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    keys = [key_of(str(i)) for i in range(10)]
    for age, key in enumerate(keys):
        cache.put(key, bytes(1000), {})
        path = next(tmp_path.glob(f"*/{key}.entry"))
        os.utime(path, (1e9 - age, 1e9 - age))
    cache.get(keys[9])  # used now, so the youngest
    cache.prune(5000)
    assert {entry.key for entry in cache.entries()} == {keys[9], *keys[:3]}
    small = Cache(tmp_path / "small", limit=10_000)
    for i in range(100):
        small.put(key_of(str(i)), bytes(900), {})
        assert small.size() <= 11_000


def test_many_processes_share_a_store(tmp_path: Path) -> None:
    script = """
import sys
from raido.targets.cache import Cache, key_of
cache = Cache(sys.argv[1], limit=60_000)
for round in range(60):
    for i in range(8):
        key = key_of(str(i))
        found = cache.get(key)
        assert found is None or found == (bytes([i]) * 2000 * (i + 1), {"i": i}), "torn entry"
        if (round + i) % 3 == 0:
            cache.put(key, bytes([i]) * 2000 * (i + 1), {"i": i})
    if round % 20 == 19:
        cache.clear()
"""
    workers = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) for _ in range(4)]
    assert [worker.wait(timeout=60) for worker in workers] == [0, 0, 0, 0]
    assert not list(tmp_path.glob("*/.new-*"))


def test_the_folder_follows_keyword_environment_and_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAIDO_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "raido"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative is ignored")
    assert default_folder() == Path.home() / ".cache" / "raido"
    monkeypatch.setenv("RAIDO_CACHE_DIR", str(tmp_path / "mine"))
    assert Cache().folder == tmp_path / "mine" and Cache(tmp_path).folder == tmp_path


def test_entries_are_data_with_a_readable_head(tmp_path: Path) -> None:
    Cache(tmp_path).put(KEY, b"\0\1", {"name": "blur"})
    (path,) = tmp_path.glob("*/*.entry")
    head, metadata, data = path.read_bytes().split(b"\n", 2)
    assert head.split()[:2] == [b"raido-cache-1", KEY.encode()]
    assert json.loads(metadata) == {"name": "blur"} and data == b"\0\1"
    assert not path.stat().st_mode & stat.S_IXUSR
