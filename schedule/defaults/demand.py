"""Access maps, once the cheap stages are inlined: the facts that the default schedule's rules are stated in.

`Demand.points[array][reader]` holds the index tuples, over the reader's axes, at which a stage that is really computed reads an array
(through whatever is inlined into it); None stands for an index that is itself loaded, and `SEGMENTS` for the counter of a segment's
fold, begun where the segment does. `inlined` are the stages that are computed
where they are read: those the user said so of, and those that cost least that way:

- each element read once, as far as can be seen (once for all indices of a short axis that is written out), or only in one set of loops
  that several stages share (`joins`);
- or cheap, and pointwise, or a stencil over arrays that are there, read at neighbouring rows by a stage that makes some rows at a time
  (`is_shared_by_rows`): doing it again at the other points costs at most `AGAIN` operations for each element, of which readers that go
  along by steps meet one in so many, and of which they know the indices along short axes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import prod

from raido.algo.graph import index
from raido.algo.graph.bind_sizes import evaluate_size
from raido.algo.graph.cost import FUNCTION, cost_of, is_cheaper_made_twice, operations
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Axis, Cond, Expr, Item, Load, Loop, Node, Op, Var, While, const
from raido.algo.graph.index import BOUNDARY_OPS
from raido.algo.graph.rewrite import free_variables, scalar_nodes, substitute, transform
from raido.schedule.checks.levels import is_scanned_in_pieces
from raido.schedule.defaults.joins import join_all_readers, join_readers, join_twins
from raido.schedule.defaults.old_contents import reads_old_contents
from raido.schedule.defaults.short import shared_axes, written_out_axes
from raido.schedule.defaults.sibling_folds import join_folds_of, join_sibling_folds
from raido.schedule.directives.placement import checked_reader
from raido.schedule.remember import remembered
from raido.schedule.stages.positions import chooses_by_position, is_bounded, is_chosen
from raido.schedule.stages.reads import array_name, loads_of, scalars_of, stage_roots
from raido.schedule.stages.segments import ragged_folds
from raido.schedule.stages.stage import ControlStage, Stage
from raido.schedule.stages.tables import fold_constants
from raido.schedule.state import State, has_loops_said, is_inlined
from raido.schedule.strategies.table import PHASES, strategy_name

AGAIN = 16  # made by two units in two cycles (of f32, in 128 bits), as long as writing and reading an element takes at 4 bytes a cycle
SLOW = 8  # operations that take as long as a quotient or a root, which one unit makes, one after the other
MANY = 1 << 20
FEW_SCANS = 16  # side by side: with more, threads and lanes have scans of their own
SEGMENTS = Var("segments", i64, 0)
Point = tuple["Expr | None", ...]


@dataclass(slots=True)
class Demand:
    """See the module's text. `arrays[reader][array]` is `points[array][reader]`; `ranks` numbers the arrays as `points` has them."""

    points: dict[str, dict[str, set[Point]]] = field(default_factory=dict)
    arrays: dict[str, dict[str, set[Point]]] = field(default_factory=dict)
    inlined: set[str] = field(default_factory=set)
    hosts: dict[str, str] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)

    def readers(self, array: str) -> dict[str, set[Point]]:
        """The readers of an array that are computed, and the indices they read."""
        return self.points.get(array, {})

    def reads(self, reader: str) -> dict[str, set[Point]]:
        """The arrays that a computed stage reads, and the indices."""
        found = self.arrays.get(reader, {})
        return {array: found[array] for array in sorted(found, key=self.ranks.__getitem__)}

    def points_read(self, reader: str) -> list[Point]:
        """The indices at which a computed stage reads arrays, whichever these are."""
        return [point for points in self.reads(reader).values() for point in points]


def find_demand(state: State) -> Demand:
    """The reads of a state, with what costs little inlined, and the stages that share loops."""

    def inlines(demand: Demand, stage: Stage) -> bool:
        may = may_inline(state, stage.name) and not reads_old_contents(state, stage, demand.readers(stage.name))
        if may and join_all_readers(state, demand, stage):
            return True
        pays = may and pays_inline(stage, demand.readers(stage.name), state)
        return pays or join_readers(state, demand, stage, may) or (may and cpu and join_folds_of(state, demand, stage))

    cpu = state.gpu is None
    demand = walk_demand(state, inlines)
    join_twins(state, demand)
    if cpu:
        join_sibling_folds(state, demand)
    return demand


