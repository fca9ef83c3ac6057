"""Rewrites of the graph after which every `Generate` (and every form of `dependent`) is closed and is one stage.

In order: index moves and scalars of mapped functions are inlined; unnamed elementwise expressions that one consumer reads once, at
its own index, become part of it; arrays made inside mapped functions are lifted, with the axes they depend on in front; reductions
are brought to the top of their stage (one `Reduce` a stage), others are lifted to stages of their own or stay as loops inside.
All of it is beta-reduction and its inverse, so no value changes. `Tables` carries names and source lines along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import (
    Array,
    ArrayCond,
    ArrayLoop,
    ArrayWhile,
    Axis,
    Const,
    Count,
    Expr,
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
    While,
    const,
    fresh,
)
from raido.algo.graph.program import Program, Site
from raido.algo.graph.rewrite import children, free_variables, loads_in, rebuild, scalar_nodes, topological
from raido.schedule.stages.dependent import DEPENDENT, Dependent, close_form, is_ragged

FORMS = (Generate, *DEPENDENT, ArrayLoop, ArrayWhile, ArrayCond)


class Tables:
    """Names, kinds and source lines of nodes, kept up to date while the nodes are rewritten."""

    def __init__(self, program: Program) -> None:
        self.names: dict[Node, tuple[str, ...]] = {**program.names}
        self.kinds: dict[Node, str] = {**program.kinds}
        self.sites: dict[Node, Site] = dict(program.sites)
        self.ranks: dict[Node, int] = {form: i for i, form in enumerate(program.order)}
        self.named_axes: set[Var] = {*program.named_axes}
        self.contract = program.contract
        self.outer: dict[Node, int] = {}
        self.parents: dict[Node, Node] = {}
        self.closed: dict[tuple[Node, ...], Generate | Dependent] = {}

    def carry(self, old: Node, new: Node) -> None:
        """Whatever is known of `old` holds for `new`, which replaces it."""
        if old is new:
            return
        if old in self.sites:
            self.sites.setdefault(new, self.sites[old])
        if isinstance(old, FORMS) and type(old) is type(new):
            if old in self.names:
                self.names[new] = merge_names(self.names.get(new, ()), self.names[old])
            for table in (self.kinds, self.ranks, self.outer, self.parents):
                if old in table:
                    table.setdefault(new, table[old])  # type: ignore[attr-defined]

    def pass_names(self, old: Node, new: Node) -> None:
        """What is known of `old` holds for `new`, a form of another kind that makes the same arrays."""
        if old in self.names:
            self.names[new] = merge_names(self.names.get(new, ()), self.names[old])
        for table in (self.sites, self.ranks, self.outer, self.parents):
            if old in table:
                table.setdefault(new, table[old])  # type: ignore[attr-defined]

    def rewrite(
        self, roots: Iterable[Node], change: Callable[[Any], Node], values: Mapping[Any, Node] | None = None
    ) -> Any:
        """Every node rebuilt from its rewritten children and given to `change`, bottom-up. Returns the new roots.

        With `values`, which replace variables (or other scalars), arrays that mention none of the variables stay as they are.
        """
        roots = tuple(roots)
        memo: dict[Node, Node] = {} if values is None else {**values}
        whole = values is None or any(isinstance(key, Parameter) for key in values)
        order = topological(*roots) if whole else _affected(roots, memo)
        for node in order:
            if node not in memo:
                new = change(rebuild(node, memo.__getitem__))
                self.carry(node, new)
                memo[node] = new
        return tuple(memo[root] for root in roots)

    def beta(self, form: Generate, index: int, indices: tuple[Expr, ...]) -> Expr:
        """The element of `form` at `indices`, as an expression."""
        values = {axis.var: e for axis, e in zip(form.axes, indices, strict=True) if axis.var is not e}
        if not values:
            return form.bodies[index]
        return self.rewrite((form.bodies[index],), fold_constants, values)[0]

    def with_axes(self, form: Generate, outer: Sequence[Axis]) -> Generate:
        """`form` with `outer` axes in front, as fresh variables."""
        names = {axis.var: fresh(axis.name) for axis in outer}
        memo: dict[Node, Node] = {**names}
        extents = self.rewrite([axis.extent for axis in outer], lambda node: node, memo)
        bodies = self.rewrite(form.bodies, lambda node: node, memo)
        leading = tuple(Axis(names[axis.var], extent) for axis, extent in zip(outer, extents, strict=True))
        self.named_axes.update(new for old, new in names.items() if old in self.named_axes)
        return Generate(leading + form.axes, bodies)


def _affected(roots: tuple[Node, ...], values: dict[Node, Node]) -> list[Node]:
    """The nodes below some roots, children first, without what lies in arrays that mention none of the variables."""
    variables = {v for v in values if isinstance(v, Var)}
    done: dict[Node, None] = {}
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, entered = stack.pop()
        if entered:
            done[node] = None
        elif node in done or node in values:
            continue
        elif isinstance(node, Result) and variables.isdisjoint(free_variables(node)):
            values[node] = node
        else:
            stack.append((node, True))
            stack += [(child, False) for child in children(node)]
    return list(done)


def merge_names(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """Both lists, each name once."""
    return tuple(dict.fromkeys(first + second))


def fold_constants(node: Node) -> Node:
    """Comparisons of integer literals and selections by a literal, decided."""
    if isinstance(node, Op):
        if node.name == "select" and isinstance(node.args[0], Const):
            return node.args[1] if node.args[0].value else node.args[2]
        if node.dtype is bool_ and len(node.args) == 2 and all(isinstance(a, Const) for a in node.args):
            a, b = (x.value for x in node.args)  # type: ignore[union-attr]
            if node.args[0].dtype.is_integer and node.name in _COMPARE:
                return const(bool_, _COMPARE[node.name](a, b))
    return node


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def inline_moves(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Index moves without a name, and scalars (rank 0) of mapped functions, substituted where they are read."""

    free: dict[Node, bool] = {}

    def is_move(form: Node) -> bool:
        if not isinstance(form, Generate) or tables.names.get(form):
            return False
        if form not in free:
            scalar = not form.axes and bool(open_variables(form)) and not _shares_work(form, tables)
            free[form] = scalar or tables.kinds.get(form) == "move"
        return free[form]

    def change(node: Node) -> Node:
        if isinstance(node, Load) and isinstance(node.array, Result) and is_move(node.array.form):
            form = node.array.form
            assert isinstance(form, Generate)
            if not node.checked or not form.axes:
                return tables.beta(form, node.array.index, node.indices)
            body = form.bodies[node.array.index]
            axes = {axis.var for axis in form.axes}
            if isinstance(body, Load) and len(body.indices) == len(axes) and set(body.indices) == axes:
                moved = tables.beta(form, node.array.index, node.indices)
                assert isinstance(moved, Load)
                return Load(moved.array, moved.indices, True)
        return node

    return tables.rewrite(roots, change)


