"""A contestant of a row: a call without arguments that computes the row's results."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rows.row import Row

THREADS = int(os.environ.get("RAIDO_NUM_THREADS", "2"))


@dataclass(frozen=True)
class Contestant:
    """`call` runs once; `results` gives what the last call computed (and may run it again to do so)."""

    side: str
    variant: str
    call: Callable[[], object]
    results: Callable[[], Sequence[np.ndarray]]


@dataclass(frozen=True)
class Arena:
    """The data that every contestant of a row gets: the same inputs, and the same arrays for its results.

    root: a folder that holds another system with compilers to call by chroot, or None for those of this one. `cleanup` runs when the
    row is over.
    """

    name: str
    row: Row
    inputs: Sequence[np.ndarray]
    room: Sequence[np.ndarray]
    root: Path | None
    cleanup: ExitStack
