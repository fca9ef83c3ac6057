"""Derives every number of the recipes: `python algo/recipes/generate.py` rewrites `coefficients.py` and `constants.py`.

Each row of `FITS` names a function f of t, a weight w, an interval and a number of coefficients; the polynomial p
minimises max |w(t) (f(t) - p(t))|, so w is chosen to make that the relative error of the recipe's whole result.
Method: Remez exchange on a dense Chebyshev grid (Cheney, *Introduction to Approximation Theory*, chapter 3), in 200-bit
arithmetic.  Coefficients are rounded to the working precision one at a time, lowest power first, and the rest is fitted
again after each rounding, so that rounding errors of the leading coefficients are absorbed by the later ones.
Needs mpmath, which is not needed at run time.
"""

from __future__ import annotations

import argparse
import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp

PRECISION = {"f32": 24, "f64": 53}
Real = Any  # mpmath ships no types
Function = Callable[[Real], Real]


@dataclass(frozen=True, slots=True)
class Fit:
    """A fit of `function` on `low..high` by `count[dtype]` coefficients, under `weight`."""

    name: str
    function: Function
    weight: Function
    low: str
    high: str
    count: dict[str, int]


def _sqrt_series(odd: Function, terms: int, t: Real) -> Real:
    """The function (odd(s)/s minus its first `terms` Taylor terms) / t**terms, with s = sqrt(t)."""
    s = mp.sqrt(t)
    taylor = {
        "sin": [1, -mp.mpf(1) / 6],
        "asin": [1],
        "atan": [1],
        "tan": [1],
        "atanh": [2, mp.mpf(2) / 3],
        "sinh": [1],
    }
    known = taylor[odd.__name__][:terms]
    return (2 * mp.atanh(s) / s if odd.__name__ == "atanh" else odd(s) / s) / t**terms - sum(
        c * t ** (k - terms) for k, c in enumerate(known)
    )


def _relative(odd: Function, power: int) -> Function:
    """The weight t**power * sqrt(t) / odd(sqrt(t)), which makes the error relative to odd(sqrt(t))."""
    return lambda t: t**power * mp.sqrt(t) / odd(mp.sqrt(t))


def _erfcx(x: Real) -> Real:
    return mp.exp(x * x) * mp.erfc(x)


def _folded_erfcx(centre: str, v: Real) -> Real:
    """The function (1 + x / centre) erfcx(x) of v = centre x / (x + centre)."""
    x = mp.mpf(centre) * v / (mp.mpf(centre) - v)
    return (1 + x / mp.mpf(centre)) * _erfcx(x)


