"""Kernels, memory and host plans as every device API has them: what Vulkan and CUDA share below the lowering."""
