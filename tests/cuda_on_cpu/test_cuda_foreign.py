"""Arrays and streams of other libraries on CUDA, over the driver without a GPU: no copies, the order of streams, lifetimes, refusals."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from fake_driver import FakeDriver, load_driver
from other_library import DLPackArray, OtherArray, OtherLibrary
from twin_compiler import twin_compiler

import raido as rd
from raido.algo.errors import ArgumentError
from raido.targets.compile import executable_of
from raido.targets.cuda import runtime
from raido.targets.cuda.foreign import _Tensor
from raido.targets.cuda.opened import open_device
from raido.targets.cuda.program import CudaCompilation
from raido.targets.cuda.runtime import CudaDevice
from raido.targets.devices import executable
from raido.targets.target import Target


@rd.algorithm(a="f32[n]", b="f32[n]")
def added(a: rd.Array, b: rd.Array) -> rd.Array:
    return a + b


@rd.algorithm(a="f32[n]")
def faded(a: rd.Array) -> rd.Array:
    return rd.loop(400, lambda t, x: rd.stencil(lambda p: (p[-1] + p[1]) / 2, x, boundary="clamp"), a)


A = np.arange(40, dtype="f4")


@pytest.fixture(scope="module")
def driver() -> Iterator[FakeDriver]:
    driver = load_driver()
    yield driver
    open_device().close()


@pytest.fixture
def device(driver: FakeDriver) -> CudaDevice:
    return open_device(0)


@pytest.fixture
def library(driver: FakeDriver) -> Iterator[OtherLibrary]:
    library = OtherLibrary(driver)
    yield library
    gc.collect()
    open_device(0).finish()
    library.close()


@pytest.fixture(scope="module")
def executables(driver: FakeDriver) -> Iterator[dict[str, Any]]:
    with twin_compiler(driver) as compiler:
        target = Target("cuda", arch="sm_90")
        found = {f.name: executable_of(CudaCompilation(f.trace(), target, None, {})) for f in (added, faded)}
        compiler.build()
        yield found


@pytest.fixture
def add(executables: dict[str, Any]) -> Any:
    return executables["added"]


def test_arrays_of_other_libraries_are_arguments_where_they_are(add: Any, library: OtherLibrary) -> None:
    """Neither library waits on the CPU: both streams run when the result is read."""
    a, b = library.copy(A), DLPackArray(library.copy(2 * A))
    result = add(a, b)
    assert isinstance(result, rd.DeviceArray) and result.device == "cuda:0"
    np.testing.assert_array_equal(np.asarray(result), 3 * A)
    np.testing.assert_array_equal(add(a, DLPackArray(library.copy(A), versioned=False)).to("cpu"), 2 * A)


def test_a_library_that_goes_on_waits_for_the_call(add: Any, library: OtherLibrary) -> None:
    """Its stream changes an argument at once behind the call, which has not run yet."""
    a = library.copy(A)
    result = add(a, a)
    a.write(-A)
    np.testing.assert_array_equal(a.read(), -A)
    np.testing.assert_array_equal(result.to("cpu"), 2 * A)


def test_results_go_where_out_says(add: Any, library: OtherLibrary) -> None:
    a, out = library.copy(A), library.copy(0 * A)
    add(a, a, out=out)
    np.testing.assert_array_equal(out.read(), 2 * A)
    add(out, a, out=out)  # an argument, too: it is read before it is changed
    np.testing.assert_array_equal(out.read(), 3 * A)
    out.described = {"data": (out.address, True)}
    with pytest.raises(ArgumentError, match=r"out for .* is read-only"):
        add(a, a, out=out)


def test_a_stream_of_the_caller_is_ordered_with_the_call(add: Any, library: OtherLibrary, device: CudaDevice) -> None:
    """DLPack's producer is asked for raido's stream; the caller's is one that raido learns of by `stream=` alone."""
    late = library.copy(A)
    late.described = {"stream": None}
    handles = (
        library.stream,
        SimpleNamespace(ptr=library.stream),
        SimpleNamespace(cuda_stream=library.stream),
        SimpleNamespace(__cuda_stream__=lambda: (0, library.stream)),
    )
    for k, stream in enumerate(handles):
        late.write(k * A)
        out = add(late, A, out=rd.device_array(A, "cuda"), stream=stream)
        late.write(-A)
        np.testing.assert_array_equal(library.read(device.share(out.memory), A), (k + 1) * A)
        np.testing.assert_array_equal(late.read(), -A)
    shown = DLPackArray(library.copy(A))
    add(shown, A)
    assert shown.asked == [device.stream]


