"""The signatures of NumPy's names: its parameters in its places, and `name` behind them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import raido as rd

NAMES = [
    "allclose",
    "array_equal",
    "average",
    "convolve",
    "correlate",
    "cross",
    "digitize",
    "histogram",
    "inner",
    "interp",
    "isclose",
    "isin",
    "kron",
    "lexsort",
    "median",
    "nan_to_num",
    "nanmax",
    "nanmean",
    "nanmin",
    "nansum",
    "outer",
    "percentile",
    "ptp",
    "quantile",
    "searchsorted",
    "std",
    "tensordot",
    "trace",
    "var",
    "vdot",
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
