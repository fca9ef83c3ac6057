"""Holes: arguments and directives of a schedule that are still open. A schedule with holes is a search space; filling all gives a schedule.

A `Hole` stands for an argument; a `choose` directive stands for directives. Holes of one name are one choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from raido.algo.errors import ScheduleError, explain
from raido.algo.trace.tracebacks import border

if TYPE_CHECKING:
    from raido.schedule.recorded import Directive, Value

MOST_FILLINGS = 4096  # tried for a witness: each replays the whole schedule


@dataclass(frozen=True, slots=True)
class Hole:
    """An argument that is still open: its name and its options."""

    name: str
    options: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"rd.choose({self.name!r}, {list(self.options)!r})"


@border
def choose(name: str, options: Iterable[Any]) -> Any:
    """Returns a hole for an argument of any directive. Raises `ScheduleError` without options.

    >>> choose("ty", [16, 32, 64])
    rd.choose('ty', [16, 32, 64])
    """
    if isinstance(options, str) or not isinstance(options, Iterable):
        why, options = f"options are a sequence, not {options!r}", ()
    else:
        why = None
    values = tuple(tuple(o) if isinstance(o, list) else o for o in options)
    if not values:
        text = explain(f'hole "{name}" has no options', why=why, **{"try": f'rd.choose("{name}", [16, 32])'})
        raise ScheduleError(text)
    return Hole(name, values)


def holes_of(directives: Iterable[Directive]) -> dict[str, tuple[Any, ...]]:
    """Returns every hole by name, in order of first appearance, with its options (of a `choose` directive, its labels)."""
    found: dict[str, tuple[Any, ...]] = {}
    for name, options in _holes(directives):
        if found.setdefault(name, options) != options:
            raise ScheduleError(
                explain(
                    f'hole "{name}" stands for two different choices',
                    why=f"its options are {list(found[name])} in one place and {list(options)} in another",
                    **{"try": "give one of them another name"},
                )
            )
    return found


def fill(directives: Iterable[Directive], values: Mapping[str, Any]) -> tuple[Directive, ...]:
    """Returns the directives with the named holes filled; the directives of a chosen alternative replace their `choose` directive."""
    filled: list[Directive] = []
    for directive in directives:
        if directive.name == "choose" and directive.argument("name") in values:
            branches = dict(directive.branches)
            filled += fill(branches[values[str(directive.argument("name"))]], values)
            continue
        args = tuple((key, _fill_value(value, values)) for key, value in directive.args)
        branches = tuple((label, fill(inner, values)) for label, inner in directive.branches)
        filled.append(replace(directive, args=args, branches=branches))
    return tuple(filled)


def fillings(holes: Mapping[str, tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """Yields fillings of all holes, the first options first; at most `MOST_FILLINGS`."""
    names = list(holes)
    for values in islice(product(*(holes[name] for name in names)), MOST_FILLINGS):
        yield dict(zip(names, values, strict=True))


def check_filling(holes: Mapping[str, tuple[Any, ...]], values: Mapping[str, Any]) -> None:
    """Refuses names that are no holes, and values that are not among a hole's options."""
    for name, value in values.items():
        if name not in holes:
            known = ", ".join(holes) or "none"
            raise ScheduleError(explain(f'the schedule has no hole "{name}"', holes=known))
        if value not in holes[name]:
            raise ScheduleError(
                explain(f'cannot fill hole "{name}" with {value!r}', options=", ".join(repr(o) for o in holes[name]))
            )


def _holes(directives: Iterable[Directive]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for directive in directives:
        if directive.name == "choose":
            yield str(directive.argument("name")), tuple(label for label, _ in directive.branches)
        for _, value in directive.args:
            yield from _holes_in(value)
        for _, inner in directive.branches:
            yield from _holes(inner)


def _holes_in(value: Value) -> Iterator[tuple[str, tuple[Any, ...]]]:
    if isinstance(value, Hole):
        yield value.name, value.options
    elif isinstance(value, tuple):
        for part in value:
            yield from _holes_in(part)


def _fill_value(value: Value, values: Mapping[str, Any]) -> Value:
    if isinstance(value, Hole):
        return values.get(value.name, value)
    if isinstance(value, tuple):
        return tuple(_fill_value(part, values) for part in value)
    return value
