"""The C runtime for CUDA over a driver without a GPU: memory, launches, plans, times, and each failure as one clear error."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from ctypes import byref, c_void_p
from ctypes.util import find_library
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_twin import compile_twin
from fake_driver import FakeDriver, build_driver, load_driver
from kernel_vocabulary import at, atomic, barrier, blocks, kernel, memory, number, put, when

from raido.algo.errors import TargetError
from raido.algo.graph.dtypes import f32, f64, i32
from raido.targets import tvm_corner as T
from raido.targets.cuda.compile import kernels_of
from raido.targets.cuda.library import find_device
from raido.targets.cuda.runtime import CudaDevice
from raido.targets.cuda.source.generate import generate_source
from raido.targets.devices.kernel import Kernel
from raido.targets.devices.plan import (
    Allocate,
    Copy,
    Download,
    Free,
    If,
    Launch,
    Let,
    Loop,
    ReadBack,
    Swap,
    Upload,
    While,
    encode_plan,
    run_plan,
)
from raido.targets.devices.runtime import LoadedKernel, Memory


def blur(x: Any, a: Any, b: Any, n: Any) -> list[Any]:
    """b[i] = (a[i - 1] + a[i + 1]) / 2 with clamped ends."""
    clamp = lambda i: T.Max(T.Min(i, n - 1), T.IntImm("int64", 0))
    one = T.IntImm("int64", 1)
    return [when(x.i < n, put(b, x.i, (at(a, clamp(x.i - one)) + at(a, clamp(x.i + one))) / number(f32, 2.0)))]


def count_above(x: Any, a: Any, count: Any, limit: Any, n: Any) -> list[Any]:
    add = T.Evaluate(atomic("add", i32, at(count, T.IntImm("int32", 0)), T.IntImm("int32", 1)))
    return [when(x.i < n, when(limit < at(a, x.i), add))]


def turn_large(x: Any, a: Any) -> list[Any]:
    """Turns 64 numbers round, through more shared memory than a kernel may declare."""
    kept = memory("kept", f64, 8192, "shared")
    turned = at(kept, T.IntImm("int32", 63) - x.t[0])
    return [T.AllocBuffer(kept), put(kept, x.t[0], at(a, x.i)), barrier(), put(a, x.i, turned)]


SOURCE = generate_source(
    [
        kernel("blur", (f32, f32, "int64"), blur),
        kernel("count_above", (f32, i32, "float32", "int64"), count_above),
        kernel("add_one", (i32, i32, "int64"), lambda x, a, b, n: [when(x.i < n, put(b, x.i, at(a, x.i) * 3 + 1))]),
        kernel("turn_large", (f64,), turn_large),
    ]
)
BLOCKS = ("//", ("+", "n", 63), 64)
BYTES = ("*", "n", 4)
ALIVE = ("contexts", "streams", "blocks", "modules", "events")
USUAL = {
    "version": 13000,
    "capability": 90,
    "memory": 1 << 30,
    "fail_kernel": 0,
    "fail_load": 0,
    "start": 0,
    "endless": 0,
}


@pytest.fixture(scope="module")
def loaded_driver() -> FakeDriver:
    return load_driver()


@pytest.fixture
def driver(loaded_driver: FakeDriver) -> Iterator[FakeDriver]:
    """The driver as it is at first; when a test ends nothing more is alive in it."""
    loaded_driver.set(**USUAL, workers=2)
    begun = {name: loaded_driver.count(name) for name in ALIVE}  # libraries that are loaded keep their device
    yield loaded_driver
    loaded_driver.recover()
    assert {name: loaded_driver.count(name) for name in ALIVE} == begun


@pytest.fixture
def opened(driver: FakeDriver) -> Iterator[CudaDevice]:
    with CudaDevice(find_device()) as opened:
        yield opened


@pytest.fixture(scope="module")
def compiled() -> dict[str, Kernel]:
    return kernels_of(SOURCE, compile_twin(SOURCE))


def upload(device: CudaDevice, array: np.ndarray) -> Memory:
    made = Memory(device, array.nbytes)
    made.write(array)
    return made


def blurred(a: np.ndarray) -> np.ndarray:
    p = np.pad(a, 1, mode="edge")
    return (p[:-2] + p[2:]) / np.float32(2)


def test_devices_are_described(driver: FakeDriver) -> None:
    device = find_device("gpu 0")
    assert (device.name, device.architecture, device.driver) == ("Imagined GPU 0", "sm_90", "13.0")
    assert (device.threads, device.block, device.grid[0], device.shared) == (1024, (1024, 1024, 64), 2**31 - 1, 232448)
    assert "132 processors" in device.describe() and device.identity == "01" * 16
    assert find_device(1).name == "Imagined GPU 1"
    with pytest.raises(TargetError, match='no CUDA device number 7; there is: 0 "Imagined GPU 0", 1 "Imagined GPU 1"'):
        find_device(7)


def test_launches_follow_each_other_in_order(
    opened: CudaDevice, compiled: dict[str, Kernel], driver: FakeDriver
) -> None:
    """They run when somebody waits; kernels of one text share a module."""
    n, begun, loads = 100, driver.count("launches"), driver.count("loads")
    expected = np.arange(n, dtype="i4")
    step, other = LoadedKernel(opened, compiled["add_one"]), LoadedKernel(opened, compiled["blur"])
    arrays, third = [upload(opened, expected), Memory(opened, 4 * n)], Memory(opened, 4 * n)
    for k in range(30):
        step.launch(blocks(n), [arrays[k % 2], arrays[1 - k % 2], n])
        expected = expected * np.int32(3) + np.int32(1)
        if k % 10 == 0:
            third.copy_from(arrays[1 - k % 2], 4 * n)
            arrays[k % 2].copy_from(third, 4 * n)
    step.launch((0, 1, 1), [*arrays, n])  # no blocks: nothing happens
    np.testing.assert_array_equal(arrays[0].read(np.empty(n, "i4")), expected)
    assert driver.count("launches") - begun == 30 and driver.count("loads") - loads == 1
    del other


def test_a_plan_swaps_states_and_decides_by_what_the_device_counts(
    opened: CudaDevice, compiled: dict[str, Kernel]
) -> None:
    bits = int(np.float32(0.75).view(np.int32))
    plan = encode_plan(
        [
            *(Allocate("a", BYTES), Allocate("b", BYTES), Allocate("count", 4), Upload("a", "given", BYTES)),
            Loop("k", "times", (Launch("blur", (BLOCKS, 1, 1), ("a", "b", "n")), Swap("a", "b"))),
            *(Let("above", "n"), Let("steps", 0)),
            While(
                ("<", 10, "above"),
                (
                    Launch("blur", (BLOCKS, 1, 1), ("a", "b", "n")),
                    Copy("a", "b", BYTES),
                    Upload("count", "zero", 4),
                    Launch("count_above", (BLOCKS, 1, 1), ("a", "count", bits, "n")),
                    ReadBack("above", "count", i32),
                    Let("steps", ("+", "steps", 1)),
                ),
            ),
            If(("==", "above", 0), (Let("kind", 1),), (Let("kind", 2),)),
            *(Free("b"), Download("out", "a", BYTES)),
        ],
        compiled,
        ("n", "times"),
    )
    a = np.random.default_rng(4).random(300).astype("f4")
    arrays = {"given": a, "zero": np.zeros(1, "i4"), "out": np.zeros_like(a)}
    loaded = {name: LoadedKernel(opened, code) for name, code in compiled.items()}
    numbers = run_plan(plan, opened, loaded, numbers={"n": 300, "times": 3}, arrays=arrays)
    for _ in range(3):
        a = blurred(a)
    steps, above = 0, 300
    while above > 10:
        a, steps = blurred(a), steps + 1
        above = int((a > 0.75).sum())
    assert (numbers["steps"], numbers["above"], numbers["kind"]) == (steps, above, 2 if above else 1)
    np.testing.assert_array_equal(arrays["out"], a)


@pytest.mark.parametrize(("times", "recorded"), [(0, False), (1, False), (2, False), (200, False), (641, True)])
def test_equal_iterations_are_recorded_in_turns(
    opened: CudaDevice, compiled: dict[str, Kernel], driver: FakeDriver, times: int, recorded: bool
) -> None:
    """Three arrays change places in turn; memory for an iteration alone, and numbers that are the same each time, are no hindrance."""
    plan = encode_plan(
        [
            *(Allocate(name, BYTES) for name in "abc"),
            *(Upload(name, "given", BYTES) for name in "abc"),
            Loop(
                "k",
                "times",
                (
                    *(Let("blocks", BLOCKS), Allocate("d", BYTES)),
                    Loop(
                        "part",
                        "blocks",
                        (Launch("add_one", (("+", "blocks", ("*", 0, "part")), 1, 1), ("a", "d", "n")),),
                    ),
                    If(("<", "n", 0), (), (Copy("b", "d", BYTES),)),
                    *(Swap("a", "b"), Swap("b", "c"), Free("d")),
                ),
            ),
            *(Download(name, name, BYTES) for name in "abc"),
        ],
        compiled,
        ("n", "times"),
    )
    given, n = np.arange(70, dtype="i4"), 70
    states = dict.fromkeys("abc", given)
    for _ in range(times):
        states["b"] = states["a"] * np.int32(3) + np.int32(1)
        states["a"], states["b"] = states["b"], states["a"]
        states["b"], states["c"] = states["c"], states["b"]
    out = {name: np.zeros_like(given) for name in "abc"}
    loaded = {name: LoadedKernel(opened, code) for name, code in compiled.items()}
    begun = driver.count("graph launches")
    run_plan(plan, opened, loaded, numbers={"n": n, "times": times}, arrays={"given": given, **out})
    for name, state in states.items():
        np.testing.assert_array_equal(out[name], state)
    assert (driver.count("graph launches") > begun) == recorded and driver.count("graphs") == 0


def test_much_shared_memory_is_asked_of_the_driver(
    opened: CudaDevice, compiled: dict[str, Kernel], driver: FakeDriver
) -> None:
    asked, a = driver.count("attributes"), np.arange(64.0)
    there = upload(opened, a)
    LoadedKernel(opened, compiled["turn_large"]).launch((1, 1, 1), [there])
    np.testing.assert_array_equal(there.read(np.empty_like(a)), a[::-1])
    assert driver.count("attributes") == asked + 2  # for either code


def test_copies_stay_inside_of_arrays(opened: CudaDevice) -> None:
    whole = np.arange(1000, dtype="u1")
    there = upload(opened, whole)
    there.write(np.full(5, 7, "u1"), offset=990)
    np.testing.assert_array_equal(there.read(np.empty(10, "u1"), offset=985), [217, 218, 219, 220, 221, 7, 7, 7, 7, 7])
    Memory(opened, 0).write(np.zeros(0))
    with pytest.raises(TargetError, match="11 bytes at 990 are not inside of an array of 1000 bytes"):
        there.read(np.empty(11, "u1"), offset=990)


def test_memory_is_used_again_and_given_back(driver: FakeDriver) -> None:
    begun = driver.count("blocks")
    with CudaDevice(find_device(), memory=64 << 20) as opened:
        for _ in range(20):
            kept = [Memory(opened, 8 << 20), Memory(opened, 8 << 20)]
            del kept
        assert opened.taken == 16 << 20 and driver.count("blocks") - begun == 2
        kept = [Memory(opened, size << 20) for size in (24, 28)]  # what is kept is in the way
        assert opened.taken == 52 << 20
        with pytest.raises(MemoryError, match="has no 41943040 bytes left: 54525952 of 67108864 are taken"):
            Memory(opened, 40 << 20)
        with pytest.raises(MemoryError, match="cannot hold an array of 1125899906842624 bytes"):
            Memory(opened, 1 << 50)
        del kept
        opened.trim()
        assert opened.taken == driver.count("blocks") - begun == 0


def test_sizes_are_rounded_up_by_a_sixteenth_at_most(driver: FakeDriver) -> None:
    """Of 64 MiB three arrays have 21 MiB each."""
    with CudaDevice(find_device(), memory=64 << 20) as opened:
        for size in (21 << 20, (20 << 20) + 1):
            kept = [Memory(opened, size) for _ in range(3)]
            assert opened.taken == 63 << 20
            del kept


@pytest.mark.parametrize(("elements", "narrow"), [((1 << 31) - 1, 1), (1 << 31, 0)])
def test_narrow_code_is_for_arrays_of_fewer_than_2_31_elements(
    opened: CudaDevice, compiled: dict[str, Kernel], driver: FakeDriver, elements: int, narrow: int
) -> None:
    """Of four bytes each; only the first ones are there."""
    step, there, handle = (
        LoadedKernel(opened, compiled["add_one"]),
        upload(opened, np.arange(64, dtype="i4")),
        c_void_p(),
    )
    opened.check(opened.call.rd_cuda_adopt(opened.handle, opened.share(there), 4 * elements, byref(handle)))
    assert handle.value is not None
    long, out, begun = Memory.adopt(opened, handle.value), Memory(opened, 256), driver.count("narrow launches")
    step.launch(blocks(64), [long, out, 64])
    np.testing.assert_array_equal(out.read(np.empty(64, "i4")), 3 * np.arange(64) + 1)
    assert driver.count("narrow launches") - begun == narrow


def test_moments_give_times(opened: CudaDevice, compiled: dict[str, Kernel], driver: FakeDriver) -> None:
    step, a, b = LoadedKernel(opened, compiled["add_one"]), Memory(opened, 4000), Memory(opened, 4000)
    start, begun = opened.mark(), driver.count("events") - 1
    step.launch(blocks(1000), [a, b, 1000])
    assert 0 < opened.elapsed(start, opened.mark()) < 10
    for _ in range(70):
        last = opened.mark()
    assert driver.count("events") - begun == 64
    with pytest.raises(TargetError, match="moment 0 is not kept"):
        opened.elapsed(start, last)


def test_threads_share_a_device(opened: CudaDevice, compiled: dict[str, Kernel]) -> None:
    step, wrong = LoadedKernel(opened, compiled["add_one"]), []

    def work(start: int) -> None:
        expected = np.arange(start, start + 50, dtype="i4")
        a, b = upload(opened, expected), Memory(opened, 200)
        for _ in range(10):
            step.launch(blocks(50), [a, b, 50])
            step.launch(blocks(50), [b, a, 50])
            expected = (expected * np.int32(3) + np.int32(1)) * np.int32(3) + np.int32(1)
            if not np.array_equal(a.read(np.empty(50, "i4")), expected):
                wrong.append(start)

    workers = [threading.Thread(target=work, args=(1000 * k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_wrong_launches_are_refused(driver: FakeDriver, compiled: dict[str, Kernel]) -> None:
    with CudaDevice(find_device(0)) as first, CudaDevice(find_device(1)) as second:
        step, a, b = LoadedKernel(first, compiled["add_one"]), Memory(first, 256), Memory(second, 256)
        with pytest.raises(
            TargetError, match="kernel add_one: 70000 blocks along y, and Imagined GPU 0 takes at most 65535"
        ):
            step.launch((1, 70_000, 1), [a, a, 0])
        with pytest.raises(TargetError, match="kernel add_one: array 1 is on another device"):
            step.launch((1, 1, 1), [a, b, 0])
    with pytest.raises(TargetError, match="has been closed"):
        step.launch((1, 1, 1), [a, a, 0])


def test_a_kernel_that_no_block_of_the_device_holds_is_refused(opened: CudaDevice, compiled: dict[str, Kernel]) -> None:
    kernel, shared = compiled["add_one"], opened.device.shared
    message = f"kernel add_one: {1 << 20} bytes of shared memory, and Imagined GPU 0 has at most {shared} for a block"
    with pytest.raises(TargetError, match=message):
        LoadedKernel(opened, replace(kernel, shared_bytes=1 << 20))
    with pytest.raises(TargetError, match="a block of 2048 threads, and Imagined GPU 0 takes at most 1024"):
        LoadedKernel(opened, replace(kernel, block=(2048, 1, 1)))


def test_a_copy_from_another_device_is_refused(driver: FakeDriver) -> None:
    message = "a copy is between arrays of one device"
    with (
        CudaDevice(find_device(0)) as first,
        CudaDevice(find_device(1)) as second,
        pytest.raises(TargetError, match=message),
    ):
        Memory(first, 64).copy_from(Memory(second, 64), 64)


def test_code_for_another_architecture_is_refused(
    opened: CudaDevice, compiled: dict[str, Kernel], driver: FakeDriver
) -> None:
    driver.set(fail_load=209)
    message = "kernel blur: its code is for another architecture than that of Imagined GPU 0, sm_90"
    with pytest.raises(TargetError, match=message):
        LoadedKernel(opened, compiled["blur"])


def test_a_kernel_that_fails_ends_the_context_and_says_so(driver: FakeDriver, compiled: dict[str, Kernel]) -> None:
    """The driver reports it to whoever waits; from then on the device is lost."""
    with CudaDevice(find_device()) as opened:
        step, a = LoadedKernel(opened, compiled["add_one"]), Memory(opened, 256)
        driver.set(fail_kernel=700)
        step.launch((1, 1, 1), [a, a, 0])
        message = r"Imagined GPU 0 was lost while running a kernel: an illegal memory access was encountered \(700\); CUDA gives it back to"
        with pytest.raises(TargetError, match=message):
            opened.finish()
        for use in (lambda: a.write(np.zeros(4)), lambda: Memory(opened, 16), opened.finish, opened.trim):
            with pytest.raises(TargetError, match="was lost by an earlier call"):
                use()
        driver.recover()


def test_a_device_that_does_not_end_can_be_waited_for(opened: CudaDevice, driver: FakeDriver) -> None:
    driver.set(endless=1)
    assert opened.call.rd_device_finish(opened.handle, 2_000_000) == 1  # RD_BUSY
    driver.set(endless=0)
    opened.finish()


def run_apart(folder: Path, driver: bytes | None, **settings: int) -> str:
    """The words of the error when a kernel is loaded in a process of its own, whose driver is that one."""
    script = f"""if True:
        import ctypes
        if {driver is not None}:
            fake = ctypes.CDLL("{folder}/libcuda.so.1")
            for name, value in {settings}.items():
                fake.fake_set(name.encode(), ctypes.c_int64(value))
        from raido.targets.cuda.library import list_devices
        from raido.targets.cuda.runtime import CudaDevice
        from raido.targets.devices.kernel import Kernel
        from raido.targets.devices.runtime import LoadedKernel
        try:
            (first, *_) = list_devices()
            with CudaDevice(first) as device:
                LoadedKernel(device, Kernel("one", b"code", "addresses", (), 0, True, (1, 1, 1), 0))
        except Exception as error:
            print(type(error).__name__, error)
    """
    if driver is not None:
        (folder / "libcuda.so.1").write_bytes(driver)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout


def test_a_machine_without_a_driver_an_old_one_or_no_device_is_one_error(tmp_path: Path) -> None:
    fake = build_driver()
    old = "TargetError the CUDA driver is of version 11.8, and raido needs 12.0 or newer"
    for settings, message in (
        ({"version": 11080}, old),
        ({"start": 100}, "TargetError there is a CUDA driver on this machine, and no device"),
        ({"start": 803}, "TargetError the CUDA driver does not start: something failed (803)"),
        (
            {"version": 12040, "fail_load": 222},
            "TargetError kernel one: the driver of Imagined GPU 0, of CUDA 12.4, does not take its code: it needs 13.0 or newer",
        ),
    ):
        assert message in run_apart(tmp_path, fake, **settings)
    if find_library("cuda") is None:
        assert "TargetError there is no CUDA driver on this machine: libcuda.so.1" in run_apart(tmp_path, None)
