"""Guards for arrays that can fail and are read in a branch or a loop only: they are computed only where the branch is taken, or the loop
iterates.

    where p(i): use g[j]      becomes      where p(i): use g'[j],  g'[j] = g[j] where p(i)

A branch that is not taken is not evaluated, but an array read in it that becomes a stage of its own is. Such a stage must not fault, or
fail to terminate, where no reader takes the branch, so its elements are guarded. The guard is the predicate; over axes that the array does
not depend on, it is whether the predicate holds anywhere; for an array loop, whether it has a first iteration, since loop-invariant stages
run before it. Arrays that cannot fail stay unguarded: evaluating them is harmless. So do arrays that are read whether a predicate holds or
not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import (
    ARRAY_FORMS,
    Array,
    ArrayLoop,
    ArrayWhile,
    Axis,
    Cond,
    Const,
    Expr,
    Filter,
    Generate,
    Item,
    Loop,
    Op,
    Result,
    Scan,
    Sort,
    Update,
    Var,
    While,
    const,
    if_else,
    zeros,
)
from raido.algo.graph.faults import can_fault, risky
from raido.algo.graph.node import Node, with_fields
from raido.algo.graph.reduction import fold_of
from raido.algo.graph.rewrite import children, free_variables, rewritten, scalar_nodes, topological
from raido.schedule.stages.checks import checked_indices
from raido.schedule.stages.tables import Tables
from raido.schedule.stages.uses import binders, host_variables, loops_around

Guard = tuple[Expr, ...]  # conditions that all hold where an array is read
_GUARDED = (Generate, Scan, Update, Filter, Sort, ArrayLoop, ArrayWhile)


def guard_branches(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Guards every form that can fail by the conditions under which it is read."""
    nodes = topological(*roots)
    unsafe = _unsafe(nodes) if any(isinstance(node, Cond | Loop | ArrayLoop | ArrayWhile) for node in nodes) else set()
    if not unsafe:
        return roots
    found, always = _guards(nodes, roots, unsafe, tables)
    tables.hoistable.update(dict.fromkeys(always, True))
    found = _without_own_loops(found, nodes, tables)
    found = _without_scalar_loops(found, nodes)
    _, axes_of, _ = binders(nodes)
    hosts = host_variables(nodes)
    guards: dict[Node, Expr] = {}
    for form, alternatives in found.items():
        guard = _disjunction(form, alternatives, axes_of, hosts, tables)
        if guard is not None and not _asks(form, guard):
            guards[form] = guard
    return _guarded(roots, guards, tables) if guards else roots


def _unsafe(nodes: list[Node]) -> set[Node]:
    """Returns the forms that can fail or may not terminate, by themselves or through the arrays that they read."""
    return {node for node in risky(nodes) if isinstance(node, _GUARDED)}


def _guards(
    nodes: list[Node], roots: tuple[Array, ...], unsafe: set[Node], tables: Tables
) -> tuple[dict[Node, list[Guard]], set[Node]]:
    """Returns, for each unsafe form that is read in branches only, the guards under which it is read; and the forms that are always
    read.
    """
    always: set[Node] = {root.form for root in roots if isinstance(root, Result)}
    found: dict[Node, list[Guard]] = {}
    for reader in reversed(nodes):
        if not isinstance(reader, ARRAY_FORMS):
            continue
        if reader in found and () in (alternatives := _resolved(found[reader])):
            always.add(reader)
            del found[reader]
        elif reader in found:
            found[reader] = alternatives
        around = [()] if reader in always else found.get(reader, [()])
        for form, guard in _reads(reader, tables):
            if form not in unsafe or form in always:
                found.pop(form, None)
                continue
            here = [tuple(dict.fromkeys((*outer, *guard))) for outer in around]
            if () in here:
                always.add(form)
                found.pop(form, None)
            else:
                found[form] = list(dict.fromkeys((*found.get(form, ()), *here)))
    return found, always


def _resolved(alternatives: list[Guard]) -> list[Guard]:
    """Returns guards in which two that differ in one condition, which the one requires and the other excludes, are one without it: their
    resolvent.
    """
    for one, other in combinations(alternatives, 2):
        apart = set(one) ^ set(other)
        if len(apart) == 2 and any(Op("logical_not", bool_, (p,)) in apart for p in apart):
            rest = (guard for guard in alternatives if guard not in (one, other))
            return _resolved(list(dict.fromkeys((*rest, tuple(p for p in one if p in other)))))
    return alternatives


