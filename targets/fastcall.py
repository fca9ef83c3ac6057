"""Call plans: for one signature, the ordinary call as data that `runtime/raido_call.c` executes without running Python code.

A plan's integers are a header and code: the ranks of inputs, pairs of sizes that must agree, the sizes to pass, bounds of existential
sizes, ranks and shapes of results. A result that the program allocates has -1 and the address of its free function instead. A size is `0,
literal`; `1, index` into the values known at the call (the dimensions of all inputs, sizes that are arguments, bounds); or an operation's
number and two sizes. Calls that a plan does not cover take the complete path.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from raido.algo.graph.dtypes import numpy_dtype
from raido.algo.trace.trees import branches
from raido.targets.native import LARGE_BLOCK, RuntimeCalls, adopt_array, allocate_array
from raido.targets.outputs import build_result
from raido.targets.signature import (
    OPERATIONS,
    Signature,
    SizeExpr,
    Tree,
    Value,
    evaluate_size,
    leaf_paths,
    size_line,
    size_names,
)

_MOST = 64  # arguments of an entry and dimensions of an array, as in raido_call.c
_LITERALS = {"b": bool, "i": int, "u": int, "f": float}
_NUMBERS = {name: number for number, name in enumerate(OPERATIONS, start=2)}


def write_plan(signature: Signature, entry: int, threads: int | None, calls: RuntimeCalls) -> tuple[Any, ...] | None:
    """The plan by which `Caller` calls the entry at an address; None for signatures that only the complete path covers (see `_write_code`)."""
    explicit: list[str] = []
    tree = _plan_tree(signature.input_tree, len(signature.inputs), explicit)
    freeing: Any = calls.free
    release = ctypes.cast(freeing, ctypes.c_void_p).value or 0
    written = _write_code(signature, explicit, release)
    if written is None:
        return None
    tests, code = written
    limiting: Any = calls.set_thread_limit
    set_limit = ctypes.cast(limiting, ctypes.c_void_p).value or 0
    out = _plan_tree(signature.output_tree, len(signature.outputs), []) if _takes_out(signature) else None
    counts = map(len, (signature.inputs, explicit, tests, signature.sizes, signature.existentials, signature.outputs))
    numbers = array("q", (entry, set_limit, threads or 0, LARGE_BLOCK, *counts, *code))
    types: list[Any] = []
    for value in (*signature.inputs, *signature.outputs):
        dtype = numpy_dtype(value.dtype)
        types += (dtype, dtype.type, _LITERALS.get(dtype.kind))
    return numbers.tobytes(), tree, out, tuple(types), allocate_array, _finisher(signature, calls)


def _takes_out(signature: Signature) -> bool:
    """Whether results may be written directly to the user's `out`: each occurs once in the returned structure, and data decides no size."""
    return not signature.existentials and _is_each_once(signature.output_tree, len(signature.outputs))


def _is_each_once(tree: Tree, count: int) -> bool:
    return sorted(number for number, _ in leaf_paths(tree)) == [*range(count)]


def _plan_tree(tree: Tree, inputs: int, explicit: list[str]) -> Any:
    """The nesting of arguments or results as tuples and dicts of indices; sizes among the arguments are numbered after the inputs and
    appended to `explicit`."""
    if isinstance(tree, int):
        return tree
    ((kind, body),) = tree.items()
    if kind == "size":
        explicit.append(body)
        return inputs + len(explicit) - 1
    parts = [_plan_tree(part, inputs, explicit) for part in branches(kind, body)]
    return dict(zip(body, parts, strict=True)) if kind == "record" else tuple(parts)


