"""Array loops whose iterations are independent become maps; all others stay loops, and results and faults are the interpreter's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.schedule.lower import lower
from raido.schedule.oracles.interpret import interpret_nest

A = np.arange(1.0, 13.0)
M = A.reshape(3, 4) * A[::-1].reshape(3, 4)


def filled(f: Callable[[Any, Any], Any], a: Any) -> Any:
    return rd.loop(a.shape[0], lambda i, z: z.at[i].set(f(i, z)), rd.zeros(a.shape[0]))


def nested(a: Any, count: Callable[[Any, Any], Any], body: Callable[[Any, Any, Any], Any], init: Any) -> Any:
    n, m = a.shape
    return rd.loop(n, lambda i, z: rd.loop(count(i, m), lambda j, z: body(i, j, z), z), init)


def several(a: Any) -> Any:
    def body(i: Any, state: Any) -> Any:
        z, w, s = state
        v = rd.exp(a[i]) * 2
        z = z.at[i].set(v)
        return z, w.at[i + 1].add(z[i] + 1), s + v

    n = a.shape[0]
    return rd.loop(n, body, (rd.zeros(n), rd.ones(n + 1), 0.0))


def running_maximum(a: Any) -> Any:
    def body(i: Any, state: Any) -> Any:
        z, high = state
        v = rd.exp(a[i])
        return z.at[i].set(v * 2), rd.maximum(high, v)

    return rd.loop(a.shape[0], body, (rd.zeros(a.shape[0]), 0.0))


def substituted(a: Any) -> Any:
    """Back substitution: the loop reads its initial array where it has not changed the state yet."""
    n, start = a.shape[0], a * a
    return rd.loop(n - 1, lambda i, z: z.at[n - 2 - i].set(start[n - 2 - i] - z[n - 1 - i] / 2), start)


def reread(a: Any) -> Any:
    start = a * a
    return rd.loop(a.shape[0] - 1, lambda i, z: z.at[i + 1].set(start[i] - z[i] / 2), start)


def sweeps(a: Any) -> Any:
    n, m = a.shape

    def sweep(_: Any, a: Any) -> Any:
        def row(i: Any, z: Any) -> Any:
            return rd.loop(m - 2, lambda j, z: z.at[i + 1, j + 1].set(a[i, j + 1] + a[i + 2, j + 1] + a[i + 1, j]), z)

        return rd.loop(n - 2, row, a)

    return rd.loop(3, sweep, a)


MAPS = {
    "one": (lambda a: filled(lambda i, z: rd.sqrt(a[i]) + z[i], a), A),
    "changed twice": (
        lambda a: rd.loop(a.shape[0], lambda i, z: z.at[i].set(a[i]).at[i].add(a[i]), rd.zeros(a.shape[0])),
        A,
    ),
    "later elements": (lambda a: rd.loop(a.shape[0] - 1, lambda i, z: z.at[i].set(z[i + 1] * 2), a), A),
    "earlier elements, backwards": (
        lambda a: rd.loop(a.shape[0] - 1, lambda i, z: z.at[a.shape[0] - 1 - i].add(z[a.shape[0] - 2 - i]), a),
        A,
    ),
    "backwards": (
        lambda a: rd.loop(a.shape[0], lambda i, z: z.at[a.shape[0] - i].set(a[i]), rd.ones(a.shape[0] + 1)),
        A,
    ),
    "a part": (lambda a: rd.loop(a.shape[0] - 2, lambda i, z: z.at[i + 1].set(a[i] + a[i + 1] + a[i + 2]), a), A),
    "no more than a few": (lambda a: rd.loop(rd.minimum(a.shape[0], 3), lambda i, z: z.at[i].multiply(-1.0), a), A),
    "several and a fold": (several, A),
    "elements of two dimensions": (
        lambda a: nested(a, lambda i, m: m, lambda i, j, z: z.at[i, j].add(a[i, j] * 2), rd.ones(a.shape)),
        M,
    ),
    "transposed": (
        lambda a: nested(a, lambda i, m: m, lambda i, j, z: z.at[j, i].set(a[i, j] * 2), rd.ones(a.T.shape)),
        M,
    ),
    "a triangle": (
        lambda a: nested(
            a, lambda i, m: rd.minimum(i + 1, m), lambda i, j, z: z.at[i, j].set(a[i, j]), rd.ones(a.shape)
        ),
        M,
    ),
    "rows": (lambda a: rd.loop(a.shape[0], lambda i, z: z.at[i].set(a[i] / rd.sum(a[i])), rd.zeros(a.shape)), M),
    "reversed rows": (lambda a: rd.loop(a.shape[0], lambda i, z: z.at[i].set(z[i, ::-1]), a), M),
    "columns": (lambda a: rd.loop(a.shape[1], lambda i, z: z.at[:, i].set(a[:, i] + z[:, i]), rd.ones(a.shape)), M),
    "parts of rows": (lambda a: rd.loop(a.shape[0], lambda i, z: z.at[i, 1:3].set(a[i, :2]), rd.ones(a.shape)), M),
    "in a map": (lambda a: rd.map(lambda row: filled(lambda i, z: row[i] * 2, row), a), M),
    "a branch": (
        lambda a: rd.loop(
            a.shape[0], lambda i, z: rd.cond(a[i] > 5, lambda: z.at[i].set(a[i]), lambda: z), rd.ones(a.shape)
        ),
        A,
    ),
    "folds in elements": (
        lambda a: nested(a, lambda i, m: m, lambda i, j, z: z.at[i].add(a[i, j] * 2), rd.ones(a.shape[0])),
        M,
    ),
    "a product": (
        lambda a: nested(
            a.T @ a,
            lambda i, m: m,
            lambda i, j, z: rd.loop(a.shape[0], lambda k, z: z.at[i, j].add(a[k, i] * a[k, j]), z),
            rd.ones((a.shape[1], a.shape[1])),
        ),
        M,
    ),
    "no iteration": (lambda a: rd.loop(0, lambda i, z: z.at[i].set(a[i]), a), A),
}
LOOPS = {
    "earlier elements": lambda a: rd.loop(a.shape[0] - 1, lambda i, z: z.at[i + 1].set(z[i] * 2), a),
    "all elements": lambda a: filled(lambda i, z: rd.sum(z) + a[i], a),
    "any elements": lambda a: rd.loop(a.shape[0], lambda i, z: z.at[i].set(z[rd.clip(a[i].astype("i64"), 0, 11)]), a),
    "a state": lambda a: rd.loop(a.shape[0], lambda i, s: (s[0].at[i].set(s[1]), s[1] + a[i]), (a, 0.0)),
    "exchanged states": lambda a: rd.loop(a.shape[0], lambda i, s: (s[1].at[i].set(a[i]), s[0]), (a, a * 2)),
    "strides": lambda a: rd.loop(a.shape[0] // 2, lambda i, z: z.at[2 * i].set(a[i]), a),
    "two elements": lambda a: rd.loop(a.shape[0], lambda i, z: z.at[i % 2].add(a[i]), a),
    "elsewhere, too": lambda a: rd.loop(a.shape[0], lambda i, z: z.at[i].set(a[i]).at[0].set(1.0), a),
    "a fold of costly values": running_maximum,
    "the initial array": substituted,
    "changed elements of the initial array": reread,
}


def stages_of(program: Callable[[Any], Any], a: np.ndarray) -> tuple[str, ...]:
    return rd.algorithm(program).schedule(a).stages


@pytest.mark.parametrize("name", MAPS)
def test_independent_iterations_are_maps(name: str) -> None:
    assert not any("/" in stage for stage in stages_of(*MAPS[name])) or name == "several and a fold"


@pytest.mark.parametrize("name", LOOPS)
def test_dependent_iterations_stay_loops(name: str) -> None:
    assert any("/update_" in stage for stage in stages_of(LOOPS[name], A))


def test_loops_need_no_copy_of_an_initial_array_that_they_read_before_they_change_it() -> None:
    text = lambda program, a: rd.algorithm(program).schedule(a).complete().nest_text()
    assert "copy" not in text(substituted, A) and "copy" in text(reread, A)
    assert "copy" not in text(lambda a: rd.map(substituted, a), M), "indices of the loop are in range inside a map, too"


def test_inner_loops_are_maps() -> None:
    assert stages_of(sweeps, M) == ("loop_1", "loop_1/map_1", "loop_1/update_1")


@pytest.mark.parametrize("size", [12, 1])
def test_results_are_the_interpreters(size: int) -> None:
    for program, a in [*MAPS.values(), *((f, A) for f in LOOPS.values() if size > 1), (sweeps, M)]:
        algorithm, a = rd.algorithm(program), a[:size]
        complete = algorithm.schedule(a).complete()
        nest = lower(complete.graph, complete.variants())
        expected = algorithm.interpret(a)
        found = interpret_nest(nest, [a], seed=1)
        for one, other in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_fold_reads_the_finished_map() -> None:
    nest = rd.algorithm(several).schedule(A).complete().nest_text()
    assert "exp" in nest and "exp" not in nest.partition("produce loop_2")[2]


def test_indices_out_of_range_fault() -> None:
    def beyond(a: Any) -> Any:
        return rd.loop(a.shape[0], lambda i, z: z.at[i + 1].set(a[i]), a)

    with pytest.raises(rd.IndexOutOfRange):
        rd.algorithm(beyond)(A)


def test_schedules_of_the_loop_are_kept() -> None:
    algorithm = rd.algorithm(MAPS["rows"][0])
    as_map, as_loop = algorithm.schedule(M), algorithm.schedule(M)
    as_map["loop_1"].vectorize("x")
    as_loop["loop_1/update_1"].vectorize("r")
    assert as_map.stages == ("reduce_1", "loop_1")
    assert as_loop.stages == ("move_1", "loop_1", "loop_1/reduce_1", "loop_1/elementwise_1", "loop_1/update_1")
    for schedule in (as_map, as_loop):
        again = rd.Schedule.from_json(schedule.to_json(), algorithm.schedule(M))
        assert (again, again.stages) == (schedule, schedule.stages)
        assert schedule.complete().stages == schedule.stages
        np.testing.assert_array_equal(algorithm.compile(schedule=schedule)(M), M / M.sum(1, keepdims=True))


def test_sums_of_nearly_equal_length_are_lanes() -> None:
    def smoothed(a: Any, w: Any) -> Any:
        n, k = a.shape[0], w.shape[0]
        weighted = lambda i: rd.loop(rd.minimum(k, n - i), lambda j, s: s + a[i + j] * w[j], 0.0)
        return rd.loop(n, lambda i, z: z.at[i].set(weighted(i)), rd.zeros(n))

    assert '.vectorize("x' in str(rd.algorithm(smoothed).schedule(A, A[:3]).complete())


def test_iterations_of_many_changes_take_no_time() -> None:
    def mixed(a: Any) -> Any:
        def step(i: Any, z: Any) -> Any:
            for k in range(40):
                z = z.at[k % 16].set(z[(5 * k + 1) % 16] * 0.5 + z[(k + 3) % 16] + a[i])
            return z

        return rd.loop(a.shape[0], step, rd.zeros(16))

    assert any("/update_" in stage for stage in stages_of(mixed, A))


@rd.algorithm
def lower_triangle(c: rd.f64["n", "n"], a: rd.f64["n", "m"]) -> Any:
    return rd.loop(c.shape[0], lambda i, c: c.at[i, : i + 1].add(a[: i + 1] @ a[i]), c)


@rd.algorithm
def upper_triangle(c: rd.f64["n", "n"], a: rd.f64["n", "m"]) -> Any:
    return rd.loop(c.shape[0], lambda i, c: c.at[i, i:].set(2 * c[i, i:] - a[i:] @ a[i]), c)


@rd.algorithm
def rows_by_data(c: rd.f64["n", "n"], a: rd.f64["n", "m"], k: rd.i64["n"]) -> Any:
    return rd.loop(c.shape[0], lambda i, c: c.at[i, : k[i]].add(a[: k[i]] @ a[i]), c)


def test_rows_of_different_lengths_are_products_where_axes_decide_the_lengths() -> None:
    for triangle in (lower_triangle, upper_triangle):
        assert "_copy" in str(triangle.schedule().complete())
    assert "_copy" not in str(rows_by_data.schedule().complete())


@pytest.mark.parametrize("size", [0, 1, 17])
def test_rows_of_different_lengths_are_the_interpreters(size: int) -> None:
    rng = np.random.default_rng(size)
    for columns in (0, 40):
        c, a = rng.random((size, size)), rng.random((size, columns))
        for triangle in (lower_triangle, upper_triangle):
            np.testing.assert_allclose(triangle(c, a), triangle.interpret(c, a))
        by_data = (c, a, rng.integers(0, size + 1, size))
        np.testing.assert_allclose(rows_by_data(*by_data), rows_by_data.interpret(*by_data))
