"""The base of the directive families: the table of rules, and the class through which the methods record directives.

A directive is two things side by side in one file of this package: a method with the user's docstring, which records a directive, and a rule,
`(state, stage, **arguments) -> state`, which checks and rewrites, and which replay finds in `RULES` by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from raido.algo.trace.arguments import LARGEST_SIZE
from raido.algo.trace.tracebacks import bordered
from raido.schedule.directives.misfits import wrong_directive
from raido.schedule.holes import Hole
from raido.schedule.refusal import Refusal
from raido.schedule.state import State

Number: TypeAlias = "int | Hole"
Name: TypeAlias = "str | Hole"
Names: TypeAlias = "tuple[str, ...] | list[str] | Hole"
Self = TypeVar("Self", bound="Recorder")


@dataclass(frozen=True, slots=True)
class Rule:
    """A directive's rule and its parameters, as replay needs them.

    `apply` is the rule; `phrase` completes "cannot …" in messages. `spread`: the argument written as positional ones (`*axes`).
    `positional`: optional arguments that are written without their name. `keywords`: whether any keyword is accepted.
    """

    name: str
    apply: Callable[..., State]
    phrase: str
    required: tuple[str, ...]
    defaults: dict[str, Any]
    spread: str = ""
    positional: tuple[str, ...] = ()
    keywords: bool = False


RULES: dict[str, Rule] = {}


def deed(directive: str) -> str:
    """Returns the verb of a directive for messages: "parallelize" for `parallel`."""
    first, second, *_ = RULES[directive].phrase.split()
    if second in ("axis", "axes"):
        return first
    return directive if first == directive or second == "stage" else f"apply .{directive}(…) to"


def rule(
    phrase: str, spread: str = "", positional: tuple[str, ...] = ()
) -> Callable[[Callable[..., State]], Callable[..., State]]:
    """Decorates a rule to enter it into `RULES` under its name; `phrase` completes "cannot …", with {stage} and the arguments."""

    def enter(function: Callable[..., State]) -> Callable[..., State]:
        name = function.__name__.removeprefix("apply_")
        parameters = list(inspect.signature(function).parameters.values())[2:]
        named = [p for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD]
        RULES[name] = Rule(
            name,
            function,
            phrase,
            tuple(p.name for p in named if p.default is p.empty),
            {p.name: p.default for p in named if p.default is not p.empty},
            spread,
            positional,
            len(named) < len(parameters),
        )
        return function

    return enter


class Recorder:
    """The base of views of one stage, whose methods record directives; see `raido.schedule.schedule.StageView`."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        bordered(cls, wrong_directive)

    def _record(self: Self, directive: str, /, **arguments: object) -> Self:
        raise NotImplementedError


def positive(value: object, what: str, least: int = 1, most: int | None = None) -> int:
    """Returns `value`; refuses it unless it is an int of at least `least` and at most `most`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refusal(f"{what} is a whole number, not {value!r}")
    if abs(value) > LARGEST_SIZE:
        raise Refusal(f"{what} is larger than any size, which is at most 2**60")
    if value < least or (most is not None and value > most):
        raise Refusal(f"{what} is {value}; it must be " + (f"{least} … {most}" if most else f"at least {least}"))
    return value


def truth(value: object, what: str) -> bool:
    """Returns `value`; refuses it unless it is True or False."""
    if not isinstance(value, bool):
        raise Refusal(f"{what} is True or False, not {value!r}")
    return value


def one_of(value: object, what: str, options: tuple[str, ...]) -> str:
    """Returns `value`; refuses it unless it is one of the options."""
    if value not in options:
        quoted = ", ".join(f'"{option}"' for option in options)
        raise Refusal(f"{what} is one of {quoted}, not {value!r}")
    return str(value)
