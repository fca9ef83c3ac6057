"""Real programs, each with an oracle in NumPy or plain Python and arguments of several sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import raido as rd

PROGRAMS: list[RealProgram] = []


@dataclass(frozen=True)
class RealProgram:
    """An algorithm, what gives the same in NumPy, arguments to try, and how far floats may be off (0: not at all)."""

    algorithm: Any
    oracle: Callable[..., Any]
    arguments: tuple[tuple[Any, ...], ...]
    tolerance: float

    @property
    def name(self) -> str:
        """The algorithm's name."""
        return self.algorithm.name


def real(oracle: Callable[..., Any], *arguments: tuple[Any, ...], tolerance: float = 0) -> Callable[[Any], Any]:
    """Registers the function below, as an algorithm."""

    def register(function: Any) -> Any:
        algorithm = rd.algorithm(function)
        PROGRAMS.append(RealProgram(algorithm, oracle, arguments, tolerance))
        return algorithm

    return register
