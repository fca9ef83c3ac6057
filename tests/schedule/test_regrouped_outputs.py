"""Outputs that regroup an array are computed in its shape: no index is divided, and nothing is copied."""

from __future__ import annotations

import numpy as np
import pytest
from counted_calls import calls_of
from nests import hold

import raido as rd
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages


def numbers(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


@rd.algorithm
def products(a: rd.f32["h", "w"], b: rd.f32["p", "q"]):
    return rd.kron(a, b)


@rd.algorithm
def windows(a: rd.f32["h", "w", "c"]):
    h, w, c = a.shape
    parts = rd.tabulate((h - 2, w - 1, 3, 2, c), lambda y, x, i, j, k: a[y + i, x + j, k])
    return parts.reshape((h - 2) * (w - 1), c * 6)


@rd.algorithm
def phases(a: rd.f32["n"], taps: rd.f32[2, 5]):
    sums = rd.tabulate((a.shape[0] - 4, 2), lambda i, p: rd.sum(rd.tabulate((5,), lambda k: taps[p, k] * a[i + k])))
    return sums.reshape(-1)


@rd.algorithm
def scaled(a: rd.f32["n", "m"], weights: rd.f32["n * m"]):
    return (a + 1).named("more").reshape(-1) * weights


@rd.algorithm
def turns(a: rd.complex64["r", 64]):
    return rd.fft.ifft(a)


@rd.algorithm
def running(a: rd.f32["n", "m"]):
    return rd.cumsum(a, axis=1).reshape(-1)


CASES = [
    (products, (numbers(3, 2), numbers(4, 3)), {"h": 3, "w": 2, "p": 4, "q": 3}),
    (windows, (numbers(5, 4, 3),), {"h": 5, "w": 4, "c": 3}),
    (phases, (numbers(11), numbers(2, 5)), {"n": 11}),
    (scaled, (numbers(4, 5), numbers(20)), {"n": 4, "m": 5}),
    (running, (numbers(4, 5),), {"n": 4, "m": 5}),
]


@pytest.mark.parametrize(("program", "arguments", "sizes"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_outputs_are_computed_in_the_shape_that_they_regroup(program, arguments, sizes):
    done = Schedule(form_stages(program.trace())).complete(Machine())
    texts = []
    (got,) = hold(lower(done.graph, done.variants(), Machine()), arguments, (256,), True, texts.append, **sizes)
    np.testing.assert_allclose(got, program.interpret(*arguments), rtol=1e-5)
    stores = [line.strip() for line in texts[0].splitlines() if line.strip().startswith("out_2[")]
    assert stores and not any("//" in line or "%" in line for line in stores)
    assert "produce move" not in texts[0]


def test_the_last_step_of_a_transform_computes_each_butterfly_once():
    x = numbers(3, 64) + 1j * numbers(3, 64)
    exe = turns.compile()
    np.testing.assert_allclose(exe(x.astype(np.complex64)), np.fft.ifft(x), atol=1e-5)
    assert " if " not in exe.source("nest")[exe.source("nest").rindex("for ") :]


def test_a_slice_of_a_regrouped_array_is_read_at_quotients():
    program = rd.algorithm(lambda a: (a * 2).reshape(-1)[:5])
    assert program.interpret(numbers(2, 4)).tolist() == program(numbers(2, 4)).tolist()


def test_an_array_that_others_read_in_its_own_shape_keeps_it():
    @rd.algorithm
    def both(a: rd.f32["n", "m"]):
        flat = (a * 2).reshape(-1)
        return flat + 1, rd.cumsum(flat)

    for got, want in zip(both(numbers(3, 4)), both.interpret(numbers(3, 4)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_chain_of_expressions_is_looked_through_in_linear_work():
    def calls(length):
        @rd.algorithm
        def chain(a: rd.f32["n"]):
            for _ in range(length):
                a = rd.sqrt(a * a + 1)
            return a

        return calls_of(chain.trace)

    assert calls(80) < 2.5 * calls(40)


def test_arrays_without_elements_are_regrouped_by_no_index():
    """The index 0 of a part became an axis, wherever a 0 stood."""

    def repeated(a: rd.complex64[33, 0]):
        return rd.broadcast_to(a, (1, 3, 33, 0))

    assert rd.algorithm(repeated)(np.zeros((33, 0), np.complex64)).shape == (1, 3, 33, 0)
