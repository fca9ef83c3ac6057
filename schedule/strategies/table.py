"""The strategies of stages: ways to run one that differ in more than loops. What there is, with numbers, axes and parts, is said here.

A scan (`schedule/lower/strategies/scans.py`) runs one iteration after the other (`serial`), or in blocks of the scanned axis: `three_phase` and
`chain` split it, as `split` would, and hand the blocks to threads; `chain` reads memory once. Where sizes decide how many chunks there are, the
number is a text over sizes (`text/sizes`): those of the program, and the stage's own axes, each of which stands for its extent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from raido.algo.graph.expr import Axis, Expr, Var
from raido.algo.graph.rewrite import loads_in, scalar_nodes
from raido.schedule.checks.atomics import check_atomic
from raido.schedule.checks.lanes_along_folds import check_lanes_of_operator
from raido.schedule.checks.levels import has_block_alone, level_of
from raido.schedule.machine import USUAL, Gpu, Machine
from raido.schedule.plan import At, StagePlan, fused_loops
from raido.schedule.refusal import Refusal, listed
from raido.schedule.stages.runs import runs_of
from raido.schedule.stages.segments import ragged_folds, segments_of
from raido.schedule.stages.stage import Stage
from raido.schedule.stages.symmetry import is_reduction_alone
from raido.schedule.stages.updates.boxes import box_of
from raido.schedule.stages.updates.siblings import has_structures
from raido.schedule.state import State, axes_of, compute_sites, enclosing_loops, is_reduction, position, stages_read

PHASES = ("three_phase", "count_write")
USUAL_CHUNKS = 64  # at most: for so many threads, and few enough that what chunks keep apart is soon put together
UPDATES_FOR_A_BIN = 8  # of `private`, or clearing and combining bins would take longer than the iterations
UPDATES_FOR_A_STRUCTURE = 2  # likewise in one chunk, where iterations change one line, not one for each value
COPIED_ROWS = 16  # of `triangle`, side by side: each line of the cache that they read has an element for each of them
RANKED = 32  # elements of `quicksort` of which each is compared with all, sooner than parts of them are appended …
RANKED_REGISTERS = 4  # … and registers that they fill: fewer lanes compare for longer than the passes that are saved
RANKED_BESIDE_NETWORKS = 48  # … where a network is next: the shortest one, of 64 keys, takes as many instructions
KEYS_OF_NETWORKS = (32, 64)  # bits: narrower keys are counted, or sorted by one or two digits
COUNTER = 8  # bytes of one of `quicksort`: those of a pass stay in half of L2, beside the lines that elements go to
BY_COMPARISONS = ("quicksort", "quickselect")
BY_BLOCKS = ("three_phase", "chain")  # sorts on a GPU
COUNTERS_OF_THREAD = 44  # bytes of shared memory of a sort by blocks: sixteen counters, a sum, and what is spare …
SUMS_OF_THREAD = 8  # … where threads exchange no values …
COUNTERS_OF_DIGITS = 2688  # … where the elements with each digit end and go …
ORDERED = 5  # … and of an element: two orders and a digit
ELEMENTS_OF_THREAD = 16  # at most: more make blocks fewer than a device holds
USUAL_SHARED = 32 << 10  # bytes that most devices have for a block
BITS_OF_A_DIGIT = 8  # of `radix`: a line of the first-level cache for each of 256 places fits into 32 KiB

Number: TypeAlias = "int | str"


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to run a stage: its parameters with their defaults, the loops that directives start from, and the names of its parts.

    options: parameters that are false unless a schedule names them.
    """

    numbers: dict[str, Number]
    axes: tuple[str, ...]
    parts: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


