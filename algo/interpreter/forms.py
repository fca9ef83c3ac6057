"""Interpretation of `Scan`, `Filter`, `Sort`, `Update` and `Segmented` over NumPy arrays.

Each rule evaluates the form's expressions at every index of its axes, for all lanes of the frame, and then works on arrays of shape lanes +
axes. An operator that is one exact primitive, or a float sum along an axis, is done by NumPy; any other is folded from the left, one
position of all runs at a time, or, where it does not round and so the grouping cannot show, in doubling steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from raido.algo.graph.expr import Axis, Expr, Filter, Node, Scan, Segmented, Sort, Update
from raido.algo.graph.faults import fault_error, unsigned_kind
from raido.algo.graph.narrow import widen
from raido.algo.interpreter.fold import accumulate_primitive, rounds_floats
from raido.algo.interpreter.lanes import Frame, grid, spread
from raido.algo.interpreter.machine import Machine, Task
from raido.algo.interpreter.ragged import uniform

Extents = tuple[int, ...]


def scan(machine: Machine, form: Scan, frame: Frame, extents: Extents) -> Task:
    """Prefixes along one axis."""
    if 0 in extents:
        return [np.empty(extents, v.dtype.numpy) for v in form.left]
    lead, along = len(frame.shape), form.along
    rows = tuple(n for k, n in enumerate(extents) if k != along)
    values = yield from _everywhere(machine, form.values, form.axes, frame, extents)
    values = [np.moveaxis(v, lead + along, -1) for v in values]
    across = _extended(frame, [a for k, a in enumerate(form.axes) if k != along], rows)
    start = yield from machine.values(form.neutral, across)
    start = [spread(v, across) for v in start]
    quick = accumulate_primitive(form.monoid, form.left[0].dtype, start[0], values[0])
    prefixes = [quick] if quick is not None else (yield from _prefix_rows(machine, form, across, start, values))
    if form.exclusive:
        prefixes = [
            np.concatenate([first[..., None], p[..., :-1]], axis=-1) for first, p in zip(start, prefixes, strict=True)
        ]
    return [np.moveaxis(p, -1, lead + along) for p in prefixes]


def _prefix_rows(
    machine: Machine, form: Scan, across: Frame, start: list[np.ndarray], values: list[np.ndarray]
) -> Task:
    """Prefixes along the last axis of `values`; the axes before it are the lanes of `across`."""
    count = values[0].shape[-1]
    if count > 16 and not rounds_floats(form.combine):
        first = yield from _combined(machine, form, across.bind, start, [v[..., 0] for v in values])
        values = [v.copy() for v in values]
        for v, head in zip(values, first, strict=True):
            v[..., 0] = head
        distance = 1
        while distance < count:
            longer = lambda bound, n=count - distance: across.extend((n,), bound)
            left, right = [v[..., :-distance] for v in values], [v[..., distance:] for v in values]
            joined = yield from _combined(machine, form, longer, left, right)
            for v, new in zip(values, joined, strict=True):
                v[..., distance:] = new
            distance *= 2
        return values
    state, prefixes = start, [np.empty_like(v) for v in values]
    for j in range(count):
        state = yield from _combined(machine, form, across.bind, state, [v[..., j] for v in values])
        for p, new in zip(prefixes, state, strict=True):
            p[..., j] = new
    return prefixes


def filtered(machine: Machine, form: Filter, frame: Frame, extents: Extents) -> Task:
    """The kept values, in order, padded to the most that any lane keeps; and their number."""
    lead, (n, *rows) = len(frame.shape), extents
    if n == 0:
        empty = [np.empty(extents, v.dtype.numpy) for v in form.values]
        return [*empty, np.zeros((), np.int64)]
    (keep,) = yield from _everywhere(machine, [form.predicate], form.axes[:1], frame, (n,))
    counts = np.count_nonzero(keep, axis=-1).astype(np.int64)
    length = n if form.partition else int(np.max(counts))
    if 0 in rows:
        return [*(np.empty((*frame.shape, length, *rows), v.dtype.numpy) for v in form.values), counts]
    order = np.argsort(~keep, axis=-1, kind="stable")[..., :length]
    order = order.reshape(order.shape + (1,) * len(rows))
    values = yield from _everywhere(machine, form.values, form.axes, frame, extents)
    return [*(np.take_along_axis(v, order, axis=lead) for v in values), counts]


def sort(machine: Machine, form: Sort, frame: Frame, extents: Extents) -> Task:
    """Every value in the order of the keys."""
    if 0 in extents:
        return [np.empty(extents, v.dtype.numpy) for v in form.values]
    axis = len(frame.shape) + form.along
    values = yield from _everywhere(machine, form.values, form.axes, frame, extents)
    *others, last = values[: form.keys]
    order = np.argsort(widen(last), axis=axis, kind="stable")
    for key in reversed(others):
        by_key = np.argsort(np.take_along_axis(widen(key), order, axis=axis), axis=axis, kind="stable")
        order = np.take_along_axis(order, by_key, axis=axis)
    return [np.take_along_axis(v, order, axis=axis) for v in values]


def update(machine: Machine, form: Update, frame: Frame, extents: Extents) -> Task:
    """The destination with elements replaced, in row-major order of the indices."""
    rank = len(form.indices)
    dest = yield from machine.values(form.dest, frame)
    if 0 in extents:
        return dest
    sizes = yield from machine.values(form.dest[0].shape, frame)
    indices = yield from _everywhere(machine, form.indices, form.axes, frame, extents)
    values = yield from _everywhere(machine, form.values, form.axes, frame, extents)
    dest = [spread(d, frame, rank) for d in dest]
    lead = frame.shape + (1,) * len(extents)
    inside = np.ones(frame.shape + extents, bool)
    for dimension, (index, size) in enumerate(zip(indices, sizes, strict=True)):
        size = np.broadcast_to(spread(size, frame).reshape(lead), index.shape)
        wrong = (index < 0) | (index >= size)
        if form.checked and wrong.any():
            found = (dimension, int(index[wrong][0]), int(size[wrong][0]))
            raise fault_error(unsigned_kind("index", form.indices[dimension]), found, machine.program.sites.get(form))
        inside &= ~wrong
    chosen = np.flatnonzero(inside)
    results = [d.reshape(-1).copy() for d in dest]
    if len(chosen):
        lanes = np.unravel_index(chosen, inside.shape) if inside.ndim else ()
        target = np.ravel_multi_index(
            (*lanes[: len(frame.shape)], *(i.reshape(-1)[chosen] for i in indices)), dest[0].shape
        )
        new = [v.reshape(-1)[chosen] for v in values]
        yield from _write(machine, form, frame, lanes, target, new, results)
    return [r.reshape(d.shape) for r, d in zip(results, dest, strict=True)]


def _write(
    machine: Machine,
    form: Update,
    frame: Frame,
    lanes: Sequence[np.ndarray],
    target: np.ndarray,
    values: list[np.ndarray],
    results: list[np.ndarray],
) -> Task:
    """Puts the values at the positions `target` of the flat `results`; `lanes` are their coordinates in the frame and the axes."""
    order = np.argsort(target, kind="stable")
    sorted_target = target[order]
    first = np.append(True, sorted_target[1:] != sorted_target[:-1])
    last = np.append(first[1:], True)
    if form.mode == "combine":
        at = lambda positions, bound: _picked(frame, form.axes, [c[order[positions]] for c in lanes], bound)
        start = [r[sorted_target] for r in results]
        values = yield from _prefix_runs(machine, form, at, first, start, [v[order] for v in values])
        order = np.arange(len(order))
    for result, value in zip(results, values, strict=True):
        result[sorted_target[last]] = value[order[last]]


def segmented(machine: Machine, form: Segmented, frame: Frame, extents: Extents) -> Task:
    """A fold, or the prefixes, of every segment."""
    (offsets,) = yield from machine.values([form.offsets], frame)
    count = uniform((yield from machine.values(form.offsets.shape, frame)))
    assert count is not None  # all lanes of a frame have the same number
    offsets = spread(offsets, frame, 1).astype(np.int64)[..., : count[0]]
    n, rows = extents[0], extents[1:]
    starts, ends = (offsets, offsets) if count[0] == 1 else (offsets[..., :-1], offsets[..., 1:])
    wrong = (ends < starts) | (starts < 0) | (ends > n)
    if wrong.any() and (count[0] == 1 or 0 not in rows):  # empty rows are not checked
        found = (int(starts[wrong][0]), int(ends[wrong][0]))
        site = machine.program.sites.get(form)
        raise fault_error("offset", (found[0], n), site) if count[0] == 1 else fault_error("offsets", (*found, n), site)
    segments = offsets.shape[-1] - 1
    length = n if form.scan else segments
    if 0 in rows or length <= 0:
        return [np.empty((max(length, 0), *rows), v.dtype.numpy) for v in form.left]
    across = _extended(frame, form.axes[1:], rows)
    start = yield from machine.values(form.neutral, across)
    start = [spread(v, across) for v in start]
    outputs = [np.repeat(v[..., None], length, axis=-1) for v in start]
    lead = len(frame.shape)
    if n:
        values = yield from _everywhere(machine, form.values, form.axes, frame, extents)
        values = [np.moveaxis(v, lead, -1) for v in values]
        wide = np.broadcast_to(
            offsets.reshape((*frame.shape, *(1,) * len(rows), segments + 1)), (*across.shape, segments + 1)
        )
        yield from _fold_segments(machine, form, frame, wide, start, values, outputs)
    return [np.moveaxis(v, -1, lead) for v in outputs]


def _fold_segments(
    machine: Machine,
    form: Segmented,
    frame: Frame,
    offsets: np.ndarray,
    start: list[np.ndarray],
    values: list[np.ndarray],
    outputs: list[np.ndarray],
) -> Task:
    """Writes the segments' folds, or prefixes, into `outputs`; segments run along the last axis of `values`."""
    n = values[0].shape[-1]
    lanes = math.prod(values[0].shape[:-1])
    bounds = offsets.reshape(lanes, -1) + np.arange(lanes)[:, None] * n
    begins, ends = bounds[:, :-1].reshape(-1), bounds[:, 1:].reshape(-1)
    full = np.flatnonzero(ends > begins)
    sizes = (ends - begins)[full]
    if not len(full):
        return
    heads = np.cumsum(sizes) - sizes
    first = np.zeros(int(sizes.sum()), bool)
    first[heads] = True
    source = np.arange(len(first)) - np.repeat(heads, sizes) + np.repeat(begins[full], sizes)
    coordinates = np.unravel_index(source // n, values[0].shape[:-1]) if values[0].ndim > 1 else ()
    depth = len(frame.shape)

    def at(positions: np.ndarray, bound: dict[Node, np.ndarray]) -> Frame:
        chosen = [c[positions] for c in coordinates]
        return _picked(frame, form.axes[1:], [*chosen[:depth], *chosen[depth:]], bound)

    flat = [v.reshape(-1)[source] for v in values]
    begin = [s.reshape(-1)[source // n] for s in start]
    prefixes = yield from _prefix_runs(machine, form, at, first, begin, flat)
    for output, prefix in zip(outputs, prefixes, strict=True):
        if form.scan:
            output.reshape(-1)[source] = prefix
        else:
            output.reshape(-1)[full] = prefix[heads + sizes - 1]


def _prefix_runs(
    machine: Machine,
    form: Update | Segmented,
    at: Callable[[np.ndarray, dict[Node, np.ndarray]], Frame],
    first: np.ndarray,
    start: list[np.ndarray],
    values: list[np.ndarray],
) -> Task:
    """Prefixes within runs: `first` marks the first element of each, folded from `start` there. `at(positions, operands)` makes the frame of
    some positions."""
    heads = np.flatnonzero(first)
    position = np.arange(len(first)) - np.repeat(heads, np.diff(np.append(heads, len(first))))
    longest = int(position.max()) + 1
    out = [v.copy() for v in values]

    def joined(positions: np.ndarray, left: list[np.ndarray], right: list[np.ndarray]) -> Task:
        return (yield from _combined(machine, form, lambda bound: at(positions, bound), left, right))

    new = yield from joined(heads, [s[heads] for s in start], [v[heads] for v in values])
    for o, head in zip(out, new, strict=True):
        o[heads] = head
    if longest > 16 and not rounds_floats(form.combine):
        distance = 1
        while distance < longest:
            positions = np.flatnonzero(position >= distance)
            new = yield from joined(positions, [o[positions - distance] for o in out], [o[positions] for o in out])
            for o, value in zip(out, new, strict=True):
                o[positions] = value
            distance *= 2
        return out
    if longest > 1 and len(heads) < longest:
        dtype, ends = form.left[0].dtype, np.append(heads[1:], len(first))
        runs = zip(heads, ends, strict=True)
        quick = [accumulate_primitive(form.monoid, dtype, start[0][h], values[0][h:e]) for h, e in runs]
        chains = [chain for chain in quick if chain is not None]
        if chains:
            return [np.concatenate(chains)]
    order = np.argsort(position, kind="stable")
    begins = np.searchsorted(position[order], np.arange(longest + 1))
    for turn in range(1, longest):
        positions = order[begins[turn] : begins[turn + 1]]
        new = yield from joined(positions, [o[positions - 1] for o in out], [v[positions] for v in values])
        for o, value in zip(out, new, strict=True):
            o[positions] = value
    return out


def _combined(
    machine: Machine, form: Any, frame_of: Callable[[dict[Node, np.ndarray]], Frame], left: list[Any], right: list[Any]
) -> Task:
    """`combine` of two lists of operands, in the frame that `frame_of` makes of them, broadcast to all lanes."""
    frame = frame_of(dict(zip(form.left + form.right, left + right, strict=True)))
    values = yield from machine.values(form.combine, frame)
    return [spread(v, frame) for v in values]


def _extended(frame: Frame, axes: Sequence[Axis], extents: Extents) -> Frame:
    """The lanes times the indices of some axes; the frame itself without any."""
    if not axes:
        return frame
    variables: list[Node] = [axis.var for axis in axes]
    return frame.extend(extents, dict(zip(variables, grid((0,) * len(extents), extents), strict=True)))


def _picked(
    frame: Frame, axes: Sequence[Axis], coordinates: Sequence[np.ndarray], bound: dict[Node, np.ndarray]
) -> Frame:
    """Single positions of a frame times axes, in one dimension: their coordinates are those in the frame, then those along the axes."""
    depth = len(frame.shape)
    inner = coordinates[depth:]
    count = len(next(iter(bound.values())))
    values: dict[Node, np.ndarray] = {a.var: c.astype(np.int64) for a, c in zip(axes, inner, strict=True)} | bound
    if depth == 0:
        return frame.extend((count,), values)
    return Frame((count,), frame, values, lanes=tuple(coordinates[:depth]))


def _everywhere(machine: Machine, nodes: Sequence[Expr], axes: Sequence[Axis], frame: Frame, extents: Extents) -> Task:
    """Expressions at every index of the axes, broadcast to all lanes."""
    inner = _extended(frame, axes, extents)
    values = yield from machine.values(nodes, inner)
    return [spread(v, inner) for v in values]
