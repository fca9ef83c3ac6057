"""Outer register buffers whose elements become vectors in vector loops.

Promotion is optimistic: a buffer that turns out to be used otherwise goes to memory, and the translation starts again (`NotRegisters`). A
loop under a mask at an edge may leave anything in lanes that are off, as long as they are never read: as long as all loops that use a
buffer have the same lanes off. Where that fails, stores preserve those lanes, and the translation starts again as well (`LanesSeen`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Expr, SizeVar, Var, const
from raido.algo.graph.rewrite import free_variables
from raido.schedule.nest.nodes import Alloc, For, Let, Statement
from raido.schedule.nest.values import Buffer, VectorVar

Span: TypeAlias = "tuple[Expr, Expr] | None"
"""The active lanes, if they are a prefix: their number, and the element of lane 0; None if all lanes are active, or no prefix."""


class NotRegisters(Exception):
    """A register buffer is used in a way that requires memory."""

    def __init__(self, buffer: Buffer) -> None:
        super().__init__(buffer.name)
        self.buffer = buffer


class LanesSeen(NotRegisters):
    """Lanes of a register buffer that are off in one loop are on in another."""


@dataclass
class Registers:
    """The register buffers that became vectors: the dimension and the buffer of vectors of each (`split`); buffers in `memory`; buffers
    whose stores `keep` lanes that are off. bound: the order in which names and buffers were bound."""

    memory: set[Buffer] = field(default_factory=set)
    keep: set[Buffer] = field(default_factory=set)
    split: dict[Buffer, tuple[int, Buffer]] = field(default_factory=dict)
    bound: dict[Var | VectorVar | SizeVar | Buffer, int] = field(default_factory=dict)
    spans: dict[Buffer, set[Span]] = field(default_factory=dict)
    left: set[Buffer] = field(default_factory=set)
    _whole: dict[tuple[Buffer, Span], bool] = field(default_factory=dict)

    def vectors(self, buffer: Buffer, dimension: int, lanes: int) -> Buffer:
        """The buffer of vectors that replaces `buffer`; raises NotRegisters if the dimension has no constant extent, or was split
        otherwise. Lanes behind the last element are off in every loop."""
        extent = ix.constant_value(buffer.shape[dimension])
        if extent is None:
            raise NotRegisters(buffer)
        shape = list(buffer.shape)
        shape[dimension] = const(i64, -(-extent // lanes))
        made = Buffer(buffer.name, buffer.dtype, tuple(shape), "register", buffer.serial, (), lanes, None)
        if self.split.setdefault(buffer, (dimension, made)) != (dimension, made):
            raise NotRegisters(buffer)
        return made

    def bind(self, s: Statement) -> None:
        """Records the order in which a statement outside of vector loops binds a name, or allocates a buffer."""
        if isinstance(s, (For, Let)):
            self.bound[s.var] = len(self.bound)
        elif isinstance(s, Alloc):
            self.bound[s.buffer] = len(self.bound)

    def look(self, buffer: Buffer, span: Span) -> None:
        """Records a read of these lanes."""
        self.spans.setdefault(buffer, set()).add(None if self.is_whole(buffer, span) else span)

    def is_whole(self, buffer: Buffer, span: Span) -> bool:
        """Whether the lanes that are off lie behind the last element: of 10 sums in 16 lanes, the last 6."""
        if span is None:
            return False
        if (buffer, span) not in self._whole:
            dimension, made = self.split[buffer]
            end = ix.add(ix.mul(span[1], made.lanes), span[0])
            behind = ix.difference(end, buffer.shape[dimension])
            self._whole[buffer, span] = behind is not None and behind >= 0
        return self._whole[buffer, span]

    def may_clobber_off_lanes(self, buffer: Buffer, span: Span) -> bool:
        """Whether a store may overwrite lanes that are off, which holds until other lanes are found to be read. The span must be the same
        while the buffer lives."""
        if self.is_whole(buffer, span):
            return True
        if span is None or buffer in self.keep or buffer not in self.bound:
            return False
        if any(self.bound.get(v, -1) > self.bound[buffer] for e in span for v in free_variables(e)):
            return False
        self.look(buffer, span)
        self.left.add(buffer)
        return True

    def check(self) -> None:
        """Raises LanesSeen if lanes that a store did not preserve are read."""
        for buffer in self.left:
            if len(self.spans[buffer]) > 1:
                raise LanesSeen(buffer)
