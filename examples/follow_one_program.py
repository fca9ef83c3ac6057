"""Follows one program through every stage of the compiler: what ARCHITECTURE.md shows."""

from __future__ import annotations

import raido as rd


@rd.algorithm
def blur(img: rd.f32["h", "w"]):
    rows = rd.stencil(lambda p: (p[0, -1] + p[0, 0] + p[0, 1]) / 3, img, boundary="clamp", name="rows")
    return rd.stencil(lambda p: (p[-1, 0] + p[0, 0] + p[1, 0]) / 3, rows, boundary="clamp", name="cols")


def main() -> None:
    s = blur.schedule()
    s["cols"].tile(y=32, x=512).parallel("yo").vectorize("xi").partition_boundaries()
    s["rows"].compute_at("cols", "yo")
    exe = blur.compile(schedule=s, sizes={"h": 480, "w": 640})
    for kind in ("schedule", "nest", "gang"):
        print(f"--- {kind}\n{exe.source(kind)}")


if __name__ == "__main__":
    main()
