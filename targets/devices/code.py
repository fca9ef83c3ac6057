"""A device program as plain data: an executable runs it, the compile cache stores it, an exported library contains it.

As bytes it is a line of JSON followed by the kernels' codes and the contents of constant arrays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raido.algo.documents import Unreadable, parse_json
from raido.algo.errors import TargetError
from raido.algo.graph.dtypes import dtype_named, numpy_dtype, text_of
from raido.targets.devices.kernel import Argument, Kernel
from raido.targets.devices.plan import Plan

FORMAT = 2


@dataclass(frozen=True, eq=False, slots=True)
class DeviceCode:
    """Kernels, the plan that launches them, and the plan's names for arrays and numbers.

    `inputs`, `outputs` and `sizes` are in the order of the signature. `results` are the outputs that the plan allocates, `counts` the sizes
    that data decides, each with the plan's number that has its value afterwards. `fault` is the fault record ("": the program cannot fail):
    40 bytes laid out as `RdFault`, all zeros before the plan runs. `api` is the device API: "vulkan" or "cuda". `iterations`: the code
    handles a device that ends a thread's loops after so many iterations; 0: it assumes that there is no such limit. `text` is the source of
    all kernels, to be compiled for other devices of the API; "" where the code suits every device.
    """

    kernels: Mapping[str, Kernel]
    plan: Plan
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    results: tuple[str, ...]
    constants: Mapping[str, np.ndarray]
    sizes: tuple[str, ...]
    counts: Mapping[str, str]
    fault: str
    api: str = "vulkan"
    iterations: int = 0
    text: str = ""

    def to_bytes(self) -> bytes:
        """The program as bytes."""
        blobs = list(dict.fromkeys(part for kernel in self.kernels.values() for part in (kernel.code, kernel.narrow)))
        arrays = [np.ascontiguousarray(array) for array in self.constants.values()]
        plan = self.plan
        head = {
            "format": FORMAT,
            "api": self.api,
            "iterations": self.iterations,
            "text": self.text,
            "codes": [len(blob) for blob in blobs],
            "kernels": [_kernel_row(kernel, blobs) for kernel in self.kernels.values()],
            "plan": [plan.words, plan.registers, plan.register_count, plan.slots, plan.hosts],
            "names": [self.inputs, self.outputs, self.results, self.sizes, self.counts, self.fault],
            "constants": [
                [name, text_of(array.dtype), array.shape, array.nbytes]
                for name, array in zip(self.constants, arrays, strict=True)
            ],
        }
        text = json.dumps(head, separators=(",", ":")).encode()
        return b"\n".join([text, b"".join([*blobs, *(array.tobytes() for array in arrays)])])

    @staticmethod
    def from_bytes(data: bytes) -> DeviceCode:
        """The inverse of `to_bytes`; raises `TargetError` for other bytes."""
        text, _, blobs = data.partition(b"\n")
        try:
            head = parse_json(text)
            if head["format"] != FORMAT:
                raise TargetError("the device program was written by another version of raido")
            reader = _Reader(blobs)
            blobs = [reader.take(size) for size in head["codes"]]
            kernels = [_read_kernel(row, blobs) for row in head["kernels"]]
            words, registers, count, slots, hosts = head["plan"]
            inputs, outputs, results, sizes, counts, fault = head["names"]
            constants = {
                str(name): np.frombuffer(reader.take(size), numpy_dtype(dtype)).reshape(shape)
                for name, dtype, shape, size in head["constants"]
            }
            names = tuple(kernel.name for kernel in kernels)
            return DeviceCode(
                dict(zip(names, kernels, strict=True)),
                Plan(tuple(map(int, words)), registers, count, slots, hosts, names),
                tuple(inputs),
                tuple(outputs),
                tuple(results),
                constants,
                tuple(sizes),
                counts,
                fault,
                str(head["api"]),
                int(head["iterations"]),
                str(head["text"]),
            )
        except (Unreadable, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            if isinstance(error, TargetError):
                raise
            raise TargetError(f"not a device program: {error}") from error


class _Reader:
    """A byte string read from the front."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        part = self.data[self.at : self.at + count]
        if len(part) != count:
            raise ValueError("it ends too early")
        self.at += count
        return part


def _kernel_row(kernel: Kernel, blobs: Sequence[bytes]) -> dict[str, Any]:
    """A kernel as JSON data; its codes are indices into `blobs`, since kernels of CUDA share one."""
    arguments = [[a.name, a.dtype.name, a.pointer, a.offset] for a in kernel.arguments]
    return {
        **{name: getattr(kernel, name) for name in _PLAIN},
        "arguments": arguments,
        "codes": [blobs.index(kernel.code), blobs.index(kernel.narrow)],
    }


_PLAIN = (
    "name",
    "mode",
    "argument_bytes",
    "inline",
    "block",
    "shared_bytes",
    "capabilities",
    "narrow_grid",
    "narrow_limits",
    "subgroup",
)


def _read_kernel(row: Any, blobs: Sequence[bytes]) -> Kernel:
    """The kernel of a JSON row, given the codes of all kernels."""
    plain = {name: row[name] for name in _PLAIN}
    arguments = tuple(
        Argument(str(name), dtype_named(dtype), bool(p), int(at)) for name, dtype, p, at in row["arguments"]
    )
    plain |= {name: tuple(row[name]) for name in ("block", "capabilities", "narrow_grid", "narrow_limits")}
    code, narrow = (blobs[index] for index in row["codes"])
    return Kernel(code=code, narrow=narrow, arguments=arguments, **plain)
