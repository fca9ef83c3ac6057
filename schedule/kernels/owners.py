"""Ownership of array elements by the threads of a block: for private memory, and for barriers that can be left out.

A thread owns tiles of an array: along some dimensions index i belongs to the thread whose place along an axis is (i - base) // width. Where
a dimension distinguishes places along several axes, tiles are nested: inner ones are counted from where an outer one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions, Interval, greatest, interval_of_all
from raido.algo.graph.expr import Expr, Var
from raido.algo.graph.rewrite import free_variables


@dataclass(frozen=True, slots=True)
class Tile:
    """The indices of one dimension that belong to a thread: `width` consecutive ones from `base + width * thread` on.

    stride: if not 0, also those at multiples of it further on. most: the number of threads.
    """

    dimension: int
    width: int
    base: Expr
    stride: int
    most: int


Owner = tuple[tuple[int, Tile], ...]  # for each axis of the threads, in order, the tile that distinguishes its places
Told = (
    tuple[tuple[int, Tile], ...] | None
)  # the axes of the threads whose places an index distinguishes, and their tiles; None: unknown


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The context of indices: the axis of each thread variable, the number of threads that take part along each axis, the ranges of loop
    variables, and whether an expression has one value during the array's lifetime.

    known: a cache of the tiles found in one block, where `thread_axes` and `is_steady` are the same, because unrolled
    statements have few different indices.
    """

    thread_axes: Mapping[Var, int]
    most: Mapping[int, int]
    ranges: Mapping[Var, Interval]
    is_steady: Callable[[Expr], bool]
    known: dict[tuple[Any, ...], Told] = field(default_factory=dict)

    def is_base(self, e: Expr) -> bool:
        """Whether tiles may be counted from an expression."""
        named = free_variables(e)
        return self.is_steady(e) and not self.thread_axes.keys() & named and not self.ranges.keys() & named


def owner_of(indices: Sequence[Expr], around: Surroundings) -> Owner | None:
    """The owner of the elements at these indices; None where several threads may access one element, or the owner is unknown."""
    found: dict[int, Tile] = {}
    where = (*around.most.items(), *around.ranges.items())
    for dimension, index in enumerate(indices):
        if free_variables(index).isdisjoint(around.thread_axes) and free_variables(index).isdisjoint(around.ranges):
            continue
        key = (dimension, index, where)
        if key not in around.known:
            around.known[key] = _tiles_of_index(dimension, index, around)
        told = around.known[key]
        if told is None or any(axis in found for axis, _ in told):
            return None
        found.update(told)
    return tuple(sorted(found.items(), key=lambda item: item[0]))


def tiles_in_order(owner: Owner) -> list[tuple[int, Tile]]:
    """The tiles of an owner, each after those that contain it."""
    return sorted(owner, key=lambda item: -item[1].width)


def _tiles_of_index(dimension: int, index: Expr, around: Surroundings) -> Told:
    """The axes of the threads whose places an index distinguishes, with the tiles of each; () where it is the same for all threads,
    None where that is unknown."""
    bounds = interval_of_all(index, around.ranges)
    mentioned = free_variables(index) if bounds is None else free_variables(bounds[0]) | free_variables(bounds[1])
    if not around.thread_axes.keys() & mentioned:
        return ()
    if bounds is None:
        return None
    own = [atom for atom in ix.linear(bounds[0])[1] if isinstance(atom, Var) and atom in around.thread_axes]
    if len(own) > 1:
        return _inside_one_another(dimension, index, own, around)
    if not own:
        return None
    tile = _side_by_side(dimension, bounds, own[0], around) or _strided(dimension, index, own[0], around)
    return None if tile is None else ((around.thread_axes[own[0]], tile),)


