"""Binds the user's arguments to the arrays and sizes that compiled code takes: the complete path, with every check and every message.

`bind_arguments` matches arguments with the signature as the interpreter does (`raido.algo.trace.arguments`), solves the sizes and prepares
the results. The fast path for the ordinary case (`fastcall`) falls back to this one, so no check is made in the fast path alone.

Invariants of a `Bound`: inputs and outputs are C-contiguous ndarrays of exactly the signature's dtypes and shapes; no output shares memory
with an input or another output; the user's arrays stay untouched until `finish` copies into those given as `out`. An output that the
program allocates is None until then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from raido.algo.graph.dtypes import numpy_dtype
from raido.algo.trace.arguments import match_arguments
from raido.targets.argument_sizes import solve_sizes
from raido.targets.outputs import prepare_outputs, result_in
from raido.targets.signature import Signature, evaluate_size, size_names

Take: TypeAlias = Callable[[int, tuple[int, ...], "np.dtype[Any]"], np.ndarray]


@dataclass(frozen=True, slots=True)
class Bound:
    """Arrays and sizes of one call. `given` holds the arrays of the user's `out` in the order of the outputs, None where `out` has none."""

    inputs: tuple[np.ndarray, ...]
    sizes: Mapping[str, int]
    outputs: tuple[np.ndarray | None, ...]
    given: tuple[np.ndarray | None, ...]
    out: Any = None

    @property
    def nbytes(self) -> int:
        """Compulsory traffic: every input read once and every output written once."""
        return sum(array.nbytes for array in (*self.inputs, *self.outputs) if array is not None)


def bind_arguments(signature: Signature, arguments: Sequence[Any], out: Any = None) -> Bound:
    """Checks and converts the arguments of a call; ArgumentError or SizeMismatch when they do not fit."""
    inputs, explicit = match_arguments(signature, arguments)
    sizes = solve_sizes(signature, inputs, explicit)
    outputs, given = prepare_outputs(signature, sizes, out)
    inputs = [_apart(array, [output for output in outputs if output is not None]) for array in inputs]
    return Bound(tuple(inputs), sizes, tuple(outputs), tuple(given), out)


def finish(signature: Signature, bound: Bound, existentials: Mapping[str, int], take: Take | None = None) -> Any:
    """The result in the user's structure, made of the outputs that compiled code has filled. `take` returns an output that the program
    itself has allocated, by its index, shape and dtype. Copies into the arrays of the user's `out`."""
    leaves: list[Any] = []
    for k, (value, array, given) in enumerate(zip(signature.outputs, bound.outputs, bound.given, strict=True)):
        if array is None:
            shape = tuple(evaluate_size(size, {**bound.sizes, **existentials}) for size in value.shape)
            assert take is not None
            leaves.append(take(k, shape, numpy_dtype(value.dtype)))
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
    return result_in(signature, bound.out, bound.given, leaves)


def _apart(array: np.ndarray, outputs: Sequence[np.ndarray]) -> np.ndarray:
    """The array, or a copy of it where it may share memory with an output."""
    return array.copy() if any(np.may_share_memory(array, output) for output in outputs) else array
