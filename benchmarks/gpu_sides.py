"""Contestants of a row of the table on a GPU, and their times: raido, a copy, handwritten kernels, CuPy, PyTorch, raido on Vulkan.

One clock measures all: events in raido's stream, with which those of the others are ordered.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from gpu_steps import in_a_line
from measure import check
from rows.gpu import Bound, GpuRow

import raido as rd
from raido.schedule.kernels.host_plan import Statement
from raido.targets.cuda.runtime import CudaDevice
from raido.targets.devices.executable import DeviceExecutable
from raido.targets.devices.kernel import Kernel
from raido.targets.devices.plan import encode_plan, run_plan
from raido.targets.devices.runtime import LoadedKernel, Memory

BATCH = 2e-3  # seconds of launches that one sample has at least
SIDE = 4.0  # seconds of all samples of a side that is slower
MOST = 200  # launches in a sample
COPY = "copy on the device"
BY_HAND, TILED = "CUDA by hand", "CUDA by hand, in shared memory"
Results = dict[str, Any]
Timer = Callable[[int], float]  # seconds of so many runs in a row
Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Timed:
    """The code of a row: raido's under its default schedule and others, and the kernels written by hand, by name."""

    executable: DeviceExecutable
    schedules: dict[str, DeviceExecutable]
    by_hand: dict[str, Kernel]
    tiled: dict[str, Kernel]


@dataclass(frozen=True)
class Library:
    """A library with arrays on the device: `name` is its module, `stream` the handle of its current stream."""

    name: str
    stream: Callable[[Any], int]


LIBRARIES = {
    "CuPy": Library("cupy", lambda cupy: int(cupy.cuda.get_current_stream().ptr)),
    "CUB": Library("cupy", lambda cupy: int(cupy.cuda.get_current_stream().ptr)),
    "PyTorch": Library("torch", lambda torch: int(torch.cuda.current_stream().cuda_stream)),
}


def run_row(
    row: GpuRow, code: Timed, device: CudaDevice, scale: int, samples: int, tell: Callable[[Results], object] = id
) -> Results:
    """Seconds of one run by each side: medians of samples that are taken in turn. A side that fails, at any time, is left out, with the
    reason; "wrong" where that is raido. `tell` is given what is known after each side's first run and after each turn."""
    inputs = row.row.inputs(scale)
    want = row.row.answers(inputs)
    first: dict[str, float] = {}
    sides: dict[str, Timer] = {}
    absent: dict[str, str] = {}
    taken: dict[str, list[float]] = {}

    def found() -> Results:
        seconds = {name: median(taken[name] or [first[name]]) for name in sides}
        known = {"bytes": traffic_of(inputs, want), "seconds": seconds, "absent": absent}
        return known | ({"wrong": absent["raido"]} if "raido" in absent else {})

    for name, make in sides_of(row, code, inputs, want, device):
        made = ready(make)
        if isinstance(made, str):
            absent[name] = made
        else:
            sides[name], first[name] = made
            taken[name] = []
        tell(found())
    for turn in range(samples):
        for name, side in list(sides.items()):
            if turn * first[name] > SIDE:
                continue
            number = min(MOST, 1 + int(BATCH / max(first[name], 1e-7)))
            again = ready(lambda side=side, number=number: lambda _: side(number) / number)
            if isinstance(again, str):
                absent[name] = again
                del sides[name]
            else:
                taken[name].append(again[1])
        tell(found())
    return found()


def ready(make: Callable[[], Timer]) -> tuple[Timer, float] | str:
    """The clock of a side and the seconds of its first run, or why there is none."""
    try:
        side = make()
        return side, side(1)
    except (Exception, SystemExit) as error:
        return in_a_line(error)