def _shares_work(form: Generate, tables: Tables) -> bool:
    """Whether a scalar stands for work that several readers share: the results of one loop or reduction, a guard of branches or a count."""
    if tables.kinds.get(form) in ("condition", "count"):
        return True
    owners = {body.form if isinstance(body, Item) else None for body in form.bodies}
    return len(form.bodies) > 1 and len(owners) == 1 and None not in owners


def open_variables(form: Node) -> frozenset[Var]:
    """The axis, state and operand variables of enclosing functions that a form mentions."""
    return free_variables(form)


class Uses:
    """Who reads each `Generate`, and how."""

    def __init__(self, roots: tuple[Array, ...]) -> None:
        self.nodes = topological(*roots)
        self.loads: dict[Generate, dict[tuple[Expr, ...], None]] = {}
        self.readers: dict[Generate, dict[Node, None]] = {}
        self.whole: set[Node] = {root.form for root in roots if isinstance(root, Result)}
        self.lazy: set[Generate] = set()
        self.reduce_axes: dict[Load, set[Var]] = {}
        self.homes = loops_around(self.nodes)
        for node in self.nodes:
            if isinstance(node, Generate):
                self._read_by(node, node.bodies)
            elif isinstance(node, FORMS):
                self._read_by(node, [c for c in children(node) if not isinstance(c, Result | Parameter)])
                self.whole |= {c.form for c in children(node) if isinstance(c, Result)}
            elif isinstance(node, Count) and isinstance(node.array, Result):
                self.whole.add(node.array.form)

    def _read_by(self, reader: Node, bodies: Iterable[Node]) -> None:
        nodes = scalar_nodes(*bodies)
        for node in nodes:
            if isinstance(node, Reduce):
                for load in loads_in(*node.values):
                    self.reduce_axes.setdefault(load, set()).update(axis.var for axis in node.axes)
        for node in nodes:
            if isinstance(node, Load) and isinstance(node.array, Result) and isinstance(node.array.form, Generate):
                form = node.array.form
                self.loads.setdefault(form, {})[node.indices] = None
                self.readers.setdefault(form, {})[reader] = None
                if node.checked:
                    self.whole.add(form)

    def once(self, form: Generate) -> tuple[Node, tuple[Expr, ...]] | None:
        """The one reader and the one index at which it reads; None when there are several, or the array is needed as such."""
        if form in self.whole or len(self.loads.get(form, ())) != 1 or len(self.readers[form]) != 1:
            return None
        return next(iter(self.readers[form])), next(iter(self.loads[form]))

    def pointwise(self, form: Generate) -> bool:
        """Whether the one reader reads each element at most once, at an index made of its own axes."""
        use = self.once(form)
        if use is None:
            return False
        reader, indices = use
        if not isinstance(reader, (Generate, *DEPENDENT)) or self.homes.get(reader) != self.homes.get(form):
            return False
        variables = [e for e in indices if isinstance(e, Var)]
        if len(set(variables)) != len(variables) or any(not isinstance(e, Var | Const) for e in indices):
            return False
        needed = {axis.var for axis in reader.axes}
        for load in loads_in(*(reader.bodies if isinstance(reader, Generate) else children(reader))):
            if isinstance(load.array, Result) and load.array.form is form:
                needed |= self.reduce_axes.get(load, set())
        return needed <= set(variables)