def _without_own_loops(found: dict[Node, list[Guard]], nodes: list[Node], tables: Tables) -> dict[Node, list[Guard]]:
    """Removes, from the guards of forms inside a loop, the conditions that being inside it implies.

    A loop that iterates implies that it runs, and all conditions common to its own readers that it can express, since its own guard tests
    them.
    """
    runs: dict[Node, Expr | None] = {
        form: _runs(form, tables) for form in nodes if isinstance(form, ArrayLoop | ArrayWhile)
    }
    outside = frozenset(host_variables(nodes))
    answered: dict[Node, set[Expr | None]] = {form: {question} for form, question in runs.items()}
    for form in found.keys() & runs.keys():
        known = free_variables(form) | outside
        common = set.intersection(*map(set, found[form]))
        answered[form] |= {p for p in common if p in runs.values() or free_variables(p) <= known}
    inside = loops_around(nodes)
    return {
        form: [
            tuple(p for p in guard if all(p not in answered[loop] for loop in inside[form])) for guard in alternatives
        ]
        for form, alternatives in found.items()
    }


def _without_scalar_loops(found: dict[Node, list[Guard]], nodes: list[Node]) -> dict[Node, list[Guard]]:
    """Removes, from the guards of forms that mention the counter or state of a scalar loop, the condition that this loop iterates, and
    that those around it do: such forms are evaluated inside the loop.
    """
    implied: dict[Node, frozenset[Expr]] = {}
    for loop in reversed([node for node in nodes if isinstance(node, Loop | While)]):  # outer loops first
        runs = _iterates(loop.count) if isinstance(loop, Loop) else None
        own = frozenset() if runs is None else frozenset((runs,))
        around = own.union(*(implied[v] for v in free_variables(loop) if v in implied))
        variables = (*loop.state, loop.index) if isinstance(loop, Loop) else loop.state
        implied.update(dict.fromkeys(variables, around))
    kept = {}
    for form, alternatives in found.items():
        true = frozenset[Expr]().union(*(implied.get(v, ()) for v in free_variables(form)))
        kept[form] = [tuple(p for p in guard if p not in true) for guard in alternatives]
    return kept


def _runs(form: ArrayLoop | ArrayWhile, tables: Tables) -> Expr | None:
    """Returns the condition that a loop has a first iteration; None where it always has."""
    if isinstance(form, ArrayLoop):
        return _iterates(form.count)
    before: dict[Node, Node] = dict(zip(form.state, form.init, strict=True))
    return tables.renew(topological(form.condition), before)[form.condition]


def _reads(reader: Node, tables: Tables) -> Iterator[tuple[Node, Guard]]:
    """Yields the forms that a form reads, each with the conditions of the branches and loops it is read in."""
    stack: list[tuple[Node, Guard]] = [(child, ()) for child in children(reader)]
    if isinstance(reader, ArrayLoop | ArrayWhile):
        runs = _runs(reader, tables)
        before = (reader.count, *reader.init) if isinstance(reader, ArrayLoop) else (reader.condition, *reader.init)
        stack = [*((e, ()) for e in before), *((e, () if runs is None else (runs,)) for e in reader.results)]
    seen: set[tuple[Node, Guard]] = set()
    while stack:
        node, guard = stack.pop()
        if (node, guard) in seen:
            continue
        seen.add((node, guard))
        if isinstance(node, Result):
            yield node.form, guard
        elif isinstance(node, Item) and isinstance(node.form, Cond):
            form = node.form
            stack.append((form.predicate, guard))
            stack += [(e, (*guard, form.predicate)) for e in form.then]
            stack += [(e, (*guard, Op("logical_not", bool_, (form.predicate,)))) for e in form.orelse]
        elif isinstance(node, Item) and isinstance(node.form, Loop):
            form = node.form
            stack += [(e, guard) for e in (form.count, *form.init)]
            runs = _iterates(form.count)
            stack += [(e, guard if runs is None else (*guard, runs)) for e in form.body]
        else:
            stack += [(child, guard) for child in children(node)]


def _iterates(count: Expr) -> Expr | None:
    """Returns the condition that a trip count is not 0; None where it never is."""
    return None if isinstance(count, Const) and int(count.value) > 0 else Op("gt", bool_, (count, const(i64, 0)))


def _disjunction(
    form: Node, alternatives: list[Guard], axes_of: Mapping[Var, Axis], hosts: Iterable[Var], tables: Tables
) -> Expr | None:
    """Returns the condition that some reader needs the form, in the variables that the form mentions; None where these cannot
    express it.
    """
    known = free_variables(form) | frozenset(hosts)
    total: Expr | None = None
    sets = [set(guard) for guard in alternatives]
    for guard in alternatives:
        if any(other < set(guard) for other in sets):
            continue  # implied by the weaker guard
        part: Expr | None = None
        for predicate in guard:
            if free_variables(predicate) <= known | axes_of.keys():
                part = _both(part, predicate, tables)
        if part is None:
            return None
        unknown = [axes_of[v] for v in sorted(free_variables(part) - known, key=lambda v: v.serial)]
        part = _any(part, unknown, tables) if unknown else part
        total = part if total is None else Op("logical_or", bool_, (total, part))
    return total


