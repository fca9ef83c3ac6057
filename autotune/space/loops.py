"""Choices for a stage's loops: the default ones, or an explicit multi-level loop nest.

Every loop may be split into tiles, tiles into blocks, and the rest into as many iterations as are unrolled in registers, so that a nest
reads

    tiles  |  blocks  |  rows (inner halves and whole loops)  |  registers (unrolled, and the gang where it was split off)

Each level has an order of its own; one loop is vectorised, one of the outermost is parallel. Stencils with rows in registers, tiled
products with packed panels, sums in chunks, tiled scans and the loops of all hand-written schedules are points of this space. (Sketches in
levels: Zheng et al., Ansor, OSDI 2020, section 4.1; the weights follow Adams et al. 2019: tiles that fit caches are likely.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations
from math import prod

from raido.autotune.space.factors import factors, powers
from raido.autotune.space.walk import DEFAULT, DeadEnd, Option, Walk, make_directive
from raido.schedule.defaults.demand import cost
from raido.schedule.defaults.queries import contiguity
from raido.schedule.directives.kinds import TAILS
from raido.schedule.plan import At, LoopPlan
from raido.schedule.recorded import PART, Directive, Value
from raido.schedule.state import axes_of, axis_named, has_explicit_loops, is_reduction, loops_from, position
from raido.schedule.strategies.parts import is_of_blocks

REGISTERS = {2: 1.0, 3: 0.3, 4: 1.5, 6: 0.4, 8: 1.0, 12: 0.4, 16: 0.2}
INTERLEAVE = {1: 3.0, 2: 2.0, 3: 0.2, 4: 1.0, 6: 0.2, 8: 0.4}
FOLD_INTERLEAVE = {1: 1.0, 2: 2.0, 3: 0.2, 4: 3.0, 6: 0.2, 8: 1.5}
MOST_WHOLE = 16
MOST_OPERATIONS = 1536  # of the copies of one element's that stand side by side
MOST_TILE = 1 << 20
LINE_TILE = 1 << 9  # the least tile of a stage that has one long loop
GRAINS = {0: 8.0, **{1 << k: 1.0 if k < 5 else 0.3 for k in range(1, 12)}}
BLOCKED = 0.15  # how often a tile is cut into blocks
BISECTION = f"{PART}search"  # few elements, each of which takes many iterations: for threads, hardly for lanes
UPDATE_TILES = f"{PART}values"
MANY_ITERATIONS = 40.0  # the weight of no lanes where a loop bisects, 0.2 elsewhere: each iteration waits for the last


@dataclass(slots=True)
class Sketch:
    """The loops of one stage as decided so far. `base` are the original loops; `rows` maps each to its loop in the middle level."""

    stage: str
    base: list[str]
    vector: str = ""
    lanes: int = 0
    interleave: int = 1
    tiles: dict[str, str] = field(default_factory=dict)
    blocks: dict[str, str] = field(default_factory=dict)
    rows: dict[str, str] = field(default_factory=dict)
    jams: list[str] = field(default_factory=list)
    gang: str = ""
    whole: list[str] = field(default_factory=list)


def choose_loops(walk: Walk, stage: str) -> None:
    """Makes the choices for the loops of a stage, or of a part of its strategy, unless some are decided; on GPUs `threads` does."""
    loops = [loop.name for loop in walk.free_loops(stage)]
    if has_explicit_loops(walk.state, stage) or not loops or walk.machine.gpu is not None:
        return
    placed = isinstance(walk.plan(stage).compute, At)
    own = 0.1 if walk.is_copy(stage) else 0.3 if PART in stage else 0.5 if placed else 3.0
    if walk.choose(stage, "loops", [Option(DEFAULT), Option("own", weight=own)]) == DEFAULT:
        return
    if stage.endswith(UPDATE_TILES):
        choose_update_tile(walk, stage, loops[0])
        return
    sketch = Sketch(stage, loops, rows={loop: loop for loop in loops})
    choose_vector(walk, sketch)
    if not is_of_blocks(stage):
        choose_levels(walk, sketch)
    decide_kinds(walk, sketch)
    choose_parallel(walk, sketch)
    for loop in () if is_of_blocks(stage) else loops:
        choose_tail(walk, sketch, loop)
    if not has_explicit_loops(walk.state, stage):
        raise DeadEnd(f"{stage}: no choice changed its loops")


def choose_update_tile(walk: Walk, stage: str, axis: str) -> None:
    """Chooses the tile size in which an update's values are computed by lanes, and the interleave."""
    sizes = [Option(n, (make_directive(stage, "split", axis=axis, factor=n),)) for n in powers(128, 2048)]
    walk.choose(stage, "strip", sizes)
    gangs = {k: make_directive(stage, "vectorize", axis=axis + "i", interleave=k) for k in INTERLEAVE}
    walk.choose(stage, "interleave", [Option(k, (directive,), INTERLEAVE[k]) for k, directive in gangs.items()])


