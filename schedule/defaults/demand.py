"""Access maps once cheap stages are inlined: the facts on which the default schedule's rules depend.

`Demand.points[array][reader]` holds the index tuples, over the reader's axes, at which a computed stage reads an array, directly or through
stages inlined into it. None stands for an index that is itself loaded, and `SEGMENTS` for the counter of a segment's fold, whose first
value is the segment's begin. `inlined` are the stages computed in the expressions that read them: by the user's directive, or because they
cost least so:

- each element is read once, as far as is known (once for all indices of an unrolled short axis), or only in one set of loops that several
  stages share (`joins`);
- or the stage is cheap, and pointwise, or a stencil over stored arrays that a stage with register tiles of rows reads at neighbouring rows
  (`is_shared_by_rows`): recomputation costs at most `AGAIN` operations for each element (`AGAIN_BY_THREADS` on a GPU). A reader with a
  stride of s meets one element in s, and unrolled short axes make indices constant.
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
from raido.schedule.defaults.joins import join_all_readers, join_readers, join_siblings
from raido.schedule.defaults.old_contents import reads_old_contents
from raido.schedule.defaults.short import shared_axes, written_out_axes
from raido.schedule.defaults.sibling_folds import join_folds_of, join_folds_of_maps, join_sibling_folds
from raido.schedule.directives.placement import checked_reader
from raido.schedule.remember import remembered
from raido.schedule.stages.positions import chooses_by_position, is_bounded, is_chosen
from raido.schedule.stages.reads import array_name, loads_of, scalars_of, stage_roots
from raido.schedule.stages.segments import ragged_folds
from raido.schedule.stages.stage import ControlStage, Stage
from raido.schedule.stages.tables import fold_constants
from raido.schedule.state import State, has_explicit_loops, is_inlined
from raido.schedule.strategies.table import PHASES, strategy_name

AGAIN = 16  # operations: two units do them in two cycles (f32, 128 bits), while an element is stored and loaded at 4 bytes a cycle
AGAIN_BY_THREADS = 64  # operations of a GPU while an element is stored and loaded: at most 10 a byte, on most devices
LOAD_BY_THREADS = 4  # operations of a GPU while one load hits its first-level cache: 128 lanes compute, 32 load
SLOW = 8  # operations that take as long as a division or root, which a single unit computes one by one
MANY = 1 << 20
FEW_SCANS = 16  # scans side by side: with more, threads and lanes have scans of their own
SEGMENTS = Var("segments", i64, 0)
Point = tuple["Expr | None", ...]


@dataclass(slots=True)
class Demand:
    """Access maps of all stages, and the stages that are inlined or share loops; see the module's text.

    `arrays[reader][array]` is `points[array][reader]`; `ranks` numbers the arrays in the order of `points`. `leaders` maps a fused stage to
    its leader.
    """

    points: dict[str, dict[str, set[Point]]] = field(default_factory=dict)
    arrays: dict[str, dict[str, set[Point]]] = field(default_factory=dict)
    inlined: set[str] = field(default_factory=set)
    leaders: dict[str, str] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)

    def readers(self, array: str) -> dict[str, set[Point]]:
        """Returns the computed stages that read an array, each with the index tuples that it reads."""
        return self.points.get(array, {})

    def reads(self, reader: str) -> dict[str, set[Point]]:
        """Returns the arrays that a computed stage reads, each with the index tuples."""
        found = self.arrays.get(reader, {})
        return {array: found[array] for array in sorted(found, key=self.ranks.__getitem__)}

    def points_read(self, reader: str) -> list[Point]:
        """Returns the index tuples at which a computed stage reads, of all arrays."""
        return [point for points in self.reads(reader).values() for point in points]


def find_demand(state: State) -> Demand:
    """Returns the access maps of a state, with cheap stages inlined, and the stages that share loops."""

    def inlines(demand: Demand, stage: Stage) -> bool:
        may = may_inline(state, stage.name) and not reads_old_contents(state, stage, demand.readers(stage.name))
        if may and join_all_readers(state, demand, stage):
            return True
        pays = may and pays_inline(stage, demand.readers(stage.name), state)
        return pays or join_readers(state, demand, stage, may) or (may and cpu and join_folds_of(state, demand, stage))

    cpu = state.gpu is None
    demand = walk_demand(state, inlines)
    join_siblings(state, demand)
    if cpu:
        join_folds_of_maps(state, demand)
        join_sibling_folds(state, demand)
    return demand


def walk_demand(state: State, inlines: Callable[[Demand, Stage], bool]) -> Demand:
    """Returns the access maps of a state; `inlines` is asked of each stage, readers first, whether it is inlined."""
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
    """Returns the variables that count the values of a stage's segments."""
    return frozenset(axis.var for fold in ragged_folds(stage) for axis in fold.axes)


