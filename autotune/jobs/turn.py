"""One process at a time works on a job: another that is given the same one waits, and then finds in the database what was measured."""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_PAUSE = 0.2  # seconds between two looks


@contextmanager
def taking_turns(job: str, look: Callable[[], object], patience: float) -> Iterator[None]:
    """Held while a job runs; the system releases it when its holder dies. `look` is called again and again while somebody else holds
    it, and says how far that one has come; where it says the same for `patience` seconds (the other may be stopped, by Ctrl-Z), the
    job is no longer waited for: then both measure."""
    path = Path(tempfile.gettempdir()) / f"raido-jobs-{os.getuid()}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        seen, since = None, time.monotonic()
        while not _locked(descriptor, job):
            seen, before = look(), seen
            if seen != before:
                since = time.monotonic()
            elif time.monotonic() - since > patience:
                break
            time.sleep(_PAUSE)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int, job: str) -> bool:
    """Tries to lock the byte that stands for a job: one of so many that no two jobs meet."""
    place = int(hashlib.sha256(job.encode()).hexdigest()[:15], 16)
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)  # struct flock
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)  # of this opening of the file: threads exclude each other too
    except (BlockingIOError, PermissionError):
        return False
    return True
