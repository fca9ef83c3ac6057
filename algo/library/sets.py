"""NumPy's functions of arrays as sets, `union1d intersect1d setdiff1d setxor1d`, and the parts of `unique` as named tuples.

Sizes are decided by the data.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, overload

from raido.algo.errors import TraceError
from raido.algo.language.joining import concat
from raido.algo.language.moves import astype, flatten, named
from raido.algo.language.sorting import sort
from raido.algo.language.uniques import unique
from raido.algo.library.operands import numbers_of
from raido.algo.library.searching import isin
from raido.algo.trace.locations import complaint
from raido.algo.trace.promotion import common_type
from raido.algo.trace.value import Array


class UniqueAll(NamedTuple):
    """The distinct elements, the index of each one's first occurrence, for each element the position of its value, and the counts."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """The distinct elements, and the number of occurrences of each."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """The distinct elements, and for each element the position of its value among them."""

    values: Array
    inverse_indices: Array


def unique_all(x: Any) -> UniqueAll:
    """The result of `rd.unique` with all flags as a named tuple: values, indices, inverse_indices, counts. All NaN are distinct.

    Example:
        >>> rd.algorithm(lambda a: rd.unique_all(a).indices).interpret(np.array([3, 1, 3]))
        array([1, 0])
    """
    return UniqueAll(*unique(x, True, True, True, equal_nan=False))


def unique_counts(x: Any) -> UniqueCounts:
    """The distinct elements and the number of occurrences of each, as a named tuple: values, counts. All NaN are distinct.

    Example:
        >>> rd.algorithm(lambda a: rd.unique_counts(a).counts).interpret(np.array([3, 1, 3]))
        array([1, 2])
    """
    return UniqueCounts(*unique(x, return_counts=True, equal_nan=False))


def unique_inverse(x: Any) -> UniqueInverse:
    """The distinct elements and for each element the position of its value, as a named tuple: values, inverse_indices. All NaN are
    distinct.

    Example:
        >>> rd.algorithm(lambda a: rd.unique_inverse(a).inverse_indices).interpret(np.array([3, 1, 3]))
        array([1, 0, 1])
    """
    return UniqueInverse(*unique(x, return_inverse=True, equal_nan=False))


def unique_values(x: Any, *, name: str | None = None) -> Array:
    """The distinct elements, in increasing order. All NaN are distinct.

    Example:
        >>> rd.algorithm(lambda a: rd.unique_values(a)).interpret(np.array([3, 1, 3]))
        array([1, 3])
    """
    return unique(x, equal_nan=False, name=name)


def union1d(ar1: Any, ar2: Any, *, name: str | None = None) -> Array:
    """The distinct elements of two arrays, in increasing order, in their common dtype.

    Example:
        >>> rd.algorithm(lambda a, b: rd.union1d(a, b)).interpret(np.array([3, 1]), np.array([1, 2]))
        array([1, 2, 3])
    """
    return unique(concat([flatten(numbers_of(a, "rd.union1d")) for a in (ar1, ar2)]), name=name)


@overload
def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: Literal[False] = False, *, name: str | None = None
) -> Array: ...
@overload
def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, return_indices: Literal[True], name: str | None = None
) -> tuple[Array, Array, Array]: ...
def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False, *, name: str | None = None
) -> Any:
    """The distinct elements that occur in both arrays, in increasing order, in their common dtype. NaN is in none.

    `return_indices`: also the index of the first occurrence of each in either flattened array, as a triple. `assume_unique` has no effect.

    Example:
        >>> rd.algorithm(lambda a, b: rd.intersect1d(a, b)).interpret(np.array([3, 1, 2]), np.array([2, 3]))
        array([2, 3])
    """
    first, second = (flatten(numbers_of(a, "rd.intersect1d")) for a in (ar1, ar2))
    values, positions = unique(first, return_index=True)
    held = isin(values, second)
    found = astype(values[held], _common(first, second))
    found = found if name is None else named(found, name)
    if not return_indices:
        return found
    others, other_positions = unique(second, return_index=True)
    return found, positions[held], other_positions[isin(others, first)]


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False, *, name: str | None = None) -> Array:
    """The distinct elements of the first array that do not occur in the second, in increasing order; NaN is always one of them.

    `assume_unique`: the elements of the first array are distinct, and keep their order.

    Example:
        >>> rd.algorithm(lambda a, b: rd.setdiff1d(a, b)).interpret(np.array([3, 1, 2]), np.array([2, 3]))
        array([1])
    """
    line = flatten(numbers_of(ar1, "rd.setdiff1d"))
    values = line if assume_unique else unique(line)
    left = values[isin(values, ar2, invert=True)]
    return left if name is None else named(left, name)


def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False, *, name: str | None = None) -> Array:
    """The distinct elements that occur in exactly one of two arrays, in increasing order, in their common dtype.

    Example:
        >>> rd.algorithm(lambda a, b: rd.setxor1d(a, b)).interpret(np.array([3, 1, 2]), np.array([2, 5]))
        array([1, 3, 5])
    """
    first, second = (numbers_of(a, "rd.setxor1d") for a in (ar1, ar2))
    return sort(concat([setdiff1d(first, second), setdiff1d(second, first)]), name=name)


def _common(*arrays: Any) -> Any:
    if not all(isinstance(a, Array) for a in arrays):
        raise TraceError(complaint("rd.intersect1d of complex numbers", remedy=".real or .imag"))
    return common_type(arrays)[0]
