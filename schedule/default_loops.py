"""The loops and stores of the default schedule; see `defaults` for the rules.

Numbers here are sizes of chunks and strips; none depends on the number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from raido.algo import index
from raido.algo.expr import Axis, Expr, Op, Var
from raido.schedule.demand import Point, cost, is_divergent, meets_boundary
from raido.schedule.draft import Draft, extent, known
from raido.schedule.plan import At
from raido.schedule.reads import scalar_nodes
from raido.schedule.refusal import Refusal
from raido.schedule.sizetest import parse_test
from raido.schedule.stage import Stage
from raido.schedule.state import is_inlined

MOST_ROWS, FEWEST_ROWS = 32, 8
LINE_CHUNK = 1 << 14
FOLD_CHUNK = 1 << 16
TASK = 1 << 15
SMALL = 8


def say_loops(draft: Draft, name: str) -> None:
    """The loops of a stage of which nothing was said."""
    stage = draft.state.stage(name)
    plan = draft.state.plan(name)
    if not stage.all_axes:
        return
    if [loop.name for loop in plan.loops] != [axis.name for axis in stage.all_axes]:
        say_packed_loops(draft, name)
        return
    vector = vector_axis(draft, stage)
    if isinstance(plan.compute, At):
        if vector is not None:
            draft.say(name, "vectorize", axis=vector.name, **wide(stage, vector))
    elif not stage.axes:
        say_fold_loops(draft, stage, vector)
    elif not is_tiled_product(draft, stage, vector) or not say_register_tile(draft, stage):
        say_map_loops(draft, stage, vector)


def say_packed_loops(draft: Draft, name: str) -> None:
    """A copy with a layout already has its loops: the first is parallel, the last vectorized."""
    loops = [loop.name for loop in draft.state.plan(name).loops]
    if not isinstance(draft.state.plan(name).compute, At) and len(loops) > 1:
        draft.say(name, "parallel", axis=loops[0])
    draft.say(name, "vectorize", axis=loops[-1])


def say_fold_loops(draft: Draft, stage: Stage, vector: Axis | None) -> None:
    """A whole reduction: fixed chunks for threads, lanes inside."""
    first, last = stage.all_axes[0], stage.all_axes[-1]
    rows = chain_rows(draft, stage) if len(stage.all_axes) > 1 else FOLD_CHUNK
    if vector is not None and vector is not last:
        draft.say(stage.name, "vectorize", axis=vector.name, **wide(stage, vector))
        return
    if draft.say(stage.name, "split", axis=first.name, factor=rows):
        draft.say(stage.name, "parallel", axis=first.name + "o")
    inner = last.name if first is not last else first.name + "i"
    if vector is not None:
        draft.say(stage.name, "vectorize", axis=inner, **wide(stage, vector))


def say_map_loops(draft: Draft, stage: Stage, vector: Axis | None) -> None:
    """Everything that has pure axes: the outermost is parallel, in strips where a chain hangs on it or rows are jammed."""
    name, first = stage.name, stage.axes[0]
    vector_name = vector.name if vector else ""
    jam = jammed_rows(draft, stage, vector)
    chained = has_chain(draft, stage)
    if len(stage.axes) == 1 and vector is first:
        count = index.constant_value(known(draft, first.extent))
        if chained or count is None or count > LINE_CHUNK // 2:
            chunk = LINE_CHUNK // 4 if chained else line_chunk(draft, stage)
            if draft.say(name, "split", axis=first.name, factor=chunk):
                draft.say(name, "parallel", axis=first.name + "o", **dynamic(stage))
                vector_name = first.name + "i"
    elif jam:
        row = stage.axes[-2].name
        if draft.say(name, "split", axis=row, factor=jam):
            draft.say(name, "reorder", axes=(row + "o", stage.axes[-1].name, row + "i"))
            draft.say(name, "unroll", axis=row + "i")
            say_parallel(draft, stage, first.name if len(stage.axes) > 2 else row + "o", jam)
    elif chained and draft.say(name, "split", axis=first.name, factor=chain_rows(draft, stage)):
        draft.say(name, "parallel", axis=first.name + "o")
    elif vector is not first:
        say_parallel(draft, stage, first.name, 1)
    if vector is not None:
        draft.say(name, "vectorize", axis=vector_name, **wide(stage, vector))
    for axis in stage.axes[1:]:
        count = index.constant_value(axis.extent)
        if axis is not vector and count is not None and count <= 4:
            draft.say(name, "unroll", axis=axis.name)


def say_parallel(draft: Draft, stage: Stage, loop: str, rows: int) -> None:
    """Threads for a loop over rows; a chunk has about `TASK` operations, and small stages stay on one thread."""
    each = max(1, cost(stage)) * rows * prod(extent(draft, axis.extent) for axis in stage.all_axes[1:])
    if all(index.constant_value(known(draft, axis.extent)) is not None for axis in stage.axes):
        total = each // rows * extent(draft, stage.axes[0].extent)
        if total <= TASK // 4:
            return
    grain = max(1, TASK // each)
    draft.say(stage.name, "parallel", axis=loop, **({"grain": grain} if grain > 1 else {}), **dynamic(stage))


def dynamic(stage: Stage) -> dict[str, bool]:
    """Rounds that take differently long are handed out one by one."""
    return {"dynamic": True} if is_divergent(stage) else {}


def line_chunk(draft: Draft, stage: Stage) -> int:
    """Elements of a chunk of a one-dimensional stage: a power of two, fewer when each takes long."""
    each = max(1, cost(stage)) * prod(extent(draft, axis.extent) for axis in stage.reduction_axes)
    return min(LINE_CHUNK, max(LINE_CHUNK >> 6, 1 << (8 * LINE_CHUNK // each).bit_length()))


def say_register_tile(draft: Draft, stage: Stage) -> bool:
    """A tile of the result stays in registers while the reduction runs."""
    name, machine = stage.name, draft.machine
    i, j = stage.axes[-2].name, stage.axes[-1].name
    rows = 12 if machine.registers >= 32 else 6
    lanes = machine.lanes(stage.bodies[0].dtype.bits)
    if not draft.say(name, "tile", **{i: rows, j: 2 * lanes}):
        return False
    reductions = [axis.name for axis in stage.reduction_axes]
    draft.say(name, "reorder", axes=(i + "o", j + "o", *reductions, i + "i", j + "i"))
    draft.say(name, "unroll", axis=i + "i")
    draft.say(name, "vectorize", axis=j + "i", interleave=2)
    draft.say(name, "parallel", axis=stage.axes[0].name if len(stage.axes) > 2 else i + "o")
    return True


def say_memory(draft: Draft, name: str) -> None:
    """Boundary loops for stencils; streamed stores for large outputs."""
    if meets_boundary(draft.state, draft.demand, name) and not draft.state.plan(name).partition:
        draft.say(name, "partition_boundaries")
    size = index.constant_value(known(draft, output_bytes(draft, name)))
    if is_last_use(draft, name) and size is not None and size > draft.machine.l3:
        draft.say(name, "stream_stores")


def wide(stage: Stage, vector: Axis) -> dict[str, int]:
    """Gangs side by side, to hide the latency of accumulating."""
    if stage.reduction is None:
        return {}
    return {"interleave": 4 if len(stage.bodies) == 1 else 2}


# Facts


def vector_axis(draft: Draft, stage: Stage) -> Axis | None:
    """The axis along which most accesses are contiguous; the last pure one of equals."""
    candidates = list(stage.axes)
    if stage.reduction is not None and stage.reduction.commutative:
        candidates += stage.reduction_axes
    taken = function_axes(draft, stage)
    candidates = [axis for axis in candidates if axis.name not in taken]
    large = [axis for axis in candidates if extent(draft, axis.extent) >= SMALL]
    candidates = large or candidates
    points = [point for each in draft.demand.reads(stage.name).values() for point in each]
    stored: Point = tuple(axis.var for axis in stage.axes)
    scores = {axis: sum(contiguity(axis.var, point) for point in (*points, stored)) for axis in candidates}
    best = max(scores.values(), default=0)
    equals = [axis for axis in candidates if scores[axis] == best]
    pure = [axis for axis in equals if axis in stage.axes]
    return (pure or equals)[-1] if equals else None


def contiguity(var: Var, point: Point) -> int:
    """How an access moves with a variable: 1 by neighbours, 0 not at all, −2 by strides or anywhere."""
    if not point:
        return 0
    if any(e is not None and moves(e, var) for e in point[:-1]):
        return -2
    last = point[-1]
    if last is None:
        return -2
    if isinstance(last, Op) and last.name in index.BOUNDARY_OPS:
        last = last.args[0]
    if not moves(last, var):
        return 0
    return 1 if index.linear(last)[1].get(var) == 1 else -2


def moves(e: Expr, var: Var) -> bool:
    """Whether an index depends on a variable."""
    return any(node is var for node in scalar_nodes((e,)))


def function_axes(draft: Draft, stage: Stage) -> set[str]:
    """Axes inside whose rounds whole arrays are made (by stages of a mapped function): lanes would need an array each."""
    found: set[str] = set()
    for array in draft.demand.reads(stage.name):
        inner = draft.state.uses.stages.get(array)
        if isinstance(inner, Stage) and inner.outer and len(draft.demand.readers(array)) == 1:
            own = inner.axes[inner.outer :]
            if any(extent(draft, axis.extent) > SMALL for axis in own):
                found |= {axis.name for axis in stage.axes[: inner.outer]}
    return found


def reads_by_rows(reader: Stage, points: set[Point]) -> bool:
    """Whether each row of the reader needs a few rows of what it reads, wherever the row is."""
    if not reader.all_axes:
        return False
    var = reader.all_axes[0].var
    for point in points:
        first = point[0] if point else None
        if first is None or any(e is None for e in point):
            return False
        if isinstance(first, Op) and first.name in index.BOUNDARY_OPS:
            if first.name != "clamp_index":
                return False
            first = first.args[0]
        terms = index.linear(first)[1]
        if set(terms) != {var} or terms[var] not in (1, 2):
            return False
        if any(moves(e, var) for e in point[1:] if e is not None):
            return False
    return True


def has_chain(draft: Draft, stage: Stage) -> bool:
    """Whether some stage is needed by this one only, row by row, and is not inlined or made elsewhere."""
    return any(True for _ in chain(draft, stage))


def chain(draft: Draft, stage: Stage) -> list[str]:
    """The stages that will be computed in strips of this one, nearest first."""
    state, demand = draft.state, draft.demand
    members = {stage.name}
    found: list[str] = []
    for name in reversed(list(state.uses.stages)):
        other = state.uses.stages[name]
        if name in members or not isinstance(other, Stage) or name in demand.inlined or is_inlined(state, name):
            continue
        readers = demand.readers(name)
        if (
            readers
            and set(readers) <= members
            and name not in state.uses.outputs
            and (name, "placement") not in state.asked
            and not other.outer
            and state.uses.scope[name] == state.uses.scope[stage.name]
            and state.uses.readers[name]
            and all(isinstance(state.uses.stages[r], Stage) for r in state.uses.readers[name])
            and all(reads_by_rows(state.stage(reader), points) for reader, points in readers.items())
        ):
            members.add(name)
            found.append(name)
    return found


def row_bytes(draft: Draft, name: str) -> int:
    """Bytes of one row (all but the leading axis) of a stage's results."""
    stage = draft.state.stage(name)
    size = sum(body.dtype.itemsize for body in stage.bodies)
    return size * prod(extent(draft, axis.extent) for axis in stage.axes[1:])