def walk_demand(state: State, inlines: Callable[[Demand, Stage], bool]) -> Demand:
    """Walks the stages, readers first, and asks of each whether it is inlined."""
    demand = Demand()
    for stage in reversed(list(state.uses.stages.values())):
        if isinstance(stage, ControlStage):
            continue
        if is_inlined(state, stage.name) or inlines(demand, stage):
            demand.inlined.add(stage.name)
        _add_reads(state, demand, stage)
    return demand


def _add_reads(state: State, demand: Demand, stage: Stage) -> None:
    inlined = stage.name in demand.inlined
    here = demand.readers(stage.name) if inlined else {stage.name: {tuple(axis.var for axis in stage.axes)}}
    counters = segment_counters(stage)
    for load in loads_of(stage):
        array = array_name(load.array, state.uses.names)
        if not array:
            continue
        plain = tuple(_point(i, counters) for i in load.indices)
        by_reader = demand.points.setdefault(array, {})
        demand.ranks.setdefault(array, len(demand.ranks))
        for reader, points in here.items():
            found = by_reader.setdefault(reader, set())
            demand.arrays.setdefault(reader, {})[array] = found
            found.update(compose(plain, stage, point) if inlined else plain for point in points)


def _point(i: Expr, counters: frozenset[Var]) -> Expr | None:
    if is_plain(i):
        return i
    terms = index.linear(i)[1]
    return SEGMENTS if any(terms.get(counter) == 1 for counter in counters) else None


@remembered
def segment_counters(stage: Stage) -> frozenset[Var]:
    """The variables that count the values of a stage's segments."""
    return frozenset(axis.var for fold in ragged_folds(stage) for axis in fold.axes)


def compose(indices: Point, stage: Stage, at: Point) -> Point:
    """The indices at which a stage reads an array where it is read itself at a point."""
    values = {axis.var: value for axis, value in zip(stage.axes, at, strict=True)}
    if None in values.values():
        return (None,) * len(indices)
    return tuple(None if i is None else index.canonical(substitute(i, values)) for i in indices)


def is_plain(e: Expr) -> bool:
    """Whether an index is arithmetic on axes and sizes alone."""
    return not any(isinstance(node, (Load, Cond, Loop, While)) for node in scalar_nodes(e))


def may_inline(state: State, name: str) -> bool:
    """Whether a stage may be inlined at all, as far as what was said goes."""
    stage = state.stage(name)
    said = {question for each, question in state.asked if each == name}
    return (
        stage.reduction is None
        and name not in state.uses.outputs
        and not said & {"placement", "layout", "scope", "pad", "stream", "hints"}
        and not has_loops_said(state, name)
        and all(isinstance(state.uses.stages[reader], Stage) for reader in state.uses.readers[name])
        and checked_reader(state, name) is None
        and name not in state.guests
        and not any(state.plans[r].prefetches for r in state.uses.readers[name] if r in state.plans)
        and not reads_old_contents(state, stage, state.uses.readers[name])
    )


def pays_inline(stage: Stage, readers: dict[str, set[Point]], state: State) -> bool:
    """Whether computing a stage where it is read costs little or nothing more."""
    if not readers or has_ragged_folds(
        stage
    ):  # whose strategy makes pieces that are even, and takes their values in lanes
        return False
    times = sum(
        max(evaluations(state.stage(reader), point), repeats(stage, state.stage(reader), point))
        for reader, points in readers.items()
        for point in points
    )
    if reads_functions(stage, state) and any(is_dependent(state.stage(reader)) for reader in readers):
        return False
    reads = [(state.stage(reader), point) for reader, points in readers.items() for point in points]
    if any(turns_rows(stage, reader, point) or chooses_across(stage, reader, point) for reader, point in reads):
        return False
    if is_chosen_by_position(stage) and any(
        reader.scan or reader.filter or reader.sort or reader.update for reader, _ in reads
    ):
        return False  # their loops are not cut
    if times == 1:
        twice = any(goes_over_twice(state, reader) for reader in readers)
        return not twice or is_cheaper_made_twice(cost(stage) + len(loads_of(stage)))
    if segment_counters(stage):
        return False
    if not is_pointwise(stage) and not is_shared_by_rows(stage, readers, state):
        return False
    if (times - 1) * evaluation(stage) <= AGAIN:
        return True
    times -= sum(1 - pace(reader, point) for reader, point in reads)
    known = all(knows_short_indices(reader, stage, point) for reader, point in reads)
    return (times - 1) * (evaluation_of_index(stage) if known else evaluation(stage)) <= AGAIN


