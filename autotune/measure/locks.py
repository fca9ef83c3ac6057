"""Locks between the processes of one user on one machine: bytes of one file beside the compile cache.

Several machines may share the folder, so the byte for a name depends on this machine and its boot. The system releases a lock when its
holder dies. Without a private folder there are no locks, after one warning.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import platform
import struct
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from raido.targets.cache import default_folder
from raido.targets.private_files import ELSEWHERE, Untrusted, closing, open_file, open_folder

_FILE = "locks"


@contextmanager
def locking(name: str) -> Iterator[Callable[[], bool]]:
    """Yields a function that tries to take the lock of a name, and returns whether it is held; it is held until the end of the block.
    Blocks exclude each other within a process and thread, too."""
    try:
        descriptor = _opened()
    except OSError as error:
        _say(error)
        yield lambda: True
        return
    with closing(descriptor):
        yield lambda: _locked(descriptor, name)


def _opened() -> int:
    folder = default_folder()
    if folder is None:
        raise Untrusted("there is no home directory to keep them in", ELSEWHERE)
    with closing(open_folder(str(folder.absolute()), make=True)) as root:
        return open_file(_FILE, root, os.O_RDWR | os.O_CREAT)[0]


def _locked(descriptor: int, name: str) -> bool:
    """Tries to lock the byte for a name, a 60-bit hash, so that collisions are negligible."""
    offset = int(hashlib.sha256(f"{_running_machine()} {name}".encode()).hexdigest()[:15], 16)
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0)  # struct flock
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)  # of this opening of the file: threads exclude each other too
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:  # a file system that has no locks
        _say(error)
    return True


def _running_machine() -> str:
    """An identifier of this machine since its last boot, shared by all its containers."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return platform.node()


def _say(error: OSError) -> None:
    _warn(str(error) if isinstance(error, Untrusted) else f"{default_folder()} cannot hold them ({error.strerror})")


@functools.cache  # once in the life of a process
def _warn(why: str) -> None:
    warnings.warn(f"raido works without locks, and jobs at once may disturb each other: {why}", RuntimeWarning, 4)
