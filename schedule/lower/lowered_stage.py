"""Lowered stages (`LoweredStage`): a stage under one set of plans, inlined producers substituted and derived properties computed once."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Expr, Item, Load, Node, Op, Reduce, Result, SizeVar, Var, fresh
from raido.algo.graph.rewrite import free_variables, scalar_nodes
from raido.schedule.checks.branches import arrays_not_copied
from raido.schedule.checks.lanes_along_folds import is_ordered_fold, is_plain_fold
from raido.schedule.lower.expressions.index_checks import is_made_of_sizes
from raido.schedule.lower.expressions.own_variables import with_own_variables
from raido.schedule.lower.regions.partition import Boundary, boundaries_of, boundary_at, without_boundaries
from raido.schedule.lower.regions.regions import Reads
from raido.schedule.plan import At, Inline, LoopPlan, Split, StagePlan, fused_loops
from raido.schedule.stages.form_stages import top_reductions
from raido.schedule.stages.reads import redirect
from raido.schedule.stages.segments import with_lanes
from raido.schedule.stages.stage import AnyStage, Stage
from raido.schedule.stages.tables import Tables
from raido.schedule.state import position
from raido.schedule.strategies.parts import part_loop

SHORT_ROW = 32  # elements: shorter rows are not worth a loop of their own


@dataclass(slots=True, eq=False)
class LoweredStage:
    """A stage ready to be lowered.

    version_at: the position of the loop before which the two versions part. cut: the position of the loop that is split at boundaries.

    blocked: the stage reads or writes storage in blocks, or starts at multiples, so its loops count from 0 and quotients of
    coordinates are loop variables.

    in_place: an update that changes its initial array in place. carried: the fold whose value goes from one iteration to the next; of a
    filter, the number of elements kept. branches: the bodies and the reduction of each branch on sizes; they may read arrays directly of
    which the stage's own loops read cached copies. origin: the stage of which this one, with more axes in front, computes partial results.
    """

    stage: Stage
    plan: StagePlan
    bodies: tuple[Expr, ...]
    reduction: Reduce | None
    position: int
    carried: Reduce | None = field(init=False)
    reads: Reads = field(init=False)
    boundaries: list[Boundary] = field(init=False)
    axis_of: dict[str, frozenset[str]] = field(init=False)
    reduced: frozenset[str] = field(init=False)
    first_reduction: int = field(init=False)
    version_at: int = field(init=False)
    peeled: int = field(init=False)
    variables: dict[str, Var] = field(init=False)
    fused: frozenset[str] = field(init=False)
    blocked: bool = False
    in_place: bool = False
    branches: tuple[tuple[tuple[Expr, ...], Reduce | None], ...] = ()
    origin: Stage | None = None

    def __post_init__(self) -> None:
        self.carried = _number_kept(self.reduction) if self.reduction and self.stage.filter else self.reduction
        self.reads = Reads(self.bodies)
        self.boundaries = boundaries_of(self.bodies)
        self.variables = {axis.name: axis.var for axis in self.stage.all_axes}
        self.axis_of = _axes_of_loops(self.stage, self.plan)
        reduction_axes = {axis.name for axis in self.stage.reduction_axes}
        self.reduced = frozenset(n for n, axes in self.axis_of.items() if axes & reduction_axes)
        self.fused = fused_loops(self.plan.relations)
        loops = self.plan.loops
        self.first_reduction = _first(i for i, loop in enumerate(loops) if loop.name in self.reduced)
        self.peeled = self._peeled_position(loops)
        self.version_at = self.version_from(0)

    def version_from(self, position: int) -> int:
        """The position of the first loop, from `position` on, before which the two versions may part."""
        loops, strided = self.plan.loops, strided_threads(self.plan)
        special = [
            i
            for i, loop in enumerate(loops)
            if loop.kind in ("vector", "unroll") or loop.name in self.reduced or loop.name in strided
        ]
        return min(i for i in (*special, self.peeled, len(loops)) if i >= position)

    def _peeled_position(self, loops: tuple[LoopPlan, ...]) -> int:
        pure = [i for i, loop in enumerate(loops) if loop.name not in self.reduced]
        vector = [i for i, loop in enumerate(loops) if loop.kind == "vector" and self._may_be_peeled(loop.name)]
        if vector:
            return vector[0]
        return pure[-1] if pure and self.plan.partition and loops[pure[-1]].kind == "serial" else 10**9

    def _may_be_peeled(self, name: str) -> bool:
        """Whether a vector loop may be split at boundaries: one over result elements or iterations of an update, or over a
        fold whose lanes have no contiguous blocks of their own."""
        fold = is_plain_fold(self.stage) and not is_ordered_fold(self.stage)
        return name not in self.reduced or fold or self.stage.update is not None

    @property
    def form(self) -> Node:
        return self.stage.form

    @property
    def flat(self) -> bool:
        """Whether the stage folds segments by the strategy `flat`, in even blocks of values: its innermost loop is the one over
        segments."""
        return self.plan.strategy is not None and self.plan.strategy[0] == "flat"

    @property
    def overlaps(self) -> bool:
        """Whether a split has the tail "shift": the last tile is moved back to end with the axis, so some elements are computed twice."""
        plans = (self.plan, *(branch.plan for branch in self.plan.instead))
        return any(isinstance(r, Split) and r.tail == "shift" for plan in plans for r in plan.relations)

    def chosen_by_updates(self, position: int) -> bool:
        """Whether the loop at `position` runs over an axis of the result whose elements an update's iterations choose."""
        whole = {axis.name for axis in self.stage.whole_axes} if self.stage.update else set()
        return bool(self.axis_of[self.plan.loops[position].name] & whole)

    def in_phases(self, position: int) -> bool:
        """Whether the loop at `position` is a vector loop over tiles whose few indices are unrolled inside (see `phases.py`)."""
        loops = self.plan.loops
        if loops[position].kind != "vector":
            return False
        name, inner = loops[position].name, {loop.name for loop in loops[position + 1 :] if loop.kind == "unroll"}
        return any(isinstance(r, Split) and r.outer == name and r.inner in inner for r in self.plan.relations)

    def is_around_phases(self, position: int) -> bool:
        """Whether the loop at `position` runs over chunks of such tiles: counted from 0, it shows that each begins at a multiple."""
        axes, loops = self.axis_of, self.plan.loops
        inside = (k for k in range(position + 1, len(loops)) if axes[loops[k].name] == axes[loops[position].name])
        return any(map(self.in_phases, inside))

    def rows_along(self, variable: Var, identity: Collection[Node]) -> tuple[Expr, Expr, tuple[Op, ...]] | None:
        """Finds reads at (x + c) // m and (x + c) % m along the axis variable x: returns m, c and those nodes; None unless exactly one (m,
        c) occurs, or if m is a constant below SHORT_ROW. Boundary operations in `identity` count as the identity."""
        found: dict[tuple[Expr, Expr], list[Op]] = {}
        for node in scalar_nodes(*self.bodies):
            if not isinstance(node, Op) or node.dtype is not i64 or node.name not in ("floordiv", "mod", "floormod"):
                continue
            offset = ix.sub(without_boundaries(node.args[0], identity), variable)
            if is_made_of_sizes(node.args[1]) and all(isinstance(a, SizeVar) for a in ix.linear(offset)[1]):
                found.setdefault((node.args[1], offset), []).append(node)
        if len(found) != 1:
            return None
        (((length, offset), nodes),) = found.items()
        if (ix.constant_value(length) or SHORT_ROW) < SHORT_ROW:
            return None
        return length, offset, tuple(nodes)

    def partitioned(self) -> set[Var]:
        """The variables of the axes whose loops are split at boundaries, and the variables bound inside expressions
        that run over ranges of sizes.

        The vectorised axis is always among them, because lanes with clamped indices would gather.
        """
        vector = [loop.name for loop in self.plan.loops if loop.kind == "vector" and self._may_be_peeled(loop.name)]
        names = {axis for name in (*self.plan.partition, *vector) for axis in self.axis_of.get(name, (name,))}
        if not names:
            return set()
        reduction = {axis.var for axis in self.stage.reduction_axes}
        inner = {v for v, bounds in self.reads.inner.items() if not any(free_variables(e) for e in bounds)}
        return {self.variables[n] for n in names if n in self.variables} | reduction | inner


