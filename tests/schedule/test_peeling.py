"""Loop peeling: loops are split at indices that sizes decide, where boundary conditions begin and end."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

import raido as rd

SIZES = [*range(12), 31, 32, 33, 64, 100]


@rd.algorithm
def middle(u: rd.f32["h", "w"]):
    h, w = u.shape
    return u.at[h // 4 : h // 2, w // 4 : w // 2].set(2 * u[h // 4 : h // 2, w // 4 : w // 2])


@rd.algorithm
def window(u: rd.f32["n"], v: rd.f32["m"]):
    return u.at[5 : v.shape[0] + 5].set(2 * u[5 : v.shape[0] + 5])


@rd.algorithm
def halves(u: rd.f32["n"]):
    half = u.shape[0] // 2
    return rd.concatenate([u[half:], u[:half]])


@rd.algorithm
def history(u: rd.f32["n"]):
    """An array in which each iteration makes a row of the one before, by an update with lanes along the row."""
    step = lambda t, h: h.at[t + 1].set(rd.roll(h[t], 1) + 2 * rd.roll(h[t], -2))
    return rd.loop(3, step, rd.zeros((4, u.shape[0]), rd.f32).at[0].set(u))


@rd.algorithm
def walls(u: rd.f32["n"]):
    """Values at the ends that are those beside them, moved in, by both orders of a clip."""
    n = u.shape[0]
    clipped = rd.map(lambda i: u[rd.clip(i, 1, n - 2)] + u[rd.clip(i, 1, n - 2) - 1], rd.iota(n))
    return clipped + rd.map(lambda i: u[rd.maximum(rd.minimum(i + 1, n - 3), 2) - 1], rd.iota(n))


def pieces(nest: str) -> list[str]:
    """The statements in loops over lanes that stand in no alternative to the version of the interior."""
    lines = nest.split("else:")[0].splitlines()
    return [after.strip() for line, after in pairwise(lines) if line.endswith(" by vector:")]


@pytest.mark.parametrize("program", [middle, window, halves, history])
def test_pieces_of_a_row_neither_clamp_nor_choose(program):
    found = pieces(program.compile().source("nest"))
    assert len(found) >= 2
    assert not any(word in statement for statement in found for word in ("clamp", "wrap", " if ")), found


@pytest.mark.parametrize("n", SIZES)
def test_pieces_meet_wherever_the_sizes_put_them(n):
    u = np.arange(n, dtype="f4")
    half = n // 2
    assert (halves(u) == np.concatenate([u[half:], u[:half]])).all()
    rows = [u]
    for _ in range(3):
        rows.append(np.roll(rows[-1], 1) + 2 * np.roll(rows[-1], -2))
    assert (history(u) == np.array(rows)).all()
    for m in (0, 1, 4, n, n + 3):
        wanted = u.copy()
        wanted[5 : m + 5] *= 2
        assert (window(u, np.zeros(m, "f4")) == wanted).all()
    for w in (0, 1, 2, 3, 5, 18, 67):
        a = np.arange(n * w, dtype="f4").reshape(n, w)
        wanted = a.copy()
        wanted[n // 4 : n // 2, w // 4 : w // 2] *= 2
        assert (middle(a) == wanted).all()


@pytest.mark.parametrize("n", SIZES)
def test_clips_to_other_ranges_than_the_arrays_are_clips(n):
    u = np.arange(n, dtype="f4") ** 2
    try:
        wanted = walls.interpret(u)
    except rd.IndexOutOfRange:
        with pytest.raises(rd.IndexOutOfRange):
            walls(u)
    else:
        assert (walls(u) == wanted).all()
    (inside,) = pieces(walls.compile().source("nest"))
    assert "clamp" not in inside


def windows(u: rd.Array, of: Callable[[rd.Array], rd.Array]) -> rd.Array:
    """A value of each 3 × 3 window of an array padded by one element, two elements apart."""
    h, w = u.shape
    padded = rd.pad(u, ((1, 1), (1, 1)), constant_values=-1.0)
    return rd.tabulate(((h + 1) // 2, (w + 1) // 2), lambda y, x: of(padded[2 * y : 2 * y + 3, 2 * x : 2 * x + 3]))


@rd.algorithm
def pooled(u: rd.f32["h", "w"]):
    return windows(u, rd.max), windows(u, lambda window: rd.max(window.reshape(9)))


def test_windows_of_padded_arrays_are_read_without_clamps_inside():
    inside = re.findall(r" by vector.*?out\d", pooled.compile().source("nest").replace("else", "\0"), re.DOTALL)
    plain = [piece for piece in inside if "clamp" not in piece and "-1.0" not in piece]
    assert any("[2*y - 1, 2*x - 1]" in piece for piece in plain)  # checked slices
    assert any("%3" in piece for piece in plain)  # and indices that a reshape made
    for shape in ((1, 1), (2, 5), (7, 3), (10, 67)):
        u = np.random.default_rng(0).random(shape, "f4")
        padded = np.pad(u, 1, constant_values=-1.0)
        wanted = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))[::2, ::2].max((2, 3))
        for found in pooled(u):
            assert (found == wanted).all()


@rd.algorithm
def weighted(a: rd.f32["h", "w"]):
    """Means of neighbours, weighted by the likeness of their windows: the folds of a mapped function read near the ends of rows."""
    p = rd.pad(a, 5, mode="edge")

    def pixel(y, x):
        def weight(dy, dx):
            apart = lambda i, j: (p[y + 4 + i, x + 4 + j] - p[y + dy + i, x + dx + j]) ** 2
            return 1 / (1 + rd.sum(rd.tabulate((3, 3), apart)))

        return rd.sum(rd.tabulate((8, 8), weight))

    return rd.tabulate(a.shape, pixel)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 6), (7, 40), (3, 133)])
def test_rows_are_split_where_folds_inside_functions_meet_their_ends(shape):
    """Each of 576 pairs of reads of a pixel was clamped in lanes: 2.3 times as long."""
    if shape == (1, 1):
        lanes = weighted.compile().source("nest").partition("by vector")[2].partition("out[")[0]
        assert "clamp(ry + y" in lanes and "x" not in "".join(re.findall(r"clamp\((.*)\)", lanes))
    a = np.random.default_rng(2).random(shape, dtype=np.float32)
    np.testing.assert_allclose(weighted(a), weighted.interpret(a), rtol=1e-5)