def compose(indices: Point, stage: Stage, at: Point) -> Point:
    """Returns the index tuple at which a stage, itself read at `at`, reads an array at `indices`: the composed access map."""
    values = {axis.var: value for axis, value in zip(stage.axes, at, strict=True)}
    if None in values.values():
        return (None,) * len(indices)
    return tuple(None if i is None else index.canonical(substitute(i, values)) for i in indices)


def is_plain(e: Expr) -> bool:
    """Whether an index is arithmetic on axes and sizes alone."""
    return not any(isinstance(node, (Load, Cond, Loop, While)) for node in scalar_nodes(e))


def may_inline(state: State, name: str) -> bool:
    """Whether the rules and the explicit decisions allow a stage to be inlined."""
    stage = state.stage(name)
    said = {decision for each, decision in state.decided if each == name}
    return (
        stage.reduction is None
        and name not in state.uses.outputs
        and not said & {"placement", "layout", "scope", "pad", "stream", "hints"}
        and not has_explicit_loops(state, name)
        and all(isinstance(state.uses.stages[reader], Stage) for reader in state.uses.readers[name])
        and checked_reader(state, name) is None
        and name not in state.attached
        and not any(state.plans[r].prefetches for r in state.uses.readers[name] if r in state.plans)
        and not reads_old_contents(state, stage, state.uses.readers[name])
    )


def pays_inline(stage: Stage, readers: dict[str, set[Point]], state: State) -> bool:
    """Whether computing a stage where it is read costs little or nothing more than storing and loading it."""
    if not readers or has_ragged_folds(stage):  # `flat` splits them evenly, with lanes
        return False
    times = sum(
        max(evaluations(state.stage(reader), point), repeats(stage, state.stage(reader), point))
        for reader, points in readers.items()
        for point in points
    )
    if reads_functions(stage, state) and any(is_dependent(state.stage(reader)) for reader in readers):
        return False
    reads = [(state.stage(reader), point) for reader, points in readers.items() for point in points]
    if any(transposes_rows(stage, reader, point) or chooses_across(stage, reader, point) for reader, point in reads):
        return False
    if is_chosen_by_position(stage) and any(
        reader.scan or reader.filter or reader.sort or reader.update for reader, _ in reads
    ):
        return False  # index-set splitting does not apply to their loops
    if times == 1:
        twice = any(goes_over_twice(state, reader) for reader in readers)
        return not twice or is_cheaper_made_twice(cost(stage) + len(loads_of(stage)))
    if segment_counters(stage):
        return False
    if not is_pointwise(stage) and not is_shared_by_rows(stage, readers, state):
        return False
    most, more = AGAIN, 0
    if state.gpu is not None and not state.gpu.in_turn:
        most, more = AGAIN_BY_THREADS, (LOAD_BY_THREADS - 1) * (len(loads_of(stage)) - 1)
    if (times - 1) * (evaluation(stage) + more) <= most:
        return True
    times -= sum(1 - pace(reader, point) for reader, point in reads)
    known = all(knows_short_indices(reader, stage, point) for reader, point in reads)
    return (times - 1) * ((evaluation_of_index(stage) if known else evaluation(stage)) + more) <= most


