"""Compiled programs on disk: a content-addressed store that many processes share.

An entry is one file, named by its key, that holds a line of JSON metadata, then the object's bytes; its first line carries a
checksum of both. It is written beside its place and renamed, so readers see a whole entry or none. Nothing is ever unpickled or run
while reading; but what is read is run, so it counts only where nobody but this user and root can have written it (`private_files`).
A damaged entry counts as absent and is replaced; a folder that cannot be written or trusted means working without a cache, said once.
The total size is bounded: the entries longest unused go first (the file's modification time is its time of last use).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raido.algo.documents import Unreadable, parse_json
from raido.targets.private_files import ELSEWHERE, Untrusted, closing, open_file, open_folder, write_file

_MAGIC = "raido-cache-1"
_KEY = re.compile(r"[0-9a-f]{64}")
_SUFFIX = ".entry"
DEFAULT_LIMIT = 1 << 30


@dataclass(frozen=True, slots=True)
class Entry:
    """The metadata of an entry, known without reading it: `size` in bytes, `used` in seconds since the epoch."""

    key: str
    size: int
    used: float


def default_folder() -> Path | None:
    """RAIDO_CACHE_DIR, else `raido` in XDG_CACHE_HOME, else `~/.cache/raido`; None without any home directory."""
    if chosen := os.environ.get("RAIDO_CACHE_DIR"):
        return Path(chosen)
    xdg = os.environ.get("XDG_CACHE_HOME")
    if xdg and Path(xdg).is_absolute():
        return Path(xdg) / "raido"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / ".cache" / "raido" if home.is_absolute() else None


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

    __slots__ = ("_lock", "_said", "_stored", "_usable", "folder", "limit")

    def __init__(self, cache_dir: str | os.PathLike[str] | None = None, limit: int = DEFAULT_LIMIT) -> None:
        folder = Path(cache_dir) if cache_dir is not None else default_folder()
        self.folder = None if folder is None else folder.absolute()
        self.limit = limit
        self._lock = threading.Lock()
        self._stored = -1  # bytes written since the size was last counted; -1: never counted
        self._usable = True
        self._said = False

    def get(self, key: str) -> tuple[bytes, dict[str, Any]] | None:
        """The object and metadata stored under `key`, or None."""
        name = _name(key)
        try:
            with self._opened(key[:2]) as folder:
                found = self._read(name, folder)
                if found is None:
                    return None
                blob, used = found
                entry = _decode(blob, key)
                with contextlib.suppress(OSError):
                    if entry is None:
                        os.unlink(name, dir_fd=folder)
                    elif time.time() - used > 60:
                        os.utime(name, dir_fd=folder, follow_symlinks=False)
                return entry
        except Untrusted as error:
            self._say(f"raido works without a compile cache: {error}")
        except OSError:  # there is none yet
            pass
        return None

    def put(self, key: str, data: bytes, metadata: dict[str, Any]) -> bool:
        """Stores an entry, replacing what was there. False (after one warning) when the folder cannot be written."""
        name, blob = _name(key), _encode(key, data, metadata)
        if not self._usable:
            return False
        try:
            with self._opened(key[:2], make=True) as folder:
                write_file(name, folder, blob)
        except Untrusted as error:
            self._usable = False
            self._say(f"raido works without a compile cache: {error}")
            return False
        except OSError as error:
            self._usable = False
            self._say(f"raido works without a compile cache: {self.folder} cannot be written ({error.strerror})")
            return False
        self._bound(len(blob))
        return True

    def entries(self) -> list[Entry]:
        """All entries, the most recently used first."""
        found = [
            Entry(each.name.removesuffix(_SUFFIX), status.st_size, status.st_mtime)
            for each, status, _ in self._files()
            if _is_entry(each.name)
        ]
        return sorted(found, key=lambda entry: entry.used, reverse=True)

    def describe(self, key: str) -> dict[str, Any] | None:
        """The metadata of an entry, which does not count as its use; None when it is absent or damaged."""
        name = _name(key)
        with contextlib.suppress(OSError), self._opened(key[:2]) as folder:
            found = self._read(name, folder)
            entry = None if found is None else _decode(found[0], key)
            return None if entry is None else entry[1]
        return None

    def size(self) -> int:
        """Bytes of all entries together."""
        return sum(entry.size for entry in self.entries())

    def remove(self, key: str) -> None:
        """Forgets one entry; nothing happens when there is none."""
        name = _name(key)
        with contextlib.suppress(OSError), self._opened(key[:2]) as folder:
            os.unlink(name, dir_fd=folder)

    def clear(self, older: float = 0.0) -> int:
        """Forgets the entries unused for `older` seconds, and what writers that died left behind; returns how many entries."""
        now, count = time.time(), 0
        for each, status, folder in self._files():
            with contextlib.suppress(OSError):
                if not older or now - status.st_mtime >= older:
                    os.unlink(each.name, dir_fd=folder)
                    count += _is_entry(each.name)
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
        for each, status, folder in self._files():
            with contextlib.suppress(OSError):
                if not _is_entry(each.name) and status.st_mtime < stale:
                    os.unlink(each.name, dir_fd=folder)

    def _bound(self, written: int) -> None:
        """Counts the store now and then (the first time, and after each sixteenth of the limit), not at every write."""
        with self._lock:
            count = self._stored < 0 or self._stored + written > self.limit // 16
            self._stored = 0 if count else self._stored + written
        if count and self.size() > self.limit:
            self.prune(self.limit - self.limit // 8)

    @contextlib.contextmanager
    def _opened(self, part: str, make: bool = False) -> Iterator[int]:
        """The part of the folder whose entries' names begin like this."""
        with self._opened_root(make) as root, closing(open_folder(part, root, make=make)) as folder:
            yield folder

    @contextlib.contextmanager
    def _opened_root(self, make: bool = False) -> Iterator[int]:
        if self.folder is None:
            raise Untrusted("there is no home directory to keep one in", ELSEWHERE)
        with closing(open_folder(str(self.folder), make=make)) as root:
            yield root

    def _read(self, name: str, folder: int) -> tuple[bytes, float] | None:
        """The bytes of a file in an open folder and the time of its last use; None where there is none that is trusted."""
        try:
            descriptor, status = open_file(name, folder, os.O_RDONLY)
        except Untrusted as error:
            self._say(f"raido does not use a compiled program: {error}")
            return None
        with os.fdopen(descriptor, "rb", 0) as file:
            return file.read() if status.st_size <= self.limit else b"", status.st_mtime

    def _say(self, text: str) -> None:
        """Warns once in the life of a store."""
        with self._lock:
            first, self._said = not self._said, True
        if first:
            warnings.warn(text, RuntimeWarning, stacklevel=3)

    def _files(self) -> Iterator[tuple[os.DirEntry[str], os.stat_result, int]]:
        """The entries, and files that a writer has begun, each with its status and the open folder that it is in."""
        try:
            with self._opened_root() as root, os.scandir(root) as parts:
                for part in [part.name for part in parts if len(part.name) == 2]:
                    with contextlib.suppress(OSError), closing(open_folder(part, root)) as folder:
                        with os.scandir(folder) as files:
                            found = [each for each in files if _is_entry(each.name) or each.name.startswith(".new-")]
                        for each in found:
                            with contextlib.suppress(OSError):  # another process may remove it meanwhile
                                yield each, each.stat(follow_symlinks=False), folder
        except Untrusted as error:
            self._say(f"raido works without a compile cache: {error}")
        except OSError:  # there is none yet
            pass


def _name(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise ValueError(f"a cache key is 64 lowercase hexadecimal digits (sha256), not {key!r}")
    return key + _SUFFIX


def _is_entry(name: str) -> bool:
    return name.endswith(_SUFFIX) and _KEY.fullmatch(name.removesuffix(_SUFFIX)) is not None


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
        metadata = parse_json(text)
    except Unreadable:
        return None
    return (data, metadata) if isinstance(metadata, dict) else None
