"""The forming of stages: which expressions become stages, their axes, and their names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.graph.expr import Load
from raido.schedule.stages.form_stages import form_stages
from raido.schedule.stages.stage import AnyStage, ControlStage, Stage, initial_values

F = rd.f32


def stages(algorithm: Any, *shapes: tuple[int, ...], sizes: tuple[Any, ...] = ()) -> list[tuple[str, str]]:
    """Names and axes of an algorithm's stages, loop bodies before their loops; reduction axes after a bar."""
    arrays = [np.zeros(shape, np.float32) for shape in shapes]
    found: list[tuple[str, str]] = []

    def walk(several: tuple[AnyStage, ...]) -> None:
        for stage in several:
            if isinstance(stage, ControlStage):
                walk(stage.setup + stage.body + stage.orelse)
                found.append((stage.name, "loop"))
            elif isinstance(stage, Stage):
                pure, reduced = (" ".join(a.name for a in axes) for axes in (stage.axes, stage.reduction_axes))
                found.append((stage.name, f"{pure} | {reduced}" if reduced else pure))

    walk(form_stages(algorithm.trace(*arrays, *sizes)).stages)
    return found


def test_names_are_the_users_and_axes_are_y_x() -> None:
    @rd.algorithm
    def blur(img: F["h", "w"]):
        rows = rd.stencil(lambda p: p[0, -1] + p[0, 1], img, boundary="clamp", name="rows")
        return rd.stencil(lambda p: p[-1, 0] + p[1, 0], rows, boundary="clamp", name="cols")

    assert stages(blur, (4, 5)) == [("rows", "y x"), ("cols", "y x")]


def test_a_matrix_product_is_one_stage_however_it_is_written() -> None:
    @rd.algorithm
    def product(a: F["n", "k"], b: F["k", "m"]):
        return a @ b

    @rd.algorithm
    def nested(a: F["n", "k"], b: F["k", "m"]):
        return rd.map(lambda row: rd.map(lambda column: rd.sum(row * column), b.T), a)

    @rd.algorithm
    def tabulated(a: F["n", "k"], b: F["k", "m"]):
        return rd.tabulate((a.shape[0], b.shape[1]), lambda i, j: rd.sum(a[i] * b[:, j]), name="c")

    assert stages(product, (3, 4), (4, 5)) == [("matmul_1", "y x | r")]
    assert stages(nested, (3, 4), (4, 5)) == [("map_1", "y x | r")]
    assert stages(tabulated, (3, 4), (4, 5)) == [("c", "i j | r")]


def test_an_unnamed_expression_is_one_stage() -> None:
    @rd.algorithm
    def polynomial(x: F["n"]):
        return (x * x + 1) * (x - 2) / 3

    assert stages(polynomial, (4,)) == [("elementwise_1", "x")]


def test_a_named_part_of_an_expression_is_a_stage() -> None:
    @rd.algorithm
    def magnitude(x: F["n"], y: F["n"]):
        squares = (x * x + y * y).named("squares")
        return rd.sqrt(squares)

    assert stages(magnitude, (4,), (4,)) == [("squares", "x"), ("elementwise_1", "x")]


def test_an_expression_that_is_read_twice_is_a_stage() -> None:
    @rd.algorithm
    def twice(x: F["h", "w"]):
        y = x * 2 + 1
        return y + rd.roll(y, 1, axis=0)

    assert stages(twice, (4, 5)) == [("elementwise_1", "y x"), ("elementwise_2", "y x")]


def test_index_moves_are_no_stages() -> None:
    @rd.algorithm
    def moved(x: F["h", "w"]):
        return rd.pad(x.T, 1)[1:-1] * 2

    assert stages(moved, (4, 5)) == [("elementwise_1", "y x")]


