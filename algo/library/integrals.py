"""NumPy's functions of neighbouring elements and running sums: `trapezoid ediff1d unwrap cumulative_sum cumulative_prod`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from raido.algo.errors import DTypeError, ShapeError
from raido.algo.language import reductions, ufuncs
from raido.algo.language.complexes import Complex
from raido.algo.language.joining import concat
from raido.algo.language.moves import astype, broadcast_to, flatten, named, normal_axis, reshape
from raido.algo.language.pure import without_out
from raido.algo.library.operands import numbers_of
from raido.algo.library.running import cumprod, cumsum, diff
from raido.algo.trace.building import elementwise
from raido.algo.trace.locations import complaint
from raido.algo.trace.promotion import common_type, lift
from raido.algo.trace.value import Array

if TYPE_CHECKING:
    from raido.algo.language.parameters import DTypeLike


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, *, name: str | None = None) -> Array:
    """The integral along `axis` by the trapezium rule, over samples `dx` apart, or at the coordinates `x`: a line, or of the shape of `y`.

    Example:
        >>> rd.algorithm(lambda y: rd.trapezoid(y)).interpret(np.array([1, 2, 3]))
        np.float64(4.0)
    """
    given = numbers_of(y, "rd.trapezoid")
    along = normal_axis(axis, given.ndim)
    distance: Any = dx
    if x is not None:
        points = numbers_of(x, "rd.trapezoid")
        distance = diff(points, axis=along if points.ndim > 1 else 0)
        if points.ndim == 1:
            distance = reshape(distance, tuple(distance.shape[0] if k == along else 1 for k in range(given.ndim)))
    after, before = (given[(*[slice(None)] * along, part)] for part in (slice(1, None), slice(None, -1)))
    return reductions.sum(distance * (after + before) / 2.0, along, name=name)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None, *, name: str | None = None) -> Array:
    """The differences of neighbours in the flattened array, between the elements `to_begin` and `to_end`.

    Example:
        >>> rd.algorithm(lambda a: rd.ediff1d(a, to_begin=[0])).interpret(np.array([1, 4, 9]))
        array([0, 3, 5])
    """
    line = flatten(numbers_of(ary, "rd.ediff1d"))
    differences = diff(line)
    ends = [None if v is None else astype(flatten(numbers_of(v, "rd.ediff1d")), line.dtype) for v in (to_begin, to_end)]
    parts = [part for part in (ends[0], differences, ends[1]) if part is not None]
    result = concat(parts) if len(parts) > 1 else differences
    return result if name is None else named(result, name)


def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * math.pi, name: str | None = None) -> Array:
    """The phases without jumps: multiples of `period` are added so that no neighbours along `axis` differ by more than half of it.

    Jumps smaller than `discont` stay. Floats keep their dtype; integers stay integers where the period is an int, else they become f64.

    Example:
        >>> rd.algorithm(lambda a: rd.unwrap(a, period=4)).interpret(np.array([0, 1, 2, -1, 0]))
        array([0, 1, 2, 3, 4])
    """
    given = numbers_of(p, "rd.unwrap")
    if isinstance(given, Complex):
        raise DTypeError(complaint("rd.unwrap of complex numbers", remedy="rd.angle(z)"))
    along = normal_axis(axis, given.ndim)
    dtype, _ = common_type([given, lift(period)])
    value = astype(given, dtype)
    least = period / 2 if discont is None else discont
    jumps = diff(value, axis=along)

    def corrected(jump: Array) -> Array:
        if dtype.is_integer:
            half, exact = period // 2, period % 2 == 0
        else:
            half, exact = period / 2, True
        inside = (jump + half) % period - half
        if exact:
            inside = ufuncs.where((inside == -half) & (jump > 0), half, inside)
        return astype(ufuncs.where(ufuncs.absolute(jump) < least, 0, inside - jump), dtype)

    first = value[(*[slice(None)] * along, slice(0, 1))]
    rest = value[(*[slice(None)] * along, slice(1, None))]
    moved = rest + cumsum(elementwise(corrected, [jumps]), along, dtype)
    return concat([first, moved], along, name=name)


@without_out
def cumulative_sum(
    x: Any,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
    *,
    name: str | None = None,
) -> Array:
    """The running sums `rd.cumsum` along `axis`, which may be omitted for a line; `include_initial` puts a 0 before them.

    Example:
        >>> rd.algorithm(lambda a: rd.cumulative_sum(a, include_initial=True)).interpret(np.array([1, 2, 3]))
        array([0, 1, 3, 6])
    """
    return _cumulative(cumsum, 0, x, axis, dtype, include_initial, name, "rd.cumulative_sum")


@without_out
def cumulative_prod(
    x: Any,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
    *,
    name: str | None = None,
) -> Array:
    """The running products `rd.cumprod` along `axis`, which may be omitted for a line; `include_initial` puts a 1 before them.

    Example:
        >>> rd.algorithm(lambda a: rd.cumulative_prod(a)).interpret(np.array([1, 2, 3]))
        array([1, 2, 6])
    """
    return _cumulative(cumprod, 1, x, axis, dtype, include_initial, name, "rd.cumulative_prod")


def _cumulative(
    running: Any, start: int, x: Any, axis: int | None, dtype: Any, begins: bool, name: str | None, what: str
) -> Any:
    given = numbers_of(x, what)
    if given.ndim == 0 or (axis is None and given.ndim != 1):
        raise ShapeError(complaint(f"{what} of an array of rank {given.ndim} needs an axis", remedy="axis=0"))
    along = 0 if axis is None else normal_axis(axis, given.ndim)
    result = running(given, along, dtype)
    if begins:
        shape = tuple(1 if k == along else n for k, n in enumerate(result.shape))
        result = concat([broadcast_to(result.dtype(start), shape), result], along)
    return result if name is None else named(result, name)