FITS: tuple[Fit, ...] = (
    # e**r = 1 + r + r² p(r)
    Fit(
        "exp",
        lambda r: (mp.exp(r) - 1 - r) / r**2,
        lambda r: r**2 * mp.exp(-r),
        "-0.3469",
        "0.3469",
        {"f32": 5, "f64": 10},
    ),
    # e**r - 1 = r + r² p(r)
    Fit(
        "expm1",
        lambda r: (mp.exp(r) - 1 - r) / r**2,
        lambda r: r**2 / mp.expm1(r),
        "-0.3469",
        "0.3469",
        {"f32": 5, "f64": 10},
    ),
    # 2**r = 1 + r p(r)
    Fit("exp2", lambda r: (2**r - 1) / r, lambda r: r * 2 ** (-r), "-0.5", "0.5", {"f32": 6, "f64": 11}),
    # log(1 + f) = f - f²/2 + f³ p(f)
    Fit(
        "log",
        lambda f: (mp.log1p(f) - f + f * f / 2) / f**3,
        lambda f: f**3 / mp.log1p(f),
        "-0.29290",
        "0.41422",
        {"f32": 8},
    ),
    # 2 atanh(s) = 2 s + s³ p(s²)
    Fit(
        "atanh",
        lambda t: _sqrt_series(mp.atanh, 1, t),
        lambda t: t * mp.sqrt(t) / (2 * mp.atanh(mp.sqrt(t))),
        "0",
        "0.02944",
        {"f32": 3, "f64": 7},
    ),
    # 2 atanh(s) = 2 s + 2/3 s³ + s⁵ p(s²)
    Fit(
        "atanh_tail",
        lambda t: _sqrt_series(mp.atanh, 2, t),
        lambda t: t**2 * mp.sqrt(t) / (2 * mp.atanh(mp.sqrt(t))),
        "0",
        "0.02944",
        {"f32": 3, "f64": 8},
    ),
    # sin(r) = r + r³ p(r²), cos(r) = 1 - r²/2 + r⁴ p(r²)
    Fit("sin", lambda t: _sqrt_series(mp.sin, 1, t), _relative(mp.sin, 1), "0", "0.6170", {"f32": 3, "f64": 6}),
    Fit(
        "cos",
        lambda t: (mp.cos(mp.sqrt(t)) - 1 + t / 2) / t**2,
        lambda t: t**2 / mp.cos(mp.sqrt(t)),
        "0",
        "0.6170",
        {"f32": 3, "f64": 5},
    ),
    # tan(r) = r + r³ p(r²), 2 tan(r / 2) = r + r³ p(r²)
    Fit("tan", lambda t: _sqrt_series(mp.tan, 1, t), _relative(mp.tan, 1), "0", "0.6170", {"f32": 6}),
    Fit(
        "tan",
        lambda t: (2 * mp.tan(mp.sqrt(t) / 2) / mp.sqrt(t) - 1) / t,
        lambda t: t * mp.sqrt(t) / (2 * mp.tan(mp.sqrt(t) / 2)),
        "0",
        "0.6170",
        {"f64": 9},
    ),
    # asin(r) = r + r³ p(r²)
    Fit("asin", lambda t: _sqrt_series(mp.asin, 1, t), _relative(mp.asin, 1), "0", "0.25", {"f32": 5, "f64": 12}),
    # atan(r) = r + r³ p(r²)
    Fit("atan", lambda t: _sqrt_series(mp.atan, 1, t), _relative(mp.atan, 1), "0", "0.25", {"f32": 5, "f64": 12}),
    # sinh(r) = r + r³ p(r²), cosh(r) = 1 + r²/2 + r⁴ p(r²)
    Fit("sinh", lambda t: _sqrt_series(mp.sinh, 1, t), _relative(mp.sinh, 1), "0", "0.12034", {"f32": 2, "f64": 5}),
    Fit(
        "cosh", lambda t: (mp.cosh(mp.sqrt(t)) - 1 - t / 2) / t**2, lambda t: t**2, "0", "0.12034", {"f32": 2, "f64": 4}
    ),
    # erf(x) = x + x p(x²) on 0..1
    Fit(
        "erf",
        lambda t: mp.erf(mp.sqrt(t)) / mp.sqrt(t) - 1,
        lambda t: mp.sqrt(t) / mp.erf(mp.sqrt(t)),
        "0",
        "1",
        {"f32": 7, "f64": 13},
    ),
    # erfc(x) exp(x²) = p(1 / (x + 3)) on 1..6, to the accuracy that erf = 1 - erfc needs
    Fit(
        "erf_tail",
        lambda t: _erfcx(1 / t - 3),
        lambda t: mp.exp(-((1 / t - 3) ** 2)) / mp.erf(1 / t - 3),
        "0.1117",
        "0.25",
        {"f32": 5, "f64": 11},
    ),
    # erfc(x) exp(x²) (1 + x/c), with v = c x / (x + c): 1 + v p(v) for x on 0..10.2; p(2 v / c - 1) for x on 0..27.3
    Fit(
        "erfc",
        lambda v: (_folded_erfcx("2", v) - 1) / v,
        lambda v: v / _folded_erfcx("2", v),
        "0",
        "1.6722",
        {"f32": 10},
    ),
    Fit(
        "erfc",
        lambda q: _folded_erfcx("3.5", 1.75 * (1 + q)),
        lambda q: 1 / _folded_erfcx("3.5", 1.75 * (1 + q)),
        "-1",
        "0.7728",
        {"f64": 22},
    ),
    # log2(1 + f) = f p(f), log10(1 + f) = f p(f)
    Fit("log2", lambda f: mp.log(1 + f, 2) / f, lambda f: f / mp.log(1 + f, 2), "-0.29290", "0.41422", {"f32": 9}),
    Fit("log10", lambda f: mp.log10(1 + f) / f, lambda f: f / mp.log10(1 + f), "-0.29290", "0.41422", {"f32": 9}),
    # t**(-1/3) on the interval where x y³ lies for cbrt's starting values y
    *(
        Fit("reciprocal_cbrt", lambda t: t ** (-mp.mpf(1) / 3), lambda t: t ** (mp.mpf(1) / 3), low, high, count)
        for low, high, count in (("1.313", "1.602", {"f32": 4}), ("1.331", "1.583", {"f64": 7}))
    ),
)


