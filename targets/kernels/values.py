"""Emits expressions of scalar nests as TIR expressions of one thread.

`Values.prepare(roots)` makes TIR for the expressions of one statement. An expression that is used more than once, or nested too deeply, is
bound to a name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import DType, bool_, i64, u32, unsigned
from raido.algo.graph.expr import Const, Expr, Node, Op, SizeVar, Var
from raido.algo.graph.index import as_index, canonical, constant_value
from raido.algo.graph.rewrite import substitute
from raido.schedule.nest.values import Buffer, Read, flat_offset, strides_of
from raido.targets import tvm_corner as T
from raido.targets.emit.order import is_leaf, order_of
from raido.targets.emit.terms import Term, index_product, index_sum, tir
from raido.targets.kernels.literals import known_term, literal
from raido.targets.kernels.operations import emit_operation
from raido.targets.kernels.unit import Storage, Unit, load, operation

_DEPTH = 24


class Values:
    """Emits the expressions of a kernel's statements. `meanings`: definitions of named indices over thread indices, sizes and loop
    variables."""

    def __init__(self, unit: Unit, meanings: Mapping[Node, Expr] | None = None) -> None:
        self.unit, self.meanings = unit, {} if meanings is None else meanings
        self.memo: dict[Any, Term] = {}

    def prepare(self, *roots: Any) -> list[Term]:
        """TIR for each root, over names bound in the current block; None for a root that is None."""
        self.memo = {}
        order, uses = order_of(root for root in roots if root is not None)
        depths: dict[Any, int] = {}
        for e, of in order:
            term = self._emit(e)
            depth = 1 + max((depths[a] for a in of), default=0)
            if not isinstance(term, int) and not is_leaf(e) and (uses[e] > 1 or depth > _DEPTH):
                term, depth = self.unit.bind("v", e.dtype, term), 0
            self.memo[e], depths[e] = term, depth
        return [None if root is None else self.memo[root] for root in roots]

    def scalar(self, e: Any) -> Term:
        """The term of one expression."""
        return self.prepare(e)[0]

    def _emit(self, e: Any) -> Term:
        if isinstance(e, Const):
            return known_term(e)
        if isinstance(e, (Var, SizeVar)):
            if e not in self.unit.variables:
                raise CompileError(f"internal: variable {e.name} is not bound where a kernel uses it")
            return self.unit.variables[e]
        if isinstance(e, Op):
            return emit_operation(self, e)
        if isinstance(e, Read):
            return self._read(e)
        raise CompileError(f"internal: {type(e).__name__} is no expression of a kernel")

    # --- memory

    def element(self, buffer: Buffer, indices: Sequence[Any]) -> tuple[Storage, Term]:
        """The storage of an element and its offset there; the indices have been prepared."""
        held = self.unit.held(buffer)
        remainders = (each for each in (self.meanings.get(i, i) for i in indices) if isinstance(each, Op))
        if not held.own and any(each.name == "mod" for each in remainders):
            flat = flat_offset(buffer, [substitute(i, self.meanings) for i in indices])
            if flat is not None:
                memo, (offset,) = self.memo, self.prepare(flat)
                self.memo = memo
                return held, offset
        return held, self.offset(buffer, [self._index(i) if held.own else self.memo[i] for i in indices])

    def _index(self, index: Any) -> Term:
        """An index in a thread-private array, as a constant if its definition is one, since registers have no addresses."""
        term = self.memo[index]
        if isinstance(term, int):
            return term
        number = constant_value(canonical(substitute(index, self.meanings)))
        return term if number is None else number

    def offset(self, buffer: Buffer, indices: Sequence[Term]) -> Term:
        """The element offset of indices."""
        memo, total = self.memo, 0
        strides = self.prepare(*(as_index(stride) for stride in strides_of(buffer)))
        self.memo = memo
        for index, stride in zip(indices, strides, strict=True):
            total = index_sum(total, index_product(index, stride, 1), 1)
        return total

    def _read(self, e: Read) -> Any:
        held, offset = self.element(e.buffer, e.indices)
        predicate = None if e.predicate is None else self.memo[e.predicate]
        if predicate is None or predicate is True:
            return read(held, offset)
        nothing = literal(e.dtype, 0)
        return nothing if predicate is False else T.if_then_else(predicate, read(held, offset), nothing)


def read(held: Storage, offset: Term) -> Any:
    """An element of a buffer, decoded from its storage form."""
    if held.form == "plain":
        return load(held.buffer, offset)
    if held.form == "bits":
        return decode(held.dtype, load(held.buffer, offset))
    word, shift = offset_in_word(held.dtype, offset)
    return from_word(held.dtype, load(held.buffer, word), shift)


def offset_in_word(dtype: DType, offset: Term) -> tuple[Any, Any]:
    """Index of the 32-bit word that contains a narrow element, and its bit position there."""
    each = 4 // dtype.itemsize
    at = tir(offset)
    word = operation("shift_right", i64, at, T.IntImm("int64", each.bit_length() - 1))
    inside = operation("convert", u32, operation("bit_and", i64, at, T.IntImm("int64", each - 1)))
    return word, T.Mul(inside, T.IntImm("uint32", 8 * dtype.itemsize))


def from_word(dtype: DType, word: Any, shift: Any) -> Any:
    """A narrow element extracted from a word."""
    bits = 8 * dtype.itemsize
    shifted = operation("shift_right", u32, word, shift)
    narrow = operation("bit_and", u32, shifted, T.IntImm("uint32", (1 << bits) - 1))
    if dtype is bool_:
        return T.NE(narrow, T.IntImm("uint32", 0))
    return decode(dtype, operation("convert", unsigned(bits), narrow))


def to_word(dtype: DType, value: Any) -> Any:
    """A narrow element as the low bits of a word."""
    if dtype is bool_:
        return operation("select", u32, value, T.IntImm("uint32", 1), T.IntImm("uint32", 0))
    return operation("convert", u32, encode(dtype, value))


def decode(dtype: DType, bits: Any) -> Any:
    """The element with these bits, an unsigned integer of its width."""
    return bits if dtype.kind == "u" or T.type_name(dtype).startswith("uint") else operation("bitcast", dtype, bits)


def encode(dtype: DType, value: Any) -> Any:
    """An element's bits, as an unsigned integer of its width."""
    if dtype.kind == "u" or T.type_name(dtype).startswith("uint"):
        return value
    return operation("bitcast", unsigned(dtype.bits), value)
