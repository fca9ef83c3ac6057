"""What a schedule says of the rows of an array loop: which loops run over them, and where its iterations stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from raido.schedule.plan import LoopPlan


@dataclass(frozen=True, slots=True)
class RowOrder:
    """How rows go through the iterations of an array loop.

    `loops`: those over rows, outermost first, as many as say which row; or one over pieces of `piece` rows (0: there are none) and one
    over the rows of a piece. `between`: iterations stand between these two; pieces of at most `alone` rows go through them row by row.
    No loops: rows stay inside the iterations.
    """

    loops: tuple[LoopPlan, ...] = ()
    piece: int = 0
    between: bool = False
    alone: int = 0

    @property
    def depth(self) -> int:
        """How many loops of each stage say which row."""
        return len(self.loops) - (self.piece > 0)


def row_axes(depth: int) -> tuple[str, ...]:
    """The names of so many axes of rows."""
    return ("row",) if depth == 1 else tuple(f"row{k}" for k in range(depth))


def in_threads(axes: Sequence[str], grain: int = 0, dynamic: bool = False) -> tuple[LoopPlan, ...]:
    """Loops of these names, the outermost for threads."""
    outermost, *others = map(LoopPlan, axes)
    return (replace(outermost, kind="parallel", grain=grain, dynamic=dynamic), *others)