def pace(reader: Stage, point: Point) -> Fraction:
    """Returns the fraction of elements that a read meets: 1/s where it advances along an axis with stride s."""
    strides = (abs(_stride(e, axis.var)) for e in point for axis in reader.all_axes)
    return Fraction(1, prod(stride for stride in strides if stride > 1))


def knows_short_indices(reader: Stage, stage: Stage, point: Point) -> bool:
    """Whether the indices at which a reader reads a stage's short axes are constants, or axes that the reader unrolls."""
    own = {axis.var for axis in shared_axes(reader)}
    short = written_out_axes(stage)
    return None not in point and all(
        e in own or (e is not None and index.constant_value(e) is not None)
        for axis, e in zip(stage.axes, point, strict=True)
        if axis in short
    )


@remembered
def evaluation(stage: Stage) -> int:
    """Returns the operations and loads of recomputing an element, less the load of its stored result."""
    return _evaluation(stage.bodies)


@remembered
def evaluation_of_index(stage: Stage) -> Fraction:
    """Returns the same cost where the indices along short axes are constant and select between values: the average over these indices."""
    short = written_out_axes(stage)
    if not short or stage.axes[-1] in short or not is_chosen_by_position(stage):
        return Fraction(evaluation(stage))
    total, points = 0, list(product(*(range(index.constant_value(axis.extent) or 1) for axis in short)))
    for point in points:
        known: dict[Node, Node] = {axis.var: const(i64, k) for axis, k in zip(short, point, strict=True)}
        total += _evaluation(tuple(transform(body, fold_constants, known) for body in stage.bodies))
    return Fraction(total, max(1, len(points)))


def _evaluation(bodies: tuple[Expr, ...]) -> int:
    nodes = scalar_nodes(*bodies)
    slow = len(slow_operations(nodes))
    loads = sum(isinstance(node, Load) for node in nodes)
    return operations(nodes, bodies[0].dtype is i64) + (SLOW - 1) * slow + loads - 1


def reads_functions(stage: Stage, state: State) -> bool:
    """Whether a stage reads arrays that stages inside mapped functions compute, which are placed in loops over its elements."""
    read = (state.uses.stages.get(array_name(load.array, state.uses.names)) for load in loads_of(stage))
    return any(isinstance(other, Stage) and other.outer for other in read)


def transposes_rows(stage: Stage, reader: Stage, point: Point) -> bool:
    """Whether a reader visits a stage's axes in another order, while rows share functions of some axes alone.

    An expression in a branch is shared by none: it is computed where the branch is taken.
    """
    order = {axis.var: k for k, axis in enumerate(reader.all_axes)}
    axes = [order[e] for e in point if isinstance(e, Var) and e in order]
    if axes == sorted(axes):
        return False
    branches = {e for e in scalars_of(stage) if isinstance(e, Item) and isinstance(e.form, Cond)}
    own = {axis.var for axis in stage.axes}
    return any(
        cost_of(node) >= FUNCTION and 0 < len(own & free_variables(node)) < len(own)
        for node in scalar_nodes(*stage_roots(stage), stop=branches)
        if node not in branches
    )


def chooses_across(stage: Stage, reader: Stage, point: Point) -> bool:
    """Whether elements read across rows, as in a transposition, would be selected by their position as well.

    Blocks of such reads are transposed in registers; a selection for each of their elements makes gathers of them.
    """
    if reader.reduction is not None or len(stage.axes) < 2 or len(reader.axes) < 2:
        return False
    if is_across(reader, point):
        return is_chosen_by_position(stage)
    return _reads_across(stage) and (
        is_bounded(point) or chooses_by_position(scalars_of(reader), {axis.var for axis in reader.axes})
    )


@remembered
def _reads_across(stage: Stage) -> bool:
    """Whether a stage reads an array down its columns."""
    return any(is_across(stage, load.indices) for load in loads_of(stage))


def is_across(reader: Stage, point: Point) -> bool:
    """Whether a read runs down the columns of an array while its reader runs along its own rows."""
    if len(point) < 2 or None in point:
        return False
    (*rows, last), along = point, reader.axes[-1].var
    return any(_stride(e, along) for e in rows) and any(abs(_stride(last, axis.var)) == 1 for axis in reader.axes[:-1])