def strided_threads(plan: StagePlan) -> frozenset[str]:
    """The names of the loops over threads whose split has an unrolled outer loop, so that each thread has indices a constant stride apart;
    one test decides whether all their tiles are full."""
    unrolled = {loop.name for loop in plan.loops if loop.kind == "unroll"}
    threads = {loop.name for loop in plan.loops if loop.level.startswith("thread")}
    splits = (r for r in plan.relations if isinstance(r, Split))
    return frozenset(r.inner for r in splits if r.outer in unrolled and r.inner in threads)


def _number_kept(fold: Reduce) -> Reduce:
    """A fold that counts the elements for which the first value of `fold` is true."""
    left, right, zero = fresh("left"), fresh("right"), ix.as_index(0)
    one = Op("select", i64, (fold.values[0], ix.as_index(1), zero))
    return Reduce(fold.axes, (left,), (right,), (Op("add", i64, (left, right)),), (zero,), (one,), True, "add")


def _first(positions: Iterable[int]) -> int:
    return next(iter(positions), 10**9)


def _axes_of_loops(stage: Stage, plan: StagePlan) -> dict[str, frozenset[str]]:
    axes = {axis.name: frozenset((axis.name,)) for axis in stage.all_axes}
    for relation in plan.relations:
        if isinstance(relation, Split):
            axes[relation.outer] = axes[relation.inner] = axes[relation.parent]
        else:
            axes[relation.into] = axes[relation.outer] | axes[relation.inner]
    return axes


