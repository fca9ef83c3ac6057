"""What code is made for: `Target("llvm", cpu="znver4", threads=2)`, and what this machine offers.

A target without `cpu` is this host. The host is recognised from /proc and /sys, without TVM; a name outside the table here is looked
up in LLVM's list, and a wrong one is a `TargetError` (LLVM itself would only print a message and make code for something else).
Whoever needs to know what a target can do asks for capabilities (`machine.vector_bits`, `fused`), never for its name.
"""

from __future__ import annotations

import difflib
import functools
import os
import platform
from dataclasses import dataclass, field, replace
from pathlib import Path

from raido.algo.errors import TargetError
from raido.schedule.machine import Machine

_V2 = ("cx16", "pni", "popcnt", "sse4_1", "sse4_2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")


@dataclass(frozen=True, slots=True)
class Cpu:
    """A family of processors: LLVM's name, the features its code needs (named as in /proc/cpuinfo), caches as in `Machine`."""

    name: str
    features: tuple[str, ...]
    l1: int = 32 << 10
    l2: int = 1 << 20
    l3: int = 32 << 20

    @property
    def machine(self) -> Machine:
        """The processor as schedules see it, with one core."""
        wide = 512 if "avx512f" in self.features else 256 if "avx2" in self.features else 128
        return Machine(wide, 32 if wide == 512 else 16, 1, self.l1, self.l2, self.l3)


CPUS = {
    cpu.name: cpu
    for cpu in (
        Cpu("x86-64-v2", _V2, l2=256 << 10, l3=8 << 20),
        Cpu("x86-64-v3", _V3, l2=256 << 10, l3=8 << 20),
        Cpu("x86-64-v4", _V4),
        Cpu("nehalem", _V2, l2=256 << 10, l3=8 << 20),
        Cpu("haswell", _V3, l2=256 << 10, l3=8 << 20),
        Cpu("broadwell", _V3, l2=256 << 10, l3=8 << 20),
        Cpu("skylake", _V3, l2=256 << 10, l3=8 << 20),
        Cpu("skylake-avx512", _V4),
        Cpu("cascadelake", (*_V4, "avx512_vnni")),
        Cpu("icelake-server", (*_V4, "avx512_vbmi2", "avx512_vnni"), l1=48 << 10, l2=1280 << 10),
        Cpu("sapphirerapids", (*_V4, "avx512_fp16", "avx512_vbmi2"), l1=48 << 10, l2=2 << 20),
        Cpu("znver1", _V3, l2=512 << 10),
        Cpu("znver2", _V3, l2=512 << 10),
        Cpu("znver3", _V3, l2=512 << 10),
        Cpu("znver4", (*_V4, "avx512_bf16", "avx512_vbmi2")),
        Cpu("znver5", (*_V4, "avx512_bf16", "avx512_vp2intersect"), l1=48 << 10),
    )
}
# From the most particular to the most general: what the host is called is the first that it has all features of.
_INTEL = ("sapphirerapids", "icelake-server", "cascadelake", "skylake-avx512", "skylake", "x86-64-v2")
_AMD = ("znver5", "znver4", "x86-64-v4", "znver3", "x86-64-v2")
_OTHER = ("x86-64-v4", "x86-64-v3", "x86-64-v2")


