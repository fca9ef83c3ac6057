"""Compositions beside their parts: `python benchmarks/compositions.py --pairs 200 --first 0`.

Two operations, `second(first(a))`, are compiled as one program by its default schedule, beside the two compiled apart, run in sequence. A
default that fuses well is faster than the parts, one that keeps them apart as fast; a slower composition has lost an optimisation of a part
(its strategy, lanes, or loop peeling at boundaries) by standing beside the other. raido is compared with itself: this finds causes, and
says nothing about other systems. Results are compared first; times are the fastest of interleaved rounds.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import raido as rd

ROWS, COLUMNS = 1500, 700
ROUNDS = 15
LEAST = 100e-6  # seconds: below, calls and threads are most of the time


@dataclass(frozen=True)
class Operation:
    """An operation on f32 arrays of rank 1, 2 or either; its result is taken as f32."""

    ranks: tuple[int, ...]
    apply: Callable[[rd.Array], Any]


LINE, TABLE, BOTH = (1,), (2,), (1, 2)
OPERATIONS = {
    "a + 1": Operation(BOTH, lambda a: a + 1),
    "exp": Operation(BOTH, rd.exp),
    "where": Operation(BOTH, lambda a: rd.where(a > 0.5, a, 0.0)),
    "sum 0": Operation(TABLE, lambda a: rd.sum(a, axis=0)),
    "sum 1": Operation(TABLE, lambda a: rd.sum(a, axis=1)),
    "a - sum": Operation(BOTH, lambda a: a - rd.sum(a)),
    "largest 0": Operation(TABLE, lambda a: rd.max(a, axis=0)),
    "centred": Operation(TABLE, lambda a: a - rd.mean(a, axis=0)),
    "normed": Operation(TABLE, lambda a: a / rd.sqrt(rd.sum(a * a, axis=1, keepdims=True))),
    "softmax": Operation(TABLE, lambda a: rd.softmax(a, axis=1)),
    "var 1": Operation(TABLE, lambda a: rd.var(a, axis=1)),
    "argmax 1": Operation(TABLE, lambda a: rd.argmax(a, axis=1) * 1.0),
    "argmin 0": Operation(TABLE, lambda a: rd.argmin(a, axis=0) * 1.0),
    "cumsum 0": Operation(BOTH, lambda a: rd.cumsum(a, axis=0)),
    "cumsum 1": Operation(TABLE, lambda a: rd.cumsum(a, axis=1)),
    "T": Operation(TABLE, lambda a: a.T),
    "flip 0": Operation(BOTH, lambda a: rd.flip(a, 0)),
    "flip 1": Operation(TABLE, lambda a: rd.flip(a, 1)),
    "ravel": Operation(TABLE, lambda a: a.reshape(-1)),
    "roll": Operation(BOTH, lambda a: rd.roll(a, 1, axis=0)),
    "pad": Operation(BOTH, lambda a: rd.pad(a, 1)),
    "twice": Operation(LINE, lambda a: rd.concatenate([a, a])),
    "repeat": Operation(LINE, lambda a: rd.repeat(a, 2)),
    "[::2]": Operation(BOTH, lambda a: a[::2]),
    "[:, ::2]": Operation(TABLE, lambda a: a[:, ::2]),
    "diff": Operation(BOTH, rd.diff),
    "diff 0": Operation(TABLE, lambda a: rd.diff(a, axis=0)),
    "blur": Operation(
        TABLE,
        lambda a: rd.stencil(lambda p: p[-1, 0] + p[0, -1] + p[0, 0] + p[0, 1] + p[1, 0], a, boundary="clamp"),
    ),
    "blur of a line": Operation(LINE, lambda a: rd.stencil(lambda p: p[-1] + p[0] + p[1], a, boundary="clamp")),
    "pool": Operation(TABLE, lambda a: rd.max(blocks(a), axis=(1, 3))),
    "sums of 4": Operation(LINE, lambda a: rd.sum(a[: a.shape[0] // 4 * 4].reshape(-1, 4), axis=1)),
    "filter": Operation(LINE, lambda a: rd.filter(lambda x: x > 0.5, a)),
    "sort": Operation(LINE, rd.sort),
    "histogram": Operation(LINE, lambda a: rd.bincount(rd.clip(a * 255, 0, 255).astype(rd.i64), 256) * 1.0),
    "gather": Operation(LINE, lambda a: rd.take(a, (a * 1000).astype(rd.i64), mode="clip")),
    "segments": Operation(LINE, lambda a: rd.segmented_reduce(rd.add, 0, a, rd.arange(a.shape[0] // 50 + 1) * 50)),
    "a row set": Operation(TABLE, lambda a: a.at[0].set(0.0)),
    "matrix × vector": Operation(TABLE, lambda a: a @ a[0]),
    "vector × matrix": Operation(TABLE, lambda a: a[:, 0] @ a),
    "outer": Operation(LINE, lambda a: rd.outer(a[:1000], a[:1000])),
}


def blocks(a: rd.Array) -> rd.Array:
    """Blocks of 2 × 2 elements."""
    h, w = a.shape[0] // 2, a.shape[1] // 2
    return a[: h * 2, : w * 2].reshape(h, 2, w, 2)


def program(apply: Callable[[rd.Array], Any], rank: int) -> rd.Algorithm:
    """An algorithm of an array of that rank."""

    def composed(a):
        return apply(a)

    composed.__annotations__["a"] = rd.f32["n"] if rank == 1 else rd.f32["n", "m"]
    return rd.algorithm(composed)


@cache
def compiled(name: str, rank: int) -> Any:
    """The executable of an operation, by its default schedule."""
    return program(OPERATIONS[name].apply, rank).compile()


@dataclass(frozen=True)
class Found:
    """A composition: seconds of its parts and of the whole."""

    first: str
    second: str
    rank: int
    parts: tuple[float, float]
    whole: float

    @property
    def ratio(self) -> float:
        return self.whole / sum(self.parts)


def compositions(first: int, pairs: int) -> Iterator[Found]:
    """The times of compositions, drawn without replacement; `first`: how many to leave out."""
    drawn = [(f, g) for f in OPERATIONS for g in OPERATIONS]
    random.Random(0).shuffle(drawn)
    table = np.random.default_rng(0).random((ROWS, COLUMNS), dtype="f4")
    for f, g in drawn[first : first + pairs]:
        for rank in OPERATIONS[f].ranks:
            a = table if rank == 2 else table.ravel()
            between = np.asarray(compiled(f, rank)(a), "f4")
            if between.ndim in OPERATIONS[g].ranks:
                yield measured(f, g, rank, a, between)


def measured(f: str, g: str, rank: int, a: np.ndarray, between: np.ndarray) -> Found:
    """The whole beside its parts, checked and timed in turn."""
    parts = (compiled(f, rank), a), (compiled(g, between.ndim), between)
    whole = program(lambda x: OPERATIONS[g].apply(OPERATIONS[f].apply(x)), rank).compile()
    with np.errstate(over="ignore"):  # a sum in f64 that f32 does not hold is infinite between the parts
        got = np.asarray(np.asarray(whole(a)), "f4")
    np.testing.assert_allclose(got, np.asarray(np.asarray(parts[1][0](between)), "f4"), rtol=1e-2, atol=1e-3)
    best = [float("inf")] * 3
    for _ in range(ROUNDS):
        for k, (run, x) in enumerate((*parts, (whole, a))):
            start = time.perf_counter()
            run(x)
            best[k] = min(best[k], time.perf_counter() - start)
    return Found(f, g, rank, (best[0], best[1]), best[2])


def main() -> None:
    parser = argparse.ArgumentParser(description="Compositions beside their parts.")
    parser.add_argument("--pairs", type=int, default=100, help=f"how many of {len(OPERATIONS) ** 2}")
    parser.add_argument("--first", type=int, default=0, help="how many of them to leave out")
    parser.add_argument("--limit", type=float, default=1.3, help="the ratio above which a composition is printed")
    given = parser.parse_args()
    ratios = []
    for found in compositions(given.first, given.pairs):
        if sum(found.parts) < LEAST and found.whole < LEAST:
            continue
        ratios.append(found.ratio)
        if found.ratio > given.limit:
            one, two = (seconds * 1e3 for seconds in found.parts)
            print(
                f"{found.ratio:6.2f}   {found.second}({found.first}) of rank {found.rank}: "
                f"{one:.2f} + {two:.2f} ms apart, {found.whole * 1e3:.2f} together",
                flush=True,
            )
    if ratios:
        above = sum(ratio > given.limit for ratio in ratios)
        print(f"{len(ratios)} compositions: median {np.median(ratios):.2f}, {above} above {given.limit}")


if __name__ == "__main__":
    main()
