"""Helper functions for memory access. Each takes a base pointer and an i64 element offset, so that no `inbounds` address is computed for a
masked-off access. Elements have their memory representation: booleans are bytes."""

from __future__ import annotations

import numpy as np

from raido.algo.graph.dtypes import DType, bool_, i64, unsigned
from raido.schedule.cost.streams import PAGE
from raido.targets.llvm.atomics import write_atomic, write_exchange, write_look
from raido.targets.llvm.helper_texts import HelperTexts, Shape
from raido.targets.llvm.memory import (
    address_of,
    gather,
    interleave,
    load_from_window,
    load_if,
    load_mostly_whole,
    load_strided,
    lowest,
    masked_load,
    most_apart,
    ramp,
    reversed_lanes,
    scatter,
)
from raido.targets.llvm.tables import look_up, shifted
from raido.targets.llvm.text import TextBuilder, Value, llvm_type, mangled, memory_dtype, scalar_type


class MemoryHelpers:
    """Symbols of functions that read, write or query memory."""

    def __init__(self, texts: HelperTexts) -> None:
        self._texts = texts

    def load(self, dtype: DType, lanes: int, masked: bool, stride: int = 1) -> str:
        """(base, offset[, mask]) -> lanes `stride` apart; inactive lanes are 0."""
        memory = memory_dtype(dtype)
        symbol = f"rd.load{stride}{'.masked' if masked else ''}.{memory.name}x{lanes}".replace("-", "m")
        shapes: list[Shape | str] = ["ptr", (i64, 1)] + ([(bool_, lanes)] if masked else [])

        def body(b: TextBuilder, base: str, offset: Value, mask: Value | None = None) -> str:
            if lanes == 1:
                return load_if(b, base, offset, mask, memory).text
            if stride == 1:
                address = address_of(b, base, offset, memory)
                if mask is not None and memory.bits < 32 and b.can.vector_bits < 512:
                    return load_mostly_whole(b, address, mask, memory, lanes).text
                return masked_load(b, address, mask, memory, lanes).text
            if stride == -1:
                mask = reversed_lanes(b, mask) if mask else None
                low = address_of(b, base, lowest(b, offset, stride, lanes), memory)
                return reversed_lanes(b, masked_load(b, low, mask, memory, lanes)).text
            cheap = mask is None or memory.bits >= 32 or b.can.vector_bits == 512  # masked access
            if cheap and 2 <= abs(stride) <= most_apart(lanes):
                mask = reversed_lanes(b, mask) if mask and stride < 0 else mask
                rising = load_strided(b, base, lowest(b, offset, stride, lanes), abs(stride), memory, lanes, mask)
                return (rising if stride > 0 else reversed_lanes(b, rising)).text
            return gather(b, base, ramp(b, offset, stride, lanes), mask, memory).text

        return self._texts.write(symbol, llvm_type(memory, lanes), shapes, body)

    def load_groups(self, dtype: DType, lanes: int, count: int, masked: bool, backwards: bool) -> str:
        """(base, offset[, mask]) -> `count` consecutive elements for each lane; those of inactive lanes are 0. backwards: the last one first.

        (Elements are reversed as they are read: LLVM 22 makes wrong code of `llvm.bitreverse` of a comparison reinterpreted as bytes.)
        """
        memory = memory_dtype(dtype)
        kind, every = llvm_type(memory, lanes * count), range(lanes * count)

        def body(b: TextBuilder, base: str, offset: Value, mask: Value | None = None) -> str:
            address = address_of(b, base, offset, memory)
            if mask is None:
                loaded = masked_load(b, address, None, memory, lanes * count)
            else:
                loaded = masked_load(b, address, mask, unsigned(count * memory.bits), lanes, memory.itemsize)
                loaded = b.result(memory, lanes * count, f"bitcast {loaded.typed} to {kind}")
            order = [k - k % count + count - 1 - k % count for k in every]
            return (b.shuffle(loaded, loaded, order) if backwards else loaded).text

        shapes: list[Shape | str] = ["ptr", (i64, 1)] + ([(bool_, lanes)] if masked else [])
        marks = ".masked" * masked + ".backwards" * backwards
        return self._texts.write(f"rd.load_groups{count}{marks}.{memory.name}x{lanes}", kind, shapes, body)

    def load_from_window(self, dtype: DType, lanes: int, stride: int, before: int, span: int) -> str:
        """(base, offset) -> lanes `stride` apart, out of vectors that neighbouring reads load too (see `memory.load_from_window`)."""
        memory = memory_dtype(dtype)

        def body(b: TextBuilder, base: str, offset: Value) -> str:
            low = lowest(b, offset, stride, lanes)
            rising = load_from_window(b, base, low, abs(stride), before, span, memory, lanes)
            return (rising if stride > 0 else reversed_lanes(b, rising)).text

        symbol = f"rd.window{stride}.{before}.{span}.{memory.name}x{lanes}".replace("-", "m")
        return self._texts.write(symbol, llvm_type(memory, lanes), ["ptr", (i64, 1)], body)

    def store(self, dtype: DType, lanes: int, masked: bool, stride: int = 1) -> str:
        """(base, offset, value[, mask]) -> 0: stores lanes `stride` apart."""
        memory = memory_dtype(dtype)
        symbol = f"rd.store{stride}{'.masked' if masked else ''}.{memory.name}x{lanes}".replace("-", "m")
        shapes: list[Shape | str] = ["ptr", (i64, 1), (memory, lanes)] + ([(bool_, lanes)] if masked else [])

        def body(b: TextBuilder, base: str, offset: Value, value: Value, mask: Value | None = None) -> str:
            if stride == -1:
                offset = lowest(b, offset, stride, lanes)
                value, mask = reversed_lanes(b, value), reversed_lanes(b, mask) if mask else None
            if stride in (1, -1):
                address = address_of(b, base, offset, memory)
                if mask is None:
                    b.line(f"store {value.typed}, ptr {address}, align {memory.itemsize}")
                else:
                    name = f"llvm.masked.store.{mangled(memory, lanes)}.p0"
                    b.declarations.add(f"declare void @{name}({value.type}, ptr, {mask.type})")
                    b.line(f"call void @{name}({value.typed}, ptr align {memory.itemsize} {address}, {mask.typed})")
            else:
                scatter(b, base, ramp(b, offset, stride, lanes), value, mask)
            return "0"

        return self._texts.write(symbol, "i32", shapes, body)

    def made(self, dtype: DType, lanes: int) -> str:
        """(value) -> the same value, opaque to LLVM's optimiser if it fills a register."""
        memory = memory_dtype(dtype)
        bits = lanes * memory.bits
        one_register = bits in (128, 256, 512) and bits <= self._texts.can.vector_bits

        def body(b: TextBuilder, value: Value) -> str:
            hidden = f'call {value.type} asm "", "=v,0"({value.typed})'
            return b.result(memory, lanes, hidden).text if one_register else value.text

        return self._texts.write(f"rd.made.{memory.name}x{lanes}", llvm_type(memory, lanes), [(memory, lanes)], body)

    def store_interleaved(self, dtype: DType, lanes: int, count: int) -> str:
        """(base, offset, values…) -> 0: stores the first lane of each value, then the second of each, and so on, contiguously."""
        memory = memory_dtype(dtype)

        def body(b: TextBuilder, base: str, offset: Value, *values: Value) -> str:
            for start, part in enumerate(interleave(b, values)):
                address = address_of(b, base, b.binary("add", offset, b.constant(offset, start * lanes)), memory)
                b.line(f"store {part.typed}, ptr {address}, align {memory.itemsize}")
            return "0"

        shapes: list[Shape | str] = ["ptr", (i64, 1), *[(memory, lanes)] * count]
        return self._texts.write(f"rd.store_interleaved{count}.{memory.name}x{lanes}", "i32", shapes, body)

    def gather(self, dtype: DType, lanes: int, masked: bool, offset: DType = i64) -> str:
        """(base, start, offsets from it, of type `offset`[, mask]) -> values; inactive lanes are 0."""
        memory = memory_dtype(dtype)
        shapes: list[Shape | str] = ["ptr", (i64, 1), (offset, lanes)] + ([(bool_, lanes)] if masked else [])

        def body(b: TextBuilder, base: str, start: Value, offsets: Value, mask: Value | None = None) -> str:
            return gather(b, address_of(b, base, start, memory), offsets, mask, memory).text

        symbol = f"rd.gather{'.masked' if masked else ''}.{memory.name}x{lanes}.{offset.name}"
        return self._texts.write(symbol, llvm_type(memory, lanes), shapes, body)

    def look_up(self, dtype: DType, lanes: int, masked: bool, entries: int) -> str:
        """(base, start, offsets from it[, mask]) -> values of a small table that begins at `start`; inactive lanes are 0."""
        memory = memory_dtype(dtype)
        shapes: list[Shape | str] = ["ptr", (i64, 1), (i64, lanes)] + ([(bool_, lanes)] if masked else [])

        def body(b: TextBuilder, base: str, start: Value, offsets: Value, mask: Value | None = None) -> str:
            return look_up(b, address_of(b, base, start, memory), offsets, mask, memory, entries).text

        symbol = f"rd.look_up{entries}{'.masked' if masked else ''}.{memory.name}x{lanes}"
        return self._texts.write(symbol, llvm_type(memory, lanes), shapes, body)

    def scatter(self, dtype: DType, lanes: int, masked: bool) -> str:
        """(base, start, offsets from it, values[, mask]) -> 0; the last lane wins where offsets coincide."""
        memory = memory_dtype(dtype)
        shapes: list[Shape | str] = ["ptr", (i64, 1), (i64, lanes), (memory, lanes)]

        def body(
            b: TextBuilder, base: str, start: Value, offsets: Value, values: Value, mask: Value | None = None
        ) -> str:
            scatter(b, address_of(b, base, start, memory), offsets, values, mask)
            return "0"

        symbol = f"rd.scatter{'.masked' if masked else ''}.{memory.name}x{lanes}"
        return self._texts.write(symbol, "i32", shapes + [(bool_, lanes)] * masked, body)

    def stream(self, dtype: DType, lanes: int) -> str:
        """(base, offset, value) -> 0: a non-temporal store; the address is aligned to the vector."""
        memory = memory_dtype(dtype)

        def body(b: TextBuilder, base: str, offset: Value, value: Value) -> str:
            address = address_of(b, base, offset, memory)
            b.line(f"store {value.typed}, ptr {address}, align {memory.itemsize * lanes}, !nontemporal !0")
            return "0"

        return self._texts.write(f"rd.stream.{memory.name}x{lanes}", "i32", ["ptr", (i64, 1), (memory, lanes)], body)

    def shifted(self, dtype: DType, lanes: int) -> str:
        """(before, value, short) -> the last `lanes - short` lanes of `before` and the first `short` of `value`: vectors of 512 bits."""
        memory = memory_dtype(dtype)
        body = lambda b, before, value, short: shifted(b, before, value, short).text
        vector = (memory, lanes)
        return self._texts.write(
            f"rd.shifted.{memory.name}x{lanes}", llvm_type(memory, lanes), [vector, vector, (i64, 1)], body
        )

    def store_outside(self, dtype: DType, lanes: int) -> str:
        """(base, offset, value, place, first, end) -> 0: stores the lanes whose indices place, place + 1, … are outside first … end − 1."""
        memory = memory_dtype(dtype)

        def body(
            b: TextBuilder, base: str, offset: Value, value: Value, element: Value, first: Value, end: Value
        ) -> str:
            count, zero, ones = (b.constant(element, v) for v in (lanes, 0, -1))
            before, until = b.binary("sub", first, element), b.binary("sub", end, element)
            low = b.select(b.compare("sgt", before, zero), before, zero)
            high = b.select(b.compare("sgt", until, zero), until, zero)
            head = b.binary("xor", b.binary("shl", ones, low), ones)
            head = b.select(b.compare("slt", low, count), head, ones)
            tail = b.select(b.compare("slt", high, count), b.binary("shl", ones, high), zero)
            bits = b.binary("or", head, tail).text
            if lanes < 64:
                b.line(f"%kept = trunc i64 {bits} to i{lanes}")
            mask = b.result(
                bool_, lanes, f"bitcast i{lanes} {'%kept' if lanes < 64 else bits} to {llvm_type(bool_, lanes)}"
            )
            address = address_of(b, base, offset, memory)
            name = f"llvm.masked.store.{mangled(memory, lanes)}.p0"
            b.declarations.add(f"declare void @{name}({value.type}, ptr, {mask.type})")
            b.line(f"call void @{name}({value.typed}, ptr align {memory.itemsize} {address}, {mask.typed})")
            return "0"

        shapes: list[Shape | str] = ["ptr", (i64, 1), (memory, lanes), *[(i64, 1)] * 3]
        return self._texts.write(f"rd.store_outside.{memory.name}x{lanes}", "i32", shapes, body)

    def misalignment(self, dtype: DType, lanes: int) -> str:
        """(base, offset) -> elements up to the next address aligned to a vector; `lanes` where no element lies at such an address."""
        memory = memory_dtype(dtype)
        size = memory.itemsize * lanes

        def body(b: TextBuilder, base: str, offset: Value) -> str:
            number = b.result(i64, 1, f"ptrtoint ptr {address_of(b, base, offset, memory)} to i64")
            short = b.binary("and", b.binary("sub", b.constant(number, 0), number), b.constant(number, size - 1))
            elements = b.binary("udiv", short, b.constant(number, memory.itemsize))
            rest = b.binary("and", number, b.constant(number, memory.itemsize - 1))
            never = b.compare("ne", rest, b.constant(number, 0))
            return b.select(never, b.constant(number, lanes), elements).text

        return self._texts.write(f"rd.misalignment.{memory.name}x{lanes}", "i64", ["ptr", (i64, 1)], body)

    def apart(self, dtype: DType) -> str:
        """(offset, other) -> 1 if rows that begin there are at least `streams_apart` bytes apart modulo the page size, else 0
        (`cost.streams`)."""
        memory, least = memory_dtype(dtype), self._texts.can.streams_apart

        def body(b: TextBuilder, offset: Value, other: Value) -> str:
            distance = b.binary("mul", b.binary("sub", offset, other), b.constant(offset, memory.itemsize))
            moved = b.binary("and", b.binary("sub", distance, b.constant(offset, least)), b.constant(offset, PAGE - 1))
            return b.convert("zext", b.compare("ule", moved, b.constant(offset, PAGE - 2 * least)), i64).text

        return self._texts.write(f"rd.apart.{memory.name}", "i64", [(i64, 1), (i64, 1)], body)

    def prefetch(self, dtype: DType) -> str:
        """(base, offset) -> 0: prefetches the element's cache line for reading."""
        memory = memory_dtype(dtype)

        def body(b: TextBuilder, base: str, offset: Value) -> str:
            b.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
            b.line(f"call void @llvm.prefetch.p0(ptr {address_of(b, base, offset, memory)}, i32 0, i32 3, i32 1)")
            return "0"

        return self._texts.write(f"rd.prefetch.{memory.name}", "i32", ["ptr", (i64, 1)], body)

    def constant_array(self, digest: str, array: np.ndarray) -> str:
        """() -> the address of the array's bytes in the object's read-only data."""
        name = f"rd.data.{digest[:24]}"
        if name not in self._texts.constants:
            data = np.ascontiguousarray(array).tobytes()
            data += bytes(-len(data) % 64)  # look-ups load whole registers
            escaped = "".join(f"\\{byte:02X}" for byte in data)
            kind = f"[{len(data)} x i8]"
            self._texts.constants[name] = f'@{name} = internal unnamed_addr constant {kind} c"{escaped}", align 64'
        return self._texts.write(f"rd.at.{digest[:24]}", "ptr", (), lambda b: f"@{name}")

    # --- memory that threads change at the same time

    def atomic(self, opcode: str, dtype: DType) -> str:
        """(base, offset, value) -> 0: an atomic read-modify-write of the element by `opcode`."""
        memory = memory_dtype(dtype)
        body = lambda b, base, offset, value: write_atomic(b, opcode, base, offset, value)
        return self._texts.write(f"rd.atomic.{opcode}.{memory.name}", "i32", ["ptr", (i64, 1), (memory, 1)], body)

    def look(self, dtype: DType) -> str:
        """(base, offset) -> the element, by a relaxed atomic load."""
        memory = memory_dtype(dtype)
        body = lambda b, base, offset: write_look(b, memory, base, offset)
        return self._texts.write(f"rd.look.{memory.name}", scalar_type(memory), ["ptr", (i64, 1)], body)

    def exchange(self, dtype: DType) -> str:
        """(base, offset, held, new) -> 0 if the element equalled `*held` and is `new` now; else 1, and `*held` is the element."""
        memory = memory_dtype(dtype)
        return self._texts.write(
            f"rd.exchange.{memory.name}", "i32", ["ptr", (i64, 1), "ptr", (memory, 1)], write_exchange
        )
