"""JAX's `softmax` and `logsumexp`, which neither overflow nor lose small terms: the maximum is subtracted before exponentials are taken."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from raido.algo.errors import DTypeError
from raido.algo.language import reductions, ufuncs
from raido.algo.language.complexes import Complex
from raido.algo.library.operands import numbers_of
from raido.algo.trace.building import elementwise
from raido.algo.trace.locations import complaint
from raido.algo.trace.value import Array
from raido.algo.trace.weak import in_floats

if TYPE_CHECKING:
    from raido.algo.language.parameters import Axes


def softmax(x: Any, axis: Axes = -1, *, name: str | None = None) -> Array:
    """The scores `exp(x) / sum(exp(x))` along `axis`, an int or a tuple (None: all): positive numbers whose sum is 1, as in
    `jax.nn.softmax`.

    Shape and float dtype stay; integers become f64. NaN where an element is NaN or +infinity, or all are −infinity; −infinity among others
    gives 0.

    Example:
        >>> rd.algorithm(lambda x: rd.softmax(x)).interpret(np.array([1000.0, 1000.0, -np.inf]))
        array([0.5, 0.5, 0. ])
    """
    value = _floats(x, "rd.softmax")
    most = reductions.max(value, axis, keepdims=True, initial=-math.inf)
    shares = ufuncs.exp(value - most)
    return ufuncs.divide(shares, reductions.sum(shares, axis, keepdims=True), name=name)


def logsumexp(
    a: Any,
    axis: Axes = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    *,
    name: str | None = None,
) -> Array:
    """The logarithm `log(sum(b * exp(a)))` along `axis`, an int or a tuple (None: all), as in `jax.nn.logsumexp`; `b` is 1 by default.

    The dtype is the float dtype of `a` and `b`; f64 for integers. −infinity where the sum is 0, or empty. NaN where it is negative; with
    `return_sign` a pair: the logarithm of its magnitude, and its sign.

    Example:
        >>> rd.algorithm(lambda a: rd.logsumexp(a) - 1000).interpret(np.array([1000.0, 1000.0]))
        np.float64(0.693147180559...)
    """
    value = _floats(a, "rd.logsumexp")
    factors = None if b is None else numbers_of(b, "rd.logsumexp")
    if factors is not None:
        value = elementwise(lambda x, f: ufuncs.where(f == 0, -math.inf, x), [value, factors])
    most = reductions.max(value, axis, keepdims=True, initial=-math.inf)
    most = ufuncs.where(ufuncs.isfinite(most), most, 0.0)
    terms = ufuncs.exp(value - most)
    if factors is not None:
        terms = terms * factors
    total = reductions.sum(terms, axis, keepdims=keepdims)
    centre = most if keepdims else _dropped(most, axis, value.ndim)
    if not return_sign:
        return elementwise(lambda s, m: ufuncs.log(s) + m, [total, centre], name=name)
    finish = lambda s, m: (ufuncs.log(ufuncs.absolute(s)) + m, ufuncs.sign(s))
    return elementwise(finish, [total, centre], name=name)


def _dropped(value: Array, axis: Any, rank: int) -> Array:
    """The array without the dimensions of size 1 that a reduction has kept."""
    axes = reductions.normal_axes(axis, rank)
    return value[tuple(0 if k in axes else slice(None) for k in range(rank))] if rank else value


def _floats(x: Any, what: str) -> Array:
    value = numbers_of(x, what)
    if isinstance(value, Complex):
        raise DTypeError(complaint(f"{what} of complex numbers", remedy=".real, .imag or rd.abs"))
    return in_floats(value)
