"""Memory access as LLVM instructions: masked, strided, gathered and scattered elements.

Offsets count elements from a base pointer. Inactive lanes read 0 and write nothing, whatever their offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from raido.algo.graph.dtypes import DType, bool_, i64, u8, u32, unsigned
from raido.targets.llvm.text import TextBuilder, Value, literal, llvm_type, mangled, scalar_type

_MANY = 32  # lanes from which what no instruction does is a loop over them, not a copy of the code for each
_GATHERED_BITS = 32  # narrower elements are gathered by no instruction


def address_of(b: TextBuilder, base: str, offset: Value, memory: DType) -> str:
    """The address of an element."""
    return b.result(memory, 1, f"getelementptr {scalar_type(memory)}, ptr {base}, {offset.typed}").text


def load_if(b: TextBuilder, base: str, offset: Value, mask: Value | None, memory: DType) -> Value:
    """One element behind a branch; 0 where the mask is false."""
    kind = scalar_type(memory)
    assert mask is not None
    b.line(f"br {mask.typed}, label %read, label %skip")
    b.start_block("read")
    loaded = b.result(memory, 1, f"load {kind}, ptr {address_of(b, base, offset, memory)}, align {memory.itemsize}")
    b.line("br label %skip")
    b.start_block("skip")
    zero = literal(memory, 0)
    return b.result(memory, 1, f"phi {kind} [ {zero}, %entry ], [ {loaded.text}, %read ]")


def masked_load(b: TextBuilder, address: str, mask: Value | None, memory: DType, lanes: int, align: int = 0) -> Value:
    """Consecutive elements, aligned to `align` bytes (0: to their size)."""
    kind, align = llvm_type(memory, lanes), align or memory.itemsize
    if mask is None:
        return b.result(memory, lanes, f"load {kind}, ptr {address}, align {align}")
    name = f"llvm.masked.load.{mangled(memory, lanes)}.p0"
    b.declarations.add(f"declare {kind} @{name}(ptr, {mask.type}, {kind})")
    call = f"call {kind} @{name}(ptr align {align} {address}, {mask.typed}, {kind} zeroinitializer)"
    return b.result(memory, lanes, call)


def load_mostly_whole(b: TextBuilder, address: str, mask: Value, memory: DType, lanes: int) -> Value:
    """Consecutive elements that no instruction masks: by one without a mask where all lanes are active, else one by one."""
    kind = llvm_type(memory, lanes)
    every = b.call(f"llvm.vector.reduce.and.v{lanes}i1", bool_, 1, mask)
    b.line(f"br {every.typed}, label %whole, label %parts")
    b.start_block("whole")
    whole = masked_load(b, address, None, memory, lanes)
    b.line("br label %done")
    b.start_block("parts")
    parts = masked_load(b, address, mask, memory, lanes)
    b.line("br label %done")
    b.start_block("done")
    return b.result(memory, lanes, f"phi {kind} [ {whole.text}, %whole ], [ {parts.text}, %parts ]")


def most_apart(lanes: int) -> int:
    """The largest stride that is read by whole vectors and shuffles: `stride` vectors are loaded, and with at least two lanes from each
    they are faster than a load per lane."""
    return max(4, min(8, lanes // 2))


def lowest(b: TextBuilder, offset: Value, stride: int, lanes: int) -> Value:
    """The smallest offset of lanes `stride` apart: lane 0's, or the last lane's for a negative stride."""
    return offset if stride > 0 else b.binary("add", offset, b.constant(offset, (lanes - 1) * stride))


def reversed_lanes(b: TextBuilder, value: Value) -> Value:
    """A vector with its lanes reversed: access of a negative stride is that of the positive one from the other end, reversed."""
    return b.shuffle(value, value, list(range(value.lanes))[::-1])


def load_strided(
    b: TextBuilder, base: str, offset: Value, stride: int, memory: DType, lanes: int, mask: Value | None = None
) -> Value:
    """Loads `stride` whole vectors that cover the lanes, the last one ending at the last lane, and shuffles the lanes out of them.

    Under a mask, only elements of active lanes are loaded: each vector has the mask of its lanes, with inactive elements between.
    """
    starts = [lanes * part for part in range(stride - 1)] + [(lanes - 1) * stride + 1 - lanes]
    parts = []
    for start in starts:
        address = address_of(b, base, b.binary("add", offset, b.constant(offset, start)), memory)
        order = [divmod(start + k, stride) for k in range(lanes)]
        spread = mask and b.shuffle(mask, b.constant(mask, False), [lanes if rest else lane for lane, rest in order])
        parts.append(masked_load(b, address, spread, memory, lanes))
    total, filled = parts[0], {k: k * stride for k in range(lanes) if k * stride < lanes}
    for start, part in zip(starts[1:], parts[1:], strict=True):
        fresh = {k: k * stride - start for k in range(lanes) if start <= k * stride < start + lanes and k not in filled}
        now = [fresh[k] + lanes if k in fresh else filled.get(k, 0) for k in range(lanes)]
        if part is parts[1]:
            total = b.shuffle(total, part, now)
        else:
            total = b.shuffle(total, part, [fresh[k] + lanes if k in fresh else k for k in range(lanes)])
        filled |= dict.fromkeys(fresh, 0)
    return total


def load_from_window(
    b: TextBuilder, base: str, offset: Value, stride: int, before: int, span: int, memory: DType, lanes: int
) -> Value:
    """Lanes `stride` apart out of a window of `stride` whole vectors, shared by reads up to `span` elements apart: it begins `before`
    elements before the first lane, and its last vector ends at the last lane of the furthest read.

    Where the vectors are contiguous, an even stride is halved first, so that reads of every second element share these shuffles too.
    """
    starts = [lanes * part for part in range(stride - 1)] + [(lanes - 1) * stride + span + 1 - lanes]
    parts = [
        masked_load(
            b,
            address_of(b, base, b.binary("add", offset, b.constant(offset, start - before)), memory),
            None,
            memory,
            lanes,
        )
        for start in starts
    ]
    while span == stride - 1 and stride % 2 == 0 and stride > 1:
        picked = [2 * k + before % 2 for k in range(lanes)]
        parts = [b.shuffle(*pair, picked) for pair in zip(parts[::2], parts[1::2], strict=True)]
        stride, span, before = stride // 2, span // 2, before // 2
        starts = [lanes * part for part in range(stride)]
    total, filled = parts[0], {k for k in range(lanes) if k * stride + before < lanes}
    order = [k * stride + before if k in filled else 0 for k in range(lanes)]
    for start, part in zip(starts[1:], parts[1:], strict=True):
        fresh = {
            k: k * stride + before - start
            for k in range(lanes)
            if k not in filled and k * stride + before < start + lanes
        }
        total = b.shuffle(total, part, [fresh[k] + lanes if k in fresh else order[k] for k in range(lanes)])
        filled |= fresh.keys()
        order = list(range(lanes))
    return b.shuffle(total, total, order) if len(parts) == 1 and order != list(range(lanes)) else total


def interleave(b: TextBuilder, values: Sequence[Value]) -> list[Value]:
    """Interleaves `count` vectors into as many: element e of the result, end to end, is lane e // count of vector e mod count.

    An even number of vectors is split into even and odd ones: k·log₂ k shuffles where k is a power of two.
    """
    lanes, count = values[0].lanes, len(values)
    if count > 2 and count % 2 == 0:
        halves = zip(interleave(b, values[::2]), interleave(b, values[1::2]), strict=True)
        return [part for pair in halves for part in interleave(b, pair)]
    parts = []
    for start in range(0, count * lanes, lanes):
        total = values[0]
        for which in range(1, count):
            picked = []
            for position in range(lanes):
                lane, source = divmod(start + position, count)
                there = lane if which == 1 else position  # the first shuffle brings vector 0 into its places too
                picked.append(lane + lanes if source == which else there)
            total = b.shuffle(total, values[which], picked)
        parts.append(total)
    return parts


def ramp(b: TextBuilder, offset: Value, stride: int, lanes: int) -> Value:
    """Offsets of lanes that are `stride` apart."""
    offsets = ", ".join(f"i64 {k * stride}" for k in range(lanes))
    return b.binary("add", b.spread(offset, lanes), Value(i64, lanes, f"<{offsets}>"))


def _addresses(b: TextBuilder, base: str, offsets: Value, memory: DType) -> tuple[str, str]:
    kind = f"<{offsets.lanes} x ptr>"
    return kind, b.result(
        memory, offsets.lanes, f"getelementptr {scalar_type(memory)}, ptr {base}, {offsets.typed}"
    ).text


def _all_lanes(mask: Value | None, lanes: int) -> str:
    return mask.typed if mask else f"<{lanes} x i1> splat (i1 true)"


def gather(b: TextBuilder, base: str, offsets: Value, mask: Value | None, memory: DType) -> Value:
    """The elements at the offsets."""
    lanes = offsets.lanes
    if memory.bits < _GATHERED_BITS and b.can.vector_bits == 512:
        return _gather_words(b, base, offsets, mask, memory)
    if _is_loop(lanes, memory):
        return _gather_in_turn(b, base, offsets, mask, memory)
    pointers, addresses = _addresses(b, base, offsets, memory)
    if mask is not None and memory.bits < _GATHERED_BITS:
        addresses, mask = _redirected(b, pointers, addresses, mask, memory), None
    return _gather_from(b, pointers, addresses, mask, memory, lanes)


def _gather_from(
    b: TextBuilder,
    pointers: str,
    addresses: str,
    mask: Value | None,
    memory: DType,
    lanes: int,
    aligned: int | None = None,
) -> Value:
    kind = llvm_type(memory, lanes)
    name = f"llvm.masked.gather.{mangled(memory, lanes)}.v{lanes}p0"
    b.declarations.add(f"declare {kind} @{name}({pointers}, <{lanes} x i1>, {kind})")
    where = f"{pointers} align {aligned or memory.itemsize} {addresses}"
    return b.result(memory, lanes, f"call {kind} @{name}({where}, {_all_lanes(mask, lanes)}, {kind} zeroinitializer)")


def _gather_words(b: TextBuilder, base: str, offsets: Value, mask: Value | None, memory: DType) -> Value:
    """Gathers elements of 8 or 16 bits as parts of 32-bit words: an aligned word is readable if one of its bytes is.

    Words are addressed relative to the first element, so that their offsets need no more bits than the given ones: 16 of 32 bits are
    gathered at once. Elements of 16 bits at odd addresses lie in the middle of the word that begins one byte before; some straddle two
    aligned words.
    """
    lanes, bits = offsets.lanes, 8 * memory.itemsize
    address = Value(i64, 1, b.result(i64, 1, f"ptrtoint ptr {base} to i64").text)
    odd = b.binary("and", address, b.constant(address, memory.itemsize - 1))
    begin = b.binary("lshr", address, b.constant(address, memory.itemsize - 1))
    parts = b.binary("sub", b.constant(odd, _GATHERED_BITS // bits - 1), odd)
    of_all = lambda scalar: b.spread(_resized(b, scalar, offsets.dtype), lanes)
    part = b.binary("and", b.binary("add", offsets, of_all(begin)), of_all(parts))
    first = address_of(b, base, b.binary("sub", b.constant(odd, 0), odd), u8)
    pointers, addresses = _addresses(b, first, b.binary("sub", offsets, part), memory)
    found = _gather_from(b, pointers, addresses, mask, u32, lanes, aligned=1)
    before = b.binary(
        "add", b.binary("mul", part, b.constant(part, bits)), of_all(b.binary("shl", odd, b.constant(odd, 3)))
    )
    shifted = b.binary("lshr", found, _resized(b, before, u32))
    return b.convert("bitcast", b.convert("trunc", shifted, unsigned(memory.bits)), memory)


def _resized(b: TextBuilder, number: Value, dtype: DType) -> Value:
    """An integer truncated to the type's width, or as it is where it has no more bits."""
    return b.convert("trunc" if number.dtype.bits > dtype.bits else "bitcast", number, dtype)