@pytest.mark.parametrize("stream", [True, "main", -3, 1.5, object()])
def test_what_is_no_stream_is_refused(add: Any, stream: Any) -> None:
    with pytest.raises(ArgumentError, match=r"which is no stream of CUDA\n  takes     a handle, or a stream of CuPy"):
        add(A, A, stream=stream)


def test_a_handle_of_no_stream_is_one_error(add: Any, driver: FakeDriver) -> None:
    with pytest.raises(rd.TargetError, match=r"0x1234 is not a stream of Imagined GPU 0"):
        add(A, A, stream=0x1234)


def test_arrays_of_raido_are_taken_by_other_libraries(add: Any, library: OtherLibrary, device: CudaDevice) -> None:
    """By both protocols the address is that of the array, and a stream of the consumer waits for what computes it."""
    result = add(rd.device_array(A, "cuda"), A)
    shown = result.__cuda_array_interface__
    assert (shown["shape"], shown["typestr"], shown["strides"], shown["version"]) == ((40,), "<f4", None, 3)
    assert shown["stream"] == device.stream and shown["data"][0] == device.share(result.memory)
    for version in (None, (1, 0)):
        capsule = result.__dlpack__(stream=library.stream, max_version=version)
        tensor = tensor_of(capsule)
        assert (tensor.kind, tensor.index, tensor.ndim, tensor.shape[0]) == (2, 0, 1, 40)
        assert (tensor.code, tensor.bits, tensor.lanes) == (2, 32, 1)
        np.testing.assert_array_equal(library.read(tensor.data, A), 2 * A)
    assert result.__dlpack_device__() == (2, 0)
    assert tensor_of(result.__dlpack__(copy=True)).data != shown["data"][0]
    np.testing.assert_array_equal(np.from_dlpack(result, device="cpu"), 2 * A)
    with pytest.raises(BufferError, match=r"cannot be shared"):
        result.__dlpack__(dl_device=(2, 1))


def test_bf16_goes_by_dlpack(library: OtherLibrary) -> None:
    there = rd.device_array(np.array([1, 2], ml_dtypes.bfloat16), "cuda")
    capsule = there.__dlpack__()
    assert (tensor_of(capsule).code, tensor_of(capsule).bits) == (4, 16)
    again = rd.from_dlpack(SimpleNamespace(__dlpack_device__=there.__dlpack_device__, __dlpack__=there.__dlpack__))
    assert again.dtype == ml_dtypes.bfloat16 and again.to("cpu").tolist() == [1, 2]
    assert not hasattr(there, "__cuda_array_interface__")


def tensor_of(capsule: Any) -> Any:
    from raido.algo.trace.foreign import TENSOR_OFFSETS, capsule_content

    name, content = capsule_content(capsule)
    return _Tensor.from_address(content + TENSOR_OFFSETS[name])


def test_memory_that_was_handed_over_is_used_again_after_a_wait_alone(driver: FakeDriver) -> None:
    """A library may use it in any of its streams when raido's last reference goes."""
    waits, big = driver.count("waits for all"), 2 << 20
    with CudaDevice(open_device(0).device, memory=16 << 20) as device:

        def shared() -> rd.DeviceArray:
            from raido.targets.devices.array import upload

            array = upload(np.zeros(big, "u1"), device)
            array.__dlpack__(stream=-1)
            return array

        shared()
        del_capsules = shared()
        assert device.taken == 2 * big and driver.count("waits for all") == waits
        del del_capsules
        shared()  # an eighth of the memory would be waiting: that is waited for
        assert device.taken == 2 * big and driver.count("waits for all") == waits + 1


