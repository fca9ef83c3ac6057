"""Documented properties of CUDA architectures, for compiling schedules and kernels on machines without the device."""

from __future__ import annotations

import re
from dataclasses import replace

from raido.algo.errors import TargetError
from raido.targets.cuda.device import CudaInfo
from raido.targets.cuda.library import find_device

# Bytes of shared memory that a block may have (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"), and the
# processors of a chip of that architecture: T4, A100, A6000, L40S, H100, B200, RTX 5090.
_ARCHITECTURES = {
    75: (64 << 10, 40),
    80: (163 << 10, 108),
    86: (99 << 10, 84),
    89: (99 << 10, 142),
    90: (227 << 10, 132),
    100: (227 << 10, 148),
    120: (99 << 10, 170),
}
_OLDEST = 75
_EXACT = ("sm_90a",)
"""Architectures whose code runs on one compute capability alone, because later ones lack some of its instructions."""


def device_for(which: str, architecture: str) -> CudaInfo:
    """A device of this machine by its index or a part of its name ("": the first), or the documented properties of an architecture
    ("sm_90", or "compute_75" for PTX, which every device from there on executes).

    Where neither is given and no device is found, kernels are compiled to PTX, for every device. Raises `TargetError` for an unknown
    architecture, or a device that does not exist.
    """
    if architecture:
        device = _documented(architecture)
        return replace(device, index=int(which)) if which.isdigit() else device
    try:
        return find_device(int(which) if which.isdigit() else which)
    except TargetError:
        if which:
            raise
        return _documented(f"compute_{_OLDEST}")


def _documented(architecture: str) -> CudaInfo:
    match = re.fullmatch(
        r"(?:sm|compute)_(\d+)", architecture.removesuffix("a") if architecture in _EXACT else architecture
    )
    if match is None or int(match.group(1)) not in _ARCHITECTURES:
        known = ", ".join([*(f"sm_{capability}" for capability in _ARCHITECTURES), *_EXACT])
        raise TargetError(f'unknown architecture "{architecture}"; there is: {known}, and compute_{_OLDEST} for PTX')
    capability = int(match.group(1))
    shared, processors = _ARCHITECTURES[capability]
    return CudaInfo(architecture, 0, "", capability, architecture, "", 1 << 34, processors, 32, 1024, shared)
