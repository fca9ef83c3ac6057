"""Generates SPIR-V from kernels in plain TIR, and lists it."""