def _redirected(b: TextBuilder, pointers: str, addresses: str, mask: Value, memory: DType) -> str:
    """Addresses with those of inactive lanes replaced by a zero's, so that elements read one by one need no tests."""
    nowhere = _room(b, Value(memory, 1, "zeroinitializer"))
    first, each, chosen = b.name(), b.name(), b.name()
    b.line(f"{first} = insertelement {pointers} poison, ptr {nowhere}, i64 0")
    b.line(f"{each} = shufflevector {pointers} {first}, {pointers} poison, <{mask.lanes} x i32> zeroinitializer")
    b.line(f"{chosen} = select {mask.typed}, {pointers} {addresses}, {pointers} {each}")
    return chosen


def scatter(b: TextBuilder, base: str, offsets: Value, values: Value, mask: Value | None) -> None:
    """Stores the lanes at the offsets; the last lane wins where offsets coincide."""
    lanes = offsets.lanes
    if _is_loop(lanes, values.dtype):
        _scatter_in_turn(b, base, offsets, values, mask)
        return
    pointers, addresses = _addresses(b, base, offsets, values.dtype)
    name = f"llvm.masked.scatter.{mangled(values.dtype, lanes)}.v{lanes}p0"
    b.declarations.add(f"declare void @{name}({values.type}, {pointers}, <{lanes} x i1>)")
    where = f"{pointers} align {values.dtype.itemsize} {addresses}"
    b.line(f"call void @{name}({values.typed}, {where}, {_all_lanes(mask, lanes)})")


