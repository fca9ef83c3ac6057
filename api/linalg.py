"""`rd.linalg`: NumPy's functions of linear algebra, under NumPy's names."""

from raido.algo.language.reductions import matmul
from raido.algo.library.factorizations import (
    eigh,
    eigvalsh,
    lstsq,
    matrix_rank,
    pinv,
    qr,
    svd,
    svdvals,
)
from raido.algo.library.linalg import (
    diagonal,
    matrix_norm,
    matrix_power,
    matrix_transpose,
    multi_dot,
    trace,
    vector_norm,
)
from raido.algo.library.linear import cross, norm, outer, tensordot, vecdot
from raido.algo.library.linear_systems import cholesky, det, inv, slogdet, solve
from raido.algo.trace.publishing import publish

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

publish(globals())
