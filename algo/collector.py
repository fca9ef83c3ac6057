"""Python's memory while a compilation makes its hundreds of thousands of nodes: the cycle collector at rest, and answers kept meanwhile.

Nodes hold no cycles, so they go as soon as nothing refers to them; yet every few hundred new ones let the collector walk them, and
time and again all that the process holds: a quarter of the time that lowering takes. And many go that are soon made again: two thirds of
the sums of indices of a tile have been asked for before.
"""

from __future__ import annotations

import functools
import gc
import threading
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

YOUNG = 200_000  # new objects, some 20 MB of them, between two walks
ANSWERS = 1 << 12  # of a function that are kept: those about some tiles
_lock = threading.Lock()
_usual: list[tuple[int, int, int]] = []  # the thresholds to go back to, one for each call that is under way
_forget: list[Callable[[], None]] = []


def seldom_collected(function: F) -> F:
    """The function, in whose calls the collector walks new objects every `YOUNG` of them; not at all where it is turned off."""

    @functools.wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        with _lock:
            usual = gc.get_threshold()
            _usual.append(usual)
            if 0 < usual[0] < YOUNG:
                gc.set_threshold(YOUNG, *usual[1:])
        try:
            return function(*args, **options)
        finally:
            with _lock:
                first = _usual[0]
                _usual.pop()
                if not _usual:
                    gc.set_threshold(*first)
                    for forget in _forget:
                        forget()

    return called  # type: ignore[return-value]


def kept_meanwhile(function: F) -> F:
    """The function of nodes and numbers, whose last answers are kept until the calls of `seldom_collected` functions that are under way have
    ended, or the next ones: nodes that an answer holds stay alive so long."""
    kept = functools.lru_cache(ANSWERS)(function)
    _forget.append(kept.cache_clear)
    return kept  # type: ignore[return-value]
