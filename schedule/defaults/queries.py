"""Queries of the default schedule's rules: which axis is contiguous, which stages depend on a stage's rows, what fits which cache.

Constants here are sizes of chunks and tiles; none depends on the number of threads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import takewhile
from math import prod

from raido.algo.graph import index
from raido.algo.graph.cost import CHEAP
from raido.algo.graph.expr import Array, Axis, Expr, Load, Op, Result, Var
from raido.algo.graph.rewrite import free_variables, scalar_nodes
from raido.schedule.cost.elements import ACCESS, EXTRACTED, GATHERED, SCATTERING_BITS, depends_on, element_cycles
from raido.schedule.cost.private_loops import private_loops
from raido.schedule.defaults.demand import (
    SEGMENTS,
    Point,
    compose,
    cost,
    is_dependent,
    is_pointwise,
    iterations,
    with_inlined,
)
from raido.schedule.defaults.draft import Draft, extent, known_extent
from raido.schedule.defaults.joins import fused_stages_of, moves
from raido.schedule.defaults.lane_steps import is_faster_along
from raido.schedule.defaults.short import is_better_written_out
from raido.schedule.defaults.short_rows import folds_short_rows, windows_axis
from raido.schedule.plan import At
from raido.schedule.stages.inline import SHORT, is_short
from raido.schedule.stages.reads import loads_of, scalars_of
from raido.schedule.stages.segments import segments_of
from raido.schedule.stages.stage import Stage
from raido.schedule.state import axes_of, enclosing_loops

ENOUGH_TASKS = 64  # pieces of work, so that many cores have some
SHUFFLED = 4  # elements from lane to lane, at most, that are moved by whole registers and shuffles (`emit/interleave`)
SCALAR_BITS = 64  # of a scalar register: what fits one gains nothing by lanes of its own


def vector_axis(draft: Draft, stage: Stage) -> Axis | None:
    """Returns the axis along which most accesses are contiguous; None without a candidate.

    Of equals, the last pure axis, but a reduction axis where results are few and long folds, or fill lanes less than the fold does; a pure
    axis where results share functions of an iteration.
    """
    candidates = [] if is_for_one_element(draft, stage) else list(stage.axes)
    points = accesses_of(draft, stage)
    shared = shares_functions(draft, stage, stage.axes[-1:]) and all(
        contiguity(stage.axes[-1].var, p) >= 0 for p in points
    )
    along = stage.reduction is not None and stage.reduction.commutative and not folds_short_rows(draft, stage)
    if along and not shared:
        candidates += stage.reduction_axes
    taken = function_axes(draft, stage) | axes_of_private_loops(stage)
    candidates = [axis for axis in candidates if axis.name not in taken]
    large = [a for a in candidates if extent(draft, a.extent) >= SHORT and not is_better_written_out(stage, a)]
    candidates = large or candidates
    stored: Point = tuple(axis.var for axis in stage.axes)
    scores = {axis: sum(contiguity(axis.var, point) for point in (*points, stored)) for axis in candidates}
    best = max(scores.values(), default=0)
    if best < 0 and (short := short_row(draft, stage, points)) is not None and short.name not in taken:
        return short
    equals = [axis for axis in candidates if scores[axis] == best]
    pure = [axis for axis in equals if axis in stage.axes]
    if len(pure) < len(equals) and are_few_long_folds(draft, stage):
        return equals[-1]
    if equals and not pure and (near := windows_axis(draft, stage)) in candidates:
        return near
    if pure and equals[-1] is stage.all_axes[-1] and is_faster_along(draft, stage, pure[-1]):
        return equals[-1]
    return (pure or equals)[-1] if equals else None


def accesses_of(draft: Draft, stage: Stage) -> list[Point]:
    """Returns the access maps of a stage, with those of the short folds computed for each of its elements in their place."""
    found: list[Point] = []
    for array, points in draft.demand.reads(stage.name).items():
        made = draft.state.uses.stages.get(array)
        if isinstance(made, Stage) and array not in draft.demand.inlined and is_made_for_elements(draft, made, points):
            found += [compose(load.indices, made, point) for load in loads_of(made) for point in points]
        else:
            found += points
    return found


def is_made_for_elements(draft: Draft, stage: Stage, points: Collection[Point]) -> bool:
    """Whether a stage is a short fold whose one reader needs each element once, so that it is computed in a register for each element of
    the reader.
    """
    short = stage.reduction is not None and all(is_short(axis.extent) for axis in stage.reduction_axes)
    readers = draft.demand.readers(stage.name)
    if not short or not stage.axes or len(readers) != 1 or len(points) != 1:
        return False
    if stage.outer:
        return stage.outer == len(stage.axes)
    ((name, (point,)),) = readers.items()
    reader = draft.state.stage(name)
    return not is_dependent(reader) and None not in point and iterations(reader, point) == 1


def is_for_one_element(draft: Draft, stage: Stage) -> bool:
    """Whether a fold is computed for one element of the mapped functions around it at a time, rather than for one in each lane."""
    at = draft.state.plan(stage.name).compute
    if stage.reduction is None or not stage.axes or stage.outer < len(stage.axes) or not isinstance(at, At):
        return False
    around = enclosing_loops(draft.state, stage.name)
    if any(
        loop.kind == "vector" for name, each in around for loop in draft.state.plan(name).loops if loop.name == each
    ):
        return False
    plan, chosen = draft.state.plan(at.stage), outer_axes(draft, stage, at.stage)
    inside = takewhile(lambda loop: loop.name != at.loop, reversed(plan.loops))
    return bool(chosen) and not any(name in axes_of(plan, loop.name) for loop in inside for name in chosen)


def are_few_long_folds(draft: Draft, stage: Stage) -> bool:
    """Whether the number of results is known and less than both `ENOUGH_TASKS` gangs and the elements of each fold."""
    counts = [known_extent(draft, axis.extent) for axis in stage.axes]
    if None in counts:
        return False
    results = prod(n or 0 for n in counts)
    lanes = draft.machine.lanes(max(body.dtype.bits for body in stage.bodies))
    return results < min(lanes * ENOUGH_TASKS, prod(extent(draft, axis.extent) for axis in stage.reduction_axes))


def short_row(draft: Draft, stage: Stage, points: Sequence[Point]) -> Axis | None:
    """Returns the last axis if it is short, every access along it is contiguous or constant, and lanes across its rows would lie far apart;
    else None.

    Neighbouring rows of more than `SHUFFLED` elements would be gathered and scattered one by one, as of many 4 × 4 matrix products, which
    takes longer than registers that are filled in part. Where no access moves along the axis, as in the inverse of a matrix written out,
    lanes along it share all arithmetic but the choice of an element: the cost of a row decides.
    """
    row = list(takewhile(lambda axis: is_short(axis.extent), reversed(stage.axes)))
    if not row or len(stage.axes) == 1 or prod(extent(draft, axis.extent) for axis in row) <= SHUFFLED:
        return None
    last = row[0]
    bits = extent(draft, last.extent) * max(body.dtype.bits for body in stage.bodies)
    motions = {contiguity(last.var, point) for point in points}
    if bits <= SCALAR_BITS or min(motions, default=0) < 0:
        return None
    return last if 1 in motions or is_row_faster_alone(draft, stage, row) else None


def is_row_faster_alone(draft: Draft, stage: Stage, row: Sequence[Axis]) -> bool:
    """Whether the elements of a short row, which share their arithmetic, are computed faster one row at a time than in lanes across rows.

    The choice of an element is not counted. Loops count as one iteration. row: the axes of the elements of a row.
    """
    machine, inner = draft.machine, {axis.var for axis in row}
    whole = with_inlined(draft.state, draft.demand, stage.name)
    there = {Result(made.form, k) for made in whole[1:] for k in range(len(made.bodies))}
    nodes = [node for each in whole for node in scalars_of(each) if inner.isdisjoint(free_variables(node))]
    nodes = [node for node in nodes if not (isinstance(node, Load) and node.array in there)]
    apart = depends_on(axis.var for each in whole for axis in each.axes)
    stored = len(stage.bodies) * prod(extent(draft, axis.extent) for axis in row)
    alone = element_cycles(nodes, machine, False, apart) + ACCESS * stored
    scattered = GATHERED if machine.vector_bits >= SCATTERING_BITS else EXTRACTED
    return alone < element_cycles(nodes, machine, True, apart) + scattered * stored


def contiguity(var: Var, point: Point) -> int:
    """Rates how an access moves with a variable: 1 contiguously, forwards or backwards, 0 not at all, −2 irregularly within a row, −3 from
    row to row, a cache line for each lane.
    """
    if not point:
        return 0
    if any(moves(e, var) for e in point[:-1]):
        return -3
    last = point[-1]
    if last is None or last is SEGMENTS:
        return -2
    if isinstance(last, Op) and last.name in index.BOUNDARY_OPS:
        last = last.args[0]
    if not moves(last, var):
        return 0
    return 1 if index.linear(last)[1].get(var) in (1, -1) else -2


def function_axes(draft: Draft, stage: Stage) -> set[str]:
    """Returns the axes in whose iterations stages of a mapped function compute whole arrays: lanes would need an array each."""
    found: set[str] = set()
    for array in draft.demand.reads(stage.name):
        inner = None if array in draft.demand.inlined else draft.state.uses.stages.get(array)
        if not isinstance(inner, Stage) or is_shared_by_threads(draft, inner):
            continue
        if any(extent(draft, axis.extent) > SHORT for axis in inner.axes[inner.outer :]):
            chosen = outer_axes(draft, inner, stage.name)
            found.update(takewhile(chosen.__contains__, (axis.name for axis in stage.all_axes)))
    return found


def is_shared_by_threads(draft: Draft, stage: Stage) -> bool:
    """Whether, on a GPU, a stage computes long rows for the elements of the functions around it, of inputs that are there for all elements: a
    commutative fold of each row, or rows no more than those of an array that it reads.

    Threads of a GPU share a row, where a single thread would compute it alone inside the reader's loops.
    """
    state, fold, own, gpu = draft.state, stage.reduction, stage.axes[stage.outer :], draft.machine.gpu
    if gpu is None or isinstance(state.plan(stage.name).compute, At):
        return False
    if fold is None:
        everywhere = {axis.var for axis in stage.axes}
        points = draft.demand.points_read(stage.name)
        plain = own and is_pointwise(stage) and not is_dependent(stage)
        if not plain or not any(everywhere <= set(point) for point in points):
            return False
    elif not fold.commutative or own or segments_of(stage) is not None:
        return False
    read = [state.uses.stages.get(array) for array in draft.demand.reads(stage.name)]
    if not all(not isinstance(each, Stage) or is_there(draft, each) for each in read):
        return False
    lengths = [known_extent(draft, axis.extent) for axis in (stage.reduction_axes if fold else own)]
    return None in lengths or prod(n or 0 for n in lengths) >= 2 * gpu.subgroup


def is_there(draft: Draft, stage: Stage) -> bool:
    """Whether a stage is computed for all elements of the functions around it, or has one value for each."""
    return stage.outer in (0, len(stage.axes)) or is_shared_by_threads(draft, stage)


def axes_of_private_loops(stage: Stage) -> set[str]:
    """Returns the axes on which loops with private arrays depend, if there are other axes, which run over the elements of one array."""
    axes = {axis.var: axis.name for axis in stage.all_axes}
    found = {axes[var] for form in private_loops(stage) for var in free_variables(form) if var in axes}
    return found if len(found) < len(axes) else set()


def outer_axes(draft: Draft, stage: Stage, reader: str) -> tuple[str, ...]:
    """Returns the reader's axes that select, one to one, the element of the mapped functions for which it reads a stage; () where they do
    not.
    """
    by_var = {axis.var: axis.name for axis in draft.state.stage(reader).all_axes}
    chosen = {point[: stage.outer] for point in draft.demand.readers(stage.name).get(reader, ())}
    names = [_one_axis(e, by_var) for e in chosen.pop()] if len(chosen) == 1 else []
    return () if "" in names else tuple(names)


def _one_axis(e: Expr | None, by_var: Mapping[Var, str]) -> str:
    """Returns the name of the one axis that determines an index injectively; "" for other indices."""
    variables = [] if e is None else [node for node in scalar_nodes(e) if node in by_var]
    if len(variables) != 1 or not index.linear(e)[1].get(variables[0]):  # type: ignore[arg-type]
        return ""
    return by_var[variables[0]]  # type: ignore[index]


def moving_axes(draft: Draft, stage: Stage, reader: str) -> dict[str, str]:
    """Maps axes of a stage to the one axis of a reader that the index along them depends on."""
    points = draft.demand.readers(stage.name).get(reader, ())
    by_var = {axis.var: axis.name for axis in draft.state.stage(reader).all_axes}
    found: dict[str, str] = {}
    for k, axis in enumerate(stage.axes):
        indices = [point[k] for point in points]
        names = {by_var[node] for e in indices if e is not None for node in scalar_nodes(e) if node in by_var}  # type: ignore[index]
        if None not in indices and len(names) == 1:
            found[axis.name] = names.pop()
    return found


def row_axis(stage: Stage) -> Axis | None:
    """Returns the axis of rows: the outermost one that is not small, so that planes of an image come before its rows."""
    axes = stage.axes or stage.all_axes
    large = [axis for axis in axes if not is_short(axis.extent)]
    return (large or list(axes) or [None])[0]


def longest_chunk(draft: Draft) -> int:
    """Returns the elements of the longest chunk of a one-dimensional stage: a thread's task, of two operations for each element."""
    return draft.machine.task // 2


