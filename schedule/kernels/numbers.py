"""Expressions of the host as numbers of a plan: arithmetic on sizes, loop variables and numbers that were read back.

Sums and products of sizes do not wrap, so a plan's checked arithmetic agrees with the nest's. Numbers from data are compared and bounded
there, but not added up: the plan would refuse where the nest wraps.
"""

from __future__ import annotations

from collections.abc import Mapping

from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Const, Op, SizeVar, Var
from raido.algo.graph.node import Node
from raido.algo.graph.rewrite import topological
from raido.schedule.kernels.host_plan import Number

_OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "floordiv": "//",
    "mod": "%",
    "minimum": "min",
    "maximum": "max",
    "lt": "<",
    "le": "<=",
    "eq": "==",
    "ne": "!=",
    "logical_and": "min",
    "logical_or": "max",
}
_TURNED = {"gt": "<", "ge": "<="}
_WRAPS = {"add", "sub", "mul", "floordiv", "neg"}


def number_of(e: Node, names: Mapping[Node, str], data: frozenset[str] | set[str] = frozenset()) -> Number | None:
    """The number for an expression of i64 or bool, given the names of variables; None where a plan has no such arithmetic.

    data: names of numbers that may have any value.
    """
    made: dict[Node, Number | None] = {}
    for node in topological(e):
        made[node] = _number(node, made, names, data)
    return made[e]


def _number(
    e: Node, made: Mapping[Node, Number | None], names: Mapping[Node, str], data: frozenset[str] | set[str]
) -> Number | None:
    if isinstance(e, Const):
        return int(e.bits) if e.dtype in (i64, bool_) else None
    if isinstance(e, (Var, SizeVar)):
        return names.get(e)
    if not isinstance(e, Op) or any(a.dtype not in (i64, bool_) for a in (e, *e.args)):
        return None
    args = [made[a] for a in e.args]
    if None in args or (e.name in _WRAPS and any(mentions(a, data) for a in args)):
        return None
    if e.name == "cast":
        return args[0]
    if e.name == "neg":
        return ("-", 0, args[0])  # type: ignore[return-value]
    if e.name == "logical_not":
        return ("==", args[0], 0)  # type: ignore[return-value]
    if e.name in _TURNED:
        return (_TURNED[e.name], args[1], args[0])  # type: ignore[return-value]
    if e.name in _OPERATORS:
        return (_OPERATORS[e.name], args[0], args[1])  # type: ignore[return-value]
    return None


def mentions(number: Number | None, names: frozenset[str] | set[str]) -> bool:
    """Whether a number contains one of these names."""
    if isinstance(number, tuple):
        return mentions(number[1], names) or mentions(number[2], names)
    return number in names


def times(left: Number, right: Number) -> Number:
    """A product, with constants folded."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    if 0 in (left, right):
        return 0
    if left == 1 or right == 1:
        return right if left == 1 else left
    return ("*", left, right)


def plus(left: Number, right: Number) -> Number:
    """A sum, with constants folded."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    return right if left == 0 else left if right == 0 else ("+", left, right)


def divided_up(number: Number, by: int) -> Number:
    """The quotient rounded up."""
    if isinstance(number, int):
        return -(-number // by)
    return number if by == 1 else ("//", ("+", number, by - 1), by)


def at_most(most: int, number: Number) -> Number:
    """The minimum of a number and a constant."""
    return min(most, number) if isinstance(number, int) else ("min", number, most)


def minus(left: Number, right: Number) -> Number:
    """A difference, with constants folded."""
    if isinstance(left, int) and isinstance(right, int):
        return left - right
    return left if right == 0 else ("-", left, right)


def no_less_than(least: int, number: Number) -> Number:
    """The maximum of a number and a constant."""
    return max(least, number) if isinstance(number, int) else ("max", number, least)
