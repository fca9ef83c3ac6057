"""From what the user passed to what compiled code takes: the complete, careful way, with every check and every message.

`bind_arguments` accepts anything array-like and refuses with one error that names the argument, what came and what is right. The
quick way for the ordinary case (`fastcall`) falls back to this one, so nothing is decided here only.
Invariants of a `Bound`: inputs and outputs are C-contiguous ndarrays of exactly the signature's dtypes and shapes; no output shares
memory with an input or another output; the user's arrays stay untouched until `finish` copies into those given as `out`. An output
that the program allocates is None until then.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from raido.algo.errors import ArgumentError, SizeMismatch, explain
from raido.algo.trace.foreign import is_foreign, read_foreign
from raido.targets.native import allocate_array
from raido.targets.signature import (
    LARGEST_SIZE,
    Signature,
    Tree,
    Value,
    branches,
    evaluate_size,
    size_names,
    size_text,
    solve_size,
)

Take: TypeAlias = Callable[[int, tuple[int, ...], "np.dtype[Any]"], np.ndarray]
_LITERALS = (bool, int, float, complex)
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
                f"{signature.name} takes {_count(len(parts), 'argument')}, got {len(arguments)}",
                takes=", ".join(_describe(signature, part) for part in parts) or "nothing",
            )
        )
    for part, argument in zip(parts, arguments, strict=True):
        _take(signature, part, argument, "", found, explicit)
    inputs = [array for array in found if array is not None]
    sizes = _solve_sizes(signature, inputs, explicit)
    outputs, given = _prepare_outputs(signature, sizes, out)
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


# --- inputs


def _take(
    signature: Signature, tree: Tree, argument: Any, path: str, found: list[np.ndarray | None], explicit: dict[str, int]
) -> None:
    """Puts the arrays of one argument into `found`, following the tree."""
    if isinstance(tree, int):
        found[tree] = _to_array(signature, signature.inputs[tree], argument)
        return
    ((kind, body),) = tree.items()
    if kind == "size":
        explicit[body] = _to_size(signature, body, argument)
        return
    what = _describe(signature, tree)
    if kind == "tuple" or (kind == "namedtuple" and isinstance(argument, tuple)):
        parts = branches(kind, body)
        if not isinstance(argument, (tuple, list)) or len(argument) != len(parts):
            raise _wrong(signature, f"an argument must be a tuple {what}", argument)
        for part, item in zip(parts, argument, strict=True):
            _take(signature, part, item, path, found, explicit)
        return
    fields = body if kind == "record" else body["fields"]
    structured = isinstance(argument, (np.ndarray, np.generic)) and argument.dtype.names is not None
    present = argument.dtype.names if structured else list(argument) if isinstance(argument, Mapping) else None
    if present is None:
        raise _wrong(signature, f"an argument must be a dict of arrays or a structured array {what}", argument)
    if set(present) != set(fields):
        raise _wrong(
            signature, f"an argument must have the fields {what}", f"the fields {', '.join(map(str, present))}"
        )
    holder: Any = argument
    for name, branch in fields.items():
        _take(signature, branch, holder[name], f"{path}.{name}", found, explicit)


def _to_array(signature: Signature, value: Value, argument: Any) -> np.ndarray:
    dtype = np.dtype(value.dtype)
    if isinstance(argument, np.ma.MaskedArray):
        raise _misfit(
            signature, value, argument, ".filled(…) gives its masked elements a value", "it is a masked array"
        )
    if isinstance(argument, (np.ndarray, np.generic)):
        array = np.asarray(argument)
    elif isinstance(argument, (*_LITERALS, list, tuple)):
        array = _literal(signature, value, argument, dtype)
    elif is_foreign(argument):
        try:
            array = read_foreign(argument)
        except ArgumentError as error:
            raise _misfit(signature, value, argument, why=str(error)) from error
    else:
        raise _misfit(signature, value, argument)
    if array.dtype != dtype and array.dtype.newbyteorder("=") != dtype:
        hint = None
        if array.dtype.kind in "biufc":
            hint = f'.astype("{value.dtype}") converts it'
        raise _misfit(signature, value, array, hint)
    if array.ndim != len(value.shape):
        raise _misfit(signature, value, array)
    if array.dtype != dtype or not array.flags.c_contiguous:
        try:
            array = np.array(array, dtype=dtype, order="C")
        except MemoryError as error:
            raise MemoryError(
                f'{signature.name}: argument "{value.name}" of shape {array.shape} is not contiguous, and there is not '
                f"enough memory for a copy of {_bytes(array.nbytes)}"
            ) from error
    return array


def _literal(signature: Signature, value: Value, argument: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Python numbers, and lists of them, take the dtype that is wanted where they fit it exactly enough."""
    try:
        array = np.array(argument)
    except (ValueError, OverflowError) as error:
        raise _misfit(signature, value, argument, why=str(error)) from error
    typed = isinstance(argument, (list, tuple)) and any(isinstance(x, (np.ndarray, np.generic)) for x in argument)
    if typed and array.dtype != dtype:
        raise _misfit(signature, value, array)
    if array.size == 0:
        return array.astype(dtype)
    if _KIND_RANK.get(array.dtype.kind, 9) > _KIND_RANK[dtype.kind]:
        raise _misfit(signature, value, argument)
    if dtype.kind in "iu" and array.dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise _misfit(signature, value, argument, f"{value.dtype} holds {limits.min} to {limits.max}")
    return array.astype(dtype)


