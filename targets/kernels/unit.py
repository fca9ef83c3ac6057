"""One kernel under construction: its variables and buffers in TIR, and its statements so far.

i64 expressions that are known while emitting (unrolled loops) are plain Python ints until TIR needs them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import DType, bool_, u32, unsigned
from raido.schedule.nest.values import Buffer
from raido.targets import tvm_corner as T
from raido.targets.emit.terms import Term, tir

UNKNOWN_EXTENT = 1 << 40
"""The extent of an array in device memory in TIR, in elements: TIR requires one and does not use it."""

Form = Literal["plain", "bits", "words"]


@dataclass(frozen=True, slots=True)
class Storage:
    """Storage of a buffer's elements: a TIR buffer, and its form.

    "plain": as elements. "bits": as unsigned integers of their width, and "words": several to a word of 32 bits, for elements that are
    updated by compare-exchange, which devices have for integers of 32 and 64 bits. `own`: memory private to the thread, always plain.
    """

    buffer: Any
    dtype: DType
    form: Form = "plain"
    own: bool = False

    @property
    def memory(self) -> DType:
        """Element type of the TIR buffer."""
        return {"plain": self.dtype, "bits": unsigned(max(self.dtype.bits, 8)), "words": u32}[self.form]


class Unit:
    """A kernel under construction: `variables` by nest variable, `memory` with the storage of each buffer, `parameters` the numbers that
    the kernel receives, `out` the statements of the current block."""

    def __init__(self) -> None:
        self.variables: dict[Any, Term] = {}
        self.memory: dict[Buffer, Storage] = {}
        self.fault: Any = None
        self.parameters: set[Any] = set()
        self.out: list[Any] = []
        self._names = 0

    def fresh_name(self, stem: str) -> str:
        """A unique name for a TIR variable."""
        self._names += 1
        clean = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in stem)
        return f"{clean}_{self._names}"

    def bind(self, stem: str, dtype: DType, value: Term) -> Term:
        """Binds a value to a name in the current block; a literal or variable is returned as it is."""
        if isinstance(value, (int, T.Var, T.IntImm, T.FloatImm)):
            return value
        name = T.variable(self.fresh_name(stem), T.type_name(dtype))
        self.out.append(T.Bind(name, value))
        return name

    def cell(self, stem: str, dtype: DType, value: Any) -> Any:
        """A mutable scalar of the thread, initialised."""
        made = T.flat_buffer(self.fresh_name(stem), dtype, 1, scope="local")
        self.out.append(T.AllocBuffer(made))
        self.put(made, value)
        return made

    def put(self, cell: Any, value: Any, index: Term = 0) -> None:
        """Emits a store to an element."""
        self.out.append(T.BufferStore(cell, value, [tir(index)]))

    def held(self, buffer: Buffer) -> Storage:
        """The storage of a buffer."""
        if buffer not in self.memory:
            raise CompileError(f"internal: buffer {buffer.name} ({buffer.scope}) is not visible where a kernel uses it")
        return self.memory[buffer]

    def block(self) -> list[Any]:
        """Begins a nested block; returns the outer one's statements, for `end_block`."""
        outer, self.out = self.out, []
        return outer

    def end_block(self, outer: list[Any]) -> Any:
        """Ends a nested block and returns its statements as one."""
        made, self.out = T.sequence(self.out), outer
        return made

    def when(self, test: Any, outer: list[Any]) -> None:
        """Ends a nested block, which runs if a condition holds."""
        body = self.end_block(outer)
        self.out.append(T.IfThenElse(test, body, None))

    def repeat(self, test: Any, outer: list[Any]) -> None:
        """Ends a nested block, which runs while a condition holds."""
        body = self.end_block(outer)
        self.out.append(T.While(test, body))


def load(cell: Any, index: Term = 0) -> Any:
    """An element of a TIR buffer."""
    return T.BufferLoad(cell, [tir(index)])


def operation(name: str, dtype: DType, *operands: Any) -> Any:
    """A call of a native operation, or of a primitive that each back end expands."""
    return T.call(f"raido_{name}", T.type_name(dtype), *operands)


def atomic(name: str, dtype: DType, buffer: Any, index: Term, *operands: Any) -> Any:
    """An atomic access to an element of a TIR buffer; its value is the element before."""
    return operation(f"atomic_{name}", dtype, T.address_of(load(buffer, index)), *operands)


def condition(term: Term) -> Any:
    """A boolean as TIR."""
    return tir(term, bool_)
