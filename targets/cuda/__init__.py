"""CUDA back end: kernels in plain TIR become CUDA C, NVRTC makes machine code, the driver API runs it. Importing it needs nothing of
NVIDIA's."""
