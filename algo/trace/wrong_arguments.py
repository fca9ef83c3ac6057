"""The errors for calls whose arguments do not fit a function's parameters: the wrong argument, the intended one, and the parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raido.algo.errors import ArgumentError, RaidoError, TraceError, explain

_OTHER_LIBRARIES = {  # names of torch, JAX and Python that differ in NumPy
    "dim": ("axis",),
    "dims": ("axis", "axes"),
    "keepdim": ("keepdims",),
    "reverse": ("descending",),
    "size": ("shape",),
}
_MEANT = {
    "loc": "m + s * rd.random.normal(key, shape) for a mean of m and a deviation of s",
    "scale": "m + s * rd.random.normal(key, shape) for a mean of m and a deviation of s",
    "map axis": "rd.moveaxis(a, axis, 0): functions go over the first axis",
    "in_axes": "rd.swapaxes(a, 0, 1): functions go over the first axis; rd.elementwise over all",
    "out_axes": "rd.swapaxes(result, 0, 1)",
}
_FORMS = {  # the forms of functions that take other numbers of arguments in other libraries
    "cond": "rd.cond(p, lambda: f(x), lambda: g(x))",
    "fori_loop": "rd.fori_loop(lower, upper, body, init), or rd.loop(n, body, init) from 0",
    "loop": "rd.fori_loop(lower, upper, body, init), or rd.loop(n, body, init) from 0",
}


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why the arguments of a call do not fit, the parameters as text, parameters of similar spelling to an unknown one, or its intended
    form."""

    why: str
    takes: str
    near: tuple[str, ...] = ()
    meant: str | None = None


def misfit_of(function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]) -> Misfit | None:
    """Returns the misfit between the arguments of a call and the parameters; None where they fit."""
    signature = inspect.signature(function)
    try:
        signature.bind(*arguments, **options)
    except TypeError as error:
        problem = str(error)
    else:
        return None
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    if parameters and parameters[0].name == "self":
        del parameters[0]
    takes = str(signature.replace(parameters=parameters, return_annotation=signature.empty))
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    unknown = next((name for name in options if name not in named), None)
    if unknown is not None and all(p.kind is not p.VAR_KEYWORD for p in parameters):
        from raido.algo.trace.remedies import near_names

        meant = [word for word in _OTHER_LIBRARIES.get(unknown, ()) if word in named]
        other = _MEANT.get(f"{function.__qualname__} {unknown}") or _MEANT.get(unknown)
        return Misfit(f'there is no argument "{unknown}"', takes, tuple(meant or near_names(unknown, named)), other)
    return Misfit(_said(problem), takes, meant=_FORMS.get(function.__qualname__))


def wrong_arguments(
    function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]
) -> RaidoError | None:
    """Returns the error for a call of a public function whose arguments do not fit; None where they fit."""
    from raido.algo.trace.context import running
    from raido.algo.trace.locations import user_site

    misfit = misfit_of(function, arguments, options)
    if misfit is None:
        return None
    name = spoken_name(function, arguments)
    near = misfit.meant or ", ".join(f"{word}=" for word in misfit.near)
    traced = running() is not None
    text = explain(
        f"{name}: {misfit.why}",
        **{"algorithm": str(user_site()) if traced else None, "try": near or None, "takes": misfit.takes},
    )
    return TraceError(text) if traced else ArgumentError(text)


def spoken_name(function: Callable[..., Any], arguments: Sequence[Any]) -> str:
    """Returns a public function, method or class as users write it: "rd.fft.fft", "a.at[key].set", "rd.Target"."""
    owner, _, name = function.__qualname__.rpartition(".")
    if not owner:
        parts = function.__module__.split(".")
        return ".".join(["rd", *(parts[1:] if len(parts) < 3 else []), name])
    if name == "__call__" and owner == "DType":
        return f"rd.{arguments[0]}"
    if name == "__init__":
        return f"rd.{type(arguments[0]).__name__}"
    return ".".join([getattr(arguments[0], "_display_name", owner), name])


def _said(problem: str) -> str:
    """Returns the problem that `inspect` found, with raido's wording for a missing argument."""
    head, _, name = problem.rpartition(": ")
    return f'the argument "{name.strip(chr(39))}" is missing' if head.startswith("missing") else problem
