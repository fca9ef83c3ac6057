"""The signatures of NumPy's names: its parameters in its places, and `name` behind them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import raido as rd

NAMES = [
    "allclose",
    "argwhere",
    "array_equal",
    "average",
    "broadcast_to",
    "column_stack",
    "concatenate",
    "convolve",
    "correlate",
    "count_nonzero",
    "cross",
    "cumprod",
    "cumsum",
    "diag",
    "diagonal",
    "diff",
    "digitize",
    "dstack",
    "expand_dims",
    "eye",
    "flatnonzero",
    "flip",
    "fliplr",
    "flipud",
    "full",
    "full_like",
    "gradient",
    "histogram",
    "hstack",
    "identity",
    "indices",
    "inner",
    "interp",
    "isclose",
    "isin",
    "kron",
    "lexsort",
    "linspace",
    "median",
    "moveaxis",
    "nan_to_num",
    "nanmax",
    "nanmean",
    "nanmin",
    "nansum",
    "ones",
    "ones_like",
    "outer",
    "percentile",
    "ptp",
    "quantile",
    "ravel",
    "ravel_multi_index",
    "reshape",
    "roll",
    "rot90",
    "searchsorted",
    "select",
    "squeeze",
    "stack",
    "std",
    "swapaxes",
    "take",
    "take_along_axis",
    "tensordot",
    "tile",
    "trace",
    "transpose",
    "tri",
    "tril",
    "triu",
    "unravel_index",
    "var",
    "vdot",
    "vstack",
    "zeros",
    "zeros_like",
    "linalg.norm",
]


def found(module: Any, name: str) -> inspect.Signature:
    for part in name.split("."):
        module = getattr(module, part)
    return inspect.signature(module)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_stand_where_numpy_has_them(name: str) -> None:
    try:
        numpys = list(found(np, name).parameters.values())
    except ValueError:
        pytest.skip("NumPy's own is written in C and shows none")
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = {p.name for p in numpys}
    ours = list(found(rd, name).parameters.values())
    for mine, numpys_own in zip([p for p in ours if p.kind in plain], numpys, strict=False):
        if numpys_own.kind in plain:
            assert mine.name == numpys_own.name
    assert {parameter.name for parameter in ours} <= known | {"name"}
    assert ours[-1].name == "name" and ours[-1].kind is inspect.Parameter.KEYWORD_ONLY
