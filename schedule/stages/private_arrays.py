"""Bounds for arrays of private size inside mapped functions: their memory has the size of the bound.

    map(i: sort(filter(p, a[i])))      becomes, for rows of m elements,      map(i: sort of m elements, of which count[i] are there)

An axis whose extent differs from element to element runs to a bound common to all, and elements beyond the private size are neither
evaluated nor read. The bound is the greatest value of the extent that sizes of the program allow; where they give none, its maximum over
all elements, which the host reads before the rows are computed. A filter of every element becomes a count of the kept elements, their
indices, by a scan, and an update that stores them there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import interval
from raido.algo.graph.dtypes import bool_, i64, u8
from raido.algo.graph.expr import (
    Array,
    Axis,
    Checked,
    Count,
    Expr,
    Filter,
    Generate,
    Item,
    Load,
    Op,
    Reduce,
    Result,
    Scan,
    Sort,
    Update,
    Var,
    axes_like,
    conjunction,
    const,
    fresh,
    if_else,
    zeros,
)
from raido.algo.graph.faults import can_fault
from raido.algo.graph.node import Node, field_names, with_fields
from raido.algo.graph.primitives import DIVISIONS
from raido.algo.graph.reduction import contracted_product, fold_of, identity_of
from raido.algo.graph.rewrite import free_variables, rebuild, scalar_nodes, substitute, topological
from raido.schedule.stages.checks import checked_index, within
from raido.schedule.stages.inline import inline_moves
from raido.schedule.stages.tables import Tables
from raido.schedule.stages.uses import binders, host_variables


def bound_private_arrays(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Makes the extent of every axis the same for all elements."""
    nodes = topological(*roots)
    bounding = _Bounding(nodes, tables)
    if not any(bounding.is_private(n) or (isinstance(n, Filter) and bounding.is_open(n)) for n in nodes):
        return roots
    for node in nodes:
        bounding.enter(node)
    return inline_moves(tuple(bounding.memo[root] for root in roots), tables)


