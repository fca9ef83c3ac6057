"""NumPy's covariances and correlations of variables given as the rows, or the columns, of a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raido.algo.errors import ShapeError, TraceError
from raido.algo.graph.dtypes import f64
from raido.algo.language import reductions, ufuncs
from raido.algo.language.complex_functions import conj
from raido.algo.language.complexes import Complex, complex128
from raido.algo.language.joining import concat
from raido.algo.language.moves import astype, named, transpose
from raido.algo.library.diagonals import diag
from raido.algo.library.operands import numbers_of
from raido.algo.library.statistics import average
from raido.algo.trace.locations import complaint
from raido.algo.trace.promotion import lift
from raido.algo.trace.value import Array

if TYPE_CHECKING:
    from raido.algo.language.parameters import DTypeLike


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Array:
    """The covariance matrix of the variables in the rows of `m` (in the columns where `rowvar` is False) and of `y`; a scalar for one
    variable.

    Sums of products of deviations from the means, divided by n − 1 for n observations (by n with `bias`, by n − `ddof` where that is
    given). `fweights` are repetition counts of the observations, `aweights` their relative weights. The dtype is f64 or complex128, or
    `dtype`. ShapeError for more than two dimensions.

    Example:
        >>> rd.algorithm(lambda a: rd.cov(a)).interpret(np.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
        array([[ 1., -1.],
               [-1.,  1.]])
    """
    wide = dtype if dtype is not None else complex128 if any(_complex(v) for v in (m, y)) else f64
    variables = _rows(m, rowvar, "rd.cov")
    if y is not None:
        variables = concat([variables, _rows(y, rowvar, "rd.cov")], 0)
    x = astype(variables, wide)
    weights = _weights(fweights, aweights)
    lost = (0 if bias else 1) if ddof is None else ddof
    count = astype(lift(x.shape[1]), f64)
    if weights is not None:
        count = reductions.sum(weights)
        if aweights is not None and not (isinstance(lost, int) and lost == 0):
            lost = lost * reductions.sum(weights * astype(numbers_of(aweights, "rd.cov"), f64)) / count
    mean = average(x, 1, weights, keepdims=True)
    distances = x - mean
    weighted = distances if weights is None else distances * weights
    products = reductions.matmul(distances, conj(transpose(weighted)))
    part = products.real.dtype if isinstance(products, Complex) else products.dtype
    result = products * astype(1.0 / ufuncs.maximum(count - lost, 0.0), part)
    if isinstance(x.shape[0], int) and x.shape[0] == 1:
        result = result[0, 0]
    return result if name is None else named(result, name)


def corrcoef(
    x: Any, y: Any = None, rowvar: bool = True, *, dtype: DTypeLike | None = None, name: str | None = None
) -> Array:
    """The correlation coefficients of variables: `rd.cov` divided by the standard deviations, each part within −1 … 1.

    Example:
        >>> rd.algorithm(lambda a: rd.corrcoef(a)).interpret(np.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
        array([[ 1., -1.],
               [-1.,  1.]])
    """
    covariances = cov(x, y, rowvar, dtype=dtype)
    if covariances.ndim == 0:
        return ufuncs.divide(covariances, covariances, name=name)
    deviation = ufuncs.sqrt(diag(covariances.real))
    scaled = covariances / deviation[:, None] / deviation[None, :]
    if isinstance(scaled, Complex):
        result: Any = Complex._make(ufuncs.clip(part, -1.0, 1.0) for part in (scaled.real, scaled.imag))
    else:
        result = ufuncs.clip(scaled, -1.0, 1.0)
    return result if name is None else named(result, name)


def _complex(value: Any) -> bool:
    return value is not None and isinstance(numbers_of(value, "rd.cov"), Complex)


def _rows(value: Any, rowvar: bool, what: str) -> Any:
    """The variables as the rows of a matrix."""
    given = numbers_of(value, what)
    if given.ndim > 2:
        raise ShapeError(complaint(f"{what} of an array of rank {given.ndim}: variables are rows or columns"))
    if given.ndim < 2:
        return given[(None,) * (2 - given.ndim) + (...,)]
    return given if rowvar else transpose(given)


def _weights(counts: Any, sizes: Any) -> Any:
    """The weight of each observation in f64; None without weights."""
    given = [numbers_of(v, "rd.cov") for v in (counts, sizes) if v is not None]
    if any(isinstance(w, Complex) or w.ndim != 1 for w in given):
        raise TraceError(complaint("weights of rd.cov are real, one for each observation"))
    factors = [astype(w, f64) for w in given]
    return None if not factors else factors[0] if len(factors) == 1 else factors[0] * factors[1]
