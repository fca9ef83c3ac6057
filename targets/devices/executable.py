"""Executables on a device: NumPy arrays in and out, or device arrays, which stay there.

The device is opened, kernels are loaded and constants uploaded at the first call; calls from any number of threads share them.
"""

from __future__ import annotations

import functools
import os
import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from raido.algo.errors import TargetError
from raido.algo.trace.tracebacks import border, bordered
from raido.targets.devices.arguments import DeviceCall, bind_device_call
from raido.targets.devices.code import DeviceCode
from raido.targets.devices.plan import run_and_keep
from raido.targets.devices.runtime import LoadedKernel, Memory, OpenDevice
from raido.targets.executable import Timing
from raido.targets.faults import fault_error
from raido.targets.interface import Interface, Source
from raido.targets.native import Fault
from raido.targets.signature import Signature

_RECORD = 40
"""Bytes of the fault record."""
Opener = Callable[[], OpenDevice]


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A program loaded on an open device."""

    device: OpenDevice
    kernels: Mapping[str, LoadedKernel]
    constants: Mapping[str, Memory]


@bordered
class DeviceExecutable(Interface):
    """A compiled program on a device; `exe(*arrays, out=None, stream=None)` runs it.

    Arrays are NumPy's, any DLPack producer's, lists or buffers, which are copied to the device, or arrays that are there:
    `rd.device_array`, and on CUDA those of other libraries, by DLPack or `__cuda_array_interface__`. If one of the arguments or `out` is on
    the device, so are the results; else they are NumPy's. `stream`, on CUDA, is a stream of the caller: the call follows work enqueued in
    it before, and precedes work enqueued later, as with the streams of the libraries that arrays come from. Raises `ArgumentError`,
    `SizeMismatch` before anything runs, the faults of the program's checks (`IndexOutOfRange`, `ArithmeticFault`) after, `MemoryError`
    where the device has no room, and `TargetError` where the device does not exist or fails.

    `opened` opens the device. `device` is its name in messages before that.
    """

    __slots__ = ("_loaded", "_lock", "_opened", "_sources", "code", "device", "signature")

    def __init__(
        self,
        signature: Signature,
        code: DeviceCode,
        device: str,
        opened: Opener,
        sources: Mapping[str, Source] | None = None,
    ) -> None:
        self.signature, self.code, self.device = signature, code, device
        self._opened, self._sources = opened, dict(sources or {})
        self._loaded: _Loaded | None = None
        self._lock = threading.Lock()

    @border
    def __call__(self, *arrays: Any, out: Any = None, stream: Any = None, **named: Any) -> Any:
        call = self._bind(self._arranged(arrays, named), out, stream)
        call.run()
        return call.result()

    def bind(self, *arrays: Any, out: Any = None, stream: Any = None, **named: Any) -> RunningCall:
        """Binds a call to its arguments, to be run any number of times on the same memory: `call = exe.bind(x)`, then `call()` for the
        result, or `call.run()` and `call.result()`; `call.time()` is the seconds of a run. Raises the errors that a call raises before it
        runs."""
        return self._bind(self._arranged(arrays, named), out, stream)

    def _bind(self, arrays: Sequence[Any], out: Any, stream: Any = None) -> RunningCall:
        loaded = self._load()
        return RunningCall(self, loaded, bind_device_call(self.signature, loaded.device, arrays, out, stream))

    def time(self, *arrays: Any, repeat: int = 10, **named: Any) -> Timing:
        """Measures `repeat` runs on the same device memory, after one warm-up run: by the device's clock, from the first launch to the end
        of the last, without copies from and to the CPU."""
        if repeat < 1:
            raise ValueError(f"repeat must be at least 1, not {repeat}")
        call = self.bind(*self._arranged(arrays, named, "repeat"))
        call.run()
        return Timing(tuple(call.time() for _ in range(repeat)), call.nbytes, (call.device.copy_speed,))

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        cc: str | Sequence[str] | None = None,
        architectures: Sequence[str] | None = None,
    ) -> Path:
        """Writes a self-contained shared library and, beside it, its C header; returns the library's path.

        architectures: for a CUDA program, those with code in the library, `["sm_90"]` for machine code and `["compute_75"]` for PTX; None
        is sm_75, sm_80, sm_90 and sm_100, and PTX for all others. Raises `ExportError` for unknown ones.
        """
        from raido.targets.export import write_library

        return write_library(
            path, [(self.signature.name, self.signature, self.code)], cc=cc, architectures=architectures
        )

    def _load(self) -> _Loaded:
        """The program loaded on its device; opens the device if necessary."""
        device = self._opened()
        with self._lock:
            if self._loaded is None or self._loaded.device is not device:
                kernels = {name: LoadedKernel(device, kernel) for name, kernel in self.code.kernels.items()}
                constants = {name: Memory(device, array.nbytes) for name, array in self.code.constants.items()}
                for name, memory in constants.items():
                    memory.write(self.code.constants[name])
                self._loaded = _Loaded(device, kernels, constants)
            return self._loaded

    def _described(self) -> str:
        return f" on {self.device}"

    def __reduce__(self) -> tuple[Any, ...]:
        packed = pickle.dumps((self._opened, self._sources))  # sources are unpacked by who asks for one
        return _restored, (self.signature.to_json(), self.code.to_bytes(), self.device, tuple(self._sources), packed)


@bordered
class RunningCall:
    """A call of an executable bound to its arguments, sizes and results: each run uses the same memory."""

    __slots__ = ("_bound", "_counts", "_executable", "_loaded", "_made", "_record")

    def __init__(self, executable: DeviceExecutable, loaded: _Loaded, bound: DeviceCall) -> None:
        self._executable, self._loaded, self._bound = executable, loaded, bound
        self._counts: dict[str, int] = {}
        self._made: dict[int, Memory] = {}
        self._record = Memory(loaded.device, _RECORD) if executable.code.fault else None

    @property
    def device(self) -> OpenDevice:
        """The device on which the call runs."""
        return self._loaded.device

    @property
    def nbytes(self) -> int:
        """Compulsory traffic of one run in bytes: every input read once and every result written once."""
        return self._bound.nbytes

    def __call__(self) -> Any:
        """Runs the program and returns the result."""
        self.run()
        return self.result()

    def run(self) -> None:
        """Runs the program, ordered after earlier and before later work in the caller's streams; raises the fault that it reports."""
        for stream in self._bound.streams:
            self.device.wait_for(stream)
        try:
            self.start()
        finally:  # what was launched before a failure may still write to the caller's arrays
            if self.device.is_open:
                self._let_wait()
        self._look()

    def time(self, number: int = 1) -> float:
        """Seconds of one run by the device's clock, the mean of `number` runs in a row; faults are ignored."""

        def run() -> None:
            for _ in range(number):
                self.start()

        return self.device.time(run) / number

    def result(self) -> Any:
        """The result of the last run, in the structure that the program returns."""
        result = self._bound.finish(self._counts, self._made)
        self._let_wait()  # for copies to arrays given as `out`
        return result

    def _let_wait(self) -> None:
        for stream in self._bound.streams:
            self.device.let_wait(stream)

    def start(self) -> None:
        """Runs the plan; launches may still be running afterwards, and faults are not checked."""
        code, bound, signature = self._executable.code, self._bound, self._executable.signature
        memories = dict(zip(code.inputs, bound.inputs, strict=True)) | dict(self._loaded.constants)
        memories |= {name: memory for name, memory in zip(code.outputs, bound.outputs, strict=True) if memory}
        if self._record is not None:
            self._record.write(np.zeros(_RECORD, np.uint8))
            memories[code.fault] = self._record
        used = {name: memory for name, memory in memories.items() if name in code.plan.slots}
        sizes = {name: bound.sizes[size] for name, size in zip(code.sizes, signature.sizes, strict=True)}
        try:
            numbers, kept = run_and_keep(
                code.plan, self._loaded.device, self._loaded.kernels, code.results, numbers=sizes, memories=used
            )
        except (MemoryError, TargetError) as error:
            if self.device.is_open:
                self._look()  # what a kernel has found explains what the plan has come upon
            raise type(error)(f"{signature.name}: {error}") from None
        self._counts = {name: numbers[number] for name, number in code.counts.items()}
        self._made = {code.outputs.index(name): memory for name, memory in kept.items()}

    def _look(self) -> None:
        """Raises the recorded fault, if there is one."""
        if self._record is None:
            return
        signature = self._executable.signature
        try:
            record = self._record.read(np.empty(_RECORD, np.uint8))
        except TargetError as error:
            raise TargetError(f"{signature.name}: {error}") from None
        fault = Fault.from_buffer_copy(record.tobytes())
        if fault.kind:
            raise fault_error(fault.kind, fault.site, list(fault.values), signature.sites, signature.name)


def _restored(text: str, code: bytes, device: str, kinds: Sequence[str], packed: bytes) -> DeviceExecutable:
    """A pickled executable."""
    sources = {kind: functools.partial(_unpacked, packed, kind) for kind in kinds}
    opened: Opener = functools.partial(_open, packed)
    return DeviceExecutable(Signature.from_json(text), DeviceCode.from_bytes(code), device, opened, sources)


def _open(packed: bytes) -> OpenDevice:
    return pickle.loads(packed)[0]()


def _unpacked(packed: bytes, kind: str) -> str:
    """The text of one kind from the pickled sources of an executable."""
    source: Source = pickle.loads(packed)[1][kind]
    return source if isinstance(source, str) else source()
