"""Plans: one `StagePlan` for every stage, the result of replaying a schedule's directives. Plain data; lowering reads nothing else of a
schedule.

A stage's axes are split and fused into named *loops*. `relations` records the splits and fusions in order; `loops` are the loops that
remain, outermost first.
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
    """Loop `parent`, split into `outer`, which advances by `factor` indices, and `inner`, which runs over the `factor` indices of one tile.
    `tail` says how the last, incomplete tile is done.
    """

    parent: str
    outer: str
    inner: str
    factor: int
    tail: TailKind = "default"


@dataclass(frozen=True, slots=True)
class Fuse:
    """Two neighbouring loops `outer` and `inner`, fused into one loop `into` over all pairs of their indices, `inner` fastest."""

    outer: str
    inner: str
    into: str


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """One loop of a stage and how it runs.

    `lanes` of a vector loop; 0: as many as a register of the widest element type holds. `grain`: the iterations that a thread takes at a
    time; 0: the default. `jam`: the factor of an unroll-and-jam, 0 for the whole loop. `edge`: the iterations of an unrolled loop that are
    computed together where the edge of an array cuts off a register tile. Kind "matrix": the 32 threads of a GPU's subgroup, or as many
    threads as `subgroup` says, run the iterations of the loop and of the loops inside by matrix instructions.

    `level`: the GPU axis that a parallel loop is bound to, "block.x" … "thread.z"; "" for none. `subgroup` of a loop bound to threads: the
    number of neighbouring threads that combine their partial results by register exchange; 0: through shared memory.
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
    """The placement of a stage that is computed in each expression that reads it; it has no memory and no loops."""


@dataclass(frozen=True, slots=True)
class Root:
    """The placement of a stage that is computed whole, before its consumers."""


@dataclass(frozen=True, slots=True)
class At:
    """The placement of a stage inside loop `loop` of stage `stage`."""

    stage: str
    loop: str


Placement: TypeAlias = Inline | Root | At


@dataclass(frozen=True, slots=True)
class Prefetch:
    """A prefetch of `array`, a parameter or a stage by name, `ahead` iterations of `loop` before the elements are read."""

    array: str
    loop: str
    ahead: int


@dataclass(frozen=True, slots=True)
class StagePlan:
    """All decisions about one stage.

    `compute` is where the stage is computed, `store` where its memory lives; None: in the same place. With `compute_with`, the loops of the
    leader down to that loop are the stage's outermost loops too, one for one, in order (under the stage's own names; `relations` holds the
    splits taken over), and `compute` is not read. `stream_stores`: the size of a result in bytes above which it is stored past the caches;
    None: never. `partition`: the axes (not loops) whose boundaries get loops of their own. `aligned`: (axis, multiple) pairs; the loops of
    the axis start at a multiple. `layout`: storage dimensions, outermost first, each an axis or a half of a split in `relations`.
    `buffers`: how many iterations' cached copies exist at a time (2: double-buffered). `parts`: the plans of those parts of the strategy
    that have directives. `instead`: branches; the plan of the first whose test on sizes holds replaces this one.
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
    """The plan of a stage where `test` holds; `text` is the test as the user wrote it."""

    text: str
    test: Expr
    plan: StagePlan


def fused_loops(relations: Iterable[Split | Fuse]) -> frozenset[str]:
    """Returns the loops made by fusion, and those split off them: their variables count iterations, not indices of one axis."""
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
        """Returns the plan of the stage of that name."""
        return next(plan for plan in self.plans if plan.stage == stage)
