"""What the examples share: photographs in, pictures out, and one line of time and speed beside NumPy or SciPy.

`--small` on the command line measures on the photograph itself instead of many copies of it side by side: a try, not a measurement.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from PIL import Image
from skimage import data

OUT = Path(__file__).resolve().parent.parent / "out"
SMALL = "--small" in sys.argv


def photograph(name: str = "astronaut", *, gray: bool = False, repeat: int = 1) -> np.ndarray:
    """A photograph that comes with scikit-image: f32 in 0 … 1, planar `[3, h, w]` or gray `[h, w]`, `repeat` copies each way."""
    picture = getattr(data, name)().astype(np.float32) / 255
    if gray and picture.ndim == 3:
        picture = picture @ np.array([0.299, 0.587, 0.114], np.float32)
    if picture.ndim == 3:
        picture = picture.transpose(2, 0, 1)
    return tiled(np.ascontiguousarray(picture, dtype=np.float32), repeat)


def tiled(picture: np.ndarray, repeat: int) -> np.ndarray:
    """`repeat` copies of a picture each way, to measure on; with `--small` the picture alone."""
    repetitions = 1 if SMALL else repeat
    return np.tile(picture, (1,) * (picture.ndim - 2) + (repetitions, repetitions))


def side_by_side(*pictures: np.ndarray) -> np.ndarray:
    """Pictures of equal height in one, with a white gap between them."""
    gap = np.ones((*pictures[0].shape[:-1], 8), np.float32)
    parts = [part for picture in pictures for part in (gap, picture)]
    return np.concatenate(parts[1:], axis=-1)


def save(name: str, picture: np.ndarray) -> Path:
    """Writes out/<name>.png from values in 0 … 1 (`[h, w]`, `[3, h, w]`) or from u8 `[h, w, 3]`."""
    if picture.dtype != np.uint8:
        picture = (np.clip(np.nan_to_num(picture), 0, 1) * 255 + 0.5).astype(np.uint8)
        if picture.ndim == 3:
            picture = picture.transpose(1, 2, 0)
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.png"
    Image.fromarray(picture).save(path)
    return path


def extent(array: np.ndarray) -> str:
    """The shape of an array, to print: "512x512"."""
    return "x".join(map(str, array.shape))


def seconds(call: Callable[[], object], repeat: int = 10) -> float:
    """The median time of a call, after one to warm up."""
    call()
    times = []
    for _ in range(1 if SMALL else repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return median(times)


def report(what: str, ours: float, theirs: float, whose: str, *, amount: float, unit: str = "GB/s") -> None:
    """One line: our time and speed beside theirs; `amount` is bytes or operations of one call."""
    speed = lambda t: f"{t * 1e3:9.2f} ms {amount / t / 1e9:7.1f} {unit}"
    print(f"{what:<28} raido {speed(ours)}   {whose} {speed(theirs)}   {theirs / ours:6.1f} times faster")


def check(got: np.ndarray, want: np.ndarray, tolerance: float = 1e-4) -> None:
    """Fails loudly where the results differ by more than `tolerance` of the largest value."""
    error = float(np.abs(got.astype(np.float64) - want).max() / max(float(np.abs(want).max()), 1e-30))
    if not error <= tolerance:
        raise SystemExit(f"wrong result: relative error {error:.3g}")
