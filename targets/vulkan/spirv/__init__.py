"""Kernels as SPIR-V: from plain TIR to the words of a module, and to its listing."""
