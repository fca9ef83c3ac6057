"""Lanes: the grid of indices over which the interpreter evaluates at once, and the values known there.

A `Frame` stands for all index tuples of a grid of `shape`, or for those that took a branch. A value in it is an ndarray whose leading
dimensions are the frame's (1 where the value does not vary) followed by `rank` dimensions of its own (0 for scalars); or it has only those:
it is uniform. A frame knows its parent: a value of the parent is brought here by adding axes or by picking the lanes. A frame without
`lanes` is *strict*: its parent's lanes are all here, so a value that does not depend on the variables bound here may be evaluated in the
parent instead, once. A frame is never empty; so uniform values are kept in a frame of shape ().
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from raido.algo.graph.expr import Node

Bound: TypeAlias = "frozenset[Any]"


class Frame:
    """Lanes, and the values known in them. `added` axes follow the parent's; or `lanes` picks some of the parent's, in one dimension."""

    __slots__ = ("added", "bound", "branches", "lanes", "parent", "shape", "values")

    def __init__(
        self,
        shape: tuple[int, ...],
        parent: Frame | None = None,
        values: dict[Node, np.ndarray] | None = None,
        added: int = 0,
        lanes: tuple[np.ndarray, ...] | None = None,
    ) -> None:
        self.shape = shape
        self.parent = parent
        self.values = {} if values is None else values
        self.bound: Bound = frozenset(self.values)
        self.added = added
        self.lanes = lanes
        self.branches: dict[Any, Any] = {}

    def bind(self, values: dict[Node, np.ndarray]) -> Frame:
        """The same lanes with variables bound."""
        return Frame(self.shape, self, values)

    def extend(self, shape: tuple[int, ...], values: dict[Node, np.ndarray]) -> Frame:
        """These lanes times a grid of `shape`, with variables bound to its indices."""
        return Frame(self.shape + shape, self, values, added=len(shape))

    def pick(self, mask: np.ndarray) -> Frame:
        """The lanes where `mask` (of the full shape) holds."""
        lanes = np.nonzero(mask)
        return Frame((len(lanes[0]),), self, lanes=lanes)

    def narrow(self, mask: np.ndarray) -> Frame:
        """The lanes of a picked frame where `mask` holds, with all values known already."""
        assert self.lanes is not None
        frame = Frame((int(np.count_nonzero(mask)),), self.parent, lanes=tuple(i[mask] for i in self.lanes))
        frame.values = {node: v if v.ndim == rank_of(node) else v[mask] for node, v in self.values.items()}
        return frame

    def bring(self, value: np.ndarray, rank: int) -> np.ndarray:
        """A value of the parent in this frame."""
        if value.ndim == rank or self.parent is None:
            return value
        lead = len(self.parent.shape)
        if self.lanes is not None:
            return np.broadcast_to(value, self.parent.shape + value.shape[lead:])[self.lanes]
        if self.added:
            return value.reshape(value.shape[:lead] + (1,) * self.added + value.shape[lead:])
        return value


def rank_of(node: Node) -> int:
    """The number of a node's own dimensions: 0 for a scalar."""
    return len(getattr(node, "shape", ()))


def find(node: Node, frame: Frame, depends: Bound) -> np.ndarray | None:
    """The value of `node`, if the frame, or an enclosing one in which it is the same, has it; else None."""
    path: list[Frame] = []
    ancestor: Frame | None = frame
    while ancestor is not None:
        value = ancestor.values.get(node)
        if value is not None:
            rank = rank_of(node) if path else 0
            for inner in reversed(path):
                value = inner.values[node] = inner.bring(value, rank)
            return value
        if not depends.isdisjoint(ancestor.bound):
            return None
        path.append(ancestor)
        ancestor = ancestor.parent
    return None


def home(frame: Frame, depends: Bound) -> Frame:
    """The outermost frame in which a node with these dependences can be evaluated without evaluating it for further lanes."""
    while frame.parent is not None and depends.isdisjoint(frame.bound):
        if frame.lanes is None:
            frame = frame.parent
            continue
        uniform = frame
        while uniform.shape != ():
            if uniform.parent is None or not depends.isdisjoint(uniform.bound):
                return frame
            uniform = uniform.parent
        frame = uniform
    return frame


def spread(value: np.ndarray, frame: Frame, rank: int = 0) -> np.ndarray:
    """The value broadcast to all lanes (a read-only view)."""
    trailing = value.shape[value.ndim - rank :]
    return np.broadcast_to(value, frame.shape + trailing)


def grid(starts: tuple[int, ...], stops: tuple[int, ...]) -> list[np.ndarray]:
    """The i64 indices start … stop - 1 along each dimension, shaped to broadcast over the grid."""
    rank = len(starts)
    return [
        np.arange(a, b, dtype=np.int64).reshape((1,) * d + (-1,) + (1,) * (rank - 1 - d))
        for d, (a, b) in enumerate(zip(starts, stops, strict=True))
    ]
