"""The readers of each array of a graph, their access maps, and the variables and loops that nodes depend on."""

from __future__ import annotations

from collections.abc import Iterable

from raido.algo.graph.expr import (
    Array,
    ArrayLoop,
    ArrayWhile,
    Axis,
    Const,
    Count,
    Expr,
    Generate,
    Load,
    Node,
    Parameter,
    Reduce,
    Result,
    Var,
)
from raido.algo.graph.rewrite import children, free_variables, loads_in, scalar_nodes, topological
from raido.schedule.stages.dependent import DEPENDENT
from raido.schedule.stages.tables import FORMS


class Uses:
    """The readers of each `Generate`, and the indices at which they read it."""

    def __init__(self, roots: tuple[Array, ...]) -> None:
        self.nodes = topological(*roots)
        self.loads: dict[Generate, dict[tuple[Expr, ...], None]] = {}
        self.readers: dict[Generate, dict[Node, None]] = {}
        self.whole: set[Node] = {root.form for root in roots if isinstance(root, Result)}
        self.lazy: set[Generate] = set()
        self.reduce_axes: dict[Load, set[Var]] = {}
        self.homes = loops_around(self.nodes)
        self.hosts = host_variables(self.nodes)
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
        """Returns the single reader and the single index at which it reads; None where there are several, or the array is needed as
        such.
        """
        if form in self.whole or len(self.loads.get(form, ())) != 1 or len(self.readers[form]) != 1:
            return None
        return next(iter(self.readers[form])), next(iter(self.loads[form]))

    def pointwise(self, form: Generate) -> bool:
        """Whether the single reader reads each element at most once, at an index made of its own axes."""
        use = self.once(form)
        if use is None:
            return False
        reader, indices = use
        if not isinstance(reader, (Generate, *DEPENDENT)) or self.homes.get(reader) != self.homes.get(form):
            return False
        variables = [e for e in indices if isinstance(e, Var)]
        if len(set(variables)) != len(variables) or any(not isinstance(e, Var | Const) for e in indices):
            return False
        return not self.again(form)

    def again(self, form: Generate) -> bool:
        """Whether the single reader reads an element for several indices of its own axes, or of the functions around it."""
        use = self.once(form)
        if use is None:
            return True
        reader, indices = use
        around = {axis.var for axis in reader.axes} if isinstance(reader, (Generate, *DEPENDENT)) else set()
        around |= free_variables(reader) - self.hosts
        for load in loads_in(*(reader.bodies if isinstance(reader, Generate) else children(reader))):
            if isinstance(load.array, Result) and load.array.form is form:
                around |= self.reduce_axes.get(load, set())
        return not around <= set(scalar_nodes(*indices)) | free_variables(form)


def loops_around(nodes: list[Node]) -> dict[Node, frozenset[Node]]:
    """Maps each node to the whole-array loops whose state or counter it depends on."""
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


def binders(nodes: list[Node]) -> tuple[dict[Var, tuple[int, int]], dict[Var, Axis], dict[Var, Node]]:
    """Returns, for each axis variable, a sort key that puts outer axes first, the axis, and the node that binds it."""
    order: dict[Var, tuple[int, int]] = {}
    axes: dict[Var, Axis] = {}
    owner: dict[Var, Node] = {}
    for position, node in enumerate(nodes):
        if isinstance(node, (Generate, Reduce, *DEPENDENT)):
            for i, axis in enumerate(node.axes):
                order[axis.var], axes[axis.var], owner[axis.var] = (-position, i), axis, node
    return order, axes, owner


def host_variables(nodes: list[Node]) -> set[Var]:
    return {node.index for node in nodes if isinstance(node, ArrayLoop)}
