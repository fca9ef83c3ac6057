"""Arrays on a Vulkan device, under the validation layer: copies in both directions, calls with them, lifetimes, refusals."""

from __future__ import annotations

import contextlib
import copy
import doctest
import gc
import importlib
import os
import pickle
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from vulkan_devices import validated_device

import raido as rd
from raido.algo.errors import ArgumentError, SizeMismatch, TargetError
from raido.algo.graph.dtypes import DTYPES
from raido.targets.devices.arguments import bind_device_call
from raido.targets.devices.array import device_array, upload
from raido.targets.devices.runtime import Memory, OpenDevice
from raido.targets.signature import Existential, Signature, Value
from raido.targets.vulkan.library import validation_messages
from raido.targets.vulkan.opened import open_device
from raido.targets.vulkan.runtime import VulkanDevice


@pytest.fixture(scope="module")
def device() -> Iterator[OpenDevice]:
    validated_device()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAIDO_VULKAN_VALIDATE", "1")
        yield open_device()
    assert validation_messages() == (0, "")


def test_the_example_runs(device: OpenDevice) -> None:
    module = importlib.import_module(device_array.__module__)
    assert doctest.testmod(module, extraglobs={"rd": rd}) == doctest.TestResults(0, 4)


def test_arrays_come_back_as_they_went(device: OpenDevice) -> None:
    for dtype in (*(dtype.numpy for dtype in DTYPES), np.dtype("c8"), np.dtype("c16")):
        for shape in ((), (0,), (5,), (3, 0, 2), (2, 3, 4)):
            array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
            there = device_array(array, device.target)
            assert (there.shape, there.dtype, there.ndim, there.size, there.nbytes, there.device) == (
                *(array.shape, array.dtype, array.ndim, array.size, array.nbytes, "vulkan:0"),
            )
            back = there.to("cpu")
            assert back.dtype == dtype and back.shape == shape and back.tobytes() == array.tobytes()
    swapped = np.arange(6, dtype=">i4").reshape(2, 3).T
    np.testing.assert_array_equal(np.asarray(device_array(swapped)), swapped)
    np.testing.assert_array_equal(device_array(memoryview(b"abc")).to("cpu"), [97, 98, 99])


def test_copies_are_apart(device: OpenDevice) -> None:
    first = device_array([1, 2, 3])
    others = [
        first.to("vulkan:0"),
        copy.copy(first),
        copy.deepcopy(first),
        device_array(first, f"vulkan:{device.name[:4]}"),
    ]
    first.memory.write(np.zeros(3, int))
    assert [list(np.asarray(other)) for other in others] == [[1, 2, 3]] * 4
    assert first.to("cpu").tolist() == [0, 0, 0] and len(first) == 3
    assert repr(first) == "<DeviceArray int64[3] on vulkan:0>"


def test_other_libraries_get_a_copy_or_one_error(device: OpenDevice) -> None:
    there = device_array(np.arange(4.0))
    assert there.__dlpack_device__() == (7, 0)
    np.testing.assert_array_equal(np.from_dlpack(there, device="cpu"), np.arange(4.0))
    np.testing.assert_array_equal(np.asarray(there, dtype="f4"), np.arange(4.0))
    for call in (
        there.__dlpack__,
        lambda: np.from_dlpack(there),
        lambda: np.from_dlpack(there, device="cpu", copy=False),
    ):
        with pytest.raises(BufferError, match=r'cannot be shared with another library\n  try +\.to\("cpu"\)'):
            call()
    with pytest.raises(ValueError, match="cannot be read without a copy"):
        there.__array__(copy=False)


