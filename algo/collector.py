"""Memory management while a compilation makes hundreds of thousands of nodes: fewer runs of Python's cycle collector, and memoised
functions.

Nodes hold no cycles, so reference counting frees them; yet the collector would run for every few hundred new ones, and from time to time
over all objects of the process: a quarter of the time that lowering takes. Many freed nodes are soon made again: two thirds of
the sums of indices of a tile have been computed before.
"""

from __future__ import annotations

import functools
import gc
import threading
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

YOUNG = 200_000  # new objects between two runs of the collector: some 20 MB
ANSWERS = 1 << 12  # memoised results of a function: as many as some tiles need
_lock = threading.Lock()
_usual: list[tuple[int, int, int]] = []  # the thresholds to restore, one for each call in progress
_forget: list[Callable[[], None]] = []


def seldom_collected(function: F) -> F:
    """A decorator: during calls of the function the collector runs once per `YOUNG` new objects, not at all where it is turned off."""

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
    """A decorator that memoises a function of nodes and numbers, for the last `ANSWERS` arguments, which keeps the nodes of its results
    alive.

    The memo is cleared when all calls of `seldom_collected` functions in progress, or else the next ones, have ended.
    """
    kept = functools.lru_cache(ANSWERS)(function)
    _forget.append(kept.cache_clear)
    return kept  # type: ignore[return-value]
