"""Compression of vectors, active lanes moved to the front: one instruction where there is one, else a shuffle looked up by the mask.

The tables have, for every mask, the operand of `pshufb` or `vpermd`: the source byte or word of each position, in read-only data (at most 4
KiB, for eight lanes). A byte of 0x80 makes a zero.
"""

from __future__ import annotations

from raido.algo.graph.dtypes import bool_, i32, i64, signed, u8
from raido.targets.llvm.memory import address_of
from raido.targets.llvm.text import TextBuilder, Value, llvm_type, mangled

_GROUP = 8  # lanes whose shuffle is looked up at once


def write_compress(b: TextBuilder, value: Value, mask: Value) -> Value:
    """Writes the compression of a vector: active lanes first, then zeros."""
    bits, size = value.lanes * value.dtype.bits, value.dtype.itemsize
    if b.can.vector_bits == 512 and (size >= 4 or b.can.byte_compresses) and bits in (128, 256, 512):
        name = f"llvm.experimental.vector.compress.{mangled(value.dtype, value.lanes)}"
        return b.call(name, value.dtype, value.lanes, value, mask, f"{value.type} zeroinitializer")
    if bits == 128 and value.lanes <= 8 and b.can.byte_shuffle:
        return _by_bytes(b, value, mask)
    if bits == 256 and size >= 4 and b.can.vector_bits >= 256:
        return _by_words(b, value, mask)
    if b.can.byte_shuffle and bits % 64 == 0 and size <= 2 and value.lanes % _GROUP == 0:
        return _by_groups(b, value, mask)
    return _in_memory(b, value, mask)


def _number(b: TextBuilder, mask: Value) -> Value:
    bits = b.result(i32, 1, f"bitcast {mask.typed} to i{mask.lanes}").text
    return b.result(i64, 1, f"zext i{mask.lanes} {bits} to i64")


def _moves(lanes: int, parts: int, nothing: int) -> bytes:
    """The shuffle operand for every mask: source indices of the result's parts, `parts` per lane; `nothing` marks positions without a
    source."""
    table = bytearray()
    for number in range(1 << lanes):
        kept = [lane for lane in range(lanes) if number >> lane & 1]
        row = [lane * parts + part for lane in kept for part in range(parts)]
        table += bytes(row + [nothing] * (lanes * parts - len(row)))
    return bytes(table)


def _table(b: TextBuilder, lanes: int, parts: int, nothing: int) -> str:
    name = f"rd.moves.{lanes}x{parts}.{nothing}"
    escaped = "".join(f"\\{byte:02X}" for byte in _moves(lanes, parts, nothing))
    b.globals[name] = f'@{name} = internal unnamed_addr constant [{len(escaped) // 3} x i8] c"{escaped}", align 64'
    return f"@{name}"


def _row(b: TextBuilder, table: str, mask: Value, width: int) -> Value:
    row = b.binary("mul", _number(b, mask), Value(i64, 1, str(width)))
    return b.result(u8, width, f"load {llvm_type(u8, width)}, ptr {address_of(b, table, row, u8)}, align 8")


def _by_bytes(b: TextBuilder, value: Value, mask: Value) -> Value:
    """Compresses 128 bits, or the lower 64 of a register, by a byte shuffle (`pshufb`)."""
    count = value.lanes * value.dtype.itemsize
    both = [b.result(u8, count, f"bitcast {value.typed} to <{count} x i8>")]
    both.append(_row(b, _table(b, value.lanes, value.dtype.itemsize, 0x80), mask, count))
    if count < 16:
        both = [b.shuffle(x, x, [*range(count)] * (16 // count)) for x in both]
    moved = b.call("llvm.x86.ssse3.pshuf.b.128", u8, 16, *both)
    moved = b.shuffle(moved, moved, list(range(count))) if count < 16 else moved
    return b.result(value.dtype, value.lanes, f"bitcast {moved.typed} to {value.type}")


def _by_groups(b: TextBuilder, value: Value, mask: Value) -> Value:
    """Compresses eight lanes at a time; each group is stored where the active lanes before it end."""
    kind, align = llvm_type(value.dtype), value.lanes * value.dtype.itemsize
    b.line(f"%room = alloca [{value.lanes + _GROUP} x {kind}], align {align}")
    b.line(f"store {value.type} zeroinitializer, ptr %room, align {align}")
    offset = Value(i64, 1, "0")
    for start in range(0, value.lanes, _GROUP):
        lanes = list(range(start, start + _GROUP))
        on = b.shuffle(mask, mask, lanes)
        moved = _by_bytes(b, b.shuffle(value, value, lanes), on)
        b.line(f"store {moved.typed}, ptr {address_of(b, '%room', offset, value.dtype)}, align {value.dtype.itemsize}")
        offset = b.binary("add", offset, b.call("llvm.ctpop.i64", i64, 1, _number(b, on)))
    return b.result(value.dtype, value.lanes, f"load {value.type}, ptr %room, align {align}")


def _by_words(b: TextBuilder, value: Value, mask: Value) -> Value:
    """Compresses 256 bits by a permutation of 32-bit words (`vpermd`), and zeros the lanes after the active ones."""
    word = signed(32)
    moves = b.convert("zext", _row(b, _table(b, value.lanes, value.dtype.itemsize // 4, 0), mask, 8), word)
    whole = b.result(word, 8, f"bitcast {value.typed} to <8 x i32>")
    moved = b.call("llvm.x86.avx2.permd", word, 8, whole, moves)
    found = b.result(value.dtype, value.lanes, f"bitcast {moved.typed} to {value.type}")
    count = b.call("llvm.ctpop.i64", i64, 1, _number(b, mask))
    index_type = signed(value.dtype.bits)
    lanes = ", ".join(f"{llvm_type(index_type)} {lane}" for lane in range(value.lanes))
    left = b.spread(b.convert("trunc", count, index_type), value.lanes)
    return b.select(b.compare("sgt", left, Value(index_type, value.lanes, f"<{lanes}>")), found, b.constant(found, 0))


def _in_memory(b: TextBuilder, value: Value, mask: Value) -> Value:
    """Compresses through memory: every lane is stored at the next free position, so that an inactive lane is overwritten by the next one."""
    kind, size = llvm_type(value.dtype), value.dtype.itemsize
    b.line(f"%room = alloca [{value.lanes + 1} x {kind}], align {size * value.lanes}")
    b.line(f"store {value.type} zeroinitializer, ptr %room, align {size * value.lanes}")
    offset = Value(i64, 1, "0")
    for lane in range(value.lanes):
        element = b.result(value.dtype, 1, f"extractelement {value.typed}, i64 {lane}")
        b.line(f"store {element.typed}, ptr {address_of(b, '%room', offset, value.dtype)}, align {size}")
        on = b.result(bool_, 1, f"extractelement {mask.typed}, i64 {lane}")
        offset = b.binary("add", offset, b.convert("zext", on, i64))
    return b.result(value.dtype, value.lanes, f"load {value.type}, ptr %room, align {size * value.lanes}")
