"""Checks of a form without elements that must be made nevertheless: of sizes that data decides, and of the offsets of zero segments.

A slice between traced bounds is checked where it is taken, as in NumPy, even if no element of it is read.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from raido.algo.graph.expr import Count, Generate, Node, Result, Segmented
from raido.algo.graph.offsets import counts_and_offsets_of_zero_segments
from raido.algo.graph.rewrite import children, evaluated_nodes, loads_in
from raido.algo.interpreter.lanes import Frame, grid
from raido.algo.interpreter.machine import Machine
from raido.algo.interpreter.ragged import uniform


def look_without_elements(
    machine: Machine, form: Any, frame: Frame, extents: tuple[int, ...]
) -> Generator[Any, Any, None]:
    """Makes the checks of a form with these extents, one of which is 0, including those of empty arrays that it reads."""
    some = {axis.var: n for axis, n in zip(form.axes, extents, strict=False) if n}
    around, parent = frame.bound, frame.parent
    while parent is not None:
        around, parent = around | parent.bound, parent.parent
    known = around | some.keys()
    expressions: list[tuple[Node, ...]] = [children(form)]
    looked_at: list[Node] = []
    seen: set[Node] = set()
    while expressions:
        below = expressions.pop()
        decided = [size for size in _sizes_of_data(below) if machine.depends_on(size) <= around]
        yield from machine.values(decided, frame)
        found: list[tuple[Node, Sequence[Node]]] = [
            (each, (count,)) for each, count in counts_and_offsets_of_zero_segments(below).items()
        ]
        for array in (load.array for load in loads_in(*below) if load.array not in seen):
            seen.add(array)
            if isinstance(array, Result) and isinstance(array.form, Generate | Segmented):
                if not _leads_to_checks(array.form):
                    continue
                if machine.depends_on(array) <= known:
                    found.append((array, array.shape))
                elif isinstance(array.form, Generate):
                    expressions.append(array.form.bodies)
        for node, sizes in found:
            if machine.depends_on(node) <= known:
                parent = _along(machine, node, some, frame)
                counts = yield from machine.values(sizes, parent)
                if 0 in (uniform(counts) or ()):
                    looked_at.append(node)
    for node in looked_at:
        yield from machine.values([node], _along(machine, node, some, frame))


def _sizes_of_data(roots: Sequence[Node]) -> list[Count]:
    return [node for node in evaluated_nodes(roots) if isinstance(node, Count)]


def _leads_to_checks(form: Generate | Segmented) -> bool:
    """Whether an empty array has any check; if not, the indices of its rows, which may be many, are not enumerated."""
    stack: list[Any] = [form]
    seen = {form}
    while stack:
        form = stack.pop()
        below = children(form)
        if isinstance(form, Segmented) or counts_and_offsets_of_zero_segments(below) or _sizes_of_data(below):
            return True
        found = {load.array.form for load in loads_in(*below) if isinstance(load.array, Result)}
        stack += [each for each in found - seen if isinstance(each, Generate | Segmented)]
        seen |= found
    return False


def _along(machine: Machine, node: Node, axes: dict[Any, int], frame: Frame) -> Frame:
    """The lanes for every index of those axes that a node depends on; the others may have any number of indices."""
    own = {var: n for var, n in axes.items() if var in machine.depends_on(node)}
    if not own:
        return frame
    shape = tuple(own.values())
    return frame.extend(shape, dict(zip(own, grid((0,) * len(own), shape), strict=True)))
