"""Functions written as LLVM assembly: types, literals, and a builder that appends instructions.

TIR expresses only what it can express exactly; everything else (masked memory, saturating casts, wrapping arithmetic, shuffles, whole math
functions) is a small helper function in LLVM assembly, linked into the module and inlined. A `Value` is a type and the text of an operand.
Booleans are `i1` in registers and bytes in memory; loads and stores convert. bf16 is an `i16` (see `narrow`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from raido.algo.graph.dtypes import DType, bf16, bool_, f16, f32, f64, u8
from raido.algo.graph.expr import const
from raido.targets.llvm.capabilities import Capabilities

_FLOATS = {f16: "half", f32: "float", f64: "double"}


def scalar_type(dtype: DType) -> str:
    """LLVM's name of an element type."""
    return _FLOATS.get(dtype, f"i{dtype.bits}")


def llvm_type(dtype: DType, lanes: int = 1) -> str:
    """LLVM's name of a scalar or vector type."""
    return scalar_type(dtype) if lanes == 1 else f"<{lanes} x {scalar_type(dtype)}>"


def mangled(dtype: DType, lanes: int = 1) -> str:
    """The suffix of a type in names of overloaded intrinsics, `v16f32`."""
    return ("" if lanes == 1 else f"v{lanes}") + (dtype.name if dtype in _FLOATS else f"i{dtype.bits}")


def memory_dtype(dtype: DType) -> DType:
    """The dtype of elements in memory: u8 for bool, else the dtype itself."""
    return u8 if dtype is bool_ else dtype


def literal(dtype: DType, value: Any) -> str:
    """A constant's text; floats by their bits, so that nothing is rounded."""
    if dtype is bf16:
        return str(const(bf16, value).bits)
    if dtype.is_float:
        if dtype is f16:
            return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
        wide = struct.unpack("<f", struct.pack("<f", value))[0] if dtype is f32 else float(value)
        return f"0x{struct.unpack('<Q', struct.pack('<d', wide))[0]:016X}"
    if dtype is bool_:
        return "true" if value else "false"
    return str(int(value))


@dataclass(frozen=True, slots=True)
class Value:
    """An operand: element type, lanes and text; for constants the value, for broadcast scalars the scalar."""

    dtype: DType
    lanes: int
    text: str
    literal: Any = None
    shared: Value | None = None

    @property
    def type(self) -> str:
        return llvm_type(self.dtype, self.lanes)

    @property
    def typed(self) -> str:
        return f"{self.type} {self.text}"


