"""Expected values of arrays from which loop bounds are read.

An array of which *two* elements bound a loop holds offsets, as of segments: they are assumed to rise evenly from 0 to the least extent that
the loop's variable indexes. So an element is an affine form of its index, a loop between neighbours has the mean length of a segment, and
all runs of the loop together touch their data once. An array that has the upper bound *alone* holds counts: half of that extent, as for a
filter whose condition holds half the time. Loops whose variable is not an index get no estimate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from raido.algo.graph.expr import Node, Op, SizeVar, Var
from raido.algo.graph.rewrite import post_order
from raido.schedule.nest.effects import loads, writes
from raido.schedule.nest.nodes import Block, For, Let
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.nest.walk import blocks_of, statements_within


@dataclass(slots=True)
class Ends:
    """Statistics of an array with loop bounds: whether it holds offsets (`borders`), and the dimensions that its loops' variables index."""

    borders: bool = False
    indexed: dict[tuple[Buffer, int], None] = field(default_factory=dict)


def ends_read(block: Block) -> dict[Buffer, Ends]:
    """All arrays from which loop bounds are read."""
    search = _Search()
    search.block(block)
    return search.found


# Operations that leave an end about as large as their operands; of `select`, the chosen ones.
_ALIKE = frozenset(("add", "sub", "minimum", "maximum", "cast", "select"))


class _Search:
    def __init__(self) -> None:
        self.names: dict[Node, NestExpr] = {}
        self.found: dict[Buffer, Ends] = {}

    def block(self, block: Block) -> None:
        for s in block.statements:
            if isinstance(s, Let):
                self.names[s.var] = s.value
            elif isinstance(s, Block):
                self.block(s)
            else:
                if isinstance(s, For):
                    self.loop(s)
                for inner in blocks_of(s):
                    self.block(inner)

    def loop(self, s: For) -> None:
        low, high = self.reads(s.low), self.reads(s.high)
        indices: dict[Buffer, set[tuple[NestExpr, ...]]] = {}
        for read in (*low, *high):
            indices.setdefault(read.buffer, set()).add(read.indices)
        indexed: list[tuple[Buffer, int]] | None = None
        for buffer, where in indices.items():
            borders = len(where) > 1
            if not borders and low:
                continue
            if indexed is None:
                indexed = list(self.indexed(s))
            if indexed:
                known = self.found.setdefault(buffer, Ends())
                known.borders |= borders
                known.indexed.update(dict.fromkeys(indexed))

    def reads(self, end: NestExpr) -> list[Read]:
        """Reads from which a bound is computed."""
        if not isinstance(end, Op) and end not in self.names:
            return [end] if isinstance(end, Read) else []
        return [node for node in post_order((end,), self._below) if isinstance(node, Read)]

    def _below(self, node: Node) -> Sequence[Node]:
        if isinstance(node, Op):
            return node.args[node.name == "select" :] if node.name in _ALIKE else ()
        named = self.names.get(node) if isinstance(node, (Var, SizeVar)) else None
        return () if named is None else (named,)

    def indexed(self, loop: For) -> Iterator[tuple[Buffer, int]]:
        """Dimensions that are indexed by the loop's variable, or by a sum with it."""
        for s in statements_within(loop.body):
            if isinstance(s, Let):
                self.names[s.var] = s.value
            for access in (*writes(s), *loads(s)):
                yield from self._moving(access.buffer, access.indices or (), loop.var)

    def _moving(self, buffer: Buffer, indices: Sequence[NestExpr], variable: Var) -> Iterator[tuple[Buffer, int]]:
        for dimension, index in enumerate(indices):
            if self._moves(index, variable):
                yield buffer, dimension

    def _moves(self, index: NestExpr, variable: Var) -> bool:
        if isinstance(index, Op):
            return index.name == "add" and any(self._moves(a, variable) for a in index.args)
        return index is variable or (index in self.names and self._moves(self.names[index], variable))
