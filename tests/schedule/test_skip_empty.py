"""Empty arrays cost no time: loops around empty loops are not entered."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import raido as rd
from raido.schedule.nest.nodes import For, If
from raido.schedule.nest.passes.skip_empty import skip_empty_loops
from raido.schedule.nest.walk import statements_within
from raido.targets.compile import Compilation
from raido.targets.target import Target

ROWS = 1 << 60
PROGRAMS: dict[str, Callable[[rd.Array], rd.Array]] = {
    "elementwise": lambda x: x + 1,
    "transposed": lambda x: x.T * 2,
    "mapped": lambda x: rd.map(lambda row: row * 2, x),
    "stencil": lambda x: rd.stencil(lambda p: p[0, -1] + p[1, 0], x, boundary="clamp"),
    "two stencils": lambda x: rd.stencil(
        lambda p: p[-1, 0] + p[1, 0], rd.stencil(lambda p: p[0, -1] + p[0, 1], x, boundary="clamp"), boundary="wrap"
    ),
    "scan of rows": lambda x: rd.scan(rd.add, 0, x, axis=1),
    "product": lambda x: x.T @ x,
    "sort of rows": lambda x: rd.sort(x, axis=1),
    "sort of columns": lambda x: rd.sort(x, axis=0),
    "mapped sort": lambda x: rd.map(rd.sort, x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_empty_arrays_of_any_number_of_rows_take_no_time(name: str) -> None:
    """Loops of 2⁶⁰ iterations would not end."""
    algorithm = rd.algorithm(PROGRAMS[name], x="f32[h, w]")
    empty = np.empty((ROWS, 0), np.float32)
    shape = algorithm(empty).shape
    assert shape == {"transposed": (0, ROWS), "product": (0, 0)}.get(name, (ROWS, 0))
    fewer = np.empty((ROWS >> 3, 0), np.float32)
    assert algorithm.interpret(fewer).shape == tuple(n >> 3 for n in shape)
    some = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_array_equal(algorithm(some), algorithm.interpret(some))


def test_a_sum_over_nothing_beside_many_rows_takes_no_time() -> None:
    total = rd.algorithm(lambda x: rd.sum(x, axis=(1, 2)), x="f32[n, h, w]")
    assert total(np.empty((3, 1 << 50, 0), np.float32)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("shape", [(1 << 57, 0), (0, 1 << 57)])
def test_reductions_of_nothing_take_no_memory(shape: tuple[int, int]) -> None:
    """A partial result for every chunk of rows would."""
    empty = np.empty(shape, np.float32)
    for function, answer in (
        (lambda x: rd.sum(x), 0),
        (lambda x: rd.prod(x), 1),
        (lambda x: rd.any(x > 0), False),
        (lambda x: rd.sum(rd.filter(lambda v: v > 1, rd.flatten(x))), 0),
        (lambda x: rd.unique(rd.flatten(x)).shape[0], 0),
        (lambda x: rd.sum(x) + rd.max(x, initial=0), 0),
    ):
        algorithm = rd.algorithm(function, x="f32[h, w]")
        assert algorithm(empty) == algorithm.interpret(empty) == answer
    along = rd.algorithm(lambda x: rd.sum(x, axis=0 if shape[0] else 1), x="f32[h, w]")
    assert along(empty).shape == along.interpret(empty).shape == (0,)
    some = np.arange(600, dtype=np.float32).reshape(100, 6)
    assert rd.algorithm(lambda x: rd.sum(x), x="f32[h, w]")(some) == some.sum()


def test_tests_stand_around_the_outermost_loops_alone() -> None:
    def tests(algorithm: rd.Algorithm) -> int:
        work = Compilation(algorithm.trace(), Target("llvm"), None, {})
        nest, skipped = work.nest, skip_empty_loops(work.nest)
        count = lambda n: sum(isinstance(s, If) for s in statements_within(n.body))
        loops = lambda n: sum(isinstance(s, For) for s in statements_within(n.body))
        assert loops(nest) == loops(skipped)
        return count(skipped) - count(nest)

    assert tests(rd.algorithm(lambda x: x + x[:, ::-1], x="f32[h, w]")) == 1
    assert tests(rd.algorithm(PROGRAMS["elementwise"], x="f32[h, w]")) == 0  # one loop over all rows
    assert tests(rd.algorithm(PROGRAMS["elementwise"], x="f32[n]")) == 0
    assert tests(rd.algorithm(PROGRAMS["elementwise"], x="f32[h, 8]")) == 0
    assert tests(rd.algorithm(lambda x: x + x[..., ::-1], x="f32[n, h, w]")) == 1