def is_chosen_by_position(stage: Stage) -> bool:
    """Whether elements of a stage are selected by their position, or read by a boundary condition."""
    return is_chosen(scalars_of(stage), {axis.var for axis in stage.axes})


def is_dependent(stage: Stage) -> bool:
    """Whether elements depend on one another (scan, filter, sort, update): producers cannot be placed in a sort's loops, and hardly in the
    others'.
    """
    return any((stage.scan, stage.filter, stage.sort, stage.update))


def goes_over_twice(state: State, name: str) -> bool:
    """Whether a stage reads each of its blocks twice: a partition, and a long scan or a filter unless its strategy is serial."""
    stage, strategy = state.stage(name), state.plan(name).strategy
    if is_partition(stage) or (stage.scan is None and stage.filter is None):
        return is_partition(stage)
    if is_scanned_in_pieces(stage, state.plan(name)):
        return True
    if strategy is not None:
        return strategy[0] != "serial"
    return not stage.outer and (stage.scan is None or is_long_scan(stage, lambda e: e))


def is_long_scan(stage: Stage, known: Callable[[Expr], Expr]) -> bool:
    """Whether at most `FEW_SCANS` scans run side by side along the outermost axis, so that threads need blocks of rows.

    known: returns a size with the known sizes substituted.
    """
    assert stage.scan is not None
    others = [index.constant_value(known(axis.extent)) for k, axis in enumerate(stage.axes) if k != stage.scan.along]
    return stage.scan.along == 0 and prod(count or FEW_SCANS + 1 for count in others) <= FEW_SCANS


def goes_in_phases(state: State, name: str) -> bool:
    """Whether a stage reads all of its blocks before it reads the first one again: by its strategy, or as a partition, whose rejected
    elements follow all kept ones.
    """
    return strategy_name(state, name) in PHASES or is_partition(state.stage(name))


def is_partition(stage: Stage) -> bool:
    """Whether a stage is a filter that keeps the rejected elements as well."""
    return stage.filter is not None and stage.filter.partition


def is_shared_by_rows(stage: Stage, readers: dict[str, set[Point]], state: State) -> bool:
    """Whether a stencil over parameters is read by one stage at neighbouring rows, so that a register tile of rows shares the inlined
    values.

    Stencils with divisions and roots are left out: recomputing those is expensive.
    """
    if len(readers) != 1 or stage.outer > len(stage.axes) - 2:
        return False
    ((name, points),) = readers.items()
    reader = state.stage(name)
    if reader.reduction is not None or reader.outer > len(reader.axes) - 2 or has_explicit_loops(state, name):
        return False
    row, last = reader.axes[-2].var, reader.axes[-1].var
    same = {(*point[:-2], point[-1]) for point in points}
    if len(same) > 1 or any(None in point or point[-1] is not last for point in points):
        return False
    whole = all(array_name(load.array, state.uses.names) not in state.uses.stages for load in loads_of(stage))
    lines = all(not load.indices or _stride(load.indices[-1], stage.axes[-1].var) == 1 for load in loads_of(stage))
    return (
        whole
        and lines
        and not slow_operations(scalars_of(stage))
        and all(_stride(point[-2], row) == 1 for point in points)
    )


def _stride(e: Expr | None, var: Var) -> int:
    """Returns by how much an index advances with a variable, boundary conditions ignored; 0 where not affinely."""
    if e is None:
        return 0
    inside = e.args[0] if isinstance(e, Op) and e.name in BOUNDARY_OPS else e
    stride = index.linear(inside)[1].get(var, 0)
    return stride if stride and is_plain(inside) else 0


def iterations(reader: Stage, point: Point) -> int:
    """Returns how often a read at `point` reads one element: the product of the extents of the axes that the point does not mention.

    A read at a loaded index may meet an element any number of times; it counts as 4. Segments do not overlap.
    """
    if None in point:
        return 4
    inside = {node for e in point if e is not None for node in scalar_nodes(e)}
    if SEGMENTS in inside:
        return 1
    chosen = reader.whole_axes if reader.update else ()  # axes that steps select among, but do not run over
    left_out = (
        index.constant_value(axis.extent) for axis in reader.all_axes if axis.var not in inside and axis not in chosen
    )
    return prod(MANY if count is None else max(1, count) for count in left_out)