def pace(reader: Stage, point: Point) -> Fraction:
    """How many elements a read meets of each that there are: one in s where it goes along an axis by steps of s."""
    steps = (abs(_step(e, axis.var)) for e in point for axis in reader.all_axes)
    return Fraction(1, prod(step for step in steps if step > 1))


def knows_short_indices(reader: Stage, stage: Stage, point: Point) -> bool:
    """Whether a reader knows the indices of a stage's short axes, since they are literals or axes that it writes out itself."""
    own = {axis.var for axis in shared_axes(reader)}
    short = written_out_axes(stage)
    return None not in point and all(
        e in own or (e is not None and index.constant_value(e) is not None)
        for axis, e in zip(stage.axes, point, strict=True)
        if axis in short
    )


@remembered
def evaluation(stage: Stage) -> int:
    """Operations and loads that evaluating an element once more takes, a load of the result being saved."""
    return _evaluation(stage.bodies)


@remembered
def evaluation_of_index(stage: Stage) -> Fraction:
    """Operations and loads that evaluating an element once more takes where its indices along short axes are known, and choose between
    values: the average over these indices."""
    short = written_out_axes(stage)
    if not short or stage.axes[-1] in short or not is_chosen_by_position(stage):
        return Fraction(evaluation(stage))
    total, places = 0, list(product(*(range(index.constant_value(axis.extent) or 1) for axis in short)))
    for place in places:
        known: dict[Node, Node] = {axis.var: const(i64, k) for axis, k in zip(short, place, strict=True)}
        total += _evaluation(tuple(transform(body, fold_constants, known) for body in stage.bodies))
    return Fraction(total, max(1, len(places)))


def _evaluation(bodies: tuple[Expr, ...]) -> int:
    nodes = scalar_nodes(*bodies)
    slow = len(slow_operations(nodes))
    loads = sum(isinstance(node, Load) for node in nodes)
    return operations(nodes, bodies[0].dtype is i64) + (SLOW - 1) * slow + loads - 1


def reads_functions(stage: Stage, state: State) -> bool:
    """Whether a stage reads arrays that mapped functions make, which want loops over its elements to be made in."""
    read = (state.uses.stages.get(array_name(load.array, state.uses.names)) for load in loads_of(stage))
    return any(isinstance(other, Stage) and other.outer for other in read)


def turns_rows(stage: Stage, reader: Stage, point: Point) -> bool:
    """Whether a reader goes through a stage's axes in another order, where functions of some axes alone are shared by rows of the others.

    What stands in a branch is shared by none: it is computed where the branch is taken.
    """
    branches = {e for e in scalars_of(stage) if isinstance(e, Item) and isinstance(e.form, Cond)}
    order = {axis.var: k for k, axis in enumerate(reader.all_axes)}
    places = [order[e] for e in point if isinstance(e, Var) and e in order]
    own = {axis.var for axis in stage.axes}
    return places != sorted(places) and any(
        cost_of(node) >= FUNCTION and 0 < len(own & free_variables(node)) < len(own)
        for node in scalar_nodes(*stage_roots(stage), stop=branches)
        if node not in branches
    )


def chooses_across(stage: Stage, reader: Stage, point: Point) -> bool:
    """Whether elements that are read across rows, as a transposition reads them, would be chosen by their position as well: whole squares
    of such reads are turned in registers, and a choice at each of their elements makes gathers of them."""
    if reader.reduction is not None or len(stage.axes) < 2 or len(reader.axes) < 2:
        return False
    if is_across(reader, point):
        return is_chosen_by_position(stage)
    across = any(is_across(stage, load.indices) for load in loads_of(stage))
    return across and (is_bounded(point) or chooses_by_position(scalars_of(reader), {axis.var for axis in reader.axes}))


