"""Phases: upsampling, interleaving and similar programs by blocks of lanes, compiled by default schedules and by random ones, against
NumPy."""

from __future__ import annotations

import random

import numpy as np
import pytest

import raido as rd

DTYPES = (np.uint8, np.int16, np.float32, np.float64)
NAMES = {np.uint8: "u8", np.int16: "i16", np.float32: "f32", np.float64: "f64"}
SIZES = (1, 2, 3, 5, 8, 17, 33, 64, 129, 200)


def filled(chance, dtype, *shape):
    return np.random.default_rng(chance.randrange(1 << 30)).integers(0, 100, shape).astype(dtype)


def repeated(k, dtype):
    return rd.algorithm(lambda a: rd.repeat(a, k, axis=1), a=f"{dtype}[h, w]"), lambda a: np.repeat(a, k, axis=1)


def woven(k, dtype):
    """k arrays made of one, in turn along rows."""
    parts = lambda a: [
        a * type(a)(j + 1) if isinstance(a, np.generic) else a * np.asarray(j + 1, a.dtype) for j in range(k)
    ]
    made = lambda a: rd.stack([a * (j + 1) for j in range(k)], axis=2).reshape(a.shape[0], k * a.shape[1])
    return rd.algorithm(made, a=f"{dtype}[h, w]"), lambda a: np.stack(parts(a), axis=2).reshape(a.shape[0], -1)


def between(k, dtype):
    """The nearest of elements and of their right neighbours, added."""

    def made(a):
        at = lambda y, x: rd.gather(a, (y, x), mode="clamp")
        return rd.tabulate((a.shape[0], k * a.shape[1]), lambda y, x: at(y, x // k) + at(y, (x + 1) // k))

    def wanted(a):
        x = np.arange(k * a.shape[1])
        return a[:, x // k] + a[:, np.minimum((x + 1) // k, a.shape[1] - 1)]

    return rd.algorithm(made, a=f"{dtype}[h, w]"), wanted


def outline_kernels(k, dtype):
    """A part of a repeated array, which begins and ends within strips."""
    return rd.algorithm(lambda a: rd.repeat(a, k, axis=1)[:, 1:-2], a=f"{dtype}[h, w]"), lambda a: np.repeat(a, k, 1)[
        :, 1:-2
    ]


def pixels(k, dtype):
    """Three colours to each place of a repeated array."""
    made = lambda a: rd.stack(
        [rd.repeat(a, k, axis=1), rd.repeat(a + 1, k, axis=1), rd.repeat(a * 2, k, axis=1)], axis=2
    )
    wanted = lambda a: np.stack([np.repeat(v.astype(a.dtype), k, 1) for v in (a, a + 1, a * 2)], axis=2)
    return rd.algorithm(made, a=f"{dtype}[h, w]"), wanted


def smoothed(k, dtype):
    """A stencil of a repeated array that is kept, in strips of rows."""

    def made(a):
        up = rd.repeat(a, k, axis=1).named("up")
        return rd.stencil(lambda p: p[0, -1] + p[0, 0] + p[0, 1] + p[1, 0], up, boundary="clamp", name="out")

    def wanted(a):
        up = np.repeat(a, k, 1)
        if not up.size:
            return up
        p = np.pad(up, 1, mode="edge")
        return p[1:-1, :-2] + p[1:-1, 1:-1] + p[1:-1, 2:] + p[2:, 1:-1]

    return rd.algorithm(made, a=f"{dtype}[h, w]"), wanted


FAMILY = (repeated, woven, between, outline_kernels, pixels, smoothed)


@pytest.mark.parametrize("family", FAMILY)
def test_default_schedules_give_what_numpy_gives(family):
    chance = random.Random(family.__name__)
    for k in (2, 3, 4, 8) if family is not pixels else (2, 4):
        dtype = chance.choice(DTYPES)
        algorithm, wanted = family(k, NAMES[dtype])
        compiled = algorithm.compile()
        for width in SIZES:
            a = filled(chance, dtype, chance.choice((1, 2, 5)), width)
            assert np.array_equal(compiled(a), wanted(a)), (k, dtype, a.shape)


@pytest.mark.parametrize(
    ("family", "k"),
    [
        (repeated, 2),
        (repeated, 3),
        (repeated, 8),
        (woven, 2),
        (woven, 4),
        (between, 2),
        (outline_kernels, 2),
        (pixels, 2),
    ],
)
def test_default_schedules_neither_gather_nor_choose(family, k):
    text = family(k, "f32")[0].compile().source("gang")
    assert "gather" not in text and "%" not in text, text


@pytest.mark.parametrize("family", FAMILY)
def test_written_strips_give_what_numpy_gives(family):
    """Strips of another length than the quotients', at other places, beside unrolled rows."""
    chance = random.Random(family.__name__)
    for k in (2, 3):
        dtype = chance.choice(DTYPES)
        algorithm, wanted = family(k, NAMES[dtype])
        for _ in range(2):
            schedule = algorithm.schedule()
            stage = schedule[schedule.stages[-1]]
            strip = chance.choice((2, 3, 5))
            along, rows = ("y", "z") if family is pixels else ("x", "y")
            if chance.random() < 0.5:
                stage.split(rows, 2).reorder(rows + "o", along, rows + "i").unroll(rows + "i")
            if chance.random() < 0.5:
                stage.align(along, chance.choice((2, 3)))
            stage.split(along, strip).vectorize(along + "o").unroll(along + "i")
            compiled = algorithm.compile(schedule=schedule)
            for width in SIZES:
                a = filled(chance, dtype, chance.choice((1, 2, 5)), width)
                assert np.array_equal(compiled(a), wanted(a)), (str(schedule), dtype, a.shape)


def every(step):
    return rd.algorithm(lambda a: a[:, ::step] + 1, a="f32[h, w]")


def test_strided_reads_are_shuffled_out_of_vectors():
    """Lanes up to half their number apart."""
    for step in (2, 3, 4, 5, 7, 8):
        compiled = every(step).compile()
        for width in SIZES:
            a = filled(random.Random(step), np.float32, 2, width)
            assert np.array_equal(compiled(a), a[:, ::step] + 1)


def test_chunks_of_a_line_begin_at_whole_tiles():
    """In chunks for threads, too, each instance of an unrolled tile has its own value, without a test or a division of its index."""
    weave = lambda a, b: rd.tabulate(2 * a.shape[0], lambda x: rd.where(x % 2 == 0, a[x // 2], b[x // 2]))
    exe = rd.algorithm(weave, a="f32[n]", b="f32[n]").compile()
    stores = [line for line in exe.source("nest").splitlines() if line.strip().startswith("out[")]
    assert len(stores) >= 2 and not any(" if " in line or "//" in line or "%" in line for line in stores)
    for n in (0, 1, 5, 8192, 20_001):
        a = np.arange(n, dtype=np.float32)
        assert (exe(a, -a) == np.stack([a, -a], 1).reshape(-1)).all()
