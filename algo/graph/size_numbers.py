"""Arithmetic on sizes that must be checked before it is used: numbers against the limits of sizes, and the user's divisors, in extents and
trip counts, against 0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeGuard

from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.bind_sizes import EXACT, evaluate_size
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import (
    ARRAY_FORMS,
    ArrayLoop,
    Axis,
    Const,
    Count,
    Expr,
    Loop,
    Node,
    Op,
    Parameter,
    Result,
    SizeVar,
)
from raido.algo.graph.faults import fault_error
from raido.algo.graph.limits import LARGEST_ARRAY, always_needed, divisor_text, reach
from raido.algo.graph.primitives import DIVISIONS
from raido.algo.graph.program import Program, Site
from raido.algo.graph.rewrite import post_order, scalar_nodes


@dataclass(frozen=True, slots=True)
class SizeNumber:
    """An arithmetic expression on sizes, and the line that computes it."""

    value: Op
    site: Site | None


def size_numbers(program: Program) -> list[SizeNumber]:
    """The expressions on sizes alone that every call computes and that may exceed the limit of arrays, and the divisions in extents and
    trip counts.

    Expressions in a branch, or in the body of a loop, may never be computed, and are left out; extents are checked by `sized_arrays`.
    """
    return numbers_of(program.results, program.sites, divisions_alone=False)


def numbers_of(
    results: Iterable[Node], sites: Mapping[Node, Site], *, divisions_alone: bool = True
) -> list[SizeNumber]:
    """`size_numbers` of the expressions that these results need for any data; by default only the divisions in extents and trip counts."""
    found: dict[Op, SizeNumber] = {}
    seen: set[Node] = set()
    stack: list[tuple[Node, Site | None]] = [(node, None) for node in results]
    while stack:
        node, site = stack.pop()
        if node in seen or isinstance(node, Parameter):
            continue
        seen.add(node)
        site = sites.get(node, site)
        extent = node.count if isinstance(node, (ArrayLoop, Loop)) else node.extent if isinstance(node, Axis) else None
        if extent is not None:
            found |= {part: SizeNumber(part, sites[part]) for part in divisions_in(extent, sites)}
        if isinstance(node, Axis):
            stack += [(count, site) for count in _counts(node.extent)]
        elif is_size_arithmetic(node):
            if not divisions_alone and reach(node) > LARGEST_ARRAY:
                lines = (sites[part] for part in reversed(scalar_nodes(node)) if part in sites)
                found[node] = SizeNumber(node, next(lines, site))
            stack += [(count, site) for count in _counts(node)]
        else:
            stack += [(below, site) for below in always_needed(node)]
    return list(found.values())


def numbers_within(form: Node) -> list[Op]:
    """Expressions on sizes alone that a form itself computes for any data, and that may exceed the limit of arrays."""
    found: dict[Op, None] = {}
    seen: set[Node] = {form}
    stack = list(always_needed(form))
    while stack:
        node = stack.pop()
        if node in seen or isinstance(node, (Axis, Parameter, Result, *ARRAY_FORMS)):
            continue
        seen.add(node)
        if not is_size_arithmetic(node):
            stack += always_needed(node)
        elif reach(node) > LARGEST_ARRAY:
            found[node] = None
    return list(found)


def divisions_in(extent: Expr, sites: Mapping[Node, Site]) -> list[Op]:
    """The user's divisions of a size by a possible 0; index-space moves make divisions too, but without a source line."""
    return [
        node
        for node in scalar_nodes(extent)
        if isinstance(node, Op) and node.name in DIVISIONS and node in sites and is_size_arithmetic(node)
        if not Assumptions().less_equal(1, node.args[1])
    ]


def require_divisors(number: Op, sizes: Mapping[str, int], site: Site | None) -> None:
    """Raises `ArithmeticFault` where a divisor in an expression is 0 for these sizes."""
    for node in scalar_nodes(number):
        if isinstance(node, Op) and node.name in DIVISIONS and not evaluate_size(node.args[1], sizes):
            location = replace(site or Site("", 0, ""), array=divisor_text(node.args[1]))
            raise fault_error("division", (evaluate_size(node.args[0], sizes),), location)


def is_size_arithmetic(node: Node) -> TypeGuard[Op]:
    """Whether a node is an operation on sizes and constants that mentions a size."""
    return isinstance(node, Op) and bool(_mentions_size(node))


def is_size(e: Node) -> bool:
    """Whether a scalar is an i64 made of sizes and literals alone."""
    return _mentions_size(e) is not None


def _mentions_size(e: Node) -> bool | None:
    """Whether arithmetic on sizes and constants mentions a size; None for any other scalar. Cached on every node."""
    if hasattr(e, "_mentions_size"):
        return e._mentions_size
    for node in post_order((e,), lambda node: () if hasattr(node, "_mentions_size") else _operands(node)):
        if hasattr(node, "_mentions_size"):
            continue
        if operands := _operands(node):
            answers = [operand._mentions_size for operand in operands]
            known = None if None in answers else any(answers)
        else:
            whole = isinstance(node, (SizeVar, Count, Const)) and node.dtype is i64
            known = isinstance(node, (SizeVar, Count)) if whole else None
        object.__setattr__(node, "_mentions_size", known)
    return e._mentions_size


def _operands(e: Node) -> tuple[Expr, ...]:
    """Operands of an operation used in size arithmetic; empty for any other."""
    return e.args if isinstance(e, Op) and e.name in EXACT and e.dtype is i64 else ()


def _counts(e: Expr) -> Iterable[Node]:
    return [node for node in scalar_nodes(e) if isinstance(node, Count)]