class TextBuilder:
    """Appends instructions to one function, for a processor with capabilities `can`."""

    def __init__(self, can: Capabilities) -> None:
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self.globals: dict[str, str] = {}
        self.can = can
        self.label = "entry"
        self.call_apart: Callable[[TextBuilder, str, Sequence[Value]], Value] | None = (
            None  # math functions whole, see `Helpers`
        )
        self._count = 0

    def name(self) -> str:
        """A fresh register name."""
        self._count += 1
        return f"%t{self._count}"

    def line(self, text: str) -> None:
        """Appends one instruction."""
        self.lines.append("  " + text)

    def start_block(self, label: str) -> None:
        """Begins a basic block."""
        self.lines.append(f"{label}:")
        self.label = label

    def fresh_label(self, stem: str) -> str:
        """A fresh label."""
        self._count += 1
        return f"{stem}{self._count}"

    def constant(self, like: Value, value: Any, dtype: DType | None = None) -> Value:
        """A literal with as many lanes as `like`, of its type unless `dtype` is given."""
        dtype = dtype or like.dtype
        text = literal(dtype, value)
        return Value(dtype, like.lanes, text if like.lanes == 1 else f"splat ({scalar_type(dtype)} {text})", value)

    def result(self, dtype: DType, lanes: int, instruction: str) -> Value:
        """Appends an instruction that has a result."""
        name = self.name()
        self.line(f"{name} = {instruction}")
        return Value(dtype, lanes, name)

    def binary(self, opcode: str, a: Value, b: Value) -> Value:
        """`opcode` on two operands of one type."""
        return self.result(a.dtype, a.lanes, f"{opcode} {a.typed}, {b.text}")

    def unary(self, opcode: str, a: Value) -> Value:
        """`opcode` on one operand."""
        return self.result(a.dtype, a.lanes, f"{opcode} {a.typed}")

    def compare(self, predicate: str, a: Value, b: Value) -> Value:
        """A comparison: `fcmp` for floats, `icmp` otherwise."""
        opcode = "fcmp" if a.dtype.is_float else "icmp"
        return self.result(bool_, a.lanes, f"{opcode} {predicate} {a.typed}, {b.text}")

    def select(self, mask: Value, a: Value, b: Value) -> Value:
        """`a` where `mask`, else `b`."""
        return self.result(a.dtype, a.lanes, f"select {mask.typed}, {a.typed}, {b.typed}")

    def convert(self, opcode: str, a: Value, dtype: DType) -> Value:
        """A conversion by an LLVM cast instruction; none where the LLVM types are equal."""
        if llvm_type(a.dtype) == llvm_type(dtype):
            return Value(dtype, a.lanes, a.text)
        return self.result(dtype, a.lanes, f"{opcode} {a.typed} to {llvm_type(dtype, a.lanes)}")

    def call(self, name: str, dtype: DType, lanes: int, *args: Value | str) -> Value:
        """A call of an intrinsic or external function; a string argument is `type text`."""
        typed = [a.typed if isinstance(a, Value) else a for a in args]
        types = ", ".join(
            text[: text.rindex(" ")] if "(" not in text else text[: text.index("splat") - 1] for text in typed
        )
        self.declarations.add(f"declare {llvm_type(dtype, lanes)} @{name}({types})")
        return self.result(dtype, lanes, f"call {llvm_type(dtype, lanes)} @{name}({', '.join(typed)})")

    def intrinsic(self, name: str, a: Value, *more: Value | str) -> Value:
        """An intrinsic overloaded on the type of its first operand, which is also its result's."""
        return self.call(f"llvm.{name}.{mangled(a.dtype, a.lanes)}", a.dtype, a.lanes, a, *more)

    def fence(self, a: Value) -> Value:
        """`a` behind an arithmetic fence: never contracted with later operations."""
        return self.intrinsic("arithmetic.fence", a)

    def any(self, mask: Value) -> Value:
        """Whether any lane is set."""
        if mask.lanes == 1:
            return mask
        return self.call(f"llvm.vector.reduce.or.{mangled(bool_, mask.lanes)}", bool_, 1, mask)

    def spread(self, a: Value, lanes: int) -> Value:
        """A scalar broadcast to all lanes."""
        if lanes == 1:
            return a
        first = self.result(a.dtype, lanes, f"insertelement {llvm_type(a.dtype, lanes)} poison, {a.typed}, i64 0")
        picked = f"<{lanes} x i32> zeroinitializer"
        spread = self.result(a.dtype, lanes, f"shufflevector {first.typed}, {first.type} poison, {picked}")
        return replace(spread, shared=a)

    def shuffle(self, a: Value, b: Value, lanes: list[int]) -> Value:
        """Lanes picked by index from `a` and, from index `a.lanes` on, `b`."""
        picked = ", ".join(f"i32 {lane}" for lane in lanes)
        out = self.result(a.dtype, len(lanes), f"shufflevector {a.typed}, {b.typed}, <{len(lanes)} x i32> <{picked}>")
        return out

    def function(self, symbol: str, result: str, parameters: str, attributes: str = "alwaysinline nounwind") -> str:
        """Text of the whole function; the declarations it needs are in `declarations`."""
        body = "\n".join(self.lines)
        return f"define internal {result} @{symbol}({parameters}) {attributes} {{\nentry:\n{body}\n}}"