def _write_code(
    signature: Signature, explicit: Sequence[str], release: int
) -> tuple[list[list[int]], list[int]] | None:
    """The size tests and the whole code of a plan. None unless every size is a dimension or an argument, and existential sizes are either
    bounded and the outermost dimension of their results, or the only names in the shape of a result that the program allocates. `release`:
    the address of the function that frees such results."""
    dimensions = [size for value in signature.inputs for size in value.shape]
    ghosts = [existential.name for existential in signature.existentials]
    codes: dict[SizeExpr, list[int]] = _solved(dimensions)
    codes |= {size: [1, dimension] for dimension, size in reversed([*enumerate(dimensions)]) if isinstance(size, str)}
    codes |= {name: [1, dimension] for dimension, name in enumerate((*explicit, *ghosts), start=len(dimensions))}
    made = [v for v, is_made in zip(signature.outputs, signature.made, strict=True) if is_made]
    cut = [v for v, is_made in zip(signature.outputs, signature.made, strict=True) if not is_made]
    whole = [size for v in cut for k, size in enumerate(v.shape) if k or isinstance(size, tuple)]
    if (
        not set(signature.sizes) <= codes.keys()
        or not _is_each_once(signature.input_tree, len(signature.inputs))
        or any(name not in ghosts for v in made for size in v.shape for name in size_names(size))
        or any(name in ghosts for size in whole for name in size_names(size))
        or len(signature.inputs) + len(signature.sizes) + len(signature.outputs) + len(ghosts) >= _MOST
        or any(len(value.shape) > _MOST for value in (*signature.inputs, *signature.outputs))
        or len(dimensions) + len(explicit) + len(ghosts) > 4 * _MOST
    ):
        return None
    agree = [(dimension, size) for dimension, size in enumerate(dimensions) if codes.get(size) != [1, dimension]]
    tests = [[1, dimension, *_write_size(size, codes)] for dimension, size in agree]
    tests += [[*_write_size(check.left, codes), *_write_size(check.right, codes)] for check in signature.checks]
    code = [[len(value.shape)] for value in signature.inputs] + tests
    code += [_write_size(name, codes) for name in signature.sizes]
    code += [_write_size(existential.bound or 0, codes) for existential in signature.existentials]
    for value, is_made in zip(signature.outputs, signature.made, strict=True):
        sizes = [_write_size(size, codes) for size in value.shape]
        code += [[-1, release]] if is_made else [[len(value.shape)], *sizes]
    return tests, [number for part in code for number in part]


def _solved(dimensions: Sequence[SizeExpr]) -> dict[SizeExpr, list[int]]:
    """Solves dimensions such as `n + 1` or `2*n` for the one name in them: the code of the name's value.

    A division refuses negative numbers; the call also tests that the dimension is what its formula gives, so that no remainder is lost.
    """
    found: dict[SizeExpr, list[int]] = {}
    for dimension, size in enumerate(dimensions):
        names = size_names(size)
        line = size_line(size, names[0], {}) if len(names) == 1 else None
        if line is not None and line[1] > 0:
            found.setdefault(names[0], [_NUMBERS["//"], _NUMBERS["-"], 1, dimension, 0, line[0], 0, line[1]])
    return found


def _write_size(size: SizeExpr, codes: Mapping[SizeExpr, list[int]]) -> list[int]:
    if isinstance(size, tuple):
        return [_NUMBERS[size[0]], *_write_size(size[1], codes), *_write_size(size[2], codes)]
    return codes[size] if isinstance(size, str) else [0, size]


def _finisher(signature: Signature, calls: RuntimeCalls) -> Callable[[tuple[Any, ...]], Any] | None:
    """A function that builds the user's structure from results and existential sizes; None where there is one result, returned as it is."""
    tree, outputs, ghosts = signature.output_tree, signature.outputs, [e.name for e in signature.existentials]
    if not ghosts and tree in (0, {"tuple": [*range(len(outputs))]}):
        return None if tree == 0 else tuple
    cuts = [len(outputs) + ghosts.index(v.shape[0]) if v.shape and v.shape[0] in ghosts else None for v in outputs]

    def take(value: Value, address: int, parts: tuple[Any, ...]) -> np.ndarray:
        sizes = dict(zip(ghosts, parts[len(outputs) :], strict=True))
        shape = tuple(evaluate_size(size, sizes) for size in value.shape)
        return adopt_array(address, shape, numpy_dtype(value.dtype), calls.free)

    made = signature.made

    def finish(parts: tuple[Any, ...]) -> Any:
        results = [
            take(value, part, parts) if is_made else part if k is None else _trim(part, parts[k])
            for value, is_made, part, k in zip(outputs, made, parts, cuts, strict=False)
        ]
        return build_result(tree, results)

    return finish


def _trim(rows: np.ndarray, size: int) -> np.ndarray:
    """The first `size` rows: a view, or a copy when they are less than half of the array, so that the larger block is freed."""
    view = rows[:size]
    return view.copy() if 2 * size < len(rows) else view
