"""Register promotion of sums, and of running values, that lanes add to in memory, for loops under a mask (Cooper & Lu: Register promotion in C
programs, 1997).

    for r in 0..8: sum[x +: 16] = sum[x +: 16] + a[r, x +: 16] where on

Each iteration loads the sums that the one before has stored. LLVM keeps such sums in registers, but not where loads and stores are masked,
and a masked load waits until the masked store before it has left the core. So they are loaded before the loop and stored after it.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from raido.algo.graph.rewrite import free_variables
from raido.schedule.gang.lanes import Mask
from raido.schedule.nest.effects import bound_within, loads, reads, writes
from raido.schedule.nest.nodes import Fold, For
from raido.schedule.nest.values import Buffer, NestExpr
from raido.schedule.nest.walk import statements_within

Element: TypeAlias = tuple[tuple[Buffer, ...], tuple[NestExpr, ...]]
"""The accumulators of a fold: their buffers, and the indices into them."""


class Promoted(NamedTuple):
    """The registers that hold promoted sums in a loop, for each buffer one for each gang, and the mask under which they were loaded."""

    registers: tuple[tuple[Buffer, ...], ...]
    mask: Mask


def sums_to_promote(loop: For) -> list[Fold]:
    """The folds of a loop into elements at loop-invariant indices that nothing else in it reads or writes; one for each element."""
    bound = bound_within(loop)
    indices: dict[Buffer, set[tuple[NestExpr, ...] | None]] = {}
    folds: dict[tuple[Buffer, ...], Fold] = {}
    for s in statements_within(loop):
        for access in () if isinstance(s, Fold) else reads(s):
            indices.setdefault(access.buffer, set()).add(None)
        for access in loads(s):
            indices.setdefault(access.buffer, set()).add(None)
        for access in writes(s):
            indices.setdefault(access.buffer, set()).add(access.indices if isinstance(s, Fold) else None)
        if isinstance(s, Fold):
            folds.setdefault(s.buffers, s)
    return [
        fold
        for buffers, fold in folds.items()
        if all(indices[b] == {fold.indices} for b in buffers)
        and not any(b in bound for b in buffers)
        and all(free_variables(i).isdisjoint(bound) for i in fold.indices)
    ]
