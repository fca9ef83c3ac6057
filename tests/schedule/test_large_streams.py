"""Non-temporal stores of large results. Rows of unknown length have loops without them for small results, whose last gang is moved back."""

import re

import numpy as np
import pytest
from default_schedules import default_of

import raido as rd

LARGE = rd.Target().machine.l3 // 2  # of the cache, the other half has what is read


@rd.algorithm
def shifted(x: rd.f32["n", "m"], b: rd.f32["m"]):
    return rd.maximum(x + b, 0.0)


@rd.algorithm
def line(x: rd.f32["n"]):
    return x * 2.0


@rd.algorithm
def two(x: rd.f32["n", "m"]):
    y = x * 2.0
    return y, rd.f64(y) + 1.0


def test_rows_ask_once_whether_results_are_large():
    text = shifted.compile().source("gang")
    assert text.count(f"if 4*(m*n) > {LARGE}:") == 1
    large, small = text.split(f"if 4*(m*n) > {LARGE}:")[1].split("        else:\n", 1)
    assert "stream" in large and "stream" not in small and "x_2 = m - 16" in small


def test_chunks_of_a_line_and_rows_of_known_length_have_one_loop():
    assert f"> {LARGE}" not in line.compile().source("gang").replace(f"above {LARGE}", "")
    known = rd.algorithm(lambda x: x * 2.0, x="f32[n, 4096]").compile().source("gang")
    assert f"> {LARGE}" not in known


def test_of_several_results_the_largest_is_asked():
    s = two.schedule()
    s["elementwise_1"].vectorize("x").stream_stores(above=LARGE)
    s["elementwise_2"].compute_with("elementwise_1", "x").stream_stores(above=LARGE)
    assert "if max(" in two.compile(schedule=s).source("gang")


@pytest.mark.parametrize("shape", [(3, 1), (40, 7), (9, 8), (5, 10), (11, 1000), (2100, 4099), (1, 9_000_001)])
def test_results_do_not_depend_on_it(shape):
    x, b = np.random.default_rng(1).random(shape, dtype=np.float32) - 0.5, np.float32(np.arange(shape[1]) % 3) - 1
    np.testing.assert_array_equal(shifted(x, b), np.maximum(x + b, 0))


@pytest.mark.parametrize(
    ("read", "most"),
    [
        (lambda x, v: x * 2, 16),
        (lambda x, v: x + v, 16),  # a row beside a matrix makes no difference
        (lambda x, v: v[:, None] * v[None, :], 32),
        (lambda x, v: rd.stencil(lambda p: p[0, -1] + p[0, 1], x * v, boundary="clamp"), 16),
        (lambda x, v: rd.stencil(lambda p: rd.f64(p[0, -1] + p[0, 1]), x, boundary="clamp"), 22),
        (lambda x, v: x + x[:, ::-1] * 0.5, 16),
    ],
)
def test_results_are_streamed_that_the_last_cache_does_not_keep_beside_what_is_read(read, most):
    def program(x: rd.f32["n", "m"], v: rd.f32["m"]):
        return read(x, v)

    (above,) = re.findall(r"stream_stores\(above=(\d+)\)", default_of(program))
    assert int(above) == most << 20
