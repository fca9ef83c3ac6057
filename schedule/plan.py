"""The plans of a schedule, once its steps have been replayed: one `StagePlan` for every stage. Plain data, no defaults left to guess.

A stage's axes are split and fused into *loops*, known by name. `relations` records how, in order; `loops` are the loops that remain,
outermost first. Lowering reads this, and nothing else of a schedule.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from raido.algo.graph.expr import Expr
from raido.schedule.stages.stage import StageGraph

TailKind: TypeAlias = Literal["default", "mask", "shift", "scalar", "exact"]
EDGE = 4  # rows of two vectors each, eight sums: a fused step takes four cycles, and two begin in each


@dataclass(frozen=True, slots=True)
class Split:
    """`parent` became `outer`, which steps by `factor`, and `inner`, `factor` values of it. `tail` says what happens at the end."""

    parent: str
    outer: str
    inner: str
    factor: int
    tail: TailKind = "default"


@dataclass(frozen=True, slots=True)
class Fuse:
    """`outer` and `inner`, neighbours, became one loop over both."""

    outer: str
    inner: str
    into: str


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """One loop. `lanes` 0: as many as a register of the widest element type holds; `jam`: an unrolled loop's factor, 0 = whole; `edge`: the
    iterations of an unrolled loop that are made at a time where the edge of an array leaves fewer. Kind "matrix": the threads of a
    subgroup run its iterations, and those inside, together, by instructions that multiply matrices, or as many threads as `subgroup` says.

    `level`: the axis of a GPU that a parallel loop is bound to, "block.x" … "thread.z". `subgroup`: how many neighbours among the threads
    of a fold combine their parts by handing them from thread to thread; 0: all parts go through shared memory.
    """

    name: str
    kind: Literal["serial", "parallel", "vector", "unroll", "matrix"] = "serial"
    lanes: int = 0
    interleave: int = 1
    grain: int = 0
    dynamic: bool = False
    level: str = ""
    subgroup: int = 0
    jam: int = 0
    tail: TailKind = "default"
    edge: int = EDGE


@dataclass(frozen=True, slots=True)
class Inline:
    """Computed where it is read; no memory."""


@dataclass(frozen=True, slots=True)
class Root:
    """Computed whole, before its consumers."""


@dataclass(frozen=True, slots=True)
class At:
    """Inside loop `loop` of stage `stage`."""

    stage: str
    loop: str


Placement: TypeAlias = Inline | Root | At


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Touch `array` `ahead` iterations of `loop` before it is read. `array` is a parameter's or stage's name."""

    array: str
    loop: str
    ahead: int


@dataclass(frozen=True, slots=True)
class StagePlan:
    """Everything decided about one stage. `store` is None where the stage is kept where it is computed.

    With `compute_with`, the loops of the other stage down to that loop are this stage's outermost loops too, one for one, in order
    (under names of this stage's own; `relations` holds the splits taken over), and `compute` says nothing.
    `stream_stores`: the bytes of a result above which it is streamed, None: never.
    `partition` names axes, not loops; `aligned` axes, and the numbers of which they start at multiples. `layout` lists storage dimensions,
    outermost first: each an axis or a half of a split in `relations`. An inlined stage is computed by every reader. `parts` are the plans
    of those parts of the strategy of which something was said. `instead` are the branches of the stage: the first whose test on sizes
    holds takes the place of this plan. `buffers`: the iterations of the loop that a copy is made in whose
    copies are in memory beside one another.
    """

    stage: str
    relations: tuple[Split | Fuse, ...] = ()
    loops: tuple[LoopPlan, ...] = ()
    compute: Placement = Root()
    store: At | Root | None = None
    compute_with: At | None = None
    partition: tuple[str, ...] = ()
    stream_stores: int | None = None
    prefetches: tuple[Prefetch, ...] = ()
    aligned: tuple[tuple[str, int], ...] = ()
    layout: tuple[str, ...] = ()
    scope: str = ""
    pad: int = 0
    buffers: int = 1
    strategy: tuple[str, tuple[tuple[str, object], ...]] | None = None
    instead: tuple[Branch, ...] = ()
    parts: tuple[StagePlan, ...] = ()


@dataclass(frozen=True, slots=True)
class Branch:
    """The plan of a stage where `test`, written as `text`, holds."""

    text: str
    test: Expr
    plan: StagePlan


def fused_loops(relations: Iterable[Split | Fuse]) -> frozenset[str]:
    """The loops that were made by fusing others, and those that such loops were split into: they count iterations, not indices of an axis."""
    found: set[str] = set()
    for relation in relations:
        if isinstance(relation, Fuse):
            found.add(relation.into)
        elif relation.parent in found:
            found |= {relation.outer, relation.inner}
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Variant:
    """The plans of all stages, to be used when `test` over sizes holds (None: otherwise).

    `graph` holds those stages: the program's, and the copies that `clone` and `cache` add. `array_loops`: the plans of loops over whole
    arrays of which something was said (`strategies/array_loops`).
    """

    test: Expr | None
    plans: tuple[StagePlan, ...]
    graph: StageGraph | None = None
    array_loops: tuple[StagePlan, ...] = ()

    def plan(self, stage: str) -> StagePlan:
        """The plan of the stage of that name."""
        return next(plan for plan in self.plans if plan.stage == stage)
