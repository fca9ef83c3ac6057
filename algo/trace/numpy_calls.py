"""NumPy functions called on traced values: `np.cumsum(x)` is `rd.cumsum(x)` where raido has a function of that name and meaning.

Other functions raise an error with a remedy. So do universal functions of traced values alone, such as `np.sin(x)`; where an operand is a
NumPy array or a number, NumPy is asked first, and the call is forwarded to raido's function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from raido.algo.errors import TraceError
from raido.algo.trace.locations import complaint, user_site
from raido.algo.trace.operators import Operators
from raido.algo.trace.remedies import method_remedies, numpy_name, rd_function, rd_remedy, remedy_in, size_remedy


def call_ufunc(ufunc: Any, method: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Calls raido's counterpart of a NumPy universal function on traced and other values; raises `TraceError` where there is none."""
    from raido.algo.trace.libraries import foreign_ufunc_complaint

    name = ufunc.__name__
    if (text := foreign_ufunc_complaint(ufunc)) is not None:
        raise TraceError(text)
    if method != "__call__":
        raise TraceError(complaint(f"`np.{name}.{method}` on a traced value", remedy=method_remedies(name).get(method)))
    own = _operator(name) or rd_function(name)
    if own is None or all(isinstance(value, Operators) for value in inputs):
        from raido.algo.trace.value import is_of_sizes

        special = size_remedy(name) if all(map(is_of_sizes, inputs)) else None
        raise TraceError(complaint(f"`np.{name}` on a traced value", remedy=special or rd_remedy(name)))
    return _called(name, own, inputs, options)


def call_function(function: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Calls raido's counterpart of a NumPy function; raises `TraceError` where there is none, or it takes other arguments."""
    name = numpy_name(function)
    own = _AS_NUMPY.get(name) or rd_function(name)
    if own is not None:
        return _called(name, own, arguments, options)
    found = None if rd_remedy(name) else remedy_in(user_site().text, "np", "numpy")
    if found is not None:  # NumPy's own code calls another of its functions
        raise TraceError(complaint(f"`{found[0]}` of a traced value", remedy=found[1]))
    raise TraceError(complaint(f"`np.{name}` on a traced value", remedy=rd_remedy(name)))


def _called(name: str, own: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    try:
        inspect.signature(own).bind(*arguments, **options)
    except TypeError as error:
        raise TraceError(complaint(f"`np.{name}` on a traced value: {error}", remedy=f"rd.{name}")) from None
    return own(*arguments, **options)


def _operator(name: str) -> Any:
    from raido.algo.language import ufuncs

    return ufuncs.OPERATOR_OF_UFUNC.get(name)


def _bincount(x: Any, weights: Any = None, minlength: Any = 0) -> Any:
    bincount, f64 = rd_function("bincount"), rd_function("f64")
    assert bincount is not None
    return bincount(x, weights=weights if weights is None else f64(weights), minlength=minlength)


def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    where, nonzero = rd_function("where"), rd_function("nonzero")
    assert where is not None
    return nonzero(condition) if x is None and y is None else where(condition, x, y)


def _repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    repeat = rd_function("repeat")
    assert repeat is not None
    return repeat(a, repeats, axis)


_AS_NUMPY = {"bincount": _bincount, "repeat": _repeat, "where": _where}  # functions whose parameters differ in raido