def choose_vector(walk: Walk, sketch: Sketch) -> None:
    """Chooses the vectorised loop, its lanes, and the interleave."""
    stage = walk.stage(sketch.stage)
    scores = {loop: _contiguity(walk, sketch.stage, loop) for loop in sketch.base}
    best = max(scores.values())
    options = [
        Option(loop, weight=8.0 if score == best else 1.0 if score >= 0 else 0.2)
        for loop, score in sorted(scores.items(), key=lambda item: -item[1])
        if walk.allows(make_directive(sketch.stage, "vectorize", axis=loop))
    ]
    none = Option("", weight=MANY_ITERATIONS if sketch.stage.endswith(BISECTION) else 0.2)
    sketch.vector = str(walk.choose(sketch.stage, "vector", [*options, none]))
    if not sketch.vector:
        return
    native = native_lanes(walk, sketch.stage)
    widths = [n for n in powers(4, 64) if n != native and native // 4 <= n <= 4 * native]
    few = [Option(n, weight=0.15 if n in (native // 2, native * 2) else 0.05) for n in widths]
    sketch.lanes = int(walk.choose(sketch.stage, "lanes", [Option(0, weight=5.0), *few]))  # type: ignore[arg-type]
    folds = stage.reduction is not None or is_of_blocks(sketch.stage)
    table = FOLD_INTERLEAVE if folds else INTERLEAVE
    options = [Option(number, weight=weight) for number, weight in table.items()]
    sketch.interleave = int(walk.choose(sketch.stage, "interleave", options))  # type: ignore[arg-type]


def choose_levels(walk: Walk, sketch: Sketch) -> None:
    """Chooses how loops are split, and their order."""
    for loop in sketch.base:
        choose_tile(walk, sketch, loop)
    for loop in sketch.base:
        choose_registers(walk, sketch, loop)
    choose_order(walk, sketch)


def choose_tile(walk: Walk, sketch: Sketch, loop: str) -> None:
    """Chooses a loop's tile size and block size."""
    name, iterations = sketch.stage, walk.iterations(sketch.stage, loop)
    least = 2
    if loop == sketch.vector:
        least = min(width(walk, sketch), 64)
        if sum(walk.iterations(name, each) > 8 for each in sketch.base) == 1:
            least = min(LINE_TILE, max(least, iterations // 4))
    inside = _bytes_inside(walk, sketch, loop)
    found = factors(iterations, least, MOST_TILE)
    if not found:
        return
    machine = walk.machine
    options = []
    for factor, weight in found.items():
        fits = machine.l1 // 4 <= factor * inside <= machine.l2
        options.append(
            Option(factor, (make_directive(name, "split", axis=loop, factor=factor),), weight * (1 if fits else 0.3))
        )
    total = sum(option.weight for option in options)
    placed = isinstance(walk.plan(name).compute, At)
    several = len(sketch.base) > 1
    inner = several and (loop == sketch.vector or is_reduction(walk.stage(name), walk.plan(name), loop))
    untiled = 4.0 if placed or walk.is_copy(name) else 1.5 if inner else 0.7
    if walk.choose(name, f"tile {loop}", [Option(0, weight=untiled * total), *options]) == 0:
        return
    sketch.tiles[loop], sketch.rows[loop] = loop + "o", (row := loop + "i")
    found = factors(walk.iterations(name, row), least, MOST_TILE)
    blocks = [Option(n, (make_directive(name, "split", axis=row, factor=n),), weight) for n, weight in found.items()]
    rest = sum(option.weight for option in blocks) * (1 / BLOCKED - 1)
    if blocks and walk.choose(name, f"block {loop}", [Option(0, weight=rest), *blocks]) != 0:
        sketch.blocks[loop], sketch.rows[loop] = row + "o", row + "i"


def choose_registers(walk: Walk, sketch: Sketch, loop: str) -> None:
    """Chooses how many iterations of a loop are unrolled in registers; for the vectorised loop, whether a gang is split off."""
    name, row = sketch.stage, sketch.rows[loop]
    iterations = walk.iterations(name, row)
    if loop == sketch.vector:
        if len(sketch.base) == 1:
            return
        folds = walk.stage(name).reduction is not None and not is_reduction(walk.stage(name), walk.plan(name), row)
        gang = width(walk, sketch)
        sizes = [gang * k for k in (1, 2, 4) if gang * k < iterations]
        cuts = [
            Option(k, (make_directive(name, "split", axis=row, factor=k),), 1.0 if k == gang else 0.2) for k in sizes
        ]
        if walk.choose(name, f"registers {loop}", [Option(0, weight=0.7 if folds else 8.0), *cuts]) != 0:
            sketch.rows[loop], sketch.gang = row + "o", row + "i"
        return
    taken = sketch.interleave * prod(walk.iterations(name, jam) for jam in (*sketch.jams, *sketch.whole))
    room = min(2 * walk.machine.registers, MOST_OPERATIONS // max(1, cost(walk.owner(name)))) // taken
    options = [Option(0, weight=15.0 if sketch.jams or walk.is_copy(name) else 5.0)]
    for number, weight in REGISTERS.items():
        if number <= room and number < iterations:
            options.append(Option(number, (make_directive(name, "split", axis=row, factor=number),), weight))
    if 1 < iterations <= min(room, MOST_WHOLE) and walk.is_constant(name, row):
        options.append(Option("whole", weight=3.0))
    chosen = walk.choose(name, f"registers {loop}", options)
    if chosen == "whole":
        sketch.whole.append(row)
    elif chosen != 0:
        sketch.jams.append(row + "i")
        sketch.rows[loop] = row + "o"


def choose_order(walk: Walk, sketch: Sketch) -> None:
    """Chooses the order of the loops of each level, and whether unrolled loops are inside or outside the vectorised one."""
    name = sketch.stage
    tiles = [
        *_ordered(walk, sketch, "order of tiles", sketch.tiles),
        *_ordered(walk, sketch, "order of blocks", sketch.blocks),
    ]
    inside = True
    if sketch.jams and sketch.vector and not sketch.gang:
        inside = walk.choose(name, "jam", [Option("inside", weight=4.0), Option("around")]) == "inside"
    vector = sketch.rows.get(sketch.vector, "")
    options = []
    for order, weight in _orders(walk, sketch):
        rows = [sketch.rows[loop] for loop in order]
        at = len(rows) if inside or vector not in rows else rows.index(vector)
        loops = [*tiles, *rows[:at], *sketch.jams, *rows[at:], *([sketch.gang] if sketch.gang else [])]
        now = [loop.name for loop in walk.plan(name).loops if loop.name in loops]
        directives = () if now == loops else (make_directive(name, "reorder", axes=tuple(loops)),)
        last = not sketch.vector or order[-1] == sketch.vector or bool(walk.stage(name).reduction)
        options.append(Option(order, directives, weight if last else 0.3 * weight))
    walk.choose(name, "order", options)


def decide_kinds(walk: Walk, sketch: Sketch) -> None:
    """Unrolls and vectorises the chosen loops."""
    for loop in (*sketch.jams, *sketch.whole):
        walk.decide(sketch.stage, "unroll", axis=loop)
    if sketch.vector:
        axis = sketch.gang or sketch.rows[sketch.vector]
        more: dict[str, Value] = {"lanes": sketch.lanes} if sketch.lanes else {}
        if sketch.interleave > 1:
            more["interleave"] = sketch.interleave
        walk.decide(sketch.stage, "vectorize", axis=axis, **more)


def choose_parallel(walk: Walk, sketch: Sketch) -> None:
    """Chooses the parallel loop among the two outermost, or both fused, and its grain and scheduling."""
    name = sketch.stage
    free: list[LoopPlan] = [loop for loop in walk.plan(name).loops if loop.kind == "serial"][:2]
    parallel: dict[str, tuple[Directive, ...]] = {
        loop.name: (make_directive(name, "parallel", axis=loop.name),) for loop in free
    }
    if len(free) == 2:
        a, b = free[0].name, free[1].name
        parallel[a + b] = (make_directive(name, "fuse", a=a, b=b), make_directive(name, "parallel", axis=a + b))
    weights = (8.0, 1.0, 0.5)
    options = [
        Option(loop, directives[:-1], weight)
        for (loop, directives), weight in zip(parallel.items(), weights, strict=False)
        if walk.allows(*directives)
    ]
    if not options:
        return
    loop = walk.choose(name, "parallel", [Option("", weight=0.4), *options])
    if not loop:
        return
    grains = [Option(n, weight=w) for n, w in GRAINS.items() if n < max(2, walk.iterations(name, str(loop)))]
    grain = walk.choose(name, "grain", grains)
    dynamic = [
        Option(each, (make_directive(name, "parallel", axis=loop, grain=grain or None, dynamic=each or None),), weight)
        for each, weight in ((False, 3.0), (True, 1.0))
    ]
    walk.choose(name, "dynamic", dynamic)


def choose_tail(walk: Walk, sketch: Sketch, loop: str) -> None:
    """Chooses the handling of the last, partial iteration of a loop that was split or vectorised."""
    if loop not in sketch.tiles and loop != sketch.vector and sketch.rows[loop] == loop:
        return
    options = [
        Option(kind, (make_directive(sketch.stage, "tail", axis=loop, kind=kind),), weight=0.02)
        for kind in TAILS
        if kind != "exact"  # a promise about the sizes of calls, not a choice
    ]
    walk.choose(sketch.stage, f"tail {loop}", [Option(DEFAULT), *options])


def native_lanes(walk: Walk, stage: str) -> int:
    """Lanes of a vector register for the widest element that a stage computes."""
    return walk.machine.lanes(max(body.dtype.bits for body in walk.owner(stage).bodies))


def width(walk: Walk, sketch: Sketch) -> int:
    """Elements by which the vectorised loop advances."""
    return (sketch.lanes or native_lanes(walk, sketch.stage)) * sketch.interleave


def _ordered(walk: Walk, sketch: Sketch, decision: str, loops: dict[str, str]) -> list[str]:
    """Loops in a chosen order, given by the loops they were split from."""
    if len(loops) < 2:
        return list(loops.values())
    options = [Option(order, weight=weight) for order, weight in _orders(walk, sketch)]
    order = walk.choose(sketch.stage, decision, options)
    return [loops[str(each)] for each in order if each in loops]  # type: ignore[union-attr]


def _orders(walk: Walk, sketch: Sketch) -> Iterator[tuple[tuple[str, ...], float]]:
    """Loop orders to try, each with a weight, the present one first: all permutations of up to three loops, else each loop moved to the
    front or to the end."""
    names, first = sketch.base, tuple(sketch.base)
    if len(names) <= 3:
        found = list(permutations(names))
    else:
        fronts = [(each, *(n for n in names if n != each)) for each in names]
        ends = [(*(n for n in names if n != each), each) for each in names]
        found = list(dict.fromkeys([first, *fronts, *ends]))
    others = (2.0 if walk.stage(sketch.stage).reduction is not None else 1.0) / max(1, len(found) - 1)
    for order in found:
        yield order, 3.0 if order == first else others


def _contiguity(walk: Walk, stage: str, loop: str) -> int:
    """A score of contiguous accesses along a loop, the sum over those along its last axis."""
    whole, plan = walk.stage(stage), walk.plan(stage)
    axis = axis_named(whole, axes_of(plan, loop)[-1])
    stored = tuple(axis.var for axis in whole.axes)
    points = [point for each in walk.reads(stage).values() for point in each]
    score = sum(contiguity(axis.var, point) for point in (*points, stored))
    inner = loops_from(plan, axis.name)[-1] == loop
    return score if inner else min(score, 0) - 2


def _bytes_inside(walk: Walk, sketch: Sketch, loop: str) -> int:
    """Bytes of results (of inputs, for a reduction) that one iteration of a loop covers, with the inner loops as they are."""
    plan = walk.plan(sketch.stage)
    inner = [each.name for each in plan.loops[position(plan, loop) + 1 :]]
    tiled = {*sketch.tiles.values(), *sketch.blocks.values()}
    counts = [walk.iterations(sketch.stage, each) for each in inner if each not in tiled]
    return max(1, prod(counts)) * max(body.dtype.itemsize for body in walk.owner(sketch.stage).bodies)
