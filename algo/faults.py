"""What a running program can find wrong, as exceptions: one place for the words, whoever found the fault.

A fault has a kind, a site (the user's line, or None) and up to three numbers: "index" (dimension, index, size), "division" (),
"power" (exponent), "size" ().
"""

from __future__ import annotations

from collections.abc import Sequence

from raido.algo.errors import ArithmeticFault, IndexOutOfRange, RaidoError, SizeMismatch, explain
from raido.algo.program import Site


def fault_error(kind: str, values: Sequence[int], site: Site | None) -> RaidoError:
    """The exception for a fault."""
    where = None if site is None else str(site)
    if kind == "index":
        dimension, index, size = (int(v) for v in values[:3])
        why = f"dimension {dimension} has size {size}, so its indices are 0 … {size - 1}" if size else "it is empty"
        headline = f"index {index} is out of range for dimension {dimension} of size {size}"
        return IndexOutOfRange(explain(headline, algorithm=where, why=why))
    if kind == "division":
        return ArithmeticFault(explain("integer division by zero", algorithm=where))
    if kind == "power":
        exponent = f"an integer to the power {int(values[0])} is not an integer" if len(values) else None
        return ArithmeticFault(explain("negative power of an integer", algorithm=where, why=exponent))
    return SizeMismatch(explain("sizes that must agree do not", algorithm=where))
