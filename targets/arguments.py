"""From what the user passed to what compiled code takes: the complete, careful way, with every check and every message.

`bind_arguments` accepts anything array-like and refuses with one error that names the argument, what came and what is right. The
quick way for the ordinary case (`fastcall`) falls back to this one, so nothing is decided here only.
Invariants of a `Bound`: inputs and outputs are C-contiguous ndarrays of exactly the signature's dtypes and shapes; no output shares
memory with an input or another output; the user's arrays stay untouched until `finish` copies into those given as `out`. An output
that the program allocates is None until then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from raido.algo.errors import ArgumentError, SizeMismatch, explain
from raido.algo.trace.foreign import is_foreign, read_foreign
from raido.targets.argument_errors import LITERALS, bytes_text, counted, describe, misfit, wrong
from raido.targets.argument_sizes import solve_sizes
from raido.targets.outputs import build_result, prepare_outputs
from raido.targets.signature import (
    LARGEST_SIZE,
    Signature,
    Tree,
    Value,
    branches,
    evaluate_size,
    size_names,
)

Take: TypeAlias = Callable[[int, tuple[int, ...], "np.dtype[Any]"], np.ndarray]
_KIND_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


@dataclass(frozen=True, slots=True)
class Bound:
    """The arrays and sizes of one call; `given` are the user's `out` arrays in the order of outputs, None where there is none."""

    inputs: tuple[np.ndarray, ...]
    sizes: Mapping[str, int]
    outputs: tuple[np.ndarray | None, ...]
    given: tuple[np.ndarray | None, ...]

    @property
    def nbytes(self) -> int:
        """Compulsory traffic: every input read once and every output written once."""
        return sum(array.nbytes for array in (*self.inputs, *self.outputs) if array is not None)


def bind_arguments(signature: Signature, arguments: Sequence[Any], out: Any = None) -> Bound:
    """Checks and converts the arguments of a call; ArgumentError or SizeMismatch when they do not fit."""
    found: list[np.ndarray | None] = [None] * len(signature.inputs)
    explicit: dict[str, int] = {}
    parts = signature.input_tree["tuple"]
    if len(arguments) != len(parts):
        raise ArgumentError(
            explain(
                f"{signature.name} takes {counted(len(parts), 'argument')}, got {len(arguments)}",
                takes=", ".join(describe(signature, part) for part in parts) or "nothing",
            )
        )
    for part, argument in zip(parts, arguments, strict=True):
        _take(signature, part, argument, found, explicit)
    inputs = [array for array in found if array is not None]
    sizes = solve_sizes(signature, inputs, explicit)
    outputs, given = prepare_outputs(signature, sizes, out)
    inputs = [_apart(array, [output for output in outputs if output is not None]) for array in inputs]
    return Bound(tuple(inputs), sizes, tuple(outputs), tuple(given))


def finish(signature: Signature, bound: Bound, existentials: Mapping[str, int], take: Take | None = None) -> Any:
    """The result in the user's structure, once compiled code has filled the outputs; `take` gives those that it has allocated itself."""
    leaves: list[Any] = []
    for k, (value, array, given) in enumerate(zip(signature.outputs, bound.outputs, bound.given, strict=True)):
        if array is None:
            shape = tuple(evaluate_size(size, {**bound.sizes, **existentials}) for size in value.shape)
            assert take is not None
            leaves.append(take(k, shape, np.dtype(value.dtype)))
            continue
        if given is not None and given is not array:
            given[...] = array
        result = array if given is None else given
        if any(name in existentials for size in value.shape for name in size_names(size)):
            shape = [evaluate_size(size, {**bound.sizes, **existentials}) for size in value.shape]
            result = result[tuple(slice(size) for size in shape)]
            if given is None and 2 * result.size < array.size:
                result = result.copy()  # lets go of the larger block
        elif not value.shape and given is None:
            result = result[()]
        leaves.append(result)
    return build_result(signature.output_tree, leaves)


