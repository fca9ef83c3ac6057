"""A schedule as data: recorded steps.

A `Step` is one directive said of one stage: names and numbers only, so that steps compare, print, and travel as JSON. Where the
user wrote it stands outside its identity. Two directives hold steps of their own, in `branches`: `when` (one branch, labelled with
its test; of a stage, where it is said of one) and `choose` (one branch for each alternative).
"""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass, field
from typing import TypeAlias

from raido.algo.graph.program import Site
from raido.schedule.holes import Hole

PART = "::"  # between a stage and a part of its strategy, in the name that steps have for the part

Value: TypeAlias = "int | bool | str | Hole | tuple[Value, ...] | None"
Arguments: TypeAlias = "tuple[tuple[str, Value], ...]"


@dataclass(frozen=True, slots=True)
class Step:
    """`directive` said of `stage` ("" for the whole schedule) with named arguments; those equal to their default are left out."""

    stage: str
    directive: str
    args: Arguments = ()
    branches: tuple[tuple[str, tuple[Step, ...]], ...] = ()
    site: Site | None = field(default=None, compare=False)

    @property
    def branches_program(self) -> bool:
        """Whether it is a branch of the whole program."""
        return self.directive == "when" and not self.stage

    def argument(self, name: str, default: Value = None) -> Value:
        """The argument of that name."""
        return dict(self.args).get(name, default)


def plain(value: object) -> Value:
    """An argument as it is recorded: lists become tuples; NumPy integers become ints."""
    if isinstance(value, (list, tuple)):
        return tuple(plain(v) for v in value)
    if value is None or isinstance(value, (bool, int, str, Hole)):
        return value
    index = getattr(value, "__index__", None)
    if index is not None:
        return int(index())
    if isinstance(value, float) and value.is_integer():
        raise TypeError(f"a number of iterations is a whole number, not {value!r}: write {int(value)}")
    if isinstance(value, float):
        raise TypeError(f"a number of iterations is a whole number, not {value!r}")
    raise TypeError(f"an argument of a directive is a name, a number or a hole, not {value!r}")


def user_site() -> Site | None:
    """The innermost line of the call stack that is not raido's own."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "raido":
        frame = frame.f_back
    if frame is None:
        return None
    file, line = frame.f_code.co_filename, frame.f_lineno
    return Site(file, line, linecache.getline(file, line).strip())
