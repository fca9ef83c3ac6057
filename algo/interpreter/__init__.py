"""The reference interpreter: what a program means, over NumPy arrays."""
