"""`Tables`: attributes of nodes (names, kinds, source sites …) that survive the rewriting of the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import (
    Array,
    ArrayCond,
    ArrayLoop,
    ArrayWhile,
    Axis,
    Const,
    Expr,
    Generate,
    Load,
    Node,
    Op,
    Parameter,
    Result,
    Var,
    const,
    fresh,
)
from raido.algo.graph.program import Program, Site
from raido.algo.graph.rewrite import children, free_variables, rebuild, topological
from raido.algo.passes.share import structure
from raido.schedule.stages.dependent import DEPENDENT, Dependent

FORMS = (Generate, *DEPENDENT, ArrayLoop, ArrayWhile, ArrayCond)


class Tables:
    """Names, kinds, source sites and other attributes of nodes, carried over while passes rewrite the nodes."""

    def __init__(self, program: Program) -> None:
        self.names: dict[Node, tuple[str, ...]] = {**program.names}
        self.kinds: dict[Node, str] = {**program.kinds}
        self.sites: dict[Node, Site] = dict(program.sites)
        self.ranks: dict[Node, int] = {form: i for i, form in enumerate(program.order)}
        self.named_axes: set[Var] = {*program.named_axes}
        self.contract = program.contract
        self.kept_sorts: set[Node] = set()  # sorts that do not become networks
        self.outer: dict[Node, int] = {}
        self.parents: dict[Node, Node] = {}
        self.changing: dict[Node, bool] = {}  # updates in place
        self.copies: dict[Node, tuple[Array, str]] = {}  # updates that need a copy: the array, and the reason
        self.hoistable: dict[Node, bool] = {}  # forms that are always evaluated, or are guarded
        self.closed: dict[tuple[Node, ...], Generate | Dependent] = {}
        self.folds: dict[Any, Generate] = {}  # lifted folds, by their structure
        self.as_loops = False  # loops with independent iterations stay loops
        self.mapped = False  # some have become maps

    def carry(self, old: Node, new: Node) -> None:
        """Copies the attributes of `old` to `new`, which replaces it."""
        if old is new:
            return
        if old in self.sites:
            self.sites.setdefault(new, self.sites[old])
        if isinstance(old, FORMS) and type(old) is type(new):
            if old in self.names:
                self.names[new] = merge_names(self.names.get(new, ()), self.names[old])
            marks = self.changing, self.copies, self.hoistable
            if old in self.kept_sorts:
                self.kept_sorts.add(new)
            for table in (self.kinds, self.ranks, self.outer, self.parents, *marks):
                if old in table:
                    table.setdefault(new, table[old])  # type: ignore[attr-defined]

    def made(self, form: Generate, kind: str) -> Result:
        """Returns the first result of a new form of that kind."""
        self.kinds[form] = kind
        return Result(form, 0)

    def scalar(self, body: Expr, kind: str) -> Load:
        """Returns a scalar that is computed once, by a new form of that kind."""
        return Load(self.made(Generate((), (body,)), kind), (), False)

    def over_new_axes(self, roots: Iterable[Node], axes: Sequence[Axis]) -> tuple[tuple[Axis, ...], Any]:
        """Returns axes with new variables, and roots with the variables of the old ones replaced."""
        names = {axis.var: fresh(axis.name) for axis in axes}
        extents = self.substitute([axis.extent for axis in axes], names)
        own = tuple(Axis(names[axis.var], extent) for axis, extent in zip(axes, extents, strict=True))
        return own, self.substitute(roots, names)

    def first_equal(self, form: Generate) -> Generate:
        """Returns the first lifted fold that is equal up to renaming of bound variables, which is computed for all."""
        first = self.folds.setdefault(structure(form), form)
        self.carry(form, first)
        return first

    def pass_names(self, old: Node, new: Node) -> None:
        """Copies names, sites and ranks of `old` to `new`, a form of another kind that computes the same arrays."""
        if old in self.names:
            self.names[new] = merge_names(self.names.get(new, ()), self.names[old])
        for table in (self.sites, self.ranks, self.outer, self.parents):
            if old in table:
                table.setdefault(new, table[old])  # type: ignore[attr-defined]

    def substitute(self, roots: Iterable[Node], values: Mapping[Any, Node]) -> Any:
        """Returns the roots with variables (or other scalars) replaced; arrays that mention none of them stay as they are."""
        return self.rewrite(roots, lambda node: node, values)

    def rewrite(
        self, roots: Iterable[Node], change: Callable[[Any], Node], values: Mapping[Any, Node] | None = None
    ) -> Any:
        """Rebuilds every node from its rewritten children and applies `change` to it, bottom-up; returns the new roots.

        `values` replaces variables (or other scalars); arrays that mention none of the variables then stay as they are.
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

    def renew(self, nodes: Iterable[Node], memo: dict[Node, Any]) -> dict[Node, Any]:
        """Rebuilds the nodes (children first) that `memo` does not hold yet, from the entries of their children; returns `memo`."""
        for _ in self.renewed(nodes, memo):
            pass
        return memo

    def renewed(self, nodes: Iterable[Node], memo: dict[Node, Any]) -> Iterator[tuple[Node, Any]]:
        """Yields each node that `memo` does not hold yet with its rebuilt form; the caller may replace the form's entry in `memo`."""
        for node in nodes:
            if node not in memo:
                memo[node] = new = rebuild(node, lambda child: memo.get(child, child))
                self.carry(node, new)
                yield node, new

    def beta(self, form: Generate, index: int, indices: tuple[Expr, ...]) -> Expr:
        """Returns the element of `form` at `indices`, as an expression (beta-reduction)."""
        values = {axis.var: e for axis, e in zip(form.axes, indices, strict=True) if axis.var is not e}
        if not values:
            return form.bodies[index]
        return self.rewrite((form.bodies[index],), fold_constants, values)[0]

    def with_axes(self, form: Generate, outer: Sequence[Axis]) -> Generate:
        """Returns `form` with `outer` axes in front, as fresh variables."""
        leading, bodies = self.over_new_axes(form.bodies, outer)
        self.named_axes.update(new.var for old, new in zip(outer, leading, strict=True) if old.var in self.named_axes)
        return Generate(leading + form.axes, bodies)


def _affected(roots: tuple[Node, ...], values: dict[Node, Node]) -> list[Node]:
    """Returns the nodes below some roots, children first, without the insides of arrays that mention none of the variables."""
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
    """Returns both tuples joined, each name once."""
    return tuple(dict.fromkeys(first + second))


def fold_constants(node: Node) -> Node:
    """Folds comparisons of integer literals, and selections by a literal."""
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
