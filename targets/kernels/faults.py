"""The fault record in kernels: ten i32 in device memory, laid out as `RdFault` (kind, site, four values of two words each).

A thread notes its first fault in registers and goes on, so that loops with checks have no branches: in the cell `failed` the number of the
check, beside it the values that are no parameters of the kernel. At the end of the kernel the thread that exchanges the kind for 0 first
writes the rest. A kernel with the record returns at once if a fault is recorded: its input may be wrong, or missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import DType, i32, i64
from raido.targets import tvm_corner as T
from raido.targets.faults import FAULT_CODES
from raido.targets.kernels.unit import Unit, atomic, load, operation

RECORD_WORDS = 10
_VALUES = 2  # where the values begin


class Faults:
    """The faults that a kernel's code notes, with a number for each kind, line and values."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, int, tuple[Any, ...]], int] = {}
        self.failed = T.flat_buffer("failed", i32, 1, scope="local")
        self.values: dict[tuple[int, DType], Any] = {}

    def note(self, unit: Unit, test: Any, kind: str, site: int, values: Sequence[Any]) -> None:
        """Emits the note of a fault with these values (i32 or i64) where a test holds, unless the thread has noted one."""
        if unit.fault is None:
            raise CompileError(f"internal: a check of kind {kind} stands in a kernel without a fault record")
        outer = unit.block()
        described: list[Any] = []
        for k, value in enumerate(values):
            if isinstance(value, T.IntImm):
                described.append(int(value.value))
            elif value in unit.parameters:
                described.append(value)
            else:
                cell = k, (i32 if str(value.ty.dtype) == "int32" else i64)
                if cell not in self.values:
                    self.values[cell] = T.flat_buffer(f"failed_value_{len(self.values)}", cell[1], 1, scope="local")
                described.append(cell)
                unit.put(self.values[cell], value)
        number = self.numbers.setdefault((kind, site, tuple(described)), len(self.numbers) + 1)
        unit.put(self.failed, T.IntImm("int32", number))
        unit.when(T.And(T.EQ(load(self.failed), T.IntImm("int32", 0)), test), outer)

    def declare(self) -> list[Any]:
        """The declarations of the cells, for the beginning of the kernel."""
        if not self.numbers:
            return []
        cells = ((self.failed, i32), *((made, dtype) for (_, dtype), made in self.values.items()))
        unit = Unit()
        for cell, dtype in cells:
            unit.out.append(T.AllocBuffer(cell))
            unit.put(cell, T.IntImm(T.type_name(dtype), 0))
        return unit.out

    def record(self, unit: Unit) -> None:
        """Emits the record of the fault that the thread has noted."""
        if not self.numbers:
            return
        outer = unit.block()
        for (kind, site, described), number in self.numbers.items():
            here = unit.block()
            _record_fault(unit, kind, site, [self._value(each) for each in described])
            unit.when(T.EQ(load(self.failed), T.IntImm("int32", number)), here)
        unit.when(T.GT(load(self.failed), T.IntImm("int32", 0)), outer)

    def _value(self, described: Any) -> Any:
        """A value of a fault as an i64: a constant, a parameter, or that in a cell."""
        if isinstance(described, int):
            return T.IntImm("int64", described)
        return T.Cast("int64", load(self.values[described])) if isinstance(described, tuple) else described


def _record_fault(unit: Unit, kind: str, site: int, values: Sequence[Any]) -> None:
    """Emits the claim of the record for a fault with these values (i64)."""
    number = lambda value: T.IntImm("int32", value)
    claimed = unit.bind(
        "claimed", i32, atomic("compare_exchange", i32, unit.fault, 0, number(0), number(FAULT_CODES[kind]))
    )
    outer = unit.block()
    unit.put(unit.fault, number(site), 1)
    for k, value in enumerate(values):
        value = unit.bind("value", i64, value)
        high = operation("shift_right", i64, value, T.IntImm("int64", 32))
        unit.put(unit.fault, operation("convert", i32, value), _VALUES + 2 * k)
        unit.put(unit.fault, operation("convert", i32, high), _VALUES + 2 * k + 1)
    unit.when(T.EQ(claimed, number(0)), outer)


def nothing_failed(unit: Unit) -> Any:
    """The condition that no fault is recorded."""
    return T.EQ(atomic("load", i32, unit.fault, 0), T.IntImm("int32", 0))
