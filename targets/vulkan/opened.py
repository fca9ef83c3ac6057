"""The devices that this process has open: each is opened once, at its first use, and examined; all that runs on it shares it.

A process that was forked from this one opens devices of its own: the arrays and kernels of its parent are not there.
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
    """The open device with an index or a part of a name ("": see `find_device`), whose compiled pipelines are kept in the user's cache.

    validate: under Vulkan's validation layer; None is whether the environment variable RAIDO_VULKAN_VALIDATE is "1". A device that
    was closed, or lost, is opened anew. TargetError when there is none such.
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
    """At the end of the process: what the driver has compiled goes to the cache."""
    for device in _open.values():
        if device.is_open:
            device.keep_pipelines()


def _examined(device: Device, validate: bool) -> Device:
    """The device as `examine` finds it, from the user's cache where that knows the driver: kernels of its own need TVM."""
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
    """In a forked process: the parent's devices are abandoned, since none of their threads is here."""
    global _lock
    for device in _open.values():
        device.abandon()
    _open.clear()
    open_vulkan.cache_clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)
