"""Type promotion: NumPy 2's rules with the exceptions of the contract, and the types that literals take.

Operands are traced values and Python literals (bool, int, float). Literals, and values that are `LITERAL`, take any operand's type of their
kind or a higher one; `COUNTER` values (sizes, counters, indices) and `WEAK` values take only float types. NumPy scalars are not literals:
they are constants of their type. u64 and a signed integer have no common type. As in JAX, bf16 gives way to wider floats, makes f32 with
f16, and absorbs integers and bool_.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from types import CoroutineType, GeneratorType
from typing import Any

import numpy as np

from raido.algo.errors import DTypeError, TraceError
from raido.algo.graph.data import Data
from raido.algo.graph.dtypes import DType, bf16, bool_, dtype_of, f16, f32, f64, i64, kind_of, u64
from raido.algo.graph.expr import Constant, const
from raido.algo.graph.index import as_index
from raido.algo.trace.calling import ARGUMENT_ORDER
from raido.algo.trace.context import running
from raido.algo.trace.locations import complaint
from raido.algo.trace.value import COUNTER, LITERAL, STRONG, WEAK, Array

_ORDER = {"b": 0, "i": 1, "u": 1, "f": 2}


def lift(value: Any) -> Array:
    """Returns the traced value of anything that may stand in an expression; literals become `LITERAL` values of bool_, i64 or f64."""
    if isinstance(value, Array):
        if value.made_in is not None and value.made_in is not running():
            from raido.algo.trace.leaks import refuse_other_trace  # only in trouble

            refuse_other_trace(value)
        return value
    if isinstance(value, np.generic):
        return Array(const(_dtype_of(value), value), STRONG)
    if isinstance(value, np.ndarray):
        return constant(value)
    if isinstance(value, bool):
        return Array(const(bool_, value), LITERAL)
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise DTypeError(complaint(f"the literal {value} fits no integer type"))
        return Array(const(i64 if value < 1 << 63 else u64, value), LITERAL)
    if isinstance(value, float):
        return Array(const(f64, value), LITERAL)
    from raido.algo.trace.unfinished import Unfinished  # only in trouble

    if isinstance(value, Unfinished):
        value.refuse()
    if callable(value):
        raise TraceError(complaint("a function where a value is expected", remedy=ARGUMENT_ORDER))
    if value is None:
        remedy = "a function that returns its value; of the results of an algorithm, leave it out"
        raise TraceError(complaint("None where a value is expected", remedy=remedy))
    if (refuse := getattr(type(value), "refuse", None)) is not None:  # a window
        refuse(value)
    remedy = next((words for kind, words in _REMEDIES.items() if isinstance(value, kind)), None)
    if dataclasses.is_dataclass(value):
        remedy = "typing.NamedTuple instead of a dataclass, or a dict of its values"
    raise TraceError(complaint(f"{type(value).__name__} in an expression: {_short(value)}", remedy=remedy))


_REMEDIES = {
    list: "rd.array([...]) for one array of its values, a tuple (a, b) for several values",
    dict: "a tuple, or a record: Vec = rd.record(x=rd.f32); an algorithm itself may return a dict",
    str: "a string in the metaprogram only: outside of expressions; ord('a') for a character",
    bytes: "np.frombuffer(b, np.uint8) for the bytes as numbers; ord('a') for a character",
    range: "rd.iota(n)",
    set: "rd.array([...]) of its values",
    GeneratorType: "a function that returns, not one with `yield`; of a generator's values, rd.array([*values])",
    CoroutineType: "a function without `async`",
}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."


def _dtype_of(value: Any) -> DType:
    dtype = dtype_of(value.dtype.newbyteorder("=")) if kind_of(value.dtype) in "biuf" else None
    if dtype is None:
        raise DTypeError(complaint(f"raido has no element type for NumPy's {value.dtype}"))
    return dtype


def constant(value: np.ndarray) -> Array:
    """Returns a NumPy array, copied, as a constant of the graph."""
    dtype = _dtype_of(value)
    if value.ndim == 0:
        return Array(const(dtype, value[()]), STRONG)
    native = np.asarray(value, dtype=dtype.numpy)
    return Array(Constant(Data(native), dtype, tuple(as_index(n) for n in native.shape)), STRONG)


def common_type(values: Sequence[Array]) -> tuple[DType, int]:
    """Returns the common type of operands, and its weakness."""
    strong = [value.dtype for value in values if value.weak == STRONG]
    dtype = promote(strong) if strong else None
    for value in values:
        if value.weak in (COUNTER, WEAK) and not (dtype is not None and dtype.is_float):
            dtype = value.dtype if dtype is None else promote([dtype, value.dtype])
    for value in values:
        if value.weak == LITERAL and (dtype is None or is_above(value.dtype, dtype)):
            dtype = value.dtype
    assert dtype is not None
    return dtype, STRONG if strong else _joined_weakness(values, dtype)


def _joined_weakness(values: Sequence[Array], dtype: DType) -> int:
    """Returns the weakness of a value computed from weak operands; only an i64 can still be a `COUNTER`."""
    kinds = {v.weak for v in values}
    return LITERAL if kinds == {LITERAL} else COUNTER if WEAK not in kinds and dtype is i64 else WEAK


def is_above(a: DType, b: DType) -> bool:
    """Whether the kind of a type is higher than another's, in the order bool_, integers, floats."""
    return _ORDER[a.kind] > _ORDER[b.kind]