def lower_stages(stages: Iterable[AnyStage], plans: dict[str, StagePlan], tables: Tables) -> dict[str, LoweredStage]:
    """The lowered stage of every stage that is not inlined, by name. Inlined stages are substituted into their readers, inner ones
    first."""
    lowered_stages: dict[str, LoweredStage] = {}
    inlined: dict[Node, tuple[Stage, tuple[Expr, ...]]] = {}
    closed = [stage for stage in flat(stages) if isinstance(stage, Stage)]
    for stage in closed:
        plan = plans[stage.name]
        bodies = _made_bodies(_folded_in_lanes(stage, plan, tables), inlined, tables)
        if isinstance(plan.compute, Inline):
            inlined[stage.form] = (stage, bodies)
            continue
        lowered = lowered_stages[stage.name] = LoweredStage(
            stage, plan, bodies, _reduction(stage, bodies), len(lowered_stages)
        )
        for branch in plan.instead:
            own, fold = bodies, lowered.reduction
            if apart := arrays_not_copied(closed, plans, branch.plan):
                plain = redirect(stage, apart, tables.sites)
                own = _made_bodies(_folded_in_lanes(plain, plan, tables), inlined, tables)
                fold = _reduction(stage, own)
            lowered.branches += ((own, fold),)
    in_blocks = {
        lowered.form
        for lowered in lowered_stages.values()
        if any(divisions for _, divisions in parts_of_layout(lowered))
    }
    for lowered in lowered_stages.values():
        lowered.blocked = bool(
            lowered.plan.aligned or lowered.form in in_blocks or any(form in in_blocks for form in lowered.reads.loads)
        )
        _meet_boundaries(lowered, lowered_stages)
    return lowered_stages


def _meet_boundaries(lowered: LoweredStage, lowered_stages: dict[str, LoweredStage]) -> None:
    """Adds the boundary operations of a stage computed inside a loop that is split at boundaries to those of the loop's own stage, which reads
    it at one index tuple.
    """
    at = lowered.plan.compute
    if not isinstance(at, At) or (reader := lowered_stages.get(at.stage)) is None:
        return
    points = reader.reads.loads.get(lowered.form, {})
    inside = reader.peeled < len(reader.plan.loops) and position(reader.plan, at.loop) >= reader.peeled
    if len(points) != 1 or not inside:
        return
    axes = reader.axis_of[reader.plan.loops[reader.peeled].name] & reader.variables.keys()
    chosen = {reader.variables[name] for name in axes}
    values = {axis.var: e for axis, e in zip(lowered.stage.axes, *points, strict=True)}
    for boundary in lowered.boundaries:
        moved = boundary_at(boundary, values)
        if moved is not None and not chosen.isdisjoint(moved.variables):
            reader.boundaries.append(moved)
    reader.reads.inner |= {a.var: (ix.as_index(0), ix.sub(a.extent, 1)) for a in lowered.stage.reduction_axes}
    reader.reads.inner |= lowered.reads.inner


