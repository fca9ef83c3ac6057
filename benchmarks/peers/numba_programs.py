"""The programs of a Python user: Numba's parallel loops, and NumPy where it has the operation (OpenBLAS for products)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from peers.contestant import THREADS, Arena, Contestant

SIDE, INSTALL = "Numba", "pip install numba"


def unavailable(arena: Arena) -> list[str]:
    return [] if find_spec("numba") else ["numba"]


def contestants(arena: Arena) -> Iterator[Contestant]:
    os.environ["NUMBA_NUM_THREADS"] = str(THREADS)
    from peers.numba_kernels import KERNELS

    arrays = [*arena.inputs, *arena.room]

    def outputs(found: Any) -> list[np.ndarray]:
        return [arena.room[0][:found]] if arena.row.filtered else list(arena.room)

    for kernel in KERNELS.get(arena.name, ()):
        call: Callable[[], Any] = lambda kernel=kernel: kernel(*arrays)
        yield Contestant(SIDE, kernel.__name__, call, lambda call=call: outputs(call()))