def shared_axis(draft: Draft, stage: Stage) -> Axis | None:
    """Returns the innermost axis whose results share inputs along the last one and vice versa, as in a matrix product; None without one.

    Some reads depend on the one axis only, some on the other only: rows of the one factor and columns of the other, or the filters and the
    image of a convolution.
    """
    if stage.reduction is None or len(stage.axes) < 2 or len(stage.bodies) > 1:
        return None
    if prod(extent(draft, axis.extent) for axis in stage.reduction_axes) < 2 * SHORT:
        return None
    points = draft.demand.points_read(stage.name)
    if any(e is None for point in points for e in point) or not draft.state.plan(stage.name).loops:
        return None
    *others, last = stage.axes
    return next((axis for axis in reversed(others) if shares_inputs(axis, last, points)), None)


def shares_inputs(axis: Axis, last: Axis, points: Iterable[Point]) -> bool:
    """Whether some accesses depend on the one axis only, and some on the other only."""
    uses = {tuple(any(moves(e, each.var) for e in point) for each in (axis, last)) for point in points}
    return {(True, False), (False, True)} <= uses


def is_tiled_product(draft: Draft, stage: Stage, vector: Axis | None) -> bool:
    """Whether results share inputs, as in a matrix product, and lanes run along them."""
    return bool(stage.axes) and vector is stage.axes[-1] and shared_axis(draft, stage) is not None


