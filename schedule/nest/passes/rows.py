"""Stages as loops over rows: the statements of one row, and its accesses.

Passes that move such loops (`rows_outside`, `rows_together`) share this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Var
from raido.schedule.nest.effects import is_scan, reads_memory
from raido.schedule.nest.nodes import Alloc, Block, Check, Fold, For, If, Let, Produce, Statement, Store, While
from raido.schedule.nest.values import NestExpr
from raido.schedule.nest.walk import with_blocks

_KEPT = (Alloc, Block, Check, Fold, For, If, Let, Store, While)


@dataclass(frozen=True)
class Rows:
    """A stage as loops over rows, outermost first, with the statements of one row inside; `before` binds values common to all rows.

    `pieces`: the loop over tiles of rows around the outermost of the loops, which is stored with its untiled bounds.
    """

    stage: str
    loops: tuple[For, ...]
    before: tuple[Let, ...]
    pieces: For | None = None

    @property
    def variables(self) -> tuple[Var, ...]:
        """The variables that select a row."""
        return tuple(loop.var for loop in self.loops)

    @property
    def body(self) -> Block:
        """The statements of one row."""
        return self.loops[-1].body

    @property
    def in_lanes(self) -> bool:
        """Whether rows are lanes."""
        return self.loops[-1].kind == "vector"


def rows_of(stage: Produce) -> Rows | None:
    """Returns a stage as loops over rows, the outermost possibly tiled; None for other stages."""
    *lets, loop = stage.body.statements or (None,)
    before = tuple(s for s in lets if isinstance(s, Let))
    if not isinstance(loop, For) or len(before) < len(lets):
        return None
    pieces = None
    if loop.step > 1:
        (inner, *others) = loop.body.statements
        if others or not isinstance(inner, For) or inner.step != 1 or inner.low is not loop.var:
            return None
        if not is_equal(inner.high, ix.minimum(loop.high, ix.add(loop.var, loop.step))):  # type: ignore[arg-type]
            return None
        pieces, loop = loop, replace(inner, low=loop.low, high=loop.high)
    loops = [loop]
    while (
        isinstance(inner := loops[-1].body.statements[0], For)
        and inner.step == 1
        and len(loops[-1].body.statements) == 1
    ):
        loops.append(inner)
    return Rows(stage.stage, tuple(loops), before, pieces)


def run_over_the_same(rows: Rows, others: Rows) -> bool:
    """Whether the loops of two stages, equal in number, have the same bounds."""
    pairs = zip(rows.loops, others.loops, strict=True)
    return all(is_equal(a.low, b.low) and is_equal(a.high, b.high) for a, b in pairs)


def is_equal(a: NestExpr, b: NestExpr) -> bool:
    """Whether two bounds are provably equal."""
    return ix.difference(a, b) == 0  # type: ignore[arg-type]


def is_decided_by_memory(loop: For) -> bool:
    """Whether a loop's bounds are read from memory."""
    return reads_memory(loop.low, loop.high)


def is_kept_in_rows(s: Statement) -> bool:
    """Whether a statement may be inside a loop over rows that is moved: it accesses elements at indices, and has no parallel loops."""
    return isinstance(s, _KEPT) and not is_scan(s) and not (isinstance(s, For) and s.kind == "parallel")


def kept_in_caches(block: Block) -> Block:
    """Returns the block without non-temporal stores, since its results are read soon."""
    return Block(tuple(map(_without_streams, block.statements)))


def _without_streams(s: Statement) -> Statement:
    if isinstance(s, Store):
        return s if s.stream is None else replace(s, stream=None)
    return with_blocks(s, kept_in_caches)
