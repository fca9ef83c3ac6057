"""Register permutations by run-time indices: look-ups in small tables held in registers, instead of gathers from memory, and vectors that
begin at any lane of a pair of registers."""

from __future__ import annotations

from raido.algo.graph.dtypes import DType, i16, i64, signed
from raido.targets.llvm.capabilities import Capabilities
from raido.targets.llvm.text import TextBuilder, Value, llvm_type

_PERMUTE = {
    (512, 8): "llvm.x86.avx512.permvar.qi.512",
    (512, 16): "llvm.x86.avx512.permvar.hi.512",
    (512, 32): "llvm.x86.avx512.permvar.si.512",
    (512, 64): "llvm.x86.avx512.permvar.di.512",
    (256, 32): "llvm.x86.avx2.permd",
}
_PERMUTE_TWO = {
    (512, 8): "llvm.x86.avx512.vpermi2var.qi.512",
    (512, 16): "llvm.x86.avx512.vpermi2var.hi.512",
    (512, 32): "llvm.x86.avx512.vpermi2var.d.512",
    (512, 64): "llvm.x86.avx512.vpermi2var.q.512",
}
_SHUFFLE = {128: "llvm.x86.ssse3.pshuf.b.128", 256: "llvm.x86.avx2.pshuf.b", 512: "llvm.x86.avx512.pshuf.b.512"}
_SHUFFLED = 16  # bytes of a table that a byte shuffle selects from, in each 128 bits
_MOST = {512: 4, 256: 2}  # registers


def is_small_table(entries: int, memory: DType, lanes: int, can: Capabilities) -> bool:
    """Whether a table fits so few registers that permuting them is faster than a gather: 64 entries of 32 bits with 512-bit registers, say."""
    return _shape(entries, memory, lanes, can)[0] > 0


def _shape(entries: int, memory: DType, lanes: int, can: Capabilities) -> tuple[int, int]:
    """Returns the lanes of a permutation, which may be more than are looked up, and the entries in one register; zeros where gathers are
    faster.

    Sixteen bytes take a shuffle and a choice, as many instructions as one element alone: tables may fill half as many shuffles as there
    are lanes.
    """
    if entries > 1 << memory.bits:  # indices have as many bits as elements
        return 0, 0
    bits = can.vector_bits if memory.bits < 32 else lanes * memory.bits
    width = bits // memory.bits
    permutes = (bits, memory.bits) in _PERMUTE and (memory.bits > 8 or can.byte_permutes)
    if permutes and lanes <= width and bits <= can.vector_bits:
        return (width, width) if 0 < entries <= _MOST[bits] * width else (0, 0)
    width = max(_SHUFFLED, lanes)
    shuffles = memory.bits == 8 and can.byte_shuffle and 8 * width in _SHUFFLE and 8 * width <= can.vector_bits
    return (width, _SHUFFLED) if shuffles and 0 < entries <= _SHUFFLED * lanes // 2 else (0, 0)


def look_up(b: TextBuilder, base: str, offsets: Value, mask: Value | None, memory: DType, entries: int) -> Value:
    """The elements at the offsets, which are inside the table in active lanes."""
    lanes, index_type = offsets.lanes, signed(memory.bits)
    width, held = _shape(entries, memory, lanes, b.can)
    bits, shuffled = width * memory.bits, memory.bits == 8 and not b.can.byte_permutes
    index = b.convert("trunc", offsets, index_type) if index_type is not i64 else offsets
    if width > lanes:
        index = b.shuffle(index, index, [min(k, lanes - 1) for k in range(width)])
    at_once = b.binary("and", index, b.constant(index, held - 1)) if shuffled else index
    parts = []
    for start in range(0, entries, held):
        count = min(held, entries - start)
        at = b.result(index_type, 1, f"getelementptr {llvm_type(index_type)}, ptr {base}, i64 {start}").text
        part = b.result(index_type, count, f"load {llvm_type(index_type, count)}, ptr {at}, align {memory.itemsize}")
        if count < width:
            order = [min(k % held, count - 1) for k in range(width)]
            part = b.spread(part, width) if count == 1 else b.shuffle(part, part, order)
        parts.append(part)
    permute, size = _SHUFFLE[bits] if shuffled else _PERMUTE[bits, memory.bits], held
    permuted = lambda part: b.call(permute, index_type, width, part, at_once)
    while len(parts) > 1:
        pairs = [parts[k : k + 2] for k in range(0, len(parts), 2)]
        if size == held and not shuffled and (bits, memory.bits) in _PERMUTE_TWO:
            name = _PERMUTE_TWO[bits, memory.bits]
            parts = [b.call(name, index_type, width, pair[0], index, pair[-1]) for pair in pairs]
        else:
            if size == held:
                pairs = [[permuted(part) for part in pair] for pair in pairs]
            beyond = b.compare("ne", b.binary("and", index, b.constant(index, size)), b.constant(index, 0))
            parts = [b.select(beyond, pair[-1], pair[0]) for pair in pairs]
        size *= 2
    found = parts[0] if size > held else permuted(parts[0])
    if width > lanes:
        found = b.shuffle(found, found, list(range(lanes)))
    if mask is not None:
        found = b.select(mask, found, b.constant(found, 0))
    return b.convert("bitcast", found, memory)


def shifted(b: TextBuilder, before: Value, value: Value, short: Value) -> Value:
    """The 512-bit vector that begins at lane `short` of two registers, end to end.

    Without a byte permutation, bytes are permuted in pairs: a vector that begins at an odd byte is combined of two such vectors.
    """
    lanes, index_type = value.lanes, signed(value.dtype.bits)
    if index_type.bits == 8 and not b.can.byte_permutes:
        pair = [b.result(i16, 32, f"bitcast {each.typed} to <32 x i16>") for each in (before, value)]
        one, half = b.constant(short, 1), b.binary("lshr", short, b.constant(short, 1))
        low, high = (shifted(b, pair[0], pair[1], start) for start in (half, b.binary("add", half, one)))
        bits = b.binary("shl", b.binary("and", short, one), b.constant(short, 3))
        found = b.intrinsic("fshr", high, low, b.spread(b.convert("trunc", bits, i16), 32))
        return b.result(value.dtype, lanes, f"bitcast {found.typed} to {value.type}")
    begin = b.spread(b.convert("trunc", short, index_type) if index_type is not i64 else short, lanes)
    numbers = ", ".join(f"{llvm_type(index_type)} {lane}" for lane in range(lanes))
    index = b.result(index_type, lanes, f"add {begin.typed}, <{numbers}>")
    words = [b.convert("bitcast", each, index_type) for each in (before, value)]
    found = b.call(_PERMUTE_TWO[512, index_type.bits], index_type, lanes, words[0], index, words[1])
    return b.convert("bitcast", found, value.dtype)
