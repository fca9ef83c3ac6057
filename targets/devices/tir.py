"""Queries on TIR nodes: types, names, buffers. Nodes are distinguished by their class names."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

from raido.algo.graph.dtypes import DType, dtype_named

_TYPE = re.compile(r"(bool|float|int|uint)(\d*)(?:x(\d+))?")
_CHILDREN = (
    "a",
    "b",
    "value",
    "base",
    "stride",
    "condition",
    "true_value",
    "false_value",
    "body",
    "then_case",
    "else_case",
)
_CHILDREN += ("min", "extent", "step")
_LISTS = ("args", "indices", "seq", "vectors")


def kind(node: Any) -> str:
    """The class name of a node; loads are "BufferLoad", whichever of TVM's two names they have."""
    name = type(node).__name__
    return "BufferLoad" if name == "TensorLoad" else name


@functools.cache
def read_type(name: str) -> tuple[DType, int]:
    """The dtype and number of lanes of a type's name, "float32x4"."""
    match = _TYPE.fullmatch(name)
    if match is None:
        raise ValueError(f"{name} is no type of numbers")
    base, bits, lanes = match.groups()
    letter = {"float": "f", "int": "i", "uint": "u"}.get(base, "")
    return dtype_named(f"{letter}{bits}" if letter else "bool"), int(lanes or 1)


def type_of(node: Any) -> tuple[DType, int]:
    """The dtype and number of lanes of an expression."""
    return read_type(str(node.ty.dtype))


def callee(call: Any) -> tuple[str, list[Any]]:
    """The name and the arguments of a call; for an external function its own name and arguments."""
    name, arguments = call.op.name.rpartition(".")[2], list(call.args)
    if name in ("call_extern", "call_pure_extern"):
        return str(arguments[0].value), arguments[1:]
    return name, arguments


def consecutive(index: Any) -> Any:
    """The first index of a ramp with stride 1; None for other indices."""
    if kind(index) == "Ramp" and kind(index.stride) == "IntImm" and int(index.stride.value) == 1:
        return index.base
    return None


def buffer_of(access: Any) -> Any:
    """The buffer of a load or store."""
    return access.buffer if hasattr(access, "buffer") else access.source


def walk(node: Any) -> Iterator[Any]:
    """A node and its descendants, in preorder."""
    yield node
    for name in _CHILDREN:
        child = getattr(node, name, None)
        if hasattr(child, "script"):
            yield from walk(child)
    for name in _LISTS:
        for child in getattr(node, name, None) or ():
            if hasattr(child, "script"):
                yield from walk(child)
