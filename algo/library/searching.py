"""NumPy's searches in sorted arrays, `searchsorted digitize isin interp`, each by one binary search per element.

NaN comes last, as in `rd.sort`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from raido.algo.errors import DTypeError, ShapeError, TraceError
from raido.algo.graph.dtypes import f64, i64
from raido.algo.language import reductions, ufuncs
from raido.algo.language.combinators import tabulate
from raido.algo.language.complexes import Complex
from raido.algo.language.control import while_loop
from raido.algo.language.indexing import gather
from raido.algo.language.making import iota
from raido.algo.language.moves import astype, flatten
from raido.algo.language.sorting import sort
from raido.algo.language.stencil import constant
from raido.algo.library.operands import numbers_of
from raido.algo.trace.building import elementwise
from raido.algo.trace.context import current
from raido.algo.trace.locations import complaint
from raido.algo.trace.promotion import common_type, lift
from raido.algo.trace.value import Array

BLOCK = 256  # values of which the first is searched beforehand, so that searches increase by less than 1 %
NEAR = 8  # two positions are near if at most 1/8 of the table lies between them, which saves three iterations (log2 8)


def real_of(value: Any, what: str) -> Array:
    """The operand as an array of real numbers; DTypeError for complex ones, which have no order."""
    given = numbers_of(value, what)
    if isinstance(given, Complex):
        raise DTypeError(
            complaint(f"{what} of complex numbers", why="they have no order", remedy=".real, .imag or rd.abs")
        )
    return given


def line_of(value: Array, what: str) -> Array:
    if value.ndim != 1:
        raise ShapeError(complaint(f"{what} is an array of one dimension, not of {value.ndim}", remedy=".flatten()"))
    return value


def below(x: Array, y: Array) -> Array:
    """Whether x < y, where NaN is above all numbers and equal to itself."""
    less = ufuncs.less(x, y)
    return less | (ufuncs.isnan(y) & ~ufuncs.isnan(x)) if x.dtype.is_float else less


def search(
    read: Callable[[Array], Array],
    size: Any,
    goes_right: Callable[[Array], Array],
    within: tuple[Array, Array] | None = None,
) -> Array:
    """Returns the first index in 0 … size, or in the range `within`, whose element does not lie to the left, by bisection."""

    def halve(state: Any) -> Any:
        low, high = state
        middle = low + (high - low) // 2
        right = goes_right(read(middle))
        return ufuncs.where(right, middle + 1, low), ufuncs.where(right, high, middle)

    start = within or (i64(0), astype(lift(size), i64))
    return while_loop(lambda state: state[0] < state[1], halve, start)[0]


def search_each(
    read: Callable[[Array], Array],
    size: Any,
    goes_right: Callable[[Array, Array], Array],
    values: Array,
    use: Callable[[Array, Array], Array] = lambda value, position: position,
    name: str | None = None,
) -> Array:
    """Applies `use` to each value and its position: the first index in 0 … size whose element is not to the left of the value.

    One-dimensional values are often sorted, at least in parts. So the first value of each block is searched first, and a value between the
    first ones of its block and of the next is searched between their positions, if these are near. Unsorted values take no longer.
    """
    whole = lambda value: search(read, size, lambda element: goes_right(element, value))
    count = values.shape[0] if values.ndim == 1 else 0
    if current().depth or (isinstance(count, int) and count < 2 * BLOCK) or (isinstance(size, int) and size < NEAR):
        return elementwise(lambda value: use(value, whole(value)), [values], name=name)
    last = count - 1  # -1, an index out of range, where there are no values: the block's first one is then any number
    first = lambda block: gather(values, ufuncs.minimum(block * BLOCK, last), mode=constant(0))
    positions = tabulate(count // BLOCK + 2, lambda block: whole(first(block)))

    def find(value: Array, i: Array) -> Array:
        block = i // BLOCK
        low, high = (ufuncs.clip(position, 0, size) for position in (positions[block], positions[block + 1]))
        ordered = (first(block) <= value) & (value <= first(block + 1)) & ((high - low) * NEAR <= size)
        within = ufuncs.where(ordered, low, 0), ufuncs.where(ordered, high, size)
        return use(value, search(read, size, lambda element: goes_right(element, value), within))

    return elementwise(find, [values, iota(count)], name=name)


def together(*arrays: Array) -> list[Array]:
    """The arrays converted to their common dtype, in which they are compared."""
    dtype, _ = common_type(arrays)
    return [astype(array, dtype) for array in arrays]


def _on_side(side: Any) -> Callable[[Array, Array], Array]:
    """The predicate (element, value) whether the element lies to the left of the position of the value, for `side` "left" or "right"."""
    if side == "left":
        return below
    if side == "right":
        return lambda element, value: ufuncs.logical_not(below(value, element))
    raise TraceError(complaint(f"`side` is 'left' or 'right', not {side!r}"))


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None, *, name: str | None = None) -> Array:
    """The index in the sorted array `a`, of one dimension, at which each element of `v` may be inserted: i64, of the shape of `v`.

    `side`: "left", the first such index; "right", the last one. `sorter`: the indices that sort `a`, where it is not sorted.
    Elements are compared in the common dtype. ShapeError where `a` has more dimensions.

    Example:
        >>> rd.algorithm(lambda a, v: rd.searchsorted(a, v)).interpret(np.array([1, 3, 3, 7]), np.array([0, 3, 9]))
        array([0, 1, 4])
    """
    table, values = real_of(a, "rd.searchsorted"), real_of(v, "rd.searchsorted")
    line_of(table, "the sorted array of rd.searchsorted")
    table, values = together(table, values)
    left_of = _on_side(side)
    order = None if sorter is None else numbers_of(sorter, "rd.searchsorted")

    def read(i: Array) -> Array:
        return table[i] if order is None else table[order[i]]

    return search_each(read, table.shape[0], left_of, values, name=name)


def digitize(x: Any, bins: Any, right: bool = False, *, name: str | None = None) -> Array:
    """The index of the bin of each element of `x`: i64, of the shape of `x`.

    `bins`, of one dimension, increases or decreases, which is not checked. Bin i of increasing bins is `bins[i-1] <= x < bins[i]`, with
    `right` `bins[i-1] < x <= bins[i]`; 0 is below the first edge, `len(bins)` above the last one.

    Example:
        >>> rd.algorithm(lambda x: rd.digitize(x, [0.0, 1.0, 2.5])).interpret(np.array([0.2, 6.4, 1.0]))
        array([1, 3, 2])
    """
    values, edges = real_of(x, "rd.digitize"), line_of(real_of(bins, "rd.digitize"), "`bins` of rd.digitize")
    values, edges = together(values, edges)
    count = edges.shape[0]
    left_of = _on_side("left" if right else "right")
    if isinstance(count, int) and count == 0:
        return elementwise(lambda _: i64(0), [values], name=name)
    falls = reductions.any(edges[1:] < edges[:-1])

    def find(value: Array, down: Array) -> Array:
        read = lambda i: edges[ufuncs.where(down, count - 1 - i, i)]
        position = search(read, count, lambda element: left_of(element, value))
        return ufuncs.where(down, count - position, position)

    return elementwise(find, [values, falls], name=name)


def isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
    name: str | None = None,
) -> Array:
    """Whether each element occurs in `test_elements`, an array of any shape: bool_, of the shape of `element`. NaN never does.

    `invert` negates the result. The test elements are sorted, then searched; `assume_unique` and `kind` are NumPy's and have no effect.

    Example:
        >>> rd.algorithm(lambda a: rd.isin(a, [1, 5])).interpret(np.array([[5, 2], [1, 1]]))
        array([[ True, False],
               [ True,  True]])
    """
    values, tested = real_of(element, "rd.isin"), real_of(test_elements, "rd.isin")
    if kind not in (None, "sort", "table"):
        raise TraceError(complaint(f"`kind` is None, 'sort' or 'table', not {kind!r}"))
    values, tested = together(values, tested)
    ordered = sort(flatten(tested) if tested.ndim else tested[None])
    count = astype(lift(ordered.shape[0]), i64)

    def found(x: Array) -> Array:
        def halve(state: Any) -> Any:
            low, high, met = state
            middle = low + (high - low) // 2
            here = ordered[middle]
            right = below(here, x)
            return ufuncs.where(right, middle + 1, low), ufuncs.where(right, high, middle), met | (here == x)

        start = (i64(0), count, lift(np.bool_(False)))
        met = while_loop(lambda state: state[0] < state[1], halve, start)[2]  # the first equal element is compared
        return ufuncs.logical_not(met) if invert else met

    return elementwise(found, [values], name=name)


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None, *, name: str | None = None
) -> Array:
    """The values of the piecewise linear function through the points `(xp[i], fp[i])` at the elements of `x`: f64, of the shape of `x`.

    `xp` must increase, which is not checked. Before the first and after the last point the values are `left` and `right`, by default those
    of these points. `period`: the points repeat, in any order, and `left` and `right` are ignored. ShapeError for points of more than one
    dimension.

    Example:
        >>> rd.algorithm(lambda x: rd.interp(x, [1.0, 2.0, 3.0], [3.0, 2.0, 0.0])).interpret(np.array([0.0, 1.5, 2.5, 9.0]))
        array([3. , 2.5, 1. , 0. ])
    """
    points, starts, values = (astype(real_of(v, "rd.interp"), f64) for v in (x, xp, fp))
    line_of(starts, "`xp` of rd.interp")
    line_of(values, "`fp` of rd.interp")
    if period is not None:
        starts, values, points, left, right = *_repeated(starts, values, points, period), None, None
    last = starts.shape[0] - 1
    before, after = (values[k] if given is None else astype(lift(given), f64) for given, k in ((left, 0), (right, -1)))

    def at(p: Array, position: Array) -> Array:
        i = ufuncs.clip(position - 1, 0, last)
        j = ufuncs.minimum(i + 1, last)
        x0, x1, y0, y1 = starts[i], starts[j], values[i], values[j]
        slope = (y1 - y0) / (x1 - x0)
        line = slope * (p - x0) + y0
        other = slope * (p - x1) + y1
        line = ufuncs.where(ufuncs.isnan(line), ufuncs.where(ufuncs.isnan(other) & (y0 == y1), y0, other), line)
        inside = ufuncs.where((p == x0) | (i == last), y0, line)
        inside = ufuncs.where(p > starts[-1], after, ufuncs.where(p < starts[0], before, inside))
        return ufuncs.where(ufuncs.isnan(p) & (last > 0), p, inside)  # NaN in NumPy, too, but of one point

    return search_each(lambda i: starts[i], starts.shape[0], ufuncs.less_equal, points, at, name)


def _repeated(starts: Array, values: Array, points: Array, period: Any) -> tuple[Array, Array, Array]:
    """The points of one period in order, extended by the last one before and the first one after them; and the arguments modulo the
    period."""
    length = ufuncs.absolute(astype(lift(period), f64))
    ordered, along = sort((starts % length, values))
    n = starts.shape[0]

    def extended(line: Array, by: Any) -> Array:
        def point(i: Array) -> Array:
            return ufuncs.where(
                i == 0, line[n - 1] - by, ufuncs.where(i == n + 1, line[0] + by, line[ufuncs.clip(i - 1, 0, n - 1)])
            )

        return tabulate(n + 2, point)

    return extended(ordered, length), extended(along, f64(0)), points % length