class _Bounding:
    """A single pass, children first. `memo` maps each node to its replacement (a private size to the number itself, as a scalar)."""

    def __init__(self, nodes: list[Node], tables: Tables) -> None:
        self.tables, self.contract = tables, tables.contract
        self.hosts = host_variables(nodes)
        self.order, self.axes_of, _ = binders(nodes)
        self.memo: dict[Node, Any] = {}
        self.limits: dict[Var, Expr] = {}  # the private size of an axis
        self.bounds: dict[Expr, Expr] = {}

    def is_open(self, node: Node) -> bool:
        return bool(free_variables(node) - self.hosts)

    def is_private(self, e: Node) -> bool:
        """Whether a size differs from element to element."""
        return isinstance(e, Count) and self.is_open(e)

    def private(self, extent: Expr) -> bool:
        """Whether an extent depends on a private size."""
        return any(self.is_private(node) for node in scalar_nodes(extent))

    def number(self, extent: Expr) -> Expr:
        """Returns an extent as a scalar."""
        for node in topological(extent):
            if node not in self.memo:
                self.enter(node)
        return self.memo[extent]

    # Replacements

    def enter(self, node: Any) -> None:
        """Enters the replacements of a node and of its results into the memo."""
        if isinstance(node, Filter) and self.is_open(node):
            self._filter(node)
            return
        if isinstance(node, Count) and self.is_private(node):
            new: Any = Load(self.memo[node.array], (), False)
        elif isinstance(node, Axis) and self.private(node.extent):
            self.limits[node.var] = self.number(node.extent)
            new = Axis(node.var, self.bound(node.extent))
        elif isinstance(node, Load):
            new = self._load(node)
        elif isinstance(node, Update):
            new = self._update(node)
        elif node in self.memo:
            return
        else:
            new = rebuild(node, self.memo.__getitem__)
            if isinstance(node, (Generate, Reduce, Scan, Sort)) and (tests := self._tests(node.axes)):
                new = self._guarded(new, tests)
        self.tables.carry(node, new)
        self.memo[node] = new
        if isinstance(node, (Sort, Scan, Reduce)):
            shift = len(new.values) - len(node.values)
            of = Item if isinstance(node, Reduce) else Result
            self.memo |= {of(node, k): of(new, k + shift) for k in range(len(node.values))}

    def _tests(self, axes: Iterable[Axis]) -> list[Expr]:
        """Returns the conditions that the indices of some axes are within their private sizes."""
        return [Op("lt", bool_, (axis.var, self.limits[axis.var])) for axis in axes if axis.var in self.limits]

    def _guarded(self, form: Any, tests: list[Expr]) -> Node:
        """Returns a form that evaluates nothing beyond private sizes."""
        test = conjunction(tests)
        if isinstance(form, Generate):
            return Generate(form.axes, if_else(test, form.bodies, zeros(form.bodies)))
        if isinstance(form, Reduce):
            return _reduced_where(form, test, self.contract)
        parts = {name: getattr(form, name) for name in field_names(type(form))}
        along = form.axes[form.along].var
        rows = [
            e
            for axis, e in zip([a for a in form.axes if a.var in self.limits], tests, strict=True)
            if axis.var is not along
        ]
        if isinstance(form, Sort):
            parts["values"] = if_else(test, form.values, zeros(form.values))
            if along in self.limits:  # absent elements come last
                beyond = Op("select", u8, (Op("lt", bool_, (along, self.limits[along])), const(u8, 0), const(u8, 1)))
                parts |= {"keys": form.keys + 1, "values": (beyond, *parts["values"])}
            return Sort(*parts.values())
        assert isinstance(form, Scan)
        if rows:
            parts["neutral"] = if_else(conjunction(rows), form.neutral, zeros(form.neutral))
        if along in self.limits and any(can_fault(node) for node in topological(*form.combine)):
            left, right, combine, neutral, values = _flagged(Scan(*parts.values()), test)
            return Scan(form.axes, form.along, left, right, combine, neutral, values, form.exclusive, "")
        parts["values"] = if_else(test, form.values, zeros(form.values))
        return Scan(*parts.values())

    def _load(self, node: Load) -> Node:
        """Returns a load whose indices, where they are checked, are checked against the private sizes."""
        indices = [self.memo[e] for e in node.indices]
        if node.checked:
            for d, extent in enumerate(node.array.shape):
                if self.private(extent):
                    indices[d] = checked_index(node, d, indices[d], self.number(extent), self.tables)
        return Load(self.memo[node.array], tuple(indices), node.checked)

    def _update(self, form: Update) -> Node:
        new = rebuild(form, self.memo.__getitem__)
        assert isinstance(new, Update)
        sizes = {d: self.number(n) for d, n in enumerate(form.dest[0].shape) if self.private(n)}
        tests = self._tests(form.axes)
        if not sizes and not tests:
            return new
        own = {axis.var for axis in form.axes}
        coordinates = list(new.indices)
        for d, extent in enumerate(form.dest[0].shape):
            if coordinates[d] in own and any(a.var is coordinates[d] and a.extent is extent for a in form.axes):
                continue  # a row: its axis is as long as the dimension
            size = sizes.get(d, new.dest[0].shape[d])
            if form.checked:
                coordinates[d] = checked_index(form, d, coordinates[d], size, self.tables)
            elif d in sizes:
                coordinates[d] = Op("select", i64, (within(coordinates[d], size), coordinates[d], const(i64, -1)))
            if tests:
                (coordinates[d],) = if_else(conjunction(tests), (coordinates[d],), (const(i64, -1),))
        values = if_else(conjunction(tests), new.values, zeros(new.values)) if tests else new.values
        return with_fields(new, indices=tuple(coordinates), values=values, checked=False)

    def _filter(self, form: Filter) -> None:
        """Replaces a filter inside a map by a count, a scan for indices, and an update that stores the kept elements."""
        axes, predicate, values = (
            tuple(self.memo[a] for a in form.axes),
            self.memo[form.predicate],
            tuple(self.memo[v] for v in form.values),
        )
        first, rows = axes[0], axes[1:]
        inside = self._tests(form.axes)
        keep = predicate
        if first.var in self.limits:
            (keep,) = if_else(self._tests(form.axes[:1])[0], (predicate,), (const(bool_, False),))
        if inside:
            values = if_else(conjunction(inside), values, zeros(values))
        kept = Result(self._made(Generate((first,), (keep,)), "map"), 0)

        def chosen(axis: Axis) -> Expr:
            return Op("select", i64, (Load(kept, (axis.var,), False), const(i64, 1), const(i64, 0)))

        left, right = fresh("a"), fresh("b")
        add = (left,), (right,), (Op("add", i64, (left, right)),), (const(i64, 0),)
        over, along, new_axis = (Axis(fresh(first.name), first.extent) for _ in range(3))
        total = Item(Reduce((over,), *add, (chosen(over),), True, "add"), 0)
        count = Result(self._made(Generate((), (total,)), "count"), 0)
        coordinates = Result(Scan((along,), 0, *add, (chosen(along),), False, "add"), 0)
        index: Expr = Op("sub", i64, (Load(coordinates, (new_axis.var,), False), const(i64, 1)))
        elsewhere: Expr = const(i64, -1)
        if form.partition:
            elsewhere = Op(
                "add",
                i64,
                (Load(count, (), False), Op("sub", i64, (new_axis.var, Op("add", i64, (index, const(i64, 1)))))),
            )
            if first.var in self.limits:
                elsewhere = Op(
                    "select", i64, (Op("lt", bool_, (new_axis.var, self.limits[first.var])), elsewhere, const(i64, -1))
                )
        index = Op("select", i64, (Load(kept, (new_axis.var,), False), index, elsewhere))
        rest = axes_like(rows)
        renamed = {a.var: b.var for a, b in zip(axes, (new_axis, *rest), strict=True)}
        values = self.tables.substitute(values, renamed)
        empty = self._made(Generate(axes_like(axes), zeros(values)), "map")
        dest = tuple(Result(empty, k) for k in range(len(values)))
        indices = (index, *(axis.var for axis in rest))
        new = Update(dest, (new_axis, *rest), indices, (), (), (), (), values, "unique", False, "")
        self.tables.pass_names(form, new)
        self.memo[form] = new
        self.memo |= {Result(form, k): Result(new, k) for k in range(len(values))}
        self.memo[Result(form, len(values))] = count

    def _made(self, form: Generate, kind: str) -> Generate:
        self.tables.kinds.setdefault(form, kind)
        return form

    # Bounds

    def bound(self, e: Expr) -> Expr:
        """Returns the upper bound of a size over all elements."""
        if e not in self.bounds:
            most = self._most(e) or self._greatest(e)
            if any(can_fault(node) for node in topological(self.number(e))):  # so that it is evaluated
                most = ix.maximum(most, 1)
            self.bounds[e] = most
        return self.bounds[e]

    def _most(self, e: Expr) -> Expr | None:
        """Returns the upper bound that the program's sizes give; None where they give none."""
        names: dict[Node, Any] = {}
        ranges: dict[Any, Any] = {}
        for node in scalar_nodes(e):
            if self.is_private(node):
                assert isinstance(node, Count)
                if node.bound is None:
                    return None
                names[node] = fresh("size")
                most = self.bound(node.bound) if self.private(node.bound) else self.number(node.bound)
                ranges[names[node]] = (ix.as_index(0), most)
            elif isinstance(node, Count):
                names[node] = self.number(node)
        if e in names:
            return ranges[names[e]][1]
        reach = interval(ix.canonical(substitute(e, names)), ranges)
        return None if reach is None else reach[1]

    def _greatest(self, e: Expr) -> Expr:
        """Returns the maximum of a size over all elements, at least 0, as a size that the host reads."""
        value = _harmless(self.number(e), self.tables)
        outside: frozenset[Var] = frozenset()
        found = free_variables(value) - self.hosts
        while found:  # extents may depend on axes around
            outside |= found
            found = frozenset().union(*(free_variables(self.limits[v]) for v in found if v in self.limits))
            found -= outside | self.hosts
        if not outside <= self.axes_of.keys():
            raise CompileError(
                "an array of a size that depends on the state of a loop of scalars has no machine code yet"
            )
        outer = [self.axes_of[v] for v in sorted(outside, key=self.order.__getitem__)]
        if tests := self._tests(outer):
            (value,) = if_else(conjunction(tests), (value,), (const(i64, 0),))
        own = tuple(Axis(fresh(axis.name), self.memo[axis].extent) for axis in outer)
        renamed = {a.var: b.var for a, b in zip(outer, own, strict=True)}
        (value,) = self.tables.substitute((value,), renamed)
        most = fold_of(own, value, "maximum", 0) if own else Op("maximum", i64, (value, const(i64, 0)))
        return Count(Result(self._made(Generate((), (most,)), "size"), 0), None)


