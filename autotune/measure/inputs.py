"""Inputs of candidates: the user's arrays, or arrays generated for the given sizes with plausible contents.

Generated arrays are described here and made where they are used, from a seed: floats uniform in [0, 1), integers in [1, 100], random
booleans; integers that the program uses as indices of a dimension lie inside it, and offsets of segments grow from 0 to the number of
elements. `ranges` overrides that: {"x": (low, high)} with low <= x < high (for floats and integers; numbers, or sizes such as "n - 1"),
{"starts": ("offsets", "n")} for numbers that grow from 0 to n.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from raido.algo.errors import ArgumentError, RaidoError, TargetError
from raido.algo.graph.dtypes import numpy_dtype, text_of
from raido.algo.graph.expr import Array, Expr, Generate, Load, Op, Parameter, Result, Segmented, Update
from raido.algo.graph.program import Program
from raido.algo.graph.rewrite import topological
from raido.algo.trace.types import parse_dimension
from raido.targets.arguments import bind_arguments
from raido.targets.signature import Signature, Value, evaluate_size, size_of

PAGE = 4096  # bytes


@dataclass(frozen=True)
class Inputs:
    """Inputs of a program as data: a description of each array, all sizes, and for the user's arrays their bytes, and their offsets in
    bytes from the start of a page."""

    specs: tuple[dict[str, Any], ...]
    sizes: dict[str, int]
    blobs: tuple[memoryview, ...] = field(default=(), repr=False)
    places: tuple[int, ...] = ()


def given_inputs(signature: Signature, arguments: Sequence[Any]) -> Inputs:
    """The user's own arguments, checked and converted as in a call."""
    bound = bind_arguments(signature, arguments)
    specs = tuple(
        {"given": k, "dtype": text_of(array.dtype), "shape": list(array.shape)} for k, array in enumerate(bound.inputs)
    )
    blobs = tuple(array.reshape(-1).view(np.uint8).data for array in bound.inputs)
    places = tuple(array.ctypes.data % PAGE for array in bound.inputs)
    return Inputs(specs, dict(bound.sizes), blobs, places)


def made_up_inputs(
    program: Program,
    signature: Signature,
    sizes: Mapping[str, int],
    ranges: Mapping[str, Sequence[Any]] | None = None,
    seed: int = 0,
) -> Inputs:
    """Generated arrays of the given sizes. Raises `ArgumentError` when a size is missing, unknown or negative, or a range is invalid."""
    sizes = _checked_sizes(signature, sizes)
    names = [value.name for value in signature.inputs]
    if not isinstance(ranges or {}, Mapping):
        raise ArgumentError(
            f'ranges is a table by name, such as {{"{names[0] if names else "x"}": (0, 10)}}, not {ranges!r}'
        )
    for name in ranges or {}:
        if name not in names:
            raise ArgumentError(
                f"ranges={{{name!r}: …}}: {signature.name} has no array {name!r}; it has {', '.join(names)}"
            )
    derived = _derived_ranges(program, sizes)
    specs = []
    for number, value in enumerate(signature.inputs):
        said = (ranges or {}).get(value.name)
        spec: dict[str, Any] = {"dtype": value.dtype, "shape": [evaluate_size(s, sizes) for s in value.shape]}
        spec |= _said_range(value, said, sizes) if said is not None else derived.get(number, _usual_range(value))
        specs.append({**spec, "seed": [seed, number]})
    return Inputs(tuple(specs), sizes)


def describe_made_up(program: Program, inputs: Inputs) -> str:
    """Description of the generated arrays: "i int32 in 1 … 100; x float32 in [0, 1)"; "" where all were given."""
    said = []
    for parameter, spec in zip(program.parameters, inputs.specs, strict=True):
        low, high = spec.get("range", (0, 0))
        if "given" in spec:
            continue
        if "offsets" in spec:
            what = f"growing from 0 to {spec['offsets']}"
        elif numpy_dtype(spec["dtype"]).kind == "b":
            what = "false or true"
        elif numpy_dtype(spec["dtype"]).kind in "iu":
            what = f"in {low} … {max(high, low + 1) - 1}"
        else:
            what = f"in [{low}, {high})"
        said.append(f"{parameter.name} {np.dtype(spec['dtype'])} {what}")
    return "; ".join(said)


def made_inputs(
    specs: Sequence[Mapping[str, Any]], blobs: Sequence[bytearray], places: Sequence[int]
) -> list[np.ndarray]:
    """The arrays of these descriptions."""
    given = [_placed(blob, offset) for blob, offset in zip(blobs, places, strict=True)]
    return [
        given[spec["given"]].view(numpy_dtype(spec["dtype"])).reshape(spec["shape"]) if "given" in spec else _make(spec)
        for spec in specs
    ]


