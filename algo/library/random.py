"""Random numbers from keys: `rd.random.key`, `split`, `fold_in`, `bits`, `uniform`, `normal`, `integers`, `permutation`, `choice`.

There is no hidden state: numbers are a function of a key, an array of u32 that is passed through programs like any other; a key is used
once, either for numbers or to derive further keys from. Every element depends on the key and its own index alone, by arithmetic on
integers (`generators.py`); floats are made from its bits exactly, or by raido's own mathematical functions, and nothing is summed in
floats: results have the same bits on every target, under every schedule. The names are those of `jax.random` and of NumPy's `Generator`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np

from raido.algo.errors import DTypeError, ShapeError, TraceError
from raido.algo.graph.dtypes import MANTISSA, DType, f32, f64, i64, u32, u64
from raido.algo.language.combinators import tabulate
from raido.algo.language.control import while_loop
from raido.algo.language.making import array
from raido.algo.language.moves import broadcast_to, named, normal_axis, reshape
from raido.algo.language.scanning import scan
from raido.algo.language.sorting import argsort
from raido.algo.language.ufuncs import add, cos, fma, log, rint, sqrt, where
from raido.algo.library.generators import GENERATORS, THREEFRY, Generator, Words, draw, halves, joined, opened, seeded
from raido.algo.trace.building import elementwise, structure
from raido.algo.trace.context import current, running
from raido.algo.trace.dtype_reading import find_dtype
from raido.algo.trace.locations import complaint
from raido.algo.trace.trees import is_sequence, leaves, map_leaves
from raido.algo.trace.value import LITERAL, Array

if TYPE_CHECKING:
    from raido.algo.language.parameters import DTypeLike, Shape

__all__ = ["bits", "choice", "fold_in", "integers", "key", "normal", "permutation", "split", "uniform"]

_ANOTHER_TRY = (1 << 64) - 1  # a block number of no element: arrays have fewer than 2**60 elements


@overload
def key(seed: Array, generator: str = THREEFRY.name) -> Array: ...
@overload
def key(seed: SupportsIndex, generator: str = THREEFRY.name) -> np.ndarray[Any, np.dtype[np.uint32]]: ...
def key(seed: Any, generator: str = THREEFRY.name) -> Any:
    """The key for a seed: an int of 64 bits, signed or not, or a traced integer.

    The key is u32[2] for `generator="threefry"` (Threefry-2x32-20, the default, whose keys are JAX's), u32[4] for `"philox"`
    (Philox-4x32-10; both of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC '11). Outside of an algorithm it is a NumPy
    array, to be passed to one. DTypeError for a seed that is not such an integer, TraceError for another generator.

    Example:
        >>> rd.random.key(42)
        array([ 0, 42], dtype=uint32)
        >>> @rd.algorithm
        ... def draw(k: rd.u32[4], n: rd.size):
        ...     return rd.random.bits(k, n, rd.u8)
        >>> draw.interpret(rd.random.key(42, "philox"), 3)
        array([ 83,  59, 173], dtype=uint8)
    """
    if generator not in GENERATORS:
        known = " or ".join(repr(name) for name in GENERATORS)
        raise TraceError(complaint(f"there is no generator {generator!r}", remedy=known))
    chosen = GENERATORS[generator]
    if isinstance(seed, Array):
        if seed.ndim or not seed.dtype.is_integer:
            raise DTypeError(complaint(f"a seed is one integer, not {seed!r}"))
        return array([u32(word) for word in seeded(chosen, halves(u64(seed)))])
    try:
        number = operator.index(seed)
    except TypeError:
        raise DTypeError(complaint(f"a seed is an integer, not {type(seed).__name__}")) from None
    if not -(1 << 63) <= number < 1 << 64:
        raise DTypeError(complaint(f"the seed {number} is beyond 64 bits"))
    words = np.array(seeded(chosen, divmod(number % (1 << 64), 1 << 32)), np.uint32)
    return words if running() is None else array(words)


def split(key: Any, n: Any = 2, *, name: str | None = None) -> Array:
    """An array of `n` new keys as rows, u32[n, 2] (or u32[n, 4]); `n` is an int or a size. The i-th key is `fold_in(key, i)`.

    Example:
        >>> rd.algorithm(lambda k: rd.random.split(k)).interpret(rd.random.key(0))
        array([[1797259609, 2579123966],
               [ 928981903, 3453687069]], dtype=uint32)
    """
    generator, words = opened(key, "rd.random.split")
    return tabulate((n,), lambda i: array(list(generator.block(words, u64(i)))), name=name or _own_stage("keys"))


def fold_in(key: Any, data: Any) -> Array:
    """The new key for `data`, an int or a traced integer, such as a loop's counter: a key for every iteration or element.

    Example:
        >>> @rd.algorithm
        ... def throws(k: rd.u32[2], n: rd.size):
        ...     return rd.tabulate((n,), lambda i: rd.random.integers(rd.random.fold_in(k, i), (), 1, 7))
        >>> throws.interpret(rd.random.key(7), 6)
        array([4, 2, 1, 4, 5, 6])
    """
    generator, words = opened(key, "rd.random.fold_in")
    number = structure(data)
    if not isinstance(number, Array) or number.ndim or not number.dtype.is_integer:
        raise DTypeError(complaint(f"rd.random.fold_in takes one integer, not {data!r}"))
    if number.weak == LITERAL:
        number = np.uint64(operator.index(data) % (1 << 64))
    return array(list(generator.block(words, u64(number))), name=_own_stage("key"))


def bits(key: Any, shape: Shape = (), dtype: DTypeLike = u32, *, name: str | None = None) -> Array:
    """Random bits: uniformly distributed integers of an unsigned `dtype`, in an array of `shape`, whose sizes may be symbolic.

    With Threefry they are the bits of `jax.random.bits`; with Philox, the consecutive words of the stream, as in cuRAND.

    Example:
        >>> rd.algorithm(lambda k: rd.random.bits(k, 4, rd.u8)).interpret(rd.random.key(0))
        array([167, 146,  40,  53], dtype=uint8)
    """
    kind = _dtype(dtype, "rd.random.bits", "u")
    return _filled(key, shape, "rd.random.bits", lambda source: source.word(kind), name=name)


def uniform(
    key: Any, shape: Shape = (), dtype: DTypeLike = f64, low: Any = 0.0, high: Any = 1.0, *, name: str | None = None
) -> Array:
    """Floats of `dtype` (f16, bf16, f32 or f64), uniformly distributed in `low <= x < high`.

    Between 0 and 1 they are multiples of 2**-53 in f64, 2**-24 in f32, 2**-11 in f16, 2**-8 in bf16, all equally likely. `low` and
    `high` are numbers, or arrays that broadcast to `shape`; where rounding would give `high`, and where `low >= high`, the result is
    `low`.

    Example:
        >>> rd.algorithm(lambda k: rd.random.uniform(k, 3, low=-1, high=1)).interpret(rd.random.key(0))
        array([-0.16308578, -0.56740909,  0.93064292])
    """
    kind = _dtype(dtype, "rd.random.uniform", "f")

    def between(source: _Source, low: Any, high: Any) -> Any:
        unit = source.unit(kind)
        if _is_number(low, 0) and _is_number(high, 1):
            return unit
        low, high = kind(low), kind(high)
        value = fma(unit, high - low, low)
        return where(value < high, value, low)

    return _filled(key, shape, "rd.random.uniform", between, low, high, name=name)


def normal(key: Any, shape: Shape = (), dtype: DTypeLike = f64, *, name: str | None = None) -> Array:
    """Floats of `dtype` (f16, bf16, f32 or f64) from the normal distribution with mean 0 and variance 1.

    By the cosine half of Box and Muller's transform ("A note on the generation of random normal deviates", 1958), from two words of 64
    bits in f64, of 32 bits otherwise; f16 and bf16 are computed in f32. No result is beyond ±9.5 in f64, ±6.7 in f32.

    Example:
        >>> rd.algorithm(lambda k: rd.random.normal(k, 3)).interpret(rd.random.key(0))
        array([ 0.27745112, -0.23710394, -0.68783219])
    """
    kind = _dtype(dtype, "rd.random.normal", "f")
    wide = f64 if kind is f64 else f32

    def deviate(source: _Source) -> Any:
        first, second = source.words(wide.bits, 2)
        above_zero = (wide(first) + 1.0) * 2.0**-wide.bits
        value = sqrt(-2.0 * log(above_zero)) * cos(_unit(second, wide) * math.tau)
        return kind(value)

    return _filled(key, shape, "rd.random.normal", deviate, name=name)


def integers(
    key: Any, shape: Shape = (), low: Any = 0, high: Any = None, dtype: DTypeLike = i64, *, name: str | None = None
) -> Array:
    """Integers of `dtype`, exactly uniformly distributed in `low <= x < high`; without `high`, in `0 <= x < low`.

    By D. Lemire's multiplication and rejection ("Fast random integer generation in an interval", TOMACS 2019); rejected words are drawn
    again from a derived key. `low` and `high` are integers, or integer arrays that broadcast to `shape`. ShapeError for an interval known
    to be empty while tracing, DTypeError for bounds that do not fit `dtype`; ArithmeticFault for traced bounds that leave no integer.

    Example:
        >>> rd.algorithm(lambda k: rd.random.integers(k, 8, 1, 7)).interpret(rd.random.key(1))
        array([1, 3, 4, 5, 2, 5, 4, 2])
    """
    kind = _dtype(dtype, "rd.random.integers", "iu")
    if high is None:
        low, high = 0, low
    width = u64 if kind.bits == 64 else u32
    known = _plain_integer(low), _plain_integer(high)
    if known[0] is not None and known[1] is not None:
        return _known_interval(key, shape, known[0], known[1], kind, width, name)

    def between(source: _Source, low: Any, high: Any) -> Any:
        compared = kind if kind is u64 else i64
        some = compared(low) < compared(high)
        span = where(some, width(high) - width(low), width(0))
        return kind(width(low) + _below(source, span, width, -span % span))

    return _filled(key, shape, "rd.random.integers", between, low, high, name=name)


def _known_interval(key: Any, shape: Any, low: int, high: int, kind: DType, width: DType, name: str | None) -> Any:
    limits = np.iinfo(kind.numpy)
    if low >= high:
        raise ShapeError(complaint(f"rd.random.integers: there is no integer x with {low} <= x < {high}"))
    if low < limits.min or high > limits.max + 1:
        why = f"{kind} holds {limits.min} to {limits.max}"
        raise DTypeError(complaint(f"rd.random.integers from {low} to {high - 1} do not fit {kind}", why=why))
    span, start = high - low, width.numpy.type(low % (1 << width.bits))

    def between(source: _Source) -> Any:
        if span == 1 << width.bits:
            return kind(source.word(width) + start)
        rejected = (1 << width.bits) % span
        return kind(_below(source, width.numpy.type(span), width, rejected) + start)

    return _filled(key, shape, "rd.random.integers", between, name=name)


def permutation(key: Any, x: Any, axis: int = 0, *, name: str | None = None) -> Array:
    """The numbers 0 … x − 1 in random order (i64) for an int or a size `x`; for an array or a tuple of arrays, its slices along `axis`.

    The order is that of one word of 64 bits for each slice: among n slices two have equal words with a probability below n² / 2**65, and
    then keep their order.

    Example:
        >>> rd.algorithm(lambda k: rd.random.permutation(k, 5)).interpret(rd.random.key(0))
        array([1, 0, 4, 3, 2])
    """
    given = _slices(x)
    if given is None:
        return argsort(bits(key, (x,), u64), name=name)
    along = normal_axis(axis, leaves(given)[0].ndim)
    order = argsort(bits(key, (leaves(given)[0].shape[along],), u64))
    return _taken(given, order, along, name)


def choice(
    key: Any,
    a: Any,
    shape: Shape = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    *,
    name: str | None = None,
) -> Array:
    """An array of `shape` of random slices of an array `a` along `axis`; for an int or size `a`, of random numbers in 0 … a − 1.

    `p` holds the probability of each slice, floats of sum 1; they are rounded to multiples of 2**-62, and the rounded probabilities are
    exact. Without `replace`, no slice is chosen twice: the first of a random order or, with `p`, of the weighted random order of P.
    Efraimidis and P. Spirakis ("Weighted random sampling with a reservoir", 2006). ShapeError for more slices than there are.

    Example:
        >>> rd.algorithm(lambda k, a: rd.random.choice(k, a, 4, p=np.array([0.5, 0.25, 0.25]))).interpret(
        ...     rd.random.key(3), np.array([10, 20, 30]))
        array([30, 10, 10, 10])
    """
    given = _slices(a)
    along = 0 if given is None else normal_axis(axis, leaves(given)[0].ndim)
    count = a if given is None else leaves(given)[0].shape[along]
    weights = None if p is None else _probabilities(p, count)
    if replace:
        if weights is None:
            chosen = integers(key, shape, 0, count)
        else:
            chosen = _weighted(key, shape, weights)
    else:
        chosen = _without_replacement(key, shape, count, weights)
    if given is None:
        return chosen if name is None else named(chosen, name)
    return _taken(given, chosen, along, name)


def _slices(value: Any) -> Any:
    """The array, or tuple of arrays, whose slices are drawn; None for an int or a size."""
    if isinstance(value, int):
        return None
    given = structure(value if not is_sequence(value) or isinstance(value, tuple) else array(value))
    return None if isinstance(given, Array) and given.ndim == 0 else given


def _probabilities(p: Any, count: Any) -> Array:
    weights = structure(p if not is_sequence(p) else np.asarray(p))
    if not isinstance(weights, Array) or not weights.dtype.is_float or weights.ndim != 1:
        raise DTypeError(complaint(f"the probabilities of rd.random.choice are an array of floats, not {weights!r}"))
    return broadcast_to(weights, (count,))


def _weighted(key: Any, shape: Any, weights: Array) -> Any:
    """Indices drawn with the probabilities `weights`, which are summed as integers: exactly, whatever the order of summation."""
    last = weights.shape[0] - 1
    sums = scan(add, 0, rint(f64(weights) * 2.0**62).astype(u64))
    number = integers(key, shape, 0, sums[last], u64)

    def find(number: Any) -> Any:
        def halve(state: Any) -> Any:
            first, end = state
            middle = (first + end) // 2
            beyond = sums[middle] <= number
            return where(beyond, middle + 1, first), where(beyond, end, middle)

        return while_loop(lambda state: state[0] < state[1], halve, (i64(0), i64(last)))[0]

    return elementwise(find, [number])


def _without_replacement(key: Any, shape: Any, count: Any, weights: Array | None) -> Any:
    wanted = shape if is_sequence(shape) else (shape,)
    number = math.prod(wanted)
    if isinstance(number, int) and isinstance(count, int) and number > count:
        raise ShapeError(complaint(f"rd.random.choice of {number} out of {count} without replacement"))
    if weights is None:
        order = permutation(key, count)
    else:
        waiting = -log(1.0 - uniform(key, (count,)))
        order = argsort(where(weights > 0, waiting / f64(weights), math.inf))
    return reshape(order[:number], tuple(wanted)) if tuple(wanted) else order[0]


def _taken(value: Any, order: Any, axis: int, name: str | None) -> Any:
    """The slices of every array of a structure along `axis`, in the given order."""
    indices = (*(slice(None),) * axis, order)
    taken = map_leaves(lambda leaf: leaf[indices], value)
    return taken if name is None else named(taken, name)


class _Source:
    """The random words of one element of an array."""

    __slots__ = ("generator", "key", "position")

    def __init__(self, generator: Generator, key: Words, position: Any) -> None:
        self.generator, self.key, self.position = generator, key, position

    def words(self, width: int, count: int = 1) -> list[Any]:
        """The first `count` words of 32 or 64 bits of the element; every call returns the same words."""
        drawn = draw(self.generator, self.key, self.position, count * width // 32)
        return list(drawn) if width == 32 else [joined(*pair) for pair in zip(drawn[::2], drawn[1::2], strict=True)]

    def word(self, dtype: DType) -> Any:
        """The first word of the element in an unsigned dtype."""
        return dtype(self.words(max(dtype.bits, 32))[0])

    def unit(self, dtype: DType) -> Any:
        """A random multiple of half an ulp of 1, in 0 ≤ x < 1."""
        return _unit(self.words(max(dtype.bits, 32))[0], dtype)

    def another(self) -> _Source:
        """The source of the same element under a key derived from this one."""
        return _Source(self.generator, self.generator.block(self.key, np.uint64(_ANOTHER_TRY)), self.position)


def _unit(word: Any, dtype: DType) -> Any:
    """The upper bits of a word as a fraction in 0 ≤ x < 1, with as many bits as the dtype holds exactly."""
    precision = MANTISSA[dtype] + 1
    return dtype(word >> (word.dtype.bits - precision)) * 2.0**-precision


def _below(source: _Source, span: Any, width: DType, rejected: Any) -> Any:
    """A uniformly distributed integer of `width` below `span`; `rejected` is 2**bits modulo `span`."""
    low, high = _wide_product(source.words(width.bits)[0], span, width)
    if isinstance(rejected, int) and rejected == 0:
        return high

    def again(state: Any) -> Any:
        key = _Source(source.generator, state[:-2], source.position).another()
        return (*key.key, *_wide_product(key.words(width.bits)[0], span, width))

    limit = width.numpy.type(rejected) if isinstance(rejected, int) else rejected
    return while_loop(lambda state: state[-2] < limit, again, (*source.key, low, high))[-1]


def _wide_product(a: Any, b: Any, width: DType) -> tuple[Any, Any]:
    """The lower and the upper half of the product of two words."""
    if width is u32:
        product = u64(a) * u64(b)
        return u32(product & 0xFFFFFFFF), u32(product >> 32)
    (a1, a0), (b1, b0) = ((x >> 32, x & 0xFFFFFFFF) for x in (u64(a), u64(b)))
    middle = a1 * b0 + (a0 * b0 >> 32)
    other = a0 * b1 + (middle & 0xFFFFFFFF)
    return u64(a) * u64(b), a1 * b1 + (middle >> 32) + (other >> 32)


def _filled(
    key: Any, shape: Any, what: str, element: Callable[..., Any], *operands: Any, name: str | None = None
) -> Any:
    """The array of `shape` with `element(source, operands…)` at every index; operands broadcast to it."""
    generator, words = opened(key, what)
    sizes = tuple(shape) if is_sequence(shape) else (shape,)
    given = [structure(value) if not isinstance(value, (int, float)) else value for value in operands]
    wide: list[Any] = [broadcast_to(value, sizes) if getattr(value, "ndim", 0) else value for value in given]

    def at(*indices: Any) -> Any:
        position: Any = 0
        for size, k in zip(sizes, indices, strict=True):
            position = position * size + k
        here = [value[indices] if getattr(value, "ndim", 0) else value for value in wide]
        return element(_Source(generator, words, u64(position)), *here)

    if not sizes:
        value = at()
        return value if name is None else named(value, name)
    return tabulate(sizes, at, name=name)


def _own_stage(name: str) -> str | None:
    """The stage name of a derived key outside of functions of elements, so that it is computed once and not for every element; else
    None."""
    return name if current().depth == 0 else None


def _dtype(dtype: Any, what: str, kinds: str) -> DType:
    """The dtype that an argument means; DTypeError unless it is of one of the kinds."""
    found = find_dtype(dtype)
    if not isinstance(found, DType) or found.kind not in kinds:
        words = {"u": "unsigned integers", "f": "floats", "iu": "integers"}[kinds]
        order = "shape, low, high, dtype" if what.endswith("integers") else "shape, dtype"
        order = f"{what}(key, {order}), with key = rd.random.key(seed)"
        raise DTypeError(complaint(f"{what} gives {words}, not {dtype!r}", remedy=order))
    return found


def _is_number(value: Any, number: int) -> bool:
    return isinstance(value, (int, float)) and value == number


def _plain_integer(value: Any) -> int | None:
    return None if isinstance(value, (Array, np.ndarray)) else operator.index(value)
