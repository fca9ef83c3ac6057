"""Emits atomic updates of memory: one instruction where devices have it, else a compare-exchange loop.

Devices compare and exchange integers of 32 and 64 bits: floats are held as their bits, narrow elements as parts of a word. The loop repeats
until no other thread has changed the element, or another part of its word, in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from raido.algo.graph.dtypes import DType, bool_, i32, i64, u8, u32
from raido.schedule.nest.nodes import AtomicUpdate, Statement
from raido.schedule.nest.values import Buffer
from raido.schedule.nest.walk import statements_within
from raido.targets import tvm_corner as T
from raido.targets.emit.terms import Term, tir
from raido.targets.kernels.unit import Form, Storage, Unit, atomic, load, operation
from raido.targets.kernels.values import Values, decode, encode, from_word, offset_in_word

_NATIVE = {
    "add": "add",
    "bit_or": "or",
    "bit_and": "and",
    "bit_xor": "xor",
    "minimum": "min",
    "maximum": "max",
}


def forms_of(statements: Iterable[Statement]) -> dict[Buffer, Form]:
    """Storage forms of the buffers with atomic updates whose elements cannot be compared and exchanged as they are."""
    updates = [s for statement in statements for s in statements_within(statement) if isinstance(s, AtomicUpdate)]
    return {s.buffer: form for s in updates if (form := _form(s.buffer.dtype)) != "plain"}


def _form(dtype: DType) -> Form:
    return "words" if dtype.bits < 32 else "bits" if dtype.is_float else "plain"


def emit_atomic(unit: Unit, values: Values, s: AtomicUpdate) -> None:
    """Emits an atomic update."""
    value, *_ = values.prepare(s.value, *s.indices)
    held, offset = values.element(s.buffer, s.indices)
    value = tir(value, s.value.dtype)
    if held.own:
        unit.variables[s.right] = unit.bind(s.right.name, s.right.dtype, value)
        unit.variables[s.left] = unit.bind(s.left.name, s.left.dtype, load(held.buffer, offset))
        unit.put(held.buffer, tir(values.scalar(s.combine), s.combine.dtype), offset)
        return
    if held.form == "plain" and s.monoid in _NATIVE:
        unit.out.append(T.Evaluate(atomic(_NATIVE[s.monoid], held.dtype, held.buffer, offset, value)))
        return
    unit.variables[s.right] = unit.bind(s.right.name, s.right.dtype, value)

    def combined(old: Any) -> Any:
        unit.variables[s.left] = unit.bind(s.left.name, s.left.dtype, old)
        return tir(values.scalar(s.combine), s.combine.dtype)

    if held.form == "words":
        word, shift = offset_in_word(held.dtype, offset)
        shift = unit.bind("shift", u32, shift)
        _replace(unit, held, word, lambda seen: _with_part(unit, held, seen, shift, combined))
    else:
        change = lambda seen: encode(held.dtype, combined(decode(held.dtype, seen)))
        _replace(unit, held, offset, change if held.form == "bits" else combined)


def store_in_word(unit: Unit, held: Storage, offset: Term, value: Any) -> None:
    """Emits a store of a narrow element by compare-exchange of its word, so that concurrent stores to the rest of the word are kept."""
    word, shift = offset_in_word(held.dtype, offset)
    shift, value = unit.bind("shift", u32, shift), unit.bind("stored", held.dtype, value)
    _replace(unit, held, word, lambda seen: _with_part(unit, held, seen, shift, lambda old: value))


def _with_part(unit: Unit, held: Storage, word: Any, shift: Any, change: Callable[[Any], Any]) -> Any:
    """A word with one of its elements replaced by `change` of it."""
    bits = 8 * held.dtype.itemsize
    made = change(from_word(held.dtype, word, shift))
    narrow = operation("select", u8, made, T.IntImm("uint8", 1), T.IntImm("uint8", 0)) if held.dtype is bool_ else None
    part = operation("convert", u32, encode(held.dtype, made) if narrow is None else narrow)
    mask = operation("shift_left", u32, T.IntImm("uint32", (1 << bits) - 1), shift)
    kept = operation("bit_and", u32, word, operation("bit_xor", u32, mask, T.IntImm("uint32", (1 << 32) - 1)))
    return operation("bit_or", u32, kept, operation("shift_left", u32, part, shift))


def _replace(unit: Unit, held: Storage, index: Term, change: Callable[[Any], Any]) -> None:
    """Emits a compare-exchange loop that replaces an element of a TIR buffer by `change` of it."""
    memory, zero, one = held.memory, T.IntImm("int32", 0), T.IntImm("int32", 1)
    index = unit.bind("at", i64, tir(index))
    seen = unit.cell("seen", memory, atomic("load", memory, held.buffer, index))
    again = unit.cell("again", i32, one)
    outer = unit.block()
    old = unit.bind("old", memory, load(seen))
    made = change(old)
    found = unit.bind("found", memory, atomic("compare_exchange", memory, held.buffer, index, old, made))
    unit.put(seen, found)
    unit.out.append(T.IfThenElse(T.EQ(found, old), T.BufferStore(again, zero, [tir(0)]), None))
    unit.repeat(T.NE(load(again), zero), outer)