def test_refusals_are_one_error_each(device: OpenDevice) -> None:
    there = device_array([1.0])
    for call, kind, message in (
        (lambda: device_array([1], "llvm"), TargetError, 'arrays cannot be kept on "llvm"'),
        (lambda: device_array([1], "vulkan:99"), TargetError, "there is no Vulkan device number 99; there is: 0"),
        (lambda: device_array([1], "vulkan:none such"), TargetError, 'no Vulkan device called "none such"'),
        (lambda: device_array(object()), ArgumentError, "takes an array, not object"),
        (lambda: device_array(["a"]), ArgumentError, "arrays of dtype <U1 cannot be on a device"),
        (lambda: device_array([[1], [2, 3]]), ValueError, "inhomogeneous"),
        (lambda: pickle.dumps(there), pickle.PicklingError, r'its memory is on vulkan:0\n  try +\.to\("cpu"\)'),
        (lambda: there.astype("f4"), AttributeError, "array.astype: there is no such attribute"),
        (lambda: len(device_array(2.0)), TypeError, "rank 0 has no length"),
        (
            lambda: rd.algorithm(lambda a: a + 1).interpret(there),
            ArgumentError,
            "it is on vulkan:0; copy it to the CPU",
        ),
    ):
        with pytest.raises(kind, match=message):
            call()


def test_arrays_outlive_what_uses_them_and_nothing_is_kept(device: OpenDevice) -> None:
    """Threads that copy and drop: memory is used again while copies still run, and none of them reads another's numbers."""
    wrong: list[int] = []

    def work(number: int) -> None:
        for k in range(40):
            expected = np.full(20_000, 1000 * number + k)
            array = device_array(expected)
            for _ in range(5):
                array = array.to("vulkan:0")
            if not (np.asarray(array) == expected).all():
                wrong.append(number)

    work(0)
    before = device.taken
    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    device.trim()
    assert not wrong and device.taken <= before + (64 << 20)


def test_an_array_of_a_closed_device_is_refused() -> None:
    with VulkanDevice(validated_device(), validate=True) as opened:
        there = upload(np.arange(3), opened)
    with pytest.raises(TargetError, match="has been closed"):
        there.to("cpu")


