"""The fault record in kernels: ten i32 in device memory, laid out as `RdFault` (kind, site, four values of two words each).

The thread that exchanges the kind for 0 first writes the rest. A kernel with the record returns at once if a fault is recorded: its input
may be wrong, or missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import i32, i64
from raido.targets import tvm_corner as T
from raido.targets.faults import FAULT_CODES
from raido.targets.kernels.unit import Unit, atomic, operation

RECORD_WORDS = 10
_VALUES = 2  # where the values begin


def record_fault(unit: Unit, kind: str, site: int, values: Sequence[Any]) -> None:
    """Emits the claim of the record for a fault with these values (i64)."""
    if unit.fault is None:
        raise CompileError(f"internal: a check of kind {kind} stands in a kernel without a fault record")
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
