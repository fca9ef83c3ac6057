"""One function under construction: its variables and buffers in TIR, and its statements so far.

A `Unit` belongs to one function; outlined functions get units of their own and share the `Helpers`. i64 expressions that are known while
emitting (unrolled loops) are plain Python ints until TIR needs them.
"""

from __future__ import annotations

from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import DType, bool_, i64, u8
from raido.algo.graph.expr import Expr
from raido.algo.graph.rewrite import topological
from raido.schedule.nest.integer_ranges import IntegerRanges
from raido.schedule.nest.values import Buffer, NestExpr, Read, VectorVar
from raido.targets import tvm_corner as T
from raido.targets.emit.terms import Term
from raido.targets.llvm.helpers import Helpers
from raido.targets.llvm.text import memory_dtype

UNKNOWN_EXTENT = 1 << 40  # TIR wants a size for each buffer and uses it for nothing
_HEAVY = 48  # operations: TIR's analysis takes a name for its value, so what long chains of names stand for grows without bound


class Unit:
    """A function under construction: `variables` by nest variable, `memory` with TIR buffers, `out` the statements of the current block."""

    def __init__(self, helpers: Helpers, fault: Any) -> None:
        self.helpers = helpers
        self.fault = fault
        self.variables: dict[Expr | VectorVar, Term] = {}
        self.index_like: set[Expr | VectorVar] = set()
        self.ranges = IntegerRanges({})  # of indices: of names, that 32 bits hold them
        self.known: dict[Expr, Expr] = {}  # index variables of unrolled loops, as expressions
        self.read: set[Expr | VectorVar] = (
            set()
        )  # i64 variables that stand for what was read of memory, or are made of it
        self.memory: dict[Buffer, Any] = {}
        self.registers: dict[Buffer, dict[tuple[int, ...], Any]] = {}
        self.out: list[Any] = []
        self.vector_operations = 0  # emitted so far
        self.weights: dict[
            Expr | VectorVar, int
        ] = {}  # of variables: operations that TIR's analysis sees behind the name
        self._names = 0

    def fresh_name(self, stem: str) -> str:
        """A unique name for a TIR variable."""
        self._names += 1
        clean = "".join(c if c.isalnum() or c == "_" else "_" for c in stem)
        return f"{clean}_{self._names}"

    def bind(self, stem: str, dtype: DType, lanes: int, value: Any, weight: int = 1) -> Any:
        """Names `value` in the current block and returns the name; vectors of bool are kept packed.

        A value of too much `weight` (`is_heavy`) is stored and loaded instead, which LLVM turns into a register: TIR's analysis stops at a
        load.
        """
        if dtype is bool_ and (lanes > 1 or is_heavy(weight)):
            packed = self.call(self.helpers.values.pack_mask(lanes), u8, lanes, value)
            return self.call(
                self.helpers.values.unpack_mask(lanes), bool_, lanes, self.bind(stem, u8, lanes, packed, weight)
            )
        if is_heavy(weight):
            cell = T.flat_buffer(self.fresh_name(stem), dtype, lanes, alignment=64)
            index: list[Any] = [
                T.IntImm("int64", 0) if lanes == 1 else T.Ramp(T.IntImm("int64", 0), T.IntImm("int64", 1), lanes)
            ]
            self.out += [T.AllocBuffer(cell), T.BufferStore(cell, value, index)]
            return T.BufferLoad(cell, index)
        name = T.variable(self.fresh_name(stem), T.type_name(dtype, lanes))
        self.out.append(T.Bind(name, value))
        return name

    def bind_opaque(self, stem: str, value: Any) -> Any:
        """Names an i64 in the current block so that TIR's analysis does not look behind the name."""
        return self.bind(stem, i64, 1, value, _HEAVY + 1)

    def is_read(self, e: NestExpr) -> bool:
        """Whether an i64 expression reads memory, or has a variable whose value was read."""
        return any(isinstance(node, Read) or node in self.read for node in topological(e))

    def call(self, symbol: str, dtype: DType, lanes: int, *args: Any) -> Any:
        """A call of a helper with a result of this dtype and number of lanes."""
        return T.call(symbol, T.type_name(dtype, lanes), *args)

    def select(self, condition: Any, a: Any, b: Any) -> Any:
        """`a` where the condition holds, else `b`, both i64; a helper call, since TIR's analysis takes exponential time in chains of its
        `Select`."""
        symbol = self.helpers.values.operation("select", i64, [(bool_, 1), (i64, 1), (i64, 1)])
        return self.call(symbol, i64, 1, condition, a, b)

    def effect(self, symbol: str, *args: Any) -> None:
        """Emits a call of a helper for its effect."""
        self.out.append(T.Evaluate(T.call(symbol, "int32", *args)))

    def block(self) -> list[Any]:
        """Begins a nested block; returns the outer one's statements, for `end_block`."""
        outer, self.out = self.out, []
        return outer

    def end_block(self, outer: list[Any]) -> Any:
        """Ends a nested block and returns its statements as one."""
        made, self.out = T.sequence(self.out), outer
        return made

    def declare(self, buffer: Buffer, pointer: Any) -> None:
        """Declares the memory of `buffer` at `pointer`."""
        made = T.flat_buffer(self.fresh_name(buffer.name), memory_dtype(buffer.dtype), UNKNOWN_EXTENT, pointer)
        self.out.append(T.DeclBuffer(made, data=pointer))
        self.memory[buffer] = made

    def buffer(self, buffer: Buffer) -> Any:
        """The TIR buffer of a buffer that is not in registers."""
        if buffer not in self.memory:
            raise CompileError(f"internal: buffer {buffer.name} ({buffer.scope}) is not visible where it is used")
        return self.memory[buffer]


def is_heavy(weight: int) -> bool:
    """Whether a value of so many operations is to be hidden from TIR's analysis."""
    return weight > _HEAVY


def data_of(buffer: Any) -> Any:
    """The data pointer of a TIR buffer."""
    return buffer.data