def _take(
    signature: Signature, tree: Tree, argument: Any, found: list[np.ndarray | None], explicit: dict[str, int]
) -> None:
    """Puts the arrays of one argument into `found`, following the tree."""
    if isinstance(tree, int):
        found[tree] = _to_array(signature, signature.inputs[tree], argument)
        return
    ((kind, body),) = tree.items()
    if kind == "size":
        explicit[body] = _to_size(signature, body, argument)
        return
    what = describe(signature, tree)
    if kind == "tuple" or (kind == "namedtuple" and isinstance(argument, tuple)):
        parts = branches(kind, body)
        if not isinstance(argument, (tuple, list)) or len(argument) != len(parts):
            raise wrong(signature, f"an argument must be a tuple {what}", argument)
        for part, item in zip(parts, argument, strict=True):
            _take(signature, part, item, found, explicit)
        return
    fields = body if kind == "record" else body["fields"]
    structured = isinstance(argument, (np.ndarray, np.generic)) and argument.dtype.names is not None
    present = argument.dtype.names if structured else list(argument) if isinstance(argument, Mapping) else None
    if present is None:
        raise wrong(signature, f"an argument must be a dict of arrays or a structured array {what}", argument)
    if set(present) != set(fields):
        raise wrong(signature, f"an argument must have the fields {what}", f"the fields {', '.join(map(str, present))}")
    holder: Any = argument
    for name, branch in fields.items():
        _take(signature, branch, holder[name], found, explicit)


def _to_array(signature: Signature, value: Value, argument: Any) -> np.ndarray:
    dtype = np.dtype(value.dtype)
    if isinstance(argument, np.ma.MaskedArray):
        raise misfit(signature, value, argument, ".filled(…) gives its masked elements a value", "it is a masked array")
    if isinstance(argument, (np.ndarray, np.generic)):
        array = np.asarray(argument)
    elif isinstance(argument, (*LITERALS, list, tuple)):
        array = _literal(signature, value, argument, dtype)
    elif is_foreign(argument):
        try:
            array = read_foreign(argument)
        except ArgumentError as error:
            raise misfit(signature, value, argument, why=str(error)) from error
    else:
        raise misfit(signature, value, argument)
    if array.dtype != dtype and array.dtype.newbyteorder("=") != dtype:
        hint = None
        if array.dtype.kind in "biufc":
            hint = f'.astype("{value.dtype}") converts it'
        raise misfit(signature, value, array, hint)
    if array.ndim != len(value.shape):
        raise misfit(signature, value, array)
    if array.dtype != dtype or not array.flags.c_contiguous:
        try:
            array = np.array(array, dtype=dtype, order="C")
        except MemoryError as error:
            raise MemoryError(
                f'{signature.name}: argument "{value.name}" of shape {array.shape} is not contiguous, and there is not '
                f"enough memory for a copy of {bytes_text(array.nbytes)}"
            ) from error
    return array


def _literal(signature: Signature, value: Value, argument: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Python numbers, and lists of them, take the dtype that is wanted where they fit it exactly enough."""
    try:
        array = np.array(argument)
    except (ValueError, OverflowError) as error:
        raise misfit(signature, value, argument, why=str(error)) from error
    typed = isinstance(argument, (list, tuple)) and any(isinstance(x, (np.ndarray, np.generic)) for x in argument)
    if typed and array.dtype != dtype:
        raise misfit(signature, value, array)
    if array.size == 0:
        return array.astype(dtype)
    if _KIND_RANK.get(array.dtype.kind, 9) > _KIND_RANK[dtype.kind]:
        raise misfit(signature, value, argument)
    if dtype.kind in "iu" and array.dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise misfit(signature, value, argument, f"{value.dtype} holds {limits.min} to {limits.max}")
    return array.astype(dtype)


def _to_size(signature: Signature, name: str, argument: Any) -> int:
    if isinstance(argument, (bool, np.bool_)) or not isinstance(argument, (int, np.integer)):
        raise wrong(signature, f'argument "{name}" is a size and must be an int', argument)
    if argument < 0:
        raise SizeMismatch(f'{signature.name}: argument "{name}" is a size and must not be negative, got {argument}')
    if argument >= LARGEST_SIZE:
        raise SizeMismatch(f'{signature.name}: argument "{name}" is larger than any array can be: {argument}')
    return int(argument)


def _apart(array: np.ndarray, outputs: Sequence[np.ndarray]) -> np.ndarray:
    """The array, or a copy when writing an output would change it."""
    return array.copy() if any(np.may_share_memory(array, output) for output in outputs) else array
