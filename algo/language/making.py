"""Arrays made from sizes or values: `array`, `iota`, `replicate`; and `zip`, `unzip` of arrays."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import numpy as np

from raido.algo.errors import ShapeError, TraceError
from raido.algo.graph.dtypes import DType
from raido.algo.language.combinators import extent_of, shape_of
from raido.algo.language.joining import stack
from raido.algo.language.moves import astype, moved, named
from raido.algo.trace.building import Zipped, outer_extent, structure
from raido.algo.trace.context import load
from raido.algo.trace.dtype_reading import read_dtype
from raido.algo.trace.locations import complaint
from raido.algo.trace.scalars import cast
from raido.algo.trace.trees import is_sequence, leaves, map_leaves
from raido.algo.trace.value import COUNTER, STRONG, Array, is_scalar

if TYPE_CHECKING:
    from raido.algo.language.parameters import DTypeLike


def iota(n: Any, dtype: DTypeLike | None = None, *, name: str | None = None) -> Array:
    """The integers 0, 1, …, n − 1. Without `dtype` their type is i64, but gives way to a float operand's type.

    Example:
        >>> @rd.algorithm
        ... def f(n: rd.size):
        ...     return rd.iota(n) * 10
        >>> f.interpret(3)
        array([ 0, 10, 20])
    """
    extent = extent_of(n)
    if dtype is None:
        return moved([extent], lambda i: i, name, COUNTER)
    kind = read_dtype(dtype)
    if isinstance(kind, DType):
        return moved([extent], lambda i: cast(Array(i, STRONG), kind), name)
    return astype(moved([extent], lambda i: i, None, COUNTER), kind, name=name)


def replicate(n: Any, value: Any, *, name: str | None = None) -> Array:
    """n copies of a value along a new outermost dimension; `n` may be a tuple of sizes.

    Example:
        >>> rd.algorithm(lambda a: rd.replicate(2, a)).interpret(np.array([3, 1, 2]))
        array([[3, 1, 2],
               [3, 1, 2]])
    """
    extents = shape_of(n)

    def replicated(leaf: Array) -> Array:
        rank = len(extents)
        body = lambda *p: leaf.node if leaf.ndim == 0 else load(leaf.node, tuple(p[rank:]))
        return moved([*extents, *leaf.extents], body, name, leaf.weak)

    return map_leaves(replicated, structure(value))


def zip(*arrays: Any) -> Zipped:
    """Arrays of one outer size as one array of tuples: `rd.zip(a, b)[i]` is `(a[i], b[i])`.

    Example:
        >>> rd.algorithm(lambda a, b: rd.map(lambda p: p[0] * p[1], rd.zip(a, b))).interpret(np.array([3, 1, 2]), np.array([3, 1, 2]))
        array([9, 1, 4])
    """
    parts = tuple(structure(a) for a in arrays)
    outer_extent(parts, "rd.zip", "rd.zip(a, b)")
    return Zipped(parts)


def unzip(zipped: Any) -> tuple[Any, ...]:
    """The arrays of a zipped array, or of a tuple, as a tuple.

    Example:
        >>> rd.algorithm(lambda a: rd.unzip(rd.map(lambda v: (v, -v), a))).interpret(np.array([3, 1, 2]))
        (array([3, 1, 2]), array([-3, -1, -2]))
    """
    if isinstance(zipped, Zipped):
        return zipped.parts
    if isinstance(zipped, tuple):
        return zipped
    raise TraceError(complaint("rd.unzip takes what rd.zip or a map with a tuple result gave"))


def array(
    object: Any, dtype: DTypeLike | None = None, *, copy: Any = True, ndmin: int = 0, name: str | None = None
) -> Array:
    """An array from NumPy (a constant of the program, copied) or from a nested list of scalars or arrays.

    Its rank is at least `ndmin`, by leading dimensions of size 1. `copy` is NumPy's and has no effect, as arrays are values. Raises
    `ShapeError` for an empty list, `DTypeError` where `dtype` is no element type.

    Example:
        >>> import numpy as np, raido as rd
        >>> TABLE = np.array([10, 20, 30])
        >>> @rd.algorithm
        ... def look_up(i: rd.i64["n"]):
        ...     return rd.array(TABLE)[i]
        >>> look_up.interpret(np.array([2, 0]))
        array([30, 10])
    """
    if is_sequence(object):
        if not object:
            raise ShapeError(complaint("rd.array of an empty list", remedy="rd.replicate(0, value)"))
        if builtins.all(_plain(v) for v in object):
            lifted = structure(np.asarray(object))
        else:
            lifted = stack([array(v) if is_sequence(v) else v for v in object])
    else:
        lifted = structure(object)
    lifted = map_leaves(lambda leaf: Array(leaf.node, STRONG) if is_scalar(leaf) or dtype is not None else leaf, lifted)
    if dtype is not None:
        lifted = astype(lifted, dtype)
    if ndmin > (rank := leaves(lifted)[0].ndim):
        lifted = lifted[(None,) * (ndmin - rank)]
    return lifted if name is None else named(lifted, name)


def asarray(a: Any, dtype: DTypeLike | None = None, *, copy: Any = None, name: str | None = None) -> Array:
    """The same as `rd.array`: an array from NumPy or from a list, in `dtype` if it is given; a traced array is returned unchanged.

    `copy` has no effect. Raises `ShapeError` for an empty list, `DTypeError` where `dtype` is no element type.

    Example:
        >>> rd.algorithm(lambda a: rd.asarray([1.5, a])).interpret(np.float64(2))
        array([1.5, 2. ])
    """
    return array(a, dtype, name=name)


def _plain(value: Any) -> bool:
    if is_sequence(value):
        return builtins.all(_plain(v) for v in value)
    return isinstance(value, (bool, int, float, complex)) or type(value).__module__ == "numpy"
