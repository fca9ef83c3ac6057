"""Library functions inside functions of elements: the result for every row is that of the function of the row alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raido as rd

OF_ROWS: dict[str, Callable[[Any], Any]] = {
    "array_equal": lambda r: rd.array_equal(r, r[::-1]),
    "average": lambda r: rd.average(r, weights=r),
    "convolve": lambda r: rd.convolve(r, [1.0, 2.0], "same"),
    "cross": lambda r: rd.cross(r[:3], r[3:6]),
    "digitize": lambda r: rd.digitize(r, [0.3, 0.6]),
    "einsum": lambda r: rd.einsum("i,j->ij", r, r),
    "einsum of all": lambda r: rd.einsum("i,i->", r, r),
    "fori_loop": lambda r: rd.fori_loop(0, 3, lambda i, s: s + r[i], rd.f32(0)),
    "histogram": lambda r: rd.histogram(r, 4)[0],
    "interp": lambda r: rd.interp(r, [0, 1], [5, 6]),
    "isin": lambda r: rd.isin(r, r[:3]),
    "kron": lambda r: rd.kron(r[:2], r[:3]),
    "lexsort": lambda r: rd.lexsort((r, r)),
    "logsumexp": lambda r: rd.logsumexp(r),
    "median": lambda r: rd.median(r),
    "nanmax": lambda r: rd.nanmax(r),
    "norm": lambda r: rd.linalg.norm(r),
    "quantile": lambda r: rd.quantile(r, [0.2, 0.7]),
    "searchsorted": lambda r: rd.searchsorted(rd.sort(r), 0.5),
    "softmax": lambda r: rd.softmax(r),
    "var": lambda r: rd.var(r),
}


def rows() -> np.ndarray:
    return np.random.default_rng(0).random((4, 9), np.float32)


@pytest.mark.parametrize("name", sorted(OF_ROWS))
def test_of_every_row(name: str) -> None:
    function = OF_ROWS[name]
    alone = rd.algorithm(lambda r: function(r))
    ours = rd.algorithm(lambda a: rd.map(function, a)).interpret(rows())
    np.testing.assert_allclose(ours, [alone.interpret(row) for row in rows()], rtol=1e-6)


def test_compiled_code_agrees() -> None:
    chosen = ("einsum", "histogram", "interp", "isin", "median", "var")
    program = rd.algorithm(lambda a: rd.map(lambda r: tuple(OF_ROWS[name](r) for name in chosen), a))
    for ours, reference in zip(program(rows()), program.interpret(rows()), strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-6)
