"""Hoisting of loop-invariant scalars that read an array loop's initial arrays.

    v = q[h];  loop: q with [t] = w[v]      →      v = q[h], made;  loop: q with [t] = w[v]

The loop takes over the memory of `q` if nothing reads the old contents while it runs; an iteration that loaded `v` again would, and all of
`q` would be copied. A scalar that can fault is hoisted where every iteration evaluates it, or the loop's count does: for a scalar state,
for a branch's predicate, or for the elements of an array, if it has any; a guard (`guard`) then tests that there is an iteration.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from raido.algo.graph.expr import (
    Array,
    ArrayCond,
    ArrayLoop,
    ArrayWhile,
    Expr,
    Generate,
    Load,
    Node,
    Result,
    Update,
)
from raido.algo.graph.faults import can_fault
from raido.algo.graph.rewrite import (
    children,
    evaluated_nodes,
    free_variables,
    rebuild,
    rewritten,
    scalar_nodes,
    topological,
)
from raido.schedule.stages.checks import made_for_elements
from raido.schedule.stages.dependent import DEPENDENT
from raido.schedule.stages.tables import Tables
from raido.schedule.stages.uses import host_variables, loops_around


def make_invariants_first(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Hoists scalars that read a loop's initial arrays out of the loop's iterations."""
    nodes = topological(*roots)
    loops = [node for node in nodes if isinstance(node, ArrayLoop | ArrayWhile)]
    begun = {loop: {array for array in loop.init if array.shape} for loop in loops}
    if not any(begun.values()):
        return roots
    homes, hosts = loops_around(nodes), host_variables(nodes)
    within = {
        form: homes[form].intersection(begun) for form in nodes if isinstance(form, (Generate, ArrayCond, *DEPENDENT))
    }
    early: dict[Node, dict[Node, tuple[Expr, ...]]] = {}
    for loop in loops:
        inside: list[Node] = [form for form, around in within.items() if loop in around]
        inside += [loop] if isinstance(loop, ArrayWhile) else []
        sure: dict[Node, tuple[Expr, ...]] = {
            **{
                e: shape
                for e, shape in evaluated_for_elements(loop).items()
                if all(loop not in homes[n] and free_variables(n) <= hosts for n in shape)
            },
            **dict.fromkeys(always_evaluated(loop), ()),
        }
        for form in inside:
            for e in scalar_nodes(*expressions_of_form(form)):
                if loop not in homes[e] and free_variables(e) <= hosts and _reads(e, begun[loop], sure):
                    early.setdefault(form, {})[e] = sure.get(e, ())
    if not early:
        return roots
    parts = {e for form, found in early.items() for e in _largest(form, found)}
    memo: dict[Node, Node] = {}
    for node, _ in tables.renewed(nodes, memo):
        if node in early:
            memo[node] = _with_invariants(node, early[node], parts, memo, tables)
            tables.carry(node, memo[node])
    return rewritten(roots, memo)


def expressions_of_form(form: Node) -> tuple[Node, ...]:
    """Returns the expressions that a form evaluates, or its arrays and expressions."""
    if isinstance(form, ArrayCond):
        return (form.predicate,)
    if isinstance(form, ArrayWhile):
        return (form.condition,)
    return form.bodies if isinstance(form, Generate) else tuple(children(form))


def always_evaluated(loop: ArrayLoop | ArrayWhile) -> set[Node]:
    """Returns the scalars that every iteration evaluates unconditionally: of scalar states, of branch predicates, and of the loop's count
    or condition.
    """
    own = [result.form for result in loop.results if isinstance(result, Result)]
    single = [body for form in own if isinstance(form, Generate) and not form.axes for body in form.bodies]
    deciding = [form.predicate for form in own if isinstance(form, ArrayCond)]
    counted = [loop.count if isinstance(loop, ArrayLoop) else loop.condition]
    return set(evaluated_nodes([*single, *deciding, *counted]))


def evaluated_for_elements(loop: ArrayLoop | ArrayWhile) -> dict[Node, tuple[Expr, ...]]:
    """Returns the scalars that every iteration evaluates for each element of the arrays that it computes or changes.

    Each is mapped to the sizes of such an array: where one of them is 0, the scalar is not evaluated.
    """
    found: dict[Node, tuple[Expr, ...]] = {}
    seen: set[Node] = set()
    stack: list[tuple[Node, tuple[Expr, ...]]] = [
        (result.form, ()) for result in loop.results if isinstance(result, Result)
    ]
    while stack:
        form, sizes = stack.pop()
        if form in seen or not isinstance(form, Generate | Update):
            continue
        seen.add(form)
        values = form.bodies if isinstance(form, Generate) else (*form.values, *form.indices)
        sizes = (*sizes, *(axis.extent for axis in form.axes))
        for node in evaluated_nodes(values):
            found.setdefault(node, sizes)
            if isinstance(node, Load) and isinstance(node.array, Result):
                stack.append((node.array.form, sizes))
    return found


def _reads(e: Node, arrays: Collection[Node], sure: Collection[Node]) -> bool:
    """Whether a scalar reads one of these arrays, and may be evaluated speculatively."""
    if not isinstance(e, Expr):
        return False
    nodes = scalar_nodes(e)
    reads = any(isinstance(node, Load) and node.array in arrays for node in nodes)
    return reads and (e in sure or not any(map(can_fault, nodes)))


def _largest(form: Node, early: Collection[Node]) -> list[Node]:
    """Returns the invariants of a form that are no parts of others."""
    return [e for e in scalar_nodes(*expressions_of_form(form), stop=early) if e in early]


def _with_invariants(
    form: Node, early: Mapping[Node, Sequence[Expr]], parts: Collection[Node], memo: dict[Node, Node], tables: Tables
) -> Node:
    """Returns a form that loads its invariants, each computed if the array of that shape has elements.

    parts: the invariants of all forms that are computed by themselves, and that larger ones load: computed once, they come before the loop
    for all readers, also in branches.
    """
    instead: dict[Node, Node] = {}
    for node in scalar_nodes(form):
        new = rebuild(node, lambda child: instead.get(child, memo.get(child, child)))
        if node in early and node in parts:
            shape = tuple(memo[n] for n in early[node])
            new = tables.scalar(made_for_elements(new, shape), "scalar")  # type: ignore[arg-type]
        instead[node] = new
        tables.carry(node, new)
    return instead[form]
