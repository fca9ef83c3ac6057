"""A compiled program that can be called: NumPy in, NumPy out.

An `Executable` is immutable and thread-safe: any number of threads may call it at once, and the interpreter lock is released while
it runs. It needs neither TVM nor a compiler, only a `Signature` and the address of an entry function; `keepalive` holds whatever owns
the code at that address. Failures that compiled code records become the contract's exceptions, naming the user's line.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raido.algo.errors import RaidoError, TargetError
from raido.targets.arguments import bind_arguments, finish
from raido.targets.fastcall import quick_call
from raido.targets.faults import fault_error
from raido.targets.native import Fault, RuntimeCalls, shared_calls, take_error
from raido.targets.signature import Signature, size_text

Source = str | Callable[[], str]


@dataclass(frozen=True, slots=True)
class Timing:
    """Measured runs in seconds, in the order they were made, and the compulsory traffic of one run in bytes."""

    runs: tuple[float, ...]
    bytes: int
    min: float = field(init=False)
    median: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "min", min(self.runs))
        object.__setattr__(self, "median", statistics.median(self.runs))

    @property
    def bandwidth(self) -> float:
        """Compulsory traffic over the fastest run, in bytes per second."""
        return self.bytes / self.min if self.min else 0.0


class Executable:
    """`exe(*arrays, out=None)` runs a compiled program.

    Arrays may be NumPy's or any DLPack producer's (torch, jax, …). C-contiguous ones of the right dtype are used in place, whatever
    their alignment; others are copied. `out`, an array or a structure of arrays like the result, receives the result without an
    allocation; it may overlap an input. A result of rank 0 is a NumPy scalar. Raises `ArgumentError`, `SizeMismatch` before
    anything runs, and what the program's checks find (`IndexOutOfRange`, `ArithmeticFault`) after.

    `threads` bounds the threads of each call (None: as many as the process uses). `sources` maps kinds ("nest", "tir", …) to text, or
    to functions that make it when asked. `object_bytes` is the relocatable object, which `export` needs.
    `runtime` is what the code was linked with, where that is not raido's shared runtime.
    """

    __slots__ = (
        "_call",
        "_entry",
        "_keepalive",
        "_object",
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
        self._call = quick_call(signature, self._entry, self._run, self._fail)

    def __call__(self, *arrays: Any, out: Any = None) -> Any:
        return self._call(arrays, out)

    def _run(self, arrays: Sequence[Any], out: Any) -> Any:
        """The complete way of calling, for whatever the quick one declines."""
        bound = bind_arguments(self.signature, arrays, out)
        found = (ctypes.c_int64 * len(self.signature.existentials))()
        self._launch(self._flat_arguments(bound, found))
        names = (existential.name for existential in self.signature.existentials)
        return finish(self.signature, bound, dict(zip(names, found, strict=True)))

    def _flat_arguments(self, bound: Any, found: Any) -> list[int]:
        return [
            *(array.__array_interface__["data"][0] for array in bound.inputs),
            *(bound.sizes[name] for name in self.signature.sizes),
            *(array.__array_interface__["data"][0] for array in bound.outputs),
            *(ctypes.addressof(found) + 8 * i for i in range(len(found))),
        ]

    def _launch(self, arguments: Sequence[int]) -> None:
        fault = Fault()
        status = self._entry(*arguments, ctypes.byref(fault))
        if status or fault.kind:
            self._fail(status, fault)

    def _fail(self, status: int, fault: Fault) -> None:
        """Raises what a failed run reported."""
        name = self.signature.name
        message = take_error(self._runtime)
        if fault.kind:
            raise fault_error(fault.kind, fault.site, list(fault.values), self.signature.sites, name)
        if message:
            raise RaidoError(f"{name}: {message}")
        raise MemoryError(f"{name}: not enough memory for its temporary buffers (status {status})")

    def time(self, *arrays: Any, repeat: int = 10) -> Timing:
        """Runs the program `repeat` times on the same memory, after one run that does not count, and measures each run."""
        if repeat < 1:
            raise ValueError(f"repeat must be at least 1, not {repeat}")
        bound = bind_arguments(self.signature, arrays)
        found = (ctypes.c_int64 * len(self.signature.existentials))()
        arguments = self._flat_arguments(bound, found)
        self._launch(arguments)
        entry, reference, clock = self._entry, ctypes.byref(Fault()), time.perf_counter
        runs = []
        for _ in range(repeat):
            start = clock()
            entry(*arguments, reference)
            runs.append(clock() - start)
        return Timing(tuple(runs), bound.nbytes)

    def source(self, kind: str) -> str:
        """The program as "nest", "tir", "llvm", "asm" or what else the target offers; TargetError lists what there is."""
        try:
            text = self._sources[kind]
        except KeyError:
            kinds = ", ".join(f'"{name}"' for name in self._sources) or "none (it was loaded from a library)"
            raise TargetError(
                f'{self.signature.name}: there is no source of kind "{kind}"; there is: {kinds}'
            ) from None
        return text if isinstance(text, str) else text()

    def with_threads(self, threads: int | None) -> Executable:
        """The same program, whose calls use at most that many threads; the results have the same bits."""
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
        """Writes a self-contained shared library and, beside it, its C header; returns the library's path. See `raido.targets.export`."""
        from raido.targets.export import write_library

        if self._object is None:
            raise TargetError(f"{self.signature.name} was loaded from a library: copy that library instead")
        return write_library(path, [(self.signature.name, self.signature, self._object)], cc=cc)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{value.name}: {value}" for value in self.signature.inputs)
        outputs = ", ".join(str(value) for value in self.signature.outputs)
        ghosts = "".join(f", {e.name} <= {size_text(e.bound)}" for e in self.signature.existentials)
        return f"<Executable {self.signature.name}({inputs}) -> {outputs}{ghosts}>"


def _limit_threads(entry: Callable[..., int], threads: int, set_limit: Callable[[int], int]) -> Callable[..., int]:
    def limited(*arguments: Any) -> int:
        before = set_limit(threads)
        try:
            return entry(*arguments)
        finally:
            set_limit(before)

    return limited
