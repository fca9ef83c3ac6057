"""Stages: what a schedule speaks about. A stage is a closed box of indices with one expression for each output.

`form_stages` makes them from a `Program`: index moves and unnamed pointwise expressions used once are part of their consumer;
arrays made inside a mapped function are lifted to stages of their own with the outer axes in front (`outer` of them).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile
from typing import TypeAlias

from raido.algo.graph.expr import (
    Array,
    ArrayCond,
    ArrayLoop,
    ArrayWhile,
    Axis,
    Expr,
    Filter,
    Generate,
    Node,
    Parameter,
    Reduce,
    Scan,
    SizeVar,
    Sort,
    Update,
)
from raido.algo.graph.node import node
from raido.algo.graph.program import Program, Site
from raido.schedule.remember import Lasting


@node
class StageFold(Reduce):
    """A fold whose initial values `init` take part once, whatever they are; partial results begin with `neutral`, or, where that is
    empty, with their first value. A plain `Reduce` begins with its neutral elements; what else it began with has been taken apart.
    """

    init: tuple[Expr, ...]


@node
class LaneFold(Reduce):
    """A fold of as many values as data decides, in lanes (0: as many as a register holds), with so many gangs side by side, as loop
    `loop` of a stage states.
    """

    lanes: int
    interleave: int
    stage: str
    loop: str


def initial_values(fold: Reduce) -> tuple[Expr, ...]:
    """The values that a stage's fold begins with, one for each of its results."""
    return fold.init if isinstance(fold, StageFold) else fold.neutral


@dataclass(frozen=True, slots=True)
class ScanStep:
    """A fold as a scan: axis number `along`, on which it runs, is one of the stage's own, and every step is stored.

    `exclusive`: what is stored at an index is the fold of what stands before it. `ends`: where the results are runs of one number that are
    made run by run, the array that says before which index each ends.
    """

    along: int
    exclusive: bool
    ends: Array | None = None


@dataclass(frozen=True, slots=True)
class UpdateStep:
    """A fold as an update: each step goes to the element that it names, of results that start as the fold's initial values.

    `places[d]` is the number, among the fold's values, of the index along dimension d; None where the dimension is an axis that steps
    run over as well (a row, an outer axis). `mode` and `checked` as in `Update`.
    """

    places: tuple[int | None, ...]
    mode: str
    checked: bool


@dataclass(frozen=True, slots=True)
class FilterStep:
    """A fold as a filter: its first value says which of the others are kept, along the fold's axis, in order.

    The last result is how many there are. `partition`: the others follow.
    """

    partition: bool


Places: TypeAlias = tuple[tuple[Expr, Expr], ...]
"""Stretches of indices: the first and the last of each."""


@dataclass(frozen=True, slots=True)
class SortStep:
    """A fold as a sort along its axis, one of the stage's own: its values, in the order of the first `keys` of them.

    `places`: the indices along the axis that stages read, where those are not all (`selections.py`).
    """

    keys: int
    places: Places | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Stage(Lasting):
    """One `Generate`, `Scan`, `Update`, `Filter` or `Sort`, closed. Loads in `bodies` reach other stages as `Result(stage.form, k)`.

    `axes` are the pure axes (names are display names, unique within the stage together with those of `reduction.axes`).
    With a `reduction`, `bodies` may mention `Item(reduction, k)`; they are what is stored once the reduction is done, or, with `scan`,
    at each of its steps. `symmetric`: the results of a reduction along the last two axes are a symmetric matrix.
    """

    name: str
    names: tuple[str, ...]
    form: Generate | Scan | Update | Filter | Sort
    axes: tuple[Axis, ...]
    reduction: Reduce | None
    bodies: tuple[Expr, ...]
    outer: int = 0
    parent: str | None = None
    site: Site | None = None
    scan: ScanStep | None = None
    update: UpdateStep | None = None
    filter: FilterStep | None = None
    sort: SortStep | None = None
    symmetric: bool = False

    @property
    def reduction_axes(self) -> tuple[Axis, ...]:
        return self.reduction.axes if self.reduction else ()

    @property
    def all_axes(self) -> tuple[Axis, ...]:
        if self.scan or self.filter:
            return self.axes
        if self.sort:
            return (*(axis for axis in self.axes if axis not in self.reduction_axes), *self.reduction_axes)
        if self.update:
            mapped = tuple(axis for axis, place in zip(self.axes, self.update.places, strict=True) if place is None)
            leading = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(mapped, self.axes, strict=False)))
            return self.axes[:leading] + self.reduction_axes + self.axes[leading:]
        return self.axes + self.reduction_axes

    @property
    def whole_axes(self) -> tuple[Axis, ...]:
        """The axes along which the stage cannot be computed in part: scanned ones, and those whose elements steps choose."""
        if self.scan or self.filter or self.sort:
            return self.reduction_axes
        if self.update:
            return tuple(axis for axis, place in zip(self.axes, self.update.places, strict=True) if place is not None)
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class ControlStage(Lasting):
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


def is_array_loop(stage: AnyStage) -> bool:
    """Whether a stage is a loop over whole arrays."""
    return isinstance(stage, ControlStage) and not isinstance(stage.form, ArrayCond)


@dataclass(frozen=True, slots=True)
class CountedSize:
    """A size that data decides: its name, and the most that it can be, in sizes of the program, where that is known.

    `array`, of rank 0, holds it; or it is `value`, made of others.
    """

    size: SizeVar
    bound: Expr | None
    array: Array | None = None
    value: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class StageGraph(Lasting):
    """A program as stages in an order in which they can run. `results` are the outputs, in terms of the stages' forms.

    `shapes` are the results', and `counts` the sizes that data decides (`schedule/stages/counts.py`). `copies`: forms that change a part
    of an array whose old contents others need: that array, and why.
    """

    program: Program
    stages: tuple[AnyStage, ...]
    results: tuple[Array, ...]
    sites: dict[Node, Site]
    shapes: tuple[tuple[Expr, ...], ...] = ()
    counts: tuple[CountedSize, ...] = ()
    copies: dict[Node, tuple[Array, str]] = field(default_factory=dict)
