"""Exchanges between threads of a Vulkan device: every dtype, the bits of shared memory, devices without subgroups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vulkan_devices import validated_device

import raido as rd
from raido.algo.errors import ScheduleError, TargetError
from raido.targets import export
from raido.targets.target import Target
from raido.targets.vulkan.library import validation_messages


@pytest.fixture(scope="module")
def validated() -> Iterator[None]:
    """The device of this machine, where its threads exchange values, under the validation layer."""
    if not validated_device().exchange:
        pytest.skip("threads of the device do not hand each other values")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAIDO_VULKAN_VALIDATE", "1")
        yield
    assert validation_messages() == (0, "")


@rd.algorithm(a="f32[n, 300]")
def row_sums(a: rd.Array) -> rd.Array:
    return rd.sum(a, axis=1, name="s")


@rd.algorithm(a="f32[n]")
def lowest(a: rd.Array) -> rd.Array:
    return rd.argmin(a, name="s")


def parities(dtype: str) -> Any:
    """The last word of bits that rows have an odd number of times; of floats, sums."""

    @rd.algorithm(a=f"{dtype}[n, 300]")
    def folded(a: rd.Array) -> rd.Array:
        if dtype == "bool":
            return rd.any(a, axis=1, name="s")
        op, neutral = (rd.add, 0.0) if dtype[0] in "fb" else (rd.bitwise_xor, 0)
        return rd.reduce(op, neutral, a, axis=1, name="s")

    return folded


def both_ways(algorithm: Any, target: Any = "vulkan") -> tuple[Any, Any]:
    """The program by its default schedule, whose threads exchange values, and the same through shared memory alone."""
    text, said = str(algorithm.schedule(target=target).complete()), f", subgroup={validated_device().exchange}"
    assert said in text
    made = []
    for each in (text, text.replace(said, "")):
        exec(each, names := {algorithm.name: algorithm})
        made.append(algorithm.compile(target, schedule=names["s"]))
    return made[0], made[1]


@pytest.mark.parametrize("dtype", ("bool", "i8", "u16", "i32", "u64", "f16", "bf16", "f32", "f64"))
def test_parts_of_every_type_have_the_bits_of_shared_memory(dtype: str, validated: None) -> None:
    rng = np.random.default_rng(3)
    exchanging, shared = both_ways(parities(dtype))
    kind = getattr(rd, dtype + "_" * (dtype == "bool")).numpy
    values = rng.random((5, 300)) - 0.5 if dtype[0] == "f" or dtype == "bf16" else rng.integers(0, 2, (5, 300)) * 93
    a = values.astype(kind)
    assert "Shuffle" in exchanging.source("spirv") and "Shuffle" not in shared.source("spirv")
    np.testing.assert_array_equal(exchanging(a).view(f"u{a.itemsize}"), shared(a).view(f"u{a.itemsize}"))


def test_neighbours_are_combined_in_order(validated: None) -> None:
    exchanging, shared = both_ways(lowest)
    assert "Shuffle" in exchanging.source("spirv")
    for n in (1, 7, 8, 300, 20_001):
        a = np.random.default_rng(n).integers(0, 50, n).astype("f4")
        assert exchanging(a) == shared(a) == a.argmin()


@rd.algorithm(a="i64[n]", b="i64[n]")
def recurrence(a: rd.Array, b: rd.Array) -> rd.Array:
    """x[i] = a[i] * x[i − 1] + b[i]: the order matters."""
    return rd.scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (1, 0), a, b, name="s")[1]


@pytest.mark.parametrize("threads", (8, 64, 256))
def test_prefixes_are_collected_in_order(threads: int, validated: None) -> None:
    s = recurrence.schedule(target="vulkan")
    s["s"].strategy("three_phase", block=4 * threads).split("xi", 4).bind("xo", "block.x")
    s["s"].bind("xio", "thread.x", subgroup=validated_device().exchange)
    executable = recurrence.compile("vulkan", schedule=s)
    assert "ShuffleUp" in executable.source("spirv")
    for n in (1, 100, 5000):
        a, b = np.random.default_rng(n).integers(-3, 3, (2, n))
        np.testing.assert_array_equal(executable(a, b), recurrence.interpret(a, b))


def test_a_device_without_exchange_takes_shared_memory_and_refuses_subgroups() -> None:
    anywhere = Target("vulkan", device="any")
    assert "subgroup" not in str(row_sums.schedule(target=anywhere).complete())
    s = row_sums.schedule(target=anywhere)["s"].split("r", 32).reorder("x", "ri", "ro")
    with pytest.raises(ScheduleError, match="on this device no threads can exchange values"):
        s.bind("ri", "thread.x", subgroup=8)


def test_a_library_for_subgroups_of_another_size_is_refused(validated: None, tmp_path: Path) -> None:
    executable = row_sums.compile("vulkan")
    other = {name: replace(kernel, subgroup=64) for name, kernel in executable.code.kernels.items()}
    program = (executable.signature.name, executable.signature, replace(executable.code, kernels=other))
    path = export.write_library(tmp_path / "libsums.so", [program])
    width = validated_device().subgroup
    with pytest.raises(TargetError, match=f"has subgroups of {width} threads, and the library is for those of 64"):
        export.load(path)(np.ones((3, 300), "f4"))
