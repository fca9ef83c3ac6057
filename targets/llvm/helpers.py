"""The helper functions that one module needs, in LLVM assembly, each written once: operations, memory access, lanes, the runtime.

`Helpers` hands out symbols and keeps the texts; `text()` is linked into the module. Memory helpers take a base pointer and an i64
element offset, so that an address out of bounds under a mask that is off is never even computed as "in bounds".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from raido.algo.graph.dtypes import DType, bool_, f32, i32, i64, signed, u8
from raido.algo.graph.expr import Const
from raido.targets.faults import FAULT_CODES
from raido.targets.llvm.atomics import write_atomic, write_exchange, write_look
from raido.targets.llvm.compress import write_compress
from raido.targets.llvm.memory import (
    address_of,
    gather,
    interleave,
    load_if,
    load_strided,
    masked_load,
    ramp,
    scatter,
)
from raido.targets.llvm.operations import write_operation
from raido.targets.llvm.roots import LANES as ROOT_LANES
from raido.targets.llvm.roots import write_root
from raido.targets.llvm.tables import look_up
from raido.targets.llvm.text import TextBuilder, Value, llvm_type, mangled, memory_dtype, scalar_type

Shape = tuple[DType, int]  # element type and lanes
_INLINED_RECIPES = 400  # lines


class Helpers:
    """Helper functions of one module, by symbol. `fused`: the machine has a fused multiply-add, `vector_bits`: its registers.

    `math_functions` are those that helpers call, by symbol (they begin with `prefix`): whoever makes the module defines them by
    `whole`. They run where some lane needs a value that hardly any does.
    """

    def __init__(self, prefix: str, fused: bool, vector_bits: int) -> None:
        self.prefix = prefix
        self.fused = fused
        self.vector_bits = vector_bits
        self.math_functions: dict[str, tuple[str, tuple[Shape, ...]]] = {}
        self._functions: dict[str, str] = {}
        self._declarations: set[str] = set()
        self._constants: dict[str, str] = {}

    def text(self) -> str:
        """Everything asked for so far, as one LLVM module."""
        return "\n\n".join(
            [*sorted(self._declarations), *self._constants.values(), *self._functions.values(), "!0 = !{i32 1}\n"]
        )

    def _write(self, symbol: str, result: str, shapes: Sequence[Shape | str], body: Callable[..., str]) -> str:
        """Adds the function unless it is there; `body` appends to a builder and gives the text of what is returned."""
        if symbol not in self._functions:
            b = TextBuilder(self.fused, self.vector_bits)
            types = [s if isinstance(s, str) else llvm_type(*s) for s in shapes]
            names = [f"%p{i}" for i in range(len(shapes))]
            parameters = ", ".join(f"{kind} {name}" for kind, name in zip(types, names, strict=True))
            args = [n if isinstance(s, str) else Value(*s, n) for s, n in zip(shapes, names, strict=True)]
            b.line(f"ret {result} {body(b, *args)}")
            attributes = "alwaysinline nounwind" if len(b.lines) < _INLINED_RECIPES else "inlinehint nounwind"
            self._functions[symbol] = b.function(symbol, result, parameters, attributes)
            self._declarations |= b.declarations
            self._constants |= b.globals
        return symbol

    # --- values

    def operation(
        self, name: str, dtype: DType, operands: Sequence[Shape], literals: dict[int, int] | None = None
    ) -> str:
        """Primitive `name`; operands in `literals` (by position) are those constants, and are ignored when passed."""
        literals = literals or {}
        marks = "".join(f".{position}is{value}".replace("-", "m") for position, value in literals.items())
        symbol = f"rd.{name}.{dtype.name}." + ".".join(f"{d.name}x{n}" for d, n in operands) + marks
        lanes = max(n for _, n in operands)

        def body(b: TextBuilder, *args: Value) -> str:
            b.call_apart = self._call_apart
            given = [b.constant(a, literals[i]) if i in literals else a for i, a in enumerate(args)]
            return write_operation(b, name, dtype, *given).text

        return self._write(symbol, llvm_type(dtype, lanes), operands, body)

    def _call_apart(self, b: TextBuilder, name: str, args: Sequence[Value]) -> Value:
        """A call of a math function that is not inlined."""
        like = args[0]
        symbol = f"{self.prefix}.{name}.{like.dtype.name}x{like.lanes}"
        self.math_functions[symbol] = (name, tuple((a.dtype, a.lanes) for a in args))
        b.declarations.add(f"declare i32 @{symbol}({', '.join(a.type for a in args)}, ptr)")
        slot = b.name()
        b.lines.insert(0, f"  {slot} = alloca {like.type}, align 64")
        often = "" if name == "fma" else " cold"
        b.line(f"{b.name()} = call i32 @{symbol}({', '.join(a.typed for a in args)}, ptr {slot}) noinline{often}")
        return b.result(like.dtype, like.lanes, f"load {like.type}, ptr {slot}, align 64")

    def whole(self, name: str, operands: Sequence[Shape]) -> str:
        """A math function that takes both sides of its branches in place."""
        dtype, lanes = operands[0]
        body = lambda b, *args: write_operation(b, name, dtype, *args).text
        return self._write(f"rd.whole.{name}.{dtype.name}x{lanes}", llvm_type(dtype, lanes), operands, body)

    def root_by_products(self) -> str:
        """The square roots of sixteen f32 without the divider."""
        shape = (f32, ROOT_LANES)
        return self._write("rd.root", llvm_type(*shape), [shape], lambda b, x: write_root(b, x).text)

    def step_where(self, dtype: DType, lanes: int) -> str:
        """(mask, x, step, y) -> x + step in the lanes that are on, else y: one masked addition, if LLVM does not know the step.

        What fills a register is hidden from it there.
        """
        one_register = lanes * dtype.bits in (128, 256, 512) and lanes * dtype.bits <= self.vector_bits

        def body(b: TextBuilder, mask: Value, x: Value, step: Value, y: Value) -> str:
            if one_register:
                step = b.result(dtype, lanes, f'call {x.type} asm "", "=v,0"({step.typed})')
            return b.select(mask, b.binary("add", x, step), y).text

        shapes: list[Shape | str] = [(bool_, lanes), *[(dtype, lanes)] * 3]
        return self._write(f"rd.step.{dtype.name}x{lanes}", llvm_type(dtype, lanes), shapes, body)

    def literal(self, dtype: DType, bits: int) -> str:
        """A constant by its bits, for what TIR's literals cannot hold."""
        whole = f"i{dtype.itemsize * 8}"

        def body(b: TextBuilder) -> str:
            return b.result(dtype, 1, f"bitcast {whole} {bits} to {scalar_type(dtype)}").text

        return self._write(f"rd.literal.{dtype.name}.{bits:x}".replace("-", "m"), scalar_type(dtype), (), body)

    def pack_mask(self, lanes: int) -> str:
        """A vector of bool as a vector of i8, which TIR can name."""
        body = lambda b, mask: b.convert("sext", mask, u8).text
        return self._write(f"rd.pack.x{lanes}", llvm_type(u8, lanes), [(bool_, lanes)], body)

    def unpack_mask(self, lanes: int) -> str:
        """The inverse of `pack_mask`; any byte that is not 0 is true only by its lowest bit."""
        body = lambda b, packed: b.convert("trunc", packed, bool_).text
        return self._write(f"rd.unpack.x{lanes}", llvm_type(bool_, lanes), [(u8, lanes)], body)

    def ramp(self, stride: int, lanes: int) -> str:
        """(base) -> base, base + stride, …"""
        body = lambda b, base: ramp(b, base, stride, lanes).text
        return self._write(f"rd.ramp{stride}.x{lanes}".replace("-", "m"), llvm_type(i64, lanes), [(i64, 1)], body)

    def below(self, lanes: int) -> str:
        """(base, high) -> which of base, base + 1, … are below `high`: one comparison in lanes as narrow as fill a register."""
        narrow = signed(min(64, max(8 if lanes < 256 else 16, self.vector_bits // lanes)))

        def body(b: TextBuilder, base: Value, high: Value) -> str:
            count = b.binary("sub", b.intrinsic("smax", high, base), base)
            count = b.intrinsic("umin", count, b.constant(count, lanes))
            left = b.spread(b.convert("trunc", count, narrow), lanes)
            lane = ", ".join(f"{scalar_type(narrow)} {k}" for k in range(lanes))
            return b.compare("ugt", left, Value(narrow, lanes, f"<{lane}>")).text

        return self._write(f"rd.below.x{lanes}", llvm_type(bool_, lanes), [(i64, 1), (i64, 1)], body)

    def extract(self, dtype: DType, lanes: int, lane: int) -> str:
        """One lane."""
        body = lambda b, v: b.result(dtype, 1, f"extractelement {v.typed}, i64 {lane}").text
        return self._write(f"rd.extract{lane}.{dtype.name}x{lanes}", scalar_type(dtype), [(dtype, lanes)], body)

    def half(self, dtype: DType, lanes: int, upper: bool) -> str:
        """The lower or upper half of the lanes."""
        count = lanes // 2
        picked = list(range(count, lanes) if upper else range(count))

        def body(b: TextBuilder, v: Value) -> str:
            if count == 1:
                return b.result(dtype, 1, f"extractelement {v.typed}, i64 {picked[0]}").text
            return b.shuffle(v, Value(dtype, lanes, "poison"), picked).text

        return self._write(f"rd.half{int(upper)}.{dtype.name}x{lanes}", llvm_type(dtype, count), [(dtype, lanes)], body)

    def shift(self, dtype: DType, lanes: int, distance: int, fill: int) -> str:
        """Every lane moved up by `distance`; the constant with the bits `fill` comes in."""
        picked = [lanes] * distance + list(range(lanes - distance))

        def body(b: TextBuilder, v: Value) -> str:
            return b.shuffle(v, b.constant(v, Const(dtype, fill).value), picked).text

        symbol = f"rd.shift{distance}.{fill:x}.{dtype.name}x{lanes}".replace("-", "m")
        return self._write(symbol, llvm_type(dtype, lanes), [(dtype, lanes)], body)

    def compress(self, dtype: DType, lanes: int) -> str:
        """(value, mask) -> the lanes that are on, at the front; zeros behind them."""

        def body(b: TextBuilder, value: Value, mask: Value) -> str:
            wide = b.convert("zext", value, u8) if dtype is bool_ else value
            moved = write_compress(b, wide, mask)
            return (b.convert("trunc", moved, bool_) if dtype is bool_ else moved).text

        shapes: list[Shape | str] = [(dtype, lanes), (bool_, lanes)]
        return self._write(f"rd.compress.{dtype.name}x{lanes}", llvm_type(dtype, lanes), shapes, body)

    def count(self, lanes: int) -> str:
        """(mask) -> how many lanes are on."""

        def body(b: TextBuilder, mask: Value) -> str:
            bits = b.result(i32, 1, f"bitcast {mask.typed} to i{lanes}").text
            wide = b.result(i64, 1, f"zext i{lanes} {bits} to i64") if lanes < 64 else Value(i64, 1, bits)
            return b.call("llvm.ctpop.i64", i64, 1, wide).text

        return self._write(f"rd.count.x{lanes}", "i64", [(bool_, lanes)], body)

    def reduce(self, name: str, dtype: DType, lanes: int) -> str:
        """All lanes by an exact operation LLVM reduces: or, and, xor, add, mul, smin, ..."""

        def body(b: TextBuilder, v: Value) -> str:
            return b.call(f"llvm.vector.reduce.{name}.{mangled(dtype, lanes)}", dtype, 1, v).text

        return self._write(f"rd.reduce.{name}.{dtype.name}x{lanes}", scalar_type(dtype), [(dtype, lanes)], body)

    # --- memory

    def load(self, dtype: DType, lanes: int, masked: bool, stride: int = 1) -> str:
        """(base, offset[, mask]) -> lanes `stride` apart; lanes off are 0."""
        memory = memory_dtype(dtype)
        symbol = f"rd.load{stride}{'.masked' if masked else ''}.{memory.name}x{lanes}".replace("-", "m")
        shapes: list[Shape | str] = ["ptr", (i64, 1)] + ([(bool_, lanes)] if masked else [])

        def body(b: TextBuilder, base: str, offset: Value, mask: Value | None = None) -> str:
            if lanes == 1:
                return load_if(b, base, offset, mask, memory).text
            if stride == 1:
                return masked_load(b, address_of(b, base, offset, memory), mask, memory, lanes).text
            if stride == -1:
                low = b.binary("add", offset, b.constant(offset, 1 - lanes))
                reverse = list(range(lanes))[::-1]
                mask = b.shuffle(mask, mask, reverse) if mask else None
                v = masked_load(b, address_of(b, base, low, memory), mask, memory, lanes)
                return b.shuffle(v, v, reverse).text
            if mask is None and 2 <= stride <= 4:
                return load_strided(b, base, offset, stride, memory, lanes).text
            return gather(b, base, ramp(b, offset, stride, lanes), mask, memory).text

        return self._write(symbol, llvm_type(memory, lanes), shapes, body)

    def store(self, dtype: DType, lanes: int, masked: bool, stride: int = 1) -> str:
        """(base, offset, value[, mask]) -> 0."""
        memory = memory_dtype(dtype)
        symbol = f"rd.store{stride}{'.masked' if masked else ''}.{memory.name}x{lanes}".replace("-", "m")
        shapes: list[Shape | str] = ["ptr", (i64, 1), (memory, lanes)] + ([(bool_, lanes)] if masked else [])

        def body(b: TextBuilder, base: str, offset: Value, value: Value, mask: Value | None = None) -> str:
            if stride == -1:
                offset = b.binary("add", offset, b.constant(offset, 1 - lanes))
                reverse = list(range(lanes))[::-1]
                value, mask = b.shuffle(value, value, reverse), b.shuffle(mask, mask, reverse) if mask else None
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

        return self._write(symbol, "i32", shapes, body)

    def store_interleaved(self, dtype: DType, lanes: int, count: int) -> str:
        """(base, offset, values…) -> 0: the first lane of each in turn, then the second of each, and so on, without gaps."""
        memory = memory_dtype(dtype)

        def body(b: TextBuilder, base: str, offset: Value, *values: Value) -> str:
            for start, part in enumerate(interleave(b, values)):
                address = address_of(b, base, b.binary("add", offset, b.constant(offset, start * lanes)), memory)
                b.line(f"store {part.typed}, ptr {address}, align {memory.itemsize}")
            return "0"

        shapes: list[Shape | str] = ["ptr", (i64, 1), *[(memory, lanes)] * count]
        return self._write(f"rd.store_interleaved{count}.{memory.name}x{lanes}", "i32", shapes, body)

    def gather(self, dtype: DType, lanes: int, masked: bool) -> str:
        """(base, offsets[, mask]) -> values; lanes off are 0."""
        memory = memory_dtype(dtype)
        shapes: list[Shape | str] = ["ptr", (i64, lanes)] + ([(bool_, lanes)] if masked else [])
        body = lambda b, base, offsets, mask=None: gather(b, base, offsets, mask, memory).text
        symbol = f"rd.gather{'.masked' if masked else ''}.{memory.name}x{lanes}"
        return self._write(symbol, llvm_type(memory, lanes), shapes, body)

    def look_up(self, dtype: DType, lanes: int, masked: bool, entries: int) -> str:
        """The same from a constant table of few entries."""
        memory = memory_dtype(dtype)
        shapes: list[Shape | str] = ["ptr", (i64, lanes)] + ([(bool_, lanes)] if masked else [])
        body = lambda b, base, offsets, mask=None: look_up(b, base, offsets, mask, memory, entries).text
        symbol = f"rd.look_up{entries}{'.masked' if masked else ''}.{memory.name}x{lanes}"
        return self._write(symbol, llvm_type(memory, lanes), shapes, body)

    def scatter(self, dtype: DType, lanes: int, masked: bool) -> str:
        """(base, offsets, values[, mask]) -> 0; of equal offsets the last lane wins."""
        memory = memory_dtype(dtype)
        shapes: list[Shape | str] = ["ptr", (i64, lanes), (memory, lanes)] + ([(bool_, lanes)] if masked else [])

        def body(b: TextBuilder, base: str, offsets: Value, values: Value, mask: Value | None = None) -> str:
            scatter(b, base, offsets, values, mask)
            return "0"

        return self._write(f"rd.scatter{'.masked' if masked else ''}.{memory.name}x{lanes}", "i32", shapes, body)

    def stream(self, dtype: DType, lanes: int) -> str:
        """(base, offset, value) -> 0, past the caches; the address is aligned to the vector."""
        memory = memory_dtype(dtype)

        def body(b: TextBuilder, base: str, offset: Value, value: Value) -> str:
            address = address_of(b, base, offset, memory)
            b.line(f"store {value.typed}, ptr {address}, align {memory.itemsize * lanes}, !nontemporal !0")
            return "0"

        return self._write(f"rd.stream.{memory.name}x{lanes}", "i32", ["ptr", (i64, 1), (memory, lanes)], body)

    # --- memory that threads change at the same time

    def atomic(self, opcode: str, dtype: DType) -> str:
        """(base, offset, value) -> 0: the element becomes `opcode` of itself and the value, in one indivisible step."""
        memory = memory_dtype(dtype)
        body = lambda b, base, offset, value: write_atomic(b, opcode, base, offset, value)
        return self._write(f"rd.atomic.{opcode}.{memory.name}", "i32", ["ptr", (i64, 1), (memory, 1)], body)

    def look(self, dtype: DType) -> str:
        """(base, offset) -> what the element is, while others may change it."""
        memory = memory_dtype(dtype)
        body = lambda b, base, offset: write_look(b, memory, base, offset)
        return self._write(f"rd.look.{memory.name}", scalar_type(memory), ["ptr", (i64, 1)], body)

    def exchange(self, dtype: DType) -> str:
        """(base, offset, held, new) -> 0 if the element was what `held` points to, and is `new` now; else 1, and `held` is what it was."""
        memory = memory_dtype(dtype)
        return self._write(f"rd.exchange.{memory.name}", "i32", ["ptr", (i64, 1), "ptr", (memory, 1)], write_exchange)

    def store_outside(self, dtype: DType, lanes: int) -> str:
        """(base, offset, value, place, first, end) -> 0: stores the lanes at places that are not first … end − 1."""
        memory = memory_dtype(dtype)

        def body(b: TextBuilder, base: str, offset: Value, value: Value, place: Value, first: Value, end: Value) -> str:
            count, zero, ones = (b.constant(place, v) for v in (lanes, 0, -1))
            before, until = b.binary("sub", first, place), b.binary("sub", end, place)
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
        return self._write(f"rd.store_outside.{memory.name}x{lanes}", "i32", shapes, body)

    def misalignment(self, dtype: DType, lanes: int) -> str:
        """(base, offset) -> elements up to the next address aligned to a vector."""
        memory = memory_dtype(dtype)
        size = memory.itemsize * lanes

        def body(b: TextBuilder, base: str, offset: Value) -> str:
            number = b.result(i64, 1, f"ptrtoint ptr {address_of(b, base, offset, memory)} to i64")
            short = b.binary("and", b.binary("sub", b.constant(number, 0), number), b.constant(number, size - 1))
            return b.binary("udiv", short, b.constant(number, memory.itemsize)).text

        return self._write(f"rd.misalignment.{memory.name}x{lanes}", "i64", ["ptr", (i64, 1)], body)

    def apart(self, dtype: DType) -> str:
        """(offset, other) -> 1 if rows that begin there are not within three lines of each other modulo 4096 bytes, else 0.

        Loads near one streamed row are otherwise taken for loads of the other, and wait for its stores.
        """
        memory = memory_dtype(dtype)

        def body(b: TextBuilder, offset: Value, other: Value) -> str:
            distance = b.binary("mul", b.binary("sub", offset, other), b.constant(offset, memory.itemsize))
            moved = b.binary("and", b.binary("sub", distance, b.constant(offset, 192)), b.constant(offset, 4095))
            return b.convert("zext", b.compare("ule", moved, b.constant(offset, 4096 - 2 * 192)), i64).text

        return self._write(f"rd.apart.{memory.name}", "i64", [(i64, 1), (i64, 1)], body)

    def prefetch(self, dtype: DType) -> str:
        """(base, offset) -> 0: the line will be read soon."""
        memory = memory_dtype(dtype)

        def body(b: TextBuilder, base: str, offset: Value) -> str:
            b.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
            b.line(f"call void @llvm.prefetch.p0(ptr {address_of(b, base, offset, memory)}, i32 0, i32 3, i32 1)")
            return "0"

        return self._write(f"rd.prefetch.{memory.name}", "i32", ["ptr", (i64, 1)], body)

    def constant_array(self, digest: str, array: np.ndarray) -> str:
        """() -> where the array's bytes lie, in the object's read-only data."""
        name = f"rd.data.{digest[:24]}"
        if name not in self._constants:
            data = np.ascontiguousarray(array).tobytes()
            data += bytes(-len(data) % 64)  # look-ups load whole registers
            escaped = "".join(f"\\{byte:02X}" for byte in data)
            kind = f"[{len(data)} x i8]"
            self._constants[name] = f'@{name} = internal unnamed_addr constant {kind} c"{escaped}", align 64'
        return self._write(f"rd.at.{digest[:24]}", "ptr", (), lambda b: f"@{name}")

    # --- the runtime, and other functions of the module

    def take(self) -> str:
        """(bytes, fault) -> memory from the runtime; null, and a fault on record, when there is none."""

        def body(b: TextBuilder, size: Value, fault: str) -> str:
            b.declarations |= {"declare ptr @rd_alloc(i64)", _FAULT}
            b.line(f"%block = call noalias ptr @rd_alloc({size.typed})")
            b.line("%absent = icmp eq ptr %block, null")
            b.line("br i1 %absent, label %failed, label %taken")
            b.start_block("failed")
            arguments = f"ptr {fault}, i32 {FAULT_CODES['memory']}, i32 -1, {size.typed}, i64 0, i64 0, i64 0"
            b.line(f"%code = call i32 @rd_fault({arguments}) cold")
            b.line("br label %taken")
            b.start_block("taken")
            return "%block"

        return self._write("rd.take", "ptr", [(i64, 1), "ptr"], body)

    def give(self) -> str:
        """(memory) -> 0: back to the runtime."""

        def body(b: TextBuilder, block: str) -> str:
            b.declarations.add("declare void @rd_free(ptr)")
            b.line(f"call void @rd_free(ptr {block})")
            return "0"

        return self._write("rd.give", "i32", ["ptr"], body)

    def threads(self) -> str:
        """() -> threads that a launch from here would use, as i64."""

        def body(b: TextBuilder) -> str:
            b.declarations.add("declare i32 @rd_get_threads()")
            b.line("%count = call i32 @rd_get_threads()")
            b.line("%wide = sext i32 %count to i64")
            return "%wide"

        return self._write("rd.threads", "i64", (), body)

    def failed(self) -> str:
        """(fault) -> whether something is on record."""

        def body(b: TextBuilder, fault: str) -> str:
            b.line(f"%kind = load volatile i32, ptr {fault}, align 4")
            return b.compare("ne", Value(i32, 1, "%kind"), Value(i32, 1, "0")).text

        return self._write("rd.failed", "i1", ["ptr"], body)

    def fault(self, lanes: int, kind: str, site: int, values: Sequence[Shape]) -> str:
        """(fault, bad lanes, values…) -> 0: records the first bad lane, unless something is on record.

        What `rd_fault` does, without a call: one inside a hot loop would cost every iteration the registers that calls destroy.
        """
        shapes: list[Shape | str] = ["ptr", (bool_, lanes), *values]

        def body(b: TextBuilder, fault: str, bad: Value, *given: Value) -> str:
            b.declarations.add(_FAULT)
            lane = "0"
            if lanes > 1:
                bits = b.result(i32, 1, f"bitcast {bad.typed} to i{lanes}")
                b.declarations.add(f"declare i{lanes} @llvm.cttz.i{lanes}(i{lanes}, i1)")
                lane = b.result(i32, 1, f"call i{lanes} @llvm.cttz.i{lanes}(i{lanes} {bits.text}, i1 true)").text
                lane = b.result(i32, 1, f"zext i{lanes} {lane} to i128").text if lanes < 128 else lane
                lane = b.result(i32, 1, f"trunc i128 {lane} to i64").text
            numbers = []
            for value in given:
                if value.lanes > 1:
                    value = b.result(value.dtype, 1, f"extractelement {value.typed}, i64 {lane}")
                numbers.append(write_operation(b, "cast", i64, value).text)
            b.line('call void asm sideeffect "", ""() cold nounwind memory(none)')
            code, fields = FAULT_CODES[kind], [("i32", str(site)), *(("i64", n) for n in (*numbers, *"0000")[:4])]
            b.line(f"%old = cmpxchg ptr {fault}, i32 0, i32 {code} monotonic monotonic")
            b.line("%first = extractvalue { i32, i1 } %old, 1")
            b.line("br i1 %first, label %record, label %done")
            b.start_block("record")
            for (type_, number), offset in zip(fields, _FAULT_OFFSETS, strict=True):
                b.line(f"%at{offset} = getelementptr i8, ptr {fault}, i64 {offset}")
                b.line(f"store {type_} {number}, ptr %at{offset}")
            b.line("br label %done")
            b.start_block("done")
            return "0"

        symbol = f"rd.fault.{kind}.{site}.x{lanes}." + ".".join(f"{d.name}x{n}" for d, n in values)
        return self._write(symbol, "i32", shapes, body)

    def call_apart(self, symbol: str, types: Sequence[str]) -> str:
        """A call of function `symbol` of this module that is never inlined: its pointers' promises hold inside it only."""

        def body(b: TextBuilder, *names: str) -> str:
            b.declarations.add(f"declare i32 @{symbol}({', '.join(types)})")
            arguments = ", ".join(f"{kind} {name}" for kind, name in zip(types, names, strict=True))
            b.line(f"%code = call i32 @{symbol}({arguments}) noinline")
            return "%code"

        return self._write(f"rd.apart.{symbol}", "i32", list(types), body)

    def ticket(self) -> str:
        """(counter) -> the next number."""

        def body(b: TextBuilder, counter: str) -> str:
            return b.result(i64, 1, f"atomicrmw add ptr {counter}, i64 1 monotonic").text

        return self._write("rd.ticket", "i64", ["ptr"], body)

    def turn_of(self, place: int) -> str:
        """(counter of tickets) -> where it says whose turn it is, `place` numbers further on."""

        def body(b: TextBuilder, counter: str) -> str:
            b.line(f"%turn = getelementptr i64, ptr {counter}, i64 {place}")
            return "%turn"

        return self._write("rd.turn_of", "ptr", ["ptr"], body)

    def wait_for_turn(self) -> str:
        """(turn, ticket) -> 0, once every ticket before this one has left the ordered section."""

        def body(b: TextBuilder, turn: str, ticket: Value) -> str:
            b.declarations.add("declare void @rd_ordered_wait(ptr, i64)")
            b.line(f"call void @rd_ordered_wait(ptr {turn}, {ticket.typed})")
            return "0"

        return self._write("rd.wait_for_turn", "i32", ["ptr", (i64, 1)], body)

    def pass_turn(self) -> str:
        """(turn, ticket) -> 0: the next ticket may enter the ordered section."""

        def body(b: TextBuilder, turn: str, ticket: Value) -> str:
            b.declarations.add("declare void @rd_ordered_done(ptr, i64)")
            b.line(f"call void @rd_ordered_done(ptr {turn}, {ticket.typed})")
            return "0"

        return self._write("rd.pass_turn", "i32", ["ptr", (i64, 1)], body)

    def has_turn_passed(self) -> str:
        """(turn, ticket) -> whether this ticket has left the ordered section."""

        def body(b: TextBuilder, turn: str, ticket: Value) -> str:
            return b.compare("sgt", b.result(i64, 1, f"load atomic i64, ptr {turn} monotonic, align 8"), ticket).text

        return self._write("rd.has_turn_passed", "i1", ["ptr", (i64, 1)], body)

    def expose(self) -> str:
        """(pointer) -> 0: what it points to may have changed, and others may read it, though nothing else says so here."""

        def body(b: TextBuilder, pointer: str) -> str:
            b.line(f'call void asm sideeffect "", "r,~{{memory}}"(ptr {pointer})')
            return "0"

        return self._write("rd.expose", "i32", ["ptr"], body)

    def load_pointer(self) -> str:
        """(slot) -> the pointer in it."""

        def body(b: TextBuilder, slot: str) -> str:
            b.line(f"%held = load ptr, ptr {slot}, align 8")
            return "%held"

        return self._write("rd.held", "ptr", ["ptr"], body)

    def store_pointer(self) -> str:
        """(slot, pointer) -> 0."""

        def body(b: TextBuilder, slot: str, held: str) -> str:
            b.line(f"store ptr {held}, ptr {slot}, align 8")
            return "0"

        return self._write("rd.hold", "i32", ["ptr", "ptr"], body)

    def drain(self) -> str:
        """() -> 0: streamed stores are visible to others before what follows."""

        def body(b: TextBuilder) -> str:
            b.declarations.add("declare void @llvm.x86.sse.sfence()")
            b.line("call void @llvm.x86.sse.sfence()")
            return "0"

        return self._write("rd.drain", "i32", (), body)

    def once(self) -> str:
        """() -> 0: an empty instruction that keeps LLVM from making copies of the loop around it."""

        def body(b: TextBuilder) -> str:
            b.line('call void asm sideeffect "", ""() noduplicate nounwind memory(inaccessiblemem: readwrite)')
            return "0"

        return self._write("rd.once", "i32", (), body)

    def copy(self) -> str:
        """(destination, source, bytes) -> 0; the two do not overlap."""

        def body(b: TextBuilder, destination: str, source: str, size: Value) -> str:
            b.declarations.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
            b.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {destination}, ptr {source}, {size.typed}, i1 false)")
            return "0"

        return self._write("rd.copy", "i32", ["ptr", "ptr", (i64, 1)], body)


_FAULT_OFFSETS = (4, 8, 16, 24, 32)  # of `RdFault`'s site and values
_FAULT = "declare i32 @rd_fault(ptr, i32, i32, i64, i64, i64, i64)"
