"""Colours of pixels, pairs and points: the short last axis is fused with the next outer one by default, against NumPy."""

from __future__ import annotations

import random

import numpy as np
import pytest

import raido as rd

SIZES = (1, 2, 3, 7, 16, 22, 43, 64, 100)


def image(chance, *shape):
    return np.random.default_rng(chance.randrange(1 << 30)).integers(0, 256, shape).astype(np.uint8)


def clamped(a, dy, dx):
    h, w = a.shape[:2]
    return a[np.clip(np.arange(h) + dy, 0, h - 1)][:, np.clip(np.arange(w) + dx, 0, w - 1)]


def inverted(c):
    return rd.algorithm(lambda a: 255 - a, a=f"u8[h, w, {c}]"), lambda a: 255 - a


def smoothed(c):
    """Two stencils, the first in strips of the second."""

    def made(a):
        down = rd.stencil(lambda p: p[-1, 0, 0] + 2 * p[0, 0, 0] + p[1, 0, 0], a.astype(rd.u16), boundary="clamp")
        return rd.stencil(lambda p: (p[0, -1, 0] + p[0, 0, 0] + p[0, 2, 0]).astype(rd.u16), down, boundary="clamp")

    def wanted(a):
        a = a.astype(np.uint16)
        down = clamped(a, -1, 0) + 2 * a + clamped(a, 1, 0)
        return clamped(down, 0, -1) + down + clamped(down, 0, 2)

    return rd.algorithm(made, a=f"u8[h, w, {c}]"), wanted


def cropped(c):
    made = lambda a: rd.stencil(lambda p: p[0, 0, 0] ^ p[1, 1, 0], a, boundary="valid")[:, 1:]
    return rd.algorithm(made, a=f"u8[h + 1, w + 2, {c}]"), lambda a: (a[:-1, :-1] ^ a[1:, 1:])[:, 1:]


def wrapped(c):
    made = lambda a: rd.stencil(lambda p: p[0, -1, 0] + p[0, 1, 0], a, boundary="wrap")
    return rd.algorithm(made, a=f"u8[h, w, {c}]"), lambda a: np.roll(a, 1, 1) + np.roll(a, -1, 1)


def mirrored(c):
    made = lambda a: rd.stencil(lambda p: p[0, -1, 0] ^ p[1, 1, 0], a, boundary="symmetric")

    def wanted(a):
        wide = np.pad(a, ((0, 1), (1, 1), (0, 0)), mode="symmetric")
        return wide[:-1, :-2] ^ wide[1:, 2:]

    return rd.algorithm(made, a=f"u8[h, w, {c}]"), wanted


def weighted(c):
    """Values that differ between colours: lanes stay along pixels."""
    made = lambda a: a * (rd.iota(c) + 1).astype(rd.u8)
    return rd.algorithm(made, a=f"u8[h, w, {c}]"), lambda a: a * (np.arange(c) + 1).astype(np.uint8)


def narrowed(c):
    """Two of more colours: rows of what is read are longer."""
    return rd.algorithm(lambda a: a[:, :, :2] + 1, a=f"u8[h, w, {c}]"), lambda a: a[:, :, :2] + np.uint8(1)


def composited(c):
    """The last colour, as the opacity, and the first are read by all of a pixel."""

    def made(a):
        last, first = rd.u16(a[:, :, c - 1 :]), rd.u16(a[:, :, :1])
        return rd.u8((rd.u16(a) * (255 - last) + first * 3 + 128) >> 8)

    def wanted(a):
        a = a.astype(np.uint16)
        return ((a * (255 - a[:, :, c - 1 :]) + a[:, :, :1] * 3 + 128) >> 8).astype(np.uint8)

    return rd.algorithm(made, a=f"u8[h, w, {c}]"), wanted


def beside_the_next(c):
    """The last colour of the pixel behind."""
    made = lambda a: a[:, :-1] ^ a[:, 1:, c - 1 :]
    return rd.algorithm(made, a=f"u8[h, w, {c}]"), lambda a: a[:, :-1] ^ a[:, 1:, c - 1 :]


