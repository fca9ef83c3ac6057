"""Names that static parameters cannot have: those of the options in the same calls.

`f(x, radius=2, out=a)` and `f.compile(radius=2, sizes=…)` pass static parameters and options by the same keywords, so an option would
capture the value of a parameter of its name. The names are read from the signatures of the methods themselves.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import re
from collections.abc import Callable
from typing import Any

from raido.algo.errors import TraceError, explain
from raido.algo.graph.program import Site
from raido.algo.trace.locations import is_internal


@functools.cache
def option_names(cls: type) -> dict[str, str]:
    """Returns the options of the methods of a class that also take static parameters as `**static`, each with the first method that has it."""
    names: dict[str, str] = {}
    for method, function in inspect.getmembers(cls, inspect.isfunction):
        parameters = inspect.signature(function).parameters.values()
        if method != "__init__" and any(p.kind is p.VAR_KEYWORD for p in parameters):
            own = {p.name: method for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
            names = own | names
    return names


def refuse_reserved_names(function: Callable[..., Any], cls: type) -> None:
    """Raises `TraceError` where a keyword-only parameter of a function has the name of an option of the class's methods."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # refused with the rest of the signature, when that is read
        return
    options = option_names(cls)
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name in options:
            method = _OWNERS.get(options[parameter.name], f"f.{options[parameter.name]}(…)")
            given = getattr(function, "__name__", "f")
            internal = is_internal(getattr(getattr(function, "__code__", None), "co_filename", ""))
            remedy = (
                f"a function of your own around it: rd.algorithm(lambda x: rd.{given}(x))"
                if internal
                else "another name"
            )
            labelled: dict[str, str | None] = {
                "algorithm": str(_site(function, parameter.name)),
                "why": f"{method} has an option of that name",
                "try": remedy,
                "taken": ", ".join(sorted(options)),
            }
            name = getattr(function, "__name__", "the function")
            raise TraceError(explain(f"{name}: a static parameter cannot be called {parameter.name!r}", **labelled))


_OWNERS = {"run": "a call", "inline": "a call inside another algorithm", "__call__": "a call"}
OPTIONS_OF_CALLS = frozenset(_OWNERS)


def _site(function: Callable[..., Any], name: str) -> Site:
    """Returns the line that declares a parameter, or the first line of the function."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return Site("<unknown>", 0, "")
    lines = {k: linecache.getline(code.co_filename, k).strip() for k in _head(code)}
    found = (k for k, text in lines.items() if re.search(rf"\b{name}\b\s*[:=,)]", text) and not text.startswith("@"))
    line = next(found, code.co_firstlineno)
    return Site(code.co_filename, line, lines.get(line, ""))


def _head(code: Any) -> range:
    """Returns the line numbers of a function from its first line to the first line of its body."""
    body = [line for _, _, line in code.co_lines() if line is not None and line > code.co_firstlineno]
    return range(code.co_firstlineno, min(body, default=code.co_firstlineno) + 1)
