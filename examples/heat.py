"""Heat spreading through a plate: 500 Jacobi steps with the hot spots held. Writes out/heat.png."""

from __future__ import annotations

import numpy as np
from show import check, report, save, seconds

import raido as rd


@rd.algorithm
def diffuse(plate: rd.f32["h", "w"], hot: rd.bool_["h", "w"], *, steps=500):
    def step(t, now):
        spread = rd.stencil(
            lambda p: (p[-1, 0] + p[1, 0] + p[0, -1] + p[0, 1]) * 0.25, now, boundary="clamp", name="spread"
        )
        return rd.where(hot, plate, spread).named("next")

    return rd.loop(steps, step, plate)


def with_numpy(plate: np.ndarray, hot: np.ndarray, steps: int) -> np.ndarray:
    """The same by NumPy."""
    now = plate
    for _ in range(steps):
        p = np.pad(now, 1, mode="edge")
        now = np.where(hot, plate, (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]) * np.float32(0.25))
    return now


def palette(values: np.ndarray) -> np.ndarray:
    """Black, red, yellow, white for 0 … 1, as planar RGB."""
    return np.stack([np.clip(3 * values - k, 0, 1) for k in range(3)])


def main() -> None:
    n = 512
    y, x = np.mgrid[0:n, 0:n] / n
    hot = np.zeros((n, n), bool)
    for cy, cx, r in ((0.3, 0.3, 0.05), (0.6, 0.7, 0.1), (0.8, 0.2, 0.03), (0.2, 0.8, 0.02)):
        hot |= (y - cy) ** 2 + (x - cx) ** 2 < r * r
    plate = hot.astype(np.float32)
    run = diffuse.compile()
    result = run(plate, hot)
    check(result, with_numpy(plate, hot, 500), 1e-5)
    print("wrote", save("heat", palette(result)))
    ours = seconds(lambda: run(plate, hot), 3)
    theirs = seconds(lambda: with_numpy(plate, hot, 500), 1)
    report("heat 512x512, 500 steps", ours, theirs, "NumPy", amount=500 * 3 * plate.nbytes)


if __name__ == "__main__":
    main()
