"""The steps from a program to code for a device: the nest is cut into kernels, each becomes TIR, and each back end makes code of that."""

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
    """One program on its way to code for a device; what is particular to a device API is abstract."""

    code_kind: ClassVar[str]
    """The kind of source that kernels are written in: "spirv", "cuda"."""

    @property
    def iterations(self) -> int:
        """After so many, of all its loops together, the loops of a thread end by themselves on the device; 0: they do not."""
        return 0

    @property
    def largest_array(self) -> int:
        """Bytes that an array of the device has at most."""
        return 1 << 62

    @abstractmethod
    def generate(self) -> dict[str, Kernel]:
        """The code of the kernels (`functions`), by name."""

    @abstractmethod
    def listing(self) -> str:
        """The code of the kernels as text."""

    @abstractmethod
    def open_device(self) -> OpenDevice:
        """The device of the target, opened; TargetError where there is none."""

    @property
    def sources(self) -> tuple[str, ...]:
        return ("schedule", "nest", "kernels", "tir", self.code_kind)

    @functools.cached_property
    def signature(self) -> Signature:
        return self.signature_for(self.nest, ())

    @functools.cached_property
    def device_program(self) -> DeviceProgram:
        """The nest as kernels and the plan of their launches."""
        from raido.schedule.kernels.cut import cut
        from raido.schedule.kernels.limits import Limits, limits_of
        from raido.targets.kernels.long_loops import with_fault_record

        gpu = self.target.machine.gpu
        program = cut(self.nest, Limits() if gpu is None else limits_of(gpu))
        long = self._long_kernels(program)
        return with_fault_record(program, long) if long else program

    def _long_kernels(self, program: DeviceProgram) -> frozenset[str]:
        """The names of kernels whose loops may be longer than the device allows."""
        from raido.targets.kernels.long_loops import long_kernels

        return long_kernels(program, self.iterations, self.largest_array)

    @functools.cached_property
    def functions(self) -> dict[str, Any]:
        """The kernels in TIR, by name."""
        from raido.targets.kernels.kernel import STEPS, emit_kernel
        from raido.targets.kernels.long_loops import steps_below

        program = self.device_program
        steps = steps_below(program, self.iterations, self.largest_array)
        limits = dict.fromkeys(self._long_kernels(program), self.iterations)
        gpu = self.target.machine.gpu
        subgroup, count_down = 1 if gpu is None else gpu.subgroup, self.iterations > 0
        return {
            k.name: emit_kernel(k, steps.get(k.name, STEPS), limits.get(k.name, 0), subgroup, count_down)
            for k in program.kernels
        }

    @functools.cached_property
    def kernels(self) -> dict[str, Kernel]:
        """The kernels as code, by name."""
        return self.generate()

    @functools.cached_property
    def code(self) -> DeviceCode:
        """The whole program."""
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
