"""The systems compared with raido: each module gives its contestants for a row, or the reason why it cannot run."""

from __future__ import annotations

from types import ModuleType

from peers import futhark, halide, handwritten, numba_programs

PEERS: tuple[ModuleType, ...] = (handwritten, futhark, halide, numba_programs)
