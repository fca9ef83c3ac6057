"""Random programs of families whose default loops differ by shape, against NumPy: narrow products, arg folds, sums of columns."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd

TYPES = ("u8", "i32", "f32", "f64")


def numbers(rng: np.random.Generator, dtype: str, *shape: int, most: int = 4) -> np.ndarray:
    """Small integers, so that sums are exact in any order."""
    return rng.integers(0, most, shape).astype(getattr(rd, dtype).numpy)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", (1, 2, 5, 8, 10, 13, 16, 17, 26, 40))
def test_products_with_results_as_narrow_as_a_register_or_less(dtype, width):
    rng = np.random.default_rng(width)
    product = rd.algorithm(lambda a, b: a @ b, a=f"{dtype}[n, k]", b=f"{dtype}[k, {width}]")
    for n, k in ((1, 3), (12, 20), (37, 21), (0, 5), (5, 0), (50, 100)):
        a, b = numbers(rng, dtype, n, k), numbers(rng, dtype, k, width)
        np.testing.assert_array_equal(product(a, b), a @ b)