def test_an_array_is_held_until_what_uses_it_has_run(add: Any, library: OtherLibrary, device: CudaDevice) -> None:
    device.finish()
    a = library.copy(A)
    gone = weakref.ref(a)
    result = add(a, a)
    del a
    gc.collect()
    assert gone() is not None
    result.synchronize()
    assert gone() is None
    np.testing.assert_array_equal(np.asarray(result), 2 * A)


def test_an_array_is_held_where_no_event_can_be_made(
    add: Any, library: OtherLibrary, device: CudaDevice, driver: FakeDriver
) -> None:
    """An array is freed when all kernels that use it have run."""
    a, out = library.copy(A), library.copy(0 * A)
    add(a, A, out=out)  # which makes the event that orders streams
    out.write(A)
    seen: list[np.ndarray] = []
    elements = (ctypes.c_float * 40).from_address(out.address)
    weakref.finalize(a, lambda: seen.append(np.array(elements)))
    driver.set(fail_event=1)
    try:
        add(a, A, out=out)
        del a
        gc.collect()
    finally:
        driver.set(fail_event=0)
    device.finish()
    np.testing.assert_array_equal(seen, [2 * A])


def test_arrays_outlive_a_device_whose_kernels_do_not_end(
    add: Any, library: OtherLibrary, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "_LAST_WAIT", 1_000_000)
    device, a = CudaDevice(open_device(0).device), library.copy(A)
    gone, there = weakref.ref(a), device.adopt(a, [])
    there.memory.copy_from(there.memory, 4)
    driver.set(endless=1)
    try:
        del a, there
        device.close()
    finally:
        driver.set(endless=0)
    gc.collect()
    assert gone() is not None and not device.is_open