def loops_around(nodes: list[Node]) -> dict[Node, frozenset[Node]]:
    """The whole-array loops whose state or counter each node depends on."""
    owner: dict[Node, Node] = {}
    for node in nodes:
        if isinstance(node, ArrayLoop | ArrayWhile):
            owner.update((state, node) for state in node.state)
            if isinstance(node, ArrayLoop):
                owner[node.index] = node
    homes: dict[Node, frozenset[Node]] = {}
    for node in nodes:
        home = frozenset((owner[node],)) if node in owner else frozenset()
        homes[node] = home.union(*(homes[c] for c in children(node))) - {node}
    return homes


def inline_elementwise(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Unnamed elementwise expressions, and unnamed arrays of mapped functions, that one consumer reads once become part of it."""
    uses = Uses(roots)
    inlined: set[Generate] = set()
    hosts = host_variables(uses.nodes)
    for node in uses.nodes:
        if not isinstance(node, Generate) or node in uses.whole or node not in uses.loads:
            continue
        if open_variables(node) - hosts:
            if _inlines_when_open(node, uses, tables):
                inlined.add(node)
        elif _is_plain_elementwise(node, tables) and uses.pointwise(node):
            inlined.add(node)
    return inline_forms(roots, inlined, tables)


def _is_plain_elementwise(form: Generate, tables: Tables) -> bool:
    unnamed = not tables.names.get(form)
    return unnamed and tables.kinds.get(form, "elementwise") == "elementwise" and not _has_reduce(form)


def inline_forms(roots: tuple[Array, ...], forms: set[Generate], tables: Tables) -> tuple[Array, ...]:
    """The graph with every load of these forms replaced by the element's expression."""
    marked = set(forms)
    memo: dict[Node, Node] = {}
    for node in topological(*roots):
        new = rebuild(node, memo.__getitem__)
        if new is not node:
            tables.carry(node, new)
            if node in marked and isinstance(new, Generate):
                marked.add(new)
        if isinstance(new, Load) and isinstance(new.array, Result) and new.array.form in marked:
            old, new = new, tables.beta(new.array.form, new.array.index, new.indices)
            tables.carry(old, new)
        if isinstance(new, Generate) and (inner := _perfectly_nested(node, marked)):
            tables.names[new] = merge_names(tables.names.get(new, ()), tables.names.get(inner, ()))
            if tables.kinds.get(inner) == "reduce":
                tables.kinds[new] = "reduce"
        memo[node] = new
    return tuple(memo[root] for root in roots)  # type: ignore[misc]


def _perfectly_nested(form: Node, inlined: set[Generate]) -> Generate | None:
    """The inlined array that is all there is in the body of `form`."""
    if not isinstance(form, Generate):
        return None
    inner = {b.array.form if isinstance(b, Load) and isinstance(b.array, Result) else None for b in form.bodies}
    only = inner.pop()
    return only if not inner and isinstance(only, Generate) and only in inlined else None


def host_variables(nodes: list[Node]) -> set[Var]:
    return {node.index for node in nodes if isinstance(node, ArrayLoop)}


def _inlines_when_open(form: Generate, uses: Uses, tables: Tables) -> bool:
    reader = next(iter(uses.readers[form]))
    nested = len(uses.readers[form]) == 1 and _perfectly_nested(reader, {form}) is form and uses.once(form) is not None
    if nested and uses.pointwise(form):
        return True
    if tables.names.get(form) or (not form.axes and _shares_work(form, tables)):
        return False
    return uses.once(form) is not None or all(isinstance(e, Const) for at in uses.loads[form] for e in at)


def _has_reduce(form: Generate) -> bool:
    return any(isinstance(node, Reduce) for node in scalar_nodes(*form.bodies))


def lift_open(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Arrays that mention variables of functions around them become closed, with the axes they depend on in front.

    Those that mention the state of a scalar loop cannot be: they are inlined.
    """
    nodes = topological(*roots)
    order, axes_of, owner = binders(nodes)
    hosts = host_variables(nodes)
    memo: dict[Node, Node] = {}
    for node in nodes:
        new = rebuild(node, memo.__getitem__)
        if new is not node:
            tables.carry(node, new)
        if isinstance(new, Load) and isinstance(new.array, Result) and isinstance(new.array.form, _OPEN):
            form = new.array.form
            outside = open_variables(form) - hosts
            if outside:
                old = new
                if outside <= axes_of.keys():
                    outer = sorted(outside, key=order.__getitem__)
                    axes: list[Any] = [memo.get(axes_of[v], axes_of[v]) for v in outer]
                    closed = _closed(form, axes, tables)
                    tables.parents.setdefault(closed, owner[outer[0]])
                    new = Load(Result(closed, new.array.index), (*outer, *new.indices), new.checked)
                elif not isinstance(form, Generate):
                    raise CompileError(
                        f"a {type(form).__name__.lower()} inside a scalar loop that depends on the loop's state is not supported"
                    )
                else:
                    indices = checked_places(new, new.indices, new.array.shape, tables) if new.checked else new.indices
                    new = tables.beta(form, new.array.index, indices)
                tables.carry(old, new)
        memo[node] = new
    return tuple(memo[root] for root in roots)  # type: ignore[misc]


def checked_places(source: Node, places: Sequence[Expr], shape: Sequence[Expr], tables: Tables) -> tuple[Expr, ...]:
    """Indices into an array of that shape, read from arrays of 0, 1, … that check them, at the line of `source`."""
    indices: list[Expr] = []
    for dimension, (e, extent) in enumerate(zip(places, shape, strict=True)):
        axes = tuple(Axis(fresh("i"), n) for n in (*[const(i64, 1)] * dimension, extent))
        counting = Generate(axes, (axes[-1].var,))
        tables.kinds[counting] = "index"
        indices.append(Load(Result(counting, 0), (*[const(i64, 0)] * dimension, e), True))
        tables.carry(source, indices[-1])
    return tuple(indices)


def binders(nodes: list[Node]) -> tuple[dict[Var, tuple[int, int]], dict[Var, Axis], dict[Var, Node]]:
    """For each axis variable: a key that puts outer axes first, the axis, and the node that binds it."""
    order: dict[Var, tuple[int, int]] = {}
    axes: dict[Var, Axis] = {}
    owner: dict[Var, Node] = {}
    for position, node in enumerate(nodes):
        if isinstance(node, (Generate, Reduce, *DEPENDENT)):
            for i, axis in enumerate(node.axes):
                order[axis.var], axes[axis.var], owner[axis.var] = (-position, i), axis, node
    return order, axes, owner


_OPEN = (Generate, *DEPENDENT)


def _closed(form: Generate | Dependent, outer: list[Axis], tables: Tables) -> Generate | Dependent:
    """`form` with `outer` axes in front, as fresh variables; the same form for the same question within one program."""
    key = (form, *outer)
    if key in tables.closed:
        return tables.closed[key]
    closed = tables.with_axes(form, outer) if isinstance(form, Generate) else close_form(form, outer, tables)
    tables.carry(form, closed)
    tables.outer[closed] = tables.outer.get(form, 0) + len(outer)
    tables.closed[key] = closed
    return closed


def lift_reductions(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """At most one `Reduce` stands at the top of each form; those under it, or beside it over other axes, become forms."""
    nodes = topological(*roots)
    memo: dict[Node, Node] = {}
    for node in nodes:
        new = rebuild(node, memo.__getitem__)
        if isinstance(new, Generate) and _has_reduce(new):
            merged = _one_reduction(new, tables)
            tables.carry(new, merged)
            tables.carry(node, merged)
            new = merged
        elif new is not node:
            tables.carry(node, new)
        memo[node] = new
    return tuple(memo[root] for root in roots)  # type: ignore[misc]


def _one_reduction(form: Generate, tables: Tables) -> Generate:
    axes = {axis.var: axis for axis in form.axes}
    bodies = form.bodies
    for _ in range(100):
        eager = _eager_reductions(bodies)
        inner = [r for r in eager if any(s is not r and s in set(scalar_nodes(*r.values)) for s in eager)]
        top = [r for r in eager if not any(r in set(scalar_nodes(*s.values)) for s in eager if s is not r)]
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


def _eager_reductions(bodies: tuple[Expr, ...]) -> list[Reduce]:
    """Reductions that are evaluated whenever the element is: not in a branch, a loop or an operator. Children first."""
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
            if isinstance(form, Reduce) and is_ragged(form):
                stack += [(axis.extent, False) for axis in form.axes]
            elif isinstance(form, Reduce):
                stack.append((form, True))
                stack += [(v, False) for v in form.values]
            elif isinstance(form, Loop):
                stack += [(e, False) for e in (form.count, *form.init)]
            elif isinstance(form, While):
                stack += [(e, False) for e in form.init]
            else:
                stack.append((form.predicate, False))
        else:
            stack += [(c, False) for c in children(node)]
    return [node for node in done if isinstance(node, Reduce)]


def _lift_reduce(
    form: Generate, bodies: tuple[Expr, ...], reduce: Reduce, axes: dict[Var, Axis], eager: list[Reduce], tables: Tables
) -> tuple[Expr, ...]:
    """`reduce` becomes a form of its own over the axes it depends on."""
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
    closed = _closed(own, outer, tables) if outer else own
    tables.parents.setdefault(closed, form)
    indices = tuple(axis.var for axis in outer)
    memo: dict[Node, Node] = {item: Load(Result(closed, k), indices, False) for k, item in enumerate(items)}
    return tables.rewrite(bodies, lambda node: node, memo)


def _merge_reductions(bodies: tuple[Expr, ...], reductions: list[Reduce], tables: Tables) -> tuple[Expr, ...]:
    """Several reductions over equal axes as one with all their results. `monoid` names them, separated by commas."""
    axes = reductions[0].axes
    parts: dict[str, list[Any]] = {name: [] for name in ("left", "right", "combine", "neutral", "values", "monoid")}
    start: dict[Reduce, int] = {}
    for r in reductions:
        start[r] = len(parts["left"])
        renamed = {a.var: b.var for a, b in zip(r.axes, axes, strict=True)}
        parts["values"] += tables.rewrite(r.values, lambda node: node, renamed)
        names = [fresh(v.name, v.dtype) for v in (*r.left, *r.right)]
        memo = dict(zip((*r.left, *r.right), names, strict=True))
        parts["left"] += names[: len(r.left)]
        parts["right"] += names[len(r.left) :]
        parts["combine"] += tables.rewrite(r.combine, lambda node: node, memo)
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
    return tables.rewrite(bodies, lambda node: node, memo)
