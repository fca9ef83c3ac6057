"""Lifting of arrays and folds out of functions into forms of their own, the inverse of beta-reduction, so no value changes.

Arrays computed inside mapped functions are lifted, with the axes they depend on in front; of a scan down columns the innermost of these
axes goes behind, so that lanes run over neighbouring columns. Reductions are brought to the top of their form (one `Reduce` a form); others
become forms of their own, or stay as loops inside, where those of one iteration or branch over equal extents become one. Afterwards every
`Generate` (and every form of `dependent`) is closed and is one stage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph import index as ix
from raido.algo.graph.expr import (
    Array,
    Axis,
    Cond,
    Expr,
    Filter,
    Generate,
    Item,
    Load,
    Loop,
    Parameter,
    Reduce,
    Result,
    Scan,
    Sort,
    Update,
    Var,
    While,
    fresh,
)
from raido.algo.graph.node import Node, with_fields
from raido.algo.graph.rewrite import children, free_variables, rebuild, rewritten, scalar_nodes, topological
from raido.schedule.stages.checks import checked_indices
from raido.schedule.stages.dependent import DEPENDENT, Dependent, close_form, is_ragged
from raido.schedule.stages.inline import SHORT, _has_reduce, go_down_columns, inline_transpositions
from raido.schedule.stages.tables import Tables
from raido.schedule.stages.uses import binders, host_variables


def lift_open(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Closes arrays that mention variables of functions around them, with the axes they depend on in front.

    Arrays that mention the state of a scalar loop are inlined instead.
    """
    nodes = topological(*roots)
    order, axes_of, owner = binders(nodes)
    hosts = host_variables(nodes)
    memo: dict[Node, Node] = {}

    def lifted(load: Load) -> Expr:
        """Returns a load of an open array as a load of the closed one, or as the inlined element."""
        array = load.array
        if not isinstance(array, Result) or not isinstance(array.form, _OPEN):
            return load
        form = array.form
        outside = free_variables(form) - hosts
        if not outside:
            return load
        new: Expr
        if outside <= axes_of.keys():
            outer = sorted(outside, key=order.__getitem__)
            axes: list[Any] = [memo.get(axes_of[v], axes_of[v]) for v in outer]
            closed = tables.closed.get((form, *axes))
            if closed is None:
                closed = _closed(_from_copies(form, lifted, tables) if isinstance(form, Update) else form, axes, tables)
                closed = _down_columns(closed, tables) if isinstance(closed, Scan) else closed
                tables.closed[(form, *axes)] = closed
            tables.parents.setdefault(closed, owner[outer[0]])
            behind = 1 if isinstance(closed, Scan) and closed.along < len(outer) else 0
            first, last = outer[: len(outer) - behind], outer[len(outer) - behind :]
            new = Load(Result(closed, array.index), (*first, *load.indices, *last), load.checked)
        elif not isinstance(form, Generate):
            raise CompileError(
                f"a {type(form).__name__.lower()} inside a scalar loop that depends on the loop's state is not supported"
            )
        else:
            indices = checked_indices(load, load.indices, array.shape, tables) if load.checked else load.indices
            new = tables.beta(form, array.index, indices)
        tables.carry(load, new)
        return new

    for node in nodes:
        new = rebuild(node, memo.__getitem__)
        if new is not node:
            tables.carry(node, new)
        memo[node] = lifted(new) if isinstance(new, Load) else new
    return inline_transpositions(rewritten(roots, memo), tables)


def _from_copies(form: Update, lifted: Callable[[Load], Expr], tables: Tables) -> Update:
    """Returns an update of arrays that are read element by element, so that open ones are lifted as for any reader."""
    dims = tuple(Axis(fresh(f"d{k}"), extent) for k, extent in enumerate(form.dest[0].shape))
    indices = tuple(axis.var for axis in dims)
    if not any(isinstance(d, Result) and isinstance(d.form, DEPENDENT) for d in form.dest):
        return form
    start = Generate(dims, tuple(lifted(Load(d, indices, False)) for d in form.dest))
    new = with_fields(form, dest=tuple(Result(start, k) for k in range(len(form.dest))))
    tables.carry(form, new)
    return new


