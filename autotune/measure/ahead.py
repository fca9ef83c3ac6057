"""Launches a builder's process ahead of its job: it loads TVM while the tuner's modules are loaded and the job is prepared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from raido.targets.child import Child

BUILDER = "raido.autotune.measure.build:Builder"


@contextmanager
def builder_ahead(wanted: bool) -> Iterator[Child | None]:
    """Yields the process, which ends with the block; None if it is not wanted, or cannot be started."""
    child = Child(BUILDER) if wanted else None
    try:
        if child is not None:
            child.launch()
    except OSError:
        child = None
    try:
        yield child
    finally:
        if child is not None:
            child.close()
