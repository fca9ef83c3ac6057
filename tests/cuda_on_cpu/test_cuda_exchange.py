"""Reductions across the threads of a warp on CUDA: shuffles of a whole warp, by default, for every width of value."""

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

SM_90 = Target("cuda", arch="sm_90")


def folded(dtype: str) -> Any:
    op, neutral = (rd.maximum, -np.inf) if dtype == "f16" else (rd.add, 0)
    return rd.algorithm(a=f"{dtype}[n]")(lambda a: rd.reduce(op, neutral, a, name="s"))


@rd.algorithm(a="f32[n]")
def lowest(a: rd.Array) -> rd.Array:
    return rd.argmin(a, name="s")


@rd.algorithm(a="i32[n, 100]")
def rows(a: rd.Array) -> rd.Array:
    return rd.sum(a, axis=1, name="s")


PROGRAMS = {dtype: folded(dtype) for dtype in ("u8", "f16", "f32", "i64", "f64")} | {"argmin": lowest, "rows": rows}


@pytest.fixture(scope="module")
def executables() -> Iterator[dict[str, Any]]:
    made = {name: partial(CudaCompilation, a.trace(), SM_90, None, {}) for name, a in PROGRAMS.items()}
    with executables_of(made) as found:
        yield found


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("n", [1, 31, 33, 260, 9001])
def test_what_warps_fold_is_what_the_program_says(executables: dict[str, Any], name: str, n: int) -> None:
    (parameter,) = PROGRAMS[name].trace().parameters
    shape = (n % 50 + 1, 100) if name == "rows" else (n,)
    a = np.random.default_rng(n).integers(0, 7, shape).astype(parameter.dtype.numpy)
    assert "raido_exchange(" in executables[name].source("cuda").split('extern "C"', 1)[1]
    np.testing.assert_array_equal(executables[name](a), PROGRAMS[name].interpret(a))


def test_an_exchange_is_a_shuffle_of_the_whole_warp() -> None:
    source = CudaCompilation(PROGRAMS["f32"].trace(), SM_90, None, {}).text
    try:
        ptx = compile_source(source.text, "compute_75").code.decode()
    except TargetError as error:
        pytest.skip(str(error))
    assert ptx.count("shfl.sync.down.b32") == source.body.count("raido_exchange(") >= 5
    assert "__shfl_down_sync(0xffffffffu, " in source.text
