"""Register permutations by run-time indices: look-ups in small constant tables held in registers, instead of gathers from memory, and
vectors that begin at any lane of a pair of registers."""

from __future__ import annotations

from raido.algo.graph.dtypes import DType, i16, i64, signed
from raido.targets.llvm.text import TextBuilder, Value, llvm_type

_PERMUTE = {
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
_MOST = {512: 4, 256: 2}  # registers


def is_small_table(entries: int, memory: DType, lanes: int, vector_bits: int) -> bool:
    """Whether a table fits so few registers that permuting them is faster than a gather: 64 entries of 32 bits with 512-bit registers, say."""
    bits = lanes * memory.bits
    return bits <= vector_bits and (bits, memory.bits) in _PERMUTE and 0 < entries <= _MOST[bits] * lanes


def look_up(b: TextBuilder, base: str, offsets: Value, mask: Value | None, memory: DType, entries: int) -> Value:
    """The elements at the offsets, which are inside the table in active lanes; the table is padded to whole registers."""
    lanes, index_type = offsets.lanes, signed(memory.bits)
    index = b.convert("trunc", offsets, index_type) if index_type is not i64 else offsets
    kind, bits = llvm_type(index_type, lanes), lanes * index_type.bits
    parts = []
    for start in range(0, entries, lanes):
        at = b.result(index_type, 1, f"getelementptr {llvm_type(index_type)}, ptr {base}, i64 {start}").text
        parts.append(b.result(index_type, lanes, f"load {kind}, ptr {at}, align 64"))
    width = lanes
    while len(parts) > 1:
        pairs = [parts[k : k + 2] for k in range(0, len(parts), 2)]
        if width == lanes and (bits, index_type.bits) in _PERMUTE_TWO:
            name = _PERMUTE_TWO[bits, index_type.bits]
            parts = [b.call(name, index_type, lanes, pair[0], index, pair[-1]) for pair in pairs]
        else:
            if width == lanes:
                pairs = [[_permuted(b, part, index) for part in pair] for pair in pairs]
            beyond = b.compare("ne", b.binary("and", index, b.constant(index, width)), b.constant(index, 0))
            parts = [b.select(beyond, pair[-1], pair[0]) for pair in pairs]
        width *= 2
    found = parts[0] if width > lanes else _permuted(b, parts[0], index)
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


def _permuted(b: TextBuilder, part: Value, index: Value) -> Value:
    return b.call(_PERMUTE[part.lanes * part.dtype.bits, part.dtype.bits], part.dtype, part.lanes, part, index)