def _reduced_where(form: Reduce, test: Expr, contract: bool) -> Reduce:
    """Returns a reduction restricted to the indices where a test holds."""
    nothing = identity_of(form.monoid, form.left[0].dtype) if len(form.left) == 1 else None
    if nothing is not None:
        product = contracted_product(form, contract)
        if product is not None:  # still a product, so that it is contracted: -0.0 changes no sum
            (a,), (b,) = (if_else(test, (e,), (const(e.dtype, v),)) for e, v in zip(product, (-0.0, 1.0), strict=True))
            values: tuple[Expr, ...] = (Op("mul", a.dtype, (a, b)),)
        else:
            values = if_else(test, form.values, (nothing,))
        return with_fields(form, values=values)
    return Reduce(form.axes, *_flagged(form, test), form.commutative, "")


def _flagged(form: Reduce | Scan, test: Expr) -> tuple[tuple[Any, ...], ...]:
    """Returns a fold's operator, neutral elements and values with a leading flag that marks present values; absent ones change nothing."""
    here, there = fresh("there", bool_), fresh("there", bool_)
    both = Op("logical_or", bool_, (here, there))
    combine = (both, *if_else(here, if_else(there, form.combine, form.left), form.right))
    values = (test, *if_else(test, form.values, zeros(form.values)))
    return (here, *form.left), (there, *form.right), combine, (const(bool_, True), *form.neutral), values


def _harmless(e: Expr, tables: Tables) -> Expr:
    """Returns an expression with faulting operations replaced by ones that yield some value."""

    def change(node: Node) -> Node:
        if isinstance(node, Checked):
            return node.value
        if isinstance(node, Load) and node.checked and node.indices:
            holds = conjunction([within(i, n) for i, n in zip(node.indices, node.array.shape, strict=True)])
            return if_else(holds, (Load(node.array, node.indices, False),), (const(node.dtype, 0),))[0]
        if isinstance(node, Op) and node.name in DIVISIONS and can_fault(node):
            some = Op("ne", bool_, (node.args[1], const(node.dtype, 0)))
            return Op(
                node.name,
                node.dtype,
                (node.args[0], Op("select", node.dtype, (some, node.args[1], const(node.dtype, 1)))),
            )
        return node

    return tables.rewrite((e,), change)[0]
