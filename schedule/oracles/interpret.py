"""An interpreter of nests, scalar or gang, in Python: the second oracle.

The nest is translated to one Python function (`python_source`), which calls the functions below; operations have the meaning of
`primitives.evaluate`. Memory accesses are checked (`memory`). Faults recorded by `Check` are raised at the end of the run. Parallel loops
may run in an order drawn from a seed, which reveals dependences.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType
from raido.algo.graph.expr import SizeVar
from raido.algo.graph.faults import fault_error
from raido.algo.graph.primitives import evaluate
from raido.schedule.nest.nodes import Nest
from raido.schedule.oracles.flight import Flight
from raido.schedule.oracles.memory import Memory, NestError
from raido.schedule.oracles.python_source import PythonSource


def interpret_nest(
    nest: Nest, arrays: Sequence[np.ndarray], sizes: Mapping[str, int] | None = None, seed: int | None = None
) -> list[np.ndarray]:
    """Returns the outputs of the nest for these inputs, in order; `sizes`: values of sizes that the shapes do not determine.

    Raises the program's fault, or `NestError` where the nest itself is wrong. `seed`: parallel loops run in a random order.
    """
    return compile_nest(nest)(arrays, sizes_of(nest, arrays, sizes or {}), seed)


def sizes_of(nest: Nest, arrays: Sequence[np.ndarray], given: Mapping[str, int]) -> dict[str, int]:
    """Returns every size by name: given, or solved from a shape in which it is the only unknown and occurs linearly."""
    sizes = dict(given)
    pairs = [
        (ix.linear(ix.canonical(e)), actual)
        for buffer, array in zip(nest.inputs, arrays, strict=True)
        for e, actual in zip(buffer.shape, np.shape(array), strict=True)
    ]
    for _ in pairs:
        for (constant, terms), actual in pairs:
            unknown = [atom for atom in terms if not (isinstance(atom, SizeVar) and atom.name in sizes)]
            if len(unknown) == 1 and isinstance(unknown[0], SizeVar):
                rest = actual - constant - sum(c * sizes[a.name] for a, c in terms.items() if a is not unknown[0])  # type: ignore[union-attr]
                sizes[unknown[0].name] = rest // terms[unknown[0]]
    return sizes


def compile_nest(nest: Nest, form: type[PythonSource] = PythonSource, known: Mapping[str, Any] | None = None) -> Any:
    """Returns a Python function of (arrays, sizes, seed) that runs the nest. `known`: replacements for names that the source of class
    `form` mentions.
    """
    source = form(nest)
    run = compile_lines(source.text, nest.name, source.constants | dict(known or {}))

    def call(arrays: Sequence[np.ndarray], sizes: Mapping[str, int], seed: int | None = None) -> list[np.ndarray]:
        faults: list[tuple[str, int, tuple[int, ...]]] = []
        with np.errstate(all="ignore"):
            results = run(list(arrays), dict(sizes), faults, None if seed is None else random.Random(seed))
        if faults:
            kind, site, values = faults[0]
            where: Any = nest.sites[site] if 0 <= site < len(nest.sites) else None
            raise fault_error(kind, values, where)
        return results

    return call


def compile_lines(text: str, name: str, known: Mapping[str, Any]) -> Any:
    """Returns the function `run` that lines of source define; `known`: names beside those that statements mention."""
    names: dict[str, Any] = {
        "M": Memory,
        "np": np,
        "W": _wrap,
        "fold": _fold_lanes,
        "shift": _shift_lanes,
        "compress": _compress_lanes,
        "R": range,
    }
    names |= {"NestError": NestError, "Flight": Flight, "order": _order, "alone": _alone, "record": _record, **known}
    exec(compile(text, f"<nest {name}>", "exec"), names)
    return names["run"]


def _wrap(value: int) -> int:
    """Returns an integer wrapped to i64."""
    return value if -(1 << 63) <= value < 1 << 63 else (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _order(loop: range, chance: random.Random | None) -> Any:
    """Returns the iterations of a parallel loop, shuffled if there is a random generator."""
    if chance is None:
        return loop
    shuffled = list(loop)
    chance.shuffle(shuffled)
    return shuffled


def _alone(loop: range, chance: random.Random | None) -> list[bool]:
    """Returns, for each iteration of a parallel loop, a random value of `For.alone`."""
    return [chance is not None and chance.random() < 0.5 for _ in loop]


def _record(faults: list[Any], kind: str, site: int, holds: Any, predicate: Any, values: tuple[Any, ...]) -> None:
    """Records the first failed check; of several lanes, the first."""
    if faults:
        return
    bad = np.logical_not(holds) if predicate is None else np.logical_and(np.logical_not(holds), predicate)
    if np.any(bad):
        lane = int(np.argmax(bad)) if np.ndim(bad) else 0
        faults.append((kind, site, tuple(int(v[lane]) if np.ndim(v) else int(v) for v in values)))


def _fold_lanes(name: str, dtype: DType, vector: np.ndarray) -> Any:
    """Returns the fold of a vector by the tree that halves the lanes."""
    while len(vector) > 1:
        half = len(vector) // 2
        if 2 * half != len(vector):
            raise NestError(f"{name} folds {len(vector)} lanes, which is not a power of two")
        vector = evaluate(name, dtype, [vector[:half], vector[half:]])
    return vector[0]


def _shift_lanes(vector: np.ndarray, distance: int, fill: Any) -> np.ndarray:
    """Returns the lanes shifted up by `distance`, with `fill` in the first ones."""
    moved = np.full_like(vector, fill)
    moved[distance:] = vector[:-distance]
    return moved


def _compress_lanes(vector: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Returns the lanes that are on packed to the front, with zeros behind them."""
    moved = np.zeros_like(vector)
    moved[: np.count_nonzero(mask)] = vector[mask]
    return moved