def shares_functions(draft: Draft, stage: Stage, along: Sequence[Axis]) -> bool:
    """Whether each iteration of a reduction computes functions, such as sines of an angle, that all results along these axes share.

    They take longer than their uses: the more results are computed together, the better.
    """
    if stage.reduction is None or not along or min(extent(draft, axis.extent) for axis in along) < SHORT:
        return False
    results, iterations = {axis.var for axis in along}, {axis.var for axis in stage.reduction_axes}
    functions = [node for node in scalar_nodes(*stage.bodies) if isinstance(node, Op) and node.name not in CHEAP]
    used = [free_variables(node) for node in functions]
    return any(results.isdisjoint(free) and not iterations.isdisjoint(free) for free in used)


def is_product_of_rows(draft: Draft, stage: Stage, vector: Axis | None) -> bool:
    """Whether neighbouring results share inputs, all of them contiguous along the reduction axis: a @ b.T.

    What else is read is the same for all iterations, such as what the sums are divided by.
    """
    if vector is None or vector in stage.axes or len(stage.axes) < 2 or len(stage.reduction_axes) > 1:
        return False
    points = draft.demand.points_read(stage.name)
    along = [point for point in points if contiguity(vector.var, point)]
    alike = all(contiguity(vector.var, point) == 1 for point in along)
    return (
        alike and shared_axis(draft, stage) is stage.axes[-2] and shares_inputs(stage.axes[-2], stage.axes[-1], along)
    )


