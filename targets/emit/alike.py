"""Kernels that are alike: one function serves all of them, called with the memory and the numbers of each.

Programs repeat themselves (sweeps, layers, levels of a pyramid), and LLVM takes its time for every copy of a kernel. Two kernels are
alike where each becomes the other by renaming variables and buffers. `kernel_key` is everything that the emitter looks at: the
statements, and what is known outside of the variables that are not the kernel's own.
"""

from __future__ import annotations

from typing import Any

from raido.schedule.nest.alike import KeyRows
from raido.schedule.nest.nodes import Block
from raido.schedule.nest.uses import Uses
from raido.targets.emit.unit import Unit


def kernel_key(body: Block, uses: Uses, outer: Unit) -> tuple[Any, ...]:
    """The key of a kernel of the host plan, equal for those that are alike: as `uses` lists what they are given, in the same order."""
    rows = KeyRows()
    rows.statement(body)
    for variable in uses.variables:
        term, known = outer.variables.get(variable), outer.known.get(variable)
        number = term if isinstance(term, int) else None
        indexes = variable in outer.index_like
        rows.add(rows.expression(variable), indexes, number, None if known is None else rows.expression(known))
    return tuple(rows.rows)
