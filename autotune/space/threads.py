"""Choices for a stage's loops on a GPU: the default ones, or results distributed to threads in tiles.

A block has a tile of results, a thread a few of them: along each of two axes every n-th element of the tile, for n threads, so that
neighbours in a block are neighbours in memory (thread.x runs along the axis with the most contiguous accesses). The other axes are blocks;
reduction axes stay in the thread, outside its elements, which are unrolled and share their loads. (The block and thread tiles of Zheng et
al., Ansor, OSDI 2020, section 4.1.)
"""

from __future__ import annotations

from dataclasses import dataclass

from raido.autotune.space.factors import powers
from raido.autotune.space.walk import DEFAULT, Option, Walk
from raido.schedule.defaults.gpu.loops import line_axis
from raido.schedule.defaults.short import WRITTEN_OUT
from raido.schedule.plan import At
from raido.schedule.state import has_explicit_loops, is_reduction

MOST_ELEMENTS = 8


@dataclass(frozen=True, slots=True)
class Tile:
    """A block's part of one axis: `threads` threads with `elements` each."""

    axis: str
    threads: int
    elements: int


def choose_threads(walk: Walk, stage: str) -> None:
    """Makes the choices for a stage's loops, unless some are decided. A stage computed inside a block has none: all its threads share the
    work."""
    whole, plan = walk.stage(stage), walk.plan(stage)
    if walk.machine.gpu is None or has_explicit_loops(walk.state, stage) or isinstance(plan.compute, At):
        return
    if any((whole.scan, whole.sort, whole.update, whole.filter)) or plan.strategy is not None:
        return
    axes = {axis.name for axis in whole.axes}
    results = [
        loop.name for loop in walk.free_loops(stage) if loop.name in axes and not is_reduction(whole, plan, loop.name)
    ]
    if not results or walk.choose(stage, "loops", [Option(DEFAULT), Option("own", weight=3.0)]) == DEFAULT:
        return
    tiles = choose_tiles(walk, stage, results)
    decide_tiles(walk, stage, results, tiles)


def choose_tiles(walk: Walk, stage: str, results: list[str]) -> list[Tile]:
    """Chooses the tiles of a block; the one along thread.x is last."""
    gpu, whole = walk.machine.gpu, walk.stage(stage)
    assert gpu is not None
    best = line_axis(walk.facts(stage), whole, [axis for axis in whole.axes if axis.name in results]).name
    options = [Option(name, weight=8.0 if name == best else 1.0) for name in sorted(results, key=lambda n: n != best)]
    x = str(walk.choose(stage, "thread.x", options))
    usual = gpu.usual_threads
    left = min(gpu.threads, 4 * usual)
    tiles = [choose_tile(walk, stage, x, min(left, gpu.along[0]), usual // 4, WRITTEN_OUT)]
    rows = [name for name in results if name != x]
    if rows:
        used = tiles[0]
        y = str(walk.choose(stage, "thread.y", [Option(name, weight=1.0) for name in reversed(rows)]))
        most = min(left // used.threads, gpu.along[1])
        tiles.insert(0, choose_tile(walk, stage, y, most, max(1, usual // used.threads), WRITTEN_OUT // used.elements))
    return tiles


def choose_tile(walk: Walk, stage: str, axis: str, most: int, usual: int, unrolled: int) -> Tile:
    """Chooses the number of threads along an axis, at most `most`, and of elements per thread."""
    extent = walk.iterations(stage, axis)
    counts = [n for n in powers(1, most) if n < 2 * extent]
    near = lambda n: 3.0 if n == usual else 1.0 if usual // 4 <= n <= 4 * usual else 0.2
    threads = int(walk.choose(stage, f"threads {axis}", [Option(n, weight=near(n)) for n in counts]))  # type: ignore[arg-type]
    several = [n for n in powers(1, min(MOST_ELEMENTS, unrolled)) if n == 1 or n * threads < 2 * extent]
    weights = {1: 3.0, 2: 2.0, 4: 2.0}
    chosen = walk.choose(stage, f"elements {axis}", [Option(n, weight=weights.get(n, 1.0)) for n in several])
    return Tile(axis, threads, int(chosen))  # type: ignore[arg-type]


def decide_tiles(walk: Walk, stage: str, results: list[str], tiles: list[Tile]) -> None:
    """Applies the directives for these tiles: blocks, threads, the stage's other loops, and the elements of a thread."""
    planes = [name for name in results if all(tile.axis != name for tile in tiles)]
    inside = [loop.name for loop in walk.plan(stage).loops if loop.name not in results]
    blocks, threads, elements = [], [], []
    for tile in tiles:
        walk.decide(stage, "split", axis=tile.axis, factor=tile.threads * tile.elements)
        blocks.append(tile.axis + "o")
        thread = tile.axis + "i"
        if tile.elements > 1:
            walk.decide(stage, "split", axis=thread, factor=tile.threads)
            elements.append(thread + "o")
            thread += "i"
        threads.append(thread)
    walk.decide(stage, "reorder", axes=(*planes, *blocks, *threads, *inside, *elements))
    for name in planes[1:]:
        walk.decide(stage, "fuse", a=planes[0], b=name)
        planes[0] += name
    dimensions = {**dict(zip(planes[:1], "z", strict=False)), **dict(zip(reversed(blocks), "xy", strict=False))}
    for name, dimension in dimensions.items():
        walk.decide(stage, "bind", axis=name, place=f"block.{dimension}")
    for name, dimension in zip(reversed(threads), "xy", strict=False):
        walk.decide(stage, "bind", axis=name, place=f"thread.{dimension}")
    for name in elements:
        walk.decide(stage, "unroll", axis=name)