def _inside_one_another(dimension: int, index: Expr, own: Sequence[Var], around: Surroundings) -> Told:
    """The tiles of several axes: those of the axis with the widest ones, and the others nested in these."""
    _, terms = ix.linear(index)
    outer = max(own, key=lambda thread: terms.get(thread, 0))
    width = terms.get(outer, 0)
    base: Expr = ix.as_index(0)
    for atom, c in terms.items():
        if around.is_base(atom):
            base = ix.add(base, ix.mul(atom, c))
    rest = ix.canonical(ix.sub(ix.sub(index, base), ix.mul(outer, width)))
    extents = {thread: around.most.get(around.thread_axes[thread], 0) for thread in own}
    ranges = {thread: (ix.as_index(0), ix.as_index(most - 1)) for thread, most in extents.items() if most}
    within = interval_of_all(rest, {**around.ranges, **ranges})
    if within is None or outer in free_variables(rest):
        return None
    lowest, highest = (ix.constant_value(e) for e in within)
    if lowest is None or highest is None or lowest < 0 or highest >= width:
        return None
    inner = _tiles_of_index(dimension, rest, around)
    if inner is None or any(tile.width >= width for _, tile in inner):
        return None
    return ((around.thread_axes[outer], Tile(dimension, width, base, 0, extents[outer])), *inner)


def _side_by_side(dimension: int, bounds: Interval, thread: Var, around: Surroundings) -> Tile | None:
    """A tile of consecutive indices."""
    low, high = bounds
    constant, terms = ix.linear(low)
    width = terms[thread]
    start = ix.mul(thread, width)
    base = ix.sub(ix.sub(low, start), constant)
    if width <= 0 or constant < 0 or not around.is_base(base):
        return None
    if not _at_most(ix.sub(ix.sub(high, base), start), width - 1):
        return None
    return Tile(dimension, width, base, 0, around.most.get(around.thread_axes[thread], 0))


def _strided(dimension: int, index: Expr, thread: Var, around: Surroundings) -> Tile | None:
    """Tiles at a stride of the width of all participating threads' tiles."""
    constant, terms = ix.linear(index)
    width = terms.get(thread, 0)
    stride = width * around.most.get(around.thread_axes[thread], 0)
    if stride <= 0 or constant < 0:
        return None
    base: Expr = ix.as_index(0)
    within: Expr = ix.as_index(constant % stride)
    for atom, c in terms.items():
        if atom is thread:
            continue
        if around.is_base(atom):
            base = ix.add(base, ix.mul(atom, c))
        elif around.thread_axes.keys() & free_variables(atom):
            return None
        elif c % stride:
            within = ix.add(within, ix.mul(atom, c))
    spans = interval_of_all(within, around.ranges)
    lowest, highest = (None, None) if spans is None else map(ix.constant_value, spans)
    if lowest is None or highest is None or lowest < 0 or highest >= width:
        return None
    return Tile(dimension, width, base, stride, stride // width)


def merged(owners: Iterable[Owner | None]) -> Owner | None:
    """The tiles that contain those of several owners; None where these are incompatible."""
    found: dict[int, Tile] | None = None
    for owner in owners:
        if owner is None or (found is not None and found.keys() != {axis for axis, _ in owner}):
            return None
        if found is None:
            found = dict(owner)
            continue
        for axis, tile in owner:
            both = _merged_tiles(found[axis], tile)
            if both is None:
                return None
            found[axis] = both
    return None if found is None else tuple(sorted(found.items(), key=lambda item: item[0]))


def _merged_tiles(a: Tile, b: Tile) -> Tile | None:
    """The tile that contains both, or None: a single tile is the first of a strided one's."""
    if (a.dimension, a.width, a.base) != (b.dimension, b.width, b.base):
        return None
    if a.stride == b.stride:
        return a if a.most >= b.most else b
    strided, single = (a, b) if a.stride else (b, a)
    return strided if not single.stride and single.most * single.width <= strided.stride else None


def _at_most(e: Expr, most: int) -> bool:
    """Whether an expression is provably at most a constant."""
    bound = greatest(e)
    return (bound is not None and bound <= most) or Assumptions().less_equal(e, most)