@dataclass(frozen=True, slots=True)
class Target:
    """What to compile for. `kind` is "llvm"; `cpu` an LLVM processor name ("" is this host); `threads` bounds each call (None: no bound)."""

    kind: str = "llvm"
    cpu: str = ""
    threads: int | None = None
    machine: Machine = field(init=False, compare=False)
    features: tuple[str, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if self.kind != "llvm":
            raise TargetError(_unknown_kind(self.kind))
        if self.threads is not None and self.threads < 1:
            raise TargetError(f"the number of threads must be at least 1, not {self.threads}")
        cpu = host_cpu() if not self.cpu or self.cpu == "native" else _find_cpu(self.cpu)
        cores = self.threads or count_cpus()
        object.__setattr__(self, "cpu", cpu.name)
        object.__setattr__(self, "features", cpu.features)
        object.__setattr__(self, "machine", replace(cpu.machine, cores=cores))

    @staticmethod
    def parse(text: str | Target | None) -> Target:
        """A target from "llvm", "llvm:haswell", or what is one already."""
        if isinstance(text, Target):
            return text
        if text is not None and not isinstance(text, str):
            raise TargetError(f'a target is a rd.Target or a name such as "llvm", not {text!r}')
        kind, _, cpu = (text or "llvm").partition(":")
        return Target(kind, cpu)

    @property
    def fused(self) -> bool:
        """Whether fused multiply-add is one instruction."""
        return "fma" in self.features

    @property
    def runs_here(self) -> bool:
        """Whether this machine can run the code."""
        return platform.machine() in ("x86_64", "AMD64") and set(self.features) <= host_features()

    def __str__(self) -> str:
        return f"{self.kind}:{self.cpu}"


@dataclass(frozen=True, slots=True)
class TargetEntry:
    """A row of `targets()`: a name, whether it is here, and what it is or why it is missing."""

    name: str
    available: bool
    detail: str


def targets() -> tuple[TargetEntry, ...]:
    """What this machine can compile for, and why the rest is missing."""
    try:
        host = Target()
    except TargetError as error:
        llvm = TargetEntry("llvm", False, str(error))
    else:
        m = host.machine
        caches = f"L1 {m.l1 >> 10} KiB, L2 {m.l2 >> 10} KiB, L3 {m.l3 >> 20} MiB"
        llvm = TargetEntry("llvm", True, f"{host.cpu}, {m.vector_bits}-bit vectors, {m.cores} threads, {caches}")
    return (
        llvm,
        TargetEntry("cuda", False, "raido has no code generator for CUDA yet"),
        TargetEntry("vulkan", False, "raido has no code generator for Vulkan yet"),
    )


def _unknown_kind(kind: str) -> str:
    if kind in ("cuda", "vulkan"):
        return f'target "{kind}" is not there yet; there is: "llvm"'
    return f'unknown target "{kind}"; there is: "llvm" (or "llvm:haswell" for a named processor)'


def _find_cpu(name: str) -> Cpu:
    if name in CPUS:
        return CPUS[name]
    from raido.targets.tvm_corner import cpu_features, llvm_cpus

    known = llvm_cpus()
    if name not in known:
        near = difflib.get_close_matches(name, (*CPUS, *known), 4) or list(CPUS)
        raise TargetError(f'unknown cpu "{name}"; there is, for example: {", ".join(dict.fromkeys(near))}')
    return Cpu(name, cpu_features(name))


# --- the host


@functools.cache
def host_features() -> frozenset[str]:
    """The instruction sets of this machine, named as in /proc/cpuinfo."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())


def count_cpus() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def host_cpu() -> Cpu:
    """This machine; TargetError when it is none that raido makes code for."""
    if platform.machine() not in ("x86_64", "AMD64"):
        raise TargetError(
            f"raido makes code for x86-64, and this machine is {platform.machine()}; name a cpu to cross-compile"
        )
    features = host_features()
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    order = _AMD if "AuthenticAMD" in text else _INTEL if "GenuineIntel" in text else _OTHER
    cpu = next((CPUS[name] for name in order if set(CPUS[name].features) <= features), None)
    if cpu is None:
        raise TargetError("this processor lacks SSE4.2, which raido needs")
    caches = _host_caches()
    return replace(cpu, l1=caches.get(1, cpu.l1), l2=caches.get(2, cpu.l2), l3=caches.get(3, cpu.l3))


def _host_caches() -> dict[int, int]:
    """Bytes of the data caches by level: of one core, and for the last level of all cores that share it."""
    sizes: dict[int, int] = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind = (folder / "type").read_text().strip()
            level = int((folder / "level").read_text())
            size = (folder / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(size[-1:], 1)
        if kind != "Instruction" and size.rstrip("KMG").isdigit():
            sizes[level] = int(size.rstrip("KMG")) * scale
    return sizes
