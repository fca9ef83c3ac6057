"""What a row of the comparison is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import raido as rd


@dataclass(frozen=True)
class Row:
    """One line of the table.

    shapes: of the inputs. answer: NumPy's, exact enough to check against `tolerance`, the largest error relative to the largest
    value. hand: our schedule. low, high: the range of the inputs. numpy: a call that competes, where NumPy has one.
    """

    algorithm: rd.Algorithm
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    answer: Callable[..., np.ndarray]
    hand: Callable[[rd.Algorithm], rd.Schedule]
    low: float = 0.0
    high: float = 1.0
    tolerance: float = 1e-5
    numpy: Callable[..., object] | None = None
