"""In-place updates: the last reader of an array takes over its memory, and becomes an update of just the changed part.

    state' = selection of new elements and state's, at every index   →   state' = update of state, a step for each new element

This is guaranteed for states of whole-array loops, and done for arrays computed here that are needed whole anyway. An update, or a map that
changes part of an array, may take the array over if it is in the same body as the array (or in a branch there), the array is no result of
that body, and all its other readers can run before, since they do not depend on the change. Those are ordered first (`Order.first`).

A step must not read an element that another step changes, in whatever order they run (`dependence`). Where it may, and where the new values
are reductions, a stage of its own computes the values before, over the steps: a temporary of the update's size.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import (
    Array,
    ArrayLoop,
    ArrayWhile,
    Generate,
    Load,
    Node,
    Op,
    Parameter,
    Reduce,
    Result,
    Update,
    axes_like,
)
from raido.algo.graph.node import with_fields
from raido.algo.graph.rewrite import children, loads_in, rebuild, rewritten, scalar_nodes, topological
from raido.schedule.stages.locations import sections_of
from raido.schedule.stages.stage import AnyStage, ControlStage, Stage
from raido.schedule.stages.tables import Tables
from raido.schedule.stages.updates.dependence import (
    bare_index,
    conflict,
    element_updates_of,
    leaves_alone,
    meets_none_twice,
)
from raido.schedule.stages.updates.order import Order, assumptions_of
from raido.schedule.stages.updates.partial import Change, updates_of


def change_in_place(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Turns forms that change part of an array that is not needed afterwards into updates of that part."""
    nodes = topological(*roots)
    if not any(isinstance(node, (ArrayLoop, ArrayWhile, Update)) for node in nodes):
        return roots
    roots = _with_newest_reads(_without_copies(roots, tables), tables)
    nodes = topological(*roots)
    order = Order(roots, _candidates(nodes, tables), tables)
    memo: dict[Node, Node] = {}
    made: dict[Node, dict[int, Array]] = {}
    for node, new in tables.renewed(nodes, memo):
        if isinstance(node, Result) and node.form in made and node.index in made[node.form]:
            memo[node] = made[node.form][node.index]
        elif isinstance(node, (Generate, Update)) and node in order.paths:
            made[node] = _changes(node, new, order, memo, tables)  # type: ignore[arg-type]
    return rewritten(roots, memo)


def _changes(
    old: Generate | Update, new: Generate | Update, order: Order, memo: dict[Node, Node], tables: Tables
) -> dict[int, Array]:
    """Returns the array for each result of a form that is made by changing another array in place."""
    if isinstance(old, Update):
        before, after = {0: Change(old, 0)}, {0: Change(new, 0)}  # type: ignore[arg-type]
    else:
        before, after = (updates_of(form, tables, order.assumptions) for form in (old, new))  # type: ignore[arg-type]
    found: dict[int, Array] = {}
    for update in dict.fromkeys(change.update for change in before.values()):
        results = {k: change for k, change in before.items() if change.update is update}
        changed = next((after[k].update for k in results if k in after), None)
        absorbed = next(iter(results.values())).absorbed
        if changed is None or not all(dest in order.home for dest in update.dest):
            continue
        if isinstance(old, Generate) and not _is_needed_whole(update, order):
            continue
        if absorbed is not None and not order.is_read_by_one(absorbed):
            continue
        inlined = order.made_for(old, update, tables)
        fused = _with_inlined(update, inlined, tables)
        if inlined and (old in order.apart or not _values_apart(fused)):
            order.absorb(old, inlined)
            update, changed = fused, _with_inlined(changed, {memo[form] for form in inlined}, tables)
        apart = old in order.apart or _values_apart(update)
        why = order.may_change(old, update, apart, absorbed)
        if why and (apart or order.may_change(old, update, True, absorbed)):
            if not order.states.isdisjoint(update.dest):
                tables.copies[new] = (update.dest[0], why)
            continue
        apart = apart or bool(why)
        if apart and any(change.everywhere for change in results.values()):
            continue  # a new array stores less than values apart, which are stored and loaded
        final = _with_values_apart(changed, tables) if apart else _promised(changed, tables)
        tables.pass_names(old, final)
        tables.outer.pop(final, None)
        tables.changing[final] = True
        if isinstance(old, Update):
            return {k: Result(final, k) for k in range(len(old.dest))}
        found |= {k: Result(final, change.index) for k, change in results.items()}
    if found and len(found) < len(new.bodies):  # type: ignore[union-attr]
        left = [k for k in range(len(new.bodies)) if k not in found]  # type: ignore[union-attr]
        rest = Generate(new.axes, tuple(new.bodies[k] for k in left))  # type: ignore[union-attr]
        tables.carry(new, rest)
        found |= {k: Result(rest, position) for position, k in enumerate(left)}
    return found