def chain_rows(draft: Draft, stage: Stage) -> int:
    """The height of a strip: a power of two whose rows, for the whole chain, fit half of L2."""
    each = sum(row_bytes(draft, name) for name in chain(draft, stage)) or 1
    rows = MOST_ROWS
    while rows > FEWEST_ROWS and (rows + 2) * each > draft.machine.l2 // 2:
        rows //= 2
    return rows


def is_tiled_product(draft: Draft, stage: Stage, vector: Axis | None) -> bool:
    """Whether results share what they read, as in a product of matrices: each of the last two axes is missing in some read."""
    if stage.reduction is None or len(stage.axes) < 2 or vector is not stage.axes[-1] or len(stage.bodies) > 1:
        return False
    if prod(extent(draft, axis.extent) for axis in stage.reduction_axes) < 2 * SMALL or has_chain(draft, stage):
        return False
    points = [point for each in draft.demand.reads(stage.name).values() for point in each]
    if any(e is None for point in points for e in point) or not draft.state.plan(stage.name).loops:
        return False
    return all(
        any(not any(e is not None and moves(e, axis.var) for e in point) for point in points)
        for axis in stage.axes[-2:]
    )


def jammed_rows(draft: Draft, stage: Stage, vector: Axis | None) -> int:
    """Rows made at a time by a stencil on its own: 4 when it reads few values, 2 when more; 0 when rows share nothing."""
    if stage.reduction is not None or len(stage.axes) < 2 or vector is not stage.axes[-1] or has_chain(draft, stage):
        return 0
    row = stage.axes[-2].var
    reads = draft.demand.reads(stage.name)
    shared = any(
        len({_offset(point, row) for point in points if None not in point} - {None}) > 1 for points in reads.values()
    )
    values = sum(len(points) for points in reads.values())
    work = cost(stage) + sum(
        cost(draft.state.stage(name)) * len(by[stage.name])
        for name in draft.demand.inlined
        if stage.name in (by := draft.demand.readers(name))
    )
    if not shared or values > 32 or work > 128:
        return 0
    return 4 if values <= 10 else 2


