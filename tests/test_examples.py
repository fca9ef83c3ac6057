"""Every example runs, checks its result, writes its picture, and prints its time and speed beside NumPy's or SciPy's."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
PICTURES = {
    "bilateral": "bilateral",
    "call_from_c": "c_program",
    "gauss": "gauss",
    "harris": "harris",
    "heat": "heat",
    "mandelbrot": "mandelbrot",
    "sobel": "sobel",
    "unsharp_mask": "unsharp",
}
NOT_ALONE = {"show", "follow_one_program"}
LINE = r"raido +[\d.]+ ms +[\d.]+ (GB|GFLOP)/s   (NumPy|SciPy) +[\d.]+ ms +[\d.]+ (GB|GFLOP)/s +[\d.]+ times faster"


def test_every_example_is_tested() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == PICTURES.keys() | NOT_ALONE


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_example(name: str) -> None:
    picture = ROOT / "out" / f"{PICTURES[name]}.png"
    picture.unlink(missing_ok=True)
    command = [sys.executable, ROOT / "examples" / f"{name}.py", "--small"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(LINE, done.stdout), done.stdout
    pixels = np.asarray(Image.open(picture))
    assert min(pixels.shape[:2]) >= 300 and pixels.std() > 10
    if name == "unsharp_mask":  # the picture in the README is the one that the first command makes
        assert (pixels == np.asarray(Image.open(ROOT / "docs" / "unsharp.png"))).all()
