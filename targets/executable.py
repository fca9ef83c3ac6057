"""`Executable`, a compiled program that can be called: NumPy in, NumPy out.

An `Executable` is immutable and thread-safe: any number of threads may call it at once, and the interpreter lock is released while it runs.
It needs neither TVM nor a compiler, only a `Signature` and the address of an entry function; `keepalive` holds whatever owns the code at
that address. Faults that compiled code records become the contract's exceptions, naming the user's line.
"""

from __future__ import annotations

import ctypes
import functools
import os
import pickle
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from raido.algo.errors import RaidoError, TargetError, explain
from raido.algo.html import table
from raido.algo.trace.attributes import NearAttributes
from raido.algo.trace.tracebacks import border, bordered
from raido.targets._call import Caller
from raido.targets.arguments import Bound, bind_arguments, finish
from raido.targets.devices.library import BAD_DEVICE, LOST, NO_MEMORY
from raido.targets.fastcall import write_plan
from raido.targets.faults import fault_error
from raido.targets.interface import Interface, Source
from raido.targets.native import Fault, RuntimeCalls, adopt_array, shared_calls, take_error
from raido.targets.signature import Signature

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True, repr=False)
class Timing(NearAttributes):
    """Measured runs in seconds, in the order they were made, and `bytes`, the compulsory traffic of one run.

    `copied`: for runs on a device, one entry, the bytes per second of a copy there (None: unknown); empty for the CPU, whose speed is
    measured.
    """

    runs: tuple[float, ...]
    bytes: int
    copied: tuple[float | None, ...] = ()
    min: float = field(init=False)
    median: float = field(init=False)
    _display_name: ClassVar[str] = "timing"

    def __post_init__(self) -> None:
        object.__setattr__(self, "min", min(self.runs))
        object.__setattr__(self, "median", statistics.median(self.runs))

    @property
    def bandwidth(self) -> float:
        """Compulsory traffic divided by the fastest run, in bytes per second."""
        return self.bytes / self.min if self.min else 0.0

    @property
    def share(self) -> float | None:
        """`bandwidth` as a fraction of a memory copy's by all threads, or on the device, which is measured once in a process; above 1 where
        caches hold the arrays. None where there is too little memory to measure it."""
        from raido.targets.memory_speed import memory_speed

        speed = self.copied[0] if self.copied else memory_speed()
        return None if speed is None else self.bandwidth / speed

    def __repr__(self) -> str:
        runs = f"{len(self.runs)} run{'' if len(self.runs) == 1 else 's'}"
        speed = ", ".join(filter(None, (f"{self.bandwidth / 1e9:.3g} GB/s", self._share_text())))
        return f"<Timing {_milliseconds(self.min)}; median {_milliseconds(self.median)} of {runs}; {speed}>"

    def _repr_html_(self) -> str:
        heads = ("fastest", "median", "runs", "traffic", "bandwidth", "share")
        traffic, bandwidth = f"{self.bytes / 1e6:.4g} MB", f"{self.bandwidth / 1e9:.3g} GB/s"
        times = (_milliseconds(self.min), _milliseconds(self.median), str(len(self.runs)))
        return table(heads, [(*times, traffic, bandwidth, self._share_text())])

    def _share_text(self) -> str:
        """Text of `share` and of the copy's bandwidth; empty on the CPU until `share` has been asked for, because measuring takes a while."""
        from raido.targets.memory_speed import measured_speed

        speed = self.copied[0] if self.copied else measured_speed()
        where = "there" if self.copied else "here"
        return f"{self.bandwidth / speed:.0%} of a copy's {speed / 1e9:.3g} {where}" if speed else ""


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms"