def is_across(reader: Stage, point: Point) -> bool:
    """Whether a read goes down the columns of an array where its reader goes along its own rows."""
    if len(point) < 2 or None in point:
        return False
    (*rows, last), along = point, reader.axes[-1].var
    return any(_step(e, along) for e in rows) and any(abs(_step(last, axis.var)) == 1 for axis in reader.axes[:-1])


def is_chosen_by_position(stage: Stage) -> bool:
    """Whether elements of a stage are chosen by their position, or read by a rule for what lies outside of an array."""
    return is_chosen(scalars_of(stage), {axis.var for axis in stage.axes})


def is_dependent(stage: Stage) -> bool:
    """Whether elements depend on one another: nothing can be made in the loops of a sort, and little in those of the others."""
    return any((stage.scan, stage.filter, stage.sort, stage.update))


def goes_over_twice(state: State, name: str) -> bool:
    """Whether a stage reads each of its blocks twice: a long scan, or a filter, unless it is one step after the other; a partition."""
    stage, strategy = state.stage(name), state.plan(name).strategy
    if is_partition(stage) or (stage.scan is None and stage.filter is None):
        return is_partition(stage)
    if is_scanned_in_pieces(stage, state.plan(name)):
        return True
    if strategy is not None:
        return strategy[0] != "serial"
    return not stage.outer and (stage.scan is None or is_long_scan(stage, lambda e: e))


def is_long_scan(stage: Stage, known: Callable[[Expr], Expr]) -> bool:
    """Whether at most `FEW_SCANS` scans run side by side down the rows of an array, so that threads need blocks of rows.

    known: a size with the sizes known beforehand put in.
    """
    assert stage.scan is not None
    others = [index.constant_value(known(axis.extent)) for k, axis in enumerate(stage.axes) if k != stage.scan.along]
    return stage.scan.along == 0 and prod(count or FEW_SCANS + 1 for count in others) <= FEW_SCANS


def goes_in_phases(state: State, name: str) -> bool:
    """Whether a stage reads all of its blocks before it reads the first of them again: by its strategy, or as a partition, which writes
    what it leaves out behind all that it keeps."""
    return strategy_name(state, name) in PHASES or is_partition(state.stage(name))


def is_partition(stage: Stage) -> bool:
    """Whether a stage is a filter that keeps what it leaves out as well."""
    return stage.filter is not None and stage.filter.partition


def is_shared_by_rows(stage: Stage, readers: dict[str, set[Point]], state: State) -> bool:
    """Whether a stencil over whole arrays is read by one stage, at neighbouring rows: rows made at a time share what is inlined.

    Divisions and roots are not done again: few units do them, one after the other.
    """
    if len(readers) != 1 or len(stage.axes) < 2 or stage.outer:
        return False
    ((name, points),) = readers.items()
    reader = state.stage(name)
    if reader.reduction is not None or reader.outer or len(reader.axes) < 2 or has_loops_said(state, name):
        return False
    row, last = reader.axes[-2].var, reader.axes[-1].var
    same = {(*point[:-2], point[-1]) for point in points}
    if len(same) > 1 or any(None in point or point[-1] is not last for point in points):
        return False
    whole = all(array_name(load.array, state.uses.names) not in state.uses.stages for load in loads_of(stage))
    lines = all(not load.indices or _step(load.indices[-1], stage.axes[-1].var) == 1 for load in loads_of(stage))
    return (
        whole
        and lines
        and not slow_operations(scalars_of(stage))
        and all(_step(point[-2], row) == 1 for point in points)
    )


def _step(e: Expr | None, var: Var) -> int:
    """How far an index goes with a variable, whatever the rule for what lies outside; 0 where not evenly."""
    if e is None:
        return 0
    inside = e.args[0] if isinstance(e, Op) and e.name in BOUNDARY_OPS else e
    return index.linear(inside)[1].get(var, 0) if is_plain(inside) else 0


