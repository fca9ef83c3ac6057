"""Recognises index arithmetic that brings indices into an array's range as a boundary condition.

    a[(x + 1) % n]                       becomes      a[wrap(x + 1)]
    a[minimum(maximum(x - 1, 0), n - 1)] becomes      a[clamp(x - 1)]
    a[maximum(minimum(x, n - 2), 1)]     becomes      a[1 + clamp(x - 1)], clamped in n - 2 elements and checked
    rd.cond(x > 0, lambda: a[x - 1], …) becomes      rd.cond(x > 0, lambda: a[clamp(x - 1)], …)
    where(x < k, cond(clamp(x, k) < k, f(a[clamp(x, k)]), 0), …)   becomes   where(x < k, f(a[x]), …)

Index-set splitting separates the indices that boundary conditions change from those they do not; other arithmetic is opaque to it. A branch
that is taken only where an index is in range gets a clamp as well, which needs no check and lets the branch become a selection. The array
has an element wherever the arithmetic is evaluated, since an axis of its length moves the index.

The last form is an element of a row of private length k, kept in memory for a common bound: elements beyond k are zeros, which the reader's
own choice leaves out. Its folds can become stages, as those of rows of one length can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from raido.algo.graph import index as ix
from raido.algo.graph.assumed import assumed
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Array, Axis, Cond, Const, Expr, Item, Load, Node, Op, SizeVar, Var
from raido.algo.graph.faults import is_index_of, risky
from raido.algo.graph.rewrite import free_variables, loads_in, scalar_nodes, substitute, topological
from raido.schedule.stages.tables import Tables

_FACTS = Assumptions()


def name_boundary_rules(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Replaces index arithmetic, and checks in branches, by boundary conditions where they are equivalent."""
    nodes = topological(*roots)
    extents = {axis.var: axis.extent for node in nodes for axis in getattr(node, "axes", ()) if isinstance(axis, Axis)}

    def change(new: Node) -> Node:
        if isinstance(new, Load):
            return _with_indices(new, lambda e, size: _as_rule(e, size, extents))
        if isinstance(new, Op) and new.name == "select":
            return _in_selection(new, extents, tables)
        return _in_branches(new, extents, tables) if isinstance(new, Cond) else new

    return tables.rewrite(roots, change)


def _with_indices(load: Load, change: Callable[[Expr, Expr], Expr]) -> Load:
    indices = tuple(map(change, load.indices, load.array.shape))
    same = all(mine is given for mine, given in zip(indices, load.indices, strict=True))
    return load if same else Load(load.array, indices, load.checked)


def _in_branches(form: Cond, extents: Mapping[Var, Expr], tables: Tables) -> Cond:
    """Returns a conditional with the indices in its branches clamped where its predicate bounds them."""
    then = _where_taken(form, form.then, True, extents, tables)
    orelse = _where_taken(form, form.orelse, False, extents, tables)
    return form if (form.then, form.orelse) == (then, orelse) else Cond(form.predicate, then, orelse)


def _where_taken(
    form: Cond, branch: tuple[Expr, ...], taken: bool, extents: Mapping[Var, Expr], tables: Tables
) -> tuple[Expr, ...]:
    """Returns the values of a branch that is taken where the predicate holds (or not), with provably bounded indices clamped."""
    loads = [load for load in loads_in(*branch) if load.checked]
    if not loads:
        return branch
    known = _assumptions_where(form.predicate, taken, free_variables(form), extents)
    memo: dict[Node, Node] = {}
    for load in loads:
        new = memo[load] = _with_indices(load, lambda e, size: _as_proven_rule(e, size, extents, known))
        tables.carry(load, new)
    return tuple(substitute(value, memo) for value in branch)