def _down_columns(form: Scan, tables: Tables) -> Scan:
    """Returns a scan under maps with the innermost map axis behind the scanned one, if it reads more than a few columns."""
    *outer, column, own = form.axes
    few = (ix.constant_value(column.extent) or SHORT) < SHORT
    if few or form.along < len(form.axes) - 1 or not go_down_columns(scalar_nodes(*form.values), column.var):
        return form
    turned = with_fields(form, axes=(*outer, own, column), along=form.along - 1)
    tables.carry(form, turned)
    tables.outer[turned] = len(outer)
    return turned


_OPEN = (Generate, *DEPENDENT)


def _closed(form: Generate | Dependent, outer: list[Axis], tables: Tables) -> Generate | Dependent:
    """Returns `form` with `outer` axes in front, as fresh variables; memoised, so that equal arguments give one form."""
    key = (form, *outer)
    if key in tables.closed:
        return tables.closed[key]
    closed = tables.with_axes(form, outer) if isinstance(form, Generate) else close_form(form, outer, tables)
    tables.carry(form, closed)
    tables.outer[closed] = tables.outer.get(form, 0) + len(outer)
    tables.closed[key] = closed
    return closed


def lift_reductions(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Leaves at most one `Reduce` at the top of each form; reductions under it, or beside it over other axes, become forms.

    So do all reductions in scans, filters and sorts, which may evaluate a value twice, and those in an update that are the same for several
    of its steps, such as the row of a pivot.
    """
    nodes = topological(*roots)
    memo: dict[Node, Node] = {}
    for node in nodes:
        new = rebuild(node, memo.__getitem__)
        if isinstance(new, Loop | While):
            new = with_fields(new, body=_merged_siblings(new.body, tables))
        elif isinstance(new, Cond):
            new = Cond(new.predicate, _merged_siblings(new.then, tables), _merged_siblings(new.orelse, tables))
        elif isinstance(new, Generate) and _has_reduce(new):
            merged = _one_reduction(new, tables)
            tables.carry(new, merged)
            new = merged
        elif isinstance(new, (Scan, Filter, Sort)):
            new = _without_reductions(new, tables)
        elif isinstance(new, Update):
            new = _without_shared_reductions(new, tables)
        if new is not node:
            tables.carry(node, new)
        memo[node] = new
    return rewritten(roots, memo)


def _without_reductions(form: Scan | Filter | Sort, tables: Tables) -> Scan | Filter | Sort:
    """Lifts the folds in a form's values, and in a filter's predicate, into forms of their own."""
    axes = {axis.var: axis for axis in form.axes}
    asked = (form.predicate,) if isinstance(form, Filter) else ()
    bodies: tuple[Expr, ...] = (*asked, *form.values)
    while eager := _eager_reductions(bodies):
        bodies = _lift_reduce(form, bodies, _outermost(eager)[0], axes, [], tables)
    return with_fields(form, values=bodies[len(asked) :], **({"predicate": bodies[0]} if asked else {}))


def _without_shared_reductions(form: Update, tables: Tables) -> Update:
    """Lifts the folds in an update's indices and values that do not depend on all of its axes into forms of their own."""
    axes = {axis.var: axis for axis in form.axes}
    bodies: tuple[Expr, ...] = (*form.indices, *form.values)
    while shared := [r for r in _eager_reductions(bodies) if not axes.keys() <= free_variables(r)]:
        bodies = _lift_reduce(form, bodies, _outermost(shared)[0], axes, [], tables)
    rank = len(form.indices)
    return with_fields(form, indices=bodies[:rank], values=bodies[rank:])


def _one_reduction(form: Generate, tables: Tables) -> Generate:
    axes = {axis.var: axis for axis in form.axes}
    bodies = _lift_ragged(form, axes, tables)
    for _ in range(100):
        eager = _eager_reductions(bodies)
        inner = [r for r in eager if any(s is not r and s in set(scalar_nodes(*r.values)) for s in eager)]
        top = _outermost(eager)
        if inner:
            below = [s for r in inner for s in scalar_nodes(*r.values) if isinstance(s, Reduce) and s in eager]
            bodies = _lift_reduce(form, bodies, below[0], axes, eager, tables)
            continue
        partial = [r for r in top if not axes.keys() <= free_variables(r)]
        if partial:  # the same for a whole line of elements: computed once for each line
            bodies = _lift_reduce(form, bodies, partial[0], axes, eager, tables)
            continue
        if len(top) <= 1:
            break
        same = [r for r in top if tuple(a.extent for a in r.axes) == tuple(a.extent for a in top[-1].axes)]
        if len(same) == len(top):
            bodies = _merge_reductions(bodies, top, tables)
            break
        other = next(r for r in top if r not in same)
        bodies = _lift_reduce(form, bodies, other, axes, eager, tables)
    return form if bodies is form.bodies else Generate(form.axes, tuple(bodies))


def _lift_ragged(form: Generate, axes: dict[Var, Axis], tables: Tables) -> tuple[Expr, ...]:
    """Lifts the folds whose lengths data decides that are the same for all iterations of a fold around them, or for a line of elements, such
    as the sum of a row's weights; returns the bodies, which load from them.
    """
    bodies = form.bodies
    while any(map(is_ragged, folds := _eager_reductions(bodies, ragged=True))):
        iterations = {axis.var for fold in folds for axis in fold.axes}
        inner = {node for fold in folds for node in scalar_nodes(*fold.values) if isinstance(node, Reduce)}
        same = (r for r in folds if is_ragged(r) and iterations.isdisjoint(free_variables(r)))
        found = next((r for r in same if r in inner or not axes.keys() <= free_variables(r)), None)
        if found is None:
            break
        bodies = _lift_reduce(form, bodies, found, axes, [], tables)
    return bodies


def _merged_siblings(bodies: tuple[Expr, ...], tables: Tables) -> tuple[Expr, ...]:
    """Merges the folds of a branch, or of an iteration, that run over equal extents, and its conditionals with equal predicates that evaluate
    the same loops and folds, where none reads another's result.
    """
    while True:
        depth: dict[Node, int] = {}
        groups: dict[tuple[Any, ...], list[Any]] = {}
        for form in _eager_forms(bodies):
            depth[form] = max((depth[s] + 1 for s in scalar_nodes(form) if s is not form and s in depth), default=0)
            if isinstance(form, Reduce):
                groups.setdefault((depth[form], *(axis.extent for axis in form.axes)), []).append(form)
            elif shared := frozenset(s for s in scalar_nodes(*form.then, *form.orelse) if isinstance(s, _LONG)):
                groups.setdefault((depth[form], form.predicate, shared), []).append(form)
        siblings = next((group for group in groups.values() if group[1:]), None)
        if siblings is None:
            return bodies
        merge = _merge_reductions if isinstance(siblings[0], Reduce) else _merge_conditionals
        bodies = merge(bodies, siblings, tables)


_LONG = (Reduce, Loop, While)


def _merge_conditionals(bodies: tuple[Expr, ...], conditionals: list[Cond], tables: Tables) -> tuple[Expr, ...]:
    """Merges conditionals with equal predicates into one with all their results."""
    then, orelse = (tuple(e for form in conditionals for e in getattr(form, side)) for side in ("then", "orelse"))
    merged = Cond(conditionals[0].predicate, then, orelse)
    tables.carry(conditionals[0], merged)
    items = [Item(form, k) for form in conditionals for k in range(len(form.then))]
    return tables.rewrite(bodies, lambda node: node, {item: Item(merged, k) for k, item in enumerate(items)})


def _outermost(reductions: list[Reduce]) -> list[Reduce]:
    """Returns the reductions that are nested in no other of them."""
    return [r for r in reductions if not any(r in set(scalar_nodes(*s.values)) for s in reductions if s is not r)]


def _eager_reductions(bodies: tuple[Expr, ...], ragged: bool = False) -> list[Reduce]:
    return [form for form in _eager_forms(bodies, ragged) if isinstance(form, Reduce)]


def _eager_forms(bodies: tuple[Expr, ...], ragged: bool = False) -> list[Reduce | Cond]:
    """Returns the folds and conditionals that are evaluated for every element, not in a branch, a loop or an operator, inner ones first; also
    folds whose lengths data decides if `ragged`.
    """
    done: dict[Node, None] = {}
    stack: list[tuple[Node, bool]] = [(b, False) for b in reversed(bodies)]
    while stack:
        node, entered = stack.pop()
        if entered:
            done[node] = None
            continue
        if node in done or isinstance(node, Result | Parameter):
            continue
        stack.append((node, True))
        if isinstance(node, Item):
            form = node.form
            if isinstance(form, Reduce) and is_ragged(form) and not ragged:
                stack += [(axis.extent, False) for axis in form.axes]
            elif isinstance(form, Reduce):
                stack.append((form, True))
                stack += [(v, False) for v in form.values]
            elif isinstance(form, Loop):
                stack += [(e, False) for e in (form.count, *form.init)]
            elif isinstance(form, While):
                stack += [(e, False) for e in form.init]
            else:
                stack += [(form, True), (form.predicate, False)]
        else:
            stack += [(c, False) for c in children(node)]
    return [node for node in done if isinstance(node, Reduce | Cond)]


def _lift_reduce(
    form: Node, bodies: tuple[Expr, ...], reduce: Reduce, axes: dict[Var, Axis], eager: list[Reduce], tables: Tables
) -> tuple[Expr, ...]:
    """Lifts `reduce` into a form over the axes it depends on; returns the bodies, which load from it."""
    available = {**axes, **{a.var: a for r in eager for a in r.axes}}
    outside = free_variables(reduce) & available.keys()
    order = {var: i for i, var in enumerate(available)}
    outer = [available[v] for v in sorted(outside, key=order.__getitem__)]
    items = tuple(Item(reduce, k) for k in range(len(reduce.values)))
    own = Generate((), items)
    tables.kinds[own] = "reduce"
    tables.ranks.setdefault(own, tables.ranks.get(form, 0))
    if reduce in tables.sites:
        tables.sites.setdefault(own, tables.sites[reduce])
    lifted = _closed(own, outer, tables) if outer else own
    assert isinstance(lifted, Generate)
    closed = tables.first_equal(lifted)
    tables.parents.setdefault(closed, form)
    indices = tuple(axis.var for axis in outer)
    memo: dict[Node, Node] = {item: Load(Result(closed, k), indices, False) for k, item in enumerate(items)}
    return tables.substitute(bodies, memo)


def _merge_reductions(bodies: tuple[Expr, ...], reductions: list[Reduce], tables: Tables) -> tuple[Expr, ...]:
    """Merges several reductions over equal axes into one with all their results, equal ones once. `monoid` lists their monoids, separated
    by commas.
    """
    axes = reductions[0].axes
    parts: dict[str, list[Any]] = {name: [] for name in ("left", "right", "combine", "neutral", "values", "monoid")}
    start: dict[Reduce, int] = {}
    for r in reductions:
        renamed = {a.var: b.var for a, b in zip(r.axes, axes, strict=True)}
        values = tables.substitute(r.values, renamed)
        equal = (other for other in start if _says_the_same(r, other, values, parts, start[other], tables))
        if (sibling := next(equal, None)) is not None:
            start[r] = start[sibling]
            continue
        start[r] = len(parts["left"])
        parts["values"] += values
        names = [fresh(v.name, v.dtype) for v in (*r.left, *r.right)]
        memo = dict(zip((*r.left, *r.right), names, strict=True))
        parts["left"] += names[: len(r.left)]
        parts["right"] += names[len(r.left) :]
        parts["combine"] += tables.substitute(r.combine, memo)
        parts["neutral"] += r.neutral
        parts["monoid"] += [r.monoid] + [""] * (len(r.left) - 1)
    merged = Reduce(
        axes,
        *(tuple(parts[name]) for name in ("left", "right", "combine", "neutral", "values")),
        all(r.commutative for r in reductions),
        ",".join(parts["monoid"]),
    )
    tables.carry(reductions[0], merged)
    memo = {Item(r, k): Item(merged, start[r] + k) for r in reductions for k in range(len(r.left))}
    return tables.substitute(bodies, memo)


def _says_the_same(
    r: Reduce, other: Reduce, values: tuple[Expr, ...], parts: dict[str, list[Any]], start: int, tables: Tables
) -> bool:
    """Whether a reduction with these values equals one merged before, up to the names of its operands."""
    if len(r.left) != len(other.left):
        return False
    there = {name: tuple(parts[name][start : start + len(r.left)]) for name in parts}
    if (values, r.neutral) != (there["values"], there["neutral"]):
        return False
    names = dict(zip((*r.left, *r.right), (*there["left"], *there["right"]), strict=True))
    return tables.substitute(r.combine, names) == there["combine"]