def after_the_last(c):
    """The same with a border."""
    made = lambda a: rd.tabulate(a.shape, lambda y, x, k: a[y, x, k] + a[y, rd.minimum(x + 1, a.shape[1] - 1), 0])
    return rd.algorithm(made, a=f"u8[h, w, {c}]"), lambda a: a + clamped(a, 0, 1)[:, :, :1]


FAMILY = (
    inverted,
    smoothed,
    cropped,
    wrapped,
    mirrored,
    weighted,
    narrowed,
    composited,
    beside_the_next,
    after_the_last,
)


@pytest.mark.parametrize("family", FAMILY)
def test_images_give_what_numpy_gives(family):
    chance = random.Random(family.__name__)
    for c in (2, 3, 4):
        algorithm, wanted = family(c)
        compiled = algorithm.compile()
        for width in SIZES:
            a = image(chance, chance.choice((2, 3, 9)), width + 2, c)
            assert np.array_equal(compiled(a), wanted(a)), (c, a.shape)
            view = image(chance, 6, 2 * width + 4, c)[::2, ::2]
            assert np.array_equal(compiled(view), wanted(view)), (c, view.shape)


@pytest.mark.parametrize("family", (inverted, smoothed, cropped, wrapped, mirrored))
def test_what_treats_colours_alike_reads_and_stores_whole_vectors(family):
    text = family(3)[0].compile().source("gang")
    assert " by 3" not in text and "gather" not in text and "scatter" not in text, text


@pytest.mark.parametrize("family", (composited, beside_the_next))
@pytest.mark.parametrize("c", (2, 4))
def test_what_a_pixel_shares_is_shuffled(family, c):
    text = family(c)[0].compile().source("gang")
    assert f" by {c}" not in text and "gather" not in text and "shuffle_lanes" in text, text


@pytest.mark.parametrize("c", (2, 3, 4))
def test_lists_of_points_and_pairs(c):
    scaled = rd.algorithm(lambda a, b: a * 2 - b, a=f"f32[n, {c}]", b=f"f32[n, {c}]").compile()
    moved = rd.algorithm(
        lambda a: rd.stencil(lambda p: p[-1, 0] + p[1, 0], a, boundary="clamp"), a=f"f32[n, {c}]"
    ).compile()
    for n in (1, 2, 5, 16, 33, 20000):
        a, b = (np.random.default_rng(n + k).integers(0, 99, (n, c)).astype(np.float32) for k in (0, 1))
        assert np.array_equal(scaled(a, b), a * 2 - b)
        assert np.array_equal(moved(a), np.concatenate([a[:1], a[:-1]]) + np.concatenate([a[1:], a[-1:]]))


def test_a_line_of_pixels_shares_its_opacity_too():
    """Chunks of a line begin at multiples of their length, which are whole pixels."""

    def made(a, b):
        opacity = rd.i32(a[:, 3:])
        return rd.u8((opacity * rd.i32(a) + (255 - opacity) * rd.i32(b) + 127) // 255)

    exe = rd.algorithm(made, a="u8[n, 4]", b="u8[n, 4]").compile()
    assert "gather" not in (text := exe.source("gang")) and "shuffle_lanes" in text, text
    for n in (1, 7, 16, 5000):
        a, b = (np.random.default_rng(n + k).integers(0, 256, (n, 4)) for k in (0, 1))
        wanted = (a[:, 3:] * a + (255 - a[:, 3:]) * b + 127) // 255
        assert np.array_equal(exe(a.astype(np.uint8), b.astype(np.uint8)), wanted)


def test_regrouped_axes_inside_images_of_unknown_width_are_read_by_vectors():
    """A written fusion: what the outer dimension's step is does not matter where it stays."""
    algorithm = rd.algorithm(lambda a: (a + 1).named("out"), a="u8[h, w, 3]")
    schedule = algorithm.schedule()
    schedule["out"].fuse("y", "x").vectorize("yx")
    text = algorithm.compile(schedule=schedule).source("gang")
    assert "gather" not in text and "scatter" not in text and "a[0, 0, 3*(w*z) + yx +: " in text, text
