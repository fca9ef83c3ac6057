"""Expected values that are not exact: NumPy's in longdouble, with an absolute error bound for each element.

Mathematical functions have the units in the last place that docs/math.md promises; sums and products have the bound that follows
from the number of terms under any grouping, γₙ = n·u / (1 − n·u) with u half a unit in the last place (Higham, *Accuracy and
Stability of Numerical Algorithms*, 2nd ed., sections 3.1 and 4.2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from numpy_law import oracle

WIDE = np.longdouble
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "math.md"
NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh"}
NUMPY_NAMES |= {"atanh": "arctanh", "atan2": "arctan2", "pow": "power"}


@dataclass
class Near:
    """Values, how far a result of type `dtype` may be from each, and where nothing is said since intermediate values may overflow.

    `signed`: a result that is zero has the sign of the value.
    """

    value: np.ndarray
    error: np.ndarray
    dtype: np.dtype[Any]
    open: np.ndarray
    signed: np.ndarray

    @property
    def rounded(self) -> np.ndarray:
        """The values in the type of the result."""
        with np.errstate(all="ignore"):
            return self.value.astype(self.dtype)


def near(value: Any, error: Any, dtype: Any, open_: Any = False, signed: Any = True) -> Near:
    """A `Near` whose parts have the shape of the value."""
    value = np.asarray(value, WIDE)
    spread = lambda part, kind: np.broadcast_to(np.asarray(part, kind), value.shape)
    return Near(value, spread(error, WIDE), np.dtype(dtype), spread(open_, bool), spread(signed, bool))


@cache
def promised() -> dict[str, tuple[float, float]]:
    """The units in the last place that docs/math.md promises for f32 and f64."""
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \| [\d.]+ \| ([\d.]+) \| [\d.]+ \|$", DOCUMENT.read_text(), re.M)
    return {name: (float(single), float(double)) for name, single, double in rows}


def ulp(value: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """The distance of neighbouring numbers of the type at each value, that of denormals at least."""
    info = np.finfo(dtype)
    _, exponent = np.frexp(np.where(np.isfinite(value), value, 1))
    exponent = np.clip(exponent - 1, int(info.minexp), int(info.maxexp) - 1)
    return np.ldexp(WIDE(1), exponent - int(info.nmant))


def float_type(*values: Any) -> np.dtype[Any]:
    """The type in which NumPy computes a function of mathematics."""
    empty = [np.zeros(0, np.asarray(v).dtype) for v in values]
    return (np.sqrt if len(empty) == 1 else np.hypot)(*empty).dtype


def math(name: str, *values: Any) -> Near:
    """A function of docs/math.md."""
    oracle.promotes(*values)
    dtype = float_type(*values)
    with np.errstate(all="ignore"):
        args = [np.asarray(v).astype(dtype).astype(WIDE) for v in values]
        exact = _exact(name, *args)
    single, double = promised()[name]
    # f16 is computed in f32 and rounded: half a unit of its own, and f32's error, of which it has 2**13 in one of its own
    units = {2: 0.5 + single / 2**13, 4: single, 8: double}[dtype.itemsize]
    return near(exact, units * ulp(exact, dtype), dtype)


def _exact(name: str, *args: np.ndarray) -> Any:
    if name == "rsqrt":
        return 1 / np.sqrt(args[0])
    if name in ("erf", "erfc"):
        import mpmath as mp

        with mp.workprec(100):
            function = getattr(mp, name)
            flat = [_wide(function(mp.mpf(float(x)))) if np.isfinite(x) else _at_end(name, x) for x in args[0].ravel()]
        result = np.array(flat, WIDE).reshape(args[0].shape)
        return np.where((args[0] == 0) & (name == "erf"), args[0], result)
    return getattr(np, NUMPY_NAMES.get(name, name))(*args)


def _wide(x: Any) -> Any:
    """A number of mpmath in longdouble; what is too small for it is 0."""
    import mpmath as mp

    mantissa, exponent = mp.frexp(x)
    return np.ldexp(WIDE(mp.nstr(mantissa, 25)), int(max(exponent, -20000)))


def _at_end(name: str, x: Any) -> Any:
    ends = (1, -1) if name == "erf" else (0, 2)
    return WIDE(np.nan) if np.isnan(x) else WIDE(ends[0] if x > 0 else ends[1])


def logaddexp(a: Any, b: Any) -> Near:
    """max + log1p(exp(min − max)): the last sum rounds once; what is added is below log 2 and carries a few roundings."""
    oracle.promotes(a, b)
    dtype = float_type(a, b)
    with np.errstate(all="ignore"):
        exact = np.logaddexp(np.asarray(a).astype(dtype).astype(WIDE), np.asarray(b).astype(dtype).astype(WIDE))
    return near(exact, 0.5 * ulp(exact, dtype) + 4 * np.finfo(dtype).eps, dtype, signed=False)


def growth(count: Any, dtype: np.dtype[Any]) -> Any:
    """γₙ."""
    share = np.asarray(count, WIDE) * (np.finfo(dtype).eps / 2)
    return share / (1 - share)


def _accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """NumPy's widening of small integers in sums and products."""
    return np.sum(np.zeros(1, dtype)).dtype


