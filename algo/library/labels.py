"""JAX's functions of class labels and segment numbers: `one_hot segment_sum`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raido.algo.errors import DTypeError, ShapeError
from raido.algo.graph.dtypes import i64
from raido.algo.language.making import iota
from raido.algo.language.moves import array_of, astype, expand_dims
from raido.algo.language.reductions import max
from raido.algo.language.scattering import reduce_by_index
from raido.algo.language.ufuncs import add, maximum, where
from raido.algo.library.making import full, typed
from raido.algo.library.moving import moveaxis
from raido.algo.trace.building import structure
from raido.algo.trace.locations import complaint
from raido.algo.trace.promotion import lift
from raido.algo.trace.value import Array
from raido.algo.trace.weak import as_weak

if TYPE_CHECKING:
    from raido.algo.language.parameters import DTypeLike


def one_hot(
    x: Any, num_classes: Any, *, dtype: DTypeLike | None = None, axis: int = -1, name: str | None = None
) -> Array:
    """The one-hot encoding of an integer array: `num_classes` numbers along a new dimension `axis`, one at the class and zeros elsewhere.

    A class that is negative or too large gives zeros alone. The dtype is `dtype`, or, without it, that of `rd.zeros`. DTypeError for
    classes that are not integers.

    Example:
        >>> rd.algorithm(lambda a: rd.one_hot(a, 3, dtype=rd.i32)).interpret(np.array([1, 0, -1]))
        array([[0, 1, 0],
               [1, 0, 0],
               [0, 0, 0]], dtype=int32)
    """
    classes = array_of(x, "rd.one_hot")
    if not classes.dtype.is_integer:
        raise DTypeError(complaint(f"rd.one_hot of {classes.dtype}", remedy=".astype(rd.i64)"))
    one, zero = (1.0, 0.0) if dtype is None else (typed(lift(value), dtype) for value in (1, 0))
    alike = expand_dims(astype(classes, i64), -1) == iota(num_classes)
    return where(alike if axis == -1 else moveaxis(alike, -1, axis), one, zero, name=name)


def segment_sum(data: Any, segment_ids: Any, num_segments: Any = None, *, name: str | None = None) -> Array:
    """The sums of the elements (rows) of `data` with equal numbers in `segment_ids`: [num_segments, …], in the dtype of `data`.

    `segment_ids` is an integer array with one number for each element; elements with a negative or too large number are left out. Without
    `num_segments`, data decides it: one more than the largest number. ShapeError for a scalar.

    Example:
        >>> rd.algorithm(lambda x, s: rd.segment_sum(x, s, 3)).interpret(np.array([5, 6, 7]), np.array([2, 0, 2]))
        array([ 6,  0, 12])
    """
    values, ids = structure(data), array_of(segment_ids, "the segments of rd.segment_sum")
    if values.ndim == 0 or ids.ndim != 1:
        raise ShapeError(complaint(f"rd.segment_sum of rank {values.ndim} with segments of rank {ids.ndim}"))
    count = maximum(max(astype(ids, i64), initial=-1) + 1, 0) if num_segments is None else num_segments
    dest = as_weak(full((count, *values.shape[1:]), typed(lift(0), values.dtype)), values)
    return reduce_by_index(dest, add, 0, ids, values, name=name)
