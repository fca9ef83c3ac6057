"""A schedule as data: a sequence of recorded directives.

A `Directive` is a directive as it was applied to one stage. It holds names and numbers only, so that directives can be compared, printed and
written as JSON; the user's source location is no part of its identity. Two hold directives of their own, in `branches`: `when` (one
branch, labelled with its test; of one stage where `stage` is not empty) and `choose` (one branch for each alternative).
"""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass, field
from typing import TypeAlias

from raido.algo.graph.program import Site
from raido.schedule.holes import Hole

PART = "::"  # separates stage and part in a part's name

Value: TypeAlias = "int | bool | str | Hole | tuple[Value, ...] | None"
Arguments: TypeAlias = "tuple[tuple[str, Value], ...]"


@dataclass(frozen=True, slots=True)
class Directive:
    """A directive applied to stage `stage` ("" for the whole schedule), with named arguments; arguments equal to their defaults are left
    out.
    """

    stage: str
    name: str
    args: Arguments = ()
    branches: tuple[tuple[str, tuple[Directive, ...]], ...] = ()
    site: Site | None = field(default=None, compare=False)

    @property
    def directive(self) -> str:
        """The name, as users of `legal()` read it."""
        return self.name

    @property
    def branches_program(self) -> bool:
        """Whether the directive is a `when` of the whole program, not of one stage."""
        return self.name == "when" and not self.stage

    def argument(self, name: str, default: Value = None) -> Value:
        """Returns the argument of that name, or `default` where it is left out."""
        return dict(self.args).get(name, default)


def plain(value: object) -> Value:
    """Returns an argument in its recorded form: lists become tuples, NumPy integers become ints. Raises `TypeError` for floats and other
    objects.
    """
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
    """Returns the innermost source line of the call stack outside raido; None where there is none."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "raido":
        frame = frame.f_back
    if frame is None:
        return None
    file, line = frame.f_code.co_filename, frame.f_lineno
    return Site(file, line, linecache.getline(file, line).strip())
