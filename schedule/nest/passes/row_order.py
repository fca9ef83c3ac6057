"""The order of rows and iterations that a schedule states for an array loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from raido.schedule.plan import LoopPlan


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The order of an array loop's rows and iterations.

    `loops`: the loops over rows, outermost first; or one over tiles of `piece` rows (0: none) and one over the rows of a tile. `between`:
    iterations run between these two, but for tiles of at most `alone` rows, which go through them row by row. No loops: rows stay inside the
    iterations.
    """

    loops: tuple[LoopPlan, ...] = ()
    piece: int = 0
    between: bool = False
    alone: int = 0

    @property
    def depth(self) -> int:
        """The number of loops of each stage that together select a row."""
        return len(self.loops) - (self.piece > 0)


def row_axes(depth: int) -> tuple[str, ...]:
    """Returns the names of `depth` axes of rows."""
    return ("row",) if depth == 1 else tuple(f"row{k}" for k in range(depth))


def in_threads(axes: Sequence[str], grain: int = 0, dynamic: bool = False) -> tuple[LoopPlan, ...]:
    """Returns loops of these names, the outermost parallel."""
    outermost, *others = map(LoopPlan, axes)
    return (replace(outermost, kind="parallel", grain=grain, dynamic=dynamic), *others)
