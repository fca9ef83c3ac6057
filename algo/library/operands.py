"""Operands of NumPy's functions: arrays, scalars, and lists, which NumPy accepts wherever it accepts an array."""

from __future__ import annotations

from typing import Any

from raido.algo.errors import TraceError
from raido.algo.language.complexes import Complex, kind_of
from raido.algo.language.making import array
from raido.algo.trace.building import Zipped, structure
from raido.algo.trace.locations import complaint


def numbers_of(value: Any, what: str) -> Any:
    """The operand of the function `what` as an `Array` or `Complex`; TraceError for a tuple of arrays."""
    given = array(value) if isinstance(value, list) else structure(value)
    if isinstance(value, Zipped) or (isinstance(given, tuple) and not isinstance(given, Complex)):
        raise TraceError(complaint(f"{what} of {kind_of(given)}", remedy="one array"))
    return given
