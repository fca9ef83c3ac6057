"""Simplified text of sizes for messages and representations: sizes are non-negative, so `max(0, n - 2)` reads `n - 2`, and the minimum of
sizes that differ by a constant is the smaller one.

A size is an int, a name, or `(op, left, right)` with op one of + - * // % min max, as in signatures; an expression of the graph is
converted to one. For a size whose value is 0 the exact text is printed, since it shows why.
"""

from __future__ import annotations

from typing import TypeAlias

from raido.algo.graph import index
from raido.algo.graph.expr import Expr, Op

Size: TypeAlias = "int | str | tuple[str, Size, Size]"
_Sum: TypeAlias = dict[str, int]  # factors of terms; of the constant, under the empty name
_OPERATIONS = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "minimum": "min", "maximum": "max"
}  # fmt: skip


def read_extent(extent: Expr, value: int | None = None) -> str:
    """The text of an extent; `value` is its number, if known."""
    return index.text(extent) if value == 0 else read_size(_size_of(extent))


def read_size(size: Size) -> str:
    """The text of a size: `n - 2`, `2*n + min(n, m)`."""
    return _text(_sum(size))


def _size_of(e: Expr) -> Size:
    known = index.constant_value(e)
    if known is not None:
        return known
    if isinstance(e, Op) and e.name in _OPERATIONS:
        return _OPERATIONS[e.name], _size_of(e.args[0]), _size_of(e.args[1])
    return index.text(e)


def _sum(size: Size) -> _Sum:
    if isinstance(size, int):
        return {"": size}
    if isinstance(size, str):
        return {size: 1}
    op, left, right = size[0], _sum(size[1]), _sum(size[2])
    if op in "+-":
        return _added(left, right, 1 if op == "+" else -1)
    if op == "*" and (_is_number(left) or _is_number(right)):
        terms, factor = (right, left) if _is_number(left) else (left, right)
        return {name: number * factor.get("", 0) for name, number in terms.items()}
    if op in ("min", "max"):
        return _extreme(op, left, right)
    return {f"{_tight(left)}{op}{_tight(right)}": 1}


def _extreme(op: str, left: _Sum, right: _Sum) -> _Sum:
    for zero, other in ((left, right), (right, left)):
        if op == "max" and _is_number(zero) and zero.get("", 0) <= 0:
            return other
    difference = _added(left, right, -1)
    if _is_number(difference):
        return left if (difference.get("", 0) < 0) == (op == "min") else right
    return {f"{op}({_text(left)}, {_text(right)})": 1}


def _added(left: _Sum, right: _Sum, sign: int) -> _Sum:
    total = {name: left.get(name, 0) + sign * right.get(name, 0) for name in {**left, **right}}
    return {name: number for name, number in total.items() if number}


def _is_number(terms: _Sum) -> bool:
    return not terms.keys() - {""}


def _text(terms: _Sum) -> str:
    parts = [(number, name) for name, number in terms.items() if name]
    parts.sort(key=lambda part: part[0] < 0)
    constant = terms.get("", 0)
    constant_first = bool(parts) and parts[0][0] < 0 and constant > 0
    written = "".join(
        f" {'-' if number < 0 else '+'} {_term(abs(number), name, signed=number < 0 and k == 0 and not constant_first)}"
        for k, (number, name) in enumerate(parts)
    )
    if constant_first:
        return f"{constant}{written}"
    if constant or not parts:
        written += f" {'-' if constant < 0 else '+'} {abs(constant)}"
    return written[3:] if written.startswith(" + ") else f"-{written[3:]}"


def _term(factor: int, name: str, signed: bool) -> str:
    """A term after a factor, or after the leading sign of the text, with parentheses where that would bind more tightly than `n//2`."""
    if factor == 1 and not signed:
        return name
    safe = name if all(map(_is_atom, _outside(name).split("*"))) else f"({name})"
    return safe if factor == 1 else f"{factor}*{safe}"


def _tight(terms: _Sum) -> str:
    written = _text(terms)
    return written if _is_atom(_outside(written)) else f"({written})"


def _outside(text: str) -> str:
    """The text without the contents of parentheses: `min() + 1`."""
    depth, kept = 0, ""
    for c in text:
        depth -= c == ")"
        kept += c if depth == 0 else ""
        depth += c == "("
    return kept


def _is_atom(outside: str) -> bool:
    """Whether a text, without parenthesised parts, has no operator: a name, a number, a call, or a parenthesis."""
    word = outside.removesuffix("()")
    return not word or word.isidentifier() or word.isdigit()
