"""Expected results of stencils: NumPy's borders and slices for any of them, `scipy.ndimage` for weighted sums and extremes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

PAD_MODES = {"clamp": "edge", "wrap": "wrap", "mirror": "reflect", "symmetric": "symmetric"}


# "the neighbourhood is what `f` touches"; "`valid`": only where all of it is inside
def windows(
    a: Any, offsets: Sequence[tuple[int, ...]], rules: Sequence[str], fill: Any, stride: Sequence[int]
) -> list[np.ndarray]:
    """For each offset the elements that far from every position, from NumPy's borders and slices."""
    starts: list[int] = []
    ends: list[int] = []
    for k, rule in enumerate(rules):
        low, high = min(o[k] for o in offsets), max(o[k] for o in offsets)
        n = a.shape[k]
        if rule == "valid":
            starts.append(-low)
            ends.append(max(n - high, -low))
            continue
        before, after = max(0, -low), max(0, high)
        width = [(0, 0)] * a.ndim
        width[k] = (before, after)
        if rule == "constant":
            a = np.pad(a, width, constant_values=a.dtype.type(fill))
        elif n:
            a = np.pad(a, width, mode=PAD_MODES[rule])  # type: ignore[call-overload]
        else:
            a = np.zeros([m + sum(p) for m, p in zip(a.shape, width, strict=True)], a.dtype)
        starts.append(before)
        ends.append(before + n)
    result = []
    for o in offsets:
        key = [slice(s + d, e + d, step) for s, e, d, step in zip(starts, ends, o, stride, strict=True)]
        result.append(a[tuple(key)])
    return result


def correlate(a: Any, taps: dict[tuple[int, ...], int], mode: str, fill: int) -> Any:
    """`scipy.ndimage.correlate` with these weights at these offsets."""
    from scipy import ndimage

    reach = [max(abs(o[k]) for o in taps) for k in range(a.ndim)]
    weights = np.zeros([2 * r + 1 for r in reach])
    for o, weight in taps.items():
        weights[tuple(d + r for d, r in zip(o, reach, strict=True))] = weight
    return ndimage.correlate(a.astype(np.float64), weights, mode=mode, cval=fill).astype(a.dtype)


def ranked(name: str, a: Any, offsets: Sequence[tuple[int, ...]], mode: str, fill: int) -> Any:
    """`scipy.ndimage.minimum_filter` or `maximum_filter` over these offsets."""
    from scipy import ndimage

    reach = [max(abs(o[k]) for o in offsets) for k in range(a.ndim)]
    footprint = np.zeros([2 * r + 1 for r in reach], bool)
    for o in offsets:
        footprint[tuple(d + r for d, r in zip(o, reach, strict=True))] = True
    function = {"minimum": ndimage.minimum_filter, "maximum": ndimage.maximum_filter}[name]
    return function(np.ascontiguousarray(a), footprint=footprint, mode=mode, cval=fill)
