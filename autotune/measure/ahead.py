"""A builder's process launched ahead of its job: it loads TVM while the modules of the tuner are loaded and the job is prepared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from raido.targets.child import Child

BUILDER = "raido.autotune.measure.build:Builder"


@contextmanager
def builder_ahead(wanted: bool) -> Iterator[Child | None]:
    """The process, which ends with the block; None where none is wanted, or the system gives none."""
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