def strategies_of(stage: Stage, machine: Machine = USUAL) -> dict[str, Strategy]:
    """Returns the strategies of a stage by name, the plainest first, with parameters for a machine; {} for maps, stencils and most
    reductions.

    Sizes follow from the caches. A block that one thread reads twice in a row (`chain`, `flat`) fills half of L2, beside other data. A
    block of a strategy that passes over all blocks before the second pass fills L2, since nothing of it is left there by then. A range of
    bins of `sorted` fits L2. A chunk of `sorted` has half a task of iterations, each of which is counted and then moved, and one of `radix` two
    tasks of keys, since threads are started anew for every digit.
    """
    if stage.update is not None:
        own = tuple(axis.name for axis in stage.all_axes)
        size = sum(body.dtype.itemsize for body in stage.bodies)
        values = () if stage.update.mode == "unique" else ("values",)
        serial = {"serial": Strategy({}, own, values)}
        if box_of(stage) is not None:
            serial["gather"] = Strategy({}, tuple(axis.name for axis in stage.axes))
        chunks = f"min({USUAL_CHUNKS}, {_update_axis(stage)} // {max(1, machine.task // 2)})"
        in_order = {"sorted": Strategy({"bins": block_of(machine.l2, size), "chunks": chunks}, own, ("ranges",))}
        if stage.update.mode == "set":
            return {**serial, **in_order}
        if stage.update.mode == "unique":
            return serial
        together = {
            "private": Strategy({"chunks": _chunks_of_bins(stage), "replicas": 1}, own, ("values", "combine")),
            "atomic": Strategy({"reproducible": True}, own),
        }
        return {**serial, **together, **in_order}
    if stage.sort is not None:
        along = stage.reduction_axes[0].name
        alone = len(stage.axes) == 1 and along.isidentifier()
        chunks = f"min({USUAL_CHUNKS}, {along} // {2 * machine.task})" if alone else 1
        own = tuple(axis.name for axis in stage.all_axes)
        digits: dict[str, Number] = {"bits": BITS_OF_A_DIGIT, "chunks": chunks, "insertion": _few_elements(stage)}
        by_digits = {"radix": Strategy(digits, own)}
        by_digits |= {name: Strategy(_blocks_of_sort(stage, machine), own) for name in BY_BLOCKS}
        if stage.sort.keys > 1:
            return by_digits
        assert stage.reduction is not None
        lanes, networks = machine.lanes(stage.bodies[0].dtype.bits), _has_networks(stage.reduction.left)
        most = RANKED_BESIDE_NETWORKS if networks else RANKED
        few: dict[str, Number] = {"ranked": min(most, RANKED_REGISTERS * lanes)}
        if networks:
            few["network"] = max(1, machine.registers // 2) * lanes
        parted: dict[str, Number] = {"chunks": chunks, **few}
        if stage.reduction.left[0].dtype.is_integer:
            parted["counted"] = block_of(machine.l2 // 2, COUNTER)
        by_comparisons = {"quicksort": Strategy(parted, own)}
        if stage.sort.positions is not None:
            by_comparisons["quickselect"] = Strategy(few, own)
        return {**by_digits, **by_comparisons}
    if stage.scan is None and stage.filter is None:
        if stage.symmetric:
            return {"triangle": Strategy({"rows": COPIED_ROWS}, tuple(axis.name for axis in stage.all_axes), ("copy",))}
        return _of_segments(stage, machine)
    axes = tuple(axis.name for axis in stage.axes)
    x = stage.reduction_axes[0].name
    blocks = tuple(name for axis in axes for name in ((axis + "o", axis + "i") if axis == x else (axis,)))
    size = sum(body.dtype.itemsize for body in results_of(stage))
    phases, part = ("count_write", "count") if stage.filter else ("three_phase", "totals")
    options = ("staged",) if stage.filter and len(axes) == 1 else ()
    found = {
        "serial": Strategy({}, axes),
        phases: Strategy({"block": block_of(machine.l2, size)}, blocks, (part,), options),
        "chain": Strategy({"block": block_of(machine.l2 // 2, size)}, blocks, (part,), options),
    }
    if stage.scan is not None and (stage.scan.ends is not None or runs_of(stage) is not None):
        found["runs"] = Strategy({"block": block_of(machine.l2, size)}, blocks)
    return found


def _blocks_of_sort(stage: Stage, machine: Machine) -> dict[str, Number]:
    """Returns the parameters of a GPU sort by blocks.

    A block has as many elements as a third of a processor's shared memory holds, so that three blocks are resident, one of which waits at a
    barrier. Elements are staged in shared memory unless a thread would have fewer than two of them.
    """
    assert stage.reduction is not None
    gpu = machine.gpu or Gpu()
    threads, total = gpu.usual_threads, max(gpu.shared // 3, min(gpu.shared, USUAL_SHARED))
    counters = COUNTERS_OF_THREAD + (0 if gpu.exchange else SUMS_OF_THREAD)
    while counters * threads + COUNTERS_OF_DIGITS > total // 2:
        threads //= 2
    left = total - counters * threads - COUNTERS_OF_DIGITS
    element = sum(v.dtype.itemsize for v in stage.reduction.left)
    staged = (ORDERED + element) * 2 * threads <= left
    most = left // (ORDERED + element * staged)
    block = min(max(2, block_of(most, 1) // threads), ELEMENTS_OF_THREAD) * threads
    return {"block": block, "threads": threads, "subgroup": max(1, gpu.exchange), "staged": staged}


def parameters_of_sort(stage: Stage, plan: StagePlan) -> dict[str, Any]:
    """Returns the parameters of a sort's strategy; where the schedule has none, the defaults of the first one, in one chunk."""
    name, stated = plan.strategy or ("radix", ())
    return {**strategies_of(stage)[name].numbers, "chunks": 1, **dict(stated)}


def _has_networks(values: Sequence[Var]) -> bool:
    """Whether sorting networks in registers may sort parts: keys without values, of 32 or 64 bits."""
    return len(values) == 1 and values[0].dtype.bits in KEYS_OF_NETWORKS


def _few_elements(stage: Stage) -> int:
    """Returns the most elements that an insertion sort takes, n² / 4 moves, before radix passes have gone twice through their counters."""
    assert stage.sort is not None and stage.reduction is not None
    keys = stage.reduction.left[: stage.sort.keys]
    passes = sum(max(1, key.dtype.bits // BITS_OF_A_DIGIT) for key in keys)
    return math.isqrt(4 * passes * (2 << BITS_OF_A_DIGIT))


def _update_axis(stage: Stage) -> str:
    """Returns the number of an update's iterations as a text over its axes; "0" where an axis name is no identifier."""
    names = [axis.name for axis in stage.reduction_axes]
    return " * ".join(names) if all(map(str.isidentifier, names)) else "0"


def _chunks_of_bins(stage: Stage) -> str:
    """Returns the default `chunks` of `private` as a text: at most `USUAL_CHUNKS`, and `UPDATES_FOR_A_BIN` iterations at least for each private
    bin, or `UPDATES_FOR_A_STRUCTURE` for those of a single chunk.
    """
    outer = stage.all_axes.index(stage.reduction_axes[0])
    bins = [axis.name for axis in stage.axes if axis not in stage.all_axes[:outer]]
    updates, each = _update_axis(stage), "".join(f" * {name}" for name in ("replicas", *bins) if name.isidentifier())
    chunks = f"{updates} // ({UPDATES_FOR_A_BIN}{each})"
    if has_structures(stage):
        chunks = f"max({chunks}, min(1, {updates} // ({UPDATES_FOR_A_STRUCTURE}{each})))"
    return f"min({USUAL_CHUNKS}, {chunks})"


def _of_segments(stage: Stage, machine: Machine) -> dict[str, Strategy]:
    """Returns the strategies of a segmented reduction; {} for other stages."""
    if stage.reduction is not None or not ragged_folds(stage):
        return {}
    segments, axes = segments_of(stage), tuple(axis.name for axis in stage.axes)
    rows = {"rows": Strategy({}, axes, ("fold",))}
    if segments is None:
        return rows
    size = sum(value.dtype.itemsize for value in segments.fold.values)
    flat = Strategy({"block": block_of(machine.l2 // 2, size)}, axes, ("check", "search", "fold", "join"))
    return {**rows, "flat": flat}


def results_of(stage: Stage) -> tuple[Expr, ...]:
    """Returns the results of a stage for each element: all bodies, but for a filter's count."""
    return stage.bodies[:-1] if stage.filter else stage.bodies


def block_of(total: int, size: int) -> int:
    """Returns the elements of a block of `total` bytes, each of `size` bytes, rounded down to a power of two."""
    return 1 << max(0, (total // size).bit_length() - 1)


def strategy_name(state: State, name: str) -> str:
    """Returns the strategy of a stage, the default one where none is explicit; "" where the stage has none."""
    plan = state.plans[name]
    return (
        ""
        if not strategies_of(state.stage(name)) or (plan.strategy is None and is_reduction_alone(state.stage(name)))
        else plan.strategy[0]
        if plan.strategy
        else next(iter(strategies_of(state.stage(name))))
    )


def check_scan(state: State, name: str) -> None:
    """Refuses threads, lanes and loop orders along a scan's axis that break its order, unless its strategy provides them.

    The threads of a GPU's block may have contiguous parts of a block of the strategy, or, where a scan has a GPU block to itself, of its
    axis.
    """
    stage, plan = state.stage(name), state.plans[name]
    if (stage.scan is None and stage.filter is None) or plan.compute_with is not None:
        return
    verb = "is scanned along" if stage.scan else "keeps elements in order along"
    scanned = [loop for loop in plan.loops if is_reduction(stage, plan, loop.name)]
    blocks = scanned[0].name if strategy_name(state, name) != "serial" else None
    if strategy_name(state, name) == "runs" and (len(scanned) > 2 or scanned[-1].kind not in ("serial", "vector")):
        raise Refusal(
            f'the lengths of the runs of "{name}" depend on the data, so their loop can be neither split nor parallel',
            f'leave "{scanned[1].name}" serial, or vectorize it as a whole',
        )
    for k, loop in enumerate(scanned):
        alone = blocks is not None or has_block_alone(stage, plan)
        inside = position(plan, loop.name) == position(plan, scanned[0].name) + 1
        pieces = alone and inside and level_of(loop) == "thread" and len(scanned) > 2
        if loop.kind == "parallel" and loop.name != blocks and not pieces:
            raise Refusal(
                f'"{name}" {verb} "{loop.name}": each iteration needs the one before it',
                " or ".join(f'strategy("{each}")' for each in list(strategies_of(stage))[1:]),
            )
        if loop.kind == "vector" and k + 1 < len(scanned):
            raise Refusal(
                f'lanes of "{loop.name}" would run "{scanned[k + 1].name}" out of order, and the result depends on the order',
                f'vectorize "{scanned[-1].name}"',
            )
        if loop.kind == "vector" and stage.scan is not None:
            check_lanes_of_operator(stage)
        if loop.kind == "vector" and stage.scan is not None and loop.name in fused_loops(plan.relations):
            raise Refusal(
                f'"{loop.name}" is a fused loop, in which some lanes may have no element to scan',
                "leave the loops along the scan unfused",
            )
        if stage.filter and position(plan, loop.name) != k:
            raise Refusal(
                f'"{name}" keeps whole rows, so loops along "{loop.name}" must stand outside the others',
                "leave these loops outermost",
            )
        if stage.filter and loop.kind == "vector" and len(stage.axes) > 1:
            raise Refusal(f'"{name}" keeps or drops whole rows, one at a time', f'vectorize "{stage.axes[-1].name}"')


def check_update(state: State, name: str) -> None:
    """Refuses parallel loops over iterations of an update that may change one element, and loops over its destination around the iterations."""
    stage, plan = state.stage(name), state.plans[name]
    if stage.update is None or plan.compute_with is not None:
        return
    folded = [k for k, loop in enumerate(plan.loops) if is_reduction(stage, plan, loop.name)]
    whole = {axis.name for axis in stage.whole_axes}
    for k, loop in enumerate(plan.loops):
        together = stage.update.mode == "unique" or strategy_name(state, name) == "atomic"
        if k in folded and loop.level.startswith("thread") and strategy_name(state, name) == "private":
            assert stage.reduction is not None
            check_atomic(name, stage.reduction, True, f'leave "{loop.name}" serial')  # threads of a block share bins
            together = True
        if k in folded and loop.kind == "parallel" and not together:
            remedy = "unique_indices=True, if no two indices are equal"
            if stage.update.mode == "combine":
                remedy = 'strategy("private") or strategy("atomic")'
            raise Refusal(f'two iterations of "{loop.name}" may update the same element of "{name}"', remedy)
        if k in folded[:-1] and loop.kind == "vector" and stage.update.mode == "set":
            last = plan.loops[folded[-1]].name
            raise Refusal(
                f'lanes of "{loop.name}" would run the updates of "{last}" out of order, and the last value written must win',
                f'vectorize "{last}", or unique_indices=True, if no two indices are equal',
            )
        axes = set(axes_of(plan, loop.name))
        if strategy_name(state, name) == "sorted":
            check_sorted(stage, plan, k, folded)
        if whole & axes and axes - whole:
            raise Refusal(
                f'"{loop.name}" fuses an axis of "{name}" that its updates index with an axis that they run through',
                "leave these loops unfused",
            )
        if k < folded[-1] and whole & axes:
            raise Refusal(
                f'the updates of "{name}" index the elements of "{loop.name}": they run once, not in every iteration of that loop',
                f'reorder "{loop.name}" inside "{plan.loops[folded[-1]].name}"',
            )


def check_sorted(stage: Stage, plan: StagePlan, k: int, folded: list[int]) -> None:
    """Refuses loops that the counting passes of `sorted` cannot have: lanes over iterations, and rows inside the iterations."""
    loop, whole = plan.loops[k], {axis.name for axis in stage.whole_axes}
    if k in folded and loop.kind == "vector":
        raise Refusal(
            f'strategy "sorted" counts and moves the updates of "{stage.name}" one by one',
            "vectorize an axis of the destination",
        )
    if k > folded[0] and k not in folded and not whole & set(axes_of(plan, loop.name)):
        outermost = plan.loops[folded[0]].name
        raise Refusal(
            f'strategy "sorted" moves single values, and each update of "{stage.name}" would move a whole row along "{loop.name}"',
            f'reorder "{loop.name}" outside "{outermost}", or strategy("private")',
        )


def flat_axis(state: State, name: str) -> Axis | None:
    """Returns the axis over segments of a stage with the strategy `flat`; None for other stages."""
    strategy = state.plans[name].strategy
    segments = segments_of(state.stage(name)) if strategy is not None and strategy[0] == "flat" else None
    return None if segments is None else state.stage(name).axes[segments.axis]


def check_triangle(state: State, name: str) -> None:
    """Refuses `triangle` for a stage that is placed in other loops, or whose reduction is parallel."""
    stage, plan = state.stage(name), state.plans[name]
    if plan.strategy is None or plan.strategy[0] != "triangle":
        return
    if isinstance(plan.compute, At) or state.gpu is not None:
        where = "on a GPU" if state.gpu is not None else "in loops of other stages"
        raise Refusal(
            f'strategy "triangle" mirrors "{name}" once its triangle is complete, which is not possible {where}',
            f's["{name}"].root()',
        )
    first = next((loop for loop in plan.loops if is_reduction(stage, plan, loop.name)), None)
    if first is not None and first.kind == "parallel":
        raise Refusal(
            f'strategy "triangle" copies complete results, and parallel chunks of "{first.name}" would make partial ones',
            "parallel rows",
        )


def check_flat(state: State, name: str) -> None:
    """Refuses loops that `flat` cannot have: its blocks of values take the place of the loop over segments, which must be innermost."""
    plan = state.plans[name]
    for at in compute_sites(plan):
        leader = flat_axis(state, at.stage)
        if leader is not None and (at.loop == leader.name or at is plan.compute_with):
            raise Refusal(
                f'strategy "flat" gives "{at.stage}" blocks of values instead of a loop over segments, so "{name}" has no loop to be placed at',
                f's["{name}"].root()',
            )
    along = flat_axis(state, name)
    if along is None:
        return
    axis, last = along.name, plan.loops[-1]
    own = [loop for loop in plan.loops if axis in axes_of(plan, loop.name)]
    if isinstance(plan.compute, At) and _moves_along(state, name, along, plan.compute.stage, plan.compute.loop):
        raise Refusal(
            f'strategy "flat" would search all values for segments in every iteration of "{plan.compute.loop}"',
            f's["{name}"].root()',
        )
    if plan.compute_with is not None:
        raise Refusal(
            f'strategy "flat" gives "{name}" blocks of values instead of a loop over segments, so there is no loop to share',
            f's["{name}"].root()',
        )
    if [loop.name for loop in own] != [axis] or last.kind != "serial":
        raise Refusal(
            f'strategy "flat" replaces the loop over "{axis}" by parallel blocks of values', 'strategy("rows")'
        )
    if last.name != axis:
        raise Refusal(
            f'the blocks of strategy "flat" hold parts of segments, so the loop of "{name}" over segments must be innermost',
            f'reorder "{axis}" inside "{last.name}"',
        )
    around = [
        state.plans[owner].loops[position(state.plans[owner], loop)] for owner, loop in enclosing_loops(state, name)
    ]
    lanes = next((loop.name for loop in (*around, *plan.loops) if loop.kind == "vector"), None)
    if lanes is not None:
        raise Refusal(f'each lane of "{lanes}" would need blocks of its own for strategy "flat"', 'strategy("rows")')


def check_sort(state: State, name: str) -> None:
    """Refuses split, parallel or vector loops along a sort's axis, which the sort passes over itself, and loops inside it."""
    stage, plan = state.stage(name), state.plans[name]
    if stage.sort is None or plan.compute_with is not None:
        return
    axis, by_comparison = stage.reduction_axes[0].name, strategy_name(state, name) in BY_COMPARISONS
    for loop in plan.loops:
        if not is_reduction(stage, plan, loop.name) or (loop.name == axis and loop.kind == "serial"):
            continue
        if by_comparison and loop.name == axis and loop.kind == "vector":
            continue
        remedy = {
            "vector": 'strategy("quicksort"), which has vector lanes for sorts of one key',
            "parallel": "strategy(…, chunks=…), whose chunks run in parallel",
        }
        raise Refusal(
            f'the strategy of "{name}" sorts along "{axis}" in passes of its own, which take no loop directives',
            remedy.get(loop.kind, "directives for the other axes"),
        )
    if plan.loops[-1].name != axis:
        raise Refusal(
            f'"{name}" is sorted along the whole of "{axis}", whose loop must be innermost',
            f'reorder "{axis}" inside the others',
        )
    if strategy_name(state, name) in BY_BLOCKS:
        _check_blocks_of_sort(state, name)
    if any(loop.kind == "vector" and loop.name != axis for loop in plan.loops):
        raise Refusal(
            f'the sort "{name}" branches at every element, so vector lanes cannot sort several rows at once',
            "parallel, or a serial loop",
        )


def _check_blocks_of_sort(state: State, name: str) -> None:
    """Refuses parallel loops around a sort that uses the whole device, or a whole block, and more threads than a block may have."""
    plan = state.plans[name]
    around = [
        state.plans[owner].loops[position(state.plans[owner], loop)] for owner, loop in enclosing_loops(state, name)
    ]
    by_rows = strategy_name(state, name) == "three_phase" and not any(loop.kind != "serial" for loop in around)
    several = next(
        (
            loop
            for loop in (*around, *plan.loops)
            if loop.kind != "serial" and not (by_rows and loop.level.startswith("block"))
        ),
        None,
    )
    if several is not None:
        blocks = several.level.startswith("block") and several in plan.loops
        raise Refusal(
            f'the strategy sorts with all blocks of the device, and iterations of "{several.name}" would run several sorts at once',
            'strategy("three_phase")' if blocks else 'strategy("radix")',
        )
    parameters = parameters_of_sort(state.stage(name), plan)
    if state.gpu is not None and parameters["threads"] > state.gpu.threads:
        raise Refusal(
            f"a block would have {parameters['threads']} threads, and the device allows {state.gpu.threads}",
            "fewer threads",
        )


def check_reads_of_updates(state: State, producer: str, at: At) -> None:
    """Refuses to place a stage inside the loops of a strategy where the operator reads the stage, or where the iterations that read it do not
    run.
    """
    target, plan = state.stage(at.stage), state.plans[at.stage]
    fold = target.reduction
    if fold is None or not strategies_of(target):
        return
    if target.sort:
        raise Refusal(
            f'the strategy of "{at.stage}" sorts along "{at.loop}" in passes of its own, and no stage can be placed in them',
            f's["{producer}"].root()',
        )
    if producer in stages_read(state, loads_in(*fold.combine, *fold.neutral)):
        raise Refusal(
            f'the operator of "{at.stage}" reads "{producer}" outside those loops too', f's["{producer}"].root()'
        )
    if (
        target.filter
        and not is_reduction(target, plan, at.loop)
        and producer in stages_read(state, loads_in(fold.values[0]))
    ):
        raise Refusal(
            f'the predicate of "{at.stage}" reads "{producer}" outside loop "{at.loop}"', f's["{producer}"].root()'
        )
    whole = {axis.name for axis in target.whole_axes} if target.update else set()
    if whole & set(axes_of(plan, at.loop)) and producer in stages_read(state, loads_in(*fold.values)):
        raise Refusal(
            f'the updates of "{at.stage}" read "{producer}", and they run outside loop "{at.loop}"',
            f's["{producer}"].root()',
        )


def check_scan_placement(state: State, name: str, reader: str, loop: str) -> None:
    """Refuses to compute a scan, filter, sort or update in iterations that each need another part of the axis that it runs over as
    a whole.
    """
    stage, plan = state.stage(name), state.plans[reader]
    axis = next((a for a in stage.whole_axes if _moves_along(state, name, a, reader, loop)), None)
    if axis is None:
        return
    moving = {
        each.name for a in stage.whole_axes for each in plan.loops if _moves_along(state, name, a, reader, each.name)
    }
    outer = [f'"{reader}" {each.name}' for each in plan.loops if each.name not in moving]
    verb = "chooses elements along" if stage.update else "goes in order along"
    raise Refusal(
        f'"{name}" {verb} "{axis.name}", and every iteration of "{loop}" would compute the whole axis again',
        f's["{name}"].root()',
        places=listed(["root", *outer]),
    )


def _moves_along(state: State, name: str, axis: Axis, reader: str, loop: str) -> bool:
    """Whether the reader's loops down to `loop` move its reads along an axis of a stage while the stage's other indices stay.

    Where a loop's variable is another index of the same read, each iteration reads elements of its own, and does not count.
    """
    stage, plan = state.stage(name), state.plans[reader]
    where = stage.axes.index(axis)
    whole = {where, *(stage.axes.index(each) for each in stage.whole_axes)}
    moving = {each for outer in plan.loops[: position(plan, loop) + 1] for each in axes_of(plan, outer.name)}
    variables = {each.var for each in state.stage(reader).all_axes if each.name in moving}
    loads = state.uses.loads.get(reader, {}).get(name, ())
    own = [{e for d, e in enumerate(load.indices) if d not in whole} for load in loads]
    apart = {var for var in variables if all(var in indices for indices in own)}
    return any(node in variables - apart for load in loads for node in scalar_nodes(load.indices[where]))