def sides_of(
    row: GpuRow, code: Timed, inputs: list[np.ndarray], want: Arrays, device: CudaDevice
) -> Iterator[tuple[str, Callable[[], Timer]]]:
    """The sides of a row, each with what checks its results and returns its clock."""
    there = [rd.device_array(array, device.target) for array in inputs]
    for name, executable in {"raido": code.executable, **code.schedules}.items():
        yield name, functools.partial(by_raido, name, executable, row, there, want)
    if row.streams:
        yield COPY, functools.partial(copy_of, traffic_of(inputs, want), device)
    for name, plan, kernels in ((BY_HAND, row.plan, code.by_hand), (TILED, row.tiled, code.tiled)):
        if plan:
            yield name, functools.partial(by_hand, name, row, plan, kernels, code.executable, there, want, device)
    for name, run in (("CuPy", row.cupy), ("CUB", row.cub), ("PyTorch", row.torch)):
        if run is not None:
            yield name, functools.partial(by_library, name, run, row, there, want, device)
    yield "Vulkan", functools.partial(on_vulkan, row, inputs)


def hold(who: str, row: GpuRow, got: Any, want: Arrays) -> None:
    found = got if isinstance(got, tuple) else (got,)
    check(f"{row.row.what}: {who}", row.row, [np.asarray(one) for one in found], want)


def traffic_of(inputs: Iterable[np.ndarray], want: Iterable[np.ndarray]) -> int:
    """Bytes that a row reads and writes at least."""
    return sum(array.nbytes for array in (*inputs, *want))


def by_raido(name: str, executable: DeviceExecutable, row: GpuRow, there: list[Any], want: Arrays) -> Timer:
    call = executable.bind(*there)
    call.run()
    hold(name, row, call.result(), want)
    return lambda number: call.time(number) * number


def copy_of(traffic: int, device: CudaDevice) -> Timer:
    """A copy on the device that reads and writes so many bytes together."""
    half = traffic // 2
    source, target = Memory(device, half), Memory(device, half)
    return lambda number: device.time(lambda: [target.copy_from(source, half) for _ in range(number)])


def by_hand(
    name: str,
    row: GpuRow,
    statements: tuple[Statement, ...],
    kernels: Mapping[str, Kernel],
    executable: DeviceExecutable,
    there: list[Any],
    want: Arrays,
    device: CudaDevice,
) -> Timer:
    """The plan of kernels in CUDA C."""
    loaded = {kernel: LoadedKernel(device, code) for kernel, code in kernels.items()}
    numbers = row.row.sizes(there)
    plan = encode_plan(statements, dict(kernels), list(numbers))
    memories = {value.name: array.memory for value, array in zip(executable.signature.inputs, there, strict=True)}
    memories["out"] = out = Memory(device, want[0].nbytes)
    start = lambda: run_plan(plan, device, loaded, numbers=numbers, memories=memories)
    start()
    hold(name, row, out.read(np.empty_like(want[0])), want)
    return lambda number: device.time(lambda: [start() for _ in range(number)])


def by_library(name: str, run: Any, row: GpuRow, there: list[Any], want: Arrays, device: CudaDevice) -> Timer:
    """Another library on the same arrays; its stream is ordered with raido's, whose clock measures both."""
    library = LIBRARIES[name]
    module = importlib.import_module(library.name)
    stream = library.stream(module)
    arrays = [module.from_dlpack(array) for array in there]
    start = run.make(module, *arrays) if isinstance(run, Bound) else functools.partial(run, module, *arrays)
    got = start()
    hold(name, row, tuple(to_cpu(one) for one in (got if isinstance(got, tuple) else (got,))), want)

    def between(number: int) -> None:
        device.let_wait(stream)
        for _ in range(number):
            start()
        device.wait_for(stream)

    return lambda number: device.time(lambda: between(number))


def to_cpu(array: Any) -> np.ndarray:
    return rd.from_dlpack(array).to("cpu")


def on_vulkan(row: GpuRow, inputs: list[np.ndarray]) -> Timer:
    """raido's default on the first Vulkan device; TargetError where that is the CPU."""
    from raido.targets.vulkan.library import find_device

    found = find_device()
    if found.kind == "cpu":
        raise rd.TargetError(f"the Vulkan device is {found.name}, the CPU")
    call = row.row.algorithm.compile("vulkan").bind(*(rd.device_array(a, "vulkan") for a in inputs))
    call.run()
    return lambda number: call.time(number) * number