def takes(value: Array, dtype: DType) -> bool:
    """Whether a value may be used as that type: it has the type, or is weak and of no higher kind."""
    return value.dtype is dtype or (value.weak != STRONG and not is_above(value.dtype, dtype))


def named(value: Array) -> str:
    """Returns the description of a value in messages about its type."""
    return "a float literal" if value.weak == LITERAL and value.dtype is f64 else str(value.dtype)


def promote(types: Sequence[DType]) -> DType:
    """Returns the common type of strong types, independent of their order; raises `DTypeError` for u64 with a signed integer."""
    others = [dtype for dtype in types if dtype is not bf16]
    if not others:
        return bf16
    common = functools.reduce(_promote_two, others)
    if len(others) == len(types):
        return common
    return bf16 if not common.is_float else f32 if common is f16 else common


def _promote_two(a: DType, b: DType) -> DType:
    """Returns NumPy's common type of two types."""
    if a is b:
        return a
    if {a.kind, b.kind} == {"i", "u"} and max(a.bits * (a.kind == "u"), b.bits * (b.kind == "u")) == 64:
        raise DTypeError(
            complaint(
                f"{a} with {b}: no integer type holds both",
                remedy="x.astype(rd.i64) or x.astype(rd.u64) on one of them",
            )
        )
    dtype = dtype_of(np.promote_types(a.numpy, b.numpy))
    assert dtype is not None
    return dtype


def check_fits(value: Array, dtype: DType) -> None:
    """Raises `DTypeError` where an integer literal does not fit the type that it takes."""
    node = value.node
    if value.weak != LITERAL or not hasattr(node, "bits") or not dtype.is_integer or not value.dtype.is_integer:
        return
    info = np.iinfo(dtype.numpy)
    if not info.min <= node.value <= info.max:
        raise DTypeError(
            complaint(
                f"the literal {node.value} does not fit {dtype}",
                why=f"{dtype} holds {info.min} to {info.max}",
                remedy="rd.i64(x) of what it meets, for a wider type",
            )
        )


def float_type(values: Sequence[Array]) -> tuple[DType, int]:
    """Returns the type in which NumPy computes a float function of operands, the widest of their float types, and its weakness."""
    dtype, weak = common_type(values)
    strong = [v.dtype for v in values if v.weak == STRONG]
    if dtype.is_float or not strong:
        return float_type_for(dtype, weak), weak
    if dtype is not promote(strong):  # dtype was widened to i64 by a counter, or by a literal beside bool_
        return f64, weak
    return max((float_type_for(own, STRONG) for own in strong), key=lambda own: own.bits), weak


def float_type_for(dtype: DType, weak: int) -> DType:
    """Returns the float type in which NumPy computes a mathematical function of a value of that type."""
    if dtype.is_float:
        return dtype
    if weak != STRONG:
        return f64
    bits = dtype.bits
    return f16 if bits <= 8 else f32 if bits == 16 else f64
