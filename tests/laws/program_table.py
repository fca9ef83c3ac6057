"""Tables of programs for the differential tests of strategies: each an algorithm under its name, with a function that draws its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import raido as rd

Inputs = Callable[[np.random.Generator, int, int], tuple[np.ndarray, ...]]


class Programs(dict[str, tuple[Any, Inputs]]):
    """Algorithms and their inputs, by name."""

    def program(self, inputs: Callable[..., tuple[np.ndarray, ...]]) -> Callable[[Callable[..., Any]], Any]:
        """Enters an algorithm into the table."""

        def enter(function: Callable[..., Any]) -> Any:
            self[function.__name__] = (rd.algorithm(function), inputs)
            return function

        return enter
