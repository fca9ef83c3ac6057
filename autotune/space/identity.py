"""Canonical keys of schedules: the state that directives lead to, without names of loops and the order of directives.

A loop is identified by its derivation from an axis: `y`, split, is `y.o` and `y.i`, whatever its name. Two schedules with one key are
compiled to the same code, so they are measured once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import astuple, replace
from typing import Any

from raido.algo.graph.expr import Expr
from raido.algo.graph.index import text
from raido.schedule.plan import EDGE, At, LoopPlan, Placement, Split, StagePlan
from raido.schedule.replay import variant_of
from raido.schedule.schedule import Schedule

Shape = tuple[Any, ...]


def key_of(schedule: Schedule) -> str:
    """The key of a complete schedule: equal for two schedules of one program that lead to the same state."""
    tests = [directive.branches[0][0] for directive in schedule.directives if directive.branches_program]
    variants = schedule.variants() if tests else (variant_of(schedule.state),)
    shapes = [
        plans_shape({plan.stage: plan for plan in (*variant.plans, *variant.array_loops)}) for variant in variants
    ]
    return hashlib.sha256(repr((schedule.fingerprint, tests, shapes)).encode()).hexdigest()


def plans_shape(plans: Mapping[str, StagePlan]) -> tuple[Shape, ...]:
    """Canonical forms of plans, by stage."""
    origins = {name: loop_origins(plan) for name, plan in plans.items()}
    return tuple(_shape(plans[name], origins) for name in sorted(plans))


def loop_origins(plan: StagePlan) -> dict[str, str]:
    """The derivation from the stage's axes of every name that a loop of the stage has or had; an axis derives from itself."""
    origins: dict[str, str] = {}
    for relation in plan.relations:
        if isinstance(relation, Split):
            parent = origins.get(relation.parent, relation.parent)
            origins.update({relation.outer: f"{parent}.o", relation.inner: f"{parent}.i"})
        else:
            outer, inner = (origins.get(name, name) for name in (relation.outer, relation.inner))
            origins[relation.into] = f"({outer} {inner})"
    return origins


def relation_shapes(plan: StagePlan) -> set[Shape]:
    """Canonical splits and fusions of a plan: the derivation of their loops, and for a split its factor and tail."""
    origins = loop_origins(plan)
    return {
        (origins.get(r.parent, r.parent), r.factor, r.tail) if isinstance(r, Split) else (origins[r.into],)
        for r in plan.relations
    }


def loop_shapes(plan: StagePlan) -> tuple[Shape, ...]:
    """Canonical loops of a plan, outermost first."""
    origins = loop_origins(plan)
    return tuple(_loop_shape(replace(loop, name=origins.get(loop.name, loop.name))) for loop in plan.loops)


def _loop_shape(loop: LoopPlan) -> Shape:
    """The canonical form of a loop. Its edge rows are included only if they differ from the default, so that older keys stay valid."""
    *said, edge = astuple(loop)
    return (*said, edge) if edge != EDGE else tuple(said)


def site_shape(at: Placement | None, origins: Mapping[str, Mapping[str, str]]) -> Shape:
    """The canonical form of a compute site, with its loop's derivation."""
    if at is None:
        return ()
    if not isinstance(at, At):
        return (type(at).__name__,)
    return (at.stage, origins.get(at.stage, {}).get(at.loop, at.loop))


def _shape(plan: StagePlan, origins: Mapping[str, Mapping[str, str]]) -> Shape:
    own = origins[plan.stage]
    return (
        plan.stage,
        tuple(sorted(relation_shapes(plan), key=repr)),
        loop_shapes(plan),
        tuple(site_shape(at, origins) for at in (plan.compute, plan.store, plan.compute_with)),
        plan.partition,
        plan.stream_stores,
        tuple(sorted((p.array, own.get(p.loop, p.loop), p.ahead) for p in plan.prefetches)),
        tuple(own.get(name, name) for name in plan.layout),
        plan.scope,
        plan.pad,
        _ways(plan),
        plans_shape({part.stage: part for part in plan.parts}),
    )


def _ways(plan: StagePlan) -> Any:
    """The strategy of a stage with its parameters, plus branches, alignments and buffers where there are any."""
    strategy: Any = plan.strategy
    if strategy is not None:
        name, parameters = strategy
        strategy = name, tuple((number, text(each) if isinstance(each, Expr) else each) for number, each in parameters)
    buffers = () if plan.buffers == 1 else (plan.buffers,)
    if not plan.instead and not plan.aligned and not buffers:
        return strategy
    branches = tuple((branch.text, plans_shape({plan.stage: branch.plan})) for branch in plan.instead)
    return strategy, plan.aligned, branches, *buffers