def plain_axes(point: Point) -> list[Var] | None:
    """Returns the axes of an access map whose indices are distinct axes and constants; None for any other."""
    moving = [e for e in point if e is None or index.constant_value(e) is None]
    plain = [e for e in moving if isinstance(e, Var)]
    return plain if len(set(plain)) == len(moving) else None


def panels(draft: Draft, stage: Stage) -> dict[str, Point]:
    """Returns the arrays of a product that are worth packing, with their access maps.

    They are read by one plain access along the results' rows, or along the reduction, and are too large for L1, or not contiguous, as one
    part of complex numbers is: each register tile would extract its elements from vectors anew, or gather them.
    """
    found = {}
    column, wanted = stage.axes[-1].var, _right_factor(stage)
    for array, points in draft.demand.reads(stage.name).items():
        point = plain_read(stage, points)
        if point is None or [e for e in point if isinstance(e, Var)][-1] not in (column, stage.reduction_axes[-1].var):
            continue
        axes = [axis for axis in stage.all_axes if axis.var in wanted]
        size = prod(extent(draft, axis.extent) for axis in axes) * stage.bodies[0].dtype.itemsize
        if point[-1] is not column or size > draft.machine.l2 // 8:
            found[array] = point
    return found


def rows_to_pack(draft: Draft, stage: Stage) -> dict[str, Point]:
    """Returns the right factor of a product of rows, with its one plain access map; {} where other arrays depend on the result's columns
    and the reduction too.
    """
    column, reduced, found = stage.axes[-1].var, stage.reduction_axes[-1].var, {}
    for array, points in draft.demand.reads(stage.name).items():
        if not all(any(moves(e, var) for point in points for e in point) for var in (column, reduced)):
            continue
        point = plain_read(stage, points)
        if point is None:
            return {}
        found[array] = point
    return found if len(found) == 1 else {}