@bordered
class Executable(Interface, Caller):
    """A compiled program; `exe(*arrays, out=None)` runs it.

    Arrays may be NumPy's or any DLPack producer's (torch, jax, …), lists of numbers or buffers, and passed by keyword. C-contiguous ones of
    the right dtype are used in place, whatever their alignment; others are copied. `out`, an array or a structure of arrays like the
    result, receives the result without an allocation; it may overlap an input. A result of rank 0 is a NumPy scalar. Raises
    `ArgumentError`, `SizeMismatch` before anything runs, and the faults of the program's checks (`IndexOutOfRange`, `ArithmeticFault`)
    after.

    `threads` bounds the threads of each call (None: as many as the process uses). `sources` maps kinds ("nest", "tir", …) to text, or to
    functions that return it. `object_bytes` is the relocatable object, which `export` needs. `runtime` holds the runtime functions that the
    code was linked with, where these are not raido's shared runtime.
    """

    __slots__ = (
        "_entry",
        "_keepalive",
        "_object",
        "_plan",
        "_runtime",
        "_sources",
        "entry_address",
        "signature",
        "threads",
    )

    def __init__(
        self,
        signature: Signature,
        entry_address: int,
        keepalive: Any = None,
        sources: Mapping[str, Source] | None = None,
        *,
        object_bytes: bytes | None = None,
        threads: int | None = None,
        runtime: RuntimeCalls | None = None,
    ) -> None:
        self.signature = signature
        self.entry_address = entry_address
        self.threads = threads
        self._keepalive = keepalive
        self._sources = dict(sources or {})
        self._object = object_bytes
        self._runtime = runtime or shared_calls()
        count = len(signature.inputs) + len(signature.sizes) + len(signature.outputs) + len(signature.existentials) + 1
        # A void pointer takes any 64-bit integer, a NULL and byref(...), and converts faster than an int64 would.
        entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * count)(entry_address)
        self._entry = entry if threads is None else _limit_threads(entry, threads, self._runtime.set_thread_limit)
        self._plan = write_plan(signature, entry_address, threads, self._runtime)

    @border
    def _complete(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Calls by the complete path, for arguments that the plan declines."""
        if named:
            return self(*self._arranged(arrays, named), out=out)
        call = self.bind(*arrays, out=out)
        call.run()
        return call.result()

    @border
    def _fail(self, status: int, record: Fault | bytes) -> None:
        """Raises the exception for a failed run's status and fault record."""
        fault = Fault.from_buffer_copy(record)
        name = self.signature.name
        message = take_error(self._runtime)
        if fault.kind:
            raise fault_error(fault.kind, fault.site, list(fault.values), self.signature.sites, name)
        if message:
            errors: dict[int, type[Exception]] = {NO_MEMORY: MemoryError, BAD_DEVICE: TargetError, LOST: TargetError}
            raise errors.get(status, RaidoError)(f"{name}: {message}")
        raise MemoryError(f"{name}: not enough memory for its temporary buffers (status {status})")

    def bind(self, *arrays: Any, out: Any = None, **named: Any) -> Call:
        """Binds a call to its arguments, to be run any number of times on the same memory: `call = exe.bind(x)`, then `call()` for the
        result, or `call.run()` and `call.result()`; `call.time()` is the seconds of a run. Raises the errors that a call raises before it
        runs."""
        return Call(self, bind_arguments(self.signature, self._arranged(arrays, named), out))

    def time(self, *arrays: Any, repeat: int = 10, **named: Any) -> Timing:
        """Measures `repeat` runs on the same memory, after one warm-up run."""
        if repeat < 1:
            raise ValueError(f"repeat must be at least 1, not {repeat}")
        call = self.bind(*self._arranged(arrays, named, "repeat"))
        call.run()
        return Timing(tuple(call.time() for _ in range(repeat)), call.nbytes)

    def with_threads(self, threads: int | None) -> Executable:
        """The same program with calls limited to `threads` threads (None: no limit); results have the same bits."""
        if threads is not None and threads < 1:
            raise TargetError(f"the number of threads must be at least 1, not {threads}")
        return Executable(
            self.signature,
            self.entry_address,
            self._keepalive,
            self._sources,
            object_bytes=self._object,
            threads=threads,
            runtime=self._runtime,
        )

    def export(self, path: str | os.PathLike[str], *, cc: str | Sequence[str] | None = None) -> Path:
        """Writes a self-contained shared library and, beside it, its C header; returns the library's path.

        The header documents the order of the function's arguments and its status codes; `write_library` of `raido.targets.export` writes
        several programs into one library.
        """
        from raido.targets.export import write_library

        if self._object is None:
            raise TargetError(f"{self.signature.name} was loaded from a library: copy that library instead")
        return write_library(path, [(self.signature.name, self.signature, self._object)], cc=cc)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._object is None:
            labelled = {
                "why": "its code is in a library, which pickle does not hold",
                "try": "send the path of the library, and rd.load it there",
            }
            raise pickle.PicklingError(explain(f"cannot pickle the executable {self.signature.name}", **labelled))
        packed = pickle.dumps(self._sources)  # unpacked by who asks for one: that forms the stages anew
        return _restored, (self.signature.to_json(), self._object, self.threads, tuple(self._sources), packed)

    def _described(self) -> str:
        return "" if self.threads is None else f", at most {self.threads} threads"


@bordered
class Call:
    """A call of an executable bound to its arguments, sizes and results: each run uses the same memory.

    Results of unbounded size are allocated by each run, and freed by the next one unless `result` was called.
    """

    __slots__ = ("_arguments", "_bound", "_executable", "_found", "_made")

    def __init__(self, executable: Executable, bound: Bound) -> None:
        self._executable = executable
        self._bound = bound
        existentials = executable.signature.existentials
        self._found = (ctypes.c_int64 * len(existentials))()
        self._made = {k: ctypes.c_void_p() for k, array in enumerate(bound.outputs) if array is None}
        outputs = (
            ctypes.addressof(self._made[k]) if array is None else array.__array_interface__["data"][0]
            for k, array in enumerate(bound.outputs)
        )
        self._arguments = [
            *(array.__array_interface__["data"][0] for array in bound.inputs),
            *(bound.sizes[name] for name in executable.signature.sizes),
            *outputs,
            *(ctypes.addressof(self._found) + 8 * i for i in range(len(existentials))),
        ]

    @property
    def nbytes(self) -> int:
        """Compulsory traffic of one run in bytes: every input read once and every result written once."""
        return self._bound.nbytes

    @property
    def outputs(self) -> tuple[np.ndarray | None, ...]:
        """Memory of the results: at the upper bound where data decides the size, None where the size has no bound."""
        return self._bound.outputs

    def __call__(self) -> Any:
        """Runs the program and returns the result."""
        self.run()
        return self.result()

    def run(self) -> None:
        """Runs the program; raises the fault that it reports."""
        executable, fault = self._executable, Fault()
        self._release()
        status = executable._entry(*self._arguments, ctypes.byref(fault))
        if status or fault.kind:
            executable._fail(status, fault)

    def time(self, number: int = 1) -> float:
        """Seconds of one run, the mean of `number` runs in a row; faults are ignored."""
        entry, arguments, reference = self._executable._entry, self._arguments, ctypes.byref(Fault())
        self._release()
        if self._made and number > 1:
            return sum(self.time() for _ in range(number)) / number
        if number == 1:
            start = time.perf_counter()
            entry(*arguments, reference)
            return time.perf_counter() - start
        start = time.perf_counter()
        for _ in range(number):
            entry(*arguments, reference)
        return (time.perf_counter() - start) / number

    def result(self) -> Any:
        """The result of the last run, in the structure that the program returns."""
        signature = self._executable.signature
        names = (existential.name for existential in signature.existentials)
        return finish(signature, self._bound, dict(zip(names, self._found, strict=True)), self._take)

    def _take(self, k: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """Output `k`, which the last run allocated, as an array that owns its memory."""
        slot = self._made[k]
        address, slot.value = slot.value, None
        return adopt_array(address or 0, shape, dtype, self._executable._runtime.free)

    def _release(self) -> None:
        for slot in self._made.values():
            if slot.value:
                self._executable._runtime.free(slot.value)
                slot.value = None

    def __del__(self) -> None:
        self._release()


def _restored(text: str, code: bytes, threads: int | None, kinds: Sequence[str], packed: bytes) -> Executable:
    """A pickled executable; raises `TargetError` where this processor lacks features that the code requires."""
    from raido.targets.loader import load_object
    from raido.targets.target import host_features

    signature = Signature.from_json(text)
    if missing := sorted(set(signature.requires) - host_features()):
        raise TargetError(
            f"{signature.name} was compiled for a CPU with {', '.join(missing)}, which this one lacks: compile it here"
        )
    loaded = load_object(code)
    sources = {kind: functools.partial(_unpacked, packed, kind) for kind in kinds}
    return Executable(signature, loaded.address(signature.entry), loaded, sources, object_bytes=code, threads=threads)


def _unpacked(packed: bytes, kind: str) -> str:
    """The text of one kind from the pickled sources of an executable."""
    source: Source = pickle.loads(packed)[kind]
    return source if isinstance(source, str) else source()


def _limit_threads(entry: Callable[..., int], threads: int, set_limit: Callable[[int], int]) -> Callable[..., int]:
    def limited(*arguments: Any) -> int:
        before = set_limit(threads)
        try:
            return entry(*arguments)
        finally:
            set_limit(before)

    return limited
