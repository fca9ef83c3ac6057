"""Finds loops whose results may be streamed: stores of whole gangs that may bypass the caches, and the conditions for it.

Non-temporal stores need aligned addresses, and rows rarely begin at one. A loop over whole gangs is therefore two loops behind one test:
where every streamed row is equally far from an aligned address (and the array is large enough), the first loop runs only the first gang and
the last, with ordinary stores, and the second runs from the first aligned address to the last, with non-temporal ones; elsewhere the first
loop runs them all (`stream_loops`). Gangs then overlap, so such a loop must not read memory that it writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr, Op, Var
from raido.algo.graph.index import add, as_index, canonical, linear, sub
from raido.algo.graph.rewrite import substitute
from raido.schedule.machine import LINE
from raido.schedule.nest.effects import buffers_read, writes
from raido.schedule.nest.nodes import Alloc, Block, Check, For, If, Let, Prefetch, Statement, Store, VectorStore, While
from raido.schedule.nest.values import Buffer, Gather, LaneShuffle, Read, lanes_of
from raido.schedule.nest.walk import blocks_of, expressions_of, statements_within
from raido.targets.emit.order import operands
from raido.targets.llvm.text import memory_dtype

_ALLOWED = (Block, Let, Alloc, Store, VectorStore, For, If, While, Check, Prefetch)
Indices = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A streamed row: its buffer, the indices of its first gang, the lanes of a store, and the array size in bytes above which it is
    streamed."""

    buffer: Buffer
    indices: Indices
    lanes: int
    above: int


@dataclass(frozen=True, slots=True)
class Stream:
    """The streamed stores of a loop, each with its offset in elements from its row's first gang, and the rows whose alignments must agree.

    `once`: iterations read memory that earlier ones wrote, so that each must run once; the loop then streams only from an aligned start.
    `row_of`: the row of each store, if every iteration stores each row once, contiguously, so that stores may be delayed by part of a
    vector (`shifted_rows`); else empty.
    """

    rows: tuple[Row, ...]
    stores: dict[VectorStore, int]
    once: bool = False
    row_of: dict[VectorStore, Row] = field(default_factory=dict)


def find_stream(loop: For) -> Stream | None:
    """The streamed stores of a loop over gangs, or None."""
    if not any(isinstance(s, VectorStore) and s.stream is not None for s in statements_within(loop)):
        return None
    survey = _Survey(loop)
    if survey.refused or not survey.rows or any(row.buffer in survey.read for row in survey.rows.values()):
        return None
    stores: dict[VectorStore, int] = {}
    for gangs in survey.gangs.values():
        first = min(offset for _, offset in gangs)
        for store, offset in gangs:
            stores.setdefault(store, offset - first)
    return Stream(
        tuple(survey.rows.values()), stores, bool(survey.written & survey.read), _rows_of_stores(loop, survey)
    )


def find_row_off_lines(loop: For) -> Row | None:
    """A row that a loop over gangs stores in vectors of at least half a line, if it may begin off a line, iterations may overlap, and may begin
    at any index; else None."""
    inside = list(statements_within(loop.body))
    if any(isinstance(s, (For, While)) for s in inside) or not any(map(_fills_half_line, inside)):
        return None
    survey = _Survey(loop, every=True)
    row = next(iter(survey.rows.values()), None)
    if row is None or survey.refused or survey.written & survey.read or _begins_at_multiples(loop, inside, survey):
        return None
    constant, terms = linear(row.indices[-1])
    return row if constant % row.lanes or not all(isinstance(term, Var) for term in terms) else None


def _begins_at_multiples(loop: For, inside: Iterable[Statement], survey: _Survey) -> bool:
    """Whether the body may rest on gangs that begin at multiples of a number: it has quotients, shuffled lanes, or stores of other strides."""
    rows = {store for gangs in survey.gangs.values() for store, _ in gangs}
    if any(isinstance(s, VectorStore) and s not in rows for s in inside):
        return True
    moving = (loop.var, *survey.lets)
    return any(
        isinstance(e, LaneShuffle)
        or (isinstance(e, Op) and e.name in ("floordiv", "mod") and any(_mentions((e,), var) for var in moving))
        for e in _below(tuple(e for s in inside for e in expressions_of(s)))
    )


def _fills_half_line(s: Statement) -> bool:
    """Whether a statement stores a whole vector of half a cache line or a line."""
    if not isinstance(s, VectorStore) or s.mask is not None or s.stride != 1:
        return False
    return 2 * lanes_of(s.value) * memory_dtype(s.buffer.dtype).itemsize >= LINE


