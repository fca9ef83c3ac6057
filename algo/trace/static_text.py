"""Static (keyword-only) parameters and types as Python text, from which schedules print the call that traced a program.

Text replaces the values because programs are pickled, and functions cannot be. A value without a short expression, such as a `lambda` or a
large array, is written as the name of its parameter, for the reader to define.
"""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from raido.algo.graph import index
from raido.algo.graph.dtypes import DType
from raido.algo.trace.signature import static_key
from raido.algo.trace.types import ArrayType, ComplexArrayType, SizeType, Type

_LARGEST_ARRAY = 1000  # elements; about ten lines of text per hundred, more than a person reads


class _NoText(Exception):
    """Raised for a value without a short Python expression."""


def static_texts(values: Mapping[str, Any], defaults: Mapping[str, Any], fixed: Collection[str]) -> dict[str, str]:
    """Returns the text of every static parameter that a call must pass: its value is not the default, or `rd.capture` has fixed it."""
    return {
        name: static_text(name, value)
        for name, value in values.items()
        if name in fixed or name not in defaults or static_key(value) != static_key(defaults[name])
    }


def static_text(name: str, value: Any) -> str:
    """Returns the value of a parameter as a Python expression over `rd`, `np` and the user's names, else the parameter's name."""
    try:
        return _text(value)
    except _NoText:
        return name


def type_texts(types: Sequence[Type], declared: Sequence[Type | None]) -> tuple[str, ...]:
    """Returns the types of all arguments as `schedule` and `compile(like=)` take them; none where they are the declared types, or one has
    no text."""
    try:
        return () if tuple(types) == tuple(declared) else tuple(map(_type_text, types))
    except _NoText:
        return ()


def _type_text(of: Type) -> str:
    if isinstance(of, (ArrayType, ComplexArrayType)):
        complex_ = isinstance(of, ComplexArrayType)
        name = f"complex{2 * of.dtype.bits}" if complex_ else str(of.dtype)
        return f'"{name}[{", ".join(map(index.text, of.shape))}]"' if of.shape else f'"{name}"'
    if isinstance(of, SizeType):
        return "rd.size"
    if type(of) is tuple:
        return f"({', '.join(map(_type_text, of))}{',' if len(of) == 1 else ''})"
    raise _NoText


def keywords(texts: Mapping[str, str]) -> str:
    """Returns static parameters as keywords of a call, such as `width=200, hop=50`."""
    return ", ".join(f"{name}={text}" for name, text in texts.items())


def _text(value: Any) -> str:
    kind = type(value)
    if value is None or value is ... or kind in (bool, int, str, bytes):
        return repr(value)
    if kind is float:
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if kind is complex and math.isfinite(value.real) and math.isfinite(value.imag):
        return repr(value)
    if kind is tuple:
        return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
    if kind is list:
        return f"[{', '.join(map(_text, value))}]"
    if kind is dict:
        return f"{{{', '.join(f'{_text(key)}: {_text(part)}' for key, part in value.items())}}}"
    if isinstance(value, DType):
        return f"rd.{value.name}"
    if isinstance(value, enum.Enum) and (value.name or "").isidentifier():  # combined flags have no name, or `A|B`
        return f"{_path(kind)}.{value.name}"
    if isinstance(value, np.dtype) and value.names is None:
        return f'np.dtype("{value.str}")'
    if isinstance(value, (np.bool_, np.number)) and type(value.item()) is not kind:  # Python has no long double
        return f"np.{kind.__name__}({_text(value.item())})"
    if isinstance(value, np.ndarray) and value.size <= _LARGEST_ARRAY and value.dtype.kind in "biufc" and value.size:
        return f'np.array({_text(value.tolist())}, "{value.dtype.name}")'
    return _path(value)


def _path(value: Any) -> str:
    """Returns the qualified name of a function or class in `raido`, NumPy or its own module."""
    name = getattr(value, "__name__", "")
    for short, module in (("rd", sys.modules.get("raido")), ("np", np)):
        if name and getattr(module, name, None) is value:
            return f"{short}.{name}"
    qualified = getattr(value, "__qualname__", "")
    found: Any = sys.modules.get(getattr(value, "__module__", None) or "")
    for part in qualified.split("."):
        found = getattr(found, part, None)
    if not qualified or found is not value:
        raise _NoText
    return str(qualified)
