"""Prepares the output arrays of a call, new ones or the user's, and nests the results as the algorithm returned them."""

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
from raido.algo.trace.arguments import Placed, Placing
from raido.algo.trace.foreign import read_foreign
from raido.algo.trace.trees import branches
from raido.targets.native import allocate_array
from raido.targets.signature import Signature, Tree, Value, evaluate_size, size_names


def prepare_outputs(
    signature: Signature, sizes: Mapping[str, int], out: Any
) -> tuple[list[np.ndarray | None], list[np.ndarray | None]]:
    """The arrays that compiled code fills (None: the program allocates it), and the user's `out` arrays (None: none given), one per result."""
    shapes, given = output_shapes(signature, sizes), take_out(signature, out)
    outputs: list[np.ndarray | None] = []
    for value, shape, array in zip(signature.outputs, shapes, given, strict=True):
        if shape is None:
            outputs.append(None)
            continue
        dtype = numpy_dtype(value.dtype)
        if array is not None:
            check_given(signature, value, array, shape)
        direct = array is not None and array.dtype == dtype and array.flags.c_contiguous
        outputs.append(array if direct else _allocated(signature, value, shape, dtype))
    taken = [array for array in given if array is not None]
    for i, array in enumerate(taken):
        if any(np.may_share_memory(array, other) for other in taken[:i]):
            raise overlapping(signature)
    return outputs, given


def output_shapes(signature: Signature, sizes: Mapping[str, int]) -> list[tuple[int, ...] | None]:
    """The shape of each result, with sizes that data decides at their bounds; None for results that the program allocates.

    Raises `SizeMismatch` for a negative size, `ArrayTooLarge` for a shape beyond the limit on arrays.
    """
    known = dict(sizes)
    for existential in signature.existentials:
        if existential.bound is not None:
            known[existential.name] = max(0, evaluate_size(existential.bound, known))
    shapes: list[tuple[int, ...] | None] = []
    for value, made in zip(signature.outputs, signature.made, strict=True):
        if made:
            shapes.append(None)
            continue
        shape = tuple(evaluate_size(size, known) for size in value.shape)
        if any(size < 0 for size in shape):
            raise SizeMismatch(f"{signature.name}: {value.name} would be {value} with a negative size: {shape}")
        dtype = numpy_dtype(value.dtype)
        if exceeds_limit(shape, dtype.itemsize):
            names = dict.fromkeys(name for size in value.shape for name in size_names(size))
            text = limit_text([sizes[name] for name in names if name in sizes] or shape)
            wanted = f"cannot allocate {prod(shape) * dtype.itemsize:,} bytes for an array of shape {shape}"
            raise ArrayTooLarge(explain(f"{signature.name}: {wanted}: {text}", **line_of(signature, value)))
        shapes.append(shape)
    return shapes


def take_out(signature: Signature, out: Any, placing: Placing | None = None) -> list[Any]:
    """The user's `out` flattened to one array per result, None where it has none; `placing` converts arrays of a device.

    Raises `ArgumentError` where `out` is not nested like the results, or has an array for a result that the program allocates.
    """
    given: list[Any] = [None] * len(signature.outputs)
    if out is not None:
        _take_out(signature, signature.output_tree, out, given, placing)
    for value, array, made in zip(signature.outputs, given, signature.made, strict=True):
        if made and array is not None:
            raise ArgumentError(
                f'{signature.name}: "{value.name}" is {value}, whose size is known only after the run: '
                "it cannot be written to an array given as out (None may stand for it)"
            )
    return given


def check_given(signature: Signature, value: Value, array: np.ndarray | Placed, shape: tuple[int, ...]) -> None:
    """Refuses an `out` array of another shape or dtype than the result's, read-only, or with elements that share memory (`ArgumentError`)."""
    dtype = numpy_dtype(value.dtype)
    if array.shape != shape or array.dtype.newbyteorder("=") != dtype:
        raise ArgumentError(
            f'{signature.name}: out for "{value.name}" must be {dtype} of shape {shape}, '
            f"got {array.dtype} of shape {array.shape}"
        )
    if not isinstance(array, np.ndarray):
        return
    if not array.flags.writeable:
        raise ArgumentError(f'{signature.name}: out for "{value.name}" is read-only')
    if _overlaps_itself(array):
        raise ArgumentError(f'{signature.name}: out for "{value.name}" has elements that share memory')