def _rows_of_stores(loop: For, survey: _Survey) -> dict[VectorStore, Row]:
    """The row of each store; empty where an iteration may skip a gang of a row, or stores gangs out of order."""
    found: dict[VectorStore, Row] = {}
    for key, gangs in survey.gangs.items():
        row = survey.rows[key]
        begun = gangs[0][1]
        if [offset - begun for _, offset in gangs] != list(range(0, loop.step, row.lanes)):
            return {}
        found |= {store: row for store, _ in gangs}
    apart = len({(row.buffer, *row.indices[:-1]) for row in survey.rows.values()}) == len(survey.rows)
    alone = sum(survey.stores[row.buffer] for row in {row.buffer: row for row in found.values()}.values()) == len(found)
    return found if survey.always and apart and alone else {}


def beyond_lines(buffer: Buffer) -> Expr | None:
    """Elements of a row beyond a whole number of cache lines; None for a buffer with strides of its own."""
    return None if buffer.strides else ix.mod(buffer.shape[-1], LINE // memory_dtype(buffer.dtype).itemsize)


class _Survey:
    """The rows that a loop stores. `every`: those that are not to be streamed, too."""

    def __init__(self, loop: For, every: bool = False) -> None:
        self.loop = loop
        self.every = every
        self.lets: dict[Any, Any] = {}
        self.inner: list[For] = []
        self.rows: dict[Any, Row] = {}
        self.gangs: dict[Any, list[tuple[VectorStore, int]]] = {}  # of each row, and where in it they begin
        self.refused = False
        self.read: set[Buffer] = set()
        self.written: set[Buffer] = set()
        self.stores: Counter[Buffer] = Counter()  # how many statements write to each
        self.always = True  # whether every iteration runs each store that may be streamed, once
        self._own: set[Buffer] = set()
        self._visit(loop.body)
        self.written -= self._own

    def _visit(self, s: Any, always: bool = True) -> None:
        if not isinstance(s, _ALLOWED) or (isinstance(s, For) and s.kind == "parallel"):
            self.refused = True
            return
        self.read |= buffers_read(expressions_of(s))
        self.written.update(w.buffer for w in writes(s))
        self.stores.update(w.buffer for w in writes(s))
        if isinstance(s, Alloc):
            self._own.add(s.buffer)
        elif isinstance(s, Let):
            self.lets[s.var] = self.loop.var if self._moved_back(s) else substitute(s.value, self.lets)
        elif isinstance(s, For):
            self.inner.append(s)
        elif isinstance(s, VectorStore) and self._may_stream(s):
            self.always &= always
            self._note(s)
        always &= isinstance(s, Block)
        for inner in s.statements if isinstance(s, Block) else blocks_of(s):
            self._visit(inner, always)
        if isinstance(s, For):
            self.inner.pop()

    def _moved_back(self, s: Let) -> bool:
        """Whether a name is the loop's variable, but for the last gang, which is moved back to end with its row."""
        value, var = s.value, self.loop.var
        return (
            self.every
            and isinstance(value, Op)
            and value.name == "minimum"
            and var in value.args
            and not _mentions(tuple(each for each in value.args if each is not var), var)
        )

    def _may_stream(self, s: VectorStore) -> bool:
        """Whether a store is of whole vectors that advance with the loop, at indices known before it."""
        lanes = lanes_of(s.value)
        if (
            (s.stream is None and not self.every)
            or s.mask is not None
            or s.stride != 1
            or s.buffer.strides
            or self.loop.step % lanes
        ):
            return False
        if lanes * memory_dtype(s.buffer.dtype).itemsize not in (16, 32, 64):
            return False
        indices = [substitute(i, self.lets) for i in s.indices]
        if _mentions((sub(indices[-1], self.loop.var), *indices[:-1]), self.loop.var):
            return False
        around = {loop.var for loop in self.inner}
        for atom in (atom for i in indices for atom in linear(i)[1]):
            if atom not in around and any(_mentions((atom,), var) for var in around):
                return False
        return not any(isinstance(e, (Read, Gather)) for i in indices for e in _below((i,)))

    def _note(self, s: VectorStore) -> None:
        """Records the rows that a store writes: in the first iteration of the loops around it, and in the second iteration of each of them."""
        first: dict[Any, Any] = {self.loop.var: as_index(self.loop.low)}
        for loop in self.inner:
            first[loop.var] = substitute(substitute(as_index(loop.low), self.lets), first)
        starts = [first]
        starts += [{**first, loop.var: add(first[loop.var], loop.step)} for loop in self.inner]
        for start in starts:
            indices = tuple(canonical(substitute(substitute(i, self.lets), start)) for i in s.indices)
            constant, terms = linear(indices[-1])
            lanes = lanes_of(s.value)
            key = (s.buffer, indices[:-1], constant % lanes, frozenset(terms.items()))
            self.rows.setdefault(key, Row(s.buffer, indices, lanes, s.stream or 0))
            self.gangs.setdefault(key, []).append((s, constant))


def _below(roots: tuple[Any, ...]) -> Iterator[Any]:
    """Every expression below the roots, once."""
    stack, seen = list(roots), set()
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            yield node
            stack.extend(operands(node))


def _mentions(roots: tuple[Any, ...], var: Any) -> bool:
    return any(node is var for node in _below(roots))