def _is_loop(lanes: int, memory: DType) -> bool:
    return lanes >= _MANY and memory.bits < _GATHERED_BITS


def _gather_in_turn(b: TextBuilder, base: str, offsets: Value, mask: Value | None, memory: DType) -> Value:
    nowhere = _room(b, Value(memory, 1, "zeroinitializer"))
    found = _room(b, Value(memory, offsets.lanes, "zeroinitializer"))
    lane, address, close = _each_lane(b, base, offsets, mask, memory, nowhere)
    element = b.result(memory, 1, f"load {scalar_type(memory)}, ptr {address}, align {memory.itemsize}")
    b.line(f"store {element.typed}, ptr {address_of(b, found, lane, memory)}, align {memory.itemsize}")
    close()
    return b.result(memory, offsets.lanes, f"load {llvm_type(memory, offsets.lanes)}, ptr {found}, align 64")


def _scatter_in_turn(b: TextBuilder, base: str, offsets: Value, values: Value, mask: Value | None) -> None:
    memory = values.dtype
    nowhere, given = _room(b, Value(memory, 1, "zeroinitializer")), _room(b, values)
    lane, address, close = _each_lane(b, base, offsets, mask, memory, nowhere)
    source = address_of(b, given, lane, memory)
    element = b.result(memory, 1, f"load {scalar_type(memory)}, ptr {source}, align {memory.itemsize}")
    b.line(f"store {element.typed}, ptr {address}, align {memory.itemsize}")
    close()