def iterations(reader: Stage, point: Point) -> int:
    """How often one element is read by a read at this point: once for every index of the axes that the point leaves out.

    Reads at loaded positions may meet an element any number of times; they count as a few. Segments do not overlap.
    """
    if None in point:
        return 4
    inside = {node for e in point if e is not None for node in scalar_nodes(e)}
    if SEGMENTS in inside:
        return 1
    chosen = reader.whole_axes if reader.update else ()  # by each step, which does not run through them
    left_out = (
        index.constant_value(axis.extent) for axis in reader.all_axes if axis.var not in inside and axis not in chosen
    )
    return prod(MANY if count is None else max(1, count) for count in left_out)


def evaluations(reader: Stage, point: Point) -> int:
    """How often an element that is computed where it is read is: as often as it is read, but by a short axis that is written out once."""
    shared = [axis.var for axis in shared_axes(reader)]
    return iterations(reader, (*point, *shared)) if None not in point else iterations(reader, point)


def repeats(stage: Stage, reader: Stage, point: Point) -> int:
    """How often, on average, a reader of more elements than a stage has comes to each by an index that several axes make, or by a quotient
    or remainder of one."""
    axes = {axis.var: axis.extent for axis in reader.all_axes}
    made = [{node for node in scalar_nodes(e) if node in axes} for e in point if e is not None]
    divided = any(
        isinstance(node, Op) and node.name in _DIVIDING for e in point if e is not None for node in scalar_nodes(e)
    )
    if not divided and all(len(variables) < 2 for variables in made):
        return 1
    extents = (axes[var] for var in set().union(*made))  # type: ignore[index]
    return prod(map(_usual, extents)) // prod(_usual(axis.extent) for axis in stage.axes)


_DIVIDING = ("floordiv", "floormod", "mod")


def _usual(extent: Expr) -> int:
    """A size as a number, at least 1; of the program's sizes each counts as `MANY`."""
    try:
        return max(1, evaluate_size(extent, defaultdict(lambda: MANY)))
    except (TypeError, ZeroDivisionError):
        return MANY


def is_pointwise(stage: Stage) -> bool:
    """Whether a stage reads only at its own indices, not at neighbours."""
    variables = {axis.var for axis in stage.axes}
    return all(i in variables or index.constant_value(i) is not None for load in loads_of(stage) for i in load.indices)


def slow_operations(nodes: Iterable[Node]) -> list[Op]:
    """The quotients and roots among the scalars of an element."""
    return [node for node in nodes if isinstance(node, Op) and node.name in ("div", "sqrt")]


@remembered
def cost(stage: Stage) -> int:
    """Operations for one element: those of `operations`, and 1000 for each segment."""
    return 1000 * len(segment_counters(stage)) + operations(scalars_of(stage), stage.bodies[0].dtype is i64)


def meets_boundary(state: State, demand: Demand, reader: str) -> bool:
    """Whether a stage treats indices near the ends of an axis in another way: clamped reads, or a choice between values."""
    for points in demand.reads(reader).values():
        for point in points:
            if is_bounded(point):
                return True
    sources = [reader, *(name for name in demand.inlined if reader in demand.readers(name))]
    stages = [state.stage(name) for name in sources]
    return any(chooses_by_position(scalars_of(stage), {axis.var for axis in stage.axes}) for stage in stages)


def has_ragged_folds(stage: Stage) -> bool:
    """Whether elements are folds of as many values as the data says (segments)."""
    return bool(ragged_folds(stage))


def decides_lengths(stage: Stage, axis: Axis) -> bool:
    """Whether folds of a stage are of different length along an axis, so that lanes along it would wait for the longest."""
    extents = (each.extent for fold in ragged_folds(stage) for each in fold.axes)
    return any(axis.var in free_variables(extent) for extent in extents)


@remembered
def is_divergent(stage: Stage) -> bool:
    """Whether elements take differently long: a while loop, a branch, or a loop or a fold of a length of its own."""
    return has_ragged_folds(stage) or any(
        isinstance(node, (While, Cond)) or (isinstance(node, Loop) and not is_plain(node.count))
        for node in scalars_of(stage)
    )
