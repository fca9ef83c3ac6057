"""Values of lanes with shapes of their own: kept in one array, padded to the largest; the padding is never read.

Lanes are grouped by their sizes, each group is evaluated in a frame of its own, and the results are put together here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from raido.algo.interpreter.lanes import Frame, spread


def put_lanes(whole: np.ndarray | None, frame: Frame, inner: Frame, value: np.ndarray, rank: int) -> np.ndarray:
    """`whole`, the value of all lanes of `frame` (None: no value yet), with those of `inner`, picked from it, replaced; enlarged if
    necessary."""
    assert inner.lanes is not None
    own = value.shape[value.ndim - rank :]
    if whole is None:
        whole = np.zeros(frame.shape + own, value.dtype)
    lead = whole.ndim - rank
    if any(need > has for need, has in zip(own, whole.shape[lead:], strict=True)):
        larger = np.zeros(whole.shape[:lead] + tuple(np.maximum(own, whole.shape[lead:])), whole.dtype)
        larger[tuple(slice(n) for n in whole.shape)] = whole
        whole = larger
    whole[(*inner.lanes, *(slice(n) for n in own))] = spread(value, inner, rank)
    return whole


def uniform(sizes: Sequence[np.ndarray]) -> tuple[int, ...] | None:
    """The sizes as ints if they are the same in all lanes, else None."""
    if any(size.size > 1 and (size != size.flat[0]).any() for size in sizes):
        return None
    return tuple(int(size.flat[0]) for size in sizes)


def group_by_sizes(sizes: Sequence[np.ndarray], frame: Frame) -> list[tuple[tuple[int, ...], Frame]]:
    """Groups of lanes with equal sizes, each with its sizes, as frames picked from `frame`."""
    table = np.stack([spread(size, frame).reshape(-1) for size in sizes], axis=-1)
    distinct, group = np.unique(table, axis=0, return_inverse=True)
    group = group.reshape(frame.shape)
    return [(tuple(int(n) for n in row), frame.pick(group == k)) for k, row in enumerate(distinct)]
