"""Index-set splitting (Allen & Kennedy) by value: loops skip iterations that would store the old elements.

    for y in 0..n:                                                   for y in k + 1..n:
      for x in 0..n:                                                   for x in k..n:
        old = m[y, x]                                       becomes      old = m[y, x]
        m[y, x] = f if y > k and x > k else                              m[y, x] = f if x > k else
                  (g if y > k and x == k else old)                                 (g if x == k else old)

Elimination without pivots written by `where` is such a loop, and so is a triangle, whose rows end at the diagonal: `x <= y`. A selection
whose default is the old element compares an index with loop-invariant values, and is new only where the comparisons hold: the loop runs
from the least such index to the greatest. Nothing else in the loop has an effect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import combinations
from typing import Any, TypeAlias

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Expr, Node, Op, Var, const
from raido.algo.graph.faults import is_index_of
from raido.schedule.nest.effects import written
from raido.schedule.nest.fold_constants import fold_constants
from raido.schedule.nest.nodes import Block, For, If, Let, Nest, Prefetch, Produce, Statement, Store
from raido.schedule.nest.replace_buffers import map_expressions
from raido.schedule.nest.values import Read
from raido.schedule.nest.walk import statements_within, with_blocks, with_statements

Case: TypeAlias = "tuple[tuple[Expr, Op], ...]"
"""Comparisons of indices that all hold where something is stored that may not be there yet: as they are written, and, negated where they must
not hold, as they hold."""
Bounds: TypeAlias = "tuple[Expr | None, Expr | None]"
"""The first index of a case and the one behind its last, where its conditions say them."""

_MOST_CASES = 8  # a loop begins at the least of as many numbers, computed each time it is entered: in about the time of a gang or two
_FEW = 64  # lanes of the widest register: a loop without fewer iterations takes as many steps
_KINDS = ("serial", "parallel", "vector")


def leave_out_unchanged(nest: Nest) -> Nest:
    """Restricts loops to the elements they change, where stores select the old element for the rest."""
    if not any(isinstance(s, Store) and _chooses(s) for s in statements_within(nest.body)):
        return nest
    body = _block(nest.body, Assumptions(), {})
    return nest if body is nest.body else fold_constants(replace(nest, body=body))


def _chooses(s: Store) -> bool:
    """Whether the value of a store is a selection."""
    return isinstance(s.value, Op) and s.value.name == "select"


def _block(block: Block, assumptions: Assumptions, names: Mapping[Node, Expr]) -> Block:
    known = dict(names)
    made = []
    for s in block.statements:
        if isinstance(s, Let):
            known[s.var] = s.value  # type: ignore[assignment]
        made += _statement(s, assumptions, known)
    return with_statements(block, made)


def _statement(s: Any, assumptions: Assumptions, names: Mapping[Node, Expr]) -> list[Any]:
    if not isinstance(s, For):
        return [with_blocks(s, lambda block: _block(block, assumptions, names))]
    cases = _cases(s.body, names, ()) if s.kind in _KINDS and s.step == 1 else None
    loops = [s] if not cases else _over_cases(s, cases, assumptions)
    made = []
    for loop in loops:
        inner = assumptions.with_range(loop.var, loop.low, ix.sub(loop.high, 1))  # type: ignore[arg-type]
        made.append(with_blocks(loop, lambda block, inner=inner: _block(block, inner, names)))
    return made


# --- where a statement stores what may be new


def _cases(s: Statement, names: Mapping[Node, Expr], under: Case) -> list[Case] | None:
    """Returns the cases in which a statement has an effect; None where that is not known, or always."""
    if isinstance(s, Block):
        return _cases_of_block(s, names, under)
    if isinstance(s, (For, Produce)):
        return _cases(s.body, names, under)
    if isinstance(s, If):
        sides = [(*under, *_comparisons(s.condition, holds, names)) for holds in (True, False)]  # type: ignore[arg-type]
        then = _cases(s.then, names, sides[0])
        orelse = [] if s.orelse is None else _cases(s.orelse, names, sides[1])
        return None if then is None or orelse is None else [*then, *orelse]
    return [] if isinstance(s, Prefetch) else None


def _cases_of_block(block: Block, names: Mapping[Node, Expr], under: Case) -> list[Case] | None:
    known, own = dict(names), set[Node]()
    stores = [s for s in block.statements if isinstance(s, Store)]
    others = [s for s in block.statements if not isinstance(s, (Store, Let))]
    if stores and (not written(*others).isdisjoint(s.buffer for s in stores) or not _apart(stores)):
        return None
    found: list[Case] = []
    for s in block.statements:
        if isinstance(s, Let):
            known[s.var] = s.value  # type: ignore[assignment]
            own.add(s.var)
            continue
        cases = _cases_of_store(s, known, own, under) if isinstance(s, Store) else _cases(s, known, under)
        if cases is None or len(found) + len(cases) > _MOST_CASES:
            return None
        found += cases
    return found


def _apart(stores: Sequence[Store]) -> bool:
    """Whether no two stores of a block meet in one element."""
    return all(
        a.buffer is not b.buffer
        or any(ix.difference(i, j) not in (None, 0) for i, j in zip(a.indices, b.indices, strict=True))  # type: ignore[arg-type]
        for a, b in combinations(stores, 2)
    )


def _cases_of_store(s: Store, names: Mapping[Node, Expr], own: Collection[Node], under: Case) -> list[Case] | None:
    """Returns the cases in which a store brings another value than the element's, which is read in the same block; None where that is not
    known, or always.
    """
    if s.predicate is not None or s.asynchronous:
        return None
    found: list[Case] = []
    stack: list[tuple[Any, Case]] = [(s.value, under)]
    while stack:
        value, case = stack.pop()
        if value in own:
            value = names[value]
        if isinstance(value, Op) and value.name == "select":
            test, yes, no = value.args
            sides = ((no, False), (yes, True))
            stack += [(side, (*case, *_comparisons(test, holds, names))) for side, holds in sides]
        elif not (isinstance(value, Read) and value.predicate is None and _is_element(value, s)):
            found.append(case)
            if not case or len(found) > _MOST_CASES:
                return None
    return found


def _is_element(e: Read, s: Store) -> bool:
    return e.buffer is s.buffer and e.indices == s.indices


def _comparisons(test: Expr, holds: bool, names: Mapping[Node, Expr]) -> list[tuple[Expr, Op]]:
    """Returns the comparisons of indices implied by a condition that holds, or does not."""
    found: list[tuple[Expr, Op]] = []
    stack = [(test, holds)]
    while stack:
        test, holds = stack.pop()
        while test in names:
            test = names[test]
        if not isinstance(test, Op):
            continue
        if test.name == "logical_not":
            stack.append((test.args[0], not holds))
        elif test.name == ("logical_and" if holds else "logical_or"):
            stack += [(part, holds) for part in test.args]
        elif test.name in (*ix.NEGATED, "eq") and test.args[0].dtype is i64 and (holds or test.name in ix.NEGATED):
            found.append((test, test if holds else Op(ix.NEGATED[test.name], bool_, test.args)))
    return found


# --- a loop over the cases alone


def _over_cases(loop: For, cases: Sequence[Case], assumptions: Assumptions) -> list[For]:
    """Returns the loop restricted to the range of its cases.

    Of a vector loop, a single first index that is a case by itself is peeled, and the loop begins behind it.
    """
    bounds = [_bounds(case, loop.var, assumptions) for case in cases]
    single = next((low for low, high in bounds if low is not None and high is ix.add(low, 1)), None)
    if loop.kind == "vector" and single is not None:
        rest = [(low, high) for low, high in bounds if low is not single or high is not ix.add(single, 1)]
        if rest and all(low is not None and assumptions.less(single, low) for low, _ in rest):
            alone = _with_bounds(replace(loop, kind="serial"), [(single, ix.add(single, 1))], cases, assumptions, 0)
            return [alone, _with_bounds(loop, rest, cases, assumptions, 0)]
    return [_with_bounds(loop, bounds, cases, assumptions, _FEW)]


def _with_bounds(loop: For, bounds: Sequence[Bounds], cases: Sequence[Case], assumptions: Assumptions, few: int) -> For:
    """Returns the loop over the range of some cases, unless that removes at most `few` iterations at an end; comparisons that are then
    constant are folded.
    """
    lows, highs = [low for low, _ in bounds], [high for _, high in bounds]
    low, high = loop.low, loop.high
    if None not in lows:
        low = _tightened(assumptions.greater, low, reduce(assumptions.lesser, lows), few)  # type: ignore[arg-type]
    if None not in highs:
        high = _tightened(assumptions.lesser, high, reduce(assumptions.greater, highs), few)  # type: ignore[arg-type]
    if low is loop.low and high is loop.high:
        return loop
    held = _held(cases, loop.var, assumptions, assumptions.with_range(loop.var, low, ix.sub(high, 1)))  # type: ignore[arg-type]
    body = map_expressions(loop.body, lambda e: e, lambda b: b, held) if held else loop.body
    return replace(loop, low=low, high=high, body=body)


def _bounds(case: Case, var: Var, assumptions: Assumptions) -> Bounds:
    """Returns the first index of a case and the one behind its last, each None where its conditions do not bound it."""
    low: Expr | None = None
    high: Expr | None = None
    for _, test in case:
        solved = ix.solved_for(test, var)
        if solved is None or not _is_known_outside(solved[1], assumptions):
            continue
        name, bound = solved
        if name in ("gt", "ge", "eq"):
            first = ix.add(bound, 1) if name == "gt" else bound
            low = first if low is None else ix.maximum(low, first)
        if name in ("lt", "le", "eq"):
            end = bound if name == "lt" else ix.add(bound, 1)
            high = end if high is None else ix.minimum(high, end)
    return low, high


def _is_known_outside(e: Expr, assumptions: Assumptions) -> bool:
    """Whether an index is made of sizes and of the counters of loops around, without operations that can fault."""
    return is_index_of(e, lambda node: isinstance(node, Var) and node in assumptions.ranges)


def _tightened(extreme: Callable[[Expr, Expr], Expr], bound: Any, other: Expr, few: int) -> Any:
    """Returns the extreme of a bound of a loop and a tighter one, or the bound itself where that removes at most `few` iterations."""
    distance = ix.difference(bound, other)
    if distance is not None and abs(distance) <= few:
        return bound
    return extreme(bound, other)


def _held(cases: Sequence[Case], var: Var, assumptions: Assumptions, here: Assumptions) -> dict[Node, Node]:
    """Maps the comparisons that are constant over the remaining iterations (`here`) to their values."""
    found: dict[Node, Node] = {}
    for written_out, test in dict.fromkeys(each for case in cases for each in case):
        solved = ix.solved_for(test, var)
        if solved is None or not _is_known_outside(solved[1], assumptions):
            continue
        holds = _known(solved[0], var, solved[1], here)
        if holds is not None:
            found[written_out] = const(bool_, holds is (written_out is test))
    return found


def _known(name: str, var: Var, bound: Expr, here: Assumptions) -> bool | None:
    """Returns the value of a comparison of a counter that is constant; None where it is not, or not known."""
    if name == "eq":
        never = here.less(bound, var) or here.less(var, bound)
        return False if never else True if here.equal(bound, var) else None
    if name in ("gt", "le"):
        holds = True if here.less(bound, var) else False if here.less_equal(var, bound) else None
        return holds if name == "gt" or holds is None else not holds
    holds = True if here.less(var, bound) else False if here.less_equal(bound, var) else None
    return holds if name == "lt" or holds is None else not holds
