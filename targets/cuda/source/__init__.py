"""Generates CUDA C from kernels in plain TIR."""
