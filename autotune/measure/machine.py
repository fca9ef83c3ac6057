"""The machine that measurements belong to: its description as data, and a digest of that."""

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
    """The description of a machine: the processor's name, its caches, and the cores used. Equal descriptions have equal digests."""

    description: dict[str, Any]

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits of SHA-256."""
        return hashlib.sha256(json.dumps(self.description, sort_keys=True).encode()).hexdigest()[:16]


def this_machine(target: Target) -> MachineRecord:
    """This machine, as far as code for the target uses it, with its own caches, whatever the target's are.

    Only `_DESCRIBED` enters the digest, so that new properties of machines do not invalidate old measurements.
    """
    if target.machine.gpu is not None:
        return MachineRecord({"model": str(target), "cpu": _model(), **asdict(target.machine.gpu)})
    here, machine = host_cpu(), target.machine
    caches = {"l1": here.l1, "l2": here.l2, "l3": here.l3}
    described = {name: getattr(machine, name) for name in _DESCRIBED}
    return MachineRecord({"model": _model(), "cpu": target.cpu, **described, **caches})


def free_memory() -> int:
    """Bytes available without swapping; a gigabyte where the system does not report it."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) << 10
    return 1 << 30


def cpus_for(target: Target) -> list[int]:
    """Processors that a run is pinned to: as many as the target uses, the last of those that this process may use; for a device all, as its
    driver may use them."""
    cores = sorted(os.sched_getaffinity(0))
    return cores if target.machine.gpu is not None else cores[-target.machine.cores :]


@contextmanager
def measuring_alone(patience: float = 120.0) -> Iterator[None]:
    """Holds the user's measuring lock on this machine, so that one job at a time is timed. A holder that is stopped (Ctrl-Z) is waited for
    `patience` seconds, and then ignored."""
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
