"""Answers about things that never change, kept as long as the things are."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Lasting:
    """Base of what `remembered` functions are asked about: compared by identity, and never changed."""

    __slots__ = ("__weakref__",)


def remembered(function: Callable[[K], V]) -> Callable[[K], V]:
    """The function, which answers a second time from memory. Its answers must not hold what they are about."""
    known: weakref.WeakKeyDictionary[K, V] = weakref.WeakKeyDictionary()

    @functools.wraps(function)
    def answer(about: K) -> V:
        try:
            return known[about]
        except KeyError:
            made = known[about] = function(about)
            return made

    return answer
