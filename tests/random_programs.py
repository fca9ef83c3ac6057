"""Random programs through the public front end, for the test that every way to run a program gives the same bits.

`random_program(seed, statements)` is a function of its arguments alone; fewer statements give a prefix of the same program, so a
failure is reduced by lowering `statements`. A program is Python source (`.source` rebuilds it, inputs included; tracebacks
show its lines). Programs terminate and are exact under any grouping of their reductions, because float sums are of small
integers, except results whose flag in `.exact` is false. They fault only where `.may_fault` says so.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from ml_dtypes import finfo
from random_expressions import letter, numpy_name
from random_forms import form_writer
from random_more_forms import full_writer
from random_open import OpenWriter, open_writer, small_input
from random_plain import plain_writer
from random_signatures import whole_writer
from random_wide import wide_writer
from random_writer import ProgramWriter

import raido as rd
from raido.algo.graph.narrow import widen

Grammar: TypeAlias = Literal["plain", "wide", "forms", "full", "whole", "open"]
WRITERS: dict[Grammar, Callable[[int], ProgramWriter | OpenWriter]] = {
    "plain": plain_writer,
    "wide": wide_writer,
    "forms": form_writer,
    "full": full_writer,
    "whole": whole_writer,
    "open": open_writer,
}


@dataclass
class RandomProgram:
    """A program and arguments for it."""

    seed: int
    statements: int
    source: str
    algorithm: Any
    arguments: list[Any]
    exact: tuple[bool, ...]
    may_fault: bool = False

    def __repr__(self) -> str:
        return f"random_program({self.seed}, {self.statements}):\n{self.source}"


def make_input(dtype: str, shape: Sequence[int], seed: int) -> np.ndarray:
    """An array with ordinary values and a few extremes."""
    rng = np.random.default_rng(seed)
    shape = tuple(shape)
    if dtype == "bool_":
        return rng.random(shape) < 0.5
    name = numpy_name(dtype)
    if letter(dtype) == "f":
        values = np.asarray(np.round(rng.normal(0, 4, shape), 2)).astype(name)
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, finfo(name).max, finfo(name).tiny], name)
    else:
        info = np.iinfo(name)
        values = np.asarray(rng.integers(max(info.min, -20), 20, shape)).astype(name)
        special = np.array([info.min, info.max, 0, 1, info.max // 2], name)
    odd = rng.random(shape) < 0.04
    return np.asarray(np.where(odd, rng.choice(special, shape), values))


def random_program(seed: int, statements: int = 4, grammar: Grammar = "plain") -> RandomProgram:
    """Program number `seed` of a grammar, with that many statements.

    "wide" adds what is in `random_wide` to the plain grammar, "forms" what is in `random_forms`, "full" both and `random_more_forms`,
    "whole" to that `random_indexing` and, of parameters and results, `random_signatures`; "open" is `random_open`.
    """
    writer = WRITERS[grammar](seed)
    writer.write(statements)
    source = writer.source()
    file = f"<random_program({seed}, {statements}, {grammar})>"
    lines = source.splitlines(keepends=True)
    linecache.cache[file] = (len(source), None, lines, file)
    names: dict[str, Any] = {"rd": rd, "np": np, "make_input": make_input, "small_input": small_input}
    exec(compile(source, file, "exec"), names)
    return RandomProgram(
        seed, statements, source, names["program"], names["arguments"], writer.exactness(), writer.may_fault
    )


def same_bits(actual: np.ndarray, expected: np.ndarray) -> bool:
    """Equal in type, shape and every bit, any NaN being equal to any NaN."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return False
    actual, expected = widen(actual), widen(expected)
    if expected.dtype.kind != "f":
        return bool((actual == expected).all())
    both_nan = np.isnan(actual) & np.isnan(expected)
    return bool((both_nan | ((actual == expected) & (np.signbit(actual) == np.signbit(expected)))).all())


def leaves_of(result: Any) -> list[Any]:
    """The arrays of a result in order, complex ones as pairs, which is what interpreters of graphs and nests give."""
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, tuple):
        return [leaf for part in result for leaf in leaves_of(part)]
    array = np.asarray(result)
    return [np.stack([array.real, array.imag], axis=-1) if array.dtype.kind == "c" else result]


def disagreement(program: RandomProgram, actual: Any, expected: Any) -> str | None:
    """How two runs of a program differ, or None; results whose bits depend on grouping may differ by rounding."""
    pairs = zip(leaves_of(actual), leaves_of(expected), program.exact, strict=True)
    for k, (one, other, exact) in enumerate(pairs):
        fits = same_bits(one, other) if exact else np.allclose(one, other, rtol=1e-4, atol=0.05, equal_nan=True)
        if not fits:
            return f"result {k} of {program!r}\nis\n{one!r}\nnot\n{other!r}"
    return None
