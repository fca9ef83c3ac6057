"""Arrays of private size, inside functions of elements, that are only reduced: they become loops and need no memory.

    rd.sum(row[lo:hi]) in a map over rows       a fold of hi - lo values
    rd.sum(rd.filter(p, row)), kept.shape[0]    a reduction of the row, of the elements that `p` keeps

A reduction over a size that differs from lane to lane gets a computed extent, like that of a segment, if its operator has a known identity,
so that lanes may run along it; any other becomes a `Loop`, in the order of a fold. Arrays of that size are inlined where they are read.
Private arrays with other uses stay as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import (
    ARRAY_FORMS,
    ArrayLoop,
    Axis,
    Cond,
    Count,
    Expr,
    Filter,
    Generate,
    Item,
    Load,
    Loop,
    Node,
    Op,
    Parameter,
    Reduce,
    Result,
    Var,
    const,
    fresh,
    if_else,
)
from raido.algo.graph.node import with_fields
from raido.algo.graph.program import Program
from raido.algo.graph.reduction import count_of, identities_of, identity_of, reduction_update
from raido.algo.graph.rewrite import free_variables, rebuild, topological
from raido.algo.graph.scopes import substitute_variables
from raido.algo.trace.context import canonical_indices


def reduce_private_arrays(program: Program) -> Program:
    """The program without those private arrays that are only reduced, counted or read element by element."""
    from raido.algo.passes.finish import follow_tables

    nodes = topological(*program.results)
    rewriting = _Rewriting(program, {node.index for node in nodes if isinstance(node, ArrayLoop)})
    if not any(isinstance(node, Count) and rewriting.is_private(node) for node in nodes):
        return program
    for node in nodes:
        rewriting.memo[node] = rewriting.rewritten(node)
    results = tuple(rewriting.memo[result] for result in program.results)
    program = replace(program, sites={**program.sites, **rewriting.sites})
    return follow_tables(program, rewriting.memo, results)


class _Rewriting:
    """One bottom-up pass. `counters`: those of loops over whole arrays; a size that depends on these alone is the same for all elements."""

    def __init__(self, program: Program, counters: set[Var]) -> None:
        self.program = program
        self.counters = counters
        self.memo: dict[Node, Node] = {}
        self.sites: dict[Node, Any] = {}
        self.counts: dict[Filter, Item] = {}

    def is_private(self, extent: Node) -> bool:
        """Whether a size differs from element to element."""
        if isinstance(extent, Op):
            return any(self.is_private(arg) for arg in extent.args)
        return isinstance(extent, Count) and not free_variables(extent) <= self.counters

    def rewritten(self, old: Node) -> Any:
        if isinstance(old, Axis):
            return Axis(old.var, self._size(old.extent))
        if isinstance(old, (Count, Result)):
            return rebuild(old, self.memo.__getitem__)
        if isinstance(old, Parameter):  # the state of a loop
            return rebuild(old, self._size)
        new: Any = rebuild(old, self._value)
        if isinstance(new, Load) and not new.checked and isinstance(new.array, Result):
            return self._element(new)
        if isinstance(new, Item) and isinstance(new.form, Reduce):
            return self._reduced(new)
        return new

    def _size(self, extent: Any) -> Any:
        """The rewritten extent; private sizes in it remain sizes."""
        return rebuild(extent, self._size) if isinstance(extent, Op) else self.memo[extent]

    def _value(self, child: Any) -> Any:
        """The rewritten operand; a private size becomes a scalar."""
        new = self.memo[child]
        return self._scalar(new) if isinstance(new, Count) and self.is_private(new) else new

    def _scalar(self, size: Count) -> Any:
        array = size.array
        if isinstance(array, Result) and isinstance(array.form, Generate):
            return array.form.bodies[array.index]
        if isinstance(array, Result) and isinstance(array.form, Filter):
            return self.counts.setdefault(array.form, count_of(array.form))
        return size

    def _extent(self, extent: Any) -> Any:
        """An extent as a scalar expression."""
        if isinstance(extent, Count) and self.is_private(extent):
            return self._scalar(extent)
        return rebuild(extent, self._extent) if isinstance(extent, Op) else extent

    def _element(self, load: Load) -> Any:
        """An element of a private array, inlined; other loads as they are."""
        array = load.array
        if not isinstance(array, Result) or not isinstance(form := array.form, Generate):
            return load
        if not any(self.is_private(axis.extent) for axis in form.axes):
            return load
        substitution = {axis.var: e for axis, e in zip(form.axes, load.indices, strict=True)}
        if any(
            not isinstance(e, Var) and _makes_arrays(form.bodies[array.index], var) for var, e in substitution.items()
        ):
            return load
        return self._put(form.bodies[array.index], substitution)

    def _put(self, root: Any, values: dict[Any, Any]) -> Any:
        """`root` with variables replaced; sites are carried over."""
        memo: dict[Node, Node] = {}
        new = substitute_variables(root, values, canonical_indices, memo)
        for before, after in memo.items():
            site = self.sites.get(before) or self.program.sites.get(before)
            if site is not None:
                self.sites.setdefault(after, site)
        return new

    def _reduced(self, item: Item) -> Any:
        form = item.form
        assert isinstance(form, Reduce)
        if len(form.axes) != 1 or not self.is_private(form.axes[0].extent):
            return item
        (axis,) = form.axes
        made = [n for n in topological(*form.values) if isinstance(n, ARRAY_FORMS) and not isinstance(n, Generate)]
        if any(axis.var in free_variables(n) for n in made):  # a scalar loop cannot make arrays
            return item
        kept = self._over_kept(form, axis)
        if kept is not None:
            return Item(kept, item.index)
        extent = self._extent(axis.extent)
        if identities_of(form) and not any(_reads_private_arrays(e) for e in (*form.values, extent)):
            ragged = Axis(axis.var, extent)
            return Item(with_fields(form, axes=(ragged,)), item.index)
        updates = reduction_update(form, self.program.contract)
        loop = Loop(extent, axis.var, form.left, form.neutral, updates)
        return Item(loop, item.index)

    def _over_kept(self, form: Reduce, axis: Axis) -> Reduce | Loop | None:
        """A reduction over the elements that a filter keeps, as a reduction over all of its inputs; None for other reductions."""
        size = axis.extent
        if not (isinstance(size, Count) and isinstance(size.array, Result) and isinstance(size.array.form, Filter)):
            return None
        chosen = size.array.form
        var = fresh(axis.name)
        values: dict[Any, Any] = {}
        for node in topological(*form.values):
            if isinstance(node, Load) and isinstance(node.array, Result) and node.array.form is chosen:
                if node.indices[0] is not axis.var:
                    return None
                substitution = {a.var: e for a, e in zip(chosen.axes, (var, *node.indices[1:]), strict=True)}
                values[node] = self._put(chosen.values[node.array.index], substitution)
        inside = tuple(self._replaced(value, values) for value in form.values)
        test = self._put(chosen.predicate, {chosen.axes[0].var: var})
        over = Axis(var, chosen.axes[0].extent)
        neutral = identity_of(form.monoid, form.left[0].dtype)
        numbered = any(axis.var in free_variables(value) for value in inside)
        if neutral is not None and not numbered:
            held = (Item(Cond(test, inside, (neutral,)), 0),)
            fields = form.left, form.right, form.combine, form.neutral, held, form.commutative, form.monoid
            whole = Reduce((over,), *fields)
            if not self.is_private(over.extent):
                return whole
            nested = self._over_kept(whole, over)
            if nested is not None:
                return nested
        # the index among the kept elements is an additional state
        state, start = (*form.left, axis.var), (*form.neutral, const(i64, 0))
        joined = tuple(self._put(e, dict(zip(form.right, inside, strict=True))) for e in form.combine)
        updates = if_else(test, (*joined, Op("add", i64, (axis.var, const(i64, 1)))), state)
        return Loop(self._extent(over.extent), var, state, start, updates)

    def _replaced(self, root: Any, values: dict[Any, Any]) -> Any:
        """`root` with nodes replaced; sites are carried over."""
        memo: dict[Node, Node] = dict(values)
        for node in topological(root):
            if node not in memo:
                memo[node] = rebuild(node, memo.__getitem__)
                site = self.program.sites.get(node)
                if site is not None:
                    self.sites.setdefault(memo[node], site)
        return memo[root]


def _makes_arrays(body: Expr, var: Var) -> bool:
    """Whether a body makes arrays for each index: read at a computed index, they would be made for each reader."""
    forms = (node for node in topological(body) if isinstance(node, ARRAY_FORMS))
    return any(var in free_variables(form) for form in forms)


def _reads_private_arrays(e: Expr) -> bool:
    """Whether an expression reads an array that is made per element of another, for which a loop of scalars is needed."""
    return any(isinstance(node, ARRAY_FORMS) and free_variables(node) for node in topological(e))
