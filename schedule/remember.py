"""Memoised functions on immutable objects; an answer lives as long as its argument."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Lasting:
    """A base class for arguments of `remembered` functions: immutable, compared by identity, weakly referenced."""

    __slots__ = ("__weakref__",)


def remembered(function: Callable[[K], V]) -> Callable[[K], V]:
    """Decorates a function of one argument to compute its result once per object. The result must not refer to the argument, or neither is
    ever freed.
    """
    known: weakref.WeakKeyDictionary[K, V] = weakref.WeakKeyDictionary()

    @functools.wraps(function)
    def answer(about: K) -> V:
        try:
            return known[about]
        except KeyError:
            made = known[about] = function(about)
            return made

    return answer