def evaluations(reader: Stage, point: Point) -> int:
    """Returns how often an inlined element is computed: as often as it is read, but once for all indices of unrolled short axes."""
    shared = [axis.var for axis in shared_axes(reader)]
    return iterations(reader, (*point, *shared)) if None not in point else iterations(reader, point)


def repeats(stage: Stage, reader: Stage, point: Point) -> int:
    """Returns how often, on average, a reader with more elements than the stage reads each by an index made of several axes, or by a
    quotient or remainder.
    """
    axes = {axis.var: axis.extent for axis in reader.all_axes}
    within = [scalar_nodes(e) for e in point if e is not None]
    made = [{node for node in nodes if node in axes} for nodes in within]
    divided = any(isinstance(node, Op) and node.name in _DIVIDING for nodes in within for node in nodes)
    if not divided and all(len(variables) < 2 for variables in made):
        return 1
    extents = (axes[var] for var in set().union(*made))  # type: ignore[index]
    usual = lambda extent: max(1, usual_size(extent, MANY, MANY))
    return prod(map(usual, extents)) // prod(usual(axis.extent) for axis in stage.axes)


_DIVIDING = ("floordiv", "floormod", "mod")


def usual_size(extent: Expr, each: int, by_data: int) -> int:
    """Returns a size as a number: each of the program's sizes counts as `each`, one that data decides as `by_data`."""
    try:
        return evaluate_size(extent, defaultdict(lambda: each))
    except (TypeError, ZeroDivisionError):
        return by_data


def is_pointwise(stage: Stage) -> bool:
    """Whether a stage reads arrays only at its own indices and at constants."""
    variables = {axis.var for axis in stage.axes}
    return all(i in variables or index.constant_value(i) is not None for load in loads_of(stage) for i in load.indices)


def slow_operations(nodes: Iterable[Node]) -> list[Op]:
    """Returns the divisions and square roots among the scalars of an element."""
    return [node for node in nodes if isinstance(node, Op) and node.name in ("div", "sqrt")]


@remembered
def cost(stage: Stage) -> int:
    """Returns the operations of one element: those of `operations`, and 1000 for each segment."""
    return 1000 * len(segment_counters(stage)) + operations(scalars_of(stage), stage.bodies[0].dtype is i64)


def meets_boundary(state: State, demand: Demand, reader: str) -> bool:
    """Whether a stage, or one inlined into it, treats indices near the ends of an axis differently: by clamped reads or a selection by
    position.
    """
    for points in demand.reads(reader).values():
        for point in points:
            if is_bounded(point):
                return True
    stages = with_inlined(state, demand, reader)
    return any(chooses_by_position(scalars_of(stage), {axis.var for axis in stage.axes}) for stage in stages)


def with_inlined(state: State, demand: Demand, reader: str) -> list[Stage]:
    """Returns a stage and those inlined into it."""
    return [state.stage(reader), *(state.stage(name) for name in demand.inlined if reader in demand.readers(name))]


def has_ragged_folds(stage: Stage) -> bool:
    """Whether elements are folds of data-dependent length (segments)."""
    return bool(ragged_folds(stage))


def decides_lengths(stage: Stage, axis: Axis) -> bool:
    """Whether folds of a stage have different lengths along an axis, so that a gang along it would wait for the longest."""
    extents = (each.extent for fold in ragged_folds(stage) for each in fold.axes)
    return any(axis.var in free_variables(extent) for extent in extents)


@remembered
def is_divergent(stage: Stage) -> bool:
    """Whether the time of an element depends on data: a while loop, a branch, or a loop or fold of data-dependent length."""
    return has_ragged_folds(stage) or any(
        isinstance(node, (While, Cond)) or (isinstance(node, Loop) and not is_plain(node.count))
        for node in scalars_of(stage)
    )
