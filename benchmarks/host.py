"""The machine on which figures were measured: the processor's name, family, model and stepping, and the number of usable cores."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def describe(cpuinfo: str, cores: int) -> str:
    """A processor by its name, family, model and stepping, which CPUID reports (a virtual machine may hide the name, not these), and cores."""
    said: dict[str, str] = {}
    for line in cpuinfo.split("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        said[key.strip()] = value.strip()
    name = said.get("model name") or platform.machine()
    numbers = [
        f"{what} {said[key]}"
        for what, key in (("family", "cpu family"), ("model", "model"), ("stepping", "stepping"))
        if key in said
    ]
    return f"{name} ({', '.join([*numbers, f'{cores} cores'])})"


def machine() -> str:
    """This machine."""
    return describe(Path("/proc/cpuinfo").read_text(), len(os.sched_getaffinity(0)))
