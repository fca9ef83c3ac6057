"""One process at a time works on a job: another that is given the same one waits, and then finds in the database what was measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from raido.autotune.measure.locks import locking

_PAUSE = 0.2  # seconds between two looks


@contextmanager
def taking_turns(job: str, look: Callable[[], object], patience: float) -> Iterator[None]:
    """Held while a job runs. `look` is called again and again while somebody else holds it, and says how far that one has come; where
    it says the same for `patience` seconds (the other may be stopped, by Ctrl-Z), the job is no longer waited for: then both measure."""
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