def test_a_padded_array_is_a_stage_where_folds_read_it_for_each_channel() -> None:
    """A convolution reads it for each channel of the result; one of each channel by itself, or a stencil, chooses where it reads."""

    @rd.algorithm
    def convolution(x: F["c", "h", "w"], k: F["o", "c", 3, 3]):
        p, taps = rd.pad(x, ((0, 0), (1, 1), (1, 1))), (x.shape[0], 3, 3)
        at = lambda o, y, x_: rd.sum(rd.tabulate(taps, lambda c, i, j: k[o, c, i, j] * p[c, y + i, x_ + j]))
        return rd.tabulate((k.shape[0], *x.shape[1:]), at, name="out")

    @rd.algorithm
    def by_kernels(x: F["h", "w"], k: F["o", 3, 3]):
        p = rd.pad(x, 1)
        at = lambda kernel: lambda y, x_: rd.sum(rd.tabulate((3, 3), lambda i, j: kernel[i, j] * p[y + i, x_ + j]))
        return rd.map(lambda kernel: rd.tabulate(x.shape, at(kernel)), k, name="out")

    @rd.algorithm
    def depthwise(x: F["c", "h", "w"], k: F["c", 3, 3]):
        p = rd.pad(x, ((0, 0), (1, 1), (1, 1)))
        at = lambda c, y, x_: rd.sum(rd.tabulate((3, 3), lambda i, j: k[c, i, j] * p[c, y + i, x_ + j]))
        return rd.tabulate(x.shape, at, name="out")

    assert [name for name, _ in stages(convolution, (3, 8, 9), (4, 3, 3, 3))] == ["move_1", "out"]
    assert [name for name, _ in stages(by_kernels, (8, 9), (4, 3, 3))] == ["move_1", "out"]
    assert [name for name, _ in stages(depthwise, (3, 8, 9), (3, 3, 3))] == ["out"]


def test_reductions_over_the_same_axes_are_one_stage() -> None:
    @rd.algorithm
    def both(x: F["n", "m"]):
        return rd.map(lambda row: rd.sum(row) * rd.sum(row * row), x)

    assert stages(both, (4, 5)) == [("map_1", "x | r")]


def test_a_reduction_that_a_whole_row_needs_is_a_stage_of_its_own() -> None:
    @rd.algorithm
    def centred(x: F["n", "m"]):
        return rd.map(lambda row: row - rd.sum(row), x)

    assert stages(centred, (4, 5)) == [("reduce_1", "x | r"), ("map_1", "y x")]


def test_a_row_that_is_read_twice_is_lifted_with_the_outer_axis_in_front() -> None:
    @rd.algorithm
    def normalised(x: F["n", "m"]):
        def row(r):
            e = rd.map(lambda v: rd.exp(v), r, name="e")
            return e / rd.sum(e)

        return rd.map(row, x, name="rows")

    names = dict(stages(normalised, (4, 5)))
    assert names["e"] == "y x"
    assert names["rows"] == "y x"


def test_stages_of_a_loop_stand_under_its_name() -> None:
    @rd.algorithm
    def steps(grid: F["h", "w"]):
        def body(t, u):
            return rd.stencil(lambda p: p[-1, 0] + p[1, 0], u, boundary="clamp", name="life")

        return rd.loop(3, body, grid, name="steps")

    assert stages(steps, (4, 5)) == [("steps/life", "y x"), ("steps", "loop")]


def test_what_does_not_change_in_a_loop_is_computed_before_it() -> None:
    @rd.algorithm
    def diffuse(x: F["n"], k: F["n"]):
        weights = rd.exp(k).named("weights")
        return rd.loop(3, lambda t, u: u * weights, x, name="steps")

    assert stages(diffuse, (4,), (4,))[0][0] == "weights"


def test_a_loop_that_does_not_depend_on_another_loop_runs_before_it() -> None:
    @rd.algorithm
    def solved(a: F["n"]):
        first = rd.loop(a.shape[0], lambda i, s: s * 2 + a[i], a)
        return rd.loop(a.shape[0], lambda i, s: s.at[i].add(first[i]), a)

    assert [name for name, _ in stages(solved, (4,))][:2] == ["loop_1/elementwise_1", "loop_1"]


@pytest.mark.parametrize("iterations", [3, None])
def test_a_loop_that_can_fail_runs_before_another_loop_if_that_has_an_iteration(iterations: int | None) -> None:
    @rd.algorithm
    def picked(a: F["n"], index: rd.i64["n"], times: rd.size):
        sums = rd.loop(3, lambda _, s: s + a[index], a)
        return rd.loop(times if iterations is None else iterations, lambda i, s: s.at[i].add(sums[i]), a)

    graph = form_stages(picked.trace(np.zeros(4, np.float32), np.zeros(4, np.int64), 3))
    assert [stage.name for stage in graph.stages if isinstance(stage, ControlStage)] == ["loop_1", "loop_2"]
    arguments = np.ones(4, np.float32), np.array([0, 1, 2, 9])
    if iterations is None:
        assert picked(*arguments, 0).tolist() == [1, 1, 1, 1]
    with pytest.raises(rd.IndexOutOfRange):
        picked(*arguments, 3)


