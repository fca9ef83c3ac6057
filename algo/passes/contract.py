"""Contraction: float `a*b + c`, `a*b - c` and `c - a*b` become fused multiply-adds, once, in the graph.

"Written in one expression" means: the product is used nowhere else, and no name stands between it and the sum. A product of arrays is
followed into the sum of arrays that reads it, when the product is read once; so arrays and elements are treated alike. Of two products the
left one is contracted, unless only the right one depends on a loop-carried number: in `y = a * x[i] + b * y`, or `y[i] = a * x[i] + b *
y[i - 1]`, the next iteration then waits for one operation, not for two. Nothing else is ever contracted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from raido.algo.graph import index
from raido.algo.graph.expr import ArrayLoop, ArrayWhile, Expr, Generate, Load, Loop, Node, Op, Result, While
from raido.algo.graph.program import Program
from raido.algo.graph.rewrite import children, free_variables, rebuild, topological
from raido.algo.graph.scopes import substitute_variables
from raido.algo.trace.context import canonical_indices

LOOPS = (ArrayLoop, ArrayWhile, Loop, While)


def contract_products(program: Program) -> Program:
    """The program with products contracted, if it permits contraction."""
    if not program.contract:
        return program
    from raido.algo.passes.finish import follow_tables

    nodes = topological(*program.results)
    uses: Counter[Node] = Counter(program.results)
    for node in nodes:
        uses.update(children(node))
    whole = Contraction(program, uses, _carried(nodes))
    memo: dict[Node, Node] = {}
    for node in nodes:
        memo[node] = whole.contracted(node, rebuild(node, memo.__getitem__))
    results = tuple(memo[result] for result in program.results)
    program = replace(program, sites={**program.sites, **whole.sites})
    return follow_tables(program, memo, results)


def _carried(nodes: Sequence[Node]) -> set[Node]:
    """Nodes inside a loop that depend on a float of its state, or on an element of it at indices of counters alone."""
    loops = [node for node in nodes if isinstance(node, LOOPS)]
    bits: dict[Node, int] = {}
    for loop in loops:
        for state in loop.state:
            if state.dtype.is_float:
                bits.setdefault(state, 1 << len(bits))
    if not bits:
        return set()
    counters = {loop.index for loop in loops if isinstance(loop, (ArrayLoop, Loop))}
    masks: dict[Node, int] = {}
    for node in nodes:
        mask = 0 if getattr(node, "shape", ()) else bits.get(node, 0)
        if (
            isinstance(node, Load)
            and node.indices
            and frozenset().union(*map(free_variables, node.indices)) <= counters
        ):
            mask = bits.get(node.array, 0)
        for child in children(node):
            mask |= masks.get(child, 0)
        for own in node.state if isinstance(node, LOOPS) else ():
            mask &= ~bits.get(own, 0)
        masks[node] = mask
    return {node for node, mask in masks.items() if mask}


class Contraction:
    """State of the pass: use counts of nodes, loop-carried nodes, and sites of factors that have moved into sums."""

    def __init__(self, program: Program, uses: Counter[Node], carried: Collection[Node]) -> None:
        self.program = program
        self.uses = uses
        self.carried = carried
        self.sites = dict(program.sites)

    def contracted(self, old: Node, new: Node) -> Node:
        """`new`, the rebuilt `old`, as a fused multiply-add where it is a sum with a product."""
        if (
            not isinstance(old, Op)
            or not isinstance(new, Op)
            or old.name not in ("add", "sub")
            or not old.dtype.is_float
        ):
            return new
        left, right = (arg in self.carried for arg in old.args)
        for side in (1, 0) if right and not left else (0, 1):
            product = self._product(old.args[side], new.args[side])
            if product is None:
                continue
            a, b = product
            other = new.args[1 - side]
            if new.name == "sub" and side == 0:
                other = Op("neg", new.dtype, (other,))
            elif new.name == "sub":
                a = Op("neg", new.dtype, (a,))
            return Op("fma", new.dtype, (a, b, other))
        return new

    def _product(self, old: Expr, new: Expr) -> tuple[Expr, Expr] | None:
        """The factors of a product used only here: directly, or as the body of an unnamed array read only here; else None."""
        if self.uses[old] != 1:
            return None
        if isinstance(old, Op) and old.name == "mul":
            if isinstance(new, Op) and new.name == "mul":
                return new.args[0], new.args[1]
            return None
        if not (isinstance(old, Load) and isinstance(new, Load) and not old.checked):
            return None
        if not isinstance(old.array, Result) or not isinstance(new.array, Result) or self.uses[old.array] != 1:
            return None
        form, now = old.array.form, new.array.form
        if not isinstance(form, Generate) or not isinstance(now, Generate) or self.uses[form] != 1:
            return None
        kind = self.program.kinds.get(form)
        body, body_now = form.bodies[old.array.index], now.bodies[new.array.index]
        if len(form.bodies) != 1 or self.program.names.get(form) or kind not in ("elementwise", "move"):
            return None
        found = self._product(body, body_now)
        if found is None:
            return None
        substitution = {axis.var: index.canonical(e) for axis, e in zip(now.axes, new.indices, strict=True)}
        memo: dict[Node, Node] = {}
        moved = tuple(substitute_variables(factor, substitution, canonical_indices, memo) for factor in found)
        for before, after in memo.items():
            if before in self.sites:
                self.sites.setdefault(after, self.sites[before])
        return moved[0], moved[1]
