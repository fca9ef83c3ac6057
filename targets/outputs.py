"""The arrays of a call's results, and the structure that is returned: new arrays or the user's, nested as the algorithm returned them."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from raido.algo.errors import ArgumentError, ArrayTooLarge, SizeMismatch, explain
from raido.algo.graph.dtypes import numpy_dtype
from raido.algo.graph.limits import exceeds_limit, limit_text
from raido.algo.trace.argument_errors import counted, wrong
from raido.algo.trace.foreign import read_foreign
from raido.algo.trace.trees import branches
from raido.targets.native import allocate_array
from raido.targets.signature import Signature, Tree, Value, evaluate_size, size_names


def prepare_outputs(
    signature: Signature, sizes: Mapping[str, int], out: Any
) -> tuple[list[np.ndarray | None], list[np.ndarray | None]]:
    """The arrays that compiled code fills, and those among them that the user gave; None where there is none (yet)."""
    known = dict(sizes)
    for existential in signature.existentials:
        if existential.bound is not None:
            known[existential.name] = max(0, evaluate_size(existential.bound, known))
    given: list[np.ndarray | None] = [None] * len(signature.outputs)
    if out is not None:
        _take_out(signature, signature.output_tree, out, given)
    outputs: list[np.ndarray | None] = []
    for value, array, made in zip(signature.outputs, given, signature.made, strict=True):
        if made:
            if array is not None:
                raise ArgumentError(
                    f'{signature.name}: "{value.name}" is {value}, whose size is known only after the run: '
                    "it cannot be written to an array given as out (None may stand for it)"
                )
            outputs.append(None)
            continue
        shape = tuple(evaluate_size(size, known) for size in value.shape)
        if any(size < 0 for size in shape):
            raise SizeMismatch(f"{signature.name}: {value.name} would be {value} with a negative size: {shape}")
        dtype = numpy_dtype(value.dtype)
        if exceeds_limit(shape, dtype.itemsize):
            names = dict.fromkeys(name for size in value.shape for name in size_names(size))
            text = limit_text([sizes[name] for name in names if name in sizes] or shape)
            wanted = f"cannot allocate {prod(shape) * dtype.itemsize:,} bytes for an array of shape {shape}"
            raise ArrayTooLarge(explain(f"{signature.name}: {wanted}: {text}", **_where(signature, value)))
        if array is None:
            outputs.append(_allocated(signature, value, shape, dtype))
            continue
        if array.shape != shape or array.dtype.newbyteorder("=") != dtype:
            raise ArgumentError(
                f'{signature.name}: out for "{value.name}" must be {dtype} of shape {shape}, '
                f"got {array.dtype} of shape {array.shape}"
            )
        if not array.flags.writeable:
            raise ArgumentError(f'{signature.name}: out for "{value.name}" is read-only')
        if _overlaps_itself(array):
            raise ArgumentError(f'{signature.name}: out for "{value.name}" has elements that share memory')
        direct = array.dtype == dtype and array.flags.c_contiguous
        outputs.append(array if direct else _allocated(signature, value, shape, dtype))
    taken = [array for array in given if array is not None]
    for i, array in enumerate(taken):
        if any(np.may_share_memory(array, other) for other in taken[:i]):
            raise ArgumentError(f"{signature.name}: arrays given as out overlap each other")
    return outputs, given


def _allocated(signature: Signature, value: Value, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    try:
        return allocate_array(shape, dtype)
    except MemoryError as error:
        raise MemoryError(explain(f"{signature.name}: {error}", **_where(signature, value))) from None


def _where(signature: Signature, value: Value) -> dict[str, str | None]:
    """The line that makes a result, and its type."""
    site = signature.sites[value.site] if value.site >= 0 else None
    return {"algorithm": f"{site.file}:{site.line}   {site.text}" if site else None, "array": f"{value.name}: {value}"}


def _overlaps_itself(array: np.ndarray) -> bool:
    """Whether the elements of a strided array may share memory: some dimension steps over less than those inside it take."""
    if not array.size:
        return False  # NumPy gives dimensions of what is empty strides as it likes
    taken = array.dtype.itemsize
    for stride, size in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if stride < taken:
            return True
        taken += stride * (size - 1)
    return False


def _take_out(signature: Signature, tree: Tree, out: Any, given: list[np.ndarray | None]) -> None:
    if isinstance(tree, int):
        if out is None and signature.made[tree]:
            return
        if not isinstance(out, np.ndarray):
            if not hasattr(out, "__dlpack__"):
                raise wrong(signature, f'out for "{signature.outputs[tree].name}" must be an array', out)
            try:
                out = read_foreign(out)
            except ArgumentError as error:
                raise wrong(signature, f"out must be an array of the CPU ({error})", out) from error
        given[tree] = np.asarray(out)
        return
    ((kind, body),) = tree.items()
    if kind == "record":
        if not isinstance(out, Mapping) or set(out) != set(body):
            raise wrong(signature, f"out must be a dict with the keys {', '.join(body)}", out)
        for name, part in body.items():
            _take_out(signature, part, out[name], given)
        return
    parts = branches(kind, body)
    if not isinstance(out, (tuple, list)) or len(out) != len(parts):
        raise wrong(signature, f"out must be a tuple of {counted(len(parts), 'array')}", out)
    for part, item in zip(parts, out, strict=True):
        _take_out(signature, part, item, given)


def build_result(tree: Tree, leaves: Sequence[Any]) -> Any:
    """The leaves, nested as the tree says."""
    if isinstance(tree, int):
        return leaves[tree]
    ((kind, body),) = tree.items()
    if kind == "tuple":
        return tuple(build_result(part, leaves) for part in body)
    if kind == "record":
        return {name: build_result(part, leaves) for name, part in body.items()}
    return build_namedtuple(body, [build_result(part, leaves) for part in body["fields"].values()])


def build_namedtuple(body: Mapping[str, Any], items: Sequence[Any]) -> Any:
    """A named tuple as a {"namedtuple": body} tree says; equal names and fields give one class."""
    return _namedtuple_class(body["name"], tuple(body["fields"]))(*items)


@functools.cache
def _namedtuple_class(name: str, fields: tuple[str, ...]) -> Any:
    return namedtuple(name, fields)
