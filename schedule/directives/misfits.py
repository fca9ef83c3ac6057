"""Errors for directives whose arguments do not fit their parameters, with the form that was probably meant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from raido.algo.errors import ScheduleError
from raido.algo.trace.locations import user_site
from raido.algo.trace.wrong_arguments import misfit_of
from raido.schedule.refusal import Refusal, refused

FROM_HALIDE = {  # raido's directive for each of Halide's; None where there is none
    "async_": None,
    "bound": None,
    "compute_inline": "inline()",
    "compute_root": "root()",
    "fold_storage": 'store_at("reader", "loop")',
    "gpu_blocks": 'bind("y", "block.x")',
    "gpu_threads": 'bind("x", "thread.x")',
    "gpu_tile": 'tile(y=8, x=32), bind("yo", "block.y") and its like for each loop',
    "hoist_storage": None,
    "in_": 'clone("reader")',
    "memoize": None,
    "reorder_storage": 'store(layout=("x", "y"))',
    "rfactor": 'split("r", 1024).parallel("ro"), whose partial results are combined in order',
    "specialize": 's.when("w >= 64")',
    "store_root": 'root(), or store_at("reader", "loop")',
}


class WrongArguments(ScheduleError, TypeError):
    """The error for unknown, surplus or missing arguments of a directive; also a `TypeError`."""


def wrong_directive(
    method: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]
) -> ScheduleError | None:
    """Returns the error for a call of a directive whose arguments do not fit; None where they fit."""
    from raido.schedule.directives.recorder import deed  # a cyclic import

    misfit = misfit_of(method, arguments, options)
    if misfit is None:
        return None
    stage, *given = arguments
    name = method.__name__
    words = [*map(_text, given), *(f"{key}={_text(value)}" for key, value in options.items())]
    meant = _MEANT.get(name, lambda given, axes: None)(given or list(next(iter(options.items()), ())), stage.axes)
    near = ", ".join(f"{word}=" for word in misfit.near)
    refusal = Refusal(misfit.why, near or meant or None, takes=misfit.takes)
    said = f".{name}({', '.join(words)})"
    return WrongArguments(*refused(f'cannot {deed(name)} stage "{stage.name}"', refusal, said, user_site()).args)


def _text(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _meant_split(given: Sequence[Any], axes: Sequence[str]) -> str | None:
    """Returns raido's `split` for Halide's `split(x, xo, xi, factor)`; None for other arguments."""
    match given:
        case [str(axis), str(outer), str(inner), factor, *_]:
            return f'split("{axis}", {factor}, names=("{outer}", "{inner}"))'
        case [str(axis), int(factor)]:  # also `split(y=32)`
            return f'split("{axis}", {factor})'
        case [str(axis)]:
            return f'split("{axis}", 8)'
    return None


def _meant_tile(given: Sequence[Any], axes: Sequence[str]) -> str:
    """Returns raido's `tile(y=16, x=32)` for Halide's `tile(x, y, xo, yo, xi, yi, 32, 16)`, and for sizes alone."""
    sizes = [value for value in given if not isinstance(value, str)]
    named = [value for value in given if isinstance(value, str)][: len(sizes)] or axes[-len(sizes) :]
    factors = dict(zip(named, sizes, strict=False)) if sizes else dict.fromkeys(axes, 32)
    ordered = sorted(factors, key=lambda axis: axes.index(axis) if axis in axes else len(axes))
    return f"tile({', '.join(f'{axis}={factors[axis]}' for axis in ordered)})"


def _meant_fuse(given: Sequence[Any], axes: Sequence[str]) -> str | None:
    """Returns raido's `fuse("a", "b")` for a list of two axes; None for other arguments."""
    match given:
        case [[str(a), str(b), *_] | (str(a), str(b), *_)]:
            return f'fuse("{a}", "{b}")'
    return None


_MEANT: dict[str, Callable[[Sequence[Any], Sequence[str]], str | None]] = {
    "split": _meant_split,
    "fuse": _meant_fuse,
    "tile": _meant_tile,
}
