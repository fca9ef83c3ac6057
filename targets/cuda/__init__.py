"""CUDA: kernels in plain TIR as CUDA C, machine code by NVRTC, and devices by the driver API; nothing of NVIDIA's is needed to import it."""