FULL = (24, 53)
SHORT = (16, 42)  # n times a part of this length is exact for every exponent n
# name, value, the lengths of its parts in f32 and f64
CONSTANTS: tuple[tuple[str, Callable[[], Real], tuple[tuple[int, int], ...]], ...] = (
    ("LOG2E", lambda: 1 / mp.log(2), (FULL,)),
    ("LN2", lambda: mp.log(2), (FULL, FULL)),
    ("LN2_SHORT", lambda: mp.log(2), (SHORT, FULL)),
    ("INVERSE_LN2", lambda: 1 / mp.log(2), (FULL, FULL)),
    ("INVERSE_LN10", lambda: 1 / mp.log(10), (FULL, FULL)),
    ("LOG10_2", lambda: mp.log(2) / mp.log(10), (FULL,)),
    ("LOG10_2_SHORT", lambda: mp.log(2) / mp.log(10), (SHORT, FULL)),
    ("TWO_THIRDS", lambda: mp.mpf(2) / 3, (FULL, FULL)),
    ("PI", lambda: +mp.pi, (FULL, FULL)),
    ("HALF_PI", lambda: mp.pi / 2, (FULL, FULL)),
    # the second part times up to 2**12.4 or 2**18.4 is exact, and so are differences with it
    ("HALF_PI_REDUCTION", lambda: mp.pi / 2, (FULL, (11, 33), FULL)),
    ("QUARTER_PI", lambda: mp.pi / 4, (FULL, FULL)),
    ("THREE_QUARTER_PI", lambda: 3 * mp.pi / 4, (FULL, FULL)),
    ("TWO_OVER_PI", lambda: 2 / mp.pi, (FULL,)),
)


def chebyshev_grid(low: Real, high: Real, count: int) -> list[Real]:
    """The Chebyshev points of `low..high`, without the ends (where f may be 0/0)."""
    middle, radius = (low + high) / 2, (high - low) / 2
    return [middle - radius * mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]


def remez(target: list[Real], weight: list[Real], grid: list[Real], first: int, count: int) -> tuple[list[Real], Real]:
    """The coefficients of t**first … t**(first + count - 1), and the largest weighted error on the grid, by Remez exchange."""
    basis = [[x ** (first + j) for j in range(count)] for x in grid]
    picks = [round((len(grid) - 1) * k / count) for k in range(count + 1)]  # even in index: Chebyshev in t
    for _ in range(30):
        system = mp.matrix(count + 1, count + 1)
        right = mp.matrix(count + 1, 1)
        for row, p in enumerate(picks):
            for j in range(count):
                system[row, j] = basis[p][j]
            system[row, count] = (-1) ** row / weight[p]
            right[row] = target[p]
        solution = mp.lu_solve(system, right)
        coefficients = [solution[j] for j in range(count)]
        errors = [w * (f - mp.fdot(coefficients, row)) for f, w, row in zip(target, weight, basis, strict=True)]
        previous, picks = picks, alternation(errors, count + 1)
        if picks == previous:
            break
    return coefficients, max(abs(e) for e in errors)


def least_squares(target: list[Real], weight: list[Real], grid: list[Real], first: int, count: int) -> list[Real]:
    """The coefficients of t**first … with the least weighted squares on the (Chebyshev) grid, which are nearly minimax."""
    rows = [[w * x ** (first + j) for w, x in zip(weight, grid, strict=True)] for j in range(count)]
    values = [w * f for w, f in zip(weight, target, strict=True)]
    gram = mp.matrix([[mp.fdot(a, b) for b in rows] for a in rows])
    solution = mp.lu_solve(gram, mp.matrix([mp.fdot(a, values) for a in rows]))
    return [solution[j] for j in range(count)]


