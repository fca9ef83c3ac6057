"""Which thread of a block reaches an element of an array: for memory that is each thread's own, and for barriers that nobody needs.

A thread owns tiles of an array: along some dimensions index i belongs to the thread whose place along an axis is (i - base) // width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr, Op, Var
from raido.algo.graph.facts import Facts, Interval, interval
from raido.algo.graph.rewrite import free_variables


@dataclass(frozen=True, slots=True)
class Tile:
    """Indices of one dimension that belong to a thread: `base + width * place`, and as many as `width` from there on."""

    dimension: int
    width: int
    base: Expr


Owner = tuple[tuple[int, Tile], ...]  # for each axis of the threads, in order, the dimension that tells them apart


def owner_of(
    indices: Sequence[Expr],
    places: Mapping[Var, int],
    ranges: Mapping[Var, Interval],
    is_steady: Callable[[Expr], bool],
) -> Owner | None:
    """The owner of the elements at some indices; None where several threads may reach one element, or it cannot be told.

    places: the axis of each thread variable. ranges: of loop variables in the indices. is_steady: whether an expression has one value
    as long as the array is there.
    """
    found: dict[int, Tile] = {}
    for dimension, index in enumerate(indices):
        bounds = _bounds(index, ranges)
        if bounds is None:
            if places.keys() & free_variables(index):
                return None
            continue
        low, high = bounds
        constant, terms = ix.linear(low)
        own = [atom for atom in terms if atom in places]
        if not own:
            if places.keys() & (free_variables(low) | free_variables(high)):
                return None
            continue
        place, *others = own
        width = terms[place]
        if others or width <= 0 or places[place] in found:  # type: ignore[index]
            return None
        base = ix.sub(ix.sub(low, ix.mul(place, width)), constant)
        end = ix.sub(ix.sub(high, base), ix.mul(place, width))
        if not is_steady(base) or places.keys() & free_variables(base) or constant < 0 or not _at_most(end, width - 1):
            return None
        found[places[place]] = Tile(dimension, width, base)  # type: ignore[index]
    return tuple(sorted(found.items()))


def _bounds(index: Expr, ranges: Mapping[Var, Interval]) -> Interval | None:
    low: Expr = index
    high: Expr = index
    for _ in range(len(ranges) + 1):
        below, above = interval(low, ranges), interval(high, ranges)
        if below is None or above is None:
            return None
        if below[0] is low and above[1] is high:
            break
        low, high = below[0], above[1]
    return low, high


def _at_most(e: Expr, most: int) -> bool:
    """Whether an expression is at most a constant: one of the parts whose minimum it is."""
    bound = largest(e)
    return (bound is not None and bound <= most) or Facts().less_equal(e, most)


def largest(e: Expr) -> int | None:
    """A constant that an expression is never beyond, found among the parts of minima."""
    constant, terms = ix.linear(e)
    if not terms:
        return constant
    for atom, c in terms.items():
        if isinstance(atom, Op) and c == 1 and atom.name == "minimum":
            parts = [largest(ix.add(ix.sub(e, atom), a)) for a in atom.args]
            return min((part for part in parts if part is not None), default=None)
        if isinstance(atom, Op) and c == 1 and atom.name == "maximum":
            parts = [largest(ix.add(ix.sub(e, atom), a)) for a in atom.args]
            return None if None in parts else max(part for part in parts if part is not None)
        if isinstance(atom, Op) and c == -1 and atom.name == "maximum":
            parts = [largest(ix.sub(ix.add(e, atom), a)) for a in atom.args]
            return min((part for part in parts if part is not None), default=None)
    for atom, c in terms.items():
        k = ix.constant_value(atom.args[1]) if isinstance(atom, Op) and atom.name == "floordiv" else None
        if isinstance(atom, Op) and k and k > 0 and c > 0:
            inner = largest(atom.args[0])
            rest = largest(ix.sub(e, ix.mul(atom, c)))
            return None if inner is None or rest is None else rest + c * (inner // k)
    return None
