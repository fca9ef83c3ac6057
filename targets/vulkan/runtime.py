"""An open Vulkan device, whose compiled pipelines are kept between processes."""

from __future__ import annotations

import ctypes
from ctypes import c_void_p

from raido.targets.cache import Cache, key_of
from raido.targets.devices.runtime import OpenDevice
from raido.targets.vulkan.device import Device
from raido.targets.vulkan.library import Options, open_vulkan, runtime


class VulkanDevice(OpenDevice):
    """An open Vulkan device. `checked`: robust access, for kernels with descriptors, whose accesses beyond an array do no harm. `staging`:
    copies use staging memory even if the CPU could write directly. `memory`: the maximal number of bytes to allocate. `cache`: keeps
    compiled pipelines between processes."""

    def __init__(
        self,
        device: Device,
        *,
        validate: bool = False,
        checked: bool = False,
        staging: bool = False,
        memory: int = 0,
        cache: Cache | None = None,
    ) -> None:
        self.device, self._cache = device, cache
        self._key = key_of("vulkan pipelines", device.identity)
        entry = cache.get(self._key) if cache else None
        self._stored = entry[0] if entry else b""
        options = Options(device.index, checked, staging, memory, self._stored, len(self._stored))
        library, handle = runtime(), c_void_p()
        library.check(library.call.rd_device_open(open_vulkan(validate), ctypes.byref(options), ctypes.byref(handle)))
        super().__init__(device.name, f"vulkan:{device.index}", library, handle)

    def close(self) -> None:
        """Waits, keeps the pipelines, and frees everything: memory and kernels of the device may not be used any more."""
        if self.is_open:
            self.keep_pipelines()
        super().close()

    def keep_pipelines(self) -> None:
        """Writes compiled pipelines to the cache, if there are new ones."""
        if self._cache is None:
            return
        size = self.call.rd_device_cache(self.handle, None, 0)
        data = ctypes.create_string_buffer(size)
        size = self.call.rd_device_cache(self.handle, data, size)
        if data.raw[:size] != self._stored:
            self._stored = data.raw[:size]
            self._cache.put(self._key, self._stored, {"device": self.device.name, "driver": self.device.driver})
