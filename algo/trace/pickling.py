"""Pickling of algorithms: by reference where a module holds the algorithm under its name, else by its function, which `cloudpickle` copies.

Traced programs and compiled code are not pickled: the cache on disk holds them.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from raido.algo.errors import explain

if TYPE_CHECKING:
    from raido.algo.trace.algorithm import Algorithm

_SUFFIX = ".function"  # the attribute of an algorithm that holds its function


def reduced(algorithm: Algorithm) -> tuple[Any, ...]:
    """Returns the value of `Algorithm.__reduce__`; raises `PicklingError` for a function that plain `pickle` cannot find by its name."""
    function = algorithm.function
    held = _held(function, getattr(function, "__qualname__", ""))
    if getattr(held, "function", None) is function and held is not function:
        function.__qualname__ += _SUFFIX  # the function's own name in the module is the algorithm's
    elif held is not function and not _pickler_takes_functions():
        labelled = {
            "why": "pickle finds a function by its name in a module, and no module holds this one",
            "try": "define it at the top level of a module, or use cloudpickle",
        }
        raise pickle.PicklingError(explain(f"cannot pickle {_display_name(algorithm)}", **labelled))
    return restored, (type(algorithm), function, algorithm._types, algorithm.contract, algorithm.fixed)


def _display_name(algorithm: Algorithm) -> str:
    function = algorithm.function
    if function.__name__ != "<lambda>":
        return f"the algorithm {algorithm.name}"
    code = function.__code__
    return f"the algorithm of the lambda at {code.co_filename}:{code.co_firstlineno}"


def restored(
    kind: type[Algorithm],
    function: Callable[..., Any],
    types: Mapping[str, Any],
    contract: bool,
    fixed: Mapping[str, Any],
) -> Algorithm:
    """Returns the algorithm that a module holds for the function; where there is none, a new one."""
    name = getattr(function, "__qualname__", "")
    held = _held(function, name.removesuffix(_SUFFIX)) if name.endswith(_SUFFIX) and not fixed else None
    if isinstance(held, kind) and held.function is function and not held.fixed:
        return held
    return kind(function, types, contract, fixed)


def _held(function: Callable[..., Any], name: str) -> Any:
    """Returns the object that the function's module holds under a qualified name; None where there is none."""
    found: Any = sys.modules.get(getattr(function, "__module__", None) or "")
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _pickler_takes_functions() -> bool:
    """Whether the pickler at work can pickle functions by value: cloudpickle's and similar ones are subclasses of Python's."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "raido":
        frame = frame.f_back
    return frame is not None and isinstance(frame.f_locals.get("self"), (pickle.Pickler, pickle._Pickler))