def test_a_forked_process_opens_the_device_anew(device: OpenDevice) -> None:
    """Without the validation layer, which does not survive a fork; nor does what drivers run when a process exits by itself."""
    there = upload(np.array([1, 2]), open_device(validate=False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of fork beside threads
        child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            with pytest.raises(TargetError, match="opened by the process that this one was forked from"):
                there.to("cpu")
            if upload(np.array([3, 4]), open_device(validate=False)).to("cpu").tolist() == [3, 4]:
                os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert there.to("cpu").tolist() == [1, 2]


# --- calls


SIGNATURE = Signature(
    "scale",
    (Value("x", "float32", ("n", 2)), Value("gain", "float32", ())),
    ("n",),
    (Value("result[0]", "float32", ("k", 2)), Value("result[1]", "float32", ()), Value("result[2]", "float32", ("m",))),
    {"tuple": [0, 1]},
    {"tuple": [0, 1, 2]},
    existentials=(Existential("k", "n"), Existential("m", None)),
)
ROWS = np.arange(12, dtype="f4").reshape(6, 2)


def scale(device: OpenDevice, k: int, *arguments: Any, out: Any = None) -> Any:
    """What a program does with the memory of a call: keeps k of n rows, multiplied, gives the sum, and an array of its own size."""
    call = bind_device_call(SIGNATURE, device, arguments, out)
    assert call.outputs[2] is None and call.sizes == {"n": 6}
    rows = call.inputs[0].read(np.empty((6, 2), "f4")) * call.inputs[1].read(np.empty((), "f4"))
    own = Memory(device, 4)
    for memory, array in zip((*call.outputs[:2], own), (rows[:k], rows.sum(), rows[0, 1]), strict=True):
        assert memory is not None
        memory.write(array)
    return call.finish({"k": k, "m": 1}, {2: own})


@pytest.mark.parametrize("k", [0, 1, 5, 6])
def test_results_are_where_the_arguments_are(device: OpenDevice, k: int) -> None:
    there = device_array(ROWS)
    for arguments, kind in (
        ((ROWS, 3), np.ndarray),
        ((ROWS[::-1][::-1], np.float32(3)), np.ndarray),
        ((there, 3), rd.DeviceArray),
        ((ROWS, device_array(np.float32(3))), rd.DeviceArray),
    ):
        kept, total, own = scale(device, k, *arguments)
        assert isinstance(kept, kind) and isinstance(own, kind)
        assert isinstance(total, np.float32 if kind is np.ndarray else rd.DeviceArray)
        np.testing.assert_array_equal(np.asarray(kept), 3 * ROWS[:k])
        assert float(np.asarray(total)) == 198 and np.asarray(own).tolist() == [3]
        assert k in (5, 6) or getattr(kept, "memory", kept).nbytes <= 8 * k
    np.testing.assert_array_equal(there.to("cpu"), ROWS)


def test_results_go_where_out_says(device: OpenDevice) -> None:
    strided, total = np.zeros((2, 6), "f4").T, np.zeros((), "f4")
    kept, same, own = scale(device, 4, ROWS, 2, out=(strided, total, None))
    assert kept.base is strided.base and isinstance(own, np.ndarray) and total == same == 132
    np.testing.assert_array_equal(strided[:4], 2 * ROWS[:4])
    whole = np.zeros((6, 2), "f4")
    kept, same, _ = scale(device, 6, ROWS, 2, out=(whole, total, None))
    assert kept is whole and same is total
    there, sum_there = device_array(np.zeros((6, 2), "f4")), device_array(np.float32(0))
    kept, same, own = scale(device, 6, ROWS, 2, out=(there, sum_there, None))
    assert kept is there and same is sum_there and isinstance(own, rd.DeviceArray)
    np.testing.assert_array_equal(there.to("cpu"), 2 * ROWS)
    kept, _, _ = scale(device, 6, there, 5, out=(there, sum_there, None))  # over an argument
    assert kept is there
    np.testing.assert_array_equal(there.to("cpu"), 10 * ROWS)
    kept, total_here, _ = scale(device, 3, ROWS, 2, out=(there, total, None))
    assert isinstance(kept, rd.DeviceArray) and total_here is not sum_there
    np.testing.assert_array_equal(np.asarray(kept), 2 * ROWS[:3])


def test_what_does_not_fit_is_refused_before_anything_runs(device: OpenDevice) -> None:
    there, scalar = device_array(ROWS), device_array(np.float32(0))
    with VulkanDevice(validated_device(), validate=True) as other:
        elsewhere = upload(ROWS, other)
        for arguments, out, kind, message in (
            ((device_array(ROWS.astype("f8")), 1), None, ArgumentError, "its dtype is float64, and its shape"),
            ((device_array(ROWS[0]), 1), None, ArgumentError, r'"x" must be f32\[n, 2\]'),
            ((device_array(ROWS.reshape(4, 3)), 1), None, SizeMismatch, "size 3 along dimension 1, which must be 2"),
            ((elsewhere, 1), None, ArgumentError, r'"x" is on vulkan:0 .*\n  try +\.to\("vulkan:0"\)'),
            ((ROWS, 1), (elsewhere, scalar, None), ArgumentError, 'out for "result.0." is on vulkan:0'),
            ((ROWS, 1), (scalar, scalar, None), ArgumentError, r"must be float32 of shape \(6, 2\), got float32"),
            ((ROWS, 1), (there, scalar, there), ArgumentError, "whose size is known only after the run"),
            ((ROWS, 1), (there, 5, None), ArgumentError, "must be an array, got int 5"),
        ):
            with pytest.raises(kind, match=message):
                scale(device, 6, *arguments, out=out)
    pair = Signature(
        "pair", (), (), (Value("a", "float32", ()), Value("b", "float32", ())), {"tuple": []}, {"tuple": [0, 1]}
    )
    with pytest.raises(ArgumentError, match="arrays given as out overlap each other"):
        bind_device_call(pair, device, (), (scalar, scalar))


def test_a_lost_device_is_opened_anew(device: OpenDevice) -> None:
    there = device_array([1, 2])
    with pytest.raises(TargetError):
        device.check(-3)  # RD_LOST
    with pytest.raises(TargetError, match="was lost by an earlier call, and its arrays with it"):
        there.to("cpu")
    again = open_device()
    assert again is not device and again.is_open and device_array([3]).to("cpu").tolist() == [3]
    device.is_lost = False
    again.close()
