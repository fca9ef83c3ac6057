"""Conversion of a user's arguments to arrays of the declared types, shared by the interpreter, compiled calls, timing and tuning.

`match_arguments` takes anything array-like (arrays, NumPy and Python scalars, lists of numbers, buffers such as memoryviews, other
libraries' arrays) and raises one error that names the argument, its type and the expected one. The resulting arrays are C-contiguous and of
exactly the declared dtypes and ranks; sizes are compared elsewhere. `arrange` puts keyword arguments into their positions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from raido.algo.errors import ArgumentError, ArrayTooLarge, SizeMismatch, explain
from raido.algo.graph.dtypes import kind_of, numpy_dtype
from raido.algo.graph.limits import LARGEST_SIZE
from raido.algo.graph.narrow import convert
from raido.algo.trace.argument_errors import (
    LITERALS,
    bytes_text,
    counted,
    describe,
    misfit,
    no_array_remedy,
    traced_remedy,
    wrong,
)
from raido.algo.trace.foreign import is_buffer, is_foreign, read_foreign
from raido.algo.trace.trees import branches

_KIND_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
_MADE = {
    "b": "bool(…) makes it one",
    "u": "int(…) makes it one",
    "i": "int(…) makes it one",
    "f": ".real is its real part",
}
Tree: TypeAlias = Any  # as in `trees`


_KEYS = ("u32[2]", "u32[4]")  # of random numbers


class Leaf(Protocol):
    """An expected array: its name, its NumPy dtype ("float32", "complex64") and, as text, its type (`f32[n]`)."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[Any, ...]: ...


class Takes(Protocol):
    """The expected arguments of a program: its arrays, and how they nest."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> Sequence[Leaf]: ...
    @property
    def input_tree(self) -> Tree: ...


def arrange(
    program: str, names: Sequence[str], arguments: Sequence[Any], named: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the positional arguments, completed by those passed by keyword, and the keyword arguments that name no parameter.

    Raises `ArgumentError` for a parameter that is passed twice or not at all.
    """
    mine = {name: value for name, value in named.items() if name in names}
    if not mine:
        return tuple(arguments), dict(named)
    given = names[: len(arguments)]
    twice = next((name for name in mine if name in given), None)
    if twice is not None:
        raise ArgumentError(f'{program}: argument "{twice}" is passed by position and by keyword')
    rest = names[len(arguments) :]
    missing = [name for name in rest if name not in mine]
    if missing:
        takes = ", ".join(names)
        raise ArgumentError(explain(f'{program}: argument "{missing[0]}" is missing', takes=takes))
    others = {name: value for name, value in named.items() if name not in mine}
    return (*arguments, *(mine[name] for name in rest)), others


def parameter_names(takes: Takes) -> list[str]:
    """Returns the names of the parameters, derived from the names of the arrays that they consist of."""
    return [_parameter_name(takes, part) for part in takes.input_tree["tuple"]]


def _parameter_name(takes: Takes, tree: Tree) -> str:
    suffix = ""
    while not isinstance(tree, int):
        ((kind, body),) = tree.items()
        if kind == "size":
            return str(body).removesuffix(suffix)
        fields = range(len(body)) if kind == "tuple" else body if kind == "record" else body["fields"]
        first = next(iter(fields), None)
        if first is None:
            return ""
        suffix, tree = f"{suffix}_{first}", branches(kind, body)[0]
    return takes.inputs[tree].name.removesuffix(suffix)


class Placed(Protocol):
    """An array outside the CPU's memory that is passed on unchanged: dense, in native byte order."""

    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...


Placing: TypeAlias = Callable[[Any], "Placed | None"]
"""A function that returns an argument as an array on a device, or None if it is none; it raises ArgumentError for one that cannot be used."""


