"""Strided reads that share the vectors from which they are shuffled, against NumPy, at every distance and stride."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

import raido as rd


def decimated(stride, taps, dtype):
    """Weighted sums of taps that begin every `stride` elements."""
    made = lambda a: rd.stencil(
        lambda p: sum((p[t] * (k + 1) for k, t in enumerate(taps)), 0), a, boundary="valid", stride=stride
    )
    return rd.algorithm(made, a=f"{dtype}[n]")


def wanted(a, stride, taps):
    places = np.arange(0, len(a) - (max(taps) - min(taps)), stride)
    return sum((a[places + t - min(taps)] * a.dtype.type(k + 1) for k, t in enumerate(taps)), np.zeros((), a.dtype))


@pytest.mark.parametrize("stride", (2, 3, 4, 5, 6, 8))
def test_decimating_filters(stride):
    chance = random.Random(stride)
    for name, dtype in (("u8", np.uint8), ("u16", np.uint16), ("f32", np.float32), ("f64", np.float64)):
        taps = sorted(chance.sample(range(-3, 10), chance.randint(2, 6)))
        compiled = decimated(stride, taps, name).compile()
        for n in (14, 40, 200, 777, 1500):
            a = np.random.default_rng(n).integers(0, 9, n).astype(dtype)
            assert np.array_equal(compiled(a), wanted(a, stride, taps)), (stride, taps, name, n)


def test_reads_less_than_a_stride_apart_load_the_same_vectors():
    """Sums of pairs load each element once: two loads for two vectors of elements, in the loop over whole vectors."""
    pairs = rd.algorithm(lambda a: a[::2] + a[1::2], a="f32[2*n]").compile()
    text = pairs.source("tir")
    windows = set(re.findall(r"rd\.window2\.\d+\.1\.f32x\d+", text))
    assert {name.split(".")[2] for name in windows} == {"0", "1"}, windows


def test_planes_of_one_image_are_made_in_one_pass():
    """A level of Haar's transform: four planes, which share sums that each reads once."""

    def made(a):
        p, q, r, s = a[::2, ::2], a[::2, 1::2], a[1::2, ::2], a[1::2, 1::2]
        return rd.stack([p + q + r + s, p - q + r - s, p + q - r - s, p - q - r + s])

    compiled = rd.algorithm(made, a="i32[2*h, 2*w]").compile()
    assert "heap" not in compiled.source("nest")
    for width in (1, 7, 16, 40, 133):
        a = np.random.default_rng(width).integers(-99, 99, (6, 2 * width)).astype(np.int32)
        p, q, r, s = a[::2, ::2], a[::2, 1::2], a[1::2, ::2], a[1::2, 1::2]
        wanted = np.stack([p + q + r + s, p - q + r - s, p + q - r - s, p - q - r + s])
        assert np.array_equal(compiled(a), wanted)


@pytest.mark.parametrize("channels", (2, 3, 4, 5, 8))
def test_mirrored_pixels_are_whole_vectors_shuffled(channels):
    """Lanes that descend by a stride are the ascending ones in the other order: up to 4 apart, which all numbers of lanes allow, no gathers."""
    for name, dtype in (("u8", np.uint8), ("u16", np.uint16), ("f32", np.float32), ("f64", np.float64)):
        mirrored = rd.algorithm(lambda a: a[:, ::-1], a=f"{name}[h, w, {channels}]").compile()
        tir = mirrored.source("tir")
        squares = dtype().itemsize * channels >= 32  # as many channels as lanes: transposed in registers
        assert channels > 4 or squares or (f"rd.windowm{channels}." in tir and f"rd.loadm{channels}.{name}x" not in tir)
        for width in (1, 5, 16, 63, 64, 200, 333):
            a = np.random.default_rng(width).integers(0, 99, (3, width, channels)).astype(dtype)
            assert np.array_equal(mirrored(a), a[:, ::-1]), (name, width)


@pytest.mark.parametrize("stride", (2, 3, 4))
def test_every_so_many_th_element_from_the_end(stride):
    last = rd.algorithm(lambda a: a[::-stride] * 2, a="f32[n]").compile()
    gathers = re.findall(r"call [^\n]*llvm\.masked\.gather", last.source("llvm"))
    assert len(gathers) <= 1, gathers  # where the array is shorter than one gang
    for n in (1, 7, 64, 65, 200, 1001):
        a = np.random.default_rng(n).integers(0, 99, n).astype(np.float32)
        assert np.array_equal(last(a), a[::-stride] * 2), n