def alternation(errors: list[Real], count: int) -> list[int]:
    """The indices of `count` alternating extrema: the largest of every run of one sign, with the weakest ends dropped."""
    runs: list[int] = []
    for k, e in enumerate(errors):
        if runs and (errors[runs[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[runs[-1]]):
                runs[-1] = k
        else:
            runs.append(k)
    while len(runs) > count:
        if len(runs) == count + 1 or abs(errors[runs[0]]) < abs(errors[runs[-1]]):
            runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
        else:
            runs.pop(-1)
    if len(runs) < count:
        raise ArithmeticError(f"{len(runs)} alternations where {count} are needed")
    return runs


def round_to(value: Real, bits: int) -> Real:
    """`value` rounded to nearest with `bits` bits."""
    with mp.workprec(bits):
        return +value


def fit(row: Fit, dtype: str) -> tuple[list[float], float]:
    """The rounded coefficients of one row, lowest power first, and log2 of the weighted error they leave."""
    count = row.count[dtype]
    with mp.workprec(200):
        grid = chebyshev_grid(mp.mpf(row.low), mp.mpf(row.high), 40 * (count + 1))
        target, weight = [row.function(x) for x in grid], [abs(row.weight(x)) for x in grid]
        coefficients, _ = remez(target, weight, grid, 0, count)
        rounded: list[Real] = []
        for first in range(count):
            # Powers without a constant term form a Haar system only on one side of zero: elsewhere, least squares.
            if first and mp.mpf(row.low) >= 0:
                coefficients[first:], _ = remez(target, weight, grid, first, count - first)
            elif first:
                coefficients[first:] = least_squares(target, weight, grid, first, count - first)
            rounded.append(round_to(coefficients[first], PRECISION[dtype]))
            target = [f - rounded[-1] * x**first for f, x in zip(target, grid, strict=True)]
        error = max(abs(w * f) for f, w in zip(target, weight, strict=True))
        return [float(c) for c in rounded], float(mp.log(error, 2))


def constant_lines() -> Iterator[str]:
    """The text of constants.py."""
    yield '"""Constants split into parts of the working precision. Generated by `python algo/recipes/generate.py`; do not edit."""\n'
    yield "from raido.algo.graph.dtypes import f32, f64\n"
    with mp.workprec(2400):
        for name, compute, parts in CONSTANTS:
            yield f"{name} = {{"
            for k, dtype in enumerate(PRECISION):
                rest, numbers = compute(), []
                for part in parts:
                    numbers.append(float(round_to(rest, part[k])))
                    rest -= numbers[-1]
                yield f"    {dtype}: {numbers[0]!r}," if len(parts) == 1 else f"    {dtype}: {tuple(numbers)!r},"
            yield "}"
        yield "SQRT_HALF_BITS = {"
        for dtype, code in (("f32", ("<f", "<i")), ("f64", ("<d", "<q"))):
            (bits,) = struct.unpack(code[1], struct.pack(code[0], math.sqrt(0.5)))
            yield f"    {dtype}: 0x{bits:X},"
        yield "}"
        words = int(mp.floor(2 / mp.pi * mp.mpf(2) ** (64 * 20)))
        yield "# 2/π = 0.w₀w₁w₂… in words of 64 bits"
        yield "TWO_OVER_PI_WORDS = ("
        yield from (f"    0x{words >> (64 * (19 - k)) & (2**64 - 1):016X}," for k in range(20))
        yield ")\n"


def coefficient_lines() -> Iterator[str]:
    """The text of coefficients.py."""
    yield '"""Minimax coefficients, lowest power first.  Generated by `python algo/recipes/generate.py`; do not edit."""\n'
    yield "COEFFICIENTS: dict[tuple[str, str], tuple[float, ...]] = {"
    for row in FITS:
        for dtype in row.count:
            coefficients, error = fit(row, dtype)
            print(f"{row.name} {dtype}: {len(coefficients)} coefficients, error 2**{error:.1f}", flush=True)
            yield f'    ("{row.name}", "{dtype}"): (  # error 2**{error:.1f}'
            yield from (f"        {c!r}," for c in coefficients)
            yield "    ),"
    yield "}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Derive the coefficients and constants of the recipes.")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent, help="where to write the two files")
    folder = parser.parse_args().folder
    (folder / "constants.py").write_text("\n".join(constant_lines()))
    (folder / "coefficients.py").write_text("\n".join(coefficient_lines()))


if __name__ == "__main__":
    main()
