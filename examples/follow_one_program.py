"""Follows one program through every stage of the compiler: what ARCHITECTURE.md shows. `--write` brings its blocks up to date.

The target is a named processor, so that the text is the same on every machine; the code is made and not run.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import raido as rd
from raido.targets.compile import Compilation

MAP = Path(__file__).resolve().parent.parent / "ARCHITECTURE.md"


@rd.algorithm
def blur(img: rd.f32["h", "w"]):
    rows = rd.stencil(lambda p: (p[0, -1] + p[0, 0] + p[0, 1]) / 3, img, boundary="clamp", name="rows")
    return rd.stencil(lambda p: (p[-1, 0] + p[0, 0] + p[1, 0]) / 3, rows, boundary="clamp", name="cols")


def texts() -> dict[str, str]:
    """The program at every stage; of the machine code the loop that divides most."""
    s = blur.schedule()
    s["cols"].split("y", 32).parallel("yo").vectorize("x").partition_boundaries()
    s["rows"].compute_at("cols", "yo")
    work = Compilation(blur.trace(), rd.Target("llvm", cpu="x86-64-v4"), s, {"h": 480, "w": 640})
    stages = {kind: work.source(kind) for kind in ("schedule", "nest", "gang")}
    loops = re.findall(r"(?m)^(\.LBB\w+):[^\n]*\n((?:\t[^\n]*\n)+?)\tj\w+\t\1\n", work.source("asm"))
    label, body = max(loops, key=lambda loop: loop[1].count("vdivps"))
    return stages | {"asm": f"{label}:\n{body}\tjne\t{label}".expandtabs(10)}


def with_texts(page: str) -> str:
    """A page whose blocks are what is printed now; a block follows a line `<!-- printed: KIND -->`."""
    for kind, text in texts().items():
        block = "\n".join(f"    {line}".rstrip() for line in text.strip("\n").splitlines())
        page = re.sub(
            rf"(<!-- printed: {kind} -->\n\n)(?:(?:    [^\n]*)?\n)+?(?=\S)",
            lambda m, block=block: f"{m[1]}{block}\n\n",
            page,
        )
    return page


def main() -> None:
    if "--write" in sys.argv:
        MAP.write_text(with_texts(MAP.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"wrote {MAP.name}")
        return
    for kind, text in texts().items():
        print(f"--- {kind}\n{text}")


if __name__ == "__main__":
    main()
