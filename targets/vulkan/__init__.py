"""Vulkan back end: kernels in SPIR-V, and the devices that run them."""