def _room(b: TextBuilder, value: Value) -> str:
    """Stack memory that holds `value`."""
    room = b.name()
    b.line(f"{room} = alloca {value.type}, align 64")
    b.line(f"store {value.typed}, ptr {room}, align 64")
    return room


def _each_lane(
    b: TextBuilder, base: str, offsets: Value, mask: Value | None, memory: DType, nowhere: str
) -> tuple[Value, str, Callable[[], None]]:
    """Begins a loop over the lanes. Returns the lane, its element's address (`nowhere` if inactive), and a function that ends the loop."""
    offset_room = _room(b, b.convert("sext", offsets, i64))
    mask_room = _room(b, b.convert("zext", mask, u8)) if mask else ""
    before, loop, done, after = b.label, b.fresh_label("lane"), b.fresh_label("lanes"), b.name()
    lane = Value(i64, 1, b.name())
    b.line(f"br label %{loop}")
    b.start_block(loop)
    b.line(f"{lane.text} = phi i64 [ 0, %{before} ], [ {after}, %{loop} ]")
    offset = b.result(i64, 1, f"load i64, ptr {address_of(b, offset_room, lane, i64)}, align 8")
    address = address_of(b, base, offset, memory)
    if mask:
        byte = b.result(u8, 1, f"load i8, ptr {address_of(b, mask_room, lane, u8)}, align 1")
        on = b.compare("ne", byte, b.constant(byte, 0))
        address = b.result(memory, 1, f"select {on.typed}, ptr {address}, ptr {nowhere}").text

    def close() -> None:
        b.line(f"{after} = add i64 {lane.text}, 1")
        more = b.compare("ult", Value(i64, 1, after), b.constant(lane, offsets.lanes))
        b.line(f"br {more.typed}, label %{loop}, label %{done}")
        b.start_block(done)

    return lane, address, close
