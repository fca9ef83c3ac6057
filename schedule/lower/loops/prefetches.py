"""Prefetch hints for the reads of later iterations, where a schedule asks for them."""

from __future__ import annotations

from collections.abc import Mapping

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Array, Node, Result
from raido.algo.graph.rewrite import free_variables, loads_in
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.expressions.convert import Converter
from raido.schedule.lower.expressions.index_checks import is_affine
from raido.schedule.lower.loop_cursor import LoopCursor
from raido.schedule.nest.nodes import Prefetch
from raido.schedule.nest.values import Read


def prefetch(
    builder: Builder, converter: Converter, names: Mapping[Node, str], cursor: LoopCursor, position: int
) -> None:
    """Emits hints for the elements that the stage will read of an array some iterations later. names: the
    schedule's names of arrays, by key."""
    lowered, name = cursor.lowered, cursor.lowered.plan.loops[position].name
    for hint in lowered.plan.prefetches:
        if hint.loop != name or len(lowered.axis_of[name]) != 1:
            continue
        (axis,) = lowered.axis_of[name]
        low, _ = cursor.instances[0].box(axis)
        ahead = ix.add(low, hint.ahead * cursor.instances[0].ranges[name].step)
        values: dict[Node, Node] = {v: cursor.instances[0].box(n)[0] for n, v in lowered.variables.items()}
        values[lowered.variables[axis]] = ahead
        loads = [load for load in loads_in(*lowered.bodies) if names.get(_key(load.array)) == hint.array]
        own = set(lowered.variables.values())
        loads = [load for load in loads if free_variables(load) <= own]
        loads = [load for load in loads if all(_is_distant(converter, inner.array) for inner in loads_in(load))]
        reads = converter.convert(loads, values, builder.assumptions, cursor.identity)
        for read in dict.fromkeys(reads):
            if isinstance(read, Read) and all(is_affine(i) for i in read.indices):
                builder.add(Prefetch(read.buffer, read.indices))


def _is_distant(converter: Converter, array: Node) -> bool:
    """Whether an array is stored whole in memory; one computed inside the loops is in a near cache, or not allocated yet."""
    storage = converter.storages.get(array)  # type: ignore[call-overload]
    return storage is not None and not storage.origin and storage.buffer.scope not in ("register", "stack")


def _key(array: Array) -> Node:
    """The key of an array: its form, or itself for an input."""
    return array.form if isinstance(array, Result) else array
