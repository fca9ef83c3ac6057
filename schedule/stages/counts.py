"""Names for data-dependent sizes, once stages are formed: each `Count` becomes a size that the host reads at run time.

The host reads the number after the stage that computes it; later stages have loops and memory of that size. Otherwise such a size is like
one of the program's own.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from dataclasses import replace
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import interval
from raido.algo.graph.expr import Array, Axis, Count, Expr, Node, Result, SizeVar, fresh
from raido.algo.graph.program import Site
from raido.algo.graph.rewrite import loads_in, rebuild, scalar_nodes, substitute
from raido.schedule.stages.stage import AnyStage, ControlStage, CountedSize


class Counts:
    """The names of a program's counts, and rewriting of expressions to mention them. `sites`: source sites, kept for rewritten nodes."""

    def __init__(self, taken: Iterable[str], sites: MutableMapping[Node, Site]) -> None:
        self.taken = set(taken)
        self.sites = sites
        self.found: dict[Array | Expr, CountedSize] = {}
        self.looked_at: set[Expr] = set()

    def size_of(self, e: Expr) -> Expr:
        """Returns an expression with its counts replaced by named sizes."""
        memo: dict[Node, Node] = {}
        for node in scalar_nodes(e):
            if isinstance(node, Count):
                memo[node] = self._named(node)
            else:
                memo[node] = rebuild(node, lambda child: memo.get(child, child))
        return memo[e]  # type: ignore[return-value]

    def extent_of(self, e: Expr) -> Expr:
        """Returns the extent of a result: a size of the program, or a named count."""
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
        """Returns the upper bound of a size, in sizes of the program; None where it is not known."""
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
        """Returns stages with their counts replaced by named sizes."""
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
    """Returns an expression with the counts of a graph replaced by their named sizes."""
    known = {counted.array: counted.size for counted in counts if counted.array is not None}
    if not known or not any(isinstance(node, Count) for node in scalar_nodes(e)):
        return e
    memo: dict[Node, Node] = {}
    for node in scalar_nodes(e):
        memo[node] = (
            known[node.array] if isinstance(node, Count) else rebuild(node, lambda child: memo.get(child, child))
        )
    return memo[e]  # type: ignore[return-value]
