"""Kernels as plain TIR: the code of one thread, for every back end that makes kernels of it."""
