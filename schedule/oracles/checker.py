"""The grammar of nests, as an executable check: `check_nest` raises `NestError` where a nest breaks it.

Variables and buffers are used only in scope, every value has the required type and lanes, indices are i64 and as many as dimensions,
conditions are bool. A scalar nest has no lanes; a gang nest has no loop of kind "vector". Register arrays are indexed by constants and the
variables of unrolled loops. `Swap` and `Copy` are outside kernels, between buffers of one type. Bounds are checked by the interpreter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType, bool_, i64
from raido.algo.graph.expr import Const, Node, Op, SizeVar, Var, const
from raido.algo.graph.primitives import PRIMITIVES, result_dtype
from raido.algo.graph.rewrite import free_variables, topological
from raido.schedule.nest.carry import in_one_word
from raido.schedule.nest.effects import is_scan, writes
from raido.schedule.nest.nodes import (
    Alloc,
    Append,
    AtomicUpdate,
    AwaitCopies,
    Block,
    Carry,
    Check,
    Collect,
    CommitCopies,
    Copy,
    Fold,
    For,
    If,
    Let,
    Nest,
    Ordered,
    Prefetch,
    Produce,
    Scatter,
    Statement,
    Store,
    Swap,
    VectorStore,
    View,
    While,
)
from raido.schedule.nest.printer import print_statement
from raido.schedule.nest.values import (
    Buffer,
    Extract,
    Gather,
    LaneCompress,
    LaneCount,
    LaneFold,
    LaneShift,
    LaneShuffle,
    NestExpr,
    Ramp,
    Read,
    Splat,
    VectorRead,
    VectorVar,
    lanes_of,
)
from raido.schedule.oracles.memory import NestError

_SCALARS = (Const, SizeVar, Var, Op, Read)
_VECTORS = (
    VectorVar,
    Ramp,
    Splat,
    VectorRead,
    Gather,
    LaneFold,
    Extract,
    LaneShift,
    LaneShuffle,
    LaneCompress,
    LaneCount,
)


def check_nest(nest: Nest, level: Literal["scalar", "gang"]) -> Nest:
    """Returns the nest; raises `NestError` where it is not well formed."""
    checker = _Checker(level == "gang", nest.outputs)
    counts = tuple(buffer for _, buffer in nest.counts)
    checker.known.update((*nest.inputs, *nest.outputs, *nest.sizes, *counts))
    for buffer in (*nest.inputs, *nest.outputs, *counts):
        allowed = ("parameter", "result") if buffer in nest.outputs else ("parameter",)
        checker.require(buffer.scope in allowed, f"{buffer.name} is not a parameter")
    checker.block(nest.body, frozenset())
    return nest


class _Checker:
    """The names in scope, and the expressions already checked there."""

    def __init__(self, gang: bool, outputs: tuple[Buffer, ...]) -> None:
        self.gang = gang
        self.outputs = outputs
        self.known: set[Node] = set()
        self.right: set[Node] = set()
        self.at: Statement | None = None
        self.parallel = False

    def require(self, holds: bool, message: str) -> None:
        """Raises `NestError` unless `holds`."""
        if not holds:
            where = "" if self.at is None else "\n" + print_statement(self.at)[:1000]
            raise NestError(f"{message}{where}")

    # --- expressions

    def value(self, root: NestExpr, dtype: DType | None = None, lanes: int | None = None) -> None:
        """Checks that an expression is well formed, of that type and with that many lanes."""
        for e in topological(root):
            if e not in self.right:
                self._node(e)
                self.right.add(e)
        if dtype is not None:
            self.require(root.dtype is dtype, f"{dtype} expected, but this is {root.dtype}")
        if lanes is not None:
            self.require(lanes_of(root) == lanes, f"{lanes} lanes expected, but these are {lanes_of(root)}")

    def _node(self, e: Node) -> None:
        if isinstance(e, Buffer):
            self.require(e.scope == "constant" or e in self.known, f"buffer {e.name} is not in scope")
            return
        self.require(isinstance(e, _SCALARS + _VECTORS), f"{type(e).__name__} is no expression of a nest")
        self.require(self.gang or isinstance(e, _SCALARS), f"{type(e).__name__} in a scalar nest")
        if isinstance(e, (Var, VectorVar)):
            self.require(e in self.known, f"{e.name} is not in scope")
        elif isinstance(e, Op):
            self.require(e.name in PRIMITIVES, f"no primitive {e.name}")
            found = result_dtype(e.name, [a.dtype for a in e.args], e.dtype)
            self.require(found is e.dtype, f"{e.name} gives {found}, not {e.dtype}")
            self.require(len({lanes_of(a) for a in e.args}) == 1, f"{e.name} of different numbers of lanes")
        elif isinstance(e, Read):
            self._check_indices(e.buffer, e.indices)
            self._mask(e.predicate, e.buffer.lanes, scalar=True)
        elif isinstance(e, VectorRead):
            self._check_indices(e.buffer, e.indices)
            self.require(e.buffer.lanes == 1, f"{e.buffer.name} is lane-private: it is read by Read")
            self._mask(e.mask, e.lanes)
        elif isinstance(e, Gather):
            lanes = lanes_of(e)
            self._lane_indices(e.buffer, e.indices, lanes)
            self._mask(e.mask, lanes)
        elif isinstance(e, (Ramp, Splat)):
            scalar = e.base if isinstance(e, Ramp) else e.value
            self.require(lanes_of(scalar) == 1, f"{type(e).__name__} of a vector")
        elif isinstance(e, (LaneCompress, LaneCount)):
            self._mask(e.mask, lanes_of(e.value) if isinstance(e, LaneCompress) else lanes_of(e.mask))
            self.require(lanes_of(e.mask) > 1, f"{type(e).__name__} of a scalar")
        elif isinstance(e, (LaneFold, Extract, LaneShift)):
            self.require(not isinstance(e, LaneShift) or e.fill.dtype is e.dtype, "lanes are filled with another type")
            self.require(lanes_of(e.value) > 1, f"{type(e).__name__} of a scalar")
        elif isinstance(e, LaneShuffle):
            lanes = lanes_of(e.first)
            alike = lanes == lanes_of(e.second) == len(e.order) > 1 and e.first.dtype is e.second.dtype
            self.require(alike and all(0 <= k < 2 * lanes for k in e.order), "a shuffle of other lanes")

    def _check_indices(self, buffer: Buffer, indices: Sequence[NestExpr]) -> None:
        self.require(buffer.scope == "constant" or buffer in self.known, f"buffer {buffer.name} is not in scope")
        self.require(len(indices) == len(buffer.shape), f"{buffer.name} has {len(buffer.shape)} dimensions")
        for i in indices:
            self.require(i.dtype is i64 and lanes_of(i) == 1, f"an index of {buffer.name} is {i.dtype} x {lanes_of(i)}")

    def _lane_indices(self, buffer: Buffer, indices: Sequence[NestExpr], lanes: int) -> None:
        self.require(buffer.scope == "constant" or buffer in self.known, f"buffer {buffer.name} is not in scope")
        self.require(0 < len(indices) == len(buffer.shape), f"{buffer.name} has {len(buffer.shape)} dimensions")
        self.require(all(lanes_of(i) == lanes and i.dtype is i64 for i in indices), f"indices of {buffer.name}")
        self.require(buffer.lanes in (1, lanes), f"{buffer.name} has {buffer.lanes} lanes")

    def _mask(self, mask: NestExpr | None, lanes: int, scalar: bool = False) -> None:
        if mask is not None:
            self.require(mask.dtype is bool_, f"a mask of type {mask.dtype}")
            allowed = (1, lanes) if scalar else (lanes,)
            self.require(lanes_of(mask) in allowed, f"a mask of {lanes_of(mask)} lanes for {lanes}")

    # --- statements

    def block(self, block: Block, unrolled: frozenset[Var]) -> None:
        """Checks a block; names that it binds go out of scope at its end."""
        known, right = set(self.known), set(self.right)
        for statement in block.statements:
            self.statement(statement, unrolled)
        self.known, self.right = known, right

    def statement(self, s: Statement, unrolled: frozenset[Var]) -> None:
        """Checks one statement."""
        outer, self.at = self.at, s
        if isinstance(s, Let):
            self.value(s.value, s.var.dtype, s.var.lanes if isinstance(s.var, VectorVar) else 1)
            self._declare(s.var)
        elif isinstance(s, Alloc):
            for e in (*s.buffer.shape, *s.buffer.strides):
                self.value(e, i64, 1)
            self.require(
                s.buffer.scope in ("heap", "shared", "stack", "register"), f"a {s.buffer.scope} buffer is allocated"
            )
            constant = all(ix.constant_value(ix.canonical(e)) is not None for e in s.buffer.shape)
            self.require(s.buffer.scope == "heap" or constant, f"{s.buffer.name} has no constant size")
            self.require(self.gang or s.buffer.lanes == 1, "lanes in a scalar nest")
            self._declare(s.buffer)
        elif isinstance(s, (Store, VectorStore, Scatter)):
            self._store(s)
        elif isinstance(s, Fold):
            self._fold(s)
        elif isinstance(s, AtomicUpdate):
            self._atomic(s)
        elif isinstance(s, Collect):
            self._collect(s)
        elif isinstance(s, Carry):
            self._carry(s)
        elif isinstance(s, Append):
            self.require(s.position.dtype is i64 and s.position in self.known, "a position that is no i64 in scope")
            self.value(s.predicate, bool_, 1)
            for buffer, value in zip(s.buffers, s.values, strict=True):
                self._check_indices(buffer, (const(i64, 0),))
                self.value(value, buffer.dtype, 1)
        elif isinstance(s, Check):
            for e in (s.holds, *s.values, *(() if s.predicate is None else (s.predicate,))):
                self.value(e)
            self.require(s.holds.dtype is bool_, "what must hold is no bool")
        elif isinstance(s, (Swap, Copy)):
            a, b = (s.left, s.right) if isinstance(s, Swap) else (s.source, s.destination)
            self.require((a.dtype, len(a.shape)) == (b.dtype, len(b.shape)), "buffers of different types")
            self.require(a.strides == b.strides, "buffers laid out differently")
        elif isinstance(s, View):
            there = s.source in self.known and s.source.scope in ("heap", "parameter")
            self.require(there, f"{s.source.name} is no buffer on the heap or of the caller")
            flatter = 0 < len(s.buffer.shape) <= len(s.source.shape) or s.source in self.outputs
            same = s.buffer.dtype is s.source.dtype and flatter
            self.require(same and not s.buffer.strides and not s.source.strides, "a view of another type")
            for e in s.buffer.shape:
                self.value(e, i64, 1)
            self._declare(s.buffer)
        elif isinstance(s, Prefetch):
            for e in s.indices:
                self.value(e, i64, 1)
        elif isinstance(s, (CommitCopies, AwaitCopies)):
            self.require(not self.gang, "asynchronous copies in a gang nest")
        else:
            self._control(s, unrolled)
        self._registers(s, unrolled)
        self.at = outer

    def _declare(self, node: Node) -> None:
        self.require(node not in self.known, f"{getattr(node, 'name', node)} is already in scope")
        self.known.add(node)

    def _store(self, s: Store | VectorStore | Scatter) -> None:
        mask = s.predicate if isinstance(s, Store) else s.mask
        for e in (*s.indices, *(() if mask is None else (mask,))):
            self.value(e)
        self.require(self.gang or isinstance(s, Store), f"{type(s).__name__} in a scalar nest")
        if isinstance(s, Store):
            self.value(s.value, s.buffer.dtype, s.buffer.lanes)
            self._check_indices(s.buffer, s.indices)
            copies = isinstance(s.value, Read) and s.value.predicate is None and s.value.buffer is not s.buffer
            self.require(not s.asynchronous or (copies and s.buffer.scope == "shared"), "no copy to shared memory")
            self._mask(mask, s.buffer.lanes, scalar=True)
            return
        self.value(s.value, s.buffer.dtype)
        lanes = lanes_of(s.value)
        self.require(lanes > 1, f"{type(s).__name__} of a scalar")
        self._mask(mask, lanes)
        if isinstance(s, VectorStore):
            self._check_indices(s.buffer, s.indices)
        else:
            self._lane_indices(s.buffer, s.indices, lanes)

    def _fold(self, s: Fold) -> None:
        count = len(s.buffers)
        needed = (s.step, s.left, s.right, s.combine, s.values if is_scan(s) else s.neutral)
        optional = (s.values, s.neutral, s.before, s.after)
        counts = [*map(len, needed), *(len(part) or count for part in optional)]
        self.require(set(counts) == {count}, "a fold of different numbers of values")
        for buffer in s.buffers:
            self._check_indices(buffer, s.indices)
        self._each(s.buffers, s.values)
        known, right = set(self.known), set(self.right)
        self.known.update(s.left + s.right)
        for part in (s.step, s.combine, s.neutral):
            self._each(s.buffers, part)
        self.known, self.right = known, right
        for e in s.indices:
            self.value(e, i64, 1)
        for names in (s.before, s.after):
            for var in names:
                self._declare(var)
            self._each(s.buffers, names)

    def _each(self, buffers: tuple[Buffer, ...], part: tuple[NestExpr, ...]) -> None:
        """Checks that there is one value for each buffer, or none at all."""
        for buffer, e in zip(buffers, part, strict=False):
            self.value(e, buffer.dtype, 1)

    def _atomic(self, s: AtomicUpdate) -> None:
        self._check_indices(s.buffer, s.indices)
        for e in s.indices:
            self.value(e, i64, 1)
        self.value(s.value, s.buffer.dtype, 1)
        known, right = set(self.known), set(self.right)
        self.known.update((s.left, s.right))
        self.value(s.combine, s.buffer.dtype, 1)
        self.known, self.right = known, right

    def _collect(self, s: Collect) -> None:
        self.value(s.count, i64, 1)
        self.require(
            len({*map(len, (s.buffers, s.left, s.right, s.combine))}) == 1, "parts of different numbers of values"
        )
        self.require(not self.gang and s.level.startswith("thread"), "parts that no threads of a block have")
        self.require(not (s.prefix and s.halves), "prefixes by halves")
        self.require(s.halves or s.width & (s.width - 1) == 0, "neighbours in groups that are no power of two")
        known, right = set(self.known), set(self.right)
        self.known.update((s.var, *s.left, *s.right))
        for buffer, left, e in zip(s.buffers, s.left, s.combine, strict=True):
            self._check_indices(buffer, s.indices)
            self.require(left.dtype is buffer.dtype, f"{buffer.name} holds no {left.dtype}")
            self.value(e, buffer.dtype, 1)
        self.known, self.right = known, right

    def _carry(self, s: Carry) -> None:
        one_word = in_one_word([b.dtype for b in s.buffers], s.counts)
        parts = (s.taken, s.buffers, s.values, s.left, s.right, s.combine, *(() if one_word else (s.totals,)))
        self.require(len({*map(len, parts)}) == 1, "different numbers of values are handed on")
        self.require(self.parallel and not self.gang, "what is carried outside a loop over blocks")
        self.require(s.state.dtype is i64, "a state that is no i64")
        self.require(not s.counts or s.buffers[0].dtype is i64, "counts that are no i64")
        self.require(s.inside is None or (s.counts and one_word), "threads that hand on no numbers of elements")
        self.value(s.index, i64, 1)
        if s.inside is not None:
            self.value(s.inside, i64, 1)
        for buffer in (*s.buffers, *s.totals, s.state):
            self._check_indices(buffer, (s.index,))
        self._each(s.buffers, s.values)
        known, right = set(self.known), set(self.right)
        self.known.update((*s.left, *s.right))
        self._each(s.buffers, s.combine)
        self.known, self.right = known, right
        for var in s.taken:
            self._declare(var)
        self._each(s.buffers, s.taken)

    def _control(self, s: Statement, unrolled: frozenset[Var]) -> None:
        if isinstance(s, For):
            self.value(s.low, i64, 1)
            self.value(s.high, i64, 1)
            self.require(s.step > 0, "a step that is not positive")
            self.require(s.var.dtype is i64, "a loop variable that is no i64")
            self.require(not (self.gang and s.kind == "vector"), "a vector loop in a gang nest")
            known, right, parallel = set(self.known), set(self.right), self.parallel
            self._declare(s.var)
            if s.alone is not None:
                self.require(
                    s.kind == "parallel" and s.alone.dtype is bool_, "a thread alone at a loop that is not for threads"
                )
                self._declare(s.alone)
            self.parallel = s.kind == "parallel" or (parallel and s.kind != "vector")
            self.block(s.body, unrolled | {s.var} if s.kind in ("unroll", "vector") else unrolled)
            self.known, self.right, self.parallel = known, right, parallel
        elif isinstance(s, Ordered):
            self.require(self.parallel, "an ordered section outside a parallel loop")
            self.block(s.body, unrolled)
        elif isinstance(s, If):
            self.value(s.condition, bool_, 1)
            self.block(s.then, unrolled)
            if s.orelse is not None:
                self.block(s.orelse, unrolled)
        elif isinstance(s, While):
            known, right = set(self.known), set(self.right)
            for inner in s.setup.statements:
                self.statement(inner, unrolled)
            self.value(s.condition, bool_, 1)
            self.block(s.body, unrolled)
            self.known, self.right = known, right
        elif isinstance(s, (Produce, Block)):
            self.block(s.body if isinstance(s, Produce) else s, unrolled)
        else:
            self.require(False, f"{type(s).__name__} is no statement of a nest")

    def _registers(self, s: Statement, unrolled: frozenset[Var]) -> None:
        """Checks that indices of register arrays are constant once loops are unrolled."""
        for write in writes(s):
            buffer = write.buffer
            if buffer.scope == "register" and buffer.shape:
                for i in write.indices or ():
                    loose = [v for v in free_variables(i) - unrolled if not self._is_offset(i, v)]
                    self.require(not loose, f"register array {buffer.name} at an index that is not constant")

    def _is_offset(self, index: NestExpr, var: Var) -> bool:
        """Whether a variable cancels against an unrolled loop's start (global coordinates: `ji - jo` with ji from jo)."""
        _, terms = ix.linear(ix.canonical(index))
        return len(terms) > 1 and var in terms
