"""Kernels on a Vulkan device, without a message of the validation layer: NumPy's results, bit for bit."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import hand_made_kernels as kernels
import numpy as np
import pytest
from kernel_vocabulary import Case, at, blocks, integer, kernel, native, put, when
from operands import operand_columns, same_bits
from vulkan_devices import validated_device

from raido.algo.errors import TargetError
from raido.algo.graph.dtypes import DType, bool_, f16, f32, f64, i8, i32, i64
from raido.algo.graph.primitives import PRIMITIVES, evaluate
from raido.targets.cache import Cache
from raido.targets.devices.runtime import LoadedKernel, Memory
from raido.targets.vulkan.device import Device
from raido.targets.vulkan.library import find_device, validation_messages
from raido.targets.vulkan.probe import examine
from raido.targets.vulkan.runtime import VulkanDevice
from raido.targets.vulkan.spirv.generate import generate_kernel

CASES = {case.name: case for case in kernels.cases()}
CHECKED = ("map_f32", "booleans", "laziness", "stencil", "tree_reduction", "histogram", "vectors_u8", "many_arguments")


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    yield validated_device()
    assert validation_messages() == (0, "")


@pytest.fixture(scope="module")
def opened(device: Device) -> Iterator[VulkanDevice]:
    with VulkanDevice(device, validate=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def opened_checked(device: Device) -> Iterator[VulkanDevice]:
    """With descriptors, robust access, and copies through staging memory."""
    with VulkanDevice(device, validate=True, checked=True, staging=True) as opened:
        yield opened


def load(device: VulkanDevice, function: Any, **options: Any) -> LoadedKernel:
    return LoadedKernel(device, generate_kernel(function, device.device, **options))


def upload(device: VulkanDevice, array: np.ndarray) -> Memory:
    made = Memory(device, array.nbytes)
    made.write(array)
    return made


def run(device: VulkanDevice, case: Case, **options: Any) -> None:
    arguments = [upload(device, a) if isinstance(a, np.ndarray) else a for a in case.arguments]
    load(device, case.function, **options).launch(case.grid, arguments)
    for k, expected in case.expected.items():
        result = arguments[k].read(np.empty_like(expected))
        assert result.tobytes() == expected.tobytes(), (case.name, k, np.flatnonzero(result != expected)[:8])


@pytest.mark.parametrize("name", list(CASES))
def test_results_are_numpys(opened: VulkanDevice, name: str) -> None:
    run(opened, CASES[name])


@pytest.mark.parametrize("name", CHECKED)
def test_results_by_descriptors_are_the_same(opened_checked: VulkanDevice, name: str) -> None:
    run(opened_checked, CASES[name], checked=True)


def operations_kernel(row: str, dtype: DType, target: DType, arity: int) -> Any:
    def make(x: Any, *given: Any) -> list[Any]:
        operands = [at(a, x.i) for a in given[:arity]]
        return [when(x.i < given[-1], put(given[arity], x.i, native(row, target, *operands)))]

    return kernel(row, (*[dtype] * arity, target, "int64"), make)


@pytest.mark.parametrize(
    "name, dtype, target",
    [
        *(
            ("exp", f32, f32),
            ("pow", f32, f32),
            ("floormod", f32, f32),
            ("minimum", f32, f32),
            ("fma", f32, f32),
            ("fma", f64, f64),
        ),
        *((name, dtype, dtype) for name in ("rint", "trunc", "floor", "ceil") for dtype in (f32, f64)),
        *(("cast", f32, i8), ("cast", f64, f16), ("add", f16, f16), ("sign", f64, f64), ("floordiv", i32, i32)),
        *(("truncrem", i8, i8), ("ipow", i64, i64), ("ctz", i64, i32), ("shr", i8, i8), ("minimum", bool_, bool_)),
    ],
    ids=str,
)
def test_primitives_have_the_bits_of_the_cpu(opened: VulkanDevice, name: str, dtype: DType, target: DType) -> None:
    """By native operations and recipes, whatever the device fuses."""
    examined = examine(opened.device, True)
    arity = PRIMITIVES[name].arity
    columns = operand_columns(dtype, arity)
    given = [upload(opened, column) for column in columns]
    result = np.empty(len(columns[0]), target.numpy)
    out = Memory(opened, result.nbytes)
    made = LoadedKernel(opened, generate_kernel(operations_kernel(name, dtype, target, arity), examined))
    made.launch(blocks(len(result)), [*given, out, len(result)])
    assert same_bits(out.read(result), evaluate(name, target, columns)).all()


def test_a_device_that_ends_loops_is_known(opened: VulkanDevice) -> None:
    """Nothing says so else: a longer loop has a wrong result."""
    examined = examine(opened.device, True)
    assert examined.iterations in (0, 65_535)
    assert examined.fused <= {32, 64}


def test_i32_is_compared_with_a_constant_in_64_bits(opened: VulkanDevice) -> None:
    """By the code for launches of any size."""
    values = np.array([0, 1, 2, 3, -5, 2**31 - 1, -(2**31)], "i4")

    def make(x: Any, a: Any, out: Any) -> list[Any]:
        wide = kernels.T.Cast("int64", at(a, x.i))
        return [when(x.i < len(values), put(out, x.i, kernels.T.Max(kernels.T.Min(wide, integer(2, "int64")), -wide)))]

    made = replace(generate_kernel(kernel("clamp", (i32, i64), make), opened.device), narrow=b"")
    out = Memory(opened, 8 * len(values))
    LoadedKernel(opened, made).launch((1, 1, 1), [upload(opened, values), out])
    wide = values.astype("i8")
    np.testing.assert_array_equal(out.read(np.empty_like(wide)), np.maximum(np.minimum(wide, 2), -wide))


def add_one(x: Any, a: Any, b: Any, n: Any) -> list[Any]:
    return [when(x.i < n, put(b, x.i, at(a, x.i) * 3 + 1))]


ADD_ONE = kernel("add_one", (i32, i32, "int64"), add_one)


def test_launches_follow_each_other_in_order(opened: VulkanDevice, opened_checked: VulkanDevice) -> None:
    """More of them than batches hold, over two arrays in turn, with copies between."""
    for device, checked in ((opened, False), (opened_checked, True)):
        n, count = 100, 300
        expected = np.arange(n, dtype="i4")
        step, arrays = load(device, ADD_ONE, checked=checked), [upload(device, expected), Memory(device, 4 * n)]
        third = Memory(device, 4 * n)
        for k in range(count):
            step.launch(blocks(n), [arrays[k % 2], arrays[1 - k % 2], n])
            expected = expected * np.int32(3) + np.int32(1)
            if k % 50 == 0:
                third.copy_from(arrays[1 - k % 2], 4 * n)
                arrays[k % 2].copy_from(third, 4 * n)
        np.testing.assert_array_equal(arrays[count % 2].read(np.empty(n, "i4")), expected)


def test_copies_of_any_size_and_place(opened: VulkanDevice, opened_checked: VulkanDevice) -> None:
    whole = np.arange(5_000_001, dtype="u1")  # two pieces of staging memory
    for device in (opened, opened_checked):
        there = upload(device, whole)
        there.write(np.full(5, 7, "u1"), offset=4_194_303)
        expected = whole.copy()
        expected[4_194_303:4_194_308] = 7
        np.testing.assert_array_equal(there.read(np.empty_like(whole)), expected)
        np.testing.assert_array_equal(there.read(np.empty(10, "u1"), offset=4_194_300), expected[4_194_300:4_194_310])
        Memory(device, 0).write(np.zeros(0))
        with pytest.raises(TargetError, match="11 bytes at 4999991 are not inside of an array of 5000001 bytes"):
            there.read(np.empty(11, "u1"), offset=4_999_991)


def test_memory_is_used_again(device: Device) -> None:
    """However often arrays come and go, and with work recorded on them; large ones are given back when they are in the way."""
    with VulkanDevice(device, validate=True, memory=64 << 20) as opened:
        step = load(opened, ADD_ONE)
        for _ in range(20):
            a, b = Memory(opened, 8 << 20), Memory(opened, 8 << 20)
            step.launch((1, 1, 1), [a, b, 64])
            del a, b
        taken = opened.taken
        assert taken <= 64 << 20
        kept = [Memory(opened, size << 20) for size in (9, 11, 13)]  # other sizes: what is free must go
        assert opened.taken <= 64 << 20
        with pytest.raises(MemoryError, match=r"has no 41943040 bytes left: \d+ of 67108864 are taken"):
            Memory(opened, 40 << 20)
        del kept
        Memory(opened, 40 << 20)
        opened.trim()
        assert opened.taken < 64 << 20


def test_an_array_beyond_the_device_is_one_error(opened: VulkanDevice) -> None:
    with pytest.raises(MemoryError, match=f"cannot hold an array of {1 << 50} bytes: its largest has"):
        Memory(opened, 1 << 50)


def test_accesses_beyond_a_descriptor_do_no_harm(opened_checked: VulkanDevice) -> None:
    beyond = kernel(
        "beyond", (i32, i32), lambda x, a, b: [put(b, x.i, at(a, x.i + (1 << 24))), put(b, x.i + (1 << 24), integer(9))]
    )
    a, b = upload(opened_checked, np.ones(64, "i4")), upload(opened_checked, np.ones(64, "i4"))
    load(opened_checked, beyond, checked=True).launch((1, 1, 1), [a, b])
    np.testing.assert_array_equal(b.read(np.empty(64, "i4")), np.zeros(64, "i4"))


def test_wrong_launches_are_refused(opened: VulkanDevice, opened_checked: VulkanDevice) -> None:
    step = load(opened, ADD_ONE)
    a = Memory(opened, 256)
    with pytest.raises(TargetError, match="kernel add_one takes 3 arguments, not 2"):
        step.launch((1, 1, 1), [a, a])
    with pytest.raises(TargetError, match="kernel add_one: 70000 blocks along y"):
        step.launch((1, 70_000, 1), [a, a, 0])
    with pytest.raises(TargetError, match="cannot be launched on -1 × 1 × 1 blocks"):
        step.launch((-1, 1, 1), [a, a, 0])
    with pytest.raises(TargetError, match="kernel add_one: array 1 is on another device"):
        step.launch((1, 1, 1), [a, Memory(opened_checked, 256), 0])
    step.launch((0, 1, 1), [a, a, 0])  # no blocks: nothing happens


def test_a_closed_device_says_so(device: Device) -> None:
    with VulkanDevice(device, validate=True) as opened:
        step, a = load(opened, ADD_ONE), Memory(opened, 256)
    for use in (lambda: a.write(np.zeros(4)), lambda: step.launch((1, 1, 1), [a, a, 0]), opened.finish):
        with pytest.raises(TargetError, match="has been closed"):
            use()


def test_devices_are_found_by_index_and_by_name(device: Device) -> None:
    assert find_device(device.index, True) == find_device(device.name[:6].upper(), True) == device
    with pytest.raises(TargetError, match="there is no Vulkan device number 99; there is: 0 "):
        find_device(99, True)
    with pytest.raises(TargetError, match='there is no Vulkan device called "voodoo"; there is: 0 '):
        find_device("voodoo", True)


def test_threads_share_a_device(opened: VulkanDevice) -> None:
    step, failures = load(opened, ADD_ONE), []

    def work(start: int) -> None:
        expected = np.arange(start, start + 50, dtype="i4")
        a, b = upload(opened, expected), Memory(opened, 200)
        for _ in range(20):
            step.launch(blocks(50), [a, b, 50])
            step.launch(blocks(50), [b, a, 50])
            expected = (expected * np.int32(3) + np.int32(1)) * np.int32(3) + np.int32(1)
            if not np.array_equal(a.read(np.empty(50, "i4")), expected):
                failures.append(start)

    workers = [threading.Thread(target=work, args=(1000 * k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_moments_give_times(opened: VulkanDevice) -> None:
    spin = kernel("spin", (i64, "int64"), lambda x, a, n: [_count(x, a, n)])
    there, loaded = Memory(opened, 8), load(opened, spin)
    loaded.launch((1, 1, 1), [there, 1])
    opened.finish()
    begun = time.perf_counter()
    start = opened.mark()
    loaded.launch((1, 1, 1), [there, 50_000])
    seconds = opened.elapsed(start, opened.mark())
    assert 0 < seconds <= time.perf_counter() - begun
    with pytest.raises(TargetError, match="moment 999 is not kept"):
        opened.elapsed(999, 0)


def _count(x: Any, a: Any, n: Any) -> Any:
    k = kernels.T.Var("k", "int64")
    body = put(a, integer(0, "int64"), at(a, integer(0, "int64")) * 3 + k)
    return when(x.t[0] < 1, kernels.T.For(k, integer(0, "int64"), n, kernels.T.ForKind.SERIAL, body))


def test_pipelines_are_kept_in_the_cache(device: Device, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for _ in range(2):
        with VulkanDevice(device, validate=True, cache=cache) as opened:
            run(opened, CASES["map_f32"])
    (entry,) = cache.entries()
    assert cache.describe(entry.key) == {"device": device.name, "driver": device.driver}


def test_a_machine_without_a_driver_is_one_error() -> None:
    """In a process of its own: the loader is asked once. `raido targets` lists what there is all the same."""
    script = """if True:
        import raido as rd
        from raido.targets.vulkan.library import find_device
        print(rd.targets()[-1])
        try:
            find_device()
        except rd.TargetError as error:
            print("one error:", error)
    """
    environment = {"PATH": "/usr/bin", "VK_ICD_FILENAMES": "/nowhere.json", "VK_DRIVER_FILES": "/nowhere.json"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    listed, error = done.stdout.splitlines()
    assert "available=False" in listed and error.startswith("one error: ") and "Vulkan" in error


def test_no_memory_is_left_behind(device: Device) -> None:
    """The layer reports whatever is alive when a device is closed; the fixture looks at its messages."""
    for _ in range(3):
        opened = VulkanDevice(device, validate=True)
        kept = [load(opened, CASES["stencil"].function), upload(opened, np.zeros(1 << 21)), Memory(opened, 100)]
        opened.close()
        del kept
