"""Indices beyond the border of an array brought back into it, by the rules of `raido.algo.graph.primitives`."""

from __future__ import annotations

from raido.algo.recipes.builder import Value, operate, where


def clamp_index(index: Value, size: Value) -> Value:
    """The nearest index."""
    return _maximum(_minimum(index, size - 1), index.lift(0))


def wrap_index(index: Value, size: Value) -> Value:
    """The index modulo the size."""
    return _modulo(index, size)


def mirror_index(index: Value, size: Value) -> Value:
    """c b | a b c | b a."""
    period = _maximum((size - 1).shift_left(1), size.lift(1))
    place = _modulo(index, period)
    return where(size > 1, _minimum(place, period - place), 0)


def symmetric_index(index: Value, size: Value) -> Value:
    """b a | a b c | c b."""
    period = size.shift_left(1)
    place = _modulo(index, period)
    return _minimum(place, period - 1 - place)


def _minimum(a: Value, b: Value) -> Value:
    return operate("minimum", a.dtype, a, b)


def _maximum(a: Value, b: Value) -> Value:
    return operate("maximum", a.dtype, a, b)


def _modulo(a: Value, b: Value) -> Value:
    return operate("floormod", a.dtype, a, b)
