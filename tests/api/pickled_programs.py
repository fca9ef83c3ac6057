"""Algorithms that other processes import, for the tests of pickles."""

from __future__ import annotations

import numpy as np

import raido as rd


@rd.algorithm
def blur(img: rd.f32["h", "w"], *, by=3.0):
    rows = rd.stencil(lambda p: (p[0, -1] + p[0, 0] + p[0, 1]) / by, img, boundary="clamp", name="rows")
    return rd.stencil(lambda p: (p[-1, 0] + p[0, 0] + p[1, 0]) / by, rows, boundary="clamp", name="cols")


def plain(a: rd.f32["n"]):
    return 2 * a


twice = rd.algorithm(plain)
wide = rd.capture(blur, by=9.0)


class Family:
    @rd.algorithm
    def sums(a: rd.f32["n", "m"]):
        return rd.sum(a, axis=1)


def run_schedule(schedule, img):
    """What an executable of that schedule gives, in a process that has only been sent the schedule."""
    return blur.compile(schedule=schedule)(img)


def picture() -> np.ndarray:
    return np.arange(7 * 11, dtype=np.float32).reshape(7, 11) % 13