def match_arguments(
    takes: Takes, arguments: Sequence[Any], placing: Placing | None = None
) -> tuple[list[Any], dict[str, int]]:
    """Returns the arrays of a call in the order of `takes.inputs`, and the values of the size parameters by name.

    Arrays that `placing` recognizes stay where they are; all others become NumPy arrays.
    """
    found: list[Any] = [None] * len(takes.inputs)
    explicit: dict[str, int] = {}
    parts = takes.input_tree["tuple"]
    if len(arguments) != len(parts):
        raise ArgumentError(
            explain(
                f"{takes.name} takes {counted(len(parts), 'argument')}, got {len(arguments)}",
                takes=", ".join(describe(takes, part) for part in parts) or "nothing",
            )
        )
    for part, argument in zip(parts, arguments, strict=True):
        _take(takes, part, _parameter_name(takes, part), argument, found, explicit, placing)
    return [array for array in found if array is not None], explicit


def _take(
    takes: Takes,
    tree: Tree,
    name: str,
    argument: Any,
    found: list[Any],
    explicit: dict[str, int],
    placing: Placing | None,
) -> None:
    """Stores the arrays of one argument, or of a part of one such as `v.x`, in `found`, following the tree."""
    if isinstance(tree, int):
        leaf = takes.inputs[tree]
        try:
            placed = None if placing is None else placing(argument)
        except ArgumentError as error:
            raise misfit(takes, leaf, name, argument, why=str(error)) from error
        if placed is None:
            found[tree] = _to_array(takes, leaf, name, argument)
        else:
            found[tree] = _check_placed(takes, leaf, name, placed)
        return
    ((kind, body),) = tree.items()
    if kind == "size":
        explicit[body] = _to_size(takes, name, argument)
        return
    what = describe(takes, tree)
    if kind == "tuple" or (kind == "namedtuple" and isinstance(argument, tuple)):
        parts = branches(kind, body)
        if not isinstance(argument, (tuple, list)) or len(argument) != len(parts):
            raise wrong(takes, f'argument "{name}" must be a tuple {what}', argument)
        for k, (part, item) in enumerate(zip(parts, argument, strict=True)):
            _take(takes, part, f"{name}[{k}]", item, found, explicit, placing)
        return
    fields = body if kind == "record" else body["fields"]
    holder = fields_of(argument)
    if holder is None:
        raise wrong(takes, f'argument "{name}" must be a dict of arrays or a structured array {what}', argument)
    if set(holder) != set(fields):
        came = f"the fields {', '.join(map(str, holder))}"
        raise wrong(takes, f'argument "{name}" must have the fields {what}', came)
    for field, branch in fields.items():
        _take(takes, branch, f"{name}.{field}", holder[field], found, explicit, placing)


def fields_of(argument: Any) -> Mapping[str, Any] | None:
    """Returns the arrays of a dict or a structured array by their names; None for other arguments."""
    if isinstance(argument, Mapping):
        return argument
    if isinstance(argument, (np.ndarray, np.generic)) and argument.dtype.names is not None:
        held: Any = argument
        return {field: held[field] for field in argument.dtype.names}
    return None


def is_traced(argument: Any) -> bool:
    """Whether an argument is a traced value: an array of raido's, such as the result of `rd.array([1.0])`."""
    return hasattr(argument, "weak") and hasattr(argument, "extents")


def read_array(argument: Any) -> np.ndarray | None:
    """Returns an argument as a NumPy array of its own dtype, without a copy where possible; None where it is no array.

    Raises `ArgumentError` where an array of another library cannot be read; lists may raise `ValueError` and `OverflowError`.
    """
    if isinstance(argument, (np.ndarray, np.generic)):
        return np.asarray(argument)
    if isinstance(argument, (*LITERALS, list, tuple, range)):
        return np.array(argument)
    if is_foreign(argument):
        return read_foreign(argument)
    return np.asarray(memoryview(argument)) if is_buffer(argument) else None


def _check_placed(takes: Takes, leaf: Leaf, name: str, argument: Placed) -> Placed:
    if argument.dtype != numpy_dtype(leaf.dtype) or argument.ndim != len(leaf.shape):
        raise misfit(takes, leaf, name, argument, why=f"its dtype is {argument.dtype}, and its shape {argument.shape}")
    return argument