def _to_size(signature: Signature, name: str, argument: Any) -> int:
    if isinstance(argument, (bool, np.bool_)) or not isinstance(argument, (int, np.integer)):
        raise _wrong(signature, f'argument "{name}" is a size and must be an int', argument)
    if argument < 0:
        raise SizeMismatch(f'{signature.name}: argument "{name}" is a size and must not be negative, got {argument}')
    if argument >= LARGEST_SIZE:
        raise SizeMismatch(f'{signature.name}: argument "{name}" is larger than any array can be: {argument}')
    return int(argument)


def _apart(array: np.ndarray, outputs: Sequence[np.ndarray]) -> np.ndarray:
    """The array, or a copy when writing an output would change it."""
    return array.copy() if any(np.may_share_memory(array, output) for output in outputs) else array


# --- sizes


def _solve_sizes(signature: Signature, inputs: Sequence[np.ndarray], explicit: Mapping[str, int]) -> dict[str, int]:
    sizes = dict(explicit)
    owners = {name: f'argument "{name}"' for name in explicit}
    for value, array in zip(signature.inputs, inputs, strict=True):
        for k, size in enumerate(value.shape):
            if isinstance(size, str) and size not in sizes:
                sizes[size] = array.shape[k]
                owners[size] = f'"{value.name}" dimension {k}'
    _solve_formulas(signature, inputs, sizes, owners)
    for value, array in zip(signature.inputs, inputs, strict=True):
        for k, size in enumerate(value.shape):
            solved = solve_size(size, array.shape[k], sizes)
            sizes |= solved
            owners |= dict.fromkeys(solved, f'found from "{value.name}" dimension {k}')
    for value, array in zip(signature.inputs, inputs, strict=True):
        for k, size in enumerate(value.shape):
            if any(name not in sizes for name in size_names(size)):
                headline = f'{signature.name}: "{value.name}" has size {array.shape[k]} along dimension {k}'
                raise SizeMismatch(explain(f"{headline}, which {size_text(size)} cannot be", takes=str(value)))
            wanted = evaluate_size(size, sizes)
            if array.shape[k] != wanted:
                names = size_names(size)
                formula = size_text(size) + ("" if isinstance(size, int) else f" = {wanted}")
                raise SizeMismatch(
                    explain(
                        f'{signature.name}: "{value.name}" has size {array.shape[k]} along dimension {k}, '
                        f"which must be {formula}",
                        where=", ".join(f"{name} = {sizes[name]} is {owners[name]}" for name in names) or None,
                        takes=str(value),
                    )
                )
    for check in signature.checks:
        left, right = evaluate_size(check.left, sizes), evaluate_size(check.right, sizes)
        if left != right:
            site = signature.sites[check.site] if check.site >= 0 else None
            headline = (
                f"{check.left_owner} has size {left} ({size_text(check.left)}), "
                f"{check.right_owner} has size {right} ({size_text(check.right)}); they must agree"
            )
            if not check.left_owner:
                headline = f"{check.right_owner} is empty: {size_text(check.right)} = {right}"
            raise SizeMismatch(
                explain(
                    f"{signature.name}: {headline}",
                    algorithm=f"{site.file}:{site.line}   {site.text}" if site else None,
                )
            )
    return sizes


