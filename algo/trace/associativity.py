"""A warning for reduction and scan operators that are not associative: their results depend on the grouping of the elements.

`op(op(a, b), c)` and `op(a, op(b, c))` are compared on a few numbers while tracing; where they differ widely, the user is warned. Only
operators on one number are tested: the elements of tuples may satisfy invariants that random numbers do not (counts, ends of runs).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from raido.algo.errors import OperatorWarning, explain
from raido.algo.graph.dtypes import MANTISSA, DType, bool_
from raido.algo.graph.expr import Const, Expr, Node, Op, Var
from raido.algo.graph.primitives import PRIMITIVES, evaluate
from raido.algo.graph.rewrite import topological
from raido.algo.trace.locations import user_site, warn_at

_TRIED = 32  # triples of numbers on which an operator is tested
_MOST = 200  # operations: larger operators are not tested


def warn_of_grouping(left: Var, right: Var, body: Expr, what: str) -> None:
    """Warns the user, at the line being traced, where the operator is not associative for more than a quarter of the tested triples."""
    order = topological(body)
    if len(order) > _MOST or not all(_is_plain(node) or node in (left, right) for node in order):
        return
    dtype = left.dtype
    combine = lambda a, b: _value(body, order, {left: a, right: b})
    a, b, c = _numbers(dtype)
    first, second = combine(combine(a, b), c), combine(a, combine(b, c))
    if dtype.is_float:
        wide = [np.asarray(e, np.float64) for e in (first, second)]
        known = np.isfinite(wide[0]) & np.isfinite(wide[1])
        size = np.maximum(abs(wide[0]), abs(wide[1]))
        apart = known & (abs(wide[0] - wide[1]) > 2.0 ** (-MANTISSA[dtype] / 2) * np.maximum(size, 1e-3))
    else:
        apart = first != second
    if 4 * np.count_nonzero(apart) <= _TRIED:
        return
    k = int(np.flatnonzero(apart)[0])
    shown = tuple(f"{float(e[k]):.4g}" if dtype.is_float else str(e[k]) for e in (a, b, c, first, second))
    site = user_site()
    text = explain(
        f"the operator of {what} is not associative, so that results depend on how the schedule groups elements",
        why=f"of {shown[0]}, {shown[1]} and {shown[2]}, op(op(a, b), c) is {shown[3]}, and op(a, op(b, c)) is {shown[4]}",
        algorithm=str(site),
        **{"try": "rd.loop, with out.at[i].set(v) in its state, for a recurrence"},
    )
    warn_at(site, text, OperatorWarning)


def _is_plain(node: Node) -> bool:
    return isinstance(node, Const) or (isinstance(node, Op) and node.name in PRIMITIVES)


def _numbers(dtype: DType) -> list[np.ndarray]:
    """Returns three arrays of small test numbers, all positive or zero, since many operators are associative only there."""
    rng = np.random.default_rng(0)
    if dtype is bool_:
        return [rng.random(_TRIED) < 0.5 for _ in range(3)]
    if dtype.is_float:
        return [rng.uniform(0.25, 4, _TRIED).astype(dtype.numpy) for _ in range(3)]
    return [rng.integers(0, 8, _TRIED).astype(dtype.numpy) for _ in range(3)]


def _value(body: Expr, order: Sequence[Node], known: Mapping[Node, np.ndarray]) -> np.ndarray:
    values: dict[Node, Any] = dict(known)
    for node in order:
        if isinstance(node, Const):
            values[node] = np.full(_TRIED, node.value).astype(node.dtype.numpy)
        elif isinstance(node, Op):
            values[node] = evaluate(node.name, node.dtype, [values[arg] for arg in node.args])
    return values[body]
