"""`run`: the call of a user's function by a combinator, and the error where its parameters do not fit the arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from raido.algo.errors import TraceError
from raido.algo.graph.program import Site
from raido.algo.trace.context import current
from raido.algo.trace.locations import complaint
from raido.algo.trace.trees import leaves
from raido.algo.trace.value import Array

ARGUMENT_ORDER = (
    "this order: rd.map(f, a), rd.stencil(f, a), rd.tabulate(shape, f), rd.reduce(op, neutral, a), "
    "rd.loop(n, body, init), rd.while_loop(condition, body, init)"
)


class EndlessCall(TraceError, RecursionError):
    """A function that calls itself without end."""


def run(function: Callable[..., Any], *arguments: Any, form: str | None = None) -> Any:
    """Returns `function(*arguments)`; raises `TraceError` where it is no function, or takes another number of arguments.

    `form` is the call that the combinator documents, such as "body(i, state)".
    """
    if not callable(function):
        message = f"{form or 'the argument'} must be a function, not {type(function).__name__}"
        raise TraceError(complaint(message, remedy=ARGUMENT_ORDER))
    trace = current()
    trace.level += 1
    if trace.note is not None:
        for leaf in leaves(arguments):
            if isinstance(leaf, Array):
                trace.note(leaf, given=True)
    try:
        return function(*arguments)
    except TypeError as error:
        takes = _other_parameters(function, len(arguments))
        if takes is None:
            raise
        number = f"{len(arguments)} argument{'' if len(arguments) == 1 else 's'}" if arguments else "no arguments"
        called = f"called as {form}" if form is not None else f"called with {number}"
        raise TraceError(complaint(f"a function that takes {takes} is {called}", remedy=_remedy(form))) from error
    finally:
        trace.level -= 1


def _other_parameters(function: Callable[..., Any], count: int) -> str | None:
    """Returns the parameters, as text, of a function that cannot be called with `count` positional arguments; None where it can."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*range(count))
    except TypeError:
        return str(signature.replace(return_annotation=signature.empty))
    return None


def _remedy(form: str | None) -> str | None:
    if form in ("then()", "orelse()"):
        return "rd.cond(p, lambda: f(x), lambda: g(x)): a branch sees the values around it"
    if form is None or "state" not in form:
        return None
    return "one parameter for the state, which is a tuple where it has several values: lambda s: s[0] + s[1]"


def endless_call(name: str, site: Site | None = None) -> str:
    """Returns the error message for a function that calls itself without end."""
    why = "it is called while tracing, where no condition on traced values can end it"
    remedy = "rd.while_loop(condition, body, state), or a condition on plain values"
    return complaint(f"{name} calls itself without end", why=why, remedy=remedy, site=site)
