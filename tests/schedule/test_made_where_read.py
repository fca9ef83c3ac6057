"""Producers that default schedules inline: recomputation at the reader costs less than a store and a load."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd
from raido.schedule.machine import Machine


def default_of(algorithm: rd.Algorithm) -> str:
    return str(algorithm.schedule().complete(Machine(cores=2)))


@pytest.mark.parametrize("channels_last", [False, True])
def test_a_channel_costs_what_it_is_made_of_where_readers_know_which_it_is(channels_last: bool) -> None:
    """Each of four channels is a product, or an array; where all are made for each element, they are made once."""
    axis = 2 if channels_last else 0

    @rd.algorithm
    def smaller(img: rd.f32[4, "h", "w"]):
        alpha = img[3]
        weighted = rd.stack([img[0] * alpha, img[1] * alpha, img[2] * alpha, alpha], axis=axis).named("weighted")
        along, step = ((0, 1, 0), (1, 2, 1)) if channels_last else ((0, 0, 1), (1, 1, 2))
        before = tuple(-k for k in along)
        taps = lambda p: p[before] + 2.0 * p[0, 0, 0] + p[along]
        half = rd.stencil(taps, weighted, boundary="clamp", stride=step, name="half")
        last = weighted[:, :, 3:] if channels_last else weighted[3:]
        return half, (weighted * (1.0 - last)).named("out")

    schedule = default_of(smaller)
    assert ('s["weighted"].inline()' in schedule) is not channels_last, schedule
    img = np.random.default_rng(0).random((4, 13, 40), dtype=np.float32)
    for got, wanted in zip(smaller(img), smaller.interpret(img), strict=True):
        assert (got == wanted).all()


def test_reads_that_pass_over_elements_make_fewer_of_them() -> None:
    """Nine reads of every second element of every second row make two and a quarter of each element, nine of all make nine."""

    def smooth(step: int) -> rd.Algorithm:
        def program(a: rd.f32["h", "w"], b: rd.f32["h", "w"]):
            near = rd.elementwise(lambda x, y: (x * 0.5 + y * 0.25) * y - x * y * y, a, b, name="near")
            around = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
            return rd.stencil(
                lambda p: sum((p[t] for t in around[1:]), p[around[0]]), near, stride=step, boundary="clamp", name="out"
            )

        return rd.algorithm(program)

    assert 's["near"].inline()' in default_of(smooth(2))
    assert 's["near"].inline()' not in default_of(smooth(1))
