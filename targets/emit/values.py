"""Expressions of the gang nest as TIR expressions.

`Values.prepare(roots)` makes TIR for the expressions of one statement. What is used more than once is bound to a name once; so is
what would nest too deeply. TIR's own operators serve where their meaning is exactly ours; everything else calls a helper function.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import DType, bool_, i64, u8
from raido.algo.graph.expr import Const, Data, Op, SizeVar, Var
from raido.algo.graph.index import as_index, canonical, constant_value, mul
from raido.algo.graph.primitives import DIVISIONS
from raido.algo.graph.rewrite import substitute
from raido.schedule.nest.nodes import (
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
)
from raido.targets import tvm_corner as T
from raido.targets.emit.unit import Term, Unit, data_of, is_heavy, is_plain_index, tir
from raido.targets.llvm.tables import is_small_table
from raido.targets.llvm.text import memory_dtype

_DEPTH = 24
_NATIVE = {"add": T.Add, "sub": T.Sub}
_COMPARISONS = {"lt": T.LT, "le": T.LE, "gt": T.GT, "ge": T.GE, "eq": T.EQ}
_INDEX = {"add": T.Add, "sub": T.Sub, "mul": T.Mul, "minimum": T.Min, "maximum": T.Max}
_FOLDS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "minimum": min,
    "maximum": max,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "floormod": lambda a, b: a % b if b else 0,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "logical_and": lambda a, b: a and b,
    "logical_or": lambda a, b: a or b,
    "logical_not": lambda a: not a,
    "clamp_index": lambda e, n: max(min(e, n - 1), 0),
}
_EXACT_REDUCTIONS = {
    "logical_or": "or",
    "logical_and": "and",
    "logical_xor": "xor",
    "bit_or": "or",
    "bit_and": "and",
    "bit_xor": "xor",
}


def operands(e: Any) -> tuple[Any, ...]:
    """The expressions that an expression is made of."""
    if isinstance(e, Op):
        return e.args
    if isinstance(e, Read):
        return (*e.indices, e.predicate) if e.predicate is not None else e.indices
    if isinstance(e, (VectorRead, Gather)):
        return (*e.indices, e.mask) if e.mask is not None else e.indices
    if isinstance(e, Ramp):
        return (e.base,)
    if isinstance(e, LaneCompress):
        return (e.value, e.mask)
    if isinstance(e, LaneCount):
        return (e.mask,)
    if isinstance(e, (Splat, LaneFold, Extract, LaneShift)):
        return (e.value,)
    if isinstance(e, LaneShuffle):
        return (e.first, e.second)
    return ()


def strides_of(buffer: Buffer) -> tuple[Any, ...]:
    """The element strides of a buffer: its own, or row-major ones."""
    if buffer.strides:
        return buffer.strides
    strides: list[Any] = []
    step: Any = 1
    for extent in reversed(buffer.shape):
        strides.append(step)
        step = mul(step, extent)
    return tuple(reversed(strides))


class Values:
    """Expressions of one function's statements."""

    def __init__(self, unit: Unit, binds: bool = True) -> None:
        self.unit = unit
        self.binds = binds
        self.memo: dict[Any, Term] = {}
        self._depth: dict[Any, int] = {}
        self.weight: dict[Any, int] = {}  # of what was prepared: operations that TIR's analysis sees
        self.by_products: frozenset[Op] = frozenset()  # the square roots to be made without the divider
        self._strides: dict[Buffer, tuple[Term, ...]] = {}

    def prepare(self, *roots: Any) -> list[Term]:
        """TIR for each root, in terms of names bound in the current block. None stays None."""
        self.memo, self._depth, self.weight = {}, {}, {}
        wanted = [root for root in roots if root is not None]
        uses: dict[Any, int] = dict.fromkeys(wanted, 1)
        order: list[Any] = []
        self._order(wanted, uses, order)
        plain: dict[Any, bool] = {}
        for e in order:
            term = self._emit(e, plain)
            below = operands(e)
            depth = 1 + max((self._depth[a] for a in below), default=0)
            weight = self.unit.weights.get(e, 1) + sum(self.weight[a] for a in below)
            if self.binds and not isinstance(term, int) and not _is_leaf(e) and (uses[e] > 1 or depth > _DEPTH):
                term, depth = self.unit.bind("v", e.dtype, lanes_of(e), term, weight), 0
                weight = 1 if is_heavy(weight) else weight
            self.memo[e], self._depth[e], self.weight[e] = term, depth, weight
        return [None if root is None else self.memo[root] for root in roots]

    def scalar(self, e: Any) -> Term:
        """One expression."""
        return self.prepare(e)[0]

    @staticmethod
    def _order(roots: Iterable[Any], uses: dict[Any, int], order: list[Any]) -> None:
        """Every expression below the roots, operands first, and how often each is used."""
        done: set[Any] = set()
        for root in roots:
            stack = [(root, iter(operands(root)))] if root not in done else []
            done.add(root)
            while stack:
                e, rest = stack[-1]
                for operand in rest:
                    uses[operand] = uses.get(operand, 0) + 1
                    if operand not in done:
                        done.add(operand)
                        stack.append((operand, iter(operands(operand))))
                        break
                else:
                    stack.pop()
                    order.append(e)

    def tir(self, e: Any) -> Any:
        """The TIR of an expression already prepared."""
        return tir(self.memo[e], e.dtype)

    # --- one node

    def _emit(self, e: Any, plain: dict[Any, bool]) -> Term:
        if isinstance(e, Const):
            return self.literal(e)
        if isinstance(e, (Var, SizeVar, VectorVar)):
            if e not in self.unit.variables:
                raise CompileError(f"internal: variable {e.name} is not bound where it is used")
            return self.unit.variables[e]
        if isinstance(e, Op):
            return self._operation(e, plain)
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
            helper = self.unit.helpers.values.shuffle(e.dtype, e.places)
            return self.unit.call(helper, e.dtype, len(e.places), self.tir(e.first), self.tir(e.second))
        if isinstance(e, LaneFold):
            return self._fold_lanes(e.name, e.dtype, lanes_of(e.value), self.tir(e.value))
        if isinstance(e, Read):
            return self._read(e)
        if isinstance(e, VectorRead):
            return self._vector_read(e)
        if isinstance(e, Gather):
            return self._gather(e)
        raise CompileError(f"internal: {type(e).__name__} is no expression of a gang nest")

    def literal(self, e: Const) -> Term:
        """A constant; i64 and bool ones stay Python's."""
        if e.dtype is bool_:
            return bool(e.bits)
        if e.dtype is i64:
            return int(e.bits)
        if e.dtype.is_float:
            value = float(e.value)
            if math.isnan(value):
                return self.unit.call(self.unit.helpers.values.literal(e.dtype, e.bits), e.dtype, 1)
            return T.FloatImm(T.type_name(e.dtype), value)
        if e.bits >= 1 << 63:
            return self.unit.call(self.unit.helpers.values.literal(e.dtype, e.bits), e.dtype, 1)
        return T.IntImm(T.type_name(e.dtype), e.bits)

    def _operation(self, e: Op, plain: dict[Any, bool]) -> Term:
        terms = [self.memo[a] for a in e.args]
        if e.name in _FOLDS and all(isinstance(t, int) for t in terms):
            folded = _FOLDS[e.name](*terms)
            return folded if isinstance(folded, bool) or -(1 << 63) <= folded < 1 << 63 else _wrap(folded)
        lanes = lanes_of(e)
        self.unit.vector_operations += lanes > 1
        args = [tir(t, a.dtype) for t, a in zip(terms, e.args, strict=True)]
        first = e.args[0].dtype
        if e.dtype is i64 and is_plain_index(e, self.unit, plain):
            if e.name == "neg":
                zero = T.IntImm("int64", 0)
                return T.Sub(T.Broadcast(zero, lanes) if lanes > 1 else zero, args[0])
            if e.name in _INDEX:
                return _index_operation(e.name, terms, args)
            divisor = _constant_of(e.args[-1])
            if e.name == "floordiv" and divisor and divisor & (divisor - 1) == 0 and divisor > 0 and lanes == 1:
                return T.RShift(args[0], T.IntImm("int64", divisor.bit_length() - 1))
        if e in self.by_products:
            return self.unit.call(self.unit.helpers.values.root_by_products(), e.dtype, lanes, *args)
        if e.dtype.is_float and e.name in _NATIVE:
            return _NATIVE[e.name](*args)
        if (bounds := _below(e)) is not None:
            base, high = bounds
            return self.unit.call(self.unit.helpers.values.below(lanes), bool_, lanes, self.tir(base), self.tir(high))
        if e.name in _COMPARISONS and first is not bool_:
            return _COMPARISONS[e.name](*args)
        if e.name == "ne" and first.is_integer:
            return T.NE(*args)
        if e.name == "select" and isinstance(terms[0], bool):
            return terms[1] if terms[0] else terms[2]
        if e.name == "select" and isinstance(moved := e.args[1], Op) and _is_masked_step(e):
            symbol = self.unit.helpers.values.step_where(e.dtype, lanes)
            return self.unit.call(symbol, e.dtype, lanes, args[0], *(self.tir(a) for a in moved.args), args[2])
        if e.name == "cast" and first is e.dtype:
            return terms[0]
        if e.name == "cast" and first.is_integer and _holds_every(e.dtype, first):
            return T.Cast(T.type_name(e.dtype, lanes), args[0])
        literals = {}
        if e.name in (_BY_CONSTANT if first.is_integer else _EXTREMES):
            known = [(k, _literal_of(a)) for k, a in enumerate(e.args)]
            literals = {k: c for k, c in known if c is not None and (k == 1 or e.name in _EXTREMES)}
        shapes = [(a.dtype, lanes_of(a)) for a in e.args]
        return self.unit.call(
            self.unit.helpers.values.operation(e.name, e.dtype, shapes, literals), e.dtype, lanes, *args
        )

    def _fold_lanes(self, name: str, dtype: DType, lanes: int, value: Any) -> Any:
        """The fixed tree: the lower half of the lanes with the upper half, until one is left. Exact operations may take any order."""
        helpers = self.unit.helpers
        exact = _EXACT_REDUCTIONS.get(name)
        if dtype.is_integer and name in ("add", "mul"):
            exact = name
        if dtype.is_integer and name in ("minimum", "maximum"):
            exact = ("s" if dtype.kind == "i" else "u") + name[:3]
        if exact and lanes > 1:
            return self.unit.call(helpers.values.reduce(exact, dtype, lanes), dtype, 1, value)
        while lanes > 1:
            value = self.unit.bind("lanes", dtype, lanes, value)
            lanes //= 2
            halves = [
                self.unit.call(helpers.values.half(dtype, 2 * lanes, upper), dtype, lanes, value)
                for upper in (False, True)
            ]
            if dtype.is_float and name == "add":
                value = T.Add(*halves)
            else:
                value = self.unit.call(
                    helpers.values.operation(name, dtype, [(dtype, lanes)] * 2), dtype, lanes, *halves
                )
        return value

    # --- memory

    def offset(self, buffer: Buffer, indices: Sequence[Term]) -> Term:
        """The element offset of scalar indices (terms); vectors where an index is one."""
        if buffer not in self._strides:
            inner = Values(self.unit, binds=False)  # names would end with the block, the strides are kept
            self._strides[buffer] = tuple(inner.prepare(*(as_index(s) for s in strides_of(buffer))))
        total: Term = 0
        for index, stride in zip(indices, self._strides[buffer], strict=True):
            total = _index_sum(total, _index_product(index, stride))
        return total

    def element(self, buffer: Buffer, indices: Sequence[Any]) -> tuple[Any, Term]:
        """Where an element lies: a TIR buffer and the offset in it; a lane-private buffer has `lanes` elements for each of its own."""
        if buffer in self.unit.registers:
            cells = self.unit.registers[buffer]
            key = tuple(k for k in map(self._known_index, indices) if k is not None)
            if key not in cells:
                raise CompileError(f"internal: register buffer {buffer.name} has no element {key}")
            return cells[key], 0
        offset = self.offset(buffer, [self.memo[i] for i in indices])
        return self.unit.buffer(buffer), _index_product(offset, buffer.lanes)

    def _known_index(self, e: Any) -> int | None:
        """The index of a register: constant, once the variables of unrolled loops are."""
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
            return self._from_memory(
                buffer.dtype, lanes, self.unit.call(helper, memory, lanes, data_of(where), tir(offset), mask)
            )
        return self._load(buffer.dtype, lanes, *self.element(buffer, indices))

    def _load(self, dtype: DType, lanes: int, where: Any, offset: Term) -> Any:
        index = tir(offset)
        if lanes > 1:
            index = T.Ramp(index, T.IntImm("int64", 1), lanes)
        return self._from_memory(dtype, lanes, T.BufferLoad(where, [index]))

    def _from_memory(self, dtype: DType, lanes: int, value: Any) -> Any:
        if dtype is not bool_:
            return value
        return self.unit.call(self.unit.helpers.values.operation("cast", bool_, [(u8, lanes)]), bool_, lanes, value)

    def to_memory(self, dtype: DType, lanes: int, value: Any) -> Any:
        """A value as its memory holds it."""
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
        helper = self.unit.helpers.memory.load(dtype, lanes, mask is not None, e.stride)
        args = (data_of(where), tir(offset), *extra)
        return self._from_memory(dtype, lanes, self.unit.call(helper, memory_dtype(dtype), lanes, *args))

    def lane_offsets(self, buffer: Buffer, indices: Sequence[Any]) -> tuple[Any, Any]:
        """The buffer and the vector of offsets for indices with lanes."""
        lanes = max(lanes_of(i) for i in indices)
        terms = [self.memo[i] for i in indices]
        total = self.offset(
            buffer, [_spread(t, lanes) if lanes_of(i) == 1 else t for t, i in zip(terms, indices, strict=True)]
        )
        if buffer.lanes > 1:
            each = T.Broadcast(T.IntImm("int64", buffer.lanes), lanes)
            zero, one = T.IntImm("int64", 0), T.IntImm("int64", 1)
            total = T.Add(T.Mul(tir(total), each), T.Ramp(zero, one, lanes))
        return self.unit.buffer(buffer), tir(total)

    def _gather(self, e: Gather) -> Any:
        dtype, lanes = e.buffer.dtype, lanes_of(e)
        where, offsets = self.lane_offsets(e.buffer, e.indices)
        extra = [] if e.mask is None else [self.tir(e.mask)]
        helpers, memory, table = self.unit.helpers, memory_dtype(dtype), e.buffer.data
        entries = table.array.size if isinstance(table, Data) and e.buffer.lanes == 1 else 0
        if is_small_table(entries, memory, lanes, helpers.vector_bits):
            helper = helpers.memory.look_up(dtype, lanes, e.mask is not None, entries)
        else:
            helper = helpers.memory.gather(dtype, lanes, e.mask is not None)
        value = self.unit.call(helper, memory, lanes, data_of(where), offsets, *extra)
        return self._from_memory(dtype, lanes, value)


