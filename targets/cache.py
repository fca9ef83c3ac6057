"""Compile cache: a content-addressed store of compiled programs on disk, shared by many processes.

An entry is one file, named by its key: a header line with a checksum, a line of JSON metadata, and the object's bytes. It is written to a
temporary file beside its final name and renamed, so readers see a whole entry or none. Reading unpickles and runs nothing; but the object
is run later, so an entry counts only where nobody but this user and root can have written it (`private_files`).

A damaged entry counts as absent and is replaced; without a folder that can be written and trusted raido works without a cache, after one
warning. The total size is bounded: least recently used entries are removed first (a file's modification time is its last use).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raido.algo.documents import Unreadable, parse_json
from raido.algo.trace.locations import user_site, warn_at
from raido.targets.private_files import ELSEWHERE, Untrusted, closing, open_file, open_folder, write_file

_MAGIC = "raido-cache-1"
_KEY = re.compile(r"[0-9a-f]{64}")
_SUFFIX = ".entry"
DEFAULT_LIMIT = 1 << 30


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as its directory lists it, unread: `size` in bytes, `used` (last use) in seconds since the epoch."""

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
    """The SHA-256 key, in hexadecimal, of all inputs of a compilation; lengths are hashed too, so ("ab", "c") differs from ("a", "bc")."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


class Cache:
    """A store in `cache_dir` (None: `default_folder()`) of at most `limit` bytes. Safe for concurrent threads and processes."""

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
        """The object and metadata stored under `key`, or None; counts as a use."""
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
        """Stores an entry, replacing an earlier one. Returns False, after one warning, when the folder cannot be written or trusted."""
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
            self._say(
                f"raido works without a compile cache: {self.folder} cannot be written ({error.strerror}): {ELSEWHERE}"
            )
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
        """The metadata of an entry, or None when it is absent or damaged; does not count as a use."""
        name = _name(key)
        with contextlib.suppress(OSError), self._opened(key[:2]) as folder:
            found = self._read(name, folder)
            entry = None if found is None else _decode(found[0], key)
            return None if entry is None else entry[1]
        return None

    def size(self) -> int:
        """Total bytes of all entries."""
        return sum(entry.size for entry in self.entries())

    def remove(self, key: str) -> None:
        """Removes one entry, if there is one."""
        name = _name(key)
        with contextlib.suppress(OSError), self._opened(key[:2]) as folder:
            os.unlink(name, dir_fd=folder)

    def clear(self, older: float = 0.0) -> int:
        """Removes entries unused for `older` seconds (0: all) and temporary files of writers that died; returns the number of entries
        removed."""
        now, count = time.time(), 0
        for each, status, folder in self._files():
            with contextlib.suppress(OSError):
                if not older or now - status.st_mtime >= older:
                    os.unlink(each.name, dir_fd=folder)
                    count += _is_entry(each.name)
        return count

    def prune(self, limit: int | None = None) -> None:
        """Removes least recently used entries until the total is at most `limit` bytes (None: the store's), and temporary files older than
        an hour."""
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
        """Prunes to 7/8 of the limit where the total exceeds it; counts the total the first time and after each sixteenth of the limit
        written."""
        with self._lock:
            count = self._stored < 0 or self._stored + written > self.limit // 16
            self._stored = 0 if count else self._stored + written
        if count and self.size() > self.limit:
            self.prune(self.limit - self.limit // 8)

    @contextlib.contextmanager
    def _opened(self, part: str, make: bool = False) -> Iterator[int]:
        """Opens the subfolder named by the first two digits of its entries' keys; yields its file descriptor."""
        with self._opened_root(make) as root, closing(open_folder(part, root, make=make)) as folder:
            yield folder

    @contextlib.contextmanager
    def _opened_root(self, make: bool = False) -> Iterator[int]:
        if self.folder is None:
            raise Untrusted("there is no home directory to keep one in", ELSEWHERE)
        with closing(open_folder(str(self.folder), make=make)) as root:
            yield root

    def _read(self, name: str, folder: int) -> tuple[bytes, float] | None:
        """Contents and last use of a file in an open folder, empty for one larger than the limit; None where it is absent or not trusted."""
        try:
            descriptor, status = open_file(name, folder, os.O_RDONLY)
        except Untrusted as error:
            self._say(f"raido does not use a compiled program: {error}")
            return None
        with os.fdopen(descriptor, "rb", 0) as file:
            return file.read() if status.st_size <= self.limit else b"", status.st_mtime

    def _say(self, text: str) -> None:
        """Warns, once in the life of a store."""
        with self._lock:
            first, self._said = not self._said, True
        if first:
            warn_at(user_site(), text, RuntimeWarning)

    def _files(self) -> Iterator[tuple[os.DirEntry[str], os.stat_result, int]]:
        """Entries and writers' temporary files, each with its status and the descriptor of its open folder."""
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
    """Object and metadata of an entry, or None when it is damaged, of another format version, or stored under another key."""
    head, _, body = blob.partition(b"\n")
    if head != f"{_MAGIC} {key} {hashlib.sha256(body).hexdigest()}".encode():
        return None
    text, _, data = body.partition(b"\n")
    try:
        metadata = parse_json(text)
    except Unreadable:
        return None
    return (data, metadata) if isinstance(metadata, dict) else None
