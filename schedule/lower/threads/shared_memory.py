"""The size of a block's shared memory, checked against the device's limit."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from raido.algo.errors import ScheduleError, explain
from raido.algo.graph import index as ix
from raido.schedule.machine import Gpu
from raido.schedule.nest.nodes import Alloc, Block, For, If, Nest, Statement
from raido.schedule.nest.values import Buffer
from raido.schedule.nest.walk import blocks_of


def check_shared(nest: Nest, gpu: Gpu) -> Nest:
    """Returns the nest; raises ScheduleError where a block uses more shared memory than the device has."""
    for loop in _launches(nest.body):
        buffers = _shared(loop)
        total = sum(_bytes(buffer) for buffer in buffers)
        if total > gpu.shared:
            each = ", ".join(f"{_bytes(buffer)} of {buffer.name}" for buffer in buffers)
            why = f"a block would have {total} bytes of shared memory ({each}), and the device allows {gpu.shared}"
            headline = f'cannot run "{loop.loop}" of stage "{loop.stage}" in blocks'
            raise ScheduleError(
                explain(headline, why=why, **{"try": 'smaller tiles, or fewer copies with scope="shared"'})
            )
    return nest


def _launches(s: Statement) -> Iterator[For]:
    """The outermost loops over blocks."""
    if isinstance(s, For) and s.level.startswith("block"):
        yield s
        return
    for each in s.statements if isinstance(s, Block) else blocks_of(s):
        yield from _launches(each)


def _shared(s: Statement) -> list[Buffer]:
    """The shared buffers allocated in a statement; of two branches, those of the larger total."""
    if isinstance(s, Alloc):
        return [s.buffer] if s.buffer.scope == "shared" else []
    inside = [_shared(each) for each in (s.statements if isinstance(s, Block) else blocks_of(s))]
    if isinstance(s, If):
        return max(inside, key=lambda buffers: sum(_bytes(buffer) for buffer in buffers), default=[])
    return [buffer for buffers in inside for buffer in buffers]


def _bytes(buffer: Buffer) -> int:
    extents, strides = ([ix.constant_value(e) or 0 for e in part] for part in (buffer.shape, buffer.strides))
    if not strides or 0 in extents:
        return prod(extents) * buffer.dtype.itemsize
    return (1 + sum((n - 1) * by for n, by in zip(extents, strides, strict=True))) * buffer.dtype.itemsize
