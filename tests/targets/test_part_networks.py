"""Blocks of keys without values are sorted by networks in registers, with the interpreter's results, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from processors import needs

import raido as rd
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.printer import print_nest
from raido.targets.target import Target

KINDS = (rd.f32, rd.f64, rd.i32, rd.u32, rd.i64, rd.u64)
AVX512 = Machine(vector_bits=512, registers=32)


def some_keys(dtype: Any, count: int, kind: str, seed: int = 0) -> np.ndarray:
    """So many keys: of all values, of few values, or with all values of which a network would not keep the order."""
    chance = np.random.default_rng(seed + count)
    if kind == "few":
        return chance.integers(0, 5, count).astype(dtype.numpy)
    size = np.dtype(dtype.numpy).itemsize
    if not dtype.is_float:
        return chance.integers(0, 256, count * size).astype(np.uint8).view(dtype.numpy)
    keys = chance.standard_normal(count).astype(dtype.numpy)
    if kind == "odd":
        odd = np.array([np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf], dtype.numpy)
        keys = np.where(chance.random(count) < 0.2, odd[chance.integers(0, len(odd), count)], keys)
    return keys


def bits(a: np.ndarray) -> np.ndarray:
    return a.view(f"u{a.dtype.itemsize}")


@pytest.mark.parametrize("cpu", [needs("x86-64-v2"), needs("x86-64-v3"), needs("x86-64-v4")])
@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_parts_of_any_length_are_sorted(dtype: Any, cpu: str) -> None:
    algorithm = rd.algorithm(a=dtype["n"])(lambda a: rd.sort(a, name="sorted"))
    s = algorithm.schedule()
    s["sorted"].strategy("quicksort", chunks=1, ranked=3, network=64, **({} if dtype.is_float else {"counted": 1}))
    s["sorted"].vectorize("x")
    executable = algorithm.compile(schedule=s, target=Target("llvm", cpu))
    for count in (*range(70), 100, 127, 128, 129, 700):
        for kind in ("all", "few", "odd"):
            a = some_keys(dtype, count, kind)
            np.testing.assert_array_equal(bits(executable(a)), bits(algorithm.interpret(a)), f"{count} {kind}")


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_rows_by_the_default_schedule(dtype: Any) -> None:
    algorithm = rd.algorithm(a=dtype["n", "m"])(lambda a: (rd.sort(a, axis=1), rd.sort(a, axis=1)[:, :2]))
    executable = algorithm.compile()
    for count in (33, 47, 48, 49, 64, 65, 128, 129, 200, 256, 257, 513):
        for kind in ("all", "few", "odd"):
            a = some_keys(dtype, 3 * count, kind).reshape(3, count)
            for got, want in zip(executable(a), algorithm.interpret(a), strict=True):
                np.testing.assert_array_equal(bits(got), bits(want), f"{count} {kind}")


def gang_of(function: Any, dtype: Any, **numbers: int) -> str:
    """The gang nest of a sort with 512-bit vectors."""
    algorithm = rd.algorithm(a=dtype["n", "m"])(function)
    s = algorithm.schedule()
    s["sorted"].strategy("quicksort", **numbers).vectorize("x")
    complete = s.complete(AVX512)
    return print_nest(form_gangs(lower(complete.graph, complete.variants()), AVX512.vector_bits))


@pytest.mark.parametrize("dtype", [rd.f32, rd.i64], ids=str)
def test_matrices_are_read_across_their_rows_by_shuffles_alone(dtype: Any) -> None:
    text = gang_of(lambda a: rd.sort(a, axis=1, name="sorted"), dtype, network=64)
    network = text[text.index("by_rows[") :]
    assert "shuffle" in network and "gather" not in network.split("if not done")[0]
    assert "by_rows" not in gang_of(lambda a: rd.sort(a, axis=1, name="sorted"), dtype, network=1)
    assert "by_rows" not in gang_of(lambda a: rd.argsort(a, axis=1, name="sorted"), dtype)


def test_a_matrix_fills_half_of_the_registers() -> None:
    for dtype, keys in ((rd.f32, 256), (rd.i64, 128)):
        schedule = rd.algorithm(a=dtype["n", "m"])(lambda a: rd.sort(a, axis=1)).schedule()
        assert f"network={keys}" in str(schedule.complete(AVX512))