def _made_bodies(
    bodies: tuple[Expr, ...], inlined: dict[Node, tuple[Stage, tuple[Expr, ...]]], tables: Tables
) -> tuple[Expr, ...]:
    return with_own_variables(substitute_inlined(bodies, inlined, tables), tables)


def _reduction(stage: Stage, bodies: tuple[Expr, ...]) -> Reduce | None:
    """The reduction of a stage as it occurs in these bodies; None if it has none."""
    if stage.update is not None:
        (found,) = {body.form for body in bodies if isinstance(body, Item) and isinstance(body.form, Reduce)}
        return found
    if stage.reduction is None:
        return None
    return next(r for r in top_reductions(bodies) if r.axes == stage.reduction.axes)


def _folded_in_lanes(stage: Stage, plan: StagePlan, tables: Tables) -> tuple[Expr, ...]:
    """The bodies of a stage; folds of data-dependent length are distributed over lanes where the strategy `rows` vectorises them."""
    if plan.strategy is None or plan.strategy[0] != "rows":
        return stage.bodies
    loop = part_loop(stage, plan, "fold", -1)
    return with_lanes(stage, loop, tables) if loop.kind == "vector" else stage.bodies


def parts_of_layout(lowered: LoweredStage) -> tuple[tuple[int, tuple[tuple[str, int], ...]], ...]:
    """For each dimension of a stage's storage: the axis it comes from, and the chain of quotients and remainders applied to the index; ()
    for the default layout."""
    found: dict[str, tuple[int, tuple[tuple[str, int], ...]]] = {
        axis.name: (d, ()) for d, axis in enumerate(lowered.stage.axes)
    }
    if not lowered.plan.layout:
        return ()
    for relation in lowered.plan.relations:
        if isinstance(relation, Split) and relation.parent in found:
            d, divisions = found[relation.parent]
            found[relation.outer] = (d, (*divisions, ("floordiv", relation.factor)))
            found[relation.inner] = (d, (*divisions, ("mod", relation.factor)))
    return tuple(found[name] for name in lowered.plan.layout)


def laid_out_shape(lowered: LoweredStage, shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The extents of the storage for a box of that shape, under the stage's layout."""
    parts = parts_of_layout(lowered)
    if not parts:
        return shape
    dimensions = []
    for d, divisions in parts:
        extent = shape[d]
        for name, k in divisions:
            extent = ix.ceildiv(extent, k) if name == "floordiv" else ix.as_index(k)
        dimensions.append(extent)
    return tuple(dimensions)


def substitute_inlined(
    bodies: tuple[Expr, ...], inlined: dict[Node, tuple[Stage, tuple[Expr, ...]]], tables: Tables
) -> tuple[Expr, ...]:
    """The expressions with loads of inlined stages replaced by the expressions that compute them."""
    nodes = scalar_nodes(*bodies)
    if not any(isinstance(n, Load) and getattr(n.array, "form", None) in inlined for n in nodes):
        return bodies
    memo: dict[Node, Any] = {}
    for node, new in tables.renewed(nodes, memo):
        if isinstance(node, Load) and isinstance(node.array, Result) and node.array.form in inlined:
            stage, parts = inlined[node.array.form]
            memo_axes: dict[Any, Node] = dict(zip((a.var for a in stage.axes), new.indices, strict=True))
            part = parts[node.array.index]
            memo[node] = tables.renew(scalar_nodes(part), memo_axes)[part]
            tables.carry(node, memo[node])
    return tuple(memo[b] for b in bodies)


def flat(stages: Iterable[AnyStage]) -> list[AnyStage]:
    """All stages in order, each after the stages of its loop body or branches."""
    found: list[AnyStage] = []
    for stage in stages:
        if not isinstance(stage, Stage):
            found += flat(stage.setup) + flat(stage.body) + flat(stage.orelse)
        found.append(stage)
    return found
