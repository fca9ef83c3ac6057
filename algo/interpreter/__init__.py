"""The reference interpreter: the meaning of a program, over NumPy arrays."""
