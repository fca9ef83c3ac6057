"""Primitive operations as TIR: TIR's own operator where it has exactly the same meaning, else a call of a helper function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.dtypes import DType, bf16, bool_, i64
from raido.algo.graph.expr import Const, Op
from raido.algo.graph.primitives import DIVISIONS
from raido.schedule.lower.expressions.index_checks import is_made_of_sizes
from raido.schedule.nest.values import Ramp, Read, Splat, VectorVar, lanes_of
from raido.targets import tvm_corner as T
from raido.targets.emit.extremes import bind_inputs, nan_of_inputs
from raido.targets.emit.terms import INDEX_OPERATIONS, Term, fold_known, index_operation, is_plain_index, tir

if TYPE_CHECKING:
    from raido.targets.emit.values import Values

_NATIVE = {"add": T.Add, "sub": T.Sub}
_COMPARISONS = {"lt": T.LT, "le": T.LE, "gt": T.GT, "ge": T.GE, "eq": T.EQ}
_EXACT_REDUCTIONS = {
    "logical_or": "or",
    "logical_and": "and",
    "logical_xor": "xor",
    "bit_or": "or",
    "bit_and": "and",
    "bit_xor": "xor",
}
_BY_CONSTANT = (*DIVISIONS, "wrap_index", "shl", "shr")
_BY_SHARED = (*DIVISIONS, "wrap_index")
_EXTREMES = ("minimum", "maximum")


def emit_operation(values: Values, e: Op, plain: dict[Any, bool]) -> Term:
    """A primitive operation as TIR."""
    in_network = e in values.networks.members
    terms = bind_inputs(values, e) if in_network else [values.memo[a] for a in e.args]
    if (folded := fold_known(e.name, terms)) is not None:
        return folded
    lanes = lanes_of(e)
    values.unit.vector_operations += lanes > 1
    if e.dtype is i64 and is_plain_index(e, values.unit.index_like, plain):
        if e.name in INDEX_OPERATIONS:
            return index_operation(e.name, terms, lanes)
        if e.name == "neg":
            zero = T.IntImm("int64", 0)
            return T.Sub(T.Broadcast(zero, lanes) if lanes > 1 else zero, tir(terms[0]))
        divisor = _constant_of(e.args[-1])
        if e.name == "floordiv" and divisor and divisor & (divisor - 1) == 0 and divisor > 0 and lanes == 1:
            return T.RShift(tir(terms[0]), T.IntImm("int64", divisor.bit_length() - 1))
    args = [tir(t, a.dtype) for t, a in zip(terms, e.args, strict=True)]
    first = e.args[0].dtype
    if e in values.by_products:
        return values.unit.call(values.unit.helpers.values.root_by_products(), e.dtype, lanes, *args)
    if e.dtype.is_float and e.dtype is not bf16 and e.name in _NATIVE:
        return _NATIVE[e.name](*args)
    if (bounds := _below(e)) is not None:
        base, high = bounds
        return values.unit.call(
            values.unit.helpers.values.below(lanes), bool_, lanes, values.tir(base), values.tir(high)
        )
    if (inside := _inside(e)) is not None:
        return values.unit.call(values.unit.helpers.values.inside(), bool_, 1, *map(values.tir, inside))
    if e.name in _COMPARISONS and first not in (bool_, bf16):
        return _COMPARISONS[e.name](*args)
    if e.name == "ne" and first.is_integer:
        return T.NE(*args)
    if e.name == "select" and isinstance(terms[0], bool):
        return terms[1] if terms[0] else terms[2]
    if e.name == "select" and isinstance(moved := e.args[1], Op) and _is_masked_step(e):
        symbol = values.unit.helpers.values.step_where(e.dtype, lanes)
        return values.unit.call(symbol, e.dtype, lanes, args[0], *(values.tir(a) for a in moved.args), args[2])
    if e in values.choices:
        return values.unit.call(values.unit.helpers.values.choice(e.name, e.dtype), e.dtype, 1, *args)
    if e.name == "cast" and first is e.dtype:
        return terms[0]
    if e.name == "cast" and first.is_integer and _holds_every(e.dtype, first):
        return T.Cast(T.type_name(e.dtype, lanes), args[0])
    literals = {}
    if e.name in (_BY_CONSTANT if first.is_integer else _EXTREMES):
        known = [(k, _literal_of(a)) for k, a in enumerate(e.args)]
        literals = {k: c for k, c in known if c is not None and (k == 1 or e.name in _EXTREMES)}
    shapes = [(a.dtype, lanes_of(a)) for a in e.args]
    if lanes > 1 and e.name in _BY_SHARED and isinstance(by := e.args[1], Splat) and 1 not in literals:
        shapes[1], args[1] = (by.dtype, 1), values.tir(by.value)
    name = f"{e.name}_of_numbers" if in_network else e.name
    result = values.unit.call(
        values.unit.helpers.values.operation(name, e.dtype, shapes, literals), e.dtype, lanes, *args
    )
    return nan_of_inputs(values, e, result) if e in values.networks.ends else result


def emit_lane_fold(values: Values, name: str, dtype: DType, lanes: int, value: Any) -> Any:
    """Reduces the lanes of a vector by a fixed tree: lower half with upper half, until one lane is left. Exact operations are one helper
    call."""
    helpers = values.unit.helpers
    exact = _EXACT_REDUCTIONS.get(name)
    if dtype.is_integer and name in ("add", "mul"):
        exact = name
    if dtype.is_integer and name in ("minimum", "maximum"):
        exact = ("s" if dtype.kind == "i" else "u") + name[:3]
    if exact and lanes > 1:
        return values.unit.call(helpers.values.reduce(exact, dtype, lanes), dtype, 1, value)
    while lanes > 1:
        value = values.unit.bind("lanes", dtype, lanes, value)
        lanes //= 2
        halves = [
            values.unit.call(helpers.values.half(dtype, 2 * lanes, upper), dtype, lanes, value)
            for upper in (False, True)
        ]
        if dtype.is_float and dtype is not bf16 and name == "add":
            value = T.Add(*halves)
        else:
            value = values.unit.call(helpers.values.operation(name, dtype, [(dtype, lanes)] * 2), dtype, lanes, *halves)
    return value


def _holds_every(wide: DType, narrow: DType) -> bool:
    """Whether TIR may see the cast: its analysis fails on the cast of a bound that the type cannot represent."""
    if wide.is_float:
        return wide.bits > 16
    if wide.kind == narrow.kind:
        return wide.bits >= narrow.bits
    return narrow.kind == "u" and wide.kind == "i" and wide.bits > narrow.bits


def _is_masked_step(e: Op) -> bool:
    """Whether `e` is a masked increment, select(mask, x + constant, x), of 512-bit vectors, whose addition takes a mask."""
    moved, start = e.args[1:]
    counts = isinstance(moved, Op) and moved.name == "add" and _constant_of(moved.args[1]) is not None
    return counts and e.dtype.is_integer and e.dtype.bits * lanes_of(e) == 512 and isinstance(start, (Read, VectorVar))


def _below(e: Op) -> tuple[Any, Any] | None:
    """Base index and bound of a tail mask, base + (0, 1, …) < bound; else None."""
    ramp: Any = e.args[0]
    high: Any = e.args[-1]
    tail = e.name == "lt" and isinstance(ramp, Ramp) and ramp.stride == 1 and isinstance(high, Splat)
    return (ramp.base, high.value) if tail else None


def _inside(e: Op) -> tuple[Any, Any] | None:
    """Index and size of a range test 0 <= index < size, which is one unsigned comparison; else None."""
    if e.name != "logical_and" or lanes_of(e) > 1:
        return None
    low, high = e.args
    if not isinstance(low, Op) or not isinstance(high, Op) or (low.name, high.name) != ("ge", "lt"):
        return None
    if low.args[0] is not high.args[0] or low.args[0].dtype is not i64 or _constant_of(low.args[1]) != 0:
        return None
    size = high.args[1]
    return (low.args[0], size) if is_made_of_sizes(size) and Assumptions().nonnegative(size) else None


def _literal_of(e: Any) -> Const | None:
    if isinstance(e, Splat):
        e = e.value
    return e if isinstance(e, Const) else None


def _constant_of(e: Any) -> int | None:
    known = _literal_of(e)
    return int(known.bits) if known is not None and not known.dtype.is_float else None
