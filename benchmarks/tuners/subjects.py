"""The subjects of tuning: the rows of the benchmarks, and the programs of the corpus that raido's model was not trained on."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from rows import ROWS
from rows.row import Arrays, Row, aligned
from tuning_corpus import HELD_OUT, CorpusProgram


def as_row(program: CorpusProgram) -> Row:
    """A program of the corpus in the form of a row; what its default schedule computes stands in for NumPy's answer."""

    def inputs(scale: int) -> list[np.ndarray]:
        given = zip(program.algorithm.trace().parameters, program.arguments(), strict=True)
        return [in_lines(np.asarray(values, parameter.dtype.numpy)) for parameter, values in given]

    def answer(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return computed(program.algorithm.compile()(*arrays))

    sizes = ", ".join(f"{name} = {n:,}" for name, n in program.sizes.items())
    return Row(f"{program.name}, {sizes}", program.algorithm, inputs, answer, tolerance=1e-4)


def in_lines(array: np.ndarray) -> np.ndarray:
    """A copy that begins a line of the cache."""
    copy = aligned(array.shape, array.dtype)
    copy[...] = array
    return copy


def computed(results: np.ndarray | tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """The results of a call, always a tuple."""
    return results if isinstance(results, tuple) else (results,)


HELD: dict[str, Row] = {f"{program.name}, unseen": as_row(program) for program in HELD_OUT}
SUBJECTS: dict[str, Row] = {**ROWS, **HELD}


def shapes_of(arrays: Iterable[np.ndarray]) -> list[tuple[list[int], str]]:
    """Shapes and types, as a child process is told them."""
    return [(list(array.shape), array.dtype.str) for array in arrays]


def room_for(row: Row, inputs: Arrays) -> list[np.ndarray]:
    """Arrays for the results, of the shapes that the default schedule gives."""
    return row.room(inputs, computed(row.algorithm.compile(sizes=row.sizes(inputs))(*inputs)))
