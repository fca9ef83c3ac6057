"""Run-time faults of compiled code: kinds, their codes in `RdFault`, their exceptions and messages.

One table serves the in-process caller (exceptions) and exported libraries (messages written by C). A message is a template over the
recorded values; `{1}` is the second of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raido.algo.errors import (
    ArithmeticFault,
    ArrayTooLarge,
    CompileError,
    IndexOutOfRange,
    SizeMismatch,
    TargetError,
    explain,
)
from raido.algo.graph.faults import BOUND_OF_SLICE, SIZE_OF_TRANSFORM, index_lines
from raido.algo.graph.limits import MOST_SHOWN, limit_text
from raido.targets.signature import FaultSite


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A kind of fault: its `name` in nests, its `code` (fixed: exported libraries contain it), exception and message.

    `unsigned`: the values are u64, recorded as the i64 of the same bits. `remedy`: the "try" line of the exception.
    """

    name: str
    code: int
    error: type[Exception]
    message: str
    unsigned: bool = False
    remedy: str | None = None

    @property
    def labels(self) -> str:
        """The label of the line that names the culprit: "size" for a divisor in a size, else "array"."""
        return "size" if self.error is ArithmeticFault else "array"


_SLICE = "slice {0}:{1} leaves a dimension of size {2}"
FAULT_KINDS = (
    FaultKind("index", 1, IndexOutOfRange, "index {1} is out of range for dimension {0} of size {2}"),
    FaultKind("division", 2, ArithmeticFault, "integer division of {0} by zero"),
    FaultKind("power", 3, ArithmeticFault, "an integer to the negative power {0}"),
    FaultKind("size", 4, SizeMismatch, "sizes {0} and {1} do not agree"),
    FaultKind("offsets", 5, IndexOutOfRange, "offsets {0}, {1} must not decrease and must lie within 0..{2}"),
    FaultKind("empty", 6, SizeMismatch, "a reduction over an empty axis has no value (pass initial=)"),
    FaultKind("negative", 7, SizeMismatch, "a size must not be negative, this one is {0}"),
    FaultKind("memory", 8, MemoryError, "cannot allocate {0} bytes"),
    FaultKind("bounds", 9, IndexOutOfRange, _SLICE, remedy=BOUND_OF_SLICE),
    FaultKind("unsigned_division", 11, ArithmeticFault, "integer division of {0} by zero", unsigned=True),
    FaultKind("unsigned_index", 13, IndexOutOfRange, "index {1} is out of range for dimension {0} of size {2}", True),
    FaultKind("unsigned_bounds", 14, IndexOutOfRange, _SLICE, True, BOUND_OF_SLICE),
    FaultKind("unsigned_size", 15, SizeMismatch, "{0} is larger than any size", True),
    FaultKind("unsigned_offset", 16, IndexOutOfRange, "offset {0} is larger than any size", True),
    FaultKind("offset", 12, IndexOutOfRange, "offset {0}, the only one, must lie within 0..{1}"),
    *(
        FaultKind(f"limit_{count}", 20 + count, ArrayTooLarge, limit_text([f"{{{k}}}" for k in range(count)]))
        for count in range(MOST_SHOWN + 1)
    ),
    FaultKind("total", 25, ArrayTooLarge, "counts that add up to {0} or more make a larger array than any can be"),
    FaultKind(
        "power_of_two",
        26,
        SizeMismatch,
        "a Fourier transform of {0} numbers, a size not known when compiled: no power of two",
        remedy=SIZE_OF_TRANSFORM,
    ),
    FaultKind(
        "steps",
        27,
        TargetError,
        "a loop was stopped after {0} iterations of one thread: it never ends, or more loops should be bound to threads",
        remedy='a schedule that leaves a thread less to do (split, and bind both loops), or target "llvm", where loops have no limit',
    ),
    FaultKind("endless", 28, TargetError, "a loop was stopped after {0} iterations, as one that never ends"),
    FaultKind("exact", 10, SizeMismatch, 'tail "exact": an extent of {0} is not a multiple of {1}'),
)
FAULT_CODES = {kind.name: kind.code for kind in FAULT_KINDS}
_BY_CODE = {kind.code: kind for kind in FAULT_KINDS}


def fault_error(code: int, site: int, values: Sequence[int], sites: Sequence[FaultSite], name: str) -> Exception:
    """The exception for a recorded fault of the program called `name`, with the user's line."""
    kind = _BY_CODE.get(code)
    if kind is None:
        return CompileError(f"internal: {name} reported fault {code}, which does not exist")
    location = array = None
    if kind.unsigned:
        values = [value % (1 << 64) for value in values]
    if 0 <= site < len(sites):
        array = sites[site].array or None
        if sites[site].line:
            location = f"{sites[site].file}:{sites[site].line}   {sites[site].text}".rstrip()
    lines = (
        index_lines(values[0], values[1], values[2], location or "")
        if kind.name.endswith("index")
        else {"try": kind.remedy}
    )
    lines = {"algorithm": location, kind.labels: array, **lines}
    return kind.error(explain(f"{name}: {kind.message.format(*values)}", **lines))