def _placed(data: bytearray, offset: int) -> np.ndarray:
    """A copy of bytes in NumPy's memory, on large pages if possible, at the same offset from the start of a page as in calls."""
    room = np.empty(len(data) + PAGE, np.uint8)
    start = (offset - room.ctypes.data) % PAGE
    room[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return room[start : start + len(data)]


def _make(spec: Mapping[str, Any]) -> np.ndarray:
    dtype, shape = numpy_dtype(spec["dtype"]), tuple(spec["shape"])
    random = np.random.default_rng(spec["seed"])
    if "offsets" in spec:
        offsets = np.sort(random.integers(0, spec["offsets"], shape, endpoint=True), axis=None)
        if offsets.size:
            offsets[0], offsets[-1] = 0, spec["offsets"]
        return offsets.astype(dtype).reshape(shape)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    low, high = spec["range"]
    if dtype.kind in "iu":
        return random.integers(low, max(high, low + 1), shape, dtype=dtype)
    if dtype.kind == "c":
        parts = _floats(random, (*shape, 2), low, high, np.dtype(f"f{dtype.itemsize // 2}"))
        return parts.view(dtype).reshape(shape)
    return _floats(random, shape, low, high, dtype)


def _floats(random: np.random.Generator, shape: tuple[int, ...], low: float, high: float, dtype: Any) -> np.ndarray:
    if dtype.itemsize == 8:
        return random.random(shape) * (high - low) + low
    unit = random.random(shape, np.float32)
    if (low, high) != (0, 1):
        unit *= np.float32(high - low)
        unit += np.float32(low)
    return unit.astype(dtype, copy=False)


def _checked_sizes(signature: Signature, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes as Python ints."""
    missing = [name for name in signature.sizes if name not in sizes]
    unknown = [name for name in sizes if name not in signature.sizes]
    wanted = ", ".join(signature.sizes) or "none"
    if missing or unknown:
        what = f"has no size {unknown[0]!r}" if unknown else f"needs the size {missing[0]!r}"
        raise ArgumentError(f"{signature.name} {what}; its sizes: {wanted}")
    for name, value in sizes.items():
        if isinstance(value, bool) or not hasattr(value, "__index__") or value < 0:
            raise ArgumentError(f"{signature.name}: the size {name} is a whole number, not {value!r}")
    return {name: operator.index(value) for name, value in sizes.items()}


def _usual_range(value: Value) -> dict[str, Any]:
    return {"range": [1, 101] if numpy_dtype(value.dtype).kind in "iu" else [0, 1]}


def _said_range(value: Value, said: Sequence[Any], sizes: Mapping[str, int]) -> dict[str, Any]:
    example = f'ranges={{"{value.name}": (0, 10)}}, (0, "n - 1") or ("offsets", "n")'
    if not isinstance(said, (tuple, list)) or len(said) != 2:
        raise ArgumentError(f"the range of {value.name} is {said!r}: write {example}")
    if said[0] == "offsets":
        return {"offsets": int(_number(said[1], sizes, example))}
    low, high = (_number(end, sizes, example) for end in said)
    if numpy_dtype(value.dtype).kind in "iu":
        limits = np.iinfo(value.dtype)
        if not (limits.min <= low < high <= limits.max + 1 and low == int(low) and high == int(high)):
            raise ArgumentError(
                f"the range of {value.name}, {value.dtype}, is from {low} below {high}: write {example}"
            )
        return {"range": [int(low), int(high)]}
    if not (low <= high and math.isfinite(low) and math.isfinite(high)):
        raise ArgumentError(f"the range of {value.name} is from {low} below {high}: write {example}")
    return {"range": [low, high]}


def _number(text: Any, sizes: Mapping[str, int], example: str) -> float:
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return text
    try:
        return evaluate_size(size_of(parse_dimension(text)), sizes)
    except (RaidoError, KeyError, SyntaxError):
        raise ArgumentError(f"{text!r} is neither a number nor a size: write {example}") from None


# --- what the program does with its integers


def _derived_ranges(program: Program, sizes: Mapping[str, int]) -> dict[int, dict[str, Any]]:
    """Ranges, by input number, of inputs whose elements the program uses unchanged as indices or offsets, which keep them in bounds."""
    numbers = {parameter: k for k, parameter in enumerate(program.parameters)}
    found: dict[int, dict[str, Any]] = {}
    for node in topological(*program.results):
        if isinstance(node, Segmented):
            parameter = _source_array(node.offsets)
            extent = _known(node.axes[0].extent, sizes)
            if parameter in numbers and extent is not None:
                found[numbers[parameter]] = {"offsets": extent}
            continue
        if isinstance(node, Load):
            pairs = zip(node.indices, node.array.shape, strict=True)
        elif isinstance(node, Update):
            pairs = zip(node.indices, node.dest[0].shape, strict=True)
        else:
            continue
        for at, extent in pairs:
            parameter, length = _source(at), _known(extent, sizes)
            number = numbers.get(parameter) if parameter is not None else None
            if number is None or length is None or "offsets" in found.get(number, {}):
                continue
            _, before = found.get(number, {"range": [0, length]})["range"]
            found[number] = {"range": [0, max(1, min(length, before))]}
    return found


def _source(index: Expr) -> Parameter | None:
    """The input of which an index is an element, with at most casts in between; else None."""
    while isinstance(index, Op) and index.name == "cast" and index.args[0].dtype.is_integer:
        index = index.args[0]
    if not isinstance(index, Load) or not index.dtype.is_integer:
        return None
    return _source_array(index.array)


def _source_array(array: Array) -> Parameter | None:
    """The input that an array is, or is an index-space move of; else None."""
    while isinstance(array, Result) and isinstance(array.form, Generate):
        body = array.form.bodies[array.index]
        while isinstance(body, Op) and body.name == "cast" and body.args[0].dtype.is_integer:
            body = body.args[0]
        if not isinstance(body, Load):
            return None
        array = body.array
    return array if isinstance(array, Parameter) else None


def _known(size: Expr, sizes: Mapping[str, int]) -> int | None:
    try:
        return evaluate_size(size_of(size), sizes)
    except (TargetError, KeyError):
        return None
