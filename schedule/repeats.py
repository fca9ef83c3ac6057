"""Counts redundant computation: stages whose elements a schedule computes more than twice, as `show()` reports them.

The loops of the scalar nest are counted, not run: sizes that are not constants are taken to be `SIZE`, and bounds that depend on a loop's
variable are taken half-way through the loop. Loops and branches that only data determines are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Const, Expr, Node, Op, SizeVar
from raido.algo.graph.primitives import evaluate
from raido.algo.graph.rewrite import topological
from raido.schedule.nest.nodes import Block, For, If, Let, Nest, Statement, Store
from raido.schedule.nest.values import NestExpr
from raido.schedule.nest.walk import blocks_of
from raido.schedule.plan import At, Variant
from raido.schedule.stages.stage import AnyStage, ControlStage, Stage
from raido.schedule.strategies.array_loops import ITERATIONS

SIZE = 1024  # assumed for every size that is not a constant
MOST = 2.0  # computations of an element up to which a stage is not reported


@dataclass(frozen=True, slots=True)
class Repeat:
    """A stage, and the number of times that each of its elements is computed."""

    stage: str
    times: float

    def __str__(self) -> str:
        times = f"{self.times:.1f}" if self.times < 10 else f"{self.times:.0f}"
        return f'"{self.stage}" is computed {times} times (unknown sizes taken as {SIZE})'


def repeats(nest: Nest, stages: Iterable[AnyStage], variants: Iterable[Variant]) -> list[Repeat]:
    """Returns the stages whose elements are computed more than `MOST` times in every iteration of the array loops around them."""
    every = list(_all_stages(stages))
    inside = {plan.stage for variant in variants for plan in variant.plans if isinstance(plan.compute, At)}
    count = _Count(every)
    count.block(nest.body, 1.0)
    found = []
    for stage in every:
        if isinstance(stage, Stage) and stage.name in inside:
            times = count.stored[stage.name.rsplit("/", 1)[-1], len(stage.axes)] / count.elements(stage)
            found += [Repeat(stage.name, times)] if times > MOST else []
    return found


def _all_stages(stages: Iterable[AnyStage]) -> Iterator[AnyStage]:
    for stage in stages:
        yield stage
        if isinstance(stage, ControlStage):
            yield from _all_stages((*stage.setup, *stage.body, *stage.orelse))


class _Count:
    """The number of elements stored to the buffers of each name and rank: stores, multiplied by the trip counts around them.

    Of rank 0 only the buffers of results are counted, not the registers of accumulators.
    """

    def __init__(self, stages: Iterable[AnyStage]) -> None:
        self.array_loops = {stage.name for stage in stages if isinstance(stage, ControlStage)}
        self.stored: dict[tuple[str, int], float] = defaultdict(float)
        self.values: dict[Node, int] = {}

    def elements(self, stage: Stage) -> int:
        """Returns the number of elements of a stage's results."""
        return prod(self.value(axis.extent) or 1 for axis in stage.axes) * len(stage.bodies)

    def block(self, block: Block, times: float) -> None:
        for statement in block.statements:
            self.statement(statement, times)

    def statement(self, s: Statement, times: float) -> None:
        if isinstance(s, For):
            low, high = self.value(s.low), self.value(s.high)
            if low is None or high is None or high <= low:
                return
            iterations = -(-(high - low) // s.step)
            self.values[s.var] = low + iterations // 2 * s.step
            is_array_loop = s.loop == ITERATIONS and s.stage in self.array_loops
            self.block(s.body, times if is_array_loop else times * iterations)
        elif isinstance(s, If):
            holds = self.value(s.condition)
            sides = [
                side for side, taken in ((s.then, holds), (s.orelse, not holds)) if side and (taken or holds is None)
            ]
            for side in sides:
                self.block(side, times / len(sides))
        elif isinstance(s, Let):
            value = self.value(s.value)
            if value is not None:
                self.values[s.var] = value
        elif isinstance(s, Store):
            if s.indices or s.buffer.scope != "register":
                self.stored[s.buffer.name, len(s.indices)] += times
        else:
            for block in blocks_of(s):
                self.block(block, times)

    def value(self, e: NestExpr | Expr) -> int | None:
        """Evaluates an index, a size or a condition; None where data determine it."""
        found: dict[Node, int | None] = {}
        nodes: list[Any] = topological(e)
        for node in nodes:
            if not (node.dtype.is_integer or node.dtype is bool_):
                found[node] = None
            elif isinstance(node, Const):
                found[node] = int(node.value)
            elif node in self.values:
                found[node] = self.values[node]
            elif isinstance(node, SizeVar):
                found[node] = SIZE
            elif isinstance(node, Op) and all(found[a] is not None for a in node.args):
                args = [np.asarray(found[a], a.dtype.numpy) for a in node.args]
                found[node] = int(evaluate(node.name, node.dtype, args))
            else:
                found[node] = None
        return found[e]
