"""Compiled programs on disk: a content-addressed store that many processes share.

An entry is one file, named by its key, that holds a line of JSON metadata, then the object's bytes; its first line carries a
checksum of both. It is written beside its place and renamed, so readers see a whole entry or none. Nothing is ever unpickled or run
while reading. A damaged entry counts as absent and is replaced; a folder that cannot be written means working without a cache, said
once. The total size is bounded: the entries longest unused go first (the file's modification time is its time of last use).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MAGIC = "raido-cache-1"
_KEY = re.compile(r"[0-9a-f]{64}")
_SUFFIX = ".entry"
DEFAULT_LIMIT = 1 << 30


@dataclass(frozen=True, slots=True)
class Entry:
    """What the store knows about an entry without reading it: `size` in bytes, `used` in seconds since the epoch."""

    key: str
    size: int
    used: float


def default_folder() -> Path:
    """RAIDO_CACHE_DIR, else `raido` in XDG_CACHE_HOME, else `~/.cache/raido`."""
    if chosen := os.environ.get("RAIDO_CACHE_DIR"):
        return Path(chosen)
    xdg = os.environ.get("XDG_CACHE_HOME")
    if xdg and Path(xdg).is_absolute():
        return Path(xdg) / "raido"
    try:
        return Path.home() / ".cache" / "raido"
    except RuntimeError:  # no home directory at all
        return Path(tempfile.gettempdir()) / f"raido-{os.getuid()}"


def key_of(*parts: str | bytes) -> str:
    """The key of everything that decides about a compiled program; parts are told apart, so ("ab", "c") is not ("a", "bc")."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


class Cache:
    """A store in `cache_dir` (None: `default_folder()`), of at most `limit` bytes. Safe for threads and for processes."""

    __slots__ = ("_lock", "_stored", "_usable", "folder", "limit")

    def __init__(self, cache_dir: str | os.PathLike[str] | None = None, limit: int = DEFAULT_LIMIT) -> None:
        self.folder = Path(cache_dir) if cache_dir is not None else default_folder()
        self.limit = limit
        self._lock = threading.Lock()
        self._stored = -1  # bytes written since the size was last counted; -1: never counted
        self._usable = True

    def get(self, key: str) -> tuple[bytes, dict[str, Any]] | None:
        """The object and metadata stored under `key`, or None."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        entry = _decode(data, key)
        if entry is None:
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > 60:
                os.utime(path)
        return entry

    def put(self, key: str, data: bytes, metadata: dict[str, Any]) -> bool:
        """Stores an entry, replacing what was there. False (after one warning) when the folder cannot be written."""
        path = self._path(key)
        blob = _encode(key, data, metadata)
        if not self._usable:
            return False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, beside = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(blob)
                os.replace(beside, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(beside)
                raise
        except OSError as error:
            with self._lock:
                first, self._usable = self._usable, False
            if first:
                warnings.warn(
                    f"raido works without a compile cache: {self.folder} cannot be written ({error.strerror})",
                    RuntimeWarning,
                    stacklevel=2,
                )
            return False
        self._bound(len(blob))
        return True

    def entries(self) -> list[Entry]:
        """All entries, the most recently used first."""
        found = []
        for path in self._files():
            with contextlib.suppress(OSError):  # another process may remove it meanwhile
                status = path.stat()
                found.append(Entry(path.name.removesuffix(_SUFFIX), status.st_size, status.st_mtime))
        return sorted(found, key=lambda entry: entry.used, reverse=True)

    def describe(self, key: str) -> dict[str, Any] | None:
        """The metadata of an entry, which does not count as its use; None when it is absent or damaged."""
        try:
            entry = _decode(self._path(key).read_bytes(), key)
        except OSError:
            return None
        return None if entry is None else entry[1]

    def size(self) -> int:
        """Bytes of all entries together."""
        return sum(entry.size for entry in self.entries())

    def remove(self, key: str) -> None:
        """Forgets one entry; nothing happens when there is none."""
        with contextlib.suppress(OSError):
            self._path(key).unlink()

    def clear(self, older: float = 0.0) -> int:
        """Forgets the entries unused for `older` seconds, and what writers that died left behind; returns how many entries."""
        now, count = time.time(), 0
        for path in [*self._files(), *self.folder.glob("??/.new-*")]:
            with contextlib.suppress(OSError):
                if not older or now - path.stat().st_mtime >= older:
                    path.unlink()
                    count += path.name.endswith(_SUFFIX)
        return count

    def prune(self, limit: int | None = None) -> None:
        """Removes the entries longest unused until all together take at most `limit` bytes (None: the store's)."""
        bound = self.limit if limit is None else limit
        total = 0
        for entry in self.entries():
            total += entry.size
            if total > bound:
                self.remove(entry.key)
        stale = time.time() - 3600
        for path in self.folder.glob("??/.new-*"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < stale:
                    path.unlink()

    def _bound(self, written: int) -> None:
        """Counts the store now and then (the first time, and after each sixteenth of the limit), not at every write."""
        with self._lock:
            count = self._stored < 0 or self._stored + written > self.limit // 16
            self._stored = 0 if count else self._stored + written
        if count and self.size() > self.limit:
            self.prune(self.limit - self.limit // 8)

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"a cache key is 64 lowercase hexadecimal digits (sha256), not {key!r}")
        return self.folder / key[:2] / (key + _SUFFIX)

    def _files(self) -> Iterator[Path]:
        return (path for path in self.folder.glob("??/*" + _SUFFIX) if _KEY.fullmatch(path.name.removesuffix(_SUFFIX)))


def _encode(key: str, data: bytes, metadata: dict[str, Any]) -> bytes:
    body = json.dumps(metadata, sort_keys=True).encode() + b"\n" + data
    return f"{_MAGIC} {key} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def _decode(blob: bytes, key: str) -> tuple[bytes, dict[str, Any]] | None:
    """The parts of an entry, or None when it is damaged, of another version, or belongs to another key."""
    head, _, body = blob.partition(b"\n")
    if head != f"{_MAGIC} {key} {hashlib.sha256(body).hexdigest()}".encode():
        return None
    text, _, data = body.partition(b"\n")
    try:
        metadata = json.loads(text)
    except ValueError:
        return None
    return (data, metadata) if isinstance(metadata, dict) else None
