"""NumPy's `out=` and `where=` in a language of immutable arrays.

`out=` is accepted by name, so that the error shows a remedy. `where=` of a reduction is a mask: elements where it does not hold are
replaced by the neutral element of the operation.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from raido.algo.errors import DTypeError, TraceError
from raido.algo.graph.dtypes import DType, bool_
from raido.algo.graph.expr import const
from raido.algo.language import ufuncs
from raido.algo.language.complexes import kind_of
from raido.algo.language.moves import broadcast_to
from raido.algo.trace.building import elementwise, structure
from raido.algo.trace.locations import complaint
from raido.algo.trace.trees import leaves, map_leaves
from raido.algo.trace.value import Array

Function = TypeVar("Function", bound=Callable[..., Any])


def without_out(function: Function) -> Function:
    """Decorates a function with NumPy's keyword `out`, which raises `TraceError` for anything but None."""
    return _refusing(function, {"out": None})


def universal(function: Function) -> Function:
    """Decorates a function of elements with a ufunc's keywords: `dtype`, and `out` and `where`, which raise `TraceError` unless at their
    defaults."""
    refused = {"out": None, "where": True}
    signature = inspect.signature(function)
    if "dtype" in signature.parameters:
        return _refusing(function, refused)

    @functools.wraps(function)
    def typed(*values: Any, dtype: Any = None, **options: Any) -> Any:
        if dtype is None:
            return function(*values, **options)
        given = signature.bind(*values, **options)
        return ufuncs.computed_as(dtype, function, given.args, **given.kwargs)

    typed.__signature__ = _with_options(signature, {"dtype": None})  # type: ignore[attr-defined]
    return _refusing(typed, refused)  # type: ignore[return-value]


def _refusing(function: Function, refused: dict[str, Any]) -> Function:
    signature = inspect.signature(function)
    home = "fft." if function.__module__.endswith(".fft") else ""

    @functools.wraps(function)
    def refusing(*arguments: Any, **options: Any) -> Any:
        said = {key: options.pop(key, default) for key, default in refused.items()}
        ufuncs.refuse_out(name=f"{home}{function.__name__}", **said)
        return function(*arguments, **options)

    refusing.__signature__ = _with_options(signature, refused)  # type: ignore[attr-defined]
    return refusing  # type: ignore[return-value]


def _with_options(signature: inspect.Signature, options: dict[str, Any]) -> inspect.Signature:
    """Returns the signature with keywords added before its last parameter, `name`."""
    *before, name = signature.parameters.values()
    kind = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(key, kind, default=default) for key, default in options.items()]
    return signature.replace(parameters=[*before, *added, name])


def mask_over(where: Any, value: Any, what: str) -> Array:
    """Returns a mask broadcast to the shape of the elements that it selects; raises `DTypeError` or `ShapeError` where it does not fit
    them."""
    mask = structure(where)
    if not isinstance(mask, Array) or mask.dtype is not bool_:
        got = mask.dtype if isinstance(mask, Array) else kind_of(mask)
        raise DTypeError(complaint(f"`where` of {what} is an array of bool_, not {got}", remedy="a comparison"))
    shape = leaves(value)[0].shape
    return broadcast_to(mask, shape) if shape or mask.ndim else mask


def taking_part(value: Any, where: Any, neutral: Callable[[DType], Any], what: str) -> Any:
    """Returns the elements where a mask holds, and the neutral element of their dtype elsewhere; all elements for `where=True`."""
    if where is True:
        return value
    mask = mask_over(where, value, what)
    chosen = lambda x, held: ufuncs.where(held, x, Array(const(x.dtype, neutral(x.dtype)), x.weak))
    return map_leaves(lambda leaf: elementwise(chosen, [leaf, mask]), value)


def needs_initial(where: Any, initial: Any, what: str) -> None:
    """Raises `TraceError` for a mask without `initial` over a reduction that has no value for zero elements."""
    if where is not True and initial is None:
        raise TraceError(complaint(f"{what} with `where=`", why="no element may take part", remedy="initial= as well"))
