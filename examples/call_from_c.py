"""A library for C: exports c_program/sharpen.py, compiles c_program/main.c, and sharpens a photograph with it. Writes out/c_program.png.

The C program, its library and its pictures stand in out/c_program; main.c says how to do the same by hand.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
from c_program.sharpen import schedule, sharpen
from PIL import Image
from scipy import ndimage
from show import OUT, check, extent, photograph, report, save, seconds, side_by_side, tiled

HERE = Path(__file__).resolve().parent
STRENGTH = 1.5


def with_scipy(img: np.ndarray) -> np.ndarray:
    """The same by SciPy."""
    gray, taps = img.astype(np.float32), np.array([1, 4, 6, 4, 1], np.float32) / 16
    blur = ndimage.correlate1d(ndimage.correlate1d(gray, taps, axis=0, mode="nearest"), taps, axis=1, mode="nearest")
    return np.clip(np.rint(gray + np.float32(STRENGTH) * (gray - blur)), 0, 255).astype(np.uint8)


def build(folder: Path) -> Path:
    """The C program, beside the library that it calls."""
    sharpen.compile(schedule=schedule(sharpen)).export(folder / "libsharpen.so")
    link = [f"-I{folder}", f"-L{folder}", "-lsharpen", "-Wl,-rpath,$ORIGIN"]
    subprocess.run(["cc", "-O2", str(HERE / "c_program" / "main.c"), "-o", str(folder / "main"), *link], check=True)
    return folder / "main"


def run(program: Path, img: np.ndarray) -> tuple[np.ndarray, float]:
    """What the C program makes of a picture, and how long its call of the library takes, in seconds."""
    before, after = program.with_name("before.pgm"), program.with_name("after.pgm")
    Image.fromarray(img).save(before)
    done = subprocess.run([program, before, after, str(STRENGTH)], check=True, capture_output=True, text=True)
    return np.asarray(Image.open(after)), float(done.stdout)


def main() -> None:
    folder = OUT / "c_program"
    folder.mkdir(parents=True, exist_ok=True)
    program = build(folder)
    img = (photograph("camera") * 255 + 0.5).astype(np.uint8)
    sharp, _ = run(program, img)
    check(sharp, with_scipy(img), 1 / 255)
    print("wrote", save("c_program", side_by_side(img / 255, sharp / 255)))
    large = tiled(img, 8)
    _, ours = run(program, large)
    report(f"C program {extent(large)}", ours, seconds(lambda: with_scipy(large), 3), "SciPy", amount=2 * large.nbytes)


if __name__ == "__main__":
    main()