def _without_copies(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Removes unnamed maps that repeat a loop's state, or an array computed here, element for element."""
    states = {p for form in topological(*roots) if isinstance(form, (ArrayLoop, ArrayWhile)) for p in form.state}
    memo: dict[Node, Node] = {}
    for node, new in tables.renewed(topological(*roots), memo):
        if isinstance(new, Result) and isinstance(new.form, Generate) and not tables.names.get(new.form):
            form, body = new.form, new.form.bodies[new.index]
            if isinstance(body, Load) and not body.checked and body.indices == tuple(axis.var for axis in form.axes):
                whole = body.array.shape == tuple(axis.extent for axis in form.axes)
                if whole and (isinstance(body.array, Result) or body.array in states):
                    memo[node] = body.array
    return rewritten(roots, memo)


def _candidates(nodes: Sequence[Node], tables: Tables) -> dict[Node, Update]:
    """Returns the updates, and the maps that change part of an array, each with the update that does so."""
    assumptions = assumptions_of(nodes)
    maps = (node for node in nodes if isinstance(node, Generate) and len(node.bodies) == 1)
    changes = {node: updates_of(node, tables, assumptions) for node in maps}
    updates: dict[Node, Update] = {node: node for node in nodes if isinstance(node, Update)}
    return updates | {node: found[0].update for node, found in changes.items() if 0 in found}


def _with_newest_reads(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Makes a change of a changed array read the changed array, not the original, where the first change left it alone.

    `m.at[k + 1:, k].set(l).at[k + 1:, k + 1:].set(m[k + 1:, k + 1:] - …)`: nothing then reads the original after the first change.
    """
    assumptions = assumptions_of(topological(*roots))
    memo: dict[Node, Node] = {}
    changed: dict[Node, Change | None] = {}
    for node in topological(*roots):
        new = rebuild(node, memo.__getitem__)
        tables.carry(node, new)
        if isinstance(new, Generate) and len(new.bodies) == 1:
            change = updates_of(new, tables, assumptions).get(0)
            before = changed.get(new) if change is None else _before(change, changed)
            if change is not None and before is not None:
                newer = _with_newer(new, change, before, tables)
                if newer is not new:
                    tables.carry(new, newer)
                    new, change = newer, updates_of(newer, tables, assumptions).get(0)
            changed[new] = change
        memo[node] = new
    return rewritten(roots, memo)


def _before(change: Change, changed: dict[Node, Change | None]) -> Change | None:
    """Returns the change that produced the array of another change; None without one."""
    dest = change.update.dest[0]
    return changed.get(dest.form) if isinstance(dest, Result) else None


def _with_newer(form: Generate, change: Change, before: Change, tables: Tables) -> Generate:
    """Returns a map that changes the result of another change, with its reads of unchanged elements redirected to that result."""
    old, new = before.update.dest[0], change.update.dest[0]
    where: dict[Node, Node] = dict(change.where)
    if change.value is None or len(before.update.dest) > 1 or not where:
        return form
    order = scalar_nodes(change.value)
    elsewhere = loads_in(*change.tests)
    memo: dict[Node, Node] = {}
    for load in loads_in(change.value):
        if load.array is old:
            (read,) = tables.substitute((load,), where)
            alone = leaves_alone(element_updates_of(before.update), read.indices, change.update.axes, order)
            if load in elsewhere or load.checked or not alone:
                return form  # the old array is needed anyway
            memo[load] = Load(new, load.indices, False)
            tables.carry(load, memo[load])
    if not memo:
        return form
    tables.renew(scalar_nodes(*form.bodies), memo)
    return Generate(form.axes, tuple(memo[body] for body in form.bodies))  # type: ignore[misc]


def _is_needed_whole(update: Update, order: Order) -> bool:
    """Whether an array that a map changes is in memory anyway: the state of a loop, or an array with several readers."""
    return all(
        not isinstance(dest, Result)
        or not isinstance(dest.form, Generate)
        or dest.form in order.changes
        or len(order.readers.get(dest, ())) > 1
        for dest in update.dest
    )


def _with_inlined(update: Update, forms: Collection[Node], tables: Tables) -> Update:
    """Returns the update with maps inlined that compute values for its steps."""
    if not forms:
        return update

    def change(node: Node) -> Node:
        if isinstance(node, Load) and isinstance(node.array, Result) and node.array.form in forms:
            assert isinstance(node.array.form, Generate)
            return tables.beta(node.array.form, node.array.index, tuple(ix.canonical(e) for e in node.indices))
        return node

    memo: dict[Node, Node] = {}
    for node in scalar_nodes(*update.values):
        memo[node] = change(rebuild(node, lambda child: memo.get(child, child)))
        tables.carry(node, memo[node])
    new = with_fields(update, values=tuple(memo[value] for value in update.values))
    tables.carry(update, new)
    return new


def _values_apart(update: Update) -> bool:
    """Whether the values of an update must be computed before its first step."""
    if any(isinstance(node, Reduce) for node in scalar_nodes(*update.values)):
        return True
    return conflict(element_updates_of(update), update.dest) is not None


def _promised(update: Update, tables: Tables) -> Update:
    """Returns an update in mode "unique" where its steps provably change different elements; each combines its value with the old element
    itself.
    """
    if update.mode == "unique" or not meets_none_twice(element_updates_of(update)):
        return update
    values = update.values
    if update.mode == "combine":
        shape = update.dest[0].shape
        indices = tuple(Op("clamp_index", i64, (bare_index(e), n)) for e, n in zip(update.indices, shape, strict=True))
        olds = [Load(dest, indices, False) for dest in update.dest]
        names: dict[Node, Node] = {
            **dict(zip(update.left, olds, strict=True)),
            **dict(zip(update.right, values, strict=True)),
        }
        values = tables.substitute(update.combine, names)
    fields = ((), (), (), (), values, "unique", update.checked, "")
    return Update(update.dest, update.axes, update.indices, *fields)


def _with_values_apart(update: Update, tables: Tables) -> Update:
    """Returns the update with its values, and the indices that read the changed array, computed by a form of their own."""
    update = _promised(update, tables)
    apart = [*update.values]
    by_dimension = {
        d
        for d, e in enumerate(update.indices)
        if any(n.array in update.dest for n in scalar_nodes(e) if isinstance(n, Load))
    }
    apart += [update.indices[d] for d in sorted(by_dimension)]
    several = [axis for axis in update.axes if ix.constant_value(axis.extent) != 1]
    single: dict[Node, Node] = {axis.var: ix.as_index(0) for axis in update.axes if axis not in several}
    made = Generate(tuple(several), tables.substitute(apart, single) if single else tuple(apart))
    if update in tables.sites:
        tables.sites[made] = tables.sites[update]
    axes = axes_like(update.axes)
    variables = tuple(axis.var for axis in axes)
    named = tuple(variable for variable, axis in zip(variables, update.axes, strict=True) if axis in several)
    loads = [Load(Result(made, k), named, False) for k in range(len(apart))]
    rest = iter(loads[len(update.values) :])
    names = {old.var: new for old, new in zip(update.axes, variables, strict=True)}
    kept = tables.substitute(update.indices, names)
    indices = tuple(next(rest) if d in by_dimension else e for d, e in enumerate(kept))
    combine = tables.substitute((*update.combine, *update.neutral), names)
    operator, neutral = combine[: len(update.combine)], combine[len(update.combine) :]
    values = tuple(loads[: len(update.values)])
    return Update(
        update.dest,
        axes,
        indices,
        update.left,
        update.right,
        operator,
        neutral,
        values,
        update.mode,
        update.checked,
        update.monoid,
    )


def readers_first(stages: Sequence[AnyStage], tables: Tables) -> tuple[AnyStage, ...]:
    """Orders the stages of one body so that readers of an array come before the stage that changes it, or the loop that may take it over.

    So do readers through inlinable stages, where that is possible. Otherwise the order stays.
    """
    loops = {each.form: each.form.init for each in stages if isinstance(each.form, ArrayLoop | ArrayWhile)}
    updates = {
        each.form: each.form.dest for each in stages if each.form in tables.changing and isinstance(each.form, Update)
    }
    changers: dict[Node, tuple[Array, ...]] = {**loops, **updates}
    if not changers:
        return tuple(stages)
    own = {stage.form for stage in stages}
    reads = {stage.form: _arrays_of(stage) for stage in stages}
    below = {form: own.intersection(found) - {form} for form, found in reads.items()}
    needs: dict[Node, set[Node]] = {}  # all that a stage depends on
    for form, found in reads.items():
        needs[form] = found.union(*(needs[other] for other in below[form] if other in needs))
    directly: dict[Node, set[Node]] = {}
    at_all: dict[Node, set[Node]] = {}
    for form, dest in changers.items():
        apart = [other for other in own if other is not form and form not in needs[other]]
        directly[form] = {other for other in apart if not reads[other].isdisjoint(dest)}
        at_all[form] = {other for other in apart if not needs[other].isdisjoint(dest)}
    done: dict[Node, AnyStage] = {}
    waiting = list(stages)
    while waiting:
        free = [s for s in waiting if below[s.form] <= done.keys()]
        first = (s for before in (at_all, directly) for s in free if before.get(s.form, set()) <= done.keys())
        ready = next(first, waiting[0])
        done[ready.form] = ready
        waiting.remove(ready)
    return tuple(done.values())


def _arrays_of(stage: AnyStage) -> set[Node]:
    """Returns the arrays, and the forms that compute them, that a stage mentions, bodies included."""
    if isinstance(stage, Stage):
        roots: list[Node] = list(children(stage.form))
    else:
        roots = [*stage.init, *stage.results, *stage.orelse_results]
        roots += [part for section, parts in sections_of(stage.form) if section in ("", "setup") for part in parts]
    found: set[Node] = {root for root in roots if isinstance(root, (Parameter, Result))}
    for node in scalar_nodes(*(root for root in roots if root not in found)):
        found |= {array for array in children(node) if isinstance(array, (Parameter, Result))}
    found |= {array.form for array in found if isinstance(array, Result)}
    if isinstance(stage, ControlStage):
        found = found.union(*(_arrays_of(inner) for inner in (*stage.setup, *stage.body, *stage.orelse)))
    return found