def _in_selection(form: Op, extents: Mapping[Var, Expr], tables: Tables) -> Op:
    """Returns a selection without the conditions on axes and sizes inside its first value that its own implies, where what they guard cannot
    fail, and every index that they bound is in range without them. Conditions on data stay, since they may hold for few elements.
    """
    predicate, value, other = form.args
    conditions = {n.form for n in scalar_nodes(value) if isinstance(n, Item) and isinstance(n.form, Cond)}
    if not conditions or risky(topological(value)):
        return form
    variables = free_variables(form)
    always = _FACTS.with_known(*_axes_of(variables, extents))
    known = _assumptions_where(predicate, True, variables, extents)

    def bounded(e: Expr) -> dict[Node, Expr]:
        """Maps the clamps in an index that change nothing where the predicate holds to their arguments."""
        clamps = (n for n in scalar_nodes(e) if isinstance(n, Op) and n.name == "clamp_index")
        return {n: n.args[0] for n in clamps if known.nonnegative(n.args[0]) and known.less(*n.args)}

    def unclamped(e: Expr, size: Expr) -> Expr:
        index = ix.canonical(substitute(e, bounded(e)))
        return index if always.nonnegative(index) and always.less(index, size) else e

    def holds(test: Expr) -> bool:
        if not isinstance(test, Op) or test.name != "lt" or not is_index_of(test, lambda node: isinstance(node, Var)):
            return False
        return known.less(substitute(test.args[0], bounded(test.args[0])), test.args[1])

    def change(node: Node) -> Node:
        if isinstance(node, Load):
            return _with_indices(node, unclamped)
        if isinstance(node, Item) and isinstance(node.form, Cond) and holds(node.form.predicate):
            return node.form.then[node.index]
        return node

    if not any(holds(condition.predicate) for condition in conditions):
        return form
    (value,) = tables.rewrite((value,), change)
    loads = (node for node in topological(value) if isinstance(node, Load))
    if any(bounded(e) for load in loads for e in load.indices):
        return form
    return Op("select", form.dtype, (predicate, value, other))


def _as_proven_rule(e: Expr, size: Expr, extents: Mapping[Var, Expr], known: Assumptions) -> Expr:
    """Returns an index as clamped to a dimension of that size, where it is known to be in range; else the index."""
    if e.dtype is not i64 or not isinstance(e, Op) or not _is_moved_along(e, size, extents):
        return e
    return Op("clamp_index", i64, (ix.canonical(e), size)) if known.nonnegative(e) and known.less(e, size) else e


def _assumptions_where(
    predicate: Expr, holds: bool, variables: Iterable[Var], extents: Mapping[Var, Expr]
) -> Assumptions:
    """Returns assumptions about axes where a predicate holds, or does not."""
    within = _FACTS.with_known(*_axes_of(variables, extents))
    return within.with_known(*assumed(predicate, holds, within))


def _axes_of(variables: Iterable[Var], extents: Mapping[Var, Expr]) -> Iterator[Expr]:
    """Yields expressions that are at least 0 since axes run from 0 to their ends."""
    for var in variables:
        if var in extents:
            yield from (var, ix.sub(ix.sub(extents[var], 1), var))


def _as_rule(e: Expr, size: Expr, extents: Mapping[Var, Expr]) -> Expr:
    """Returns an index into a dimension of that size as a boundary condition; the index itself where it is none."""
    if not isinstance(e, Op) or e.dtype is not i64:
        return e
    if e.name == "select":
        return _chosen(e, size, extents) or e
    if e.name in ("mod", "floormod"):
        name, inside = "wrap_index", e.args[0] if _are_equal(e.args[1], size) else None
    else:
        name, inside = "clamp_index", _clamped(e, size, extents)
    if inside is None or not _is_moved_along(inside, size, extents):
        return _with_clips_named(e, size, extents)
    return Op(name, i64, (ix.canonical(inside), size))


def _with_clips_named(e: Expr, size: Expr, extents: Mapping[Var, Expr]) -> Expr:
    """Returns an index in which axes clipped to other ranges than an array's are clamps: min(max(x, l), h) is h - clamp(h - x), and
    max(min(x, h), l) is l + clamp(x - l), in h - l + 1 elements, at least one: for h < l, too.
    """
    clips: dict[Node, Node] = {}
    for node in topological(e):
        for side, name, opposite in ((-1, "minimum", "maximum"), (1, "maximum", "minimum")):
            outer = _bound(node, name)
            inner = _bound(outer[1], opposite) if outer else None
            if outer and inner and _is_moved_along(inner[1], None, extents):
                low, high = (outer[0], inner[0])[::side]
                if ix.constant_value(low) == 0 and ix.difference(size, high) == 1:
                    continue  # the array's own range
                moved, last = (ix.mul(ix.sub(at, outer[0]), side) for at in (inner[1], inner[0]))
                clamped = Op("clamp_index", i64, (ix.canonical(moved), ix.maximum(ix.add(last, 1), 1)))
                clips[node] = ix.add(outer[0], ix.mul(clamped, side))
    return substitute(e, clips) if clips else e


