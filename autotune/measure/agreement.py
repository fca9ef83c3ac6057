"""Compares a candidate's results with the default schedule's.

A schedule may change one thing only: the grouping of float reductions and scans. So results that depend on no such fold must be equal (bit
for bit, but all NaN are equal), and the others may differ by the rounding of a fold of n elements: `bounds_of` gives r = 4 · eps · (16 +
√n), at most 5 %, and an element may be off by r · (|its value| + the mean of |values|). Integers derived from rounded floats (a label, a
count) may differ in one element of a thousand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from raido.algo.errors import TargetError
from raido.algo.graph.dtypes import MANTISSA, kind_of
from raido.algo.graph.expr import Expr, Node, Op, Reduce, Scan, Segmented, Update
from raido.algo.graph.narrow import widen
from raido.algo.graph.program import Program
from raido.algo.graph.rewrite import topological
from raido.targets.signature import evaluate_size, size_of

_EXACT = frozenset({"minimum", "maximum", "select", "neg", "abs", "fmin", "fmax"})
_CHUNK = 1 << 20
_LARGEST_BOUND = 0.05
_STRAY = 1e-3


def bounds_of(program: Program, sizes: Mapping[str, int], tolerance: float | None = None) -> list[float]:
    """The relative error allowed in each result: 0 for one that must be equal. `tolerance` replaces the other bounds."""
    bounds = []
    for result in program.results:
        folds = [node for node in topological(result) if _rounds(node)]
        if not folds:
            bounds.append(0.0)
        elif tolerance is not None:
            bounds.append(tolerance)
        else:
            length = max(_length(fold, sizes) for fold in folds)
            eps = max(2.0 ** -MANTISSA[dtype] for fold in folds for dtype in _dtypes(fold) if dtype.is_float)
            bounds.append(min(_LARGEST_BOUND, 4 * eps * (16 + math.sqrt(length))))
    return bounds


def difference(got: np.ndarray, want: np.ndarray, bound: float) -> str:
    """Description of a result's deviation; "" if it agrees."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    strays, first, count = 0, -1, got.size
    mean = _mean_size(want) if bound else 0.0
    left, right = got.reshape(-1), want.reshape(-1)
    for start in range(0, count, _CHUNK):
        a, b = left[start : start + _CHUNK], right[start : start + _CHUNK]
        wrong = _differ(a, b, bound, mean)
        found = int(np.count_nonzero(wrong))
        if found and first < 0:
            first = start + int(np.argmax(wrong))
        strays += found
    allowed = int(count * _STRAY) if bound and kind_of(want.dtype) not in "fc" else 0
    if strays <= allowed:
        return ""
    where = tuple(int(i) for i in np.unravel_index(first, got.shape))
    return f"{strays} of {count} elements differ, first at {list(where)}: {left[first]} instead of {right[first]}"


def flat_results(result: Any) -> list[np.ndarray]:
    """The arrays of a result, in order."""
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, tuple):
        return [leaf for part in result for leaf in flat_results(part)]
    return [np.asarray(result)]


def _differ(a: np.ndarray, b: np.ndarray, bound: float, mean: float) -> np.ndarray:
    a, b = widen(a), widen(b)
    if a.dtype.kind not in "fc":
        return a != b
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if bound:
            wide = np.complex128 if a.dtype.kind == "c" else np.float64
            x, y = a.astype(wide), b.astype(wide)
            same |= np.abs(x - y) <= bound * (np.abs(y) + mean)
    return ~same


def _mean_size(array: np.ndarray) -> float:
    """The mean of the finite absolute values; 0 for dtypes other than floats."""
    if kind_of(array.dtype) not in "fc":
        return 0.0
    total, count = 0.0, 0
    for start in range(0, array.size, _CHUNK):
        part = np.abs(widen(array.reshape(-1)[start : start + _CHUNK]))
        finite = part[np.isfinite(part)]
        total += float(np.sum(finite, dtype=np.float64))
        count += finite.size
    return total / count if count else 0.0


def _rounds(node: Node) -> bool:
    """Whether a fold's grouping changes its result."""
    if not isinstance(node, (Reduce, Scan, Segmented, Update)) or (isinstance(node, Update) and node.mode != "combine"):
        return False
    return any(
        isinstance(part, Op) and part.dtype.is_float and part.name not in _EXACT for part in topological(*node.combine)
    )


def _dtypes(fold: Any) -> list[Any]:
    return [value.dtype for value in fold.left]


def _length(fold: Any, sizes: Mapping[str, int]) -> int:
    """The maximal number of elements in one result of a fold; a million where it is unknown before the run."""
    axes = fold.axes
    if isinstance(fold, Scan):
        axes = axes[fold.along : fold.along + 1]
    elif isinstance(fold, Segmented):
        axes = axes[:1]
    try:
        return math.prod(max(1, _evaluated(axis.extent, sizes)) for axis in axes)
    except (TargetError, KeyError):
        return 1_000_000


def _evaluated(size: Expr, sizes: Mapping[str, int]) -> int:
    return evaluate_size(size_of(size), sizes)
