"""NumPy's histograms: counts of elements, or sums of weights, in bins of one or of several dimensions.

The bin of an element is found by a binary search in the edges; for bins of equal width, by a multiplication, as in NumPy, followed by steps
to a neighbouring bin where the product was rounded across an edge.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from raido.algo.errors import ShapeError, TraceError
from raido.algo.graph.dtypes import f64, i64
from raido.algo.language import reductions, ufuncs
from raido.algo.language.combinators import tabulate
from raido.algo.language.control import cond, while_loop
from raido.algo.language.moves import astype, flatten, reshape
from raido.algo.language.scattering import bincount
from raido.algo.library.searching import line_of, real_of, search, together
from raido.algo.trace.building import elementwise
from raido.algo.trace.locations import complaint, plain_int
from raido.algo.trace.promotion import lift
from raido.algo.trace.trees import is_sequence
from raido.algo.trace.value import Array


def histogram(
    a: Any,
    bins: Any = 10,
    range: Any = None,
    density: bool | None = None,
    weights: Any = None,
    *,
    name: str | None = None,
) -> tuple[Array, Array]:
    """The pair `(counts, edges)`: the number of elements of `a` in each bin, as i64 or in the dtype of the `weights`, and the edges of the
    bins.

    `bins` is a number of bins of equal width, an int or a size, over `range`, a pair, or over all elements; or an increasing array of
    edges. A bin includes its lower edge, the last one its upper edge too; elements outside, and NaN, are not counted. `density`: in f64,
    divided by the sum and the width of the bin, so that the integral is 1. `weights` have the shape of `a`.

    Example:
        >>> rd.algorithm(lambda a: rd.histogram(a, 2, (0, 4))).interpret(np.array([0.5, 1.0, 2.0, 4.0, 5.0]))
        (array([2, 2]), array([0., 2., 4.]))
    """
    line = _flat(a, "rd.histogram")
    count, edges, even = _edges(line, bins, range, "rd.histogram")
    indices = _bins_of(line, edges, count, even)
    if weights is not None:
        weights = _flat(weights, "rd.histogram")
    counts = bincount(indices, count, weights, name=name if not density else None)
    if density:
        widths = edges[1:] - edges[:-1]
        counts = ufuncs.divide(astype(counts, f64) / widths, reductions.sum(counts), name=name)
    return counts, edges


def histogram_bin_edges(
    a: Any, bins: Any = 10, range: Any = None, weights: Any = None, *, name: str | None = None
) -> Array:
    """The edges of the bins of `rd.histogram` with these arguments.

    Example:
        >>> rd.algorithm(lambda a: rd.histogram_bin_edges(a, 2)).interpret(np.array([0.0, 1.0, 4.0]))
        array([0., 2., 4.])
    """
    what = "rd.histogram_bin_edges"
    _, edges, _ = _edges(_flat(a, what), bins, range, what)
    return edges if name is None else edges.named(name)


def histogram2d(
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,
    density: bool | None = None,
    weights: Any = None,
    *,
    name: str | None = None,
) -> tuple[Array, Array, Array]:
    """The triple `(counts, x edges, y edges)` for points in the plane: `rd.histogramdd` of two coordinates.

    `bins` is a number of bins, or edges, for both coordinates, or a list of two of these.

    Example:
        >>> f = rd.algorithm(lambda x, y: rd.histogram2d(x, y, 2, [(0, 2), (0, 2)])[0])
        >>> f.interpret(np.array([0.5, 0.5, 1.5]), np.array([0.5, 1.5, 1.5]))
        array([[1., 1.],
               [0., 1.]])
    """
    if not is_sequence(bins) or len(bins) not in (1, 2):
        bins = [bins, bins] if not is_sequence(bins) else [np.asarray(bins)] * 2
    elif len(bins) == 1:
        bins = [bins[0], bins[0]]
    counts, (first, second) = histogramdd((x, y), bins, range, density, weights, name=name)
    return counts, first, second


def histogramdd(
    sample: Any,
    bins: Any = 10,
    range: Any = None,
    density: bool | None = None,
    weights: Any = None,
    *,
    name: str | None = None,
) -> tuple[Array, tuple[Array, ...]]:
    """The pair `(counts, edges)` for points in space: the number of points, or the sum of their `weights`, in each bin, in f64; a tuple of
    edges.

    `sample` is a matrix with a row for each point, or a tuple of lines, one for each coordinate. `bins` is a number of bins for all
    coordinates, or a list with a number or edges for each; `range` is a list of pairs, or None for the extremes. `density` divides by the
    sum and the volumes of bins. ShapeError where the numbers of coordinates differ.

    Example:
        >>> f = rd.algorithm(lambda a: rd.histogramdd(a, 2)[0], a="f64[n, 2]")
        >>> f.interpret(np.array([[0.0, 0.0], [1.0, 3.0], [1.0, 4.0]]))
        array([[1., 0.],
               [0., 2.]])
    """
    what = "rd.histogramdd"
    if is_sequence(sample):
        lines = [_flat(line, what) for line in sample]
    else:
        points = real_of(sample, what)
        rank = points.shape[1] if points.ndim == 2 else 1
        if points.ndim > 2 or not isinstance(rank, int):
            raise ShapeError(complaint(f"{what} takes a matrix of points, of a number of columns known while tracing"))
        lines = [points[:, k] for k in np.arange(rank)] if points.ndim == 2 else [points]
    lines = [astype(line, f64) for line in lines]
    numbers = list(bins) if is_sequence(bins) else [bins] * len(lines)
    limits = list(range) if range is not None else [None] * len(lines)
    if not len(lines) == len(numbers) == len(limits):
        raise ShapeError(
            complaint(f"{what} of {len(lines)} coordinates with {len(numbers)} bins and {len(limits)} ranges")
        )
    found = [_edges(line, n, limit, what) for line, n, limit in zip(lines, numbers, limits, strict=True)]
    flat: Any = 0
    inside: Any = True
    shape = tuple(count for count, _, _ in found)
    total: Any = 1
    for line, (count, edges, even) in zip(lines, found, strict=True):
        position = _bins_of(line, edges, count, even)
        inside = ufuncs.logical_and(inside, position >= 0)
        flat, total = flat * count + position, total * count
    factors = None if weights is None else astype(_flat(weights, what), f64)
    counts = bincount(ufuncs.where(inside, flat, -1), total, factors)
    result = reshape(astype(counts, f64), shape)
    edges = tuple(own for _, own, _ in found)
    if density:
        result = result / reductions.sum(result)
        for k, own in enumerate(edges):
            width = reshape(own[1:] - own[:-1], tuple(n if j == k else 1 for j, n in enumerate(shape)))
            result = result / width
    return (result if name is None else result.named(name)), edges


def _flat(value: Any, what: str) -> Array:
    given = real_of(value, what)
    return flatten(given) if given.ndim else given[None]


def _edges(line: Array, bins: Any, limits: Any, what: str) -> tuple[Any, Array, bool]:
    """The number of bins, their edges, and whether all bins have one width."""
    if isinstance(bins, str):
        raise TraceError(complaint(f"{what} with bins {bins!r}", remedy="a number of bins, or their edges"))
    given = bins if isinstance(bins, (int, np.integer)) else real_of(bins, what)
    if isinstance(given, Array) and given.ndim:
        edges = line_of(given, f"`bins` of {what}")
        return edges.shape[0] - 1, edges, False
    if isinstance(given, Array):
        return given, _even_edges(line, given, limits), True
    count = plain_int(given, f"the number of bins of {what}")
    if count < 1:
        raise ShapeError(complaint(f"{what} of {count} bins", remedy="at least 1"))
    return count, _even_edges(line, count, limits), True


def _bins_of(line: Array, edges: Array, count: Any, even: bool) -> Array:
    """The index of the bin of each element, −1 for elements outside of all bins."""
    own, borders = together(line, edges)

    def bin_of(x: Array) -> Array:
        position = search(lambda i: borders[i], borders.shape[0], lambda e: e <= x) - 1
        return ufuncs.where(x == borders[-1], count - 1, ufuncs.where(position < count, position, -1))

    if not even:
        return elementwise(bin_of, [own])
    number = astype(lift(count), i64)
    scale = astype(number, borders.dtype) / (borders[-1] - borders[0])

    def even_bin_of(x: Array) -> Array:
        inside = ufuncs.logical_and(borders[0] <= x, x <= borders[-1])
        near = astype(ufuncs.where(inside, (x - borders[0]) * scale, 0), i64)
        near = ufuncs.maximum(ufuncs.minimum(near, number - 1), 0)
        below = ufuncs.logical_or(x < borders[near + 1], near == number - 1)
        found = ufuncs.logical_or(ufuncs.logical_and(borders[near] <= x, below), ufuncs.logical_not(inside))
        return ufuncs.where(inside, cond(found, lambda: near, lambda: neighbour(x, near)), -1)

    def neighbour(x: Array, near: Array) -> Array:
        near = while_loop(lambda i: ufuncs.logical_and(i > 0, x < borders[i]), lambda i: i - 1, near)
        return while_loop(lambda i: ufuncs.logical_and(i < number - 1, borders[i + 1] <= x), lambda i: i + 1, near)

    return elementwise(even_bin_of, [own])


def _even_edges(line: Array, count: Any, limits: Any) -> Array:
    """The edges of bins of equal width: in f64, or in the dtype of a float array."""
    dtype = line.dtype if line.dtype.is_float else f64
    if limits is None:
        nothing = line.shape[0] == 0
        low = ufuncs.where(nothing, 0.0, reductions.min(line, initial=reductions.highest(line.dtype)))
        high = ufuncs.where(nothing, 1.0, reductions.max(line, initial=reductions.lowest(line.dtype)))
    else:
        low, high = (lift(limit) for limit in limits)
    low, high = astype(low, dtype), astype(high, dtype)
    alone = low == high
    low, high = ufuncs.where(alone, low - 0.5, low), ufuncs.where(alone, high + 0.5, high)

    def edge(i: Array) -> Array:
        inside = i * ((high - low) / astype(lift(count), dtype)) + low
        return ufuncs.where(i == count, high, inside)

    return tabulate(count + 1, edge)