def overlapping(signature: Signature) -> ArgumentError:
    """The error for `out` arrays that share memory."""
    return ArgumentError(f"{signature.name}: arrays given as out overlap each other")


def _allocated(signature: Signature, value: Value, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    try:
        return allocate_array(shape, dtype)
    except MemoryError as error:
        raise MemoryError(explain(f"{signature.name}: {error}", **line_of(signature, value))) from None


def line_of(signature: Signature, value: Value) -> dict[str, str | None]:
    """Labelled message lines of a result: the source line that computes it, its name and type."""
    site = signature.sites[value.site] if value.site >= 0 else None
    return {"algorithm": f"{site.file}:{site.line}   {site.text}" if site else None, "array": f"{value.name}: {value}"}


def _overlaps_itself(array: np.ndarray) -> bool:
    """Whether elements of a strided array may share memory: the stride of some dimension is less than the bytes that the dimensions inside
    it span."""
    if not array.size:
        return False  # NumPy gives dimensions of what is empty strides as it likes
    taken = array.dtype.itemsize
    for stride, size in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if stride < taken:
            return True
        taken += stride * (size - 1)
    return False


def _take_out(signature: Signature, tree: Tree, out: Any, given: list[Any], placing: Placing | None) -> None:
    if isinstance(tree, int):
        if out is None and signature.made[tree]:
            return
        try:
            placed = None if placing is None else placing(out)
        except ArgumentError as error:
            raise wrong(
                signature, f'out for "{signature.outputs[tree].name}" cannot be taken ({error})', out
            ) from error
        if placed is not None:
            given[tree] = placed
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
            raise _other_structure(signature, f"out must be a dict with the keys {', '.join(body)}", out)
        for name, part in body.items():
            _take_out(signature, part, out[name], given, placing)
        return
    parts = branches(kind, body)
    if not isinstance(out, (tuple, list)) or len(out) != len(parts):
        raise _other_structure(signature, f"out must be a tuple of {counted(len(parts), 'array')}", out)
    for part, item in zip(parts, out, strict=True):
        _take_out(signature, part, item, given, placing)


def _other_structure(signature: Signature, wanted: str, out: Any) -> ArgumentError:
    """The error for an `out` that is nested differently from the results."""
    return ArgumentError(explain(str(wrong(signature, wanted, out)), **{"try": f"out={_form(signature.output_tree)}"}))


def _form(tree: Tree) -> str:
    """Text of the results' nesting, with `…` for each array."""
    if isinstance(tree, int):
        return "…"
    ((kind, body),) = tree.items()
    parts = [_form(part) for part in branches(kind, body)]
    if kind == "record":
        return "{" + ", ".join(f'"{name}": {part}' for name, part in zip(body, parts, strict=True)) + "}"
    return f"({', '.join(parts)}{',' * (len(parts) == 1)})"


def result_in(signature: Signature, out: Any, given: Sequence[Any], leaves: Sequence[Any]) -> Any:
    """The results in the user's structure: the dict or tuple given as `out` itself, where every result went whole into it, else a new one."""
    whole = isinstance(out, (Mapping, tuple, list)) and not signature.existentials
    if whole and all(array is not None for array in given):
        return out
    return build_result(signature.output_tree, leaves)


def build_result(tree: Tree, leaves: Sequence[Any]) -> Any:
    """Leaves nested as the tree says."""
    if isinstance(tree, int):
        return leaves[tree]
    ((kind, body),) = tree.items()
    if kind == "tuple":
        return tuple(build_result(part, leaves) for part in body)
    if kind == "record":
        return {name: build_result(part, leaves) for name, part in body.items()}
    return build_namedtuple(body, [build_result(part, leaves) for part in body["fields"].values()])


def build_namedtuple(body: Mapping[str, Any], items: Sequence[Any]) -> Any:
    """A named tuple for a {"namedtuple": body} tree; equal names and fields give one class."""
    return _namedtuple_class(body["name"], tuple(body["fields"]))(*items)


@functools.cache
def _namedtuple_class(name: str, fields: tuple[str, ...]) -> Any:
    return namedtuple(name, fields)
