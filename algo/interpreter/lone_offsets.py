"""What a form without elements looks at all the same: offsets without segments, which no element would have looked at."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from raido.algo.graph.expr import Generate, Node, Result, Segmented
from raido.algo.graph.offsets import counts_and_lone_offsets
from raido.algo.graph.rewrite import children, loads_in
from raido.algo.interpreter.lanes import Frame, grid
from raido.algo.interpreter.machine import Machine
from raido.algo.interpreter.ragged import uniform


def look_at_lone_offsets(
    machine: Machine, form: Any, frame: Frame, extents: tuple[int, ...]
) -> Generator[Any, Any, None]:
    """Checks the offsets that a form with these extents, one of them 0, reads itself or through arrays that have no elements either."""
    some = [(axis.var, n) for axis, n in zip(form.axes, extents, strict=False) if n]
    if some:
        shape = tuple(n for _, n in some)
        frame = frame.extend(shape, dict(zip((v for v, _ in some), grid((0,) * len(some), shape), strict=True)))
    known, place = frame.bound, frame.parent
    while place is not None:
        known, place = known | place.bound, place.parent
    expressions: list[tuple[Node, ...]] = [children(form)]
    looked_at: list[Node] = []
    seen: set[Node] = set()
    while expressions:
        below = expressions.pop()
        found: list[tuple[Node, Sequence[Node]]] = [
            (each, (count,)) for each, count in counts_and_lone_offsets(below).items()
        ]
        for array in (load.array for load in loads_in(*below) if load.array not in seen):
            seen.add(array)
            if isinstance(array, Result) and isinstance(array.form, Generate | Segmented):
                if machine.depends_on(array) <= known:
                    found.append((array, array.shape))
                elif isinstance(array.form, Generate):
                    expressions.append(array.form.bodies)
        for node, sizes in found:
            if machine.depends_on(node) <= known:
                counts = yield from machine.values(sizes, frame)
                if 0 in (uniform(counts) or ()):
                    looked_at.append(node)
    yield from machine.values(looked_at, frame)
