"""`rd.repeat`: every element several times, the same number for all or one for each (Futhark's `expand`).

With a count for each element, the size of the result depends on data. The index of the element at a position is the number of elements whose
copies end at or before it: prefix sums of the counts give the ends, and prefix sums of a histogram of the ends the indices.
"""

from __future__ import annotations

from typing import Any

from raido.algo.errors import DTypeError, ShapeError, TraceError
from raido.algo.graph import index
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Expr, Op, const
from raido.algo.graph.limits import LARGEST_ARRAY, LARGEST_SIZE
from raido.algo.graph.size_numbers import is_size
from raido.algo.language.combinators import extent_of, reduce
from raido.algo.language.complexes import kind_of
from raido.algo.language.making import array, replicate
from raido.algo.language.moves import astype, flatten, moved, normal_axis
from raido.algo.language.scanning import scan
from raido.algo.language.scattering import bincount
from raido.algo.language.ufuncs import add, minimum
from raido.algo.trace.building import collect, make_axes, structure
from raido.algo.trace.building import element as element_of
from raido.algo.trace.context import load
from raido.algo.trace.existential import checked, count_from, counted, joined_size
from raido.algo.trace.locations import complaint
from raido.algo.trace.trees import leaves, map_leaves
from raido.algo.trace.types import describe
from raido.algo.trace.value import COUNTER, Array
from raido.algo.trace.whole_numbers import same_bits


def repeat(a: Any, counts: Any = None, axis: int | None = 0, *, repeats: Any = None, name: str | None = None) -> Array:
    """The elements along `axis`, each as often as `counts` says, in order: an int, or an integer array with one count for each.

    `axis=None` flattens the array first; `repeats` is NumPy's name of `counts`. A tuple of arrays is repeated array by array. A negative
    count raises `SizeMismatch` when the program runs.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def spread(a: rd.i64["n"], counts: rd.i64["n"]):
        ...     return rd.repeat(a, counts), rd.repeat(a, 2)
        >>> spread.interpret(np.array([7, 8]), np.array([1, 3]))
        (array([7, 8, 8, 8]), array([7, 7, 8, 8]))
    """
    if (counts is None) == (repeats is None):
        said = "neither" if counts is None else "both"
        raise TraceError(complaint(f"rd.repeat takes `counts`, or `repeats`, which is the same: {said} given"))
    counts = repeats if counts is None else counts
    value = structure(a)
    if axis is None:
        value, axis = map_leaves(flatten, value), 0
    flat: list[Array] = leaves(value)
    rank = min(leaf.ndim for leaf in flat)
    if rank == 0:
        raise TraceError(complaint("rd.repeat of a scalar", remedy="rd.replicate(n, value)"))
    along = normal_axis(axis, rank)
    number = array(counts) if isinstance(counts, list) else structure(counts)
    if isinstance(number, tuple) or number.ndim > 1:
        got = kind_of(number) if isinstance(number, tuple) else describe(number.dtype, number.extents)
        raise ShapeError(complaint(f"the counts of rd.repeat are an integer or an array of rank 1, not {got}"))
    if not number.dtype.is_integer:
        raise DTypeError(complaint(f"the counts of rd.repeat are integers, not {number.dtype}"))
    if number.ndim == 0 and is_size(index.canonical(astype(number, i64).node)):
        times = extent_of(counts)
        source = lambda i: index.floordiv(i, times)
        return map_leaves(lambda leaf: _read(leaf, along, index.mul(leaf.extents[along], times), source, name), value)
    extent = flat[0].extents[along]
    if number.ndim == 0:
        number = replicate(Array(extent, COUNTER), number)
    for leaf in flat:
        pair = (f"dimension {along} of one array to repeat", f"dimension {along} of another")
        extent = joined_size(extent, leaf.extents[along], *pair)
    extent = joined_size(extent, number.extents[0], "the repeated dimension", "that of the counts")
    axes = make_axes([extent])
    number = collect(axes, Array(count_from(same_bits(element_of(number, [axes[0].var])))), "elementwise")
    total = _total(number)
    ends = scan(add, 0, number)
    element = scan(add, 0, bincount(ends, Array(total, COUNTER)))
    return map_leaves(lambda leaf: _read(leaf, along, total, lambda i: load(element.node, (i,)), name), value)


def _total(counts: Array) -> Expr:
    """Returns the sum of the counts as a size, which faults where no array is as large.

    Partial sums saturate within 64 bits: saturating sums of numbers that are not negative are associative.
    """
    most = LARGEST_ARRAY - 1  # twice this fits 64 bits
    total = reduce(lambda a, b: minimum(a + b, most), 0, counts).node
    holds = Op("le", bool_, (total, const(i64, LARGEST_SIZE)))
    return counted(checked(total, holds, "total", (total,)), None)


def _read(array: Array, along: int, extent: Expr, source: Any, name: str | None) -> Array:
    """Returns the array with dimension `along` of that extent, read at `source` of the index there."""
    extents = [*array.extents[:along], extent, *array.extents[along + 1 :]]
    body = lambda *p: load(array.node, (*p[:along], source(p[along]), *p[along + 1 :]))
    return moved(extents, body, name, array.weak)
