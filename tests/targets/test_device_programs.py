"""Whole programs on a Vulkan device under the validation layer: the corpus, faults, sizes that data decides, the code as bytes."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vulkan_devices import validated_device

sys.path.append(str(Path(__file__).resolve().parent.parent / "algo"))
from corpus import CASES, Case
from test_corpus import check

import raido as rd
from raido.algo.errors import ArithmeticFault, IndexOutOfRange, SizeMismatch, TargetError
from raido.targets.cache import Cache
from raido.targets.compile import compile_program
from raido.targets.devices.code import DeviceCode
from raido.targets.devices.compile import DeviceCompilation
from raido.targets.target import Target
from raido.targets.vulkan.compile import VulkanCompilation
from raido.targets.vulkan.library import validation_messages
from raido.targets.vulkan.opened import open_device

PROGRAMS: dict[str, list[Case]] = {}
for case in CASES:
    PROGRAMS.setdefault(case.algorithm.name, []).append(case)


@pytest.fixture(scope="module", autouse=True)
def validated() -> Iterator[None]:
    validated_device()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAIDO_VULKAN_VALIDATE", "1")
        yield
    assert validation_messages() == (0, "")


def compiled(algorithm: Any) -> Any:
    return algorithm.compile("vulkan")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_what_numpy_gives(name: str) -> None:
    executable = compiled(PROGRAMS[name][0].algorithm)
    for case in PROGRAMS[name]:
        check(executable(*case.arguments), case.expected, case.close)


@rd.algorithm(a="f32[n]", index="i64[m]")
def gathered(a: rd.Array, index: rd.Array) -> rd.Array:
    return a[index] * 2


@rd.algorithm(a="i32[n]", b="i32[n]")
def divided(a: rd.Array, b: rd.Array) -> rd.Array:
    return a // b


@rd.algorithm(a="f32[n]")
def positive(a: rd.Array) -> rd.Array:
    return rd.filter(lambda x: x > 0, a)


def test_a_wrong_index_names_the_line_and_later_calls_are_well() -> None:
    executable = compiled(gathered)
    a = np.arange(5, dtype=np.float32)
    with pytest.raises(
        IndexOutOfRange, match=r"index 7 is out of range for dimension 0 of size 5(?s:.)*test_device_programs"
    ):
        executable(a, np.array([0, 7, 1]))
    np.testing.assert_array_equal(executable(a, np.array([4, 0])), np.float32([8, 0]))
    with pytest.raises(ArithmeticFault, match="integer division of 3 by zero"):
        compiled(divided)(np.int32([3, 3]), np.int32([1, 0]))
    with pytest.raises(SizeMismatch):
        compiled(divided)(np.int32([3, 3]), np.int32([1]))


def test_sizes_that_data_decides() -> None:
    executable = compiled(positive)
    for n in (0, 1, 3000):
        a = np.random.default_rng(n).standard_normal(n).astype(np.float32)
        np.testing.assert_array_equal(executable(a), a[a > 0])


def test_threads_call_one_executable() -> None:
    executable, wrong = compiled(positive), []

    def call(seed: int) -> None:
        for n in range(5):
            a = np.random.default_rng(seed + n).standard_normal(500 * n + seed).astype(np.float32)
            if not np.array_equal(executable(a), a[a > 0]):
                wrong.append((seed, n))

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_sources_times_and_what_is_no_source() -> None:
    executable = compiled(gathered)
    a, index = np.ones(1000, np.float32), np.arange(1000)
    timing = executable.time(a, index, repeat=3)
    assert len(timing.runs) == 3 and timing.min > 0
    copied = open_device().copy_speed
    assert copied and timing.share == timing.bandwidth / copied and "of a copy's" in repr(timing)
    assert "OpEntryPoint" in executable.source("spirv") and "launch_thread" in executable.source("tir")
    with pytest.raises(TargetError, match='there is no source of kind "asm"; there is: "schedule"'):
        executable.source("asm")
    assert repr(executable) == "<Executable gathered(a: f32[n], index: i64[m]) -> f32[m]>"


def test_programs_survive_as_bytes_and_damage_is_said() -> None:
    executable = compiled(gathered)
    data = executable.code.to_bytes()
    assert DeviceCode.from_bytes(data).to_bytes() == data
    for damaged in (b"", data[:-1], data[10:], data.replace(b'"format":2', b'"format":1')):
        with pytest.raises(TargetError, match="device program"):
            DeviceCode.from_bytes(damaged)
    again = pickle.loads(pickle.dumps(executable))
    np.testing.assert_array_equal(again(np.float32([1, 2]), np.array([1])), np.float32([4]))


@rd.algorithm(a="i32[n]", m="size")
def walk(a: rd.Array, m: rd.Size) -> rd.Array:
    return rd.map(lambda x: rd.loop(m, lambda i, s: s * 3 + 1, x), a)


@rd.algorithm(a="i32[n]")
def round_and_round(a: rd.Array) -> rd.Array:
    return rd.map(lambda x: rd.while_loop(lambda s: s >= 0, lambda s: (s + 1) % 7, x), a)


@rd.algorithm(a="i32[n]")
def down(a: rd.Array) -> rd.Array:
    return rd.map(lambda x: rd.while_loop(lambda s: s > 0, lambda s: s - 1, x), a)


def test_loops_that_the_device_ends_by_itself_are_said() -> None:
    """lavapipe ends the loops of a thread after 65,535 iterations; a device that does not makes all of them."""
    a = np.arange(8, dtype=np.int32)
    executable = compiled(walk)
    np.testing.assert_array_equal(executable(a, 500), walk(a, 500))
    iterations = open_device().device.iterations
    if iterations:
        with pytest.raises(
            TargetError,
            match=f"a loop was stopped after {iterations} iterations of one thread(?s:.)*try .*leaves a thread less",
        ):
            executable(a, iterations + 1)
        with pytest.raises(TargetError, match="a loop was stopped"):
            compiled(round_and_round)(a)
        falls = compiled(down)
        np.testing.assert_array_equal(falls(np.int32([3, 0, iterations - 3])), 0)
        with pytest.raises(TargetError, match=f"a loop was stopped after {iterations - 2} iterations of one thread"):
            falls(np.int32([3, 0, iterations]))
    np.testing.assert_array_equal(executable(a, 501), walk(a, 501))


@rd.algorithm(a="f32[n, 2]")
def with_zeros(a: rd.Array) -> tuple[rd.Array, ...]:
    zero, minus = rd.f32(0.0), rd.f32(-0.0)
    x = a[:, 0]
    unrolled = rd.map(lambda row: rd.tabulate((2,), lambda i: row[i] / rd.f32(i)), a)
    folded = rd.map(lambda row: rd.tabulate((2,), lambda i: rd.f32(i) * rd.f32(i) - row[i]), a)
    started = rd.map(lambda row: rd.sum(rd.rint(row[rd.i64(rd.isnan(row[0])) : 1])), a)
    short = (x.astype(rd.bf16) + 0.0).astype(rd.f32)  # whose literal becomes an f32 by its bits
    return (
        x + zero,
        x - minus,
        x * zero,
        x * minus,
        x / zero,
        x / minus,
        zero / x,
        minus / x,
        x - x,
        zero - x,
        minus + x,
        unrolled,
        folded,
        started,
        short,
    )


def test_arithmetic_with_zero_keeps_signs_infinities_and_nan() -> None:
    """Compilers of devices take x · 0 for 0, and x / 0 for anything, wherever they see the zero."""
    special = np.float32([1, -2, np.inf, -np.inf, 0, -0.0, np.nan])
    a = np.stack([special, special[::-1]], 1)
    for k, (got, want) in enumerate(zip(compiled(with_zeros)(a), with_zeros.interpret(a), strict=True)):
        same = ((got == want) & (np.signbit(got) == np.signbit(want))) | (np.isnan(got) & np.isnan(want))
        assert same.all(), (k, got, want)


@pytest.mark.parametrize("dtype", [rd.f16, rd.bf16, rd.f32, rd.f64], ids=str)
def test_zeros_that_a_condition_chooses_keep_signs_infinities_and_nan(dtype: Any) -> None:
    """The compiler of a device sees through a condition that never holds, and then a factor of 0."""

    def chosen(x: rd.Array) -> tuple[rd.Array, ...]:
        never = (x >= x) ^ (x >= x)
        wide = dtype(rd.i32(never))
        return (
            dtype(never) * x,
            wide * x,
            rd.where(never, dtype(1), dtype(0)) * x,
            rd.where(abs(x) < 0, x, dtype(0)) * x,
        )

    program = rd.algorithm(lambda a: rd.map(chosen, a), a=f"{dtype}[n]")
    a = np.array([1, -2, np.inf, -np.inf, 0, -0.0, np.nan]).astype(dtype.numpy)
    for k, pair in enumerate(zip(compiled(program)(a), program.interpret(a), strict=True)):
        got, want = (np.asarray(each).astype("f8") for each in pair)
        same = ((got == want) & (np.signbit(got) == np.signbit(want))) | (np.isnan(got) & np.isnan(want))
        assert same.all(), (k, got, want)


def test_kept_code_is_called_without_making_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, cache = gathered.trace(), Cache(tmp_path / "cache")
    compile_program(program, "vulkan", cache=cache)
    monkeypatch.setattr(DeviceCompilation, "nest", property(lambda self: pytest.fail("a nest was made")))
    kept = compile_program(program, "vulkan", cache=cache)
    np.testing.assert_array_equal(kept(np.float32([1, 2, 3]), np.array([2, 0])), np.float32([6, 2]))
    with pytest.raises(IndexOutOfRange, match=r"index 3 is out of range(?s:.)*test_device_programs.py.*a\[index\]"):
        kept(np.float32([1, 2, 3]), np.array([3]))


@rd.algorithm
def whole_sum(a: rd.f32["n"]):
    return rd.sum(a)


@rd.algorithm
def product(a: rd.f32["n", "k"], b: rd.f32["k", "m"]):
    return a @ b


def test_loops_that_no_array_makes_long_need_no_record() -> None:
    """Those over the chunks of a sum: arrays that the device holds are not so long. The rows of a product may be."""
    ends = VulkanCompilation(whole_sum.trace(), Target("vulkan"), None, {})
    assert not ends.code.fault
    assert bool(VulkanCompilation(product.trace(), Target("vulkan"), None, {}).code.fault) == bool(ends.iterations)
