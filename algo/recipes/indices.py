"""Boundary rules: indices out of bounds mapped into an array, with the meanings of `raido.algo.graph.primitives`."""

from __future__ import annotations

from raido.algo.recipes.builder import Value, operate, rare, where


def clamp_index(index: Value, size: Value) -> Value:
    """The nearest index within bounds."""
    return _maximum(_minimum(index, size - 1), index.lift(0))


def wrap_index(index: Value, size: Value) -> Value:
    """The index modulo the size."""
    return _modulo(index, size)


def mirror_index(index: Value, size: Value) -> Value:
    """The index reflected at the centres of the border elements: c b | a b c | b a."""
    period = _maximum((size - 1).shift_left(1), size.lift(1))
    offset = _modulo(index, period)
    return where(size > 1, _minimum(offset, period - offset), 0)


def symmetric_index(index: Value, size: Value) -> Value:
    """The index reflected at the borders: b a | a b c | c b."""
    period = size.shift_left(1)
    offset = _modulo(index, period)
    return _minimum(offset, period - 1 - offset)


def _minimum(a: Value, b: Value) -> Value:
    return operate("minimum", a.dtype, a, b)


def _maximum(a: Value, b: Value) -> Value:
    return operate("maximum", a.dtype, a, b)


def _modulo(index: Value, period: Value) -> Value:
    """The index modulo a period; an index at most one period out of range needs no division."""
    if period.known is not None and int(period.known).bit_count() == 1:
        return operate("floormod", index.dtype, index, period)
    near = where(index < 0, index + period, where(index < period, index, index - period))
    is_far = (near < 0) | (near >= period)
    return rare(is_far, near, lambda: operate("floormod", index.dtype, index, period))
