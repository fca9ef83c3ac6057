"""Multicolour (red–black) updates of a grid, one colour at a time: in place, in lanes, from the other colours, against NumPy."""

import numpy as np
import pytest

import raido as rd


def relaxed(colours, far, sign=1):
    """Sweeps over colours (i + sign·j) % colours, each element of its neighbours, the farthest of them `far` away along rows."""

    def made(u: rd.f64["h", "w"], f: rd.f64["h", "w"], sweeps: rd.i64):
        h, w = u.shape
        i, j = rd.iota(h)[:, None], rd.iota(w)[None, :]
        inside = (i > 0) & (i < h - 1) & (j >= far) & (j < w - far)

        def colour(c, u):
            sums = rd.stencil(lambda p: p[-1, 0] + p[1, 0] + p[0, -far] + p[0, far], u, boundary="clamp")
            return rd.where(inside & ((i + sign * j) % colours == c), 0.25 * (sums - f), u)

        def sweep(_, u):
            for c in range(colours):
                u = colour(c, u)
            return u

        return rd.loop(sweeps, sweep, u)

    return rd.algorithm(made)


def numpys(u, f, sweeps, colours, far, sign):
    h, w = u.shape
    i, j = np.arange(h)[:, None], np.arange(w)[None, :]
    inside = (i > 0) & (i < h - 1) & (j >= far) & (j < w - far)
    for _ in range(sweeps):
        for c in range(colours):
            p = np.pad(u, ((1, 1), (far, far)), mode="edge")
            sums = p[:-2, far : far + w] + p[2:, far : far + w] + p[1:-1, :w] + p[1:-1, 2 * far :]
            u = np.where(inside & ((i + sign * j) % colours == c), 0.25 * (sums - f), u)
    return u


@pytest.mark.parametrize("colours, far, sign", [(2, 1, 1), (3, 1, 1), (3, 2, -1), (2, 2, 1), (4, 3, 1), (3, 3, 1)])
def test_colours_in_turn_are_numpys(colours, far, sign):
    program = relaxed(colours, far, sign)
    for h, w in ((1, 1), (2, 9), (3, 3), (9, 40), (33, 70)):
        rng = np.random.default_rng(h)
        u, f = rng.random((h, w)), rng.random((h, w))
        np.testing.assert_array_equal(program(u, f, np.int64(3)), numpys(u, f, 3, colours, far, sign))


def test_what_reads_other_colours_alone_changes_in_place():
    text = relaxed(2, 1).compile().source("nest")
    assert "heap" not in text.split("for t in")[1] and " where (" in text and "scatter" not in text, text
    assert "scatter" not in relaxed(2, 1).compile().source("gang")
    own = (
        relaxed(2, 2).compile().source("nest")
    )  # two along a row is the same colour: not in place without its values made before
    assert "heap" in own.split("for t in")[1] or "state0_next" in own, own
