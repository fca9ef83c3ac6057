"""Arithmetic on sizes that is checked before anything is computed with it: numbers must keep to the limits of sizes, as extents must, and
where the user divides by a size, in an extent or a trip count, it must not be 0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeGuard

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
from raido.algo.graph.facts import Facts
from raido.algo.graph.faults import fault_error
from raido.algo.graph.limits import LARGEST_ARRAY, always_needed, divisor_text, reach
from raido.algo.graph.primitives import DIVISIONS
from raido.algo.graph.program import Program, Site
from raido.algo.graph.rewrite import post_order, scalar_nodes


@dataclass(frozen=True, slots=True)
class SizeNumber:
    """Arithmetic on sizes, and the line that computes with it."""

    value: Op
    site: Site | None


def size_numbers(program: Program) -> list[SizeNumber]:
    """The numbers that every call computes, made of sizes alone, that some sizes make larger than any array, and the divisions in extents
    and trip counts.

    What stands in a branch, or in the body of a loop, may never be computed; how large extents are is the business of `sized_arrays`.
    """
    return numbers_of(program.results, program.sites, divisions_alone=False)


def numbers_of(
    results: Iterable[Node], sites: Mapping[Node, Site], *, divisions_alone: bool = True
) -> list[SizeNumber]:
    """`size_numbers` of what these results need whatever the data; only the divisions in extents and trip counts, unless said."""
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
    """The numbers made of sizes that a form computes itself, whatever the data."""
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
    """The divisions of a size by what may be 0 that the user wrote: they have a line, those that moves of indices make have none."""
    return [
        node
        for node in scalar_nodes(extent)
        if isinstance(node, Op) and node.name in DIVISIONS and node in sites and is_size_arithmetic(node)
        if not Facts().less_equal(1, node.args[1])
    ]


def require_divisors(number: Op, sizes: Mapping[str, int], site: Site | None) -> None:
    """ArithmeticFault where a number divides by what is 0 for these sizes."""
    for node in scalar_nodes(number):
        if isinstance(node, Op) and node.name in DIVISIONS and not evaluate_size(node.args[1], sizes):
            place = replace(site or Site("", 0, ""), array=divisor_text(node.args[1]))
            raise fault_error("division", (evaluate_size(node.args[0], sizes),), place)


def is_size_arithmetic(node: Node) -> TypeGuard[Op]:
    """Whether a node is an operation on sizes alone."""
    return isinstance(node, Op) and bool(_mentions_size(node))


def is_size(e: Node) -> bool:
    """Whether a scalar is an i64 made of sizes and literals alone."""
    return _mentions_size(e) is not None


def _mentions_size(e: Node) -> bool | None:
    """Whether arithmetic on sizes and constants mentions a size; None for any other scalar. Every node keeps its answer."""
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
    """The operands of an operation that sizes are computed with."""
    return e.args if isinstance(e, Op) and e.name in EXACT and e.dtype is i64 else ()


def _counts(e: Expr) -> Iterable[Node]:
    return [node for node in scalar_nodes(e) if isinstance(node, Count)]
