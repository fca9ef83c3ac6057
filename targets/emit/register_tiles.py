"""Chooses the branches that become functions: the alternative of a register tile, which computes the tiles that the edges cut.

    if the tile is whole:  sums in registers; for r in 0..k: …         stays
    else:                  the same under masks, and rows left over    a function

LLVM hoists the masks and bounds of the alternative out of the loops around both, and of sixteen registers too few are then left for the sums
of whole tiles: a product for AVX2 took 1.6 times as long.
"""

from __future__ import annotations

from raido.schedule.nest.nodes import Alloc, Block, For, If, VectorStore
from raido.schedule.nest.uses import Uses
from raido.schedule.nest.walk import statements_within
from raido.targets.emit.alike import BY_ADDRESS, needs_its_place
from raido.targets.emit.unit import Unit


def uses_of_alternative(s: If, unit: Unit) -> Uses | None:
    """The uses of the `else` branch of a register tile if it may be a function of its own, else None."""
    if s.orelse is None or not _has_register_loop(s.then):
        return None
    inside = list(statements_within(s.orelse))
    if not any(isinstance(each, For) for each in inside) or any(
        needs_its_place(each) or _is_streamed(each) for each in inside
    ):
        return None
    uses = Uses(s.orelse)
    apart = all(buffer.scope in BY_ADDRESS and buffer not in unit.registers for buffer in uses.buffers)
    return uses if apart and not uses.faults else None


def _has_register_loop(block: Block) -> bool:
    """Whether a block keeps values in registers across a loop."""
    in_registers = any(isinstance(s, Alloc) and s.buffer.scope == "register" for s in block.statements)
    return in_registers and any(isinstance(s, For) for s in block.statements)


def _is_streamed(s: object) -> bool:
    """Whether a statement stores past the caches, which the end of its function waits for."""
    return isinstance(s, VectorStore) and s.stream is not None
