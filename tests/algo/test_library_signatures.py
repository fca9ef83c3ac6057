"""The parameters of NumPy's functions: NumPy's, in NumPy's order; each difference has a row in the guide's table "differs from NumPy"."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raido as rd

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide.md"
LEFT_OUT = {"axes", "casting", "device", "kwargs", "like", "order", "out", "overwrite_input", "signature", "subok"}
DIFFERENT = {  # parameters that differ, by name; each name stands in the guide's table
    "array": {"ndmax"},
    "arange": {"start_or_stop"},
    "bincount": {"index", "length", "weights", "minlength"},
    "choose": {"a", "choices", "mode", "name", "options"},
    "einsum": {"subscripts", "dtype"},
    "from_dlpack": {"copy"},
    "load": {"path", "file", "mmap_mode", "allow_pickle", "fix_imports", "encoding", "max_header_size"},
    "matmul": {"axis", "keepdims"},
    "matvec": {"axis", "keepdims"},
    "nanpercentile": {"weights"},
    "nanquantile": {"weights"},
    "pad": {"constant_values"},
    "partition": {"pred", "arrays", "a", "kth", "axis", "kind"},
    "percentile": {"weights"},
    "quantile": {"weights"},
    "repeat": {"counts", "repeats", "axis"},
    "trim_zeros": {"axis"},
    "vecdot": {"axis", "keepdims"},
    "vecmat": {"axis", "keepdims"},
    "where": {"x", "y"},
}
OLDEST = "2.3.0"  # before it `unique` has no `sorted`, and some names have parameters that were taken away since
LATER = {"descending"}  # parameters that NumPy has since 2.5
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def functions(module: Any, numpys: Any, prefix: str = "") -> dict[str, tuple[Any, Any]]:
    """The public functions of a module that NumPy's has too, with both."""
    pairs = {name: (getattr(module, name), getattr(numpys, name, None)) for name in module.__all__}
    return {prefix + name: pair for name, pair in pairs.items() if callable(pair[1]) and not isinstance(pair[1], type)}


SHARED = functions(rd, np) | functions(rd.fft, np.fft, "fft.") | functions(rd.linalg, np.linalg, "linalg.")


def same_default(ours: inspect.Parameter, numpys: inspect.Parameter) -> bool:
    """Whether a parameter that is left out means the same: NumPy's own "no value" is None, False or True, and None is a weak dtype."""
    if repr(numpys.default) == "<no value>":
        return ours.default is None or isinstance(ours.default, bool)
    return ours.default == numpys.default or (numpys.name == "dtype" and ours.default is None)


def differences(ours: inspect.Signature, numpys: inspect.Signature, ufunc: bool) -> set[str]:
    """The parameters by which a call that NumPy takes is refused, or means something else, and those that NumPy does not have."""
    mine, found, in_place = dict(ours.parameters), set[str](), True
    for place, theirs in enumerate(numpys.parameters.values()):
        in_place = in_place and theirs.name not in LEFT_OUT
        if theirs.name in LEFT_OUT:
            mine.pop(theirs.name, None)
        elif theirs.kind in POSITIONAL and in_place:
            own = list(ours.parameters.values())[place : place + 1]
            named = theirs.kind is inspect.Parameter.POSITIONAL_ONLY or (own and own[0].name == theirs.name)
            if not own or own[0].kind not in POSITIONAL or not named or not same_default(own[0], theirs):
                found.add(theirs.name)
            for parameter in own:
                mine.pop(parameter.name, None)
        else:
            own_one = mine.pop(theirs.name, None)
            if own_one is None or not same_default(own_one, theirs):
                found.add(theirs.name)
    mine.pop("name", None)
    return found | (set(mine) - {"out", "where", "dtype"} if ufunc else set(mine))


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < OLDEST, reason=f"the parameters are those of NumPy {OLDEST} and later"
)
@pytest.mark.parametrize("name", sorted(SHARED))
def test_parameters_are_numpys(name: str) -> None:
    own, numpys = SHARED[name]
    try:
        theirs = inspect.signature(numpys)
    except ValueError:
        pytest.skip("NumPy's own is written in C and shows none")
    found = differences(inspect.signature(own), theirs, ufunc=isinstance(numpys, np.ufunc))
    if name.startswith("linalg."):  # the function of `rd`, which may have more parameters
        found -= set(inspect.signature(own).parameters)
    assert found - LATER <= DIFFERENT.get(name.rpartition(".")[2], set())


@pytest.mark.parametrize("name", sorted(SHARED.keys() - {"choose", "load"}))
def test_the_name_of_the_stage_is_a_keyword(name: str) -> None:
    own = inspect.signature(SHARED[name][0]).parameters.get("name")
    assert own is None or own.kind is inspect.Parameter.KEYWORD_ONLY


def test_differences_stand_in_the_guide() -> None:
    table = GUIDE.read_text().partition("| name or rule | differs from NumPy |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("|")]
    named = {word for row in rows for word in re.findall(r"`([^`]*)`", row)}
    assert set(DIFFERENT) <= named
