"""Atomic memory access as LLVM instructions, on integers or the bits of floats; relaxed (`monotonic`), so it orders no other access."""

from __future__ import annotations

from raido.algo.graph.dtypes import DType, bool_, i32, unsigned
from raido.targets.llvm.memory import address_of
from raido.targets.llvm.text import TextBuilder, Value, scalar_type


def write_atomic(b: TextBuilder, opcode: str, base: str, offset: Value, value: Value) -> str:
    """Writes an atomic read-modify-write of an element, in one instruction."""
    address = address_of(b, base, offset, value.dtype)
    b.line(f"{b.name()} = atomicrmw {opcode} ptr {address}, {value.typed} monotonic")
    return "0"


def write_look(b: TextBuilder, memory: DType, base: str, offset: Value) -> str:
    """Writes a relaxed atomic load of an element."""
    bits = unsigned(memory.bits)
    address = address_of(b, base, offset, bits)
    held = b.result(bits, 1, f"load atomic {scalar_type(bits)}, ptr {address} monotonic, align {bits.itemsize}")
    return b.convert("bitcast", held, memory).text


def write_exchange(b: TextBuilder, base: str, offset: Value, held: str, new: Value) -> str:
    """Writes an atomic compare-exchange: stores `new` if the element equals `*held` bit for bit, and stores the element's old value in
    `*held`. Returns 1 on failure, 0 on success."""
    bits = unsigned(new.dtype.bits)
    kind = scalar_type(bits)
    address = address_of(b, base, offset, bits)
    expected = b.result(bits, 1, f"load {kind}, ptr {held}, align {bits.itemsize}")
    wanted = b.convert("bitcast", new, bits)
    pair = b.name()
    b.line(f"{pair} = cmpxchg ptr {address}, {expected.typed}, {wanted.typed} monotonic monotonic")
    seen = b.result(bits, 1, f"extractvalue {{ {kind}, i1 }} {pair}, 0")
    done = b.result(bool_, 1, f"extractvalue {{ {kind}, i1 }} {pair}, 1")
    b.line(f"store {seen.typed}, ptr {held}, align {bits.itemsize}")
    return b.convert("zext", b.binary("xor", done, b.constant(done, True)), i32).text