def plain_read(stage: Stage, points: Iterable[Point]) -> Point | None:
    """Returns the one access to an array that depends on a product's columns, if it is plain and independent of the rows; else None.

    Other accesses are to the left factor, which may be the same array.
    """
    row, column = stage.axes[-2].var, stage.axes[-1].var
    along = [point for point in points if None in point or any(moves(e, column) for e in point)]
    plain = plain_axes(along[0]) if len(along) == 1 else None
    return along[0] if plain is not None and _right_factor(stage) <= set(plain) and row not in plain else None


def _right_factor(stage: Stage) -> set[Var]:
    """Returns the axes of a product's right factor: its columns and the reduction axes."""
    return {axis.var for axis in stage.reduction_axes} | {stage.axes[-1].var}


def is_little_work(draft: Draft, stage: Stage) -> bool:
    """Whether a stage of known size is so few operations that one thread makes them."""
    work = max(1, cost(stage)) * prod(extent(draft, axis.extent) for axis in stage.all_axes)
    return work <= draft.machine.task // 4 and all(known_extent(draft, a.extent) is not None for a in stage.axes)


def whole_cost(draft: Draft, stage: Stage) -> int:
    """Returns the operations of one element, stages inlined into it included."""
    return cost(stage) + sum(cost(made) * len(points) for made, points in inlined_into(draft, stage))


def inlined_into(draft: Draft, stage: Stage) -> list[tuple[Stage, set[Point]]]:
    """Returns the stages inlined into one, with the indices at which it reads each."""
    inlined = ((name, draft.demand.readers(name).get(stage.name, set())) for name in draft.demand.inlined)
    return [(draft.state.stage(name), points) for name, points in inlined if points]


def array_of(draft: Draft, name: str) -> Array:
    """Returns the array of that name: a stage's result or a parameter that some stage reads."""
    return next(loads[name] for loads in draft.state.uses.loads.values() if name in loads)[0].array


def output_bytes(draft: Draft, name: str) -> Expr:
    """Returns the bytes of a stage's largest result."""
    stage = draft.state.stage(name)
    size: Expr = index.as_index(max(body.dtype.itemsize for body in stage.bodies))
    for axis in stage.axes:
        size = index.mul(size, axis.extent)
    return size


def is_last_use(draft: Draft, name: str) -> bool:
    """Whether a stage is an output, computed whole, that only stages fused into its loops read."""
    state = draft.state
    kept = any(not isinstance(state.uses.stages[reader], Stage) for reader in state.uses.readers[name])
    elsewhere = set(draft.demand.readers(name)) - set(fused_stages_of(draft.demand, name))
    return name in state.uses.outputs and not kept and not elsewhere and not isinstance(state.plan(name).compute, At)
