"""The code of a compiled program in a form that can be copied to a machine with a GPU."""

from __future__ import annotations

from typing import Any

from raido.targets.cuda.opened import open_device
from raido.targets.devices.executable import DeviceExecutable


def portable(executable: Any) -> DeviceExecutable:
    """The executable with its code alone: it opens the first device, and shows no source."""
    return DeviceExecutable(executable.signature, executable.code, "cuda", open_device)
