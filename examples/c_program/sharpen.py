"""The algorithm of the C program: a gray picture of bytes, sharpened by the difference from its own blur."""

from __future__ import annotations

import raido as rd


@rd.algorithm
def sharpen(img: rd.u8["h", "w"], strength: rd.f32):
    """The blur is binomial, 1 4 6 4 1, first down the columns and then along the rows."""
    gray = img.astype(rd.f32)
    binomial = lambda a, b, c, d, e: a + e + 4.0 * (b + d) + 6.0 * c
    down = rd.stencil(lambda p: binomial(*[p[k, 0] for k in range(-2, 3)]), gray, boundary="clamp", name="down")
    blur = rd.stencil(
        lambda p: binomial(*[p[0, k] for k in range(-2, 3)]) * (1 / 256), down, boundary="clamp", name="blur"
    )
    return rd.clip(rd.rint(gray + strength * (gray - blur)), 0.0, 255.0).astype(rd.u8).named("sharp")


def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
    """Row tiles of 32 rows for each thread; one row of the first pass at a time."""
    s = algorithm.schedule()
    s["sharp"].split("y", 32).parallel("yo").vectorize("x", 16).partition_boundaries()
    s["blur"].inline()
    s["down"].compute_at("sharp", "yi").vectorize("x")
    return s
