"""Reductions whose result is a symmetric matrix: their recognition, and their strategy, "triangle"."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import raido as rd
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.printer import print_nest
from raido.schedule.oracles.count import count_work
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.schedule.stages.stage import Stage

AVX512 = Machine(vector_bits=512, registers=32)


def pairs(of: Callable[..., object]) -> Callable[..., object]:
    """A sum for each pair of rows of two arrays."""

    def program(x: rd.f64["n", "k"], y: rd.f64["n", "k"]):
        terms = lambda i, j: rd.tabulate(x.shape[1], lambda r: of(x[i, r], x[j, r], y[i, r], y[j, r]))
        return rd.tabulate((x.shape[0], x.shape[0]), lambda i, j: rd.sum(terms(i, j)), name="c")

    return program


def is_symmetric(program: Callable[..., object]) -> bool:
    (stage,) = (s for s in form_stages(rd.algorithm(program).trace()).stages if s.name == "c")
    assert isinstance(stage, Stage)
    return stage.symmetric


@pytest.mark.parametrize(
    "of",
    [
        lambda a, b, c, d: a * b,
        lambda a, b, c, d: a * b + d * c,
        lambda a, b, c, d: (a - b) * (a - b),
        lambda a, b, c, d: rd.abs(a - b),
        lambda a, b, c, d: rd.exp(-rd.abs(a - b)) + rd.maximum(d, c),
        lambda a, b, c, d: (a - b) * (a - b) * (c + d),
    ],
)
def test_values_that_do_not_change_when_rows_and_columns_are_exchanged(of):
    assert is_symmetric(pairs(of))


@pytest.mark.parametrize(
    "of",
    [
        lambda a, b, c, d: a * d,
        lambda a, b, c, d: a - b,
        lambda a, b, c, d: (a - b) * (c - d),  # 0 · −1 is −0, and 0 · 1 is 0
        lambda a, b, c, d: rd.exp(a - b),
        lambda a, b, c, d: a / b,
        lambda a, b, c, d: a * b * c,
        lambda a, b, c, d: rd.where(a < b, a, b),
    ],
)
def test_values_that_change(of):
    assert not is_symmetric(pairs(of))


def test_results_of_two_sizes_are_not_symmetric_nor_are_those_of_two_arrays():
    def two(x: rd.f64["k", "n"], y: rd.f64["k", "n"]):
        return rd.matmul(x.T, y, name="c")

    def sizes(x: rd.f64["k", "n"]):
        return rd.matmul(x.T, x[:, 1:], name="c")

    assert not is_symmetric(two) and not is_symmetric(sizes)


@rd.algorithm
def gram(x: rd.f64["k", "n"]):
    return rd.matmul(x.T, x, name="c")


def nest_of(schedule: Schedule, machine: Machine = AVX512):
    done = schedule.complete(machine)
    return lower(done.graph, done.variants(), machine)


def tiled(strategy: bool) -> Schedule:
    s = gram.schedule()
    if strategy:
        s["c"].strategy("triangle")
    s["c"].tile(y=3, x=4).reorder("yo", "xo", "r", "yi", "xi").unroll("yi").vectorize("xi", 4)
    return s


@pytest.mark.parametrize("n", [0, 1, 2, 5, 15, 16, 17, 33, 40])
def test_both_triangles_have_the_bits_of_a_result_that_is_made_whole(n):
    x = np.random.default_rng(n).random((7, n))
    (whole,), (copied,) = (interpret_nest(nest_of(tiled(each)), [x]) for each in (False, True))
    assert (whole == copied).all() and whole.shape == (n, n)
    assert (gram.compile(schedule=tiled(True))(x) == gram.compile(schedule=tiled(False))(x)).all()


def test_tiles_above_the_diagonal_are_not_made():
    x = np.ones((6, 48))
    work = {each: count_work(nest_of(tiled(each)), [x])[0].operations for each in (False, True)}
    assert work[True] < 0.6 * work[False]


def test_default_schedules_make_a_triangle_where_sums_are_long():
    def text(k: int | None) -> str:
        sizes = {} if k is None else {"k": k}
        return str(Schedule(form_stages(gram.trace())).complete(AVX512, {"n": 1000, **sizes}))

    assert "triangle" in text(None) and "triangle" in text(64) and "triangle" not in text(32)
    assert "if " in print_nest(nest_of(gram.schedule()))


def test_covariances_are_products_of_an_array_with_itself():
    """The conjugate of reals is a copy; copies are no stages."""
    covariances = rd.algorithm(lambda x: rd.cov(x), x="f64[n, m]")
    assert "triangle" in str(covariances.schedule().complete(AVX512))


def test_products_side_by_side_have_triangles_of_their_own():
    @rd.algorithm
    def many(x: rd.f64["b", "n", "k"]):
        return rd.einsum("bik,bjk->bij", x, x)

    assert "triangle" in str(many.schedule().complete(AVX512))
    x = np.random.default_rng(0).random((3, 21, 70))
    np.testing.assert_allclose(many(x), x @ x.transpose(0, 2, 1))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (lambda s: s["c"].strategy("triangle").parallel("r"), "copies complete results"),
        (lambda s: s["c"].strategy("square"), 'no strategy "square"'),
    ],
)
def test_refusals(said, why):
    with pytest.raises(rd.ScheduleError, match=why):
        said(gram.schedule())


def test_a_triangle_is_made_whole():
    @rd.algorithm
    def rows(x: rd.f64["k", "n"]):
        return rd.sum(rd.matmul(x.T, x, name="c"), 1, name="sums")

    s = rows.schedule()
    with pytest.raises(rd.ScheduleError, match='mirrors "c" once its triangle is complete'):
        s["c"].strategy("triangle").compute_at("sums", "x")