def test_a_fold_that_iterations_of_an_update_share_is_a_stage() -> None:
    @rd.algorithm
    def cleared(a: F["n", "n"], times: rd.size):
        return rd.loop(times, lambda j, m: m.at[rd.argmax(m[:, j])].set(0), a)

    assert ("loop_1/reduce_1", " | r") in stages(cleared, (4, 4), sizes=(3,))


def test_what_a_loop_asks_its_body_does_not_ask_again() -> None:
    @rd.algorithm
    def solved(a: F["n"], index: rd.i64["n"], times: rd.size):
        first = rd.loop(a.shape[0], lambda i, s: s + a[index[i]], a)
        return rd.loop(times, lambda i, s: s + first, a)

    nest = solved.compile(like=(np.zeros(4, np.float32), np.zeros(4, np.int64), 3)).source("nest")
    assert "times > 0" in nest and "if times > 0" not in nest.split("for t in")[1]


def test_what_is_read_whether_a_condition_holds_or_not_is_computed_without_asking() -> None:
    """As a loop of updates at given places, behind which another loop makes differences of all elements but the first."""

    @rd.algorithm
    def bridged(g: F["n", "d"], order: rd.i64["d"]):
        def row(g: rd.Array) -> rd.Array:
            d = g.shape[0]
            made = rd.loop(d, lambda i, r: r.at[order[i]].set(2 * g[i]), g)
            return rd.loop(d - 1, lambda t, r: r.at[d - 1 - t].set(r[d - 1 - t] - r[d - 2 - t]), made)

        return rd.map(row, g)

    g, order = np.random.default_rng(0).random((5, 7), np.float32), np.array([3, 1, 4, 0, 2, 6, 5])
    names = [name for name, _ in stages(bridged, (5, 7), sizes=(order,))]
    assert not any("condition" in name for name in names)
    assert np.array_equal(bridged(g, order), bridged.interpret(g, order))
    with pytest.raises(rd.IndexOutOfRange):
        bridged(g, order + 1)


def test_a_repeated_name_gets_a_number() -> None:
    @rd.algorithm
    def again(x: F["n"]):
        y = rd.map(lambda v: v + 1, x, name="rows")
        return rd.map(lambda v: v * 2, y, name="rows")

    assert stages(again, (4,)) == [("rows", "x"), ("rows_2", "x")]


@pytest.mark.parametrize("rank, axes", [(1, "x"), (2, "y x"), (3, "z y x"), (4, "d0 z y x")])
def test_axes_are_named_by_rank(rank: int, axes: str) -> None:
    @rd.algorithm
    def double(x: rd.Array) -> rd.Array:
        return x * 2

    assert stages(double, (2,) * rank) == [("elementwise_1", axes)]


def test_initial_values_of_a_fold_are_apart_from_those_of_partial_results() -> None:
    def fold(algorithm: Any) -> tuple[list[Any], list[Any]]:
        (stage,) = form_stages(algorithm.trace()).stages
        assert isinstance(stage, Stage) and stage.reduction is not None
        init = (getattr(e, "value", e) for e in initial_values(stage.reduction))
        return list(init), [getattr(e, "value", e) for e in stage.reduction.neutral]

    @rd.algorithm
    def both(a: F["n"], b: rd.i64["n"]):
        return rd.scan(lambda p, q: (p[0] + q[0], rd.maximum(p[1], q[1])), (3.0, 5), a, b)

    @rd.algorithm
    def chained(a: F["n"], b: F["n"]):
        return rd.scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (1.0, 0.0), a, b)

    @rd.algorithm
    def bins(index: rd.i32["n"], dest: F["m"]):
        return rd.reduce_by_index(dest, rd.add, 0.0, index, 1.0)

    assert fold(both) == ([3.0, 5], [-0.0, np.iinfo(np.int64).min])
    assert fold(chained) == ([1.0, 0.0], []), "partial results begin with their first value"
    init, neutral = fold(bins)
    assert isinstance(init[0], Load) and neutral == [-0.0]
