"""Helper functions for effects: runtime memory, faults, threads and their order, calls that must not be inlined."""

from __future__ import annotations

from collections.abc import Sequence

from raido.algo.graph.dtypes import bool_, i32, i64
from raido.schedule.machine import LINE
from raido.targets.faults import FAULT_CODES
from raido.targets.llvm.helper_texts import HelperTexts, Shape
from raido.targets.llvm.operations import write_operation
from raido.targets.llvm.text import TextBuilder, Value

_FAULT_OFFSETS = (4, 8, 16, 24, 32)  # of `RdFault`'s site and values
LARGEST = (1 << 63) - 1  # what a size in bytes becomes that 64 bits cannot hold: the runtime has no such block
_FAULT = "declare i32 @rd_fault(ptr, i32, i32, i64, i64, i64, i64)"


class RuntimeHelpers:
    """Symbols of functions with effects other than computing values."""

    def __init__(self, texts: HelperTexts) -> None:
        self._texts = texts

    def times(self) -> str:
        """(size, extent) -> size · max(extent, 0), saturated at `LARGEST`."""

        def body(b: TextBuilder, size: Value, extent: Value) -> str:
            return _saturated(b, "smul", size, b.intrinsic("smax", extent, b.constant(extent, 0))).text

        return self._texts.write("rd.times", "i64", [(i64, 1), (i64, 1)], body)

    def reach(self) -> str:
        """(elements, extent, stride) -> elements + (extent − 1) · stride, the extent of a strided dimension; saturated at `LARGEST`."""

        def body(b: TextBuilder, elements: Value, extent: Value, stride: Value) -> str:
            last = b.binary("sub", b.intrinsic("smax", extent, b.constant(extent, 1)), b.constant(extent, 1))
            return _saturated(b, "sadd", elements, _saturated(b, "smul", last, stride)).text

        return self._texts.write("rd.reach", "i64", [(i64, 1)] * 3, body)

    def take(self, site: int) -> str:
        """(bytes, fault) -> memory allocated by the runtime; null when it runs out, with a fault at that site recorded."""

        def body(b: TextBuilder, size: Value, fault: str) -> str:
            b.declarations |= {"declare ptr @rd_alloc(i64)", _FAULT}
            b.line(f"%block = call noalias ptr @rd_alloc({size.typed})")
            b.line("%absent = icmp eq ptr %block, null")
            b.line("br i1 %absent, label %failed, label %taken")
            b.start_block("failed")
            arguments = f"ptr {fault}, i32 {FAULT_CODES['memory']}, i32 {site}, {size.typed}, i64 0, i64 0, i64 0"
            b.line(f"%code = call i32 @rd_fault({arguments}) cold")
            b.line("br label %taken")
            b.start_block("taken")
            return "%block"

        return self._texts.write(f"rd.take.{site}", "ptr", [(i64, 1), "ptr"], body)

    def give(self) -> str:
        """(memory) -> 0: frees memory of the runtime."""

        def body(b: TextBuilder, block: str) -> str:
            b.declarations.add("declare void @rd_free(ptr)")
            b.line(f"call void @rd_free(ptr {block})")
            return "0"

        return self._texts.write("rd.give", "i32", ["ptr"], body)

    def threads(self) -> str:
        """() -> the number of threads that a launch from here would use, as i64."""

        def body(b: TextBuilder) -> str:
            b.declarations.add("declare i32 @rd_get_threads()")
            b.line("%count = call i32 @rd_get_threads()")
            b.line("%wide = sext i32 %count to i64")
            return "%wide"

        return self._texts.write("rd.threads", "i64", (), body)

    def failed(self) -> str:
        """(fault) -> whether a fault is recorded."""

        def body(b: TextBuilder, fault: str) -> str:
            b.line(f"%kind = load volatile i32, ptr {fault}, align 4")
            return b.compare("ne", Value(i32, 1, "%kind"), Value(i32, 1, "0")).text

        return self._texts.write("rd.failed", "i1", ["ptr"], body)

    def fault(self, lanes: int, kind: str, site: int, values: Sequence[Shape]) -> str:
        """(fault, bad lanes, values…) -> 0: records a fault for the first bad lane, unless one is recorded.

        Inlined equivalent of `rd_fault`: a call inside a hot loop would cost every iteration the registers that calls clobber.
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
        return self._texts.write(symbol, "i32", shapes, body)

    def call_apart(self, symbol: str, types: Sequence[str]) -> str:
        """A call of function `symbol` of this module that is never inlined: its pointers are `noalias` inside it only."""

        def body(b: TextBuilder, *names: str) -> str:
            b.declarations.add(f"declare i32 @{symbol}({', '.join(types)})")
            arguments = ", ".join(f"{kind} {name}" for kind, name in zip(types, names, strict=True))
            b.line(f"%code = call i32 @{symbol}({arguments}) noinline")
            return "%code"

        return self._texts.write(f"rd.apart.{symbol}", "i32", list(types), body)

    def ticket(self) -> str:
        """(counter) -> the counter's value before an atomic increment."""

        def body(b: TextBuilder, counter: str) -> str:
            return b.result(i64, 1, f"atomicrmw add ptr {counter}, i64 1 monotonic").text

        return self._texts.write("rd.ticket", "i64", ["ptr"], body)

    def turn_of(self, offset: int) -> str:
        """(counter of tickets) -> address of the ordered section's turn, `offset` i64 after the counter."""

        def body(b: TextBuilder, counter: str) -> str:
            b.line(f"%turn = getelementptr i64, ptr {counter}, i64 {offset}")
            return "%turn"

        return self._texts.write("rd.turn_of", "ptr", ["ptr"], body)

    def wait_for_turn(self) -> str:
        """(turn, ticket) -> 0, once every ticket before this one has left the ordered section."""

        def body(b: TextBuilder, turn: str, ticket: Value) -> str:
            b.declarations.add("declare void @rd_ordered_wait(ptr, i64)")
            b.line(f"call void @rd_ordered_wait(ptr {turn}, {ticket.typed})")
            return "0"

        return self._texts.write("rd.wait_for_turn", "i32", ["ptr", (i64, 1)], body)

    def pass_turn(self) -> str:
        """(turn, ticket) -> 0: the next ticket may enter the ordered section."""

        def body(b: TextBuilder, turn: str, ticket: Value) -> str:
            b.declarations.add("declare void @rd_ordered_done(ptr, i64)")
            b.line(f"call void @rd_ordered_done(ptr {turn}, {ticket.typed})")
            return "0"

        return self._texts.write("rd.pass_turn", "i32", ["ptr", (i64, 1)], body)

    def has_turn_passed(self) -> str:
        """(turn, ticket) -> whether this ticket has left the ordered section."""

        def body(b: TextBuilder, turn: str, ticket: Value) -> str:
            return b.compare("sgt", b.result(i64, 1, f"load atomic i64, ptr {turn} monotonic, align 8"), ticket).text

        return self._texts.write("rd.has_turn_passed", "i1", ["ptr", (i64, 1)], body)

    def expose(self) -> str:
        """(pointer) -> 0: a compiler barrier for the memory behind the pointer; other threads may have changed it, and may read it."""

        def body(b: TextBuilder, pointer: str) -> str:
            b.line(f'call void asm sideeffect "", "r,~{{memory}}"(ptr {pointer})')
            return "0"

        return self._texts.write("rd.expose", "i32", ["ptr"], body)

    def load_pointer(self) -> str:
        """(slot) -> the pointer stored in it."""

        def body(b: TextBuilder, slot: str) -> str:
            b.line(f"%held = load ptr, ptr {slot}, align 8")
            return "%held"

        return self._texts.write("rd.held", "ptr", ["ptr"], body)

    def aligned(self) -> str:
        """(pointer) -> the first multiple of a cache line at or after it."""

        def body(b: TextBuilder, pointer: str) -> str:
            b.declarations.add("declare ptr @llvm.ptrmask.p0.i64(ptr, i64)")
            b.line(f"%last = getelementptr i8, ptr {pointer}, i64 {LINE - 1}")
            b.line(f"%first = call align {LINE} ptr @llvm.ptrmask.p0.i64(ptr %last, i64 -{LINE})")
            return "%first"

        return self._texts.write("rd.aligned", "ptr", ["ptr"], body)

    def store_pointer(self) -> str:
        """(slot, pointer) -> 0: stores the pointer."""

        def body(b: TextBuilder, slot: str, held: str) -> str:
            b.line(f"store ptr {held}, ptr {slot}, align 8")
            return "0"

        return self._texts.write("rd.hold", "i32", ["ptr", "ptr"], body)

    def drain(self) -> str:
        """() -> 0: a store fence after non-temporal stores."""

        def body(b: TextBuilder) -> str:
            b.declarations.add("declare void @llvm.x86.sse.sfence()")
            b.line("call void @llvm.x86.sse.sfence()")
            return "0"

        return self._texts.write("rd.drain", "i32", (), body)

    def once(self) -> str:
        """() -> 0: an empty `noduplicate` instruction, which keeps LLVM from unrolling the loop around it."""

        def body(b: TextBuilder) -> str:
            b.line('call void asm sideeffect "", ""() noduplicate nounwind memory(inaccessiblemem: readwrite)')
            return "0"

        return self._texts.write("rd.once", "i32", (), body)

    def taken(self) -> str:
        """() -> 0: an empty instruction, which keeps LLVM from executing a branch where it is not taken, by selections instead of jumps."""

        def body(b: TextBuilder) -> str:
            b.line('call void asm sideeffect "", ""() nounwind memory(none)')
            return "0"

        return self._texts.write("rd.taken", "i32", (), body)

    def copy(self, by_threads: bool) -> str:
        """(destination, source, bytes) -> 0: copies disjoint memory. by_threads: the runtime may share a large copy among threads."""

        def body(b: TextBuilder, destination: str, source: str, size: Value) -> str:
            if by_threads:
                b.declarations.add("declare void @rd_copy(ptr, ptr, i64)")
                b.line(f"call void @rd_copy(ptr {destination}, ptr {source}, {size.typed})")
                return "0"
            b.declarations.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
            b.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {destination}, ptr {source}, {size.typed}, i1 false)")
            return "0"

        symbol = "rd.copy.threads" if by_threads else "rd.copy"
        return self._texts.write(symbol, "i32", ["ptr", "ptr", (i64, 1)], body)


def _saturated(b: TextBuilder, name: str, a: Value, other: Value) -> Value:
    """The sum ("sadd") or product ("smul") of two non-negative numbers, saturated at `LARGEST`."""
    b.declarations.add(f"declare {{ i64, i1 }} @llvm.{name}.with.overflow.i64(i64, i64)")
    pair = b.name()
    b.line(f"{pair} = call {{ i64, i1 }} @llvm.{name}.with.overflow.i64({a.typed}, {other.typed})")
    value = b.result(i64, 1, f"extractvalue {{ i64, i1 }} {pair}, 0")
    over = b.result(bool_, 1, f"extractvalue {{ i64, i1 }} {pair}, 1")
    return b.select(over, b.constant(value, LARGEST), value)
