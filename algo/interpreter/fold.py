"""Folds a block of values into an accumulator, as if one by one in order, for operators that are one primitive.

`values` has the reduction's indices along its last axis; the accumulator has the axes before it. Where the order cannot show (integers,
booleans, extremes) NumPy folds at once; float sums and products are accumulated strictly from the left.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from raido.algo.graph.dtypes import DType
from raido.algo.graph.expr import Expr, Op
from raido.algo.graph.narrow import widen
from raido.algo.graph.primitives import evaluate
from raido.algo.graph.rewrite import topological

_UFUNCS = {"add": np.add, "mul": np.multiply}
_UFUNCS |= {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor}
_EXACT = ("select", "minimum", "maximum", "lt", "le", "gt", "ge", "eq", "ne", "isnan", "neg", "abs")
_UFUNCS |= {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}


def fold_primitive(name: str, dtype: DType, accumulator: np.ndarray, values: np.ndarray) -> np.ndarray | None:
    """The accumulator after all `values`, or None for an operator without a fast path."""
    if name in ("minimum", "maximum"):
        return evaluate(name, dtype, [accumulator, _extreme(name, widen(values))])
    ufunc = _UFUNCS.get(name)
    if ufunc is None:
        return None
    with np.errstate(all="ignore"):
        if dtype.is_float:
            lead = np.broadcast_shapes(accumulator.shape, values.shape[:-1])
            first = np.broadcast_to(accumulator[..., None], (*lead, 1))
            rest = np.broadcast_to(values, (*lead, values.shape[-1]))
            return ufunc.accumulate(np.concatenate([first, rest], axis=-1), axis=-1)[..., -1]
        return evaluate(name, dtype, [accumulator, ufunc.reduce(values, axis=-1, dtype=values.dtype)])


def accumulate_primitive(name: str, dtype: DType, start: np.ndarray, values: np.ndarray) -> np.ndarray | None:
    """The accumulators after each of the `values` along the last axis, or None for an operator without a fast path."""
    ufunc = _UFUNCS.get(name)
    if ufunc is None:
        return None
    lead = np.broadcast_shapes(np.shape(start), values.shape[:-1])
    first = np.broadcast_to(np.asarray(start)[..., None], (*lead, 1))
    chain = np.concatenate([first, np.broadcast_to(values, (*lead, values.shape[-1]))], axis=-1)
    with np.errstate(all="ignore"):
        return ufunc.accumulate(chain, axis=-1, dtype=dtype.numpy)[..., 1:]


def rounds_floats(combine: Sequence[Expr]) -> bool:
    """Whether an operator computes with floats, beyond choosing among them, so that the order of its applications shows."""
    nodes = topological(*combine)
    return any(
        isinstance(e, Op) and e.name not in _EXACT and any(a.dtype.is_float for a in (e, *e.args)) for e in nodes
    )


def fold_fma(accumulator: np.ndarray, a: np.ndarray, b: np.ndarray, count: int) -> np.ndarray:
    """The accumulator after `fma(a, b, accumulator)` at each of `count` indices along the last axis (or for factors that do not vary)."""
    from raido.algo.graph.fma import fma

    for j in range(count):
        accumulator = np.asarray(fma(a[..., j % a.shape[-1]], b[..., j % b.shape[-1]], accumulator))
    return accumulator


def _extreme(name: str, values: np.ndarray) -> np.ndarray:
    """The fold of `minimum` or `maximum` without an accumulator: NumPy's, corrected for signs of zeros."""
    ufunc = np.minimum if name == "minimum" else np.maximum
    best = np.asarray(ufunc.reduce(values, axis=-1))
    if values.dtype.kind != "f" or not (best == 0).any():
        return best
    negative = (values == 0) & np.signbit(values)
    minus = negative.any(axis=-1) if name == "minimum" else (negative | (values != 0)).all(axis=-1)
    return np.where(best == 0, np.copysign(best, np.where(minus, -best.dtype.type(1), best.dtype.type(1))), best)
