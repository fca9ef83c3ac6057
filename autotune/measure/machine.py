"""The machine that measurements belong to: what it is, as data, and a digest of that."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from raido.autotune.measure.locks import locking
from raido.targets.target import Target, host_cpu

_DESCRIBED = ("vector_bits", "registers", "cores", "l1", "l2", "l3", "task")


@dataclass(frozen=True)
class MachineRecord:
    """The machine behind measurements: the processor's name, its caches, and the cores that were used. Equal ones have equal digests."""

    description: dict[str, Any]

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits."""
        return hashlib.sha256(json.dumps(self.description, sort_keys=True).encode()).hexdigest()[:16]


def this_machine(target: Target) -> MachineRecord:
    """This machine, as far as code for the target uses it; its own caches, whichever the target is said to have.

    `_DESCRIBED` alone makes the digest: what schedules learn of machines later leaves the measurements of today where they are found.
    """
    if target.machine.gpu is not None:
        return MachineRecord({"model": str(target), "cpu": _model(), **asdict(target.machine.gpu)})
    here, machine = host_cpu(), target.machine
    caches = {"l1": here.l1, "l2": here.l2, "l3": here.l3}
    described = {name: getattr(machine, name) for name in _DESCRIBED}
    return MachineRecord({"model": _model(), "cpu": target.cpu, **described, **caches})


def free_memory() -> int:
    """Bytes that could be used now without swapping; a gigabyte where the system does not say."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) << 10
    return 1 << 30


def cpus_for(target: Target) -> list[int]:
    """The processors that a run is pinned to: as many as the target uses, the last of those that this process may use; for a device all,
    as its driver may use them."""
    cores = sorted(os.sched_getaffinity(0))
    return cores if target.machine.gpu is not None else cores[-target.machine.cores :]


@contextmanager
def measuring_alone(patience: float = 120.0) -> Iterator[None]:
    """Held while something is timed: of all jobs of this user on this machine one at a time gets here. One that is stopped (Ctrl-Z) is
    waited for so many seconds, and then not any longer."""
    end = time.monotonic() + patience
    with locking("measuring") as locked:
        while not locked() and time.monotonic() < end:
            time.sleep(0.01)
        yield


def _model() -> str:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith("model name")).partition(":")[2].strip()
    return platform.processor()
