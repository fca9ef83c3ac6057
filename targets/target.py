"""Targets of compilation: `Target("llvm", cpu="znver4", threads=2)`, and detection of this machine's processor and devices.

A target without `cpu` is this host. The host is recognised from /proc and /sys, without TVM; a name outside the table here is looked up in
LLVM's list, and a wrong one is a `TargetError` (LLVM itself would only print a message and make code for something else). Code that depends
on the target's abilities asks for capabilities (`machine`, `capabilities`), never for its name.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from raido.algo.errors import TargetError, explain
from raido.algo.trace.tracebacks import bordered
from raido.schedule.machine import Gpu, Machine
from raido.targets.features import FEATURES, TURNED_OFF, name_features
from raido.targets.llvm.capabilities import Capabilities

if TYPE_CHECKING:
    from raido.targets.cuda.device import CudaInfo
    from raido.targets.vulkan.device import Device

# What LLVM may use on a processor of that name: a subset of `FEATURES`, kept here so that most compilations need not ask TVM.
_V2 = ("cx16", "pni", "popcnt", "sse4_1", "sse4_2", "ssse3")
_V3 = (*_V2, "abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe")
_AVX512 = ("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
_V4 = (*_V3, *_AVX512)
_VNNI = (*_V4, "avx512_vnni")
_ICELAKE = (*_VNNI, "avx512_bitalg", "avx512_vbmi2", "avx512_vpopcntdq", "avx512ifma", "avx512vbmi", "gfni")
_ZEN = (*_V3, "sse4a")
_ZEN4 = (*_ICELAKE, "avx512_bf16", "sse4a")


@dataclass(frozen=True, slots=True)
class Cpu:
    """A family of processors: LLVM's name, the features its code needs (names of `FEATURES`), and caches as in `Machine`, by their makers.

    Bytes a cycle from L3 and memory depend on the system around a processor: `Machine`'s are taken for all. No maker publishes
    `from_l2_late` and `fetched_to_store`: they were measured on an Emerald Rapids and a Zen 4, by sweeps of 4000² and 10,000² floats, and
    hold for all processors of the same maker. `streams_apart` and `streams` were measured too: two rows of 8192 columns, streamed, once
    took 1.8 times as long as with ordinary stores, and take 0.6 of that on a Sapphire Rapids, where six rows are best and twelve take up to
    1.4 times as long. turned_off: LLVM's names of features that the processor has and the code does not use.
    """

    name: str
    features: tuple[str, ...]
    l1: int = 32 << 10
    l2: int = 1 << 20
    l3: int = 32 << 20
    turned_off: tuple[str, ...] = ()
    l1_ways: int = 8
    l2_ways: int = 8
    from_l2: float = 64.0
    fill_buffers: int = 10
    from_l2_late: float = 10.0
    fetched_to_store: float = 1.9
    streams_apart: int = Machine.streams_apart
    streams: int = Machine.streams

    @property
    def machine(self) -> Machine:
        """The processor as schedules see it, with one core."""
        wide = 512 if set(_AVX512) <= set(self.features) else 256 if "avx2" in self.features else 128
        return Machine(
            wide,
            32 if wide == 512 else 16,
            1,
            self.l1,
            self.l2,
            self.l3,
            l1_ways=self.l1_ways,
            l2_ways=self.l2_ways,
            from_l2=self.from_l2,
            fill_buffers=self.fill_buffers,
            from_l2_late=self.from_l2_late,
            fetched_to_store=self.fetched_to_store,
            streams_apart=self.streams_apart,
            streams=self.streams,
        )


def _as_zen_4(cpu: Cpu) -> Cpu:
    return replace(cpu, from_l2_late=Machine.from_l2_late, fetched_to_store=Machine.fetched_to_store)


CPUS = {
    cpu.name: cpu
    for cpu in (
        Cpu("x86-64", (), l2=256 << 10, l3=8 << 20),
        Cpu("x86-64-v2", _V2, l2=256 << 10, l3=8 << 20),
        Cpu("x86-64-v3", _V3, l2=256 << 10, l3=8 << 20),
        _as_zen_4(Cpu("x86-64-v4", _V4, from_l2=32.0)),
        Cpu("nehalem", _V2, l2=256 << 10, l3=8 << 20, from_l2=32.0),
        Cpu("haswell", _V3, l2=256 << 10, l3=8 << 20),
        Cpu("broadwell", _V3, l2=256 << 10, l3=8 << 20),
        Cpu("skylake", _V3, l2=256 << 10, l3=8 << 20, l2_ways=4, fill_buffers=12),
        Cpu("skylake-avx512", _V4, l2_ways=16, fill_buffers=12),
        Cpu("cascadelake", _VNNI, l2_ways=16, fill_buffers=12),
        Cpu("icelake-server", _ICELAKE, l1=48 << 10, l2=1280 << 10, l1_ways=12, l2_ways=20, fill_buffers=16),
        Cpu(
            "sapphirerapids",
            (*_ICELAKE, "avx512_bf16", "avx512_fp16", "avx_vnni"),
            l1=48 << 10,
            l2=2 << 20,
            l1_ways=12,
            l2_ways=16,
            fill_buffers=16,
            streams_apart=0,
            streams=8,
        ),
        _as_zen_4(Cpu("znver1", _ZEN, l2=512 << 10, from_l2=32.0)),
        _as_zen_4(Cpu("znver2", _ZEN, l2=512 << 10, from_l2=32.0)),
        _as_zen_4(Cpu("znver3", _ZEN, l2=512 << 10, from_l2=32.0)),
        _as_zen_4(Cpu("znver4", _ZEN4, from_l2=32.0)),
        _as_zen_4(Cpu("znver5", (*_ZEN4, "avx_vnni"), l1=48 << 10, l1_ways=12, l2_ways=16)),
    )
}
# From the most particular to the most general: what the host is called is the first that it has all features of.
_INTEL = ("sapphirerapids", "icelake-server", "cascadelake", "skylake-avx512", "skylake", "x86-64-v2", "x86-64")
_AMD = ("znver5", "znver4", "x86-64-v4", "znver3", "x86-64-v3", "x86-64-v2", "x86-64")
_OTHER = ("x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64")


GPU_TASK = (
    1 << 10
)  # operations of one thread: some thousand threads run at a time, and a million elements are to keep them busy


@bordered
@dataclass(frozen=True, slots=True)
class Target:
    """Target of a compilation. `kind` is "llvm", "vulkan" or "cuda"; `cpu` an LLVM processor name ("" is this host); `threads` bounds each
    call (None: no bound); `device` is a GPU's index, or a part of its name ("" is the most useful one, or the features common to all
    devices); `arch` is a CUDA architecture that this machine need not have ("sm_90", or "compute_75" for PTX; "" is the device's).

    `hidden`: instruction sets that this machine is taken to lack, named as in /proc/cpuinfo (see `host_features`).
    """

    kind: str = "llvm"
    cpu: str = ""
    threads: int | None = None
    device: str = ""
    arch: str = ""
    hidden: tuple[str, ...] | None = field(default=None, compare=False)
    machine: Machine = field(init=False, compare=False)
    features: tuple[str, ...] = field(init=False, compare=False)
    turned_off: tuple[str, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.device, str):
            raise TargetError(f'device=… is a text, a number or a part of a name, such as "0", not {self.device!r}')
        if self.arch and self.kind != "cuda":
            raise TargetError(f'arch="{self.arch}" is of CUDA; a CPU is chosen by cpu=…, a Vulkan device by device=…')
        if self.kind in ("vulkan", "cuda"):
            self._describe_device()
            return
        if self.kind != "llvm":
            raise TargetError(_unknown_kind(self.kind))
        if self.device:
            raise TargetError(f'a CPU is chosen by cpu=…, not device="{self.device}"')
        if self.threads is not None and self.threads < 1:
            raise TargetError(f"the number of threads must be at least 1, not {self.threads}")
        cpu = host_cpu(self.hidden) if not self.cpu or self.cpu == "native" else _find_cpu(self.cpu)
        cores = self.threads or count_cpus()
        object.__setattr__(self, "cpu", cpu.name)
        object.__setattr__(self, "features", cpu.features)
        object.__setattr__(self, "turned_off", cpu.turned_off)
        object.__setattr__(self, "machine", replace(cpu.machine, cores=cores))

    def _describe_device(self) -> None:
        if self.cpu or self.threads is not None:
            raise TargetError(
                'a GPU has no cpu=… and no threads=…; it is chosen by device=…, such as "0" or a part of its name'
            )
        gpu = self._cuda_gpu() if self.kind == "cuda" else self._vulkan_gpu()
        object.__setattr__(self, "features", ())
        object.__setattr__(self, "turned_off", ())
        object.__setattr__(self, "machine", Machine(task=GPU_TASK, gpu=gpu))

    def _vulkan_gpu(self) -> Gpu:
        device = self.vulkan_device
        limits = (device.threads, device.block, device.subgroup, device.shared)
        in_turn = device.kind == "cpu"
        return Gpu(*limits, exchange=device.exchange, iterations=device.iterations, in_turn=in_turn, blocks=device.grid)

    def _cuda_gpu(self) -> Gpu:
        device = self.cuda_device
        return Gpu(
            *(device.threads, device.block, device.warp, device.shared, device.processors),
            exchange=device.warp,
            branches=True,
            ordered=True,  # blocks that have begun go on (CUDA C++ Programming Guide, "Thread hierarchy"; here they begin in order)
            products=device.products,
            warpgroups=device.warpgroups,
            asynchronous=device.asynchronous,
            blocks=device.grid,
        )

    @property
    def cuda_device(self) -> CudaInfo:
        """The device as code generation sees it, for kind "cuda"; raises `TargetError` where it does not exist."""
        from raido.targets.cuda.known import device_for

        return device_for(self.device, self.arch)

    @property
    def vulkan_device(self) -> Device:
        """The device as code generation sees it, for kind "vulkan"; raises `TargetError` where it does not exist."""
        from raido.targets.vulkan.known import device_for

        return device_for(self.device)

    @staticmethod
    def parse(text: str | Target | None) -> Target:
        """The target named by "llvm", "llvm:haswell", "vulkan", "vulkan:0" (a device's index, or a part of its name) or "cuda:sm_90"; a
        `Target` is returned as it is, None is "llvm"."""
        if isinstance(text, Target):
            return text
        if text is not None and not isinstance(text, str):
            given = "schedule=…" if hasattr(text, "complete") else 'target="llvm"'
            said = text if isinstance(text, (bool, int, float)) else type(text).__name__
            headline = f'a target is a rd.Target or a name such as "llvm", not {said}'
            if not hasattr(text, "complete"):
                given += "; like=(x, …) for examples of the arguments"
            raise TargetError(explain(headline, **{"try": given}))
        kind, _, which = (text or "llvm").partition(":")
        if kind == "cuda" and which.startswith(("sm_", "compute_")):
            return Target(kind, arch=which)
        return Target(kind, device=which) if kind in ("vulkan", "cuda") else Target(kind, which)

    @property
    def capabilities(self) -> Capabilities:
        """Processor capabilities that LLVM code may rely on."""
        machine, features = self.machine, self.features
        return Capabilities(
            machine.vector_bits,
            "fma" in features,
            "ssse3" in features,
            "avx512vbmi" in features,
            {"avx512dq", "avx512vl"} <= set(features),
            machine.streams_apart,
            "avx512_vnni" in features or ("avx_vnni" in features and machine.vector_bits < 512),
            "avx512_vbmi2" in features,
        )

    @property
    def is_host(self) -> bool:
        """Whether the target is this machine's own kind of processor."""
        return (
            self.kind == "llvm" and platform.machine() in ("x86_64", "AMD64") and self.cpu == host_cpu(self.hidden).name
        )

    @property
    def runs_here(self) -> bool:
        """Whether this machine can run the code: its processor has all features, or the device is here."""
        if self.kind == "vulkan":
            from raido.targets.vulkan.known import is_here

            return is_here(self.vulkan_device)
        if self.kind == "cuda":
            from raido.targets.cuda.library import list_devices

            with contextlib.suppress(TargetError):
                return bool(list_devices())
            return False
        return (
            self.kind == "llvm"
            and platform.machine() in ("x86_64", "AMD64")
            and set(self.features) <= host_features(self.hidden)
        )

    def __str__(self) -> str:
        if self.kind == "vulkan":
            return f"vulkan:{self.vulkan_device.name}"
        return f"cuda:{self.cuda_device.name}" if self.kind == "cuda" else f"llvm:{self.cpu}"


@dataclass(frozen=True, slots=True)
class TargetEntry:
    """A row of `targets()`: the target's name, whether it is available, and its description or the reason why it is missing."""

    name: str
    available: bool
    detail: str


def list_targets() -> tuple[TargetEntry, ...]:
    """Rows of `rd.targets`: the host's processor, CUDA devices, Vulkan devices."""
    try:
        host = Target()
    except TargetError as error:
        llvm = TargetEntry("llvm", False, str(error))
    else:
        m = host.machine
        caches = f"L1 {m.l1 >> 10} KiB, L2 {m.l2 >> 10} KiB, L3 {m.l3 >> 20} MiB"
        gone = ", ".join(sorted(host_features(()) - host_features()))
        less = f"; RAIDO_HIDE_FEATURES hides {gone}" if gone else ""
        llvm = TargetEntry("llvm", True, f"{host.cpu}, {m.vector_bits}-bit vectors, {m.cores} threads, {caches}{less}")
    return (
        llvm,
        *_device_entries("cuda"),
        *_device_entries("vulkan"),
    )


def _device_entries(kind: str) -> tuple[TargetEntry, ...]:
    """One row per device of an API, with its limits, or a single row with the reason why there is none."""
    if kind == "cuda":
        from raido.targets.cuda.library import list_devices
    else:
        from raido.targets.vulkan.library import list_devices

    try:
        devices = list_devices()
    except TargetError as error:
        return (TargetEntry(kind, False, str(error)),)
    if not devices:
        return (TargetEntry(kind, False, "this machine has no driver for it"),)
    return tuple(TargetEntry(f"{kind}:{device.index}", True, device.describe()) for device in devices)


def _unknown_kind(kind: str) -> str:
    meant = {"cpu": '"llvm"', "native": '"llvm"', "host": '"llvm"', "gpu": '"cuda" or "vulkan"'}.get(kind)
    name, _, which = kind.partition(":")
    if which and name in ("llvm", "cuda", "vulkan"):  # a whole name, given as the kind
        part = "cpu" if name == "llvm" else "arch" if which.startswith(("sm_", "compute_")) else "device"
        return explain(f'"{kind}" is no kind of target', **{"try": f'rd.Target("{name}", {part}="{which}")'})
    return explain(
        f'unknown target "{kind}"; there is: "llvm" (or "llvm:haswell" for a named processor), "vulkan" and "cuda" (or "vulkan:0" for a '
        'device, "cuda:sm_90" for an architecture)',
        **{"try": f'"llvm:{kind}"' if kind in CPUS else meant},
    )


def _find_cpu(name: str) -> Cpu:
    if name in CPUS:
        return CPUS[name]
    from raido.targets.tvm_corner import llvm_cpus, llvm_features

    known = llvm_cpus()
    if name not in known:
        near = difflib.get_close_matches(name, (*CPUS, *known), 4) or list(CPUS)
        raise TargetError(f'unknown cpu "{name}"; there is, for example: {", ".join(dict.fromkeys(near))}')
    found = llvm_features(name)
    if "64bit" not in found:
        raise TargetError(f'cpu "{name}" has no 64-bit mode, and raido makes code for x86-64')
    return Cpu(name, name_features(found), turned_off=tuple(sorted(TURNED_OFF & set(found))))


# --- the host


def host_features(hidden: Iterable[str] | None = None) -> frozenset[str]:
    """Instruction sets of this machine, named as in /proc/cpuinfo, without the hidden ones.

    hidden: None stands for the environment variable RAIDO_HIDE_FEATURES, names separated by commas. Every processor with 512-bit vectors
    needs "avx512f": hiding that one suffices to keep code for any of them from running. Raises `TargetError` for a name that no processor
    reports, since a misspelt one would hide nothing.
    """
    if hidden is None:
        hidden = os.environ.get("RAIDO_HIDE_FEATURES", "").split(",")
    return _features_without(frozenset(name.strip() for name in hidden) - {""})


@functools.cache
def _features_without(hidden: frozenset[str]) -> frozenset[str]:
    flags = next((line for line in _read_cpuinfo().splitlines() if line.startswith("flags")), "")
    there = frozenset(flags.partition(":")[2].split())
    known = there | FEATURES.keys()
    for name in sorted(hidden - known):
        near = difflib.get_close_matches(name, known, 4)
        raise TargetError(
            f'no instruction set is called "{name}", so it cannot be hidden; /proc/cpuinfo has the names'
            + (f", for example: {', '.join(near)}" if near else "")
        )
    return there - hidden


@functools.cache
def _read_cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""


def count_cpus() -> int:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def host_cpu(hidden: Iterable[str] | None = None) -> Cpu:
    """This machine's processor, without the hidden instruction sets (see `host_features`); raises `TargetError` on other than x86-64."""
    return _host_with(host_features(hidden))


@functools.cache
def _host_with(features: frozenset[str]) -> Cpu:
    if platform.machine() not in ("x86_64", "AMD64"):
        raise TargetError(
            f"raido makes code for x86-64, and this machine is {platform.machine()}; name a cpu to cross-compile"
        )
    text = _read_cpuinfo()
    order = _AMD if "AuthenticAMD" in text else _INTEL if "GenuineIntel" in text else _OTHER
    cpu = next(CPUS[name] for name in order if set(CPUS[name].features) <= features)
    return replace(cpu, **_host_caches(_MOST_L3_OF_INTEL if "GenuineIntel" in text else _MOST_L3))


_MOST_L3 = 32 << 20
"""Bytes of last-level cache for each core that sees it: no processor has more (AMD EPYC 9175F). A virtual machine that shows more shares
it with cores that it does not show."""
_MOST_L3_OF_INTEL = 6 << 20
"""Likewise of Intel's (Xeon 6787P), but for models of few cores that have up to 10 MiB for each."""


def _host_caches(most_l3: int, there: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> dict[str, int]:
    """Data caches that Linux reports, as fields of `Cpu`: ways, and bytes (of one core; for L3 of all cores that share it, at most
    `most_l3` for each that the system shows)."""
    found: dict[str, int] = {}
    for folder in sorted(there.glob("index*")):
        try:
            kind = (folder / "type").read_text().strip()
            level = int((folder / "level").read_text())
            size = (folder / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(size[-1:], 1)
        if kind != "Instruction" and size.rstrip("KMG").isdigit():
            found[f"l{level}"] = int(size.rstrip("KMG")) * scale
            if level == 3:
                found["l3"] = min(found["l3"], most_l3 * _count_listed(folder / "shared_cpu_list"))
            ways = _read_number(folder / "ways_of_associativity")
            if level < 3 and ways:
                found[f"l{level}_ways"] = ways
    return {name: value for name, value in found.items() if hasattr(Cpu, name)}


def _count_listed(file: Path) -> int:
    """The number of processors in a sysfs list (`0-3,8`); 1 where the file is missing."""
    try:
        ends = [[int(end) for end in part.split("-")] for part in file.read_text().strip().split(",")]
    except (OSError, ValueError):
        return 1
    return sum(each[-1] - each[0] + 1 for each in ends)


def _read_number(file: Path) -> int:
    """The number in a sysfs file; 0 where it is missing, as in some virtual machines."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0
