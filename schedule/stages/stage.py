"""Stages, the units of a schedule: a stage is a closed loop nest with one expression for each output.

`form_stages` makes them from a `Program`: index moves and unnamed pointwise expressions used once are inlined into their consumer; arrays
computed inside a mapped function are lifted to stages of their own with the outer axes in front (`outer` of them).
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
from raido.algo.graph.index import as_index
from raido.algo.graph.node import node
from raido.algo.graph.program import Program, Site
from raido.schedule.remember import Lasting


@node
class StageFold(Reduce):
    """A fold with initial values `init`, which take part once, whatever they are. Partial results begin with `neutral`, or with their first
    value where `neutral` is empty.

    A plain `Reduce` begins with its neutral elements; other initial values have been combined with its result separately.
    """

    init: tuple[Expr, ...]


@node
class LaneFold(Reduce):
    """A fold of data-dependent length, in lanes (0: as many as a register holds) of `interleave` gangs, as loop `loop` of a stage
    states.
    """

    lanes: int
    interleave: int
    stage: str
    loop: str


def initial_values(fold: Reduce) -> tuple[Expr, ...]:
    """Returns the initial values of a stage's fold, one for each of its results."""
    return fold.init if isinstance(fold, StageFold) else fold.neutral


@dataclass(frozen=True, slots=True)
class StageScan:
    """The part of a scan beyond its fold: the scanned axis is number `along` of the stage's own, and every step is stored.

    `exclusive`: the result at an index is the fold of the elements before it. `ends`: where results are runs of equal numbers computed run
    by run, the array of the indices before which each run ends; else None.
    """

    along: int
    exclusive: bool
    ends: Array | None = None


@dataclass(frozen=True, slots=True)
class StageUpdate:
    """The part of an update beyond its fold: each step changes the element that it names, of results that start as the fold's initial
    values.

    `index_values[d]` is the number, among the fold's values, of the index along dimension d; None where the dimension is an axis that steps run
    over as well (a row, an outer axis). `mode` and `checked` as in `Update`.
    """

    index_values: tuple[int | None, ...]
    mode: str
    checked: bool


@dataclass(frozen=True, slots=True)
class StageFilter:
    """The part of a filter beyond its fold: the fold's first value is the predicate, the others are kept along the fold's axis, in order.

    The last result is the number of kept elements. `partition`: the rejected elements follow the kept ones.
    """

    partition: bool


Positions: TypeAlias = tuple[tuple[Expr, Expr], ...]
"""Ranges of indices: the first and last of each."""


@dataclass(frozen=True, slots=True)
class StageSort:
    """The part of a sort beyond its fold: the values are sorted along the fold's axis, one of the stage's own, by the first `keys` of them.

    `positions`: the indices along the axis that stages read; None for all (`selections.py`).
    """

    keys: int
    positions: Positions | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Stage(Lasting):
    """One closed `Generate`, `Scan`, `Update`, `Filter` or `Sort`. Loads in `bodies` read other stages as `Result(stage.form, k)`.

    `axes` are the pure axes; names are display names, unique within the stage together with those of `reduction.axes`. With a `reduction`,
    `bodies` may mention `Item(reduction, k)`; they are stored once the reduction is done, or, with `scan`, at each of its steps. `outer`:
    the number of leading axes that come from mapped functions. `symmetric`: the results of a reduction along the last two axes are a
    symmetric matrix.
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
    scan: StageScan | None = None
    update: StageUpdate | None = None
    filter: StageFilter | None = None
    sort: StageSort | None = None
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
            mapped = tuple(
                axis for axis, index in zip(self.axes, self.update.index_values, strict=True) if index is None
            )
            leading = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(mapped, self.axes, strict=False)))
            return self.axes[:leading] + self.reduction_axes + self.axes[leading:]
        return self.axes + self.reduction_axes

    @property
    def whole_axes(self) -> tuple[Axis, ...]:
        """The axes along which the stage can only be computed as a whole: scanned ones, and those whose elements steps select."""
        if self.scan or self.filter or self.sort:
            return self.reduction_axes
        if self.update:
            return tuple(
                axis for axis, index in zip(self.axes, self.update.index_values, strict=True) if index is not None
            )
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class ControlStage(Lasting):
    """A loop or while loop over whole arrays, or a conditional, with the stages of its body.

    `setup`: the stages that the condition of a while loop reads, which run before each test. `orelse`: a conditional's other branch. `first`:
    the number of a counted loop's first iteration.
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
    first: Expr = field(default_factory=lambda: as_index(0))


AnyStage: TypeAlias = Stage | ControlStage


def is_array_loop(stage: AnyStage) -> bool:
    """Whether a stage is a loop over whole arrays."""
    return isinstance(stage, ControlStage) and not isinstance(stage.form, ArrayCond)


@dataclass(frozen=True, slots=True)
class CountedSize:
    """A data-dependent size: its name, and its upper bound in sizes of the program (None: not known).

    `array`, of rank 0, holds it; or it is `value`, computed from others.
    """

    size: SizeVar
    bound: Expr | None
    array: Array | None = None
    value: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class StageGraph(Lasting):
    """A program as stages in execution order. `results` are the outputs, in terms of the stages' forms.

    `shapes`: the results' shapes. `counts`: the data-dependent sizes (`schedule/stages/counts.py`). `copies`: forms that change part of an
    array whose old contents are needed later, each with that array and the reason. `mapped`: whether loops with independent iterations have
    become maps (`independent_iterations.py`). `regrouped`: the numbers of the results that the caller sees in another shape than that of
    `results`.
    """

    program: Program
    stages: tuple[AnyStage, ...]
    results: tuple[Array, ...]
    sites: dict[Node, Site]
    shapes: tuple[tuple[Expr, ...], ...] = ()
    counts: tuple[CountedSize, ...] = ()
    copies: dict[Node, tuple[Array, str]] = field(default_factory=dict)
    mapped: bool = False
    regrouped: frozenset[int] = frozenset()
