"""The cost of an operation: its kind, its throughput as a vector and as a scalar, and its latency.

The model is a common core with two 256-bit pipes for arithmetic, two loads and one store a cycle. The figures are rounded from the
manufacturers' tables; only their proportions matter, since the tuner's model learns the rest.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from raido.algo.graph.dtypes import DType, f32
from raido.algo.graph.primitives import PRIMITIVES
from raido.algo.graph.rewrite import topological
from raido.algo.recipes import FUNCTIONS, expand

KINDS = ("fma", "float", "divide", "function", "integer", "integer_divide", "compare", "convert", "index")


class Cost(NamedTuple):
    """The cost of an operation. kind: an index into `KINDS`. vector: cycles for 256 bits. scalar: cycles for one element. latency: cycles
    until the result can be used.
    """

    kind: int
    vector: float
    scalar: float
    latency: float


_FREE = Cost(KINDS.index("index"), 0.05, 0.05, 1.0)


def index_cost() -> Cost:
    """Returns the cost of index arithmetic that advances with a loop: next to nothing, since it becomes part of addresses."""
    return _FREE


@cache
def cost_of(name: str, dtype: DType, operand: DType) -> Cost:
    """Returns the cost of a primitive, given the dtypes of its result and of its first operand."""
    kind = KINDS.index
    if name in FUNCTIONS:
        length = _length(name, dtype if dtype.bits >= 32 else f32)
        return Cost(kind("function"), 0.5 * length, 0.5 * length, 2.0 * length)
    rule = PRIMITIVES[name].rule
    if rule in ("compare", "predicate", "select") or name.startswith("logical_"):
        return Cost(kind("compare"), 0.5, 0.4, 1.0)
    if rule == "cast":
        return Cost(kind("convert"), 0.75, 0.75, 3.0)
    if operand.is_float:
        double = operand.bits == 64
        if name in ("div", "sqrt"):
            return Cost(kind("divide"), 8.0 if double else 5.0, 5.0 if double else 4.0, 13.0)
        if name in ("fmod", "floordiv", "floormod", "mod", "truncdiv", "truncrem"):
            return Cost(kind("divide"), 30.0, 20.0, 40.0)
        return Cost(kind("fma" if name == "fma" else "float"), 0.5, 0.5, 4.0 if name != "neg" else 1.0)
    if name in ("floordiv", "floormod", "mod", "truncdiv", "truncrem"):
        lanes = 256 / operand.bits
        return Cost(kind("integer_divide"), 6.0 * lanes, 6.0, 12.0)
    if name == "mul" and operand.bits == 64:
        return Cost(kind("integer"), 1.5, 1.0, 3.0)
    return Cost(kind("integer"), 0.4, 0.3, 3.0 if name == "mul" else 1.0)


def _length(name: str, dtype: DType) -> int:
    _, body = expand(name, dtype)
    return len(topological(body))
