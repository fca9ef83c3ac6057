"""Compares two schedules directive by directive."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

from raido.schedule.recorded import Directive
from raido.schedule.text.serialise import statements

Change: TypeAlias = Literal[" ", "-", "+"]


@dataclass(frozen=True, slots=True)
class Difference:
    """The directives of two schedules in one list, each marked " " (in both), "-" (only in the first) or "+" (only in the second). False when
    equal.
    """

    changes: tuple[tuple[Change, Directive], ...]

    def __bool__(self) -> bool:
        return any(sign != " " for sign, _ in self.changes)

    def __str__(self) -> str:
        return "\n".join(f"{sign} {line}" for sign, directive in self.changes for line in statements("s", (directive,)))


def compare(left: tuple[Directive, ...], right: tuple[Directive, ...]) -> Difference:
    """Returns the directives of both schedules in order, each marked with the schedules that have it."""
    changes: list[tuple[Change, Directive]] = []
    for tag, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag == "equal":
            changes.extend((" ", directive) for directive in left[a:b])
        else:
            changes.extend(("-", directive) for directive in left[a:b])
            changes.extend(("+", directive) for directive in right[c:d])
    return Difference(tuple(changes))
