"""Mutual exclusion of a job between processes: a process with the same job waits, and then finds the measurements in the database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from raido.autotune.measure.locks import locking

_PAUSE = 0.2  # seconds between two looks


@contextmanager
def job_lock(job: str, look: Callable[[], object], patience: float) -> Iterator[None]:
    """Holds the job's lock. While another process holds it, `look` is polled for that one's progress; if it does not change for `patience`
    seconds (the other may be stopped, by Ctrl-Z), the lock is no longer waited for: then both measure."""
    with locking(f"job {job}") as locked:
        seen, since = None, time.monotonic()
        while not locked():
            seen, before = look(), seen
            if seen != before:
                since = time.monotonic()
            elif time.monotonic() - since > patience:
                break
            time.sleep(_PAUSE)
        yield
