"""The installed package in use, away from its sources: the README's first program, and a library that C calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

import raido as rd

HERE = Path.cwd()
assert not any((folder / "pyproject.toml").exists() for folder in Path(rd.__file__).parents), "this is a working tree"
MAIN = r"""
#include "blur.h"
#include <stdio.h>
int main(void) {
  float img[12] = {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}, out[12];
  if (blur(img, 3, 4, out) != BLUR_OK) return puts(blur_message()), 1;
  for (int k = 0; k < 12; k++)
    if (out[k] != 9) return puts("wrong"), 1;
  return 0;
}
"""


def first_program() -> str:
    """The block of Python below the README's heading."""
    text = (Path(sys.argv[1]) / "README.md").read_text().split("## A first program")[1]
    return text.split("```python\n")[1].split("```")[0]


(HERE / "first.py").write_text(first_program())  # a file, since an algorithm's lines are part of its messages
subprocess.run([sys.executable, "first.py"], check=True)
(HERE / "main.c").write_text(MAIN)
command = ["cc", "-Ibuild", "main.c", "build/libblur.so", f"-Wl,-rpath,{HERE}/build", "-o", "main"]
subprocess.run(command, check=True)
subprocess.run([HERE / "main"], check=True)
ones = np.ones((5, 6), np.float32)
np.testing.assert_array_equal(rd.load("build/libblur.so")(ones), ones)
raido = Path(sys.executable).with_name("raido")
np.save("in.npy", ones)
subprocess.run([raido, "run", "first.py:blur", "-i", "in.npy", "-o", "out.npy"], check=True)
np.testing.assert_array_equal(np.load("out.npy"), ones)
assert "is missing" not in rd.targets()[-1].detail, "the runtime for Vulkan was not built"
print(f"raido {rd.__version__} on Python {sys.version.split()[0]}: first program, export, C, command line")
