"""Vector accesses on a GPU: threads that take consecutive elements, and load and store 16 bytes at once.

That pays where a stage is plain arithmetic on elements laid out as its results are, and so limited by memory. Arrays begin at multiples of
16 bytes, and so do rows whose known length is a multiple. Otherwise neighbouring threads take neighbouring elements, as they do where a
device runs both sides of every branch, and the tail code of each thread costs more than it saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from raido.algo.graph import index
from raido.algo.graph.expr import Axis, Const, Load, Node, Op, SizeVar, Var
from raido.algo.graph.reduction import is_arithmetic
from raido.algo.graph.rewrite import scalar_nodes
from raido.schedule.defaults.demand import SEGMENTS, Point, cost
from raido.schedule.defaults.draft import Draft, known_extent
from raido.schedule.defaults.joins import moves
from raido.schedule.machine import WIDEST_ACCESS, Gpu
from raido.schedule.stages.reads import loads_of, scalars_of
from raido.schedule.stages.stage import Stage

INDEX = 7  # operations by which a thread computes and tests its index and an address or two


def elements_of_thread(draft: Draft, stage: Stage, x: Axis, gpu: Gpu) -> int:
    """Returns how many neighbours along `x` a thread takes: 1 unless whole vectors of them can be loaded and stored."""
    if stage.axes[-1] is not x or len(stage.axes) < len(stage.all_axes) or stage.update or stage.scan:
        return 1
    lanes = _whole_vectors(draft, stage, x, gpu) if _is_arithmetic(*scalars_of(stage)) else 1
    return lanes if gpu.branches or cost(stage) < INDEX * (lanes - 1) else 1


def elements_of_flat(draft: Draft, stage: Stage, gpu: Gpu) -> int:
    """Returns how many neighbours a thread takes of a stage whose elements lie as those that it reads, rows of any length."""
    lanes = _most_lanes(draft, stage, stage.axes, gpu) if _is_arithmetic(*scalars_of(stage)) else 1
    return lanes if gpu.branches or cost(stage) < INDEX * (lanes - 1) else 1


def elements_of_fold(draft: Draft, stage: Stage, flat: bool, gpu: Gpu) -> int:
    """Returns how many neighbours a thread folds at a time of a reduction along one axis, or along fused ones (`flat`); 1 unless loads are
    whole vectors and the operator is arithmetic.
    """
    fold, axes = stage.reduction, stage.all_axes
    if fold is None or not (flat or len(axes) == 1) or not is_arithmetic(*fold.combine, *fold.neutral):
        return 1
    lanes = _most_lanes(draft, stage, axes, gpu) if flat else _whole_vectors(draft, stage, axes[0], gpu)
    return lanes if _is_arithmetic(*scalar_nodes(*fold.values)) else 1


def elements_of_scan(draft: Draft, stage: Stage, axis: Axis, gpu: Gpu) -> int:
    """Returns how many neighbours a thread loads at a time of its part of a one-dimensional scan or filter; 1 unless loads are whole
    vectors.
    """
    fold = stage.reduction
    if fold is None or stage.all_axes != (axis,) or not (stage.filter or is_arithmetic(*fold.combine)):
        return 1
    return _whole_vectors(draft, stage, axis, gpu) if _is_arithmetic(*scalar_nodes(*fold.values)) else 1


def _is_arithmetic(*nodes: Node) -> bool:
    return all(isinstance(node, (Const, Load, Op, SizeVar, Var)) for node in nodes)


def _whole_vectors(draft: Draft, stage: Stage, x: Axis, gpu: Gpu) -> int:
    """Returns the elements of a 16-byte vector along `x`, if all accesses are aligned, whole vectors; else 1."""
    lanes = _most_lanes(draft, stage, stage.axes or (x,), gpu)
    lengths = [known_extent(draft, axis.extent) for axis in stage.axes or (x,)]
    aligned = len(lengths) == 1 or (lengths[-1] is not None and lengths[-1] % max(1, lanes) == 0)
    points = draft.demand.points_read(stage.name)
    if lanes < 2 or not aligned or not points:
        return 1
    return lanes if all(_lies_as(point, x.var, lanes) for point in points) else 1


def _most_lanes(draft: Draft, stage: Stage, axes: Sequence[Axis], gpu: Gpu) -> int:
    """Returns the elements of a 16-byte vector of the widest type; 1 where they are known to be fewer than keep all threads busy."""
    lanes = max(1, WIDEST_ACCESS // max(e.dtype.itemsize for e in (*stage.bodies, *loads_of(stage))))
    lengths = [known_extent(draft, axis.extent) for axis in axes]
    enough = None in lengths or prod(n or 0 for n in lengths) >= lanes * gpu.processors * gpu.resident
    return lanes if enough else 1


def _lies_as(point: Point, x: Var, lanes: int) -> bool:
    """Whether an access is contiguous and begins at a multiple of `lanes`, or is constant."""
    if any(e is None or e is SEGMENTS for e in point):
        return False
    if not any(moves(e, x) for e in point):
        return True
    *rows, last = point
    assert last is not None
    constant, terms = index.linear(index.canonical(last))
    return not any(moves(e, x) for e in rows) and set(terms) == {x} and terms[x] == 1 and constant % lanes == 0