def sum(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None) -> Any:
    """`np.sum`; a conversion to `dtype` is the contract's."""
    dtype = np.dtype(dtype) if dtype is not None else _accumulator(a.dtype)
    x = oracle.astype(a, dtype)
    start = {} if initial is None else {"initial": dtype.type(initial)}
    if dtype.kind != "f":
        return np.asarray(np.sum(x, axis=axis, dtype=dtype, keepdims=keepdims, **start))
    with np.errstate(all="ignore"):
        wide, plain = x.astype(WIDE), np.asarray(np.sum(x, axis=axis, dtype=dtype, keepdims=keepdims, **start))
        exact = np.sum(wide, axis=axis, keepdims=keepdims, **start)
        sizes = np.sum(np.abs(np.where(np.isfinite(wide), wide, 0)), axis=axis, keepdims=keepdims)
    sizes = sizes + abs(WIDE(initial or 0))
    exact = np.where(sizes == 0, np.copysign(exact, plain), exact)
    return _grouped(exact, sizes, x.size // max(plain.size, 1) + 1, dtype)


def _grouped(exact: Any, sizes: Any, count: Any, dtype: np.dtype[Any]) -> Near:
    """A sum of so many terms whose absolute values add up to `sizes`."""
    error = growth(count, dtype) * sizes
    return near(exact, error, dtype, sizes + error >= np.finfo(dtype).max, sizes == 0)


def prod(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None) -> Any:
    """`np.prod`; a conversion to `dtype` is the contract's."""
    dtype = np.dtype(dtype) if dtype is not None else _accumulator(a.dtype)
    x = oracle.astype(a, dtype)
    start = {} if initial is None else {"initial": dtype.type(initial)}
    if dtype.kind != "f":
        return np.asarray(np.prod(x, axis=axis, dtype=dtype, keepdims=keepdims, **start))
    with np.errstate(all="ignore"):
        wide = x.astype(WIDE)
        exact = np.prod(wide, axis=axis, keepdims=keepdims, **start)
        up, down = (np.sum(part, axis=axis, keepdims=keepdims) for part in _logarithms(wide))
    return _product(exact, up, down, x.size // max(np.asarray(exact).size, 1) + 1, dtype)


def _logarithms(wide: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By how many powers of two each factor can make a product larger, and smaller."""
    number = np.isfinite(wide) & (wide != 0)
    logarithm = np.log2(np.abs(np.where(number, wide, 1)))
    return np.maximum(logarithm, 0), np.maximum(-logarithm, 0)


def _product(exact: Any, up: Any, down: Any, count: Any, dtype: np.dtype[Any]) -> Near:
    info = np.finfo(dtype)
    open_ = (up >= int(info.maxexp) - 2) | (down >= -int(info.minexp) - 2)
    exact = np.asarray(exact)
    with np.errstate(all="ignore"):
        error = growth(count, dtype) * np.abs(np.where(np.isfinite(exact), exact, 0))
    return near(exact, error, dtype, open_)


def mean(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """`np.mean`: integers in f64, f16 summed in f32."""
    out = np.dtype(dtype) if dtype is not None else a.dtype if a.dtype.kind == "f" else np.dtype(np.float64)
    inside = np.dtype(np.float32) if out == np.float16 and dtype is None else out
    x = a.astype(inside)
    with np.errstate(all="ignore"):
        wide = x.astype(WIDE)
        total = np.asarray(np.sum(wide, axis=axis, keepdims=keepdims))
        sizes = np.asarray(np.sum(np.abs(np.where(np.isfinite(wide), wide, 0)), axis=axis, keepdims=keepdims))
        count = WIDE(x.size // total.size if total.size else 1)
        exact = total / count
    error = growth(count + 3, inside) * sizes / max(count, WIDE(1)) + ulp(exact, inside) / 2
    error = error + (ulp(exact, out) / 2 if out != inside else 0)
    beyond = np.finfo(inside).max
    return near(exact, error, out, (sizes * (1 + growth(count, inside)) >= beyond) | (count >= beyond), False)


def scan(name: str, a: Any, axis: int, neutral: Any, exclusive: bool) -> Any:
    """`rd.scan` by "add" or "multiply" in the type of the array."""
    if a.dtype.kind != "f":
        return oracle.accumulate(getattr(np, name), a, axis, neutral, exclusive)
    with np.errstate(all="ignore"):
        wide = np.moveaxis(a.astype(WIDE), axis, 0)
        first = np.full((1, *wide.shape[1:]), neutral, a.dtype).astype(WIDE)
        terms = np.concatenate([first, wide])
        exact = getattr(np, name).accumulate(terms, axis=0)
        magnitudes = np.cumsum(np.abs(np.where(np.isfinite(terms), terms, 0)), axis=0)
        up, down = (np.cumsum(part, axis=0) for part in _logarithms(terms))
    kept = slice(None, -1) if exclusive else slice(1, None)
    back = lambda part: np.moveaxis(part[kept], 0, axis)
    count = len(terms)
    if name == "add":
        return _grouped(back(exact), back(magnitudes), count, a.dtype)
    return _product(back(exact), back(up), back(down), count, a.dtype)


def matmul(a: Any, b: Any) -> Any:
    """`np.matmul`."""
    oracle.promotes(a, b)
    plain = np.asarray(np.matmul(a, b))
    dtype = plain.dtype
    if dtype.kind != "f":
        return plain
    inner = a.shape[-1]
    with np.errstate(all="ignore"):
        x, y = (v.astype(dtype).astype(WIDE) for v in (a, b))
        exact = np.matmul(x, y)
        finite = [np.abs(np.where(np.isfinite(v), v, 0)) for v in (x, y)]
        sizes = np.matmul(*finite)
    result = _grouped(exact, sizes, inner + 1, dtype)
    result.error = result.error + inner * WIDE(np.finfo(dtype).smallest_subnormal)
    result.signed = np.zeros(result.value.shape, bool)
    return result


def dot(a: Any, b: Any) -> Any:
    """`np.dot` for ranks up to 2."""
    return oracle.ufunc(np.multiply, a, b) if not a.ndim or not b.ndim else matmul(a, b)


def added(a: Any, key: Any, value: Any) -> Any:
    """`a.at[key].add(value)` of floats: what is added at one place in any order."""
    if a.dtype.kind != "f":
        return oracle.updated("add", a, key, value)
    value = np.asarray(value, a.dtype)
    with np.errstate(all="ignore"):
        exact, sizes = a.astype(WIDE), np.abs(np.where(np.isfinite(a), a, 0)).astype(WIDE)
        counts = np.ones(a.shape, WIDE)
        np.add.at(exact, key, value.astype(WIDE))
        np.add.at(sizes, key, np.abs(np.where(np.isfinite(value), value, 0)).astype(WIDE))
        np.add.at(counts, key, 1)
    result = _grouped(exact, sizes, counts, a.dtype)
    untouched = counts == 1
    result.error = np.where(untouched, 0, result.error)
    result.open, result.signed = result.open & ~untouched, untouched | (sizes == 0)
    return result


def combined(a: Any, places: Any, values: Any) -> Any:
    """`rd.reduce_by_index(a, rd.add, 0, places, values)`: places outside are ignored."""
    inside, *chosen = oracle.within(places, a.shape[: len(places)])
    rows = np.broadcast_to(values, (*inside.shape, *a.shape[len(places) :]))
    kept = tuple(p[inside] for p in chosen)
    if a.dtype.kind != "f":
        return oracle.combine(np.add, a, places, values)
    return added(a, kept, rows[inside])


def difference(want: Any, got: Any) -> str:
    """How a result differs from what is expected; "" where it does not. Any NaN is any NaN; zeros have their signs."""
    if isinstance(want, tuple) or isinstance(got, tuple):
        if not (isinstance(want, tuple) and isinstance(got, tuple) and len(want) == len(got)):
            return f"expected {type(want).__name__}, got {type(got).__name__}"
        return next(
            (f"part {k}: {text}" for k, pair in enumerate(zip(want, got, strict=True)) if (text := difference(*pair))),
            "",
        )
    got = np.asarray(got)
    want = want if isinstance(want, Near) else np.asarray(want)
    value = want.value if isinstance(want, Near) else want
    if got.dtype != want.dtype or got.shape != value.shape:
        return f"expected {want.dtype}{value.shape}, got {got.dtype}{got.shape}"
    good = _within(want, got) if isinstance(want, Near) else _equal(want, got)
    if good.all():
        return ""
    at = tuple(int(i[0]) for i in np.nonzero(~good)) if good.ndim else ()
    bound = f" ± {want.error[at]!r}" if isinstance(want, Near) else ""
    return f"{int((~good).sum())} of {good.size} differ, first at {at}: expected {value[at]!r}{bound}, got {got[at]!r}"


def _equal(want: Any, got: Any) -> Any:
    if want.dtype.kind == "c":
        return _equal(want.real, got.real) & _equal(want.imag, got.imag)
    if want.dtype.kind != "f":
        return np.asarray(want == got)
    both = np.isnan(want) & np.isnan(got)
    return both | ((want == got) & (np.signbit(want) == np.signbit(got)))


def _within(want: Near, got: np.ndarray) -> np.ndarray:
    wide = got.astype(WIDE)
    with np.errstate(all="ignore"):
        largest = WIDE(np.finfo(want.dtype).max)
        close = np.abs(wide - want.value) <= want.error * (1 + WIDE(2) ** -9)
        beyond = (np.abs(want.value) + want.error > largest) & np.isinf(wide) & (wide * want.value > 0)
        same = (wide == want.value) | (np.isnan(wide) & np.isnan(want.value))
    signs = (wide != 0) | ~want.signed | (np.signbit(wide) == np.signbit(want.value))
    return want.open | ((same | beyond | (np.isfinite(want.value) & close)) & signs)
