"""Stages: what a schedule speaks about. A stage is a closed box of indices with one expression for each output.

`form_stages` makes them from a `Program`: index moves and unnamed pointwise expressions used once are part of their consumer;
arrays made inside a mapped function are lifted to stages of their own with the outer axes in front (`outer` of them).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from raido.algo.expr import Array, ArrayCond, ArrayLoop, ArrayWhile, Axis, Expr, Generate, Node, Parameter, Reduce, Scan
from raido.algo.program import Program, Site


@dataclass(frozen=True, slots=True)
class ScanStep:
    """What makes a fold a scan: axis number `along`, on which it runs, is one of the stage's own, and every step is stored.

    `exclusive`: what is stored at an index is the fold of what stands before it.
    """

    along: int
    exclusive: bool


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """One `Generate` or `Scan`, closed. Loads in `bodies` reach other stages as `Result(stage.form, k)`.

    `axes` are the pure axes (names are display names, unique within the stage together with those of `reduction.axes`).
    With a `reduction`, `bodies` may mention `Item(reduction, k)`; they are what is stored once the reduction is done, or, with `scan`,
    at each of its steps.
    """

    name: str
    names: tuple[str, ...]
    form: Generate | Scan
    axes: tuple[Axis, ...]
    reduction: Reduce | None
    bodies: tuple[Expr, ...]
    outer: int = 0
    parent: str | None = None
    site: Site | None = None
    scan: ScanStep | None = None

    @property
    def reduction_axes(self) -> tuple[Axis, ...]:
        return self.reduction.axes if self.reduction else ()

    @property
    def all_axes(self) -> tuple[Axis, ...]:
        return self.axes if self.scan else self.axes + self.reduction_axes


@dataclass(frozen=True, slots=True, eq=False)
class ControlStage:
    """A whole-array loop, while loop or conditional, and the stages of its body.

    `setup` are stages that the condition of a while loop needs: they run before each test. `orelse` is a conditional's other branch.
    """

    name: str
    names: tuple[str, ...]
    form: ArrayLoop | ArrayWhile | ArrayCond
    state: tuple[Parameter, ...]
    init: tuple[Array, ...]
    results: tuple[Array, ...]
    body: tuple[AnyStage, ...]
    orelse_results: tuple[Array, ...] = ()
    orelse: tuple[AnyStage, ...] = ()
    setup: tuple[AnyStage, ...] = ()
    site: Site | None = None


AnyStage: TypeAlias = Stage | ControlStage


@dataclass(frozen=True, slots=True, eq=False)
class StageGraph:
    """A program as stages in an order in which they can run. `results` are the outputs, in terms of the stages' forms."""

    program: Program
    stages: tuple[AnyStage, ...]
    results: tuple[Array, ...]
    sites: dict[Node, Site]
