"""Arithmetic on terms: Python numbers while they are known, TIR otherwise."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from raido.algo.graph.dtypes import DType, i32, i64, whole_range
from raido.algo.graph.expr import Const, Op, SizeVar, Var
from raido.schedule.nest.integer_ranges import IntegerRanges
from raido.schedule.nest.values import Ramp, Splat, VectorVar
from raido.targets import tvm_corner as T

Term = Any  # a TIR expression, or a Python int or bool that is known

INDEX_OPERATIONS = {"add": T.Add, "sub": T.Sub, "mul": T.Mul, "minimum": T.Min, "maximum": T.Max}
_FOLDS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "minimum": min,
    "maximum": max,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "floormod": lambda a, b: a % b if b else 0,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "logical_and": lambda a, b: a and b,
    "logical_or": lambda a, b: a or b,
    "logical_not": lambda a: not a,
    "clamp_index": lambda e, n: max(min(e, n - 1), 0),
}


def fold_known(name: str, terms: Sequence[Term]) -> Term | None:
    """The result of an index operation on known numbers, wrapped to 64 bits; None for unknown operands or other operations."""
    if name not in _FOLDS or not all(isinstance(t, int) for t in terms):
        return None
    folded = _FOLDS[name](*terms)
    return folded if isinstance(folded, bool) or -(1 << 63) <= folded < 1 << 63 else _wrap(folded)


def _wrap(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def index_operation(name: str, terms: Sequence[Term], lanes: int) -> Term:
    """One of `INDEX_OPERATIONS` on indices; `lanes` is the result's."""
    if name == "add":
        return index_sum(terms[0], terms[1], lanes)
    if name == "mul":
        return index_product(terms[0], terms[1], lanes)
    return INDEX_OPERATIONS[name](*map(tir, terms))


def index_sum(a: Term, b: Term, lanes: int | None = None) -> Term:
    """a + b; `lanes`: the sum's, where known."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if isinstance(a, int) and a == 0:
        return b
    if isinstance(b, int) and b == 0:
        return a
    return _with_lanes(T.Add, a, b, lanes)


def index_product(a: Term, b: Term, lanes: int | None = None) -> Term:
    """a · b; `lanes`: the product's, where known."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    for x, y in ((a, b), (b, a)):
        if isinstance(x, int) and x == 1:
            return y
        if isinstance(x, int) and x == 0 and (lanes == 1 or _lanes_of_term(y) == 1):
            return 0
    return _with_lanes(T.Mul, a, b, lanes)


def _with_lanes(node: Any, a: Term, b: Term, lanes: int | None) -> Any:
    a, b = tir(a), tir(b)
    if lanes == 1:
        return node(a, b)
    lanes = max(_lanes_of_term(a), _lanes_of_term(b))
    if lanes > 1:
        a = a if _lanes_of_term(a) > 1 else T.Broadcast(a, lanes)
        b = b if _lanes_of_term(b) > 1 else T.Broadcast(b, lanes)
    return node(a, b)


def spread(term: Term, lanes: int) -> Any:
    """A term broadcast to all lanes."""
    return T.Broadcast(tir(term), lanes)


def _lanes_of_term(term: Any) -> int:
    return 1 if isinstance(term, int) else term.ty.dtype.lanes


def tir(term: Term, dtype: DType = i64) -> Any:
    """A term as TIR."""
    if not isinstance(term, int):
        return term
    return T.integer("bool", int(term)) if isinstance(term, bool) else T.integer(T.type_name(dtype), term)


def is_plain_index(e: Any, index_like: Container[Any], memo: dict[Any, bool]) -> bool:
    """Whether an i64 expression is built from loop indices and sizes so that it cannot overflow, and TIR's own arithmetic is correct for
    it."""
    known = memo.get(e)
    if known is None:
        known = memo[e] = _plain(e, index_like, memo)
    return known


def _plain(e: Any, index_like: Container[Any], memo: dict[Any, bool]) -> bool:
    if e.dtype is not i64:
        return False
    if isinstance(e, Const):
        return abs(e.bits) < 1 << 31
    if isinstance(e, SizeVar):
        return True
    if isinstance(e, (Var, VectorVar)):
        return e in index_like
    if isinstance(e, Ramp):
        return is_plain_index(e.base, index_like, memo)
    if isinstance(e, Splat):
        return is_plain_index(e.value, index_like, memo)
    if not isinstance(e, Op) or not all(is_plain_index(a, index_like, memo) for a in e.args):
        return False
    if e.name == "mul":
        return any(
            isinstance(a, (Const, SizeVar)) or (isinstance(a, Splat) and isinstance(a.value, Const)) for a in e.args
        )
    return e.name in ("add", "sub", "neg", "minimum", "maximum", "floordiv", "mod", "floormod")


def fits_i32(e: Any, ranges: IntegerRanges) -> bool:
    """Whether the range of an i64 index fits 32 bits, judging by the casts, literals, extremes and names that it is made of."""
    least, most = whole_range(i32)
    found = ranges.range_of(e)
    return found is not None and least <= found[0] and found[1] <= most
