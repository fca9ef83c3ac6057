"""Errors of recipes in ulp, measured against mpmath. `python -m raido.algo.recipes` prints the table.

An error in ulp is |result - exact| divided by the distance of neighbouring numbers at the exact value; a correctly rounded
function has 0.5. `BOUNDS` are the promised and tested bounds; they leave some room above the errors that `table` measures, on domains that
include denormals, huge arguments of sin, cos and tan, and the neighbourhood of each zero and boundary.
Needs mpmath, which is not needed at run time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

from raido.algo.graph.dtypes import DType, f32, f64
from raido.algo.recipes import FUNCTIONS, evaluate_recipe

# name: promised error in ulp for f32 and f64
BOUNDS: dict[str, tuple[float, float]] = {
    "exp": (1.0, 1.0),
    "exp2": (0.9, 0.9),
    "expm1": (1.7, 1.8),
    "log": (1.0, 1.0),
    "log2": (2.0, 1.2),
    "log10": (2.6, 1.0),
    "log1p": (1.7, 1.6),
    "sin": (1.4, 1.7),
    "cos": (1.4, 1.7),
    "tan": (2.0, 2.2),
    "asin": (1.5, 1.6),
    "acos": (1.3, 1.4),
    "atan": (1.8, 1.9),
    "atan2": (1.9, 2.1),
    "sinh": (2.0, 2.0),
    "cosh": (2.1, 1.8),
    "tanh": (2.2, 2.2),
    "asinh": (1.7, 1.7),
    "acosh": (1.7, 1.7),
    "atanh": (1.7, 1.7),
    "erf": (1.9, 2.3),
    "erfc": (3.2, 4.5),
    "pow": (1.1, 1.2),
    "cbrt": (0.9, 0.7),
    "hypot": (1.2, 1.2),
    "rsqrt": (1.5, 1.5),
}


@dataclass(frozen=True, slots=True)
class Range:
    """A distribution of test arguments: uniform on low..high, or with exponents uniform on low..high (`scale`), of either sign if
    `signed`."""

    low: float
    high: float
    scale: bool = False
    signed: bool = True

    def draw(self, random: np.random.Generator, count: int) -> np.ndarray:
        numbers = random.uniform(self.low, self.high, count)
        if not self.scale:
            return numbers
        return np.exp2(numbers) * (random.choice([-1.0, 1.0], count) if self.signed else 1.0)


def _around(*boundaries: float) -> tuple[Range, ...]:
    return tuple(Range(min(b * 0.97, b * 1.03), max(b * 0.97, b * 1.03)) for b in boundaries)


_CIRCULAR = (Range(-4, 4), Range(-100, 100), Range(-3e4, 3e4), Range(0, 120, scale=True))
_LOGARITHM = (Range(0.5, 2), Range(0.9, 1.1), Range(-100, 100, scale=True, signed=False))
_UNIT = (Range(-1, 1), Range(-30, 0, scale=True), *_around(0.5, -0.5))
_MODERATE = (Range(-3, 3), Range(-20, 5, scale=True), *_around(0.3466, 0.55, 1.04))

DOMAINS: dict[str, tuple[Range, ...]] = {
    **dict.fromkeys(
        ("exp", "expm1"), (Range(-1, 1), Range(-80, 80), *_around(0.3466, -0.3466, 88, -88, -103, 709, -709))
    ),
    "exp2": (Range(-1, 1), Range(-120, 120), *_around(0.5, 128, -127, -149, 1024, -1023)),
    **dict.fromkeys(("log", "log2", "log10"), _LOGARITHM),
    "log1p": (Range(-1, 1), Range(-60, 60, scale=True, signed=False), Range(-0.1, 0.1)),
    **dict.fromkeys(("sin", "cos", "tan"), _CIRCULAR),
    **dict.fromkeys(("asin", "acos", "atanh"), _UNIT),
    "atan": (Range(-3, 3), Range(-20, 20, scale=True), *_around(0.5, 2)),
    **dict.fromkeys(("sinh", "cosh", "tanh"), (*_MODERATE, Range(-88, 88))),
    "asinh": (*_MODERATE, Range(-20, 60, scale=True)),
    "acosh": (Range(1, 3), Range(0, 60, scale=True, signed=False), Range(1, 1.05)),
    **dict.fromkeys(("erf", "erfc"), (Range(-3, 3), Range(-6, 6), Range(0, 10), *_around(1, -1, 9.1, 26.5))),
    "cbrt": (Range(-8, 8),),
    "rsqrt": (Range(0, 4),),
    "pow": (Range(-3, 3, scale=True, signed=False), Range(-0.6, 0.6, scale=True, signed=False)),
    **dict.fromkeys(("atan2", "hypot"), (Range(-3, 3), Range(-9, 9, scale=True))),
}
_POW_EXPONENTS = (Range(-20, 20), Range(-160, 160))

EXACT: dict[str, Any] = {name: getattr(mp, name, None) for name in FUNCTIONS} | {
    "exp2": lambda x: mp.mpf(2) ** x,
    "log2": lambda x: mp.log(x, 2),
    "pow": mp.power,
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "rsqrt": lambda x: 1 / mp.sqrt(x),
}


def samples(name: str, dtype: DType, count: int, seed: int = 1) -> tuple[np.ndarray, ...]:
    """About `count` test arguments: from every range of the function's domain, and numbers with random bits."""
    random = np.random.default_rng(seed)
    ranges = DOMAINS[name]
    each = count // (len(ranges) + 1) + 1
    bits = random.integers(0, 2**dtype.bits - 1, (2, each), np.dtype(f"u{dtype.itemsize}"), endpoint=True)
    first = [*(r.draw(random, each).astype(dtype.numpy) for r in ranges), bits[0].view(dtype.numpy)]
    if name not in ("pow", "atan2", "hypot"):
        return (np.concatenate(first),)
    second = [*(r.draw(random, each).astype(dtype.numpy) for r in (_POW_EXPONENTS if name == "pow" else ranges))]
    return np.concatenate(first), np.concatenate([*second, bits[1].view(dtype.numpy)])