def _offset(point: Point, var: Var) -> int | None:
    """How far from a row of its own a read is, when it is at a fixed distance."""
    for e in point:
        if isinstance(e, Op) and e.name in index.BOUNDARY_OPS:
            e = e.args[0]
        if e is not None:
            constant, terms = index.linear(e)
            if terms == {var: 1}:
                return constant
    return None


def output_bytes(draft: Draft, name: str) -> Expr:
    """Bytes of a stage's largest result."""
    stage = draft.state.stage(name)
    size: Expr = index.as_index(max(body.dtype.itemsize for body in stage.bodies))
    for axis in stage.axes:
        size = index.mul(size, axis.extent)
    return size


def is_last_use(draft: Draft, name: str) -> bool:
    """Whether a stage is an output, computed whole, that no other stage reads."""
    state = draft.state
    whole = not isinstance(state.plan(name).compute, At) and state.plan(name).compute_with is None
    return name in state.uses.outputs and not state.uses.readers[name] and whole


def streaming_test(draft: Draft, name: str, sizes: Mapping[str, int]) -> str | None:
    """The test on sizes under which an output of unknown size is larger than the last-level cache."""
    stage = draft.state.uses.stages[name]
    if not isinstance(stage, Stage) or stage.reduction is not None or not stage.axes or not is_last_use(draft, name):
        return None
    size = known(draft, output_bytes(draft, name))
    if index.constant_value(size) is not None or draft.state.plan(name).stream_stores:
        return None
    test = f"{index.text(size)} > {draft.machine.l3}"
    try:
        parse_test(test, draft.state.graph.program)
    except Refusal:
        return None
    return test