def _bound(e: Node, name: str) -> tuple[Expr, Expr] | None:
    """Returns the operand of a minimum or maximum that is made of sizes and constants, and the other one, which is not."""
    if not isinstance(e, Op) or e.name != name or e.dtype is not i64:
        return None
    fixed = [arg for arg in e.args if all(isinstance(atom, SizeVar | Const) for atom in ix.linear(arg)[1])]
    return (fixed[0], e.args[e.args[0] is fixed[0]]) if len(fixed) == 1 else None


def clamped_index(e: Node, size: Expr) -> tuple[Expr, Expr] | None:
    """Returns (x, n) for a valid index that is x clamped to 0 … n − 1, by the boundary condition or, for n = `size`, by arithmetic, at one
    end or both: x respects the other bound, as the index does. None for others.
    """
    if not isinstance(e, Op):
        return None
    if e.name == "clamp_index":
        return e.args[0], e.args[1]
    inside, sides = _inside_of_extremes(e, size)
    return (inside, size) if sides else None


def _clamped(e: Op, size: Expr, extents: Mapping[Var, Expr]) -> Expr | None:
    """Returns x for min(max(x, 0), n − 1), in either order, or with one of the two where x is known to respect the other bound;
    else None.
    """
    inside, sides = _inside_of_extremes(e, size)
    if len(sides) == 2:
        return inside
    if not sides:
        return None
    known = _FACTS.with_known(*_axes_of(free_variables(inside), extents))
    at_other_end = inside if sides == {"minimum"} else ix.sub(ix.sub(size, 1), inside)
    return inside if known.nonnegative(at_other_end) else None


def _inside_of_extremes(e: Expr, size: Expr) -> tuple[Expr, set[str]]:
    """Returns x for min(max(x, 0), n − 1), in either order, or with one of the two, and the names of these; without names for others."""
    last = ix.sub(size, 1)
    inside: Expr = e
    sides: set[str] = set()
    while isinstance(inside, Op) and inside.name in ("minimum", "maximum") and inside.name not in sides:
        limit = last if inside.name == "minimum" else ix.as_index(0)
        others = [arg for arg in inside.args if not _are_equal(arg, limit)]
        if len(others) != 1:
            return e, set()
        sides.add(inside.name)
        inside = others[0]
    return inside, sides


def _chosen(e: Op, size: Expr, extents: Mapping[Var, Expr]) -> Expr | None:
    """Returns a clamp or wrap for a selection between an in-range index and the nearest index, or the one at the other end; else None."""
    predicate, last = e.args[0], ix.sub(size, 1)
    for inside, other, taken in ((e.args[1], e.args[2], True), (e.args[2], e.args[1], False)):
        if not _is_moved_along(inside, size, extents):
            continue
        there = _assumptions_where(predicate, taken, free_variables(e), extents)
        elsewhere = _assumptions_where(predicate, not taken, free_variables(e), extents)
        if not (there.nonnegative(inside) and there.less(inside, size)):
            continue
        for beyond, nearest, opposite in (
            (ix.sub(-1, inside), ix.as_index(0), last),
            (ix.sub(inside, size), last, ix.as_index(0)),
        ):
            if not elsewhere.nonnegative(beyond):
                continue
            by_one = elsewhere.nonnegative(ix.sub(0, beyond))
            rule = (
                "clamp_index"
                if _are_equal(other, nearest)
                else "wrap_index"
                if by_one and _are_equal(other, opposite)
                else ""
            )
            if rule:
                return Op(rule, i64, (ix.canonical(inside), size))
    return None


def _is_moved_along(e: Expr, size: Expr | None, extents: Mapping[Var, Expr]) -> bool:
    """Whether an index is a sum of axes and sizes, with an axis of that size among them; None: of any size."""
    atoms = ix.linear(e)[1]
    return all(isinstance(atom, (Var, SizeVar, Const)) for atom in atoms) and any(
        size is None or _are_equal(extents[atom], size) for atom in atoms if isinstance(atom, Var) and atom in extents
    )


def _are_equal(one: Expr, other: Expr) -> bool:
    return one.dtype is i64 and ix.difference(one, other) == 0
