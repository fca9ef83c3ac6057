"""Reductions from any initial value: one with an initial value that is not neutral becomes one from a neutral element, and a final step.

    rd.reduce(rd.add, 5, a)             5 + rd.reduce(rd.add, 0, a)
    rd.reduce(matmul, m, matrices)      m @ (the product of the matrices), if there are any

Threads and lanes start partial results of their own, so their initial value must be neutral. An operator made of primitives has known
neutral elements, or (`maximum`) is idempotent, so that an initial value may take part several times. Any other operator is tested:
`op(start, start)` and `op(start, x)`, for a few values x of the fold, must give `start` and `x` back. Where they do not, an artificial
neutral element is added to the operator's domain: "no value yet".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import (
    Const,
    Constant,
    Expr,
    Item,
    Load,
    Op,
    Reduce,
    SizeVar,
    Update,
    Var,
    const,
    fresh,
)
from raido.algo.graph.faults import operator_can_fault
from raido.algo.graph.node import Node, with_fields
from raido.algo.graph.primitives import DIVISIONS, evaluate
from raido.algo.graph.program import Program
from raido.algo.graph.reduction import either, identities_of, join_partials
from raido.algo.graph.rewrite import rebuild, scalar_nodes, topological

IDEMPOTENT = frozenset(["minimum", "maximum", "logical_and", "logical_or", "bit_and", "bit_or"])
NUMBERS = (0, 1, 2, 3, 5)
MODULUS = 7  # the trial value of free variables of an operator, most likely a modulus or a bound
TRIALS = 5


def start_neutral(program: Program) -> Program:
    """The program whose reductions all start from neutral elements."""
    from raido.algo.passes.finish import follow_tables

    nodes = topological(*program.results)
    if not any(_changes(node) for node in nodes):
        return program
    memo: dict[Node, Node] = {}
    made: dict[Node, Node] = {}
    for node in nodes:
        new: Any = rebuild(node, memo.__getitem__)
        if isinstance(new, Item) and isinstance(new.form, Reduce):
            new = folded_from_neutral(new.form, made)[new.index]
        elif isinstance(new, Update):
            new = with_fields(new, neutral=identities_of(new) or new.neutral)
        memo[node] = new
    program = follow_tables(program, memo, tuple(memo[result] for result in program.results))
    sites = {new: program.sites[old] for new, old in made.items() if old in program.sites}
    return replace(program, sites={**sites, **program.sites})


def folded_from_neutral(form: Reduce, made: dict[Node, Node]) -> tuple[Expr, ...]:
    """The results of a reduction, with inner reductions that start from neutral elements. `made` maps new nodes of the final step to old
    ones."""
    if _starts_neutral(form):
        return _items(form)
    neutral = identities_of(form)
    if neutral:
        return join_partials(form, form.neutral, _items(with_fields(form, neutral=neutral)), made)
    here, there = fresh("here", bool_), fresh("there", bool_)
    both = Op("logical_and", bool_, (here, there))
    branch = operator_can_fault(*form.combine)
    fold = Reduce(
        form.axes,
        (here, *form.left),
        (there, *form.right),
        (
            Op("logical_or", bool_, (here, there)),
            *either(both, form.combine, either(here, form.left, form.right, False), branch),
        ),
        (const(bool_, False), *form.neutral),
        (const(bool_, True), *form.values),
        form.commutative,
        "",
    )
    some, *totals = _items(fold)
    return either(some, join_partials(form, form.neutral, tuple(totals), made), form.neutral, branch)


def _changes(node: Node) -> bool:
    """Whether a node folds from an initial value that is not neutral."""
    if isinstance(node, Update):
        return bool(identities_of(node)) and not _is_harmless(node)
    return isinstance(node, Reduce) and not _starts_neutral(node)


def _is_harmless(form: Reduce | Update) -> bool:
    """Whether the initial value may take part any number of times: the operator applies to each part of an element a primitive that is
    idempotent, or whose identity it is."""
    known = identities_of(form)
    return bool(known) and all(
        e.name in IDEMPOTENT or _same((identity,), (start,))  # type: ignore[attr-defined]
        for e, identity, start in zip(form.combine, known, form.neutral, strict=True)
    )


def _starts_neutral(form: Reduce) -> bool:
    """Whether a reduction's initial value is neutral, as known or found by trials."""
    if identities_of(form):
        return _is_harmless(form)
    start = [_folded(e, {}) for e in form.neutral]
    if not all(isinstance(e, Const) for e in start):
        return False
    trials = [start, *([_folded(e, _drawn(form.values, k)) for e in form.values] for k in range(TRIALS))]
    for trial in trials:
        if all(isinstance(e, Const) for e in trial):
            read = {
                node: const(node.dtype, MODULUS)
                for node in scalar_nodes(*form.combine)
                if isinstance(node, (Load, SizeVar))
            }
            operands = read | dict(zip(form.left + form.right, (*start, *trial), strict=True))
            got = [_folded(e, operands) for e in form.combine]
            if all(isinstance(e, Const) for e in got) and not _same(got, trial):
                return False
    return True


def _drawn(values: tuple[Expr, ...], trial: int) -> dict[Node, Node]:
    """Values for everything that expressions read, for a trial: zeros in the first, ones in the second, then random numbers."""
    draw = Random(trial)
    return {
        node: const(node.dtype, draw.choice(NUMBERS) if trial > 1 else trial)
        for node in scalar_nodes(*values)
        if isinstance(node, (Load, Var, Item)) and not isinstance(getattr(node, "array", None), Constant)
    }


def _folded(root: Expr, values: Mapping[Any, Node]) -> Node:
    """An expression with nodes replaced, and constants folded."""
    memo: dict[Node, Node] = dict(values)
    for node in scalar_nodes(root, stop=frozenset(values)):
        if node not in memo:
            new = rebuild(node, lambda child: memo.get(child, child))
            memo[node] = _computed(new)
    return memo[root]


def _computed(node: Node) -> Node:
    if isinstance(node, Load) and isinstance(node.array, Constant):
        contents = np.asarray(node.array.data.array)
        alike = contents.size > 0 and (contents == contents.flat[0]).all()
        indices = [int(i.bits) for i in node.indices if isinstance(i, Const)]
        if alike or len(indices) == len(node.indices):
            return const(node.dtype, contents.flat[0] if alike else contents[tuple(indices)])
    if isinstance(node, Op) and all(isinstance(a, Const) for a in node.args) and not _divides_by_zero(node):
        value = evaluate(node.name, node.dtype, [np.asarray(a.value, a.dtype.numpy) for a in node.args])  # type: ignore[union-attr]
        return const(node.dtype, value[()])
    return node


def _divides_by_zero(node: Op) -> bool:
    return node.name in DIVISIONS and node.args[-1].bits == 0  # type: ignore[attr-defined]


def _same(found: Any, wanted: Any) -> bool:
    """Whether two elements are equal as numbers; NaN equals NaN."""
    if not all(isinstance(e, Const) for e in (*found, *wanted)):
        return False
    return all(
        a.value == b.value or (a.value != a.value and b.value != b.value) for a, b in zip(found, wanted, strict=True)
    )


def _items(form: Reduce) -> tuple[Expr, ...]:
    return tuple(Item(form, k) for k in range(len(form.left)))