def errors(name: str, dtype: DType, *args: np.ndarray) -> Iterator[float]:
    """The error in ulp at each argument whose exact value is a real number in the range of the dtype; other arguments are skipped."""
    info = np.finfo(dtype.numpy)
    smallest, largest = mp.mpf(float(info.smallest_subnormal)), mp.mpf(float(info.max))
    results = evaluate_recipe(name, dtype, *args)
    with mp.workprec(dtype.bits * 3):
        for result, *xs in zip(results.tolist(), *(a.tolist() for a in args), strict=True):
            if not all(np.isfinite(xs)):
                continue
            exact = _exact(name, *xs)
            if exact is None or abs(exact) > largest:
                continue
            ulp = max(smallest, mp.ldexp(1, mp.frexp(exact)[1] - info.nmant - 1)) if exact else smallest
            yield float(abs(mp.mpf(result) - exact) / ulp) if np.isfinite(result) else float("inf")


def _exact(name: str, *xs: float) -> Any:
    """The exact value, or None where the function is undefined or its value exceeds the range of every dtype."""
    first = abs(xs[0])
    if (name == "pow" and (xs[0] <= 0 or abs(xs[1]) * abs(math.log(xs[0])) > 800)) or (name == "rsqrt" and first == 0):
        return None
    if name in ("exp", "exp2", "expm1", "sinh", "cosh", "tanh", "erf", "erfc") and first > 1100:
        return None
    if name in ("sin", "cos", "tan", "expm1", "tanh", "log1p", "atanh", "asinh", "sinh", "acosh") and (
        first > 1e3 or first < 1e-3
    ):
        with mp.extraprec(1200):
            return _real(name, *xs)
    return _real(name, *xs)


def _real(name: str, *xs: float) -> Any:
    try:
        value = EXACT[name](*(mp.mpf(x) for x in xs))
    except (ValueError, ZeroDivisionError):
        return None
    return None if isinstance(value, mp.mpc) or not mp.isfinite(value) else value


def table(count: int) -> Iterator[str]:
    """The promised and the measured errors of every function as a Markdown table."""
    yield f"Measured: the worst of {count:,} random arguments for each function and type, drawn as `accuracy.samples` does.\n"
    yield "| function | f32 promised | f32 measured | f64 promised | f64 measured |"
    yield "|---|---|---|---|---|"
    for name in FUNCTIONS:
        cells = []
        for dtype, bound in zip((f32, f64), BOUNDS[name], strict=True):
            cells += [f"{bound}", f"{max(errors(name, dtype, *samples(name, dtype, count))):.2f}"]
        yield f"| `{name}` | {' | '.join(cells)} |"
