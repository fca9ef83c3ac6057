"""NumPy's predicates on kinds of numbers, and `fix`."""

from __future__ import annotations

from typing import Any

from raido.algo.language import ufuncs
from raido.algo.language.complexes import Complex
from raido.algo.language.pure import without_out
from raido.algo.language.reductions import all as all_of
from raido.algo.library.operands import numbers_of
from raido.algo.trace.building import elementwise
from raido.algo.trace.value import Array


@without_out
def fix(x: Any, *, name: str | None = None) -> Array:
    """The elements rounded towards 0: integers unchanged, floats by `rd.trunc`.

    Example:
        >>> rd.algorithm(lambda a: rd.fix(a)).interpret(np.array([1.7, -1.7]))
        array([ 1., -1.])
    """
    return ufuncs.trunc(numbers_of(x, "rd.fix"), name=name)


@without_out
def isneginf(x: Any, *, name: str | None = None) -> Array:
    """Whether each element is −infinity: bool_.

    Example:
        >>> rd.algorithm(lambda a: rd.isneginf(a)).interpret(np.array([np.inf, -np.inf, 0.0]))
        array([False,  True, False])
    """
    return elementwise(lambda v: ufuncs.isinf(v) & (v < 0), [numbers_of(x, "rd.isneginf")], name=name)


@without_out
def isposinf(x: Any, *, name: str | None = None) -> Array:
    """Whether each element is +infinity: bool_.

    Example:
        >>> rd.algorithm(lambda a: rd.isposinf(a)).interpret(np.array([np.inf, -np.inf, 0.0]))
        array([ True, False, False])
    """
    return elementwise(lambda v: ufuncs.isinf(v) & (v > 0), [numbers_of(x, "rd.isposinf")], name=name)


def iscomplex(x: Any, *, name: str | None = None) -> Array:
    """Whether the imaginary part of each element is nonzero: bool_.

    Example:
        >>> rd.algorithm(lambda a: rd.iscomplex(a)).interpret(np.array([1 + 1j, 2]))
        array([ True, False])
    """
    imaginary = lambda v: v.imag != 0 if isinstance(v, Complex) else ufuncs.not_equal(v, v) & False
    return elementwise(imaginary, [numbers_of(x, "rd.iscomplex")], name=name)


def isreal(x: Any, *, name: str | None = None) -> Array:
    """Whether the imaginary part of each element is 0: bool_.

    Example:
        >>> rd.algorithm(lambda a: rd.isreal(a)).interpret(np.array([1 + 1j, 2]))
        array([False,  True])
    """
    return ufuncs.logical_not(iscomplex(x), name=name)


def iscomplexobj(x: Any) -> bool:
    """Whether an array has a complex dtype: a Python bool, known while tracing.

    Example:
        >>> rd.algorithm(lambda a: a * 2 if rd.iscomplexobj(a) else a).interpret(np.array([1, 2]))
        array([1, 2])
    """
    return isinstance(numbers_of(x, "rd.iscomplexobj"), Complex)


def isrealobj(x: Any) -> bool:
    """Whether an array has a dtype that is not complex: a Python bool, known while tracing.

    Example:
        >>> rd.algorithm(lambda a: a * 2 if rd.isrealobj(a) else a).interpret(np.array([1, 2]))
        array([2, 4])
    """
    return not iscomplexobj(x)


def array_equiv(a1: Any, a2: Any, *, name: str | None = None) -> Array:
    """Whether all elements are equal, with broadcasting: one bool_. ShapeError for shapes that do not broadcast.

    Example:
        >>> rd.algorithm(lambda a: rd.array_equiv(a, 1)).interpret(np.array([1, 1]))
        np.True_
    """
    return all_of(ufuncs.equal(numbers_of(a1, "rd.array_equiv"), numbers_of(a2, "rd.array_equiv")), name=name)
