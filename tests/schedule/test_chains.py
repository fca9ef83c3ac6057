"""Producers that default schedules compute within row tiles of a consumer: those whose rows advance with the consumer's, at any rate."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd
from raido.schedule.machine import Machine


def default_of(algorithm: rd.Algorithm) -> str:
    return str(algorithm.schedule().complete(Machine(cores=2)))


def halves() -> rd.Algorithm:
    """Four pixels of a quad, each from what is known of the quad and of those around it."""

    @rd.algorithm
    def woven(raw: rd.u16["2 * h", "2 * w"]):
        clean = rd.stencil(
            lambda p: rd.minimum(p[0, 0], rd.maximum(p[0, -2], p[2, 0])), raw, boundary="clamp", name="clean"
        )
        a, b = (clean[y::2, y::2].named(n) for y, n in ((0, "a"), (1, "b")))
        c = rd.stencil(lambda p, q: (p[0, 0] + p[1, 0] + q[0, 0] + q[-1, 0]) // 4, a, b, boundary="clamp", name="c")
        across = lambda p, q: rd.stack([p, q], axis=2).reshape(raw.shape[0] // 2, raw.shape[1])
        return rd.stack([across(a, c), across(c, b)], axis=1).reshape(*raw.shape).named("out")

    return woven


def test_stages_of_half_as_many_rows_are_made_in_strips():
    woven = halves()
    schedule = default_of(woven)
    assert all(f's["{name}"].compute_at("out", "yo")' in schedule for name in ("c", "clean")), schedule
    raw = np.random.default_rng(0).integers(0, 1024, (134, 70)).astype(np.uint16)
    assert (woven(raw) == woven.interpret(raw)).all()


def test_rows_that_a_normalisation_reads_again_fit_half_of_l2():
    @rd.algorithm
    def centred(x: rd.f32["n", "c", "w"]):
        return (x - rd.mean(x, axis=(1, 2), keepdims=True)).named("out")

    rows = lambda **sizes: str(centred.schedule().complete(Machine(l2=1 << 20), sizes))
    assert 's["out"].root().split("z", 32)' in rows(c=4, w=900)  # 14 KiB a row
    assert 's["out"].root().split("z", 16)' in rows(c=4, w=1500)
    assert 's["out"].root().split("z", 8)' in rows(c=4, w=3000)


@pytest.mark.parametrize("every, place", [(100, 'compute_at("out", "io")'), (20_000, "root()"), (1 << 20, "root()")])
def test_what_elements_share_by_quotients_is_made_once(every, place):
    """A function of one in so many elements is made in their strips where a strip has some of its own, not one that others need too."""

    @rd.algorithm
    def shared(x: rd.f32["n"], k: rd.f32):
        count = (x.shape[0] + every - 1) // every
        made = rd.tabulate(count, lambda j: rd.exp(rd.sin(k * j.astype(rd.f32)))).named("made")
        return rd.tabulate(x.shape[0], lambda i: made[i // every] * x[i]).named("out")

    assert f's["made"].{place}' in default_of(shared)


def test_what_elements_share_by_remainders_is_made_once():
    @rd.algorithm
    def shared(x: rd.f32["n"], k: rd.f32):
        made = rd.tabulate(64, lambda j: rd.exp(rd.sin(k * j.astype(rd.f32)))).named("made")
        return rd.tabulate(x.shape[0], lambda i: made[i % 64] * x[i])

    assert 's["made"].root()' in default_of(shared)


def test_rows_that_part_are_made_whole():
    """Strips would need more rows the further down they are, and make those in between for nothing."""

    @rd.algorithm
    def parting(x: rd.f32["2 * h", "w"]):
        made = rd.stencil(lambda p: p[-1, 0] + p[1, 0] * p[0, 0], x, boundary="clamp", name="made")
        half = x.shape[0] // 2
        return rd.tabulate((half, x.shape[1]), lambda y, i: made[y, i] * made[2 * y, i]).named("out")

    assert 's["made"].root()' in default_of(parting)


def test_rows_of_a_pyramid_count_by_their_pace():
    @rd.algorithm
    def smooth(x: rd.f32["4 * h", "w"]):
        at = lambda p: p[-1, 0] + p[0, 0] * 2.0 + p[1, 0]
        half = rd.stencil(at, x, boundary="clamp", stride=(2, 1), name="half")
        quarter = rd.stencil(at, half, boundary="clamp", stride=(2, 1), name="quarter")
        return rd.tabulate(x.shape, lambda y, i: x[y, i] - quarter[y // 4, i]).named("out")

    schedule = default_of(smooth)
    assert all(f's["{name}"].compute_at("out", "yo")' in schedule for name in ("half", "quarter")), schedule
    x = np.random.default_rng(1).random((260, 37), dtype=np.float32)
    assert (smooth(x) == smooth.interpret(x)).all()


def test_stages_that_outputs_of_one_loop_read_are_made_in_its_row_tiles():
    @rd.algorithm
    def moments(a: rd.f32["h", "w"]):
        def box(v, name):
            down = lambda p: p[-2, 0] + p[-1, 0] + p[0, 0] + p[1, 0] + p[2, 0]
            across = lambda p: p[0, -2] + p[0, -1] + p[0, 0] + p[0, 1] + p[0, 2]
            return rd.stencil(across, rd.stencil(down, v, boundary="clamp", name=name), boundary="clamp")

        mean, square = box(a, "mean"), box(a * a, "square")
        return (mean * square).named("first"), (mean / (square + 1)).named("second")

    schedule = default_of(moments)
    assert 's["second"].compute_with("first", "x")' in schedule
    assert all(f's["{name}"].compute_at("first", "yo")' in schedule for name in ("mean", "square")), schedule
    a = np.random.default_rng(0).random((37, 50), "f4")
    for found, wanted in zip(moments(a), moments.interpret(a), strict=True):
        np.testing.assert_array_equal(found, wanted)