_BY_CONSTANT = (*DIVISIONS, "wrap_index", "shl", "shr")
_EXTREMES = ("minimum", "maximum")


def _holds_every(wide: DType, narrow: DType) -> bool:
    """Whether TIR may see the cast: its analysis stops at the cast of a bound that the type does not hold."""
    if wide.is_float:
        return wide.bits > 16
    if wide.kind == narrow.kind:
        return wide.bits >= narrow.bits
    return narrow.kind == "u" and wide.kind == "i" and wide.bits > narrow.bits


def _is_masked_step(e: Op) -> bool:
    """Whether `e` counts in the lanes of a mask, where the machine can add under one: select(mask, x + constant, what x was read from)."""
    moved, start = e.args[1:]
    counts = isinstance(moved, Op) and moved.name == "add" and _constant_of(moved.args[1]) is not None
    return counts and e.dtype.is_integer and e.dtype.bits * lanes_of(e) == 512 and isinstance(start, (Read, VectorVar))


def _below(e: Op) -> tuple[Any, Any] | None:
    """The first index and the bound, where `e` says which of consecutive indices are below a bound: the mask of a tail."""
    ramp: Any = e.args[0]
    high: Any = e.args[-1]
    tail = e.name == "lt" and isinstance(ramp, Ramp) and ramp.stride == 1 and isinstance(high, Splat)
    return (ramp.base, high.value) if tail else None


