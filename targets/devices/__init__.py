"""Kernels, memory and host plans, common to all device APIs: the layer below the lowering that Vulkan and CUDA share."""
