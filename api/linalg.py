"""`rd.linalg`: NumPy's functions of linear algebra that need no factorisation, under NumPy's names."""

from raido.algo.language.reductions import matmul
from raido.algo.library.linear import norm, tensordot, vecdot

__all__ = ["matmul", "norm", "tensordot", "vecdot"]
