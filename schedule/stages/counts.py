"""Sizes that data decides, once stages are formed: each `Count` is a size by a name of its own, which the host learns on its way.

After the stage that makes the number has run, the host reads it; what follows has loops and memory of that size. Nothing else tells
such a size from one of the program's own.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from dataclasses import replace
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Array, Axis, Count, Expr, Node, Result, SizeVar, fresh
from raido.algo.graph.facts import interval
from raido.algo.graph.program import Site
from raido.algo.graph.rewrite import loads_in, rebuild, scalar_nodes, substitute
from raido.schedule.stages.stage import AnyStage, ControlStage, CountedSize


class Counts:
    """Names for the counts of a program, and its expressions with them in place. `sites`: the user's lines, which follow them."""

    def __init__(self, taken: Iterable[str], sites: MutableMapping[Node, Site]) -> None:
        self.taken = set(taken)
        self.sites = sites
        self.found: dict[Array | Expr, CountedSize] = {}
        self.looked_at: set[Expr] = set()

    def size_of(self, e: Expr) -> Expr:
        """An expression with its counts by name."""
        memo: dict[Node, Node] = {}
        for node in scalar_nodes(e):
            if isinstance(node, Count):
                memo[node] = self._named(node)
            else:
                memo[node] = rebuild(node, lambda child: memo.get(child, child))
        return memo[e]  # type: ignore[return-value]

    def extent_of(self, e: Expr) -> Expr:
        """The extent of a result, which is a size of the program, or has a name of its own."""
        e = self.size_of(e)
        known = {counted.size for counted in self.found.values()}
        if not any(node in known for node in scalar_nodes(e)):
            return e
        if e in known:
            return e
        if e not in self.found:
            self.found[e] = CountedSize(self._name(), self.most(e), None, e)
        return self.found[e].size

    def most(self, e: Expr) -> Expr | None:
        """The most that a size can be, in sizes of the program, where that is known; each count is between 0 and its own bound."""
        bounds = {counted.size: counted.bound for counted in self.found.values() if counted.bound is not None}
        names = {size: fresh(size.name) for size in bounds}
        ranges = {names[size]: (ix.as_index(0), bound) for size, bound in bounds.items()}
        unbounded = {counted.size for counted in self.found.values()} - bounds.keys()
        loose = any(node in unbounded for node in scalar_nodes(e))
        reach = None if loose else interval(ix.canonical(substitute(e, names)), ranges)
        return None if reach is None else reach[1]

    def _name(self) -> SizeVar:
        name = next(n for k in range(len(self.taken) + 1) if (n := f"count_{k + 1}") not in self.taken)
        self.taken.add(name)
        return SizeVar(name)

    def _named(self, count: Count) -> SizeVar:
        if count.array not in self.found:
            bound = None if count.bound is None else self.most(self.size_of(count.bound))
            self.found[count.array] = CountedSize(self._name(), bound, count.array)
        return self.found[count.array].size

    def in_stages(self, stages: Iterable[AnyStage]) -> tuple[AnyStage, ...]:
        """Stages with their counts by name."""
        return tuple(self._stage(stage) for stage in stages)

    def _stage(self, stage: AnyStage) -> AnyStage:
        if isinstance(stage, ControlStage):
            parts = {name: self.in_stages(getattr(stage, name)) for name in ("body", "orelse", "setup")}
            after = [Result(stage.form, k) for k in range(len(stage.results))]
            for array in (*stage.state, *stage.init, *stage.results, *stage.orelse_results, *after):
                for extent in array.shape:
                    self.size_of(extent)
            return replace(stage, **parts)
        roots: tuple[Any, ...] = (*stage.bodies, *((stage.reduction,) if stage.reduction else ()))
        extents = tuple(axis.extent for axis in stage.axes)
        for load in loads_in(*roots):
            for extent in load.array.shape:
                if extent not in self.looked_at:
                    self.looked_at.add(extent)
                    self.size_of(extent)
        if not any(isinstance(node, Count) for node in scalar_nodes(*roots, *extents)):
            return stage
        memo: dict[Node, Any] = {}
        for node in scalar_nodes(*roots):
            memo[node] = self.size_of(node) if isinstance(node, Count) else rebuild(node, lambda c: memo.get(c, c))
            if node in self.sites:
                self.sites.setdefault(memo[node], self.sites[node])
        axes = tuple(Axis(axis.var, self.size_of(axis.extent)) for axis in stage.axes)
        reduction = memo[stage.reduction] if stage.reduction else None
        return replace(stage, axes=axes, reduction=reduction, bodies=tuple(memo[body] for body in stage.bodies))


def by_name(e: Expr, counts: Iterable[CountedSize]) -> Expr:
    """An expression with the counts of a graph by name."""
    known = {counted.array: counted.size for counted in counts if counted.array is not None}
    if not known or not any(isinstance(node, Count) for node in scalar_nodes(e)):
        return e
    memo: dict[Node, Node] = {}
    for node in scalar_nodes(e):
        memo[node] = (
            known[node.array] if isinstance(node, Count) else rebuild(node, lambda child: memo.get(child, child))
        )
    return memo[e]  # type: ignore[return-value]