def _to_array(takes: Takes, leaf: Leaf, name: str, argument: Any) -> np.ndarray:
    dtype = numpy_dtype(leaf.dtype)
    if is_traced(argument):
        raise misfit(takes, leaf, name, "a traced value", traced_remedy())
    if isinstance(argument, np.ma.MaskedArray):
        hint = ".filled(…) gives its masked elements a value"
        raise misfit(takes, leaf, name, argument, hint, "it is a masked array")
    if isinstance(argument, (*LITERALS, list, tuple, range)) and not isinstance(argument, np.generic):
        array = _literal(takes, leaf, name, argument, dtype)
    else:
        try:
            found = read_array(argument)
        except ArgumentError as error:
            raise misfit(takes, leaf, name, argument, why=str(error)) from error
        if found is None:
            raise misfit(takes, leaf, name, argument, no_array_remedy(argument))
        scalar = not leaf.shape and found.ndim == 0 and kind_of(found.dtype) in _KIND_RANK
        array = _converted(takes, leaf, name, found[()], found, dtype) if scalar else found
    if array.dtype != dtype and array.dtype.newbyteorder("=") != dtype:
        hint = None
        if kind_of(array.dtype) in "biufc" and array.ndim == len(leaf.shape):
            hint = f'.astype("{leaf.dtype}") converts it'
        if array.dtype.kind in "mM":
            hint = '.astype("int64") counts its units, days for "datetime64[D]"'
        raise misfit(takes, leaf, name, array, hint)
    if array.ndim != len(leaf.shape):
        hint = f"rd.random.key({argument})" if isinstance(argument, int) and str(leaf) in _KEYS else None
        raise misfit(takes, leaf, name, argument if isinstance(argument, LITERALS) else array, hint)
    if array.dtype != dtype or not array.flags.c_contiguous:
        try:
            array = np.array(array, dtype=dtype, order="C")
        except MemoryError as error:
            raise MemoryError(
                f'{takes.name}: argument "{name}" of shape {array.shape} is not contiguous, and there is not '
                f"enough memory for a copy of {bytes_text(array.nbytes)}"
            ) from error
    return array


def _literal(takes: Takes, leaf: Leaf, name: str, argument: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Returns a Python number, or a list of numbers, as an array of the declared dtype."""
    try:
        array = np.array(argument)
    except (ValueError, OverflowError) as error:
        raise misfit(takes, leaf, name, argument, why=str(error)) from error
    typed = isinstance(argument, (list, tuple)) and any(isinstance(x, np.ndarray) and x.ndim for x in argument)
    if typed and array.dtype != dtype:
        raise misfit(takes, leaf, name, array)
    return _converted(takes, leaf, name, argument, array, dtype)


def _converted(
    takes: Takes, leaf: Leaf, name: str, argument: Any, array: np.ndarray, dtype: np.dtype[Any]
) -> np.ndarray:
    """Converts numbers to the declared dtype: from the same kind (with rounding) or a lower kind; integers only where they fit."""
    if array.size == 0:
        return array.astype(dtype)
    if _KIND_RANK.get(kind_of(array.dtype), 9) > _KIND_RANK[kind_of(dtype)]:
        hint = _MADE.get(kind_of(dtype)) if array.ndim == 0 and kind_of(array.dtype) in _KIND_RANK else None
        if isinstance(argument, (list, tuple)) and kind_of(array.dtype) in "biuf":
            hint = f'np.array({name.partition(".")[0]}, "{leaf.dtype}") converts it'
        raise misfit(takes, leaf, name, argument, hint)
    if dtype.kind in "iu" and array.dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise misfit(takes, leaf, name, argument, why=f"{leaf.dtype} holds {limits.min} to {limits.max}")
    with np.errstate(over="ignore"):  # infinity, as in an algorithm
        return convert(array, dtype)


def _to_size(takes: Takes, name: str, argument: Any) -> int:
    if isinstance(argument, (bool, np.bool_)) or not isinstance(argument, (int, np.integer)):
        raise wrong(takes, f'argument "{name}" is a size and must be an int', argument)
    if argument < 0:
        raise SizeMismatch(f'{takes.name}: argument "{name}" is a size and must not be negative, got {argument}')
    if argument > LARGEST_SIZE:
        raise ArrayTooLarge(f'{takes.name}: argument "{name}" is larger than any array can be: {argument}')
    return int(argument)
