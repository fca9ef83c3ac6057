"""NumPy's reductions, `sum prod min max any all mean argmin argmax`, and matrix products, each one `Generate` around one `Reduce`.

`axis` is None (all), an int or a tuple; `keepdims`, `dtype` and the widening of small integers are NumPy's. Reductions without a neutral
element (min, max, arg*) require at least one element along the reduced axes, unless `initial=` is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from raido.algo.errors import DTypeError, ShapeError, TraceError
from raido.algo.graph import index
from raido.algo.graph.dtypes import DType, bool_, computed_in, f64, i64, u64
from raido.algo.graph.expr import Expr, Item, Op, Reduce, const, fresh
from raido.algo.language import ufuncs
from raido.algo.language.combinators import reduce_axes
from raido.algo.language.complexes import NO_ORDER, Complex, ComplexType, fitted, of_one_type
from raido.algo.language.moves import astype
from raido.algo.language.pure import mask_over, needs_initial, taking_part, universal, without_out
from raido.algo.trace import scalars
from raido.algo.trace.building import broadcast, collect, element, elementwise, make_axes, structure
from raido.algo.trace.context import current
from raido.algo.trace.dtype_reading import read_dtype
from raido.algo.trace.existential import checked, decided_by_data, joined_size
from raido.algo.trace.locations import complaint, plain_int
from raido.algo.trace.promotion import lift
from raido.algo.trace.trees import map_leaves, parts_of
from raido.algo.trace.types import describe
from raido.algo.trace.value import STRONG, WEAK, Array, computed, is_scalar
from raido.algo.trace.weak import weakness_of

if TYPE_CHECKING:
    from raido.algo.language.parameters import Axes, Axis, DTypeLike


def _array(a: Any, what: str) -> Array:
    value = structure(a)
    if isinstance(value, tuple):
        if isinstance(value, Complex):
            raise DTypeError(complaint(f"{what} of complex numbers", why=NO_ORDER, remedy="rd.abs, .real or .imag"))
        raise TraceError(complaint(f"{what} of a tuple of arrays", remedy="one array, or rd.reduce with an operator"))
    return value


def _number_of(a: Any, dtype: Any) -> Any:
    """Returns complex numbers converted to `dtype`, and None; for real numbers, the value unchanged, and the type that `dtype` denotes."""
    value, dtype = structure(a), None if dtype is None else read_dtype(dtype)
    if not isinstance(value, Complex) and not isinstance(dtype, ComplexType):
        return value, dtype
    return value if dtype is None else astype(value, dtype), None


def _truths(a: Any) -> Any:
    value = structure(a)
    return ufuncs.not_equal(value, 0) if isinstance(value, Complex) else value


def normal_axes(axis: Any, rank: int) -> tuple[int, ...]:
    """Returns the axes denoted by None, an int or a tuple, in increasing order."""
    if axis is None:
        return tuple(range(rank))
    chosen = axis if isinstance(axis, tuple) else (axis,)
    axes: list[int] = []
    for one in chosen:
        k = plain_int(one, "an axis")
        if not -rank <= k < rank:
            raise ShapeError(complaint(f"axis {k} of an array of rank {rank}"))
        axes.append(k % rank)
    if len(set(axes)) != len(axes):
        raise ShapeError(complaint(f"an axis is named twice in {chosen}"))
    return tuple(sorted(axes))


def _reduced(
    a: Array,
    op: Callable[..., Any],
    neutral: Callable[[DType], Any],
    axis: Any,
    keepdims: bool,
    name: str | None,
    prepare: Callable[[Array], Array] = lambda x: x,
    finish: Callable[[Any], Any] | None = None,
) -> Any:
    axes = normal_axes(axis, a.ndim)
    if not axes:

        def whole(x: Array) -> Any:
            total = prepare(x)
            if op is ufuncs.add:  # a sum starts from 0.0, so it is never -0.0
                total = ufuncs.add(Array(const(total.dtype, 0)), total)
            return finish(total) if finish else total

        return elementwise(whole, [a], name=name)
    probe = prepare(Array(fresh("probe", a.dtype), a.weak))
    result = reduce_axes(
        op,
        Array(const(probe.dtype, neutral(probe.dtype))),
        a,
        axes,
        name=name,
        kind="reduce",
        finish=finish,
        read=lambda x, _: prepare(x),
        keep=False,
    )
    return _kept(result, a.ndim, axes) if keepdims else result


def _kept(result: Any, rank: int, axes: tuple[int, ...]) -> Any:
    from raido.algo.language.indexing import get_item

    return get_item(result, tuple(None if k in axes else slice(None) for k in range(rank)))


def widened(dtype: DType) -> DType:
    """Returns the type in which NumPy sums elements of a type."""
    if dtype is bool_ or dtype.kind == "i":
        return i64
    return u64 if dtype.kind == "u" else dtype


def _accumulator(a: Array, dtype: DType | None) -> Callable[[Array], Array]:
    wide = dtype or widened(a.dtype)
    return lambda x: Array(scalars.cast(x, wide), computed(x.weak) if dtype is None else STRONG)


def _with_initial(op: Callable[..., Any], initial: Any) -> Callable[[Any], Any] | None:
    return None if initial is None else lambda total: op(initial, total)


@without_out
def sum(
    a: Any,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
    name: str | None = None,
) -> Array:
    """The sum over `axis` (all axes for None). Booleans and small integers are summed in i64 or u64, floats in their own type.

    `initial` is added to it; elements where the mask `where`, a bool_ array that broadcasts to `a`, does not hold are left out.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def total(a: rd.u8["h", "w"]):
        ...     return rd.sum(a, axis=1)
        >>> total.interpret(np.full((2, 3), 200, np.uint8))
        array([600, 600], dtype=uint64)
    """
    given, wished = _number_of(a, dtype)
    given = taking_part(given, where, lambda _: 0, "rd.sum")
    if isinstance(given, Complex):
        first = (None, None) if initial is None else fitted(initial, given, "`initial`")
        parts = zip(parts_of(given), parts_of(first), strict=True)
        return Complex._make(sum(p, axis, keepdims=keepdims, initial=start, name=name) for p, start in parts)
    value = _array(given, "rd.sum")
    finish = _with_initial(ufuncs.add, initial)
    return _reduced(value, ufuncs.add, lambda _: 0, axis, keepdims, name, _accumulator(value, wished), finish)


@without_out
def prod(
    a: Any,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
    name: str | None = None,
) -> Array:
    """The product over `axis`, with the types, `initial` and `where` of `rd.sum`.

    Example:
        >>> rd.algorithm(lambda a: rd.prod(a, axis=1)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([  6, 120])
    """
    given, wished = _number_of(a, dtype)
    if isinstance(given, Complex):
        ones = taking_part(given.real, where, lambda _: 1, "rd.prod")
        given = Complex._make((ones, taking_part(given.imag, where, lambda _: 0, "rd.prod")))
        first = None if initial is None else fitted(initial, given, "`initial`")
        return _complex_product(given, axis, keepdims, first, name)
    value = taking_part(_array(given, "rd.prod"), where, lambda _: 1, "rd.prod")
    finish = _with_initial(ufuncs.multiply, initial)
    return _reduced(value, ufuncs.multiply, lambda _: 1, axis, keepdims, name, _accumulator(value, wished), finish)


def lowest(dtype: DType) -> Any:
    """Returns the smallest value of a dtype (−∞ for floats), the neutral element of max."""
    return -math.inf if dtype.is_float else False if dtype is bool_ else int(np.iinfo(dtype.numpy).min)


def highest(dtype: DType) -> Any:
    """Returns the largest value of a dtype (∞ for floats), the neutral element of min."""
    return math.inf if dtype.is_float else True if dtype is bool_ else int(np.iinfo(dtype.numpy).max)


def not_empty(a: Array, axis: Any, what: str) -> Callable[[Array], Array]:
    """Refuses axes that are provably empty; returns a function that adds a run-time check of the sizes that depend on data to a result."""
    unknown: list[Expr] = []
    for k in normal_axes(axis, a.ndim):
        extent = a.extents[k]
        if decided_by_data(extent) and not current().assumptions.less_equal(1, extent):
            unknown.append(extent)
        else:
            current().at_least_one(extent, f"axis {k} in {what} of {describe(a.dtype, a.extents)}")

    def after_check(total: Array) -> Array:
        node = total.node
        for extent in unknown:
            node = checked(node, Op("ge", bool_, (extent, const(i64, 1))), "empty", ())
        return Array(node, total.weak)

    return after_check


@without_out
def min(
    a: Any,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
    name: str | None = None,
) -> Array:
    """The smallest element along `axis`; NaN if there is one. An empty axis is refused unless `initial` is given.

    A mask `where`, as in `rd.sum`, requires an `initial`.

    Example:
        >>> rd.algorithm(lambda a: rd.min(a, axis=0)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([1, 2, 3])
    """
    needs_initial(where, initial, "rd.min")
    value = taking_part(_array(a, "rd.min"), where, highest, "rd.min")
    finish = _with_initial(ufuncs.minimum, initial) or not_empty(value, axis, "rd.min")
    return _reduced(value, ufuncs.minimum, highest, axis, keepdims, name, finish=finish)


@without_out
def max(
    a: Any,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
    name: str | None = None,
) -> Array:
    """The largest element along `axis`; NaN if there is one. An empty axis is refused unless `initial` is given.

    A mask `where`, as in `rd.sum`, requires an `initial`.

    Example:
        >>> rd.algorithm(lambda a: rd.max(a, axis=1, keepdims=True)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([[3],
               [6]])
    """
    needs_initial(where, initial, "rd.max")
    value = taking_part(_array(a, "rd.max"), where, lowest, "rd.max")
    finish = _with_initial(ufuncs.maximum, initial) or not_empty(value, axis, "rd.max")
    return _reduced(value, ufuncs.maximum, lowest, axis, keepdims, name, finish=finish)


amin, amax = min, max


@without_out
def any(a: Any, axis: Axes = None, *, keepdims: bool = False, where: Any = True, name: str | None = None) -> Array:
    """Whether some element along `axis` is not zero, among those where the mask `where` holds.

    Example:
        >>> rd.algorithm(lambda a: rd.any(a > 5, axis=0)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([False, False,  True])
    """
    value = taking_part(_array(_truths(a), "rd.any"), where, lambda _: False, "rd.any")
    return _reduced(value, ufuncs.logical_or, lambda _: False, axis, keepdims, name, scalars.truth)


@without_out
def all(a: Any, axis: Axes = None, *, keepdims: bool = False, where: Any = True, name: str | None = None) -> Array:
    """Whether every element along `axis` is not zero, among those where the mask `where` holds.

    Example:
        >>> rd.algorithm(lambda a: rd.all(a > 1, axis=0)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([False,  True,  True])
    """
    value = taking_part(_array(_truths(a), "rd.all"), where, lambda _: True, "rd.all")
    return _reduced(value, ufuncs.logical_and, lambda _: True, axis, keepdims, name, scalars.truth)


@without_out
def mean(
    a: Any,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    where: Any = True,
    name: str | None = None,
) -> Array:
    """The mean along `axis`: integers are summed in f64, f16 and bf16 in f32. NaN for an empty axis.

    Elements where the mask `where`, a bool_ array that broadcasts to `a`, does not hold are left out.

    Example:
        >>> rd.algorithm(lambda a: rd.mean(a, axis=0)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([2.5, 3.5, 4.5])
    """
    given, wished = _number_of(a, dtype)
    if isinstance(given, Complex):
        return map_leaves(lambda part: mean(part, axis, keepdims=keepdims, where=where, name=name), given)
    value = _array(given, "rd.mean")
    if wished is not None and not wished.is_float:
        raise DTypeError(complaint(f"the `dtype` of rd.mean is a float type, not {wished!r}"))
    result = wished or (value.dtype if value.dtype.is_float else f64)
    wide = computed_in(result) if wished is None else result
    count: Expr = index.as_index(1)
    for k in normal_axes(axis, value.ndim):
        count = index.mul(count, value.extents[k])

    def finish(total: Array) -> Array:
        divided = scalars.true_division(total, Array(scalars.cast(Array(count), wide), total.weak))
        return Array(scalars.cast(divided, result), divided.weak)

    if where is not True:
        held = mask_over(where, value, "rd.mean")
        total = sum(value, axis, dtype=wide, keepdims=keepdims, where=held)
        number = sum(held, axis, keepdims=keepdims)
        divided = lambda t, n: Array(scalars.cast(scalars.true_division(t, Array(scalars.cast(n, wide))), result))
        return elementwise(divided, [total, number], name=name)
    prepare = lambda x: Array(scalars.cast(x, wide), STRONG if wished is not None or x.weak == STRONG else WEAK)
    return _reduced(value, ufuncs.add, lambda _: 0, axis, keepdims, name, prepare, finish)


@without_out
def argmin(a: Any, axis: Axis = None, *, keepdims: bool = False, name: str | None = None) -> Array:
    """The index (i64) of the smallest element along `axis`: the first of equals, the first NaN if there is one.

    Example:
        >>> rd.algorithm(lambda a: rd.argmin(a, axis=1)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([0, 0])
    """
    return _arg(a, axis, keepdims, name, "lt", "rd.argmin", highest)


@without_out
def argmax(a: Any, axis: Axis = None, *, keepdims: bool = False, name: str | None = None) -> Array:
    """The index (i64) of the largest element along `axis`: the first of equals, the first NaN if there is one.

    Example:
        >>> rd.algorithm(lambda a: rd.argmax(a, axis=1)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([2, 2])
    """
    return _arg(a, axis, keepdims, name, "gt", "rd.argmax", lowest)


def _arg(
    a: Any, axis: Any, keepdims: bool, name: str | None, better: str, what: str, neutral: Callable[[DType], Any]
) -> Any:
    value = _array(a, what)
    if value.ndim == 0:
        return lift(np.int64(0))
    if axis is not None and isinstance(axis, tuple):
        raise TraceError(complaint(f"{what} takes one axis, or None"))
    after_check = not_empty(value, axis, what)
    axes = normal_axes(axis, value.ndim)
    extents = [value.extents[k] for k in axes]

    def pick(x: Any, y: Any) -> Any:
        (left, i), (right, j) = x, y
        first = scalars.comparison("lt", j, i)
        ahead = scalars.comparison(better, right, left)
        same = scalars.comparison("eq", right, left)
        if value.dtype.is_float:
            left_nan, right_nan = scalars.predicate("isnan", left), scalars.predicate("isnan", right)
            ahead = scalars.select(left_nan, lift(False), scalars.logical("logical_or", ahead, right_nan))
            same = scalars.logical("logical_or", same, scalars.logical("logical_and", left_nan, right_nan))
        take = scalars.logical("logical_or", ahead, scalars.logical("logical_and", same, first))
        return scalars.select(take, right, left), scalars.select(take, j, i)

    def read(x: Array, indices: tuple[Expr, ...]) -> Any:
        position: Expr = index.as_index(0)
        for e, extent in zip(indices, extents, strict=True):
            position = index.add(index.mul(position, extent), e)
        return x, Array(position)

    start = (Array(const(value.dtype, neutral(value.dtype))), Array(const(i64, (1 << 63) - 1)))
    result = reduce_axes(
        pick,
        start,
        value,
        axes,
        commutative=True,
        name=name,
        finish=lambda total: after_check(total[1]),
        read=read,
        keep=False,
    )
    return _kept(result, value.ndim, axes) if keepdims else result


@universal
def matmul(x1: Any, x2: Any, *, dtype: DTypeLike | None = None, name: str | None = None) -> Array:
    """The matrix product, NumPy's `@`: axes `y`, `x` and reduction axis `r`; leading dimensions broadcast. Types are never widened.

    `dtype` is the type in which factors are multiplied and products summed, and that of the result, such as f32 for factors of bf16. Raises
    `ShapeError` where the inner sizes provably differ.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def product(a: rd.f32["n", "k"], b: rd.f32["k", "m"]):
        ...     return a @ b
        >>> product.interpret(np.eye(2, dtype=np.float32), np.float32([[1, 2], [3, 4]]))
        array([[1., 2.],
               [3., 4.]], dtype=float32)
    """
    (left, kind), (right, _) = _number_of(x1, dtype), _number_of(x2, dtype)
    if isinstance(left, Complex) or isinstance(right, Complex):
        return _complex_matmul(left, right, name)
    x, y = _array(left, "rd.matmul"), _array(right, "rd.matmul")
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError(complaint("rd.matmul of a scalar", remedy="a * b"))
    inner_y = y.extents[-2] if y.ndim > 1 else y.extents[0]
    shapes = f"{describe(x.dtype, x.extents)} and {describe(y.dtype, y.extents)}"
    trace = current()
    inner = joined_size(x.extents[-1], inner_y, "the last dimension of the left", "that of the right", shapes)
    lead_x = Array(_shaped(x.dtype, x.extents[:-2])) if x.ndim > 2 else lift(0)
    lead_y = Array(_shaped(y.dtype, y.extents[:-2])) if y.ndim > 2 else lift(0)
    lead = broadcast([lead_x, lead_y], "matmul") if x.ndim > 2 or y.ndim > 2 else ()
    rows, columns = x.ndim > 1, y.ndim > 1
    extents = [*lead, *([x.extents[-2]] if rows else []), *([y.extents[-1]] if columns else [])]
    own = make_axes(extents)
    (over,) = make_axes([inner], ["r"])
    front = [axis.var for axis in own[: len(lead)]]
    indices_x = [*_aligned(front, x.extents[:-2]), *([own[len(lead)].var] if rows else []), over.var]
    indices_y = [*_aligned(front, y.extents[:-2]), over.var, *([own[-1].var] if columns else [])]
    with trace.deeper():
        factors = [element(x, indices_x), element(y, indices_y)]
        if kind is not None:
            factors = [Array(scalars.cast(factor, kind)) for factor in factors]
        product = scalars.arithmetic("mul", *factors)
    own_type = product.dtype
    name_of, start = ("logical_or", False) if own_type is bool_ else ("add", 0)
    p, q = fresh("a", own_type), fresh("b", own_type)
    combine, first = (Op(name_of, own_type, (p, q)),), (const(own_type, start),)
    form = Reduce((over,), (p,), (q,), combine, first, (product.node,), True, name_of)
    total = Array(Item(form, 0), weakness_of(factors))
    if not own and trace.depth > 0 and name is None:
        return total
    return collect(own, total, "matmul", name, named_axes=True)


def _complex_product(z: Complex, axis: Any, keepdims: bool, initial: Complex | None, name: str | None) -> Any:
    rank = z.ndim
    axes = normal_axes(axis, rank)
    finish = _with_initial(ufuncs.multiply, initial)
    if not axes:
        return z if finish is None else finish(z)
    one = Complex._make(Array(const(z.real.dtype, k)) for k in (1, 0))
    product = reduce_axes(ufuncs.multiply, one, z, axes, name=name, kind="reduce", keep=False, finish=finish)
    return map_leaves(lambda part: _kept(part, rank, axes), product) if keepdims else product


def _complex_matmul(a: Any, b: Any, name: str | None) -> Any:
    """Returns the product of complex matrices from the products of their parts; a real matrix has no imaginary part."""
    for value in (a, b):
        if isinstance(value, tuple) and not isinstance(value, Complex):
            raise TraceError(complaint("rd.matmul of a tuple of arrays"))
        if value.ndim == 0:
            raise ShapeError(complaint("rd.matmul of a scalar", remedy="a * b"))
    if isinstance(a, Complex) and isinstance(b, Complex):
        re = matmul(a.real, b.real) - matmul(a.imag, b.imag)
        product = Complex._make((re, matmul(a.real, b.imag) + matmul(a.imag, b.real)))
    elif isinstance(a, Complex):
        product = map_leaves(lambda part: matmul(part, b), a)
    else:
        product = map_leaves(lambda part: matmul(a, part), b)
    (product,) = of_one_type([product])
    return product if name is None else product.named(name)


def _shaped(dtype: DType, shape: tuple[Expr, ...]) -> Any:
    from raido.algo.graph.expr import Parameter

    return Parameter("leading dimensions", dtype, shape, 0)


def _aligned(variables: list[Any], extents: tuple[Expr, ...]) -> list[Expr]:
    chosen = variables[len(variables) - len(extents) :]
    zero = index.as_index(0)
    return [zero if index.constant_value(n) == 1 else v for v, n in zip(chosen, extents, strict=True)]


@without_out
def dot(a: Any, b: Any, *, name: str | None = None) -> Array:
    """NumPy's `dot` for ranks up to 2: the inner product of vectors, the product of matrices; with a scalar, the product.

    Example:
        >>> rd.algorithm(lambda a, b: rd.dot(a, b)).interpret(np.array([[1, 2, 3], [4, 5, 6]]), np.array([3, 1, 2]))
        array([11, 29])
    """
    if isinstance(structure(a), Complex) or isinstance(structure(b), Complex):
        scalars_only = not structure(a).ndim or not structure(b).ndim
        return ufuncs.multiply(a, b, name=name) if scalars_only else matmul(a, b, name=name)
    x, y = _array(a, "rd.dot"), _array(b, "rd.dot")
    if is_scalar(x) or is_scalar(y):
        return ufuncs.multiply(x, y, name=name)
    if x.ndim > 2 or y.ndim > 2:
        raise ShapeError(complaint("rd.dot of arrays of rank above 2", remedy="rd.matmul"))
    return matmul(x, y, name=name)
