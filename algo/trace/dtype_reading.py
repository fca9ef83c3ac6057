"""The element types denoted by `dtype` arguments and annotations: raido's own, NumPy's, their names, and Python's number classes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from raido.algo.errors import DTypeError
from raido.algo.graph.dtypes import DType, dtype_named, dtype_of, f32, f64, kind_of
from raido.algo.trace.locations import complaint

COMPLEX_TYPES: dict[DType, Any] = {}  # the complex type with parts of a type
_CLASSES = (bool, int, float, complex)
_ABSTRACT = {kind for made in np.sctypeDict.values() for kind in made.__mro__ if kind is not made} - {*_CLASSES}
_NAME = re.compile(
    "[a-z]{3,}[0-9]*_?"
)  # "float32", "bool_"; not NumPy's codes: its "i8" has eight bytes, raido's eight bits


def find_dtype(value: Any) -> Any:
    """Returns the element type, possibly complex, that a value denotes; None where it denotes none."""
    if isinstance(value, DType) or any(value is kind for kind in COMPLEX_TYPES.values()):
        return value
    if isinstance(value, str):
        return _named(value)
    if isinstance(value, np.dtype) or (
        isinstance(value, type) and (value in _CLASSES or issubclass(value, np.generic))
    ):
        return _of_numpy(value)
    return None


def read_dtype(value: Any, what: str = "`dtype`") -> Any:
    """Returns the element type that a value denotes; raises `DTypeError`, which names the parameter, where it denotes none."""
    found = find_dtype(value)
    if found is None:
        remedy = 'rd.f32, np.float32, "float32" or float'
        raise DTypeError(complaint(f"{what} is an element type, not {_shown(value)}", remedy=remedy))
    return found


def read_real(value: Any, what: str = "`dtype`") -> DType:
    """Returns the real element type that a value denotes; raises `DTypeError` for a complex one or none."""
    found = read_dtype(value, what)
    if not isinstance(found, DType):
        raise DTypeError(complaint(f"{what} is a real element type, not {found}"))
    return found


def _named(text: str) -> Any:
    try:
        return dtype_named(text)
    except KeyError:
        pass
    if not _NAME.fullmatch(text):
        return None
    try:
        return _of_numpy(np.dtype(text))
    except TypeError:
        return None


def _of_numpy(value: Any) -> Any:
    if isinstance(value, type) and value in _ABSTRACT:
        return None
    dtype = np.dtype(value)
    if dtype.kind == "c":
        parts = {8: f32, 16: f64}.get(dtype.itemsize)
        return None if parts is None else COMPLEX_TYPES[parts]
    return dtype_of(dtype.newbyteorder("=")) if kind_of(dtype) in "biuf" else None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else type(value).__name__
