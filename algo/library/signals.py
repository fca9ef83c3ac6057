"""NumPy's `convolve` and `correlate` of lines: a sum over the second operand for every element of the result.

Where both sizes are known while tracing, the sum runs over the shorter operand.
"""

from __future__ import annotations

from typing import Any

from raido.algo.errors import ShapeError, TraceError
from raido.algo.graph.dtypes import bool_, computed_in
from raido.algo.language import reductions, ufuncs
from raido.algo.language.combinators import tabulate
from raido.algo.language.complex_functions import conj
from raido.algo.language.complexes import Complex
from raido.algo.language.indexing import gather
from raido.algo.language.moves import astype
from raido.algo.language.stencil import constant
from raido.algo.library.operands import numbers_of
from raido.algo.trace.building import elementwise
from raido.algo.trace.existential import nonempty_size
from raido.algo.trace.locations import complaint
from raido.algo.trace.trees import leaves, map_leaves
from raido.algo.trace.value import Array
from raido.algo.trace.weak import as_weak

MODES = ("full", "same", "valid")


def convolve(a: Any, v: Any, mode: str = "full", *, name: str | None = None) -> Array:
    """The convolution of two lines: `sum(a[j] * v[i - j])` over all j within both, for every i.

    `mode`: "full", every i where they overlap, n + m − 1 of them; "same", the middle max(n, m); "valid", where they overlap completely,
    max(n, m) − min(n, m) + 1. The common dtype is not widened; f16 and bf16 are summed in f32. ShapeError for
    other ranks; an empty line is an error.

    Example:
        >>> rd.algorithm(lambda a: rd.convolve(a, [1, 2, 1], "same")).interpret(np.array([0, 1, 0, 0, 3]))
        array([1, 2, 1, 3, 6])
    """
    x, y = _lines(a, v, mode, "rd.convolve")
    n, m = _size(x), _size(y)
    if isinstance(n, int) and isinstance(m, int) and n < m:
        x, y, n, m = y, x, m, n
    short, long = ufuncs.minimum(n, m), ufuncs.maximum(n, m)
    first = {"full": 0, "same": (short - 1) // 2, "valid": short - 1}[mode]
    count = {"full": n + m - 1, "same": long, "valid": long - short + 1}[mode]
    return _overlaps(x, y, first, count, lambda i, j: i - j, name)


def correlate(a: Any, v: Any, mode: str = "valid", *, name: str | None = None) -> Array:
    """The correlation of two lines: `sum(a[i + j] * conj(v[j]))` over all j within both, for every shift i; modes are those of
    `rd.convolve`.

    Example:
        >>> rd.algorithm(lambda a: rd.correlate(a, [0, 1, 2])).interpret(np.array([1, 2, 3, 4]))
        array([ 8, 11])
    """
    x, y = _lines(a, v, mode, "rd.correlate")
    n, m = _size(x), _size(y)
    short, long = ufuncs.minimum(n, m), ufuncs.maximum(n, m)
    middle = ufuncs.where(
        ufuncs.less(n, m), n // 2, (m - 1) // 2
    )  # where NumPy exchanges the lines, and reverses the result
    first = {"full": 0, "same": middle, "valid": short - 1}[mode]
    count = {"full": n + m - 1, "same": long, "valid": long - short + 1}[mode]
    other = conj(y) if isinstance(y, Complex) else y
    return _overlaps(x, other, first, count, lambda i, j: i - (m - 1) + j, name)


def _lines(a: Any, v: Any, mode: str, what: str) -> tuple[Any, Any]:
    if mode not in MODES:
        raise TraceError(complaint(f"the mode {mode!r} of {what}", remedy='"full", "same" or "valid"'))
    lines = []
    for value, own in ((a, "the first operand"), (v, "the second operand")):
        line = numbers_of(value, what)
        first = leaves(line)[0]
        if first.ndim == 0:
            line = map_leaves(lambda leaf: leaf[None], line)
        elif first.ndim > 1:
            raise ShapeError(complaint(f"{own} of {what} has {first.ndim} dimensions, where one is due"))
        else:
            nonempty_size(first.extents[0], 0, f"{own} of {what}")
        lines.append(line)
    return lines[0], lines[1]


def _size(line: Any) -> Any:
    return leaves(line)[0].shape[0]


def _overlaps(x: Any, y: Any, first: Any, count: Any, index_of: Any, name: str | None) -> Any:
    """The array, at index i, of the sums over j of `x[index_of(i + first, j)] * y[j]` where that index is within x."""
    n = _size(x)

    def at(i: Any) -> Any:
        def term(j: Any) -> Any:
            k = index_of(i + first, j)
            inside = (k >= 0) & (k < n)
            left = map_leaves(lambda leaf: gather(leaf, k, mode=constant(0)), x)
            right = map_leaves(lambda leaf: leaf[j], y)
            product = ufuncs.multiply(left, right)
            alone = lambda part: ufuncs.where(
                inside, part, as_weak(part.dtype(0), part)
            )  # the product of an infinity and the 0 outside must not count
            return map_leaves(alone, product)

        terms = tabulate(_size(y), term)
        return _sum(terms)

    return tabulate(count, at, name=name)


def _sum(terms: Any) -> Any:
    if isinstance(terms, Complex):
        return reductions.sum(terms)
    if terms.dtype is bool_:
        return reductions.any(terms)
    own, inside = terms.dtype, computed_in(terms.dtype)
    if inside is not own:
        return elementwise(lambda total: astype(total, own), [reductions.sum(terms, dtype=inside)])
    return as_weak(reductions.sum(terms, dtype=own), terms)
