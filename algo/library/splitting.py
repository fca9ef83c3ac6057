"""NumPy's splits of an array along an axis, `split array_split hsplit vsplit dsplit`. Each returns a tuple of index moves.

A number of sections must be known while tracing; the size of the axis, and the indices of the cuts, need not be.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from raido.algo.errors import ShapeError
from raido.algo.language.combinators import extent_of
from raido.algo.language.moves import array_of, normal_axis, reshape
from raido.algo.language.ufuncs import minimum
from raido.algo.trace.building import owner, structure
from raido.algo.trace.existential import joined_size
from raido.algo.trace.locations import complaint, plain_int
from raido.algo.trace.trees import leaves, unflatten
from raido.algo.trace.value import Array

Cut = Callable[[Array], list[Array]]


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> tuple[Array, ...]:
    """The array split along `axis` into equal sections, as many as an int says, or at the indices of a list: a tuple of arrays.

    ShapeError, or SizeMismatch at the call, where the sections cannot be equal; indices clamp, as bounds of slices do.

    Example:
        >>> rd.algorithm(lambda a: rd.split(a, 2)).interpret(np.array([3, 1, 2, 5]))
        (array([3, 1]), array([2, 5]))
    """
    if _are_indices(indices_or_sections):
        return _cut(ary, lambda a: _at_indices(a, indices_or_sections, axis))
    return _cut(ary, lambda a: _in_equal_sections(a, _count(indices_or_sections), axis))


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> tuple[Array, ...]:
    """The array split as by `rd.split`, into sections whose sizes may differ by one: the first ones are the larger.

    Example:
        >>> rd.algorithm(lambda a: rd.array_split(a, 2)).interpret(np.array([3, 1, 2]))
        (array([3, 1]), array([2]))
    """
    if _are_indices(indices_or_sections):
        return split(ary, indices_or_sections, axis)
    return _cut(ary, lambda a: _in_sections(a, _count(indices_or_sections), axis))


def hsplit(ary: Any, indices_or_sections: Any) -> tuple[Array, ...]:
    """The array split along axis 1, of arrays of rank 1 along their only axis; arguments are those of `rd.split`.

    Example:
        >>> rd.algorithm(lambda a: rd.hsplit(a, [1])).interpret(np.array([[3, 1, 2], [4, 5, 6]]))
        (array([[3],
               [4]]), array([[1, 2],
               [5, 6]]))
    """
    return split(ary, indices_or_sections, 1 if structure(ary).ndim > 1 else 0)


def vsplit(ary: Any, indices_or_sections: Any) -> tuple[Array, ...]:
    """The array split along axis 0, of arrays of rank 2 or more; arguments are those of `rd.split`.

    Example:
        >>> rd.algorithm(lambda a: rd.vsplit(a, 2)).interpret(np.array([[3, 1, 2], [4, 5, 6]]))
        (array([[3, 1, 2]]), array([[4, 5, 6]]))
    """
    return _from_rank(2, ary, "rd.vsplit", lambda: split(ary, indices_or_sections, 0))


def dsplit(ary: Any, indices_or_sections: Any) -> tuple[Array, ...]:
    """The array split along axis 2, of arrays of rank 3 or more; arguments are those of `rd.split`.

    Example:
        >>> rd.algorithm(lambda a: rd.dsplit(a[None, None], 2)).interpret(np.array([3, 1]))
        (array([[[3]]]), array([[[1]]]))
    """
    return _from_rank(3, ary, "rd.dsplit", lambda: split(ary, indices_or_sections, 2))


def _from_rank(rank: int, ary: Any, what: str, cut: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
    given = leaves(structure(ary))[0].ndim
    if given < rank:
        raise ShapeError(complaint(f"{what} of an array of rank {given}: it needs {rank}"))
    return cut()


def _cut(ary: Any, pieces_of: Cut) -> tuple[Any, ...]:
    """The sections of an array; for a structure, structures of the sections of its arrays."""
    given = structure(ary)
    columns = zip(*[pieces_of(leaf) for leaf in leaves(given)], strict=True)
    return tuple(unflatten(given, pieces) for pieces in columns)


def _are_indices(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _count(sections: Any) -> int:
    number = plain_int(sections, "the number of sections")
    if number < 1:
        raise ShapeError(complaint(f"an array cannot be cut into {number} sections"))
    return number


def _at_indices(a: Array, indices: Any, axis: int) -> list[Array]:
    along = normal_axis(axis, array_of(a, "rd.split").ndim)
    bounds = [None, *indices, None]
    return [_slice(a, along, low, high) for low, high in pairwise(bounds)]


def _in_equal_sections(a: Array, count: int, axis: int) -> list[Array]:
    along = normal_axis(axis, a.ndim)
    sizes = a.shape
    length = sizes[along] // count
    whole = f"{count} equal sections"
    joined_size(a.extents[along], extent_of(length * count), owner(a, along, "the array"), whole)
    rows = reshape(a, (*sizes[:along], count, length, *sizes[along + 1 :]))
    return [rows[(*[slice(None)] * along, k)] for k in range(count)]


def _in_sections(a: Array, count: int, axis: int) -> list[Array]:
    along = normal_axis(axis, a.ndim)
    length, rest = a.shape[along] // count, a.shape[along] % count
    starts = [length * k + (min(rest, k) if isinstance(rest, int) else minimum(rest, k)) for k in range(count)]
    bounds = [*starts, None]
    return [_slice(a, along, low, high) for low, high in pairwise(bounds)]


def _slice(a: Array, along: int, low: Any, high: Any) -> Array:
    return a[(*[slice(None)] * along, slice(low, high))]
