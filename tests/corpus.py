"""Small programs with their inputs and NumPy's results: one list for every way to run a program.

Each case is exact: integers, or floats whose arithmetic is exact or is NumPy's in NumPy's order. `close` marks cases where NumPy itself
groups or rounds differently.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import raido as rd

CASES: list[Case] = []


@dataclass(frozen=True)
class Case:
    """A program, arguments, and the expected result (an array or a tuple of them)."""

    name: str
    algorithm: Any
    arguments: tuple[Any, ...]
    expected: Any
    close: bool = False


def image(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    """Small whole numbers, so that float sums are exact."""
    rng = np.random.default_rng(seed)
    low = 0 if np.dtype(dtype).kind == "u" else -9
    return np.asarray(rng.integers(low, 10, shape)).astype(dtype)


def case(expected: Callable[..., Any], *argument_lists: tuple[Any, ...], close: bool = False) -> Callable[[Any], Any]:
    """Registers the program below for each list of arguments; `expected` is the same in NumPy."""

    def register(function: Any) -> Any:
        program = rd.algorithm(function)
        for k, arguments in enumerate(argument_lists):
            with np.errstate(all="ignore"):
                result = expected(*arguments)
            CASES.append(Case(f"{function.__name__}_{k}", program, arguments, result, close))
        return program

    return register


F1 = tuple((image(n),) for n in (0, 1, 7, 33))
I1 = tuple((image(n, dtype="int32"),) for n in (0, 1, 8, 31))
F2 = tuple((image(*s),) for s in ((0, 3), (3, 0), (1, 1), (5, 17), (9, 32)))


def pad(a: np.ndarray, reach: int, mode: str, **options: Any) -> np.ndarray:
    return np.pad(a, reach, mode=mode, **options)  # type: ignore[call-overload]


def window(a: np.ndarray, reach: int, mode: str, *offsets: tuple[int, ...]) -> list[np.ndarray]:
    """The array as seen at each offset, borders filled as NumPy does."""
    options = {"constant_values": 7} if mode == "constant" else {}
    if a.size == 0:
        return [a for _ in offsets]
    wide = pad(a, reach, mode, **options)
    return [
        wide[tuple(slice(reach + o, reach + o + n) for o, n in zip(offset, a.shape, strict=True))] for offset in offsets
    ]


# Elementwise


@case(lambda a: a * 2 + 1, *F1)
def scale(a: rd.f32["n"]):
    return a * 2 + 1


@case(lambda a: np.where(a > 0, a, -a) / np.float32(2), *F2)
def halves(a: rd.f32["h", "w"]):
    return rd.where(a > 0, a, -a) / 2


@case(lambda a: (a // 3, a % 3, a << 2, a >> 1, a ^ 5, ~a), *I1)
def integer_operators(a: rd.i32["n"]):
    return a // 3, a % 3, a << 2, a >> 1, a ^ 5, ~a


@case(lambda a, b: a + b.astype(np.float32) * 2, (image(5), image(5, dtype="int8", seed=1)))
def mixed_types(a: rd.f32["n"], b: rd.i8["n"]):
    return a + b.astype(rd.f32) * 2


@case(lambda a, b: (a + b, a * b), (image(5, dtype="int16"), image(5, dtype="uint8", seed=1)))
def promotion(a: rd.i16["n"], b: rd.u8["n"]):
    return a + b, a * b


@case(lambda a: (np.floor(a / 4), np.sqrt(np.abs(a)), np.minimum(a, 3), np.clip(a, -2, 2)), *F1)
def functions(a: rd.f32["n"]):
    return rd.floor(a / 4), rd.sqrt(rd.abs(a)), rd.minimum(a, 3), rd.clip(a, -2, 2)


@case(lambda a: (np.exp(a), np.tanh(a / 4), np.log1p(np.abs(a))), (image(33, dtype="float64"),), close=True)
def transcendental(a: rd.f64["n"]):
    return rd.exp(a), rd.tanh(a / 4), rd.log1p(rd.abs(a))


@case(lambda a: a + np.arange(a.shape[1], dtype=np.float32), *F2)
def iota(a: rd.f32["h", "w"]):
    return rd.map(lambda row: row + rd.iota(row.shape[0]), a)


@case(lambda a, s: a * s, (image(4), np.float32(3)))
def scalar_argument(a: rd.f32["n"], s: rd.f32):
    return a * s


# Map, tabulate, index moves


@case(lambda a: a.sum(axis=1) * 2, *F2)
def rows(a: rd.f32["h", "w"]):
    return rd.map(lambda row: rd.sum(row) * 2, a)


@case(lambda a: a - a.sum(axis=1, keepdims=True), *F2)
def centred(a: rd.f32["h", "w"]):
    return rd.map(lambda row: row - rd.sum(row), a)


@case(lambda a: np.array([[x * 10 + y for x in a] for y in a], np.int32).reshape(len(a), len(a)), *I1)
def outer(a: rd.i32["n"]):
    return rd.map(lambda y: rd.map(lambda x: x * 10 + y, a), a)


@case(lambda a: np.add.outer(10 * np.arange(len(a)), np.arange(3)) + a[:, None], *I1)
def table(a: rd.i32["n"]):
    return rd.tabulate((a.shape[0], 3), lambda i, j: rd.i64(i) * 10 + j + a[i])


@case(lambda a: (a.T, a[::-1], np.roll(a, 1, axis=0), a[1:], a[:, ::2]), *F2)
def moves(a: rd.f32["h", "w"]):
    return a.T, a[::-1], rd.roll(a, 1, axis=0), a[1:], a[:, ::2]


@case(lambda a: (np.concatenate([a, a + 1]), np.stack([a, -a]), a.reshape(-1)), *F2)
def joins(a: rd.f32["h", "w"]):
    return rd.concat([a, a + 1]), rd.stack([a, -a]), rd.flatten(a)


@case(lambda a, i: a[i], (image(5), np.array([4, 0, 0, 2])), (image(5), np.zeros(0, np.int64)))
def gather(a: rd.f32["n"], i: rd.i64["k"]):
    return a[i]


# Reductions


@case(lambda a: (a.sum(), a.sum(axis=0), a.sum(axis=1), a.sum(axis=1, keepdims=True)), *F2)
def sums(a: rd.f32["h", "w"]):
    return rd.sum(a), rd.sum(a, axis=0), rd.sum(a, axis=1), rd.sum(a, axis=1, keepdims=True)


@case(lambda a: (a.sum(), a.max(), a.min(), a.argmin(), a.argmax(), (a > 3).any(), (a > -3).all()), *I1[1:])
def statistics(a: rd.i32["n"]):
    return rd.sum(a), rd.max(a), rd.min(a), rd.argmin(a), rd.argmax(a), rd.any(a > 3), rd.all(a > -3)


@case(lambda a: (a.max(axis=0), a.argmin(axis=1)), *F2[2:])
def extremes(a: rd.f32["h", "w"]):
    return rd.max(a, axis=0), rd.argmin(a, axis=1)


@case(lambda a: np.bitwise_xor.reduce(a), *I1)
def exclusive_or(a: rd.i32["n"]):
    return rd.reduce(rd.bitwise_xor, 0, a)


def fold_affine(a: np.ndarray) -> Any:
    p, q = np.int32(1), np.int32(0)
    for value in a:
        p, q = p * value, q * value + value
    return np.int32(p), np.int32(q)


@case(fold_affine, *I1)
def affine_maps(a: rd.i32["n"]):
    return rd.reduce(lambda f, g: (f[0] * g[0], f[1] * g[0] + g[1]), (1, 0), a, a)


@case(lambda a, b: a @ b, (image(3, 5), image(5, 4, seed=1)), (image(2, 0), image(0, 2)), (image(17, 9), image(9, 33)))
def matmul(a: rd.f32["m", "k"], b: rd.f32["k", "n"]):
    return a @ b


@case(lambda a: ((a[:, None, :] - a[None, :, :]) ** 2).sum(axis=2), *F2[:4])
def distances(a: rd.f32["n", "d"]):
    return rd.map(lambda p: rd.map(lambda q: rd.sum((p - q) * (p - q)), a), a)


# Stencils


def stencil_case(mode: str) -> Callable[..., Any]:
    def expected(a: np.ndarray) -> np.ndarray:
        left, middle, right = window(a, 4, mode, (0, -4), (0, 0), (1, 1))
        return (left + middle * 2 - right).astype(a.dtype)

    return expected


@case(stencil_case("edge"), *F2)
def clamped(a: rd.f32["h", "w"]):
    return rd.stencil(lambda p: p[0, -4] + p[0, 0] * 2 - p[1, 1], a, boundary="clamp")


@case(stencil_case("wrap"), *F2)
def wrapped(a: rd.f32["h", "w"]):
    return rd.stencil(lambda p: p[0, -4] + p[0, 0] * 2 - p[1, 1], a, boundary="wrap")


@case(stencil_case("reflect"), *F2)
def mirrored(a: rd.f32["h", "w"]):
    return rd.stencil(lambda p: p[0, -4] + p[0, 0] * 2 - p[1, 1], a, boundary="mirror")


@case(stencil_case("symmetric"), *F2)
def symmetric(a: rd.f32["h", "w"]):
    return rd.stencil(lambda p: p[0, -4] + p[0, 0] * 2 - p[1, 1], a, boundary="symmetric")


@case(stencil_case("constant"), *F2)
def surrounded(a: rd.f32["h", "w"]):
    return rd.stencil(lambda p: p[0, -4] + p[0, 0] * 2 - p[1, 1], a, boundary=rd.constant(7))


@case(lambda a: a[:-2] + a[1:-1] + a[2:], (image(3),), (image(33),), (image(2),))
def valid(a: rd.f32["n"]):
    return rd.stencil(lambda p: p[-1] + p[0] + p[1], a, boundary="valid")


def blur_expected(a: np.ndarray) -> np.ndarray:
    for offsets in (((0, -1), (0, 0), (0, 1)), ((-1, 0), (0, 0), (1, 0))):
        x, y, z = window(a, 1, "edge", *offsets)
        a = (x + y + z) / np.float32(3)
    return a


@case(blur_expected, *F2)
def blur(a: rd.f32["h", "w"]):
    across = rd.stencil(lambda p: (p[0, -1] + p[0, 0] + p[0, 1]) / 3, a, boundary="clamp", name="rows")
    return rd.stencil(lambda p: (p[-1, 0] + p[0, 0] + p[1, 0]) / 3, across, boundary="clamp", name="cols")


def life_expected(a: np.ndarray) -> np.ndarray:
    for _ in range(4):
        offsets = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if (y, x) != (0, 0)]
        near = sum(window(a, 1, "wrap", *offsets))
        a = np.where((near == 3) | ((a == 1) & (near == 2)), 1, 0).astype(np.uint8)
    return a


def life_rule(p: Any) -> Any:
    near = p[-1, -1] + p[-1, 0] + p[-1, 1] + p[0, -1] + p[0, 1] + p[1, -1] + p[1, 0] + p[1, 1]
    alive = rd.logical_or(near == 3, rd.logical_and(p[0, 0] == 1, near == 2))
    return rd.where(alive, rd.u8(1), rd.u8(0))


@case(life_expected, (image(8, 9, dtype="uint8") % 2,), (image(1, 3, dtype="uint8") % 2,))
def life(a: rd.u8["h", "w"]):
    return rd.loop(4, lambda t, board: rd.stencil(life_rule, board, boundary="wrap"), a)


# Control in scalar functions


def collatz_expected(a: np.ndarray) -> np.ndarray:
    counts = []
    for v in a.tolist():
        steps = 0
        while v > 1:
            v, steps = (v // 2 if v % 2 == 0 else 3 * v + 1), steps + 1
        counts.append(steps)
    return np.array(counts, np.int32)


@case(collatz_expected, *((np.arange(n, dtype=np.int64),) for n in (0, 1, 31)))
def collatz(a: rd.i64["n"]):
    def steps(v: Any) -> Any:
        def step(s: Any) -> Any:
            return rd.cond(s[0] % 2 == 0, lambda: s[0] // 2, lambda: 3 * s[0] + 1), s[1] + 1

        return rd.while_loop(lambda s: s[0] > 1, step, (v, rd.i32(0)))[1]

    return rd.map(steps, a)


@case(lambda a: np.array([3**v if v > 0 else 1 for v in a.tolist()], np.int64), *I1)
def powers(a: rd.i32["n"]):
    return rd.map(lambda v: rd.loop(v, lambda i, s: s * 3, rd.i64(1)), a)


@case(
    lambda a, b: np.where(b == 0, -1, a // np.where(b == 0, 1, b)),
    (image(9, dtype="int32"), image(9, dtype="int32", seed=3)),
)
def guarded_division(a: rd.i32["n"], b: rd.i32["n"]):
    return rd.map(lambda x, y: rd.cond(y == 0, lambda: rd.i32(-1), lambda: x // y), a, b)


@case(lambda a: a * 8 if len(a) else a, *I1)
def doubling(a: rd.i32["n"]):
    return rd.while_loop(lambda s: s[1] < 3, lambda s: (s[0] * 2, s[1] + 1), (a, rd.i32(0)))[0]
