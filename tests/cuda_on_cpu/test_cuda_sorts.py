"""Sorts on CUDA: concurrent blocks pass on their counts of each digit (onesweep), and give the interpreter's results."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from twin_compiler import executables_of

import raido as rd
from raido.algo.errors import TargetError
from raido.targets.cuda.nvrtc import compile_source
from raido.targets.cuda.program import CudaCompilation
from raido.targets.target import Target

SM_80 = Target("cuda", arch="sm_80")


@rd.algorithm(a="f32[n]")
def floats(a: rd.Array) -> Any:
    return rd.sort(a, descending=True, name="s")


@rd.algorithm(a="i64[n]")
def places(a: rd.Array) -> Any:
    return rd.argsort(a, name="s")


@rd.algorithm(a="u8[n]", b="f64[n]", c="i16[n]")
def carried(a: rd.Array, b: rd.Array, c: rd.Array) -> Any:
    order = rd.argsort((a, c), name="s")
    return b[order]


@rd.algorithm(a="f16[n]")
def halves(a: rd.Array) -> Any:
    return rd.sort(a, name="s")


@rd.algorithm(a="i16[n, m]")
def rows(a: rd.Array) -> Any:
    return rd.argsort(a, axis=1, name="s")


PROGRAMS = {"floats": floats, "places": places, "carried": carried, "halves": halves, "rows": rows}
WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "chain": {"name": "chain", "block": 64, "threads": 32, "subgroup": 32, "staged": True},
    "apart": {"name": "chain", "block": 48, "threads": 16, "subgroup": 1, "staged": False},
    "phases": {"name": "three_phase", "block": 96, "threads": 64, "subgroup": 32, "staged": True},
}
COMPILED = [
    *(("floats", "default"), ("carried", "default"), ("places", "chain"), ("carried", "apart")),
    *(("halves", "chain"), ("floats", "phases"), ("carried", "phases")),
]
BY_ROWS = [("rows", "default"), ("rows", "phases")]
IN_FLIGHT = 8


def compilation_of(name: str, way: str) -> CudaCompilation:
    """The program by default, or in so small blocks that few numbers are many of them."""
    schedule = PROGRAMS[name].schedule(target=SM_80)
    if numbers := dict(WAYS[way]):
        schedule["s"].strategy(numbers.pop("name"), **numbers)
        if name == "rows":
            schedule["s"].bind("y", "block.x")
    return CudaCompilation(PROGRAMS[name].trace(), SM_80, schedule.complete(), {})


@pytest.fixture(scope="module")
def executables() -> Iterator[dict[tuple[str, str], Any]]:
    with executables_of({key: partial(compilation_of, *key) for key in (*COMPILED, *BY_ROWS)}, IN_FLIGHT) as made:
        yield made


def inputs(name: str, n: int) -> list[np.ndarray]:
    draw = np.random.default_rng(n)
    found = []
    for p in PROGRAMS[name].trace().parameters:
        dtype = p.dtype.numpy
        if p.dtype.is_float:
            special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0])
            found.append(np.where(draw.random(n) < 0.2, draw.choice(special, n), draw.normal(size=n) * 9).astype(dtype))
        else:
            bits = draw.integers(0, 256, n * dtype.itemsize, dtype="u1").view(dtype)
            found.append(np.where(draw.random(n) < 0.3, dtype.type(3), bits))
    return found


@pytest.mark.parametrize(("name", "way"), COMPILED)
def test_a_sort_gives_what_the_program_says(executables: Any, name: str, way: str) -> None:
    for n in (0, 700, 4200) if way == "default" else (1, 48, 97, 700):
        arrays = inputs(name, n)
        want = PROGRAMS[name].interpret(*arrays)
        assert executables[name, way](*arrays).tobytes() == want.tobytes(), n


@pytest.mark.parametrize(("name", "way"), BY_ROWS)
def test_blocks_sort_a_row_each(executables: Any, name: str, way: str) -> None:
    """Rows for a thread each, for a block at once, for a block part by part, and for all blocks together."""
    for shape in ((5, 9), (3, 300), (1, 4200)) if way == "default" else ((3, 96), (5, 250)):
        a = np.random.default_rng(shape[1]).integers(-99, 99, shape).astype("i2")
        np.testing.assert_array_equal(executables[name, way](a), np.argsort(a, axis=1, kind="stable"))


def test_elements_that_are_all_alike_stay_where_they_are(executables: Any) -> None:
    np.testing.assert_array_equal(executables["places", "chain"](np.full(500, 7)), np.arange(500))


@pytest.mark.parametrize(("name", "architecture"), [("places", "sm_75"), ("carried", "sm_90")])
def test_sorts_are_compiled_without_local_memory(name: str, architecture: str) -> None:
    target = Target("cuda", arch=architecture)
    try:
        code = compile_source(CudaCompilation(PROGRAMS[name].trace(), target, None, {}).text.text, architecture)
    except TargetError as error:
        pytest.skip(str(error))
    assert all(found.local_bytes == found.spill_bytes == 0 for found in code.resources.values())
