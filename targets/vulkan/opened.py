"""Vulkan devices that this process has open: each is opened and probed once, at its first use, and shared.

A process that was forked from this one opens devices of its own: its parent's arrays and kernels are not available there.
"""

from __future__ import annotations

import atexit
import functools
import os
import threading
from dataclasses import replace

from raido.targets.cache import Cache, key_of
from raido.targets.vulkan.device import Device
from raido.targets.vulkan.library import find_device, open_vulkan
from raido.targets.vulkan.probe import examine
from raido.targets.vulkan.runtime import VulkanDevice

_open: dict[tuple[int, bool], VulkanDevice] = {}
_lock = threading.Lock()


def open_device(which: int | str = "", validate: bool | None = None) -> VulkanDevice:
    """The open device with an index or a part of a name ("": see `find_device`); its compiled pipelines are kept in the user's cache.

    validate: use Vulkan's validation layer; None: if the environment variable RAIDO_VULKAN_VALIDATE is "1". A closed or lost device is
    opened again. Raises `TargetError` when none matches.
    """
    if validate is None:
        validate = os.environ.get("RAIDO_VULKAN_VALIDATE") == "1"
    device = find_device(which, validate)
    with _lock:
        found = _open.get((device.index, validate))
        if found is None or not found.is_open:
            found = VulkanDevice(_examined(device, validate), validate=validate, cache=_cache())
            if not _open:
                atexit.register(_keep_pipelines)  # behind the hook that closes devices, and so before it at the end
            _open[device.index, validate] = found
        return found


def _keep_pipelines() -> None:
    """Writes pipelines that the driver has compiled to the cache, at the end of the process."""
    for device in _open.values():
        if device.is_open:
            device.keep_pipelines()


def _examined(device: Device, validate: bool) -> Device:
    """The device with the results of `examine`, from the user's cache where that knows the driver: the probe kernels need TVM."""
    key = key_of("facts about a vulkan device", device.identity, device.name, device.driver)
    entry = _cache().get(key)
    if entry is None:
        found = examine(device, validate)
        _cache().put(key, b"", {"fused": sorted(found.fused), "iterations": found.iterations})
        return found
    return replace(device, fused=frozenset(entry[1]["fused"]), iterations=entry[1]["iterations"])


@functools.cache
def _cache() -> Cache:
    return Cache()


def _forget() -> None:
    """Abandons the parent's devices in a forked process, which has none of their threads."""
    global _lock
    for device in _open.values():
        device.abandon()
    _open.clear()
    open_vulkan.cache_clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)
