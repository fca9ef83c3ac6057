"""A row of the table: a program, its inputs, NumPy's result, and the competing schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

import raido as rd
from raido.algo.graph.expr import SizeVar

Arrays = Sequence[np.ndarray]
Scheduler = Callable[[rd.Algorithm], rd.Schedule]


@dataclass(frozen=True)
class Row:
    """One line of the table.

    inputs: makes the arrays, of sizes divided by its argument. answer: NumPy's results, exact enough to check against `tolerance`, the
    largest error relative to the largest value. hand: our written schedules by name; the fastest counts. stray: the share of results
    that may be further off (rounding moves a few pixels on a rim). filtered: as many results as data decides, at most one an input.
    """

    what: str
    algorithm: rd.Algorithm
    inputs: Callable[[int], list[np.ndarray]]
    answer: Callable[..., np.ndarray | tuple[np.ndarray, ...]]
    hand: dict[str, Scheduler] = field(default_factory=dict)
    tolerance: float = 1e-5
    stray: float = 0.0
    filtered: bool = False

    def answers(self, inputs: Arrays) -> tuple[np.ndarray, ...]:
        """NumPy's results, always a tuple."""
        found = self.answer(*inputs)
        return found if isinstance(found, tuple) else (np.asarray(found),)

    def room(self, inputs: Arrays, want: Arrays) -> list[np.ndarray]:
        """Arrays that every contestant writes its results to."""
        return [aligned(inputs[0].shape if self.filtered else w.shape, w.dtype) for w in want]

    def sizes(self, inputs: Arrays) -> dict[str, int]:
        """The named sizes of the program's arrays, in the order in which its signature mentions them."""
        named: dict[str, int] = {}
        for parameter, array in zip(self.algorithm.trace().parameters, inputs, strict=True):
            for size, n in zip(parameter.shape, array.shape, strict=True):
                if isinstance(size, SizeVar):
                    named.setdefault(size.name, n)
        return named


def aligned(shape: tuple[int, ...], dtype: np.dtype | str) -> np.ndarray:
    """An array that begins a line of the cache, as streaming stores of the handwritten programs want it."""
    dtype = np.dtype(dtype)
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    block = np.empty(nbytes + 64, np.uint8)
    start = -block.ctypes.data % 64
    return block[start : start + nbytes].view(dtype).reshape(shape)


def uniform(*shape: int, low: float = 0.0, high: float = 1.0, dtype: str = "f4", seed: int = 7) -> np.ndarray:
    """Random numbers, the same at every run."""
    result = aligned(shape, dtype)
    flat = result.reshape(-1)
    random = np.random.default_rng(seed)
    for start in range(0, flat.size, 1 << 24):
        piece = flat[start : start + (1 << 24)]
        if piece.dtype.kind == "f":
            piece[:] = random.random(len(piece), np.float32) * np.float32(high - low) + np.float32(low)
        else:
            piece[:] = random.integers(int(low), int(high), len(piece), np.int32)
    return result


def drawn(*shapes: tuple[int, ...], low: float = 0.0, high: float = 1.0, dtype: str = "f4") -> Callable[[int], list]:
    """Inputs of these shapes: each size of more than 16 is divided by the scale."""

    def make(scale: int) -> list[np.ndarray]:
        small = [tuple(n if n <= 16 else max(n // scale, 8) for n in shape) for shape in shapes]
        return [uniform(*shape, low=low, high=high, dtype=dtype, seed=7 + k) for k, shape in enumerate(small)]

    return make


def whole_numbers(*shapes: tuple[int, ...]) -> Callable[[int], list]:
    """Inputs of -4 … 4 in f32, of which every sum is exact in whatever order it is made."""
    integers = drawn(*shapes, low=-4, high=5, dtype="i4")

    def make(scale: int) -> list[np.ndarray]:
        found = integers(scale)
        made = [aligned(whole.shape, "f4") for whole in found]
        for floats, whole in zip(made, found, strict=True):
            floats[...] = whole
        return made

    return make