def test_a_call_that_fails_is_ordered_with_later_work_all_the_same(
    add: Any, library: OtherLibrary, device: CudaDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Launches before a failure must not write to `out` behind the library's own work."""

    def fail(*arguments: Any, **named: Any) -> Any:
        run_and_keep(*arguments, **named)
        raise MemoryError("none is left")

    run_and_keep = executable.run_and_keep
    monkeypatch.setattr(executable, "run_and_keep", fail)
    a, out = library.copy(A), library.copy(0 * A)
    with pytest.raises(MemoryError, match="added: none is left"):
        add(a, a, out=out)
    out.write(-A)
    np.testing.assert_array_equal(out.read(), -A)
    device.finish()
    np.testing.assert_array_equal(out.read(), -A)


def test_read_only_memory_is_handed_on_as_such(add: Any, library: OtherLibrary) -> None:
    there = rd.from_dlpack(changed(library.copy(A), data=(library.blocks[-1], True)))
    assert there.__cuda_array_interface__["data"] == (library.blocks[-1], True)
    with pytest.raises(BufferError, match="readonly"):
        there.__dlpack__()
    again = rd.from_dlpack(SimpleNamespace(__dlpack_device__=there.__dlpack_device__, __dlpack__=there.__dlpack__))
    with pytest.raises(ArgumentError, match="is read-only"):
        add(A, A, out=again)


def test_work_that_is_recorded_as_a_graph_is_refused(add: Any, library: OtherLibrary, device: CudaDevice) -> None:
    """Of the caller's stream, or of raido's, which a library has ordered behind one that is recorded."""
    a, shown, graph = library.copy(A), DLPackArray(library.copy(A)), ctypes.c_void_p()
    for stream, argument in ((library.stream, a), (device.stream, shown)):
        with library.current():
            library.call.cuStreamBeginCapture_v2(ctypes.c_void_p(stream), 1)
        with pytest.raises((ArgumentError, rd.TargetError), match="a stream is being recorded as a CUDA graph"):
            add(argument, A)
        library.call.cuStreamEndCapture(ctypes.c_void_p(stream), ctypes.byref(graph))
        library.call.cuGraphDestroy(graph)
    np.testing.assert_array_equal(add(a, shown).to("cpu"), 2 * A)


def test_from_dlpack_shares_the_memory(add: Any, library: OtherLibrary) -> None:
    other = library.copy(A)
    there = rd.from_dlpack(DLPackArray(other))
    assert (there.shape, there.dtype, there.device) == ((40,), np.float32, "cuda:0")
    assert rd.from_dlpack(there) is there
    add(there, A, out=there)
    there.synchronize()
    np.testing.assert_array_equal(other.read(), 2 * A)
    copied = rd.device_array(other, "cuda")
    other.write(A)
    np.testing.assert_array_equal(copied.to("cpu"), 2 * A)
    with pytest.raises(ArgumentError, match=r"rd.from_dlpack takes an array on a CUDA device, and not a ndarray"):
        rd.from_dlpack(A)


def changed(array: OtherArray, **described: Any) -> OtherArray:
    array.described = described
    return array


def test_what_cannot_be_taken_is_one_clear_error(add: Any, library: OtherLibrary, driver: FakeDriver) -> None:
    a = library.copy(A)
    host = np.zeros(40, "f4")
    other = OtherLibrary(driver, 1)
    elsewhere = other.copy(A)
    cases = (
        (
            changed(library.copy(A), strides=(8,), shape=(20,)),
            r"its strides are \(2,\) elements, and arrays of a device are dense",
        ),
        (changed(library.copy(A), strides=(6,)), r"its strides are \(6,\) bytes, and no multiples of an element's"),
        (changed(library.copy(A), typestr=">f4"), "its dtype is >f4, which raido does not have in native byte order"),
        (changed(library.copy(A), data=(a.address + 4, False)), "is not a multiple of 16 bytes"),
        (changed(library.copy(A), data=(host.ctypes.data & -64, False)), "is not in the memory of a CUDA device"),
        (changed(library.copy(A), mask=object()), "it is a masked array"),
        (changed(library.copy(A), data=None), "its __cuda_array_interface__ cannot be read"),
        (changed(elsewhere, stream=None), "it is on cuda:1, and the program runs on cuda:0"),
        (DLPackArray(elsewhere), "it is on cuda:1, and the program runs on cuda:0"),
        (DLPackArray(library.copy(A), kind=7), "it is on vulkan:0; copy it to the CPU first"),
        (library.copy(A.astype("f8")), "float64"),
    )
    for argument, message in cases:
        with pytest.raises(ArgumentError, match=message):
            add(argument, A)
    with pytest.raises(ArgumentError, match=r"(?s)out for .*is not a multiple of 16 bytes"):
        add(A, A, out=changed(library.copy(A), data=(a.address + 4, False)))
    other.close()


def test_a_cpu_program_says_where_an_array_is(library: OtherLibrary) -> None:
    with pytest.raises(ArgumentError, match=r"it is on cuda:0; copy it to the CPU first"):
        added.interpret(DLPackArray(library.copy(A)), A)


def test_an_algorithm_runs_where_its_arguments_are(
    executables: dict[str, Any], library: OtherLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []

    def executable(self: Any, program: Any, target: str | None = None) -> Any:
        asked.append(target)
        return executables["added"]

    monkeypatch.setattr(type(added), "executable", executable)
    np.testing.assert_array_equal(added(A, DLPackArray(library.copy(A))).to("cpu"), 2 * A)
    np.testing.assert_array_equal(added(library.copy(A), A).to("cpu"), 2 * A)
    assert asked == ["cuda:0", "cuda"]


def test_loops_of_equal_launches_are_recorded(executables: dict[str, Any], driver: FakeDriver) -> None:
    names = ("launches", "graph launches", "graphs")
    begun = [driver.count(name) for name in names]
    result = executables["faded"](A)
    launched, replayed, alive = (driver.count(name) - k for name, k in zip(names, begun, strict=True))
    np.testing.assert_array_equal(result, faded.interpret(A))
    assert launched < 100 and replayed > 4 and alive == 0