def _is_leaf(e: Any) -> bool:
    return isinstance(e, (Const, Var, SizeVar, VectorVar)) or (isinstance(e, Splat) and isinstance(e.value, Const))


def _literal_of(e: Any) -> Const | None:
    if isinstance(e, Splat):
        e = e.value
    return e if isinstance(e, Const) else None


def _constant_of(e: Any) -> int | None:
    known = _literal_of(e)
    return int(known.bits) if known is not None and not known.dtype.is_float else None


def _wrap(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _index_operation(name: str, terms: Sequence[Term], args: Sequence[Any]) -> Term:
    if name == "add":
        return _index_sum(*terms)
    if name == "mul":
        return _index_product(*terms)
    return _INDEX[name](*args)


def _spread(term: Term, lanes: int) -> Any:
    return T.Broadcast(tir(term), lanes)


def _lanes_of_term(term: Any) -> int:
    kind = str(term.ty) if hasattr(term, "ty") else ""
    return int(kind.rpartition("x")[2]) if "x" in kind else 1


def _index_sum(a: Term, b: Term) -> Term:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if isinstance(a, int) and a == 0:
        return b
    if isinstance(b, int) and b == 0:
        return a
    return _with_lanes(T.Add, a, b)


def _index_product(a: Term, b: Term) -> Term:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    for x, y in ((a, b), (b, a)):
        if isinstance(x, int) and x == 1:
            return y
        if isinstance(x, int) and x == 0 and _lanes_of_term(y) == 1:
            return 0
    return _with_lanes(T.Mul, a, b)


def _with_lanes(node: Any, a: Term, b: Term) -> Any:
    a, b = tir(a), tir(b)
    lanes = max(_lanes_of_term(a), _lanes_of_term(b))
    if lanes > 1:
        a = a if _lanes_of_term(a) > 1 else T.Broadcast(a, lanes)
        b = b if _lanes_of_term(b) > 1 else T.Broadcast(b, lanes)
    return node(a, b)
