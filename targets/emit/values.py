"""Emits expressions of the gang nest as TIR expressions.

`Values.prepare(roots)` makes TIR for the expressions of one statement. An expression that is used more than once, or nested too deeply, is
bound to a name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import is_
from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import DType, bf16, bool_, i32, i64, u8
from raido.algo.graph.expr import Const, Op, SizeVar, Var
from raido.algo.graph.index import as_index, canonical, constant_value
from raido.algo.graph.rewrite import substitute
from raido.schedule.nest.values import (
    Buffer,
    Extract,
    Gather,
    LaneCompress,
    LaneCount,
    LaneFold,
    LaneShift,
    LaneShuffle,
    Ramp,
    Read,
    Splat,
    VectorRead,
    VectorVar,
    lanes_of,
    strides_of,
)
from raido.targets import tvm_corner as T
from raido.targets.emit.deinterleave import Window
from raido.targets.emit.extremes import Networks
from raido.targets.emit.joins import emit_row, parts_of, row_of
from raido.targets.emit.operations import emit_lane_fold, emit_operation
from raido.targets.emit.order import is_leaf, order_of
from raido.targets.emit.terms import Term, fits_i32, index_product, index_sum, tir
from raido.targets.emit.unit import Unit, data_of, is_heavy
from raido.targets.llvm.memory import most_apart
from raido.targets.llvm.tables import is_small_table
from raido.targets.llvm.text import memory_dtype

_DEPTH = 24


class Values:
    """Emits the expressions of one function's statements."""

    def __init__(self, unit: Unit, binds: bool = True) -> None:
        self.unit = unit
        self.binds = binds
        self.memo: dict[Any, Term] = {}
        self.windows: dict[VectorRead, Window] = {}
        self._depth: dict[Any, int] = {}
        self.weight: dict[Any, int] = {}  # of what was prepared: operations that TIR's analysis sees
        self.by_products: frozenset[Op] = frozenset()  # the square roots to be made without the divider
        self.choices: frozenset[Op] = frozenset()  # those to be made by an instruction, not by a branch
        self.networks = Networks()  # of the current block
        self.inputs: dict[Any, dict[int, Term]] = {}  # of networks, by their extremes and names of these
        self._strides: dict[Buffer, tuple[Term, ...]] = {}
        self._indices: dict[Op, tuple[tuple[Term, ...], Term]] = {}  # terms of operands, and what they came to

    def prepare(self, *roots: Any) -> list[Term]:
        """TIR for each root, over names bound in the current block; None for a root that is None."""
        self.memo, self._depth, self.weight = {}, {}, {}
        wanted = [root for root in roots if root is not None]
        rows = {root: row for root in wanted if (row := row_of(root)) is not None}
        order, uses = order_of([e for root in wanted for e in (rows[root].leaves() if root in rows else (root,))])
        plain: dict[Any, bool] = {}
        for e, of in order:
            term = self._emit(e, plain)
            depth, weight = 1, self.unit.weights.get(e, 1)
            for operand in of:
                depth = max(depth, 1 + self._depth[operand])
                weight += self.weight[operand]
            if (uses[e] > 1 or depth > _DEPTH) and self.binds and not isinstance(term, int) and not is_leaf(e):
                term, depth = self.unit.bind("v", e.dtype, lanes_of(e), term, weight), 0
                weight = 1 if is_heavy(weight) else weight
            self.memo[e], self._depth[e], self.weight[e] = term, depth, weight
        for root, row in rows.items():
            self.memo[root], self.weight[root] = emit_row(self, row, root.dtype, lanes_of(root)), 1
        return [None if root is None else self.memo[root] for root in roots]

    def scalar(self, e: Any) -> Term:
        """The term of one expression."""
        return self.prepare(e)[0]

    def tir(self, e: Any) -> Any:
        """TIR of an expression already prepared."""
        return tir(self.memo[e], e.dtype)

    # --- one node

    def _emit(self, e: Any, plain: dict[Any, bool]) -> Term:
        if isinstance(e, Op):
            if (parts := parts_of(e)) is not None:
                helper = self.unit.helpers.values.join(parts[0].dtype, lanes_of(e), len(parts), e.dtype)
                return self.unit.call(helper, e.dtype, lanes_of(e), *map(self.tir, parts))
            return self._index(e, plain) if e.dtype is i64 else emit_operation(self, e, plain)
        if isinstance(e, Const):
            return self.literal(e)
        if isinstance(e, (Var, SizeVar, VectorVar)):
            if e not in self.unit.variables:
                raise CompileError(f"internal: variable {e.name} is not bound where it is used")
            return self.unit.variables[e]
        if isinstance(e, Ramp):
            return self.unit.call(self.unit.helpers.values.ramp(e.stride, e.lanes), i64, e.lanes, self.tir(e.base))
        if isinstance(e, Splat):
            return T.Broadcast(self.tir(e.value), e.lanes)
        if isinstance(e, Extract):
            shape = (e.dtype, lanes_of(e.value))
            return self.unit.call(self.unit.helpers.values.extract(*shape, e.lane), e.dtype, 1, self.tir(e.value))
        if isinstance(e, LaneCompress):
            lanes = lanes_of(e.value)
            helper = self.unit.helpers.values.compress(e.dtype, lanes)
            return self.unit.call(helper, e.dtype, lanes, self.tir(e.value), self.tir(e.mask))
        if isinstance(e, LaneCount):
            return self.unit.call(self.unit.helpers.values.count(lanes_of(e.mask)), i64, 1, self.tir(e.mask))
        if isinstance(e, LaneShift):
            lanes = lanes_of(e.value)
            helper = self.unit.helpers.values.shift(e.dtype, lanes, e.distance, e.fill.bits)
            return self.unit.call(helper, e.dtype, lanes, self.tir(e.value))
        if isinstance(e, LaneShuffle):
            helper = self.unit.helpers.values.shuffle(e.dtype, e.order)
            return self.unit.call(helper, e.dtype, len(e.order), self.tir(e.first), self.tir(e.second))
        if isinstance(e, LaneFold):
            return emit_lane_fold(self, e.name, e.dtype, lanes_of(e.value), self.tir(e.value))
        if isinstance(e, Read):
            return self._read(e)
        if isinstance(e, VectorRead):
            return self._vector_read(e)
        if isinstance(e, Gather):
            return self._gather(e)
        raise CompileError(f"internal: {type(e).__name__} is no expression of a gang nest")

    def _index(self, e: Op, plain: dict[Any, bool]) -> Term:
        """An operation on i64. Terms of scalar index arithmetic are cached across statements, which repeat it; TIR nodes are immutable."""
        operands = tuple([self.memo[a] for a in e.args])
        kept = self._indices.get(e)
        if kept is not None and all(map(is_, operands, kept[0])):
            return kept[1]
        term = emit_operation(self, e, plain)
        if plain.get(e) and lanes_of(e) == 1:
            self._indices[e] = operands, term
        return term

    def literal(self, e: Const) -> Term:
        """A constant; i64 and bool constants stay Python numbers."""
        if e.dtype is bool_:
            return bool(e.bits)
        if e.dtype is i64:
            return int(e.bits)
        if e.dtype.is_float and e.dtype is not bf16:
            value = float(e.value)
            if math.isnan(value):
                return self.unit.call(self.unit.helpers.values.literal(e.dtype, e.bits), e.dtype, 1)
            return T.FloatImm(T.type_name(e.dtype), value)
        if e.bits >= 1 << 63:
            return self.unit.call(self.unit.helpers.values.literal(e.dtype, e.bits), e.dtype, 1)
        return T.integer(T.type_name(e.dtype), e.bits)

    # --- memory

    def offset(self, buffer: Buffer, indices: Sequence[Term], lanes: int | None = None) -> Term:
        """The element offset of indices (terms); a vector where an index is one. `lanes`: its lanes, where known."""
        if buffer not in self._strides:
            inner = Values(self.unit, binds=False)  # names would end with the block, the strides are kept
            self._strides[buffer] = tuple(inner.prepare(*(as_index(s) for s in strides_of(buffer))))
        total: Term = 0
        for index, stride in zip(indices, self._strides[buffer], strict=True):
            total = index_sum(total, index_product(index, stride, lanes), lanes)
        return total

    def element(self, buffer: Buffer, indices: Sequence[Any]) -> tuple[Any, Term]:
        """The location of an element: a TIR buffer and an offset in it; a lane-private buffer has `lanes` consecutive elements per index."""
        if buffer in self.unit.registers:
            cells = self.unit.registers[buffer]
            key = tuple(k for k in map(self._known_index, indices) if k is not None)
            if key not in cells:
                raise CompileError(f"internal: register buffer {buffer.name} has no element {key}")
            return cells[key], 0
        lanes = 1 if all(lanes_of(i) == 1 for i in indices) else None
        offset = self.offset(buffer, [self.memo[i] for i in indices], lanes)
        return self.unit.buffer(buffer), index_product(offset, buffer.lanes, lanes)

    def _known_index(self, e: Any) -> int | None:
        """The constant index of a register, after substitution of unrolled loop variables; None if it is not constant."""
        term = self.memo[e]
        if isinstance(term, int):
            return int(term)
        return constant_value(canonical(substitute(e, self.unit.known)))

    def _read(self, e: Read) -> Any:
        buffer, lanes, indices = e.buffer, e.buffer.lanes, e.indices
        if e.predicate is not None and self.memo[e.predicate] is not True:
            where, offset = self.element(buffer, indices)
            helper = self.unit.helpers.memory.load(buffer.dtype, lanes, masked=True)
            mask = self.tir(e.predicate)
            if lanes > 1 and lanes_of(e.predicate) == 1:
                mask = T.Broadcast(mask, lanes)
            memory = memory_dtype(buffer.dtype)
            return self.from_memory(
                buffer.dtype, lanes, self.unit.call(helper, memory, lanes, data_of(where), tir(offset), mask)
            )
        return self._load(buffer.dtype, lanes, *self.element(buffer, indices))

    def _load(self, dtype: DType, lanes: int, where: Any, offset: Term) -> Any:
        index = tir(offset)
        if lanes > 1:
            index = T.Ramp(index, T.integer("int64", 1), lanes)
        return self.from_memory(dtype, lanes, T.BufferLoad(where, [index]))

    def from_memory(self, dtype: DType, lanes: int, value: Any) -> Any:
        if dtype is not bool_:
            return value
        return self.unit.call(self.unit.helpers.values.operation("cast", bool_, [(u8, lanes)]), bool_, lanes, value)

    def to_memory(self, dtype: DType, lanes: int, value: Any) -> Any:
        """A value in its memory representation: bool becomes u8."""
        if dtype is not bool_:
            return value
        return self.unit.call(self.unit.helpers.values.operation("cast", u8, [(bool_, lanes)]), u8, lanes, value)

    def _vector_read(self, e: VectorRead) -> Any:
        dtype, lanes = e.buffer.dtype, e.lanes
        if e.buffer.lanes > 1:
            raise CompileError("internal: a lane-private buffer is read by Read")
        where, offset = self.element(e.buffer, e.indices)
        mask = None if e.mask is None else self.memo[e.mask]
        if mask is None and e.stride == 1:
            return self._load(dtype, lanes, where, offset)
        if e.stride == 0 and mask is None:
            return T.Broadcast(self._load(dtype, 1, where, offset), lanes)
        extra = [] if mask is None else [tir(mask, bool_)]
        if e in self.windows and abs(e.stride) <= most_apart(lanes):
            helper = self.unit.helpers.memory.load_from_window(dtype, lanes, e.stride, *self.windows[e])
        else:
            helper = self.unit.helpers.memory.load(dtype, lanes, mask is not None, e.stride)
        args = (data_of(where), tir(offset), *extra)
        return self.from_memory(dtype, lanes, self.unit.call(helper, memory_dtype(dtype), lanes, *args))

    def lane_offsets(self, buffer: Buffer, indices: Sequence[Any]) -> tuple[Any, Any, Any]:
        """The buffer, the scalar part of the offset, and the vector of offsets from there: indices shared by all lanes are added once, as
        scalars."""
        lanes = max(lanes_of(i) for i in indices)
        indices = _one_by_one(indices)
        terms = [self.memo[i] for i in indices]
        shared = [lanes_of(i) == 1 for i in indices]
        start = tir(self.offset(buffer, [t if one else 0 for t, one in zip(terms, shared, strict=True)]))
        total = tir(self.offset(buffer, [0 if one else t for t, one in zip(terms, shared, strict=True)]))
        if buffer.lanes > 1:
            each = T.IntImm("int64", buffer.lanes)
            total = T.Add(
                T.Mul(total, T.Broadcast(each, lanes)), T.Ramp(T.IntImm("int64", 0), T.IntImm("int64", 1), lanes)
            )
            start = T.Mul(start, each)
        return self.unit.buffer(buffer), start, total

    def _is_along_a_row(self, e: Gather) -> bool:
        """Whether lanes vary along the last, contiguous dimension only."""
        *outer, _ = _one_by_one(e.indices)
        side_by_side = e.buffer.lanes == 1 and constant_value(as_index(strides_of(e.buffer)[-1])) == 1
        return side_by_side and all(lanes_of(i) == 1 for i in outer)

    def _has_a_row(self, e: Gather) -> bool:
        """Whether lanes vary along one row, which is there whatever the mask is."""
        return self._is_along_a_row(e) and (e.mask is None or len(e.indices) == 1)

    def _entries(self, e: Gather) -> int:
        """The number of elements in the row that lanes are gathered from, or in the whole array; 0 where it is not known. Where lanes are
        masked, there may be no such row."""
        lengths = [constant_value(as_index(n)) or 0 for n in e.buffer.shape]
        if self._has_a_row(e):
            return lengths[-1]
        return 0 if e.buffer.lanes > 1 or e.buffer.strides else math.prod(lengths)

    def _gather(self, e: Gather) -> Any:
        dtype, lanes = e.buffer.dtype, lanes_of(e)
        where, start, offsets = self.lane_offsets(e.buffer, e.indices)
        extra = [] if e.mask is None else [self.tir(e.mask)]
        helpers, memory, entries = self.unit.helpers, memory_dtype(dtype), self._entries(e)
        if is_small_table(entries, memory, lanes, helpers.can):
            helper = helpers.memory.look_up(dtype, lanes, e.mask is not None, entries)
            if not self._has_a_row(e):
                start, offsets = T.IntImm("int64", 0), T.Add(offsets, T.Broadcast(start, lanes))
        else:
            short = self._is_along_a_row(e) and fits_i32(_one_by_one(e.indices)[-1], self.unit.ranges)
            offset = i32 if short else i64
            helper = helpers.memory.gather(dtype, lanes, e.mask is not None, offset)
            offsets = T.Cast(T.type_name(offset, lanes), offsets) if offset is i32 else offsets
        value = self.unit.call(helper, memory, lanes, data_of(where), start, offsets, *extra)
        return self.from_memory(dtype, lanes, value)


def _one_by_one(indices: Sequence[Any]) -> Sequence[Any]:
    """The indices, with broadcast ones as scalars as long as at least one index has lanes."""
    single = [i.value if isinstance(i, Splat) else i for i in indices]
    return single if any(lanes_of(i) > 1 for i in single) else indices
