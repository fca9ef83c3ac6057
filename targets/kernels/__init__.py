"""Emits kernels as plain TIR, the code of one thread, for every device back end."""
