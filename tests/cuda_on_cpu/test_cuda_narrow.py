"""Kernels for CUDA have two codes: both give the same results, and small launches use the one with 32-bit indices."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from cuda_twin import Twin, compile_twin
from fake_driver import load_driver
from kernel_vocabulary import at, integer, kernel, number, put, when
from test_narrow_codes import MOST, THREADS, Pair, drawn

from raido.algo.graph.dtypes import f32, i64
from raido.targets import tvm_corner as T
from raido.targets.cuda.compile import kernels_of
from raido.targets.cuda.library import find_device
from raido.targets.cuda.runtime import CudaDevice
from raido.targets.cuda.source.generate import generate_source
from raido.targets.devices.runtime import LoadedKernel, Memory

COUNT = 40
DRAW = random.Random(1)
numbers: dict[str, int] = {}
answers: list[Callable[[np.ndarray], np.ndarray]] = []


def arithmetic(x: Any, out: Any, n: Any, m: Any) -> list[Any]:
    """Expressions of a thread's place and two numbers."""
    leaves: list[Pair] = [
        (x.i, lambda v: v),
        (n, lambda v: np.full_like(v, numbers["n"])),
        (m, lambda v: np.full_like(v, numbers["m"])),
        *((integer(c, "int64"), lambda v, c=c: np.full_like(v, c)) for c in (3, -5, 1 << 20)),
    ]
    stores = []
    for k in range(COUNT):
        expression, answer = drawn(DRAW, leaves, 4)
        named = T.Var(f"v{k}", "int64")
        stores += [T.Bind(named, expression), put(out, x.i * COUNT + k, named)]
        answers.append(answer)
    return stores


def mean(x: Any, a: Any, b: Any, w: Any, n: Any) -> list[Any]:
    """The mean of an element and the one a row above."""
    above = T.Max(x.i - w, integer(0, "int64"))
    return [when(x.i < n, put(b, x.i, (at(a, x.i) + at(a, above)) * number(f32, 0.5)))]


SOURCE = generate_source(
    [kernel("arithmetic", (i64, "int64", "int64"), arithmetic), kernel("mean", (f32, f32, "int64", "int64"), mean)]
)
CASES = (
    ({"n": 77, "m": 5}, True),
    ({"n": MOST // 1000, "m": 12345}, True),
    ({"n": MOST, "m": -MOST}, False),
    ({"n": MOST + 1, "m": 3}, False),
    ({"n": 1 << 45, "m": -(1 << 33)}, False),
)


def test_random_arithmetic_is_that_of_64_bits_whichever_code_runs() -> None:
    """By the driver, which counts what it launches, and the wide code by itself."""
    driver, twin = load_driver(), Twin(SOURCE)
    with CudaDevice(find_device()) as opened:
        loaded = LoadedKernel(opened, kernels_of(SOURCE, compile_twin(SOURCE))["arithmetic"])
        out = Memory(opened, 8 * THREADS * COUNT)
        for given, small in CASES:
            numbers.update(given)
            begun = driver.count("narrow launches")
            loaded.launch((1, 1, 1), [out, given["n"], given["m"]])
            results = out.read(np.empty((THREADS, COUNT), np.int64))
            small &= all(
                given[name] <= limit for name, limit in zip("nm", SOURCE.kernels[0].narrow_limits, strict=True)
            )
            assert driver.count("narrow launches") - begun == small
            wide = np.empty_like(results)
            twin.launch("arithmetic", (1, 1, 1), [wide, given["n"], given["m"]])
            for k, answer in enumerate(answers):
                for found in (results, wide):
                    np.testing.assert_array_equal(found[:, k], answer(np.arange(THREADS)), err_msg=f"{k} {given}")


def test_indices_of_narrow_code_have_32_bits() -> None:
    """Numbers of 64 bits are in the parameters, and where they become 32 bits."""
    _, text = SOURCE.body.split(" raido_narrow_mean(")
    narrow = text.split('extern "C"')[0].split("{", 1)[1]
    assert "i64" not in narrow and "s2_low" in narrow
    assert SOURCE.kernels[1].narrow_limits == (MOST, MOST)
