"""Compilation for devices: the nest is cut into kernels, each becomes TIR, and the API's back end makes code of that."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from raido.algo.errors import CompileError
from raido.algo.graph.data import Data
from raido.targets.compile import Compilation
from raido.targets.devices.code import DeviceCode
from raido.targets.devices.executable import DeviceExecutable
from raido.targets.devices.kernel import Kernel
from raido.targets.devices.plan import Let, encode_plan
from raido.targets.devices.runtime import OpenDevice
from raido.targets.interface import Source
from raido.targets.signature import Signature

if TYPE_CHECKING:
    from raido.schedule.kernels.kernel import DeviceProgram


class DeviceCompilation(Compilation):
    """One program being compiled for a device; steps specific to a device API are abstract."""

    code_kind: ClassVar[str]
    """The kind of source that kernels are written in: "spirv", "cuda"."""

    @property
    def iterations(self) -> int:
        """The number of iterations, over all loops of a thread, after which the device ends them silently; 0: no such limit."""
        return 0

    @property
    def largest_array(self) -> int:
        """The maximal size in bytes of an array on the device."""
        return 1 << 62

    @abstractmethod
    def generate(self) -> dict[str, Kernel]:
        """Compiled kernels by name, of the TIR in `functions`."""

    @abstractmethod
    def listing(self) -> str:
        """Text of the kernels' code."""

    @abstractmethod
    def open_device(self) -> OpenDevice:
        """The target's device, opened; raises `TargetError` where there is none."""

    @property
    def sources(self) -> tuple[str, ...]:
        return ("schedule", "nest", "kernels", "tir", self.code_kind)

    @functools.cached_property
    def signature(self) -> Signature:
        return self.signature_for(self.nest, ())

    @functools.cached_property
    def device_program(self) -> DeviceProgram:
        """The nest cut into kernels, and the host plan of their launches."""
        from raido.schedule.kernels.limits import Limits, limits_of
        from raido.schedule.kernels.outlining import outline_kernels
        from raido.targets.kernels.long_loops import with_fault_record

        gpu = self.target.machine.gpu
        program = outline_kernels(self.nest, Limits() if gpu is None else limits_of(gpu))
        long = self._long_kernels(program)
        return with_fault_record(program, long) if long else program

    def _long_kernels(self, program: DeviceProgram) -> frozenset[str]:
        """Names of kernels whose loops may exceed the device's iteration limit."""
        from raido.targets.kernels.long_loops import long_kernels

        return long_kernels(program, self.iterations, self.largest_array)

    @functools.cached_property
    def functions(self) -> dict[str, Any]:
        """TIR of the kernels by name."""
        from raido.targets.kernels.kernel import MOST_ITERATIONS, emit_kernel
        from raido.targets.kernels.long_loops import iterations_below

        program = self.device_program
        limits_of_loops = iterations_below(program, self.iterations, self.largest_array)
        limits = dict.fromkeys(self._long_kernels(program), self.iterations)
        gpu = self.target.machine.gpu
        subgroup, count_down = 1 if gpu is None else gpu.subgroup, self.iterations > 0
        return {
            k.name: emit_kernel(
                k, limits_of_loops.get(k.name, MOST_ITERATIONS), limits.get(k.name, 0), subgroup, count_down
            )
            for k in program.kernels
        }

    @functools.cached_property
    def kernels(self) -> dict[str, Kernel]:
        """Compiled kernels by name."""
        return self.generate()

    @functools.cached_property
    def code(self) -> DeviceCode:
        """The whole device program."""
        program = self.device_program
        counts = {name: f"count of {name}" for name, _ in program.counts}
        leave = [Let(counts[name], number) for name, number in program.counts]
        plan = encode_plan([*program.plan, *leave], self.kernels, program.sizes)
        constants = {}
        for array in program.constants:
            assert isinstance(array.buffer.data, Data)
            constants[array.name] = array.buffer.data.array
        return DeviceCode(
            self.kernels,
            plan,
            tuple(array.name for array in program.inputs),
            tuple(array.name for array in program.outputs),
            tuple(array.name for array in program.results),
            constants,
            program.sizes,
            counts,
            program.fault,
            self.target.kind,
            self.iterations,
        )

    @functools.cached_property
    def object_bytes(self) -> bytes:
        return self.code.to_bytes()

    def load(self, code: bytes, signature: Signature, sources: Mapping[str, Source]) -> Any:
        return DeviceExecutable(signature, DeviceCode.from_bytes(code), str(self.target), self.open_device, sources)

    def source(self, kind: str) -> str:
        if kind == "kernels":
            from raido.schedule.kernels.printer import print_program

            return print_program(self.device_program)
        if kind == "tir":
            return "\n".join(function.script() for function in self.functions.values())
        if kind == self.code_kind:
            return self.listing()
        if kind not in self.sources:
            raise CompileError(f"internal: no source of kind {kind}")
        return super().source(kind)