def _solve_formulas(
    signature: Signature, inputs: Sequence[np.ndarray], sizes: dict[str, int], owners: dict[str, str]
) -> None:
    """Names that stand by themselves nowhere, from dimensions like `n + 1` in which they are the one thing unknown."""
    waiting = [
        (value, k, size, array.shape[k])
        for value, array in zip(signature.inputs, inputs, strict=True)
        for k, size in enumerate(value.shape)
    ]
    missing = set(signature.sizes) - sizes.keys()
    while missing:
        ready = next((row for row in waiting if len(missing.intersection(size_names(row[2]))) == 1), None)
        if ready is None:
            names = ", ".join(sorted(missing))
            raise ArgumentError(f"{signature.name}: the sizes {names} do not follow from the arguments")
        value, k, size, actual = ready
        (name,) = missing.intersection(size_names(size))
        start = evaluate_size(size, {**sizes, name: 0})
        slope = evaluate_size(size, {**sizes, name: 1}) - start
        solution = (actual - start) // slope if slope else -1
        if solution < 0 or evaluate_size(size, {**sizes, name: solution}) != actual:
            raise SizeMismatch(
                f'{signature.name}: "{value.name}" has size {actual} along dimension {k}, which {size_text(size)} cannot be'
            )
        sizes[name], owners[name] = solution, f'"{value.name}" dimension {k}'
        missing.discard(name)


# --- outputs


def _prepare_outputs(
    signature: Signature, sizes: Mapping[str, int], out: Any
) -> tuple[list[np.ndarray | None], list[np.ndarray | None]]:
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
        dtype = np.dtype(value.dtype)
        if array is None:
            outputs.append(allocate_array(shape, dtype))
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
        outputs.append(array if direct else allocate_array(shape, dtype))
    taken = [array for array in given if array is not None]
    for i, array in enumerate(taken):
        if any(np.may_share_memory(array, other) for other in taken[:i]):
            raise ArgumentError(f"{signature.name}: arrays given as out overlap each other")
    return outputs, given


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
                raise _wrong(signature, f'out for "{signature.outputs[tree].name}" must be an array', out)
            try:
                out = read_foreign(out)
            except ArgumentError as error:
                raise _wrong(signature, f"out must be an array of the CPU ({error})", out) from error
        given[tree] = np.asarray(out)
        return
    ((kind, body),) = tree.items()
    if kind == "record":
        if not isinstance(out, Mapping) or set(out) != set(body):
            raise _wrong(signature, f"out must be a dict with the keys {', '.join(body)}", out)
        for name, part in body.items():
            _take_out(signature, part, out[name], given)
        return
    parts = branches(kind, body)
    if not isinstance(out, (tuple, list)) or len(out) != len(parts):
        raise _wrong(signature, f"out must be a tuple of {_count(len(parts), 'array')}", out)
    for part, item in zip(parts, out, strict=True):
        _take_out(signature, part, item, given)


# --- messages


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _describe(signature: Signature, tree: Tree) -> str:
    if isinstance(tree, int):
        return f"{signature.inputs[tree].name}: {signature.inputs[tree]}"
    ((kind, body),) = tree.items()
    if kind == "size":
        return f"{body}: size"
    return f"({', '.join(_describe(signature, part) for part in branches(kind, body))})"


def _came(argument: Any) -> str:
    if isinstance(argument, str):
        return argument if argument.startswith("the fields") else f"the string {argument[:40]!r}"
    if isinstance(argument, np.ndarray):
        return f"an array of dtype {argument.dtype} and shape {argument.shape}"
    if isinstance(argument, np.generic):
        return f"{argument!r} (dtype {argument.dtype})"
    if isinstance(argument, _LITERALS):
        return f"{type(argument).__name__} {argument!r}"
    return f"{type(argument).__module__}.{type(argument).__qualname__}".removeprefix("builtins.")


def _wrong(signature: Signature, wanted: str, came: Any) -> ArgumentError:
    return ArgumentError(f"{signature.name}: {wanted}, got {_came(came)}")


def _bytes(count: float) -> str:
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TB"


def _misfit(
    signature: Signature, value: Value, came: Any, hint: str | None = None, why: str | None = None
) -> ArgumentError:
    scalar = " (a scalar)" if not value.shape else ""
    return ArgumentError(
        explain(
            f'{signature.name}: argument "{value.name}" must be {value}{scalar}, got {_came(came)}',
            **{"why": why, "try": hint},
        )
    )
