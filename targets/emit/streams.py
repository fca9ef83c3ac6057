"""Which loops may start anew at an aligned address: those over whole gangs that stream their results and can safely repeat a round.

Non-temporal stores need aligned addresses, and rows rarely begin at one. Such a loop runs its first gang where it begins, then goes on
from the next aligned address, and its last gang ends where the loop ends: rounds overlap, so they must not read what they write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from raido.algo.index import sub
from raido.algo.rewrite import substitute
from raido.schedule.nest.nodes import (
    Alloc,
    Block,
    Buffer,
    Check,
    For,
    Gather,
    If,
    Let,
    Prefetch,
    Read,
    Store,
    VectorRead,
    VectorStore,
    While,
    lanes_of,
)
from raido.targets.emit.scopes import parts
from raido.targets.emit.values import operands

_ALLOWED = (Block, Let, Alloc, Store, VectorStore, For, If, While, Check, Prefetch)


@dataclass(frozen=True, slots=True)
class Stream:
    """The store whose address is aligned: a buffer and the indices of the loop's first round."""

    buffer: Buffer
    indices: tuple[Any, ...]
    lanes: int


def find_stream(loop: For) -> Stream | None:
    """The streamed store of a loop that may be aligned, or None."""
    survey = _Survey(loop)
    if survey.refused or survey.stream is None or survey.written & survey.read:
        return None
    return survey.stream


class _Survey:
    def __init__(self, loop: For) -> None:
        self.loop = loop
        self.first: dict[Any, Any] = {loop.var: loop.low}
        self.stream: Stream | None = None
        self.refused = False
        self.read: set[Buffer] = set()
        self.written: set[Buffer] = set()
        self._own: set[Buffer] = set()
        self._visit(loop.body)
        self.written -= self._own

    def _visit(self, s: Any) -> None:
        if not isinstance(s, _ALLOWED) or (isinstance(s, For) and s.kind == "parallel"):
            self.refused = True
            return
        if isinstance(s, Alloc):
            self._own.add(s.buffer)
        elif isinstance(s, Let):
            self.first[s.var] = substitute(s.value, self.first)
        elif isinstance(s, For):
            self.first[s.var] = substitute(s.low, self.first)
        elif isinstance(s, (Store, VectorStore)):
            self.written.add(s.buffer)
            if isinstance(s, VectorStore) and s.stream and self.stream is None:
                self._probe(s)
        for part in parts(s):
            if isinstance(part, _ALLOWED):
                self._visit(part)
            elif hasattr(part, "__slots__"):
                self._note_reads(part)

    def _probe(self, s: VectorStore) -> None:
        lanes = lanes_of(s.value)
        follows = sub(s.indices[-1], self.loop.var)
        if (
            s.mask is None
            and s.stride == 1
            and lanes == self.loop.step
            and not s.buffer.strides
            and not _mentions(follows, self.loop.var)
        ):
            self.stream = Stream(s.buffer, tuple(substitute(i, self.first) for i in s.indices), lanes)

    def _note_reads(self, e: Any) -> None:
        stack, seen = [e], set()
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, (Read, VectorRead, Gather)):
                self.read.add(node.buffer)
            stack.extend(operands(node))


def _mentions(e: Any, var: Any) -> bool:
    stack = [e]
    while stack:
        node = stack.pop()
        if node is var:
            return True
        stack.extend(operands(node))
    return False