def _both(first: Expr | None, second: Expr, tables: Tables) -> Expr:
    """Returns the conjunction of two conditions; the second is evaluated only where the first holds, and once, if it is more than
    arithmetic.
    """
    within = scalar_nodes(second)
    if not any(isinstance(node, Item) or can_fault(node) for node in within):
        return second if first is None else Op("logical_and", bool_, (first, second))
    body = second if first is None else if_else(first, (second,), (const(bool_, False),))[0]
    return tables.scalar(body, "condition")


def _any(predicate: Expr, axes: list[Axis], tables: Tables) -> Expr:
    """Returns whether a predicate holds anywhere along some axes, as an element of a form of its own, computed once."""
    own, (value,) = tables.over_new_axes((predicate,), axes)
    return tables.scalar(fold_of(own, value, "logical_or", False), "condition")


def _asks(form: Node, guard: Expr) -> bool:
    """Whether the elements of a form are already guarded by this condition."""
    bodies = form.bodies if isinstance(form, Generate) else getattr(form, "values", ())
    return bool(bodies) and all(
        isinstance(e, Item) and isinstance(e.form, Cond) and e.form.predicate is guard for e in bodies
    )


def _guarded(roots: tuple[Array, ...], guards: dict[Node, Expr], tables: Tables) -> tuple[Array, ...]:
    """Returns the graph in which these forms are guarded."""
    memo: dict[Node, Any] = {}
    for node, new in tables.renewed(_order(roots, guards), memo):
        if node in guards:
            memo[node] = _with_guard(new, memo[guards[node]], tables)
            tables.hoistable[memo[node]] = True
            tables.carry(node, memo[node])
    return rewritten(roots, memo)


def _order(roots: tuple[Array, ...], guards: dict[Node, Expr]) -> list[Node]:
    """Returns every node after its children, and a guarded form after its guard. Cyclic guards are removed from `guards`."""
    done: dict[Node, None] = {}
    for root in roots:
        path: dict[Node, Iterator[Node]] = {root: _below(root, guards)}
        while path:
            node, rest = next(reversed(path.items()))
            for child in rest:
                if child in path:
                    circle = list(path)[list(path).index(child) :]
                    for form in circle:
                        guards.pop(form, None)
                    return _order(roots, guards)
                if child not in done:
                    path[child] = _below(child, guards)
                    break
            else:
                path.pop(node)
                done[node] = None
    return list(done)


def _below(node: Node, guards: Mapping[Node, Expr]) -> Iterator[Node]:
    yield from children(node)
    if node in guards:
        yield guards[node]


def _with_guard(form: Any, guard: Expr, tables: Tables) -> Node:
    if isinstance(form, Generate):
        return Generate(form.axes, if_else(guard, form.bodies, zeros(form.bodies)))
    if isinstance(form, Scan):
        combine = form.combine
        if any(can_fault(node) for node in topological(*combine)):
            combine = if_else(guard, combine, form.left)
        values = if_else(guard, form.values, zeros(form.values))
        neutral = if_else(guard, form.neutral, zeros(form.neutral))
        monoid = form.monoid if combine is form.combine else ""
        return with_fields(form, combine=combine, values=values, neutral=neutral, monoid=monoid)
    if isinstance(form, (Filter, Sort)):
        values = if_else(guard, form.values, zeros(form.values))
        if isinstance(form, Sort):
            return with_fields(form, values=values)
        return with_fields(form, values=values, predicate=if_else(guard, (form.predicate,), (const(bool_, False),))[0])
    if isinstance(form, Update):
        # An unchecked index out of range is ignored, so that the update has no effect where the guard is false.
        indices = form.indices
        if form.checked:
            indices = checked_indices(form, indices, form.dest[0].shape, tables)
        indices = if_else(guard, indices, tuple(const(i64, -1) for _ in indices))
        values = if_else(guard, form.values, zeros(form.values))
        return with_fields(form, indices=indices, values=values, checked=False)
    if isinstance(form, ArrayLoop):
        count = Item(Cond(guard, (form.count,), (const(i64, 0),)), 0)
        return ArrayLoop(count, form.index, form.state, form.init, form.results)
    condition = Item(Cond(guard, (form.condition,), (const(bool_, False),)), 0)
    return ArrayWhile(condition, form.state, form.init, form.results)
