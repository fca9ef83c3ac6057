"""Reductions of the same elements share loops by default: each element is read once, and common subexpressions are computed once."""

import re

import numpy as np
import pytest

import raido as rd

RANDOM = np.random.default_rng(15)
X, Y = (RANDOM.random(shape, dtype=np.float32) for shape in ((37, 130), (130,)))


@rd.algorithm
def summary(x: rd.f32["n"]):
    return rd.sum(x), rd.sum(x * x), rd.min(x), rd.max(x)


@rd.algorithm
def standardised(x: rd.f32["n", "m"]):
    mean, squares = rd.mean(x, axis=1, keepdims=True), rd.mean(x * x, axis=1, keepdims=True)
    return (x - mean) / rd.sqrt(squares - mean * mean + 0.1)


@rd.algorithm
def weighted(x: rd.f32["n"], y: rd.f32["n"], at: rd.f32["m"]):
    weights = rd.exp(-((x[None, :] - at[:, None]) ** 2))
    return rd.sum(weights * y, axis=1) / rd.sum(weights, axis=1)


@rd.algorithm
def forces(x: rd.f32["n"], y: rd.f32["n"]):
    dx, dy = x[None, :] - x[:, None], y[None, :] - y[:, None]
    near = 1 / (dx * dx + dy * dy + 0.1)
    return rd.stack([rd.sum(dx * near, axis=1), rd.sum(dy * near, axis=1)])


def loops_around_folds(algorithm: rd.Algorithm) -> list[str]:
    lines = [line.strip() for line in algorithm.schedule().complete().nest_text().splitlines()]
    return [line for line in lines if line.startswith("for r") and "by vector" in line]


@pytest.mark.parametrize(
    ("algorithm", "arguments"),
    [(summary, (Y,)), (standardised, (X,)), (weighted, (Y, Y[::-1], X[0])), (forces, (Y, X[0]))],
    ids=lambda each: getattr(each, "name", ""),
)
def test_folds_of_the_same_elements_share_one_loop(algorithm: rd.Algorithm, arguments: tuple) -> None:
    assert len(loops_around_folds(algorithm)) == 1
    got, want = algorithm(*arguments), algorithm.interpret(*arguments)
    for a, b in zip(*((each if isinstance(each, tuple) else (each,)) for each in (got, want)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@rd.algorithm
def near(x: rd.f32["n"], y: rd.f32["k", "m"], counts: rd.i32["n"]):
    def one(a, count):
        def body(k, state):
            weights = rd.exp(-((y[k] - a) ** 2))
            mean = rd.sum(weights * y[k]) / rd.sum(weights)
            return state[0] + mean, state[1] + rd.sum((y[k] - mean) ** 2), rd.maximum(state[2], rd.max(y[k] - a))

        return rd.loop(count, body, (0.0, 0.0, -9.0))

    return rd.map(one, x, counts)


@rd.algorithm
def chosen(x: rd.f32["n"], y: rd.f32["m"]):
    sums = lambda a: rd.cond(a > 0.5, lambda: (rd.sum(rd.exp(a * y)), rd.sum(rd.exp(a * y) * y)), lambda: (a, a))
    return rd.map(sums, x)


def test_folds_of_an_iteration_or_a_branch_share_a_loop() -> None:
    """Folds that read another fold's result run behind it; and no array of an iteration is computed under the condition that there is one."""
    counts = np.arange(130, dtype="i4") % 37
    for algorithm, arguments, loops in ((near, (Y, X, counts), 2), (chosen, (Y, X[0]), 1)):
        nest = algorithm.schedule().complete().nest_text()
        assert len(re.findall(r"for r\w* in", nest)) == loops
        assert "if counts" not in nest and "if t" not in nest
        for a, b in zip(algorithm(*arguments), algorithm.interpret(*arguments), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_results_of_a_branch_share_its_loop() -> None:
    """As the nearest points of each point, in order, among which a nearer one is put."""

    def insert(t, state):
        best, new = state
        return best.at[t].set(rd.minimum(best[t], new)), rd.maximum(best[t], new)

    @rd.algorithm
    def nearest(x: rd.f32["n"], y: rd.f32["m"]):
        def step(a):
            def body(j, best):
                far = rd.abs(y[j] - a)
                return rd.cond(far < best[11], lambda: rd.loop(12, insert, (best, far))[0], lambda: best)

            return rd.loop(y.shape[0], body, rd.full(12, rd.f32(np.inf)))

        return rd.map(step, x)

    assert nearest.schedule().complete().nest_text().count("in 0..12:") == 1
    x, y = X[0], Y[:37]
    assert np.array_equal(nearest(x, y), np.sort(np.abs(y[None, :] - x[:, None]), axis=1)[:, :12])


def test_what_several_folds_read_is_made_in_their_loop() -> None:
    assert 's["elementwise_1"].inline()' in str(weighted.schedule().complete())


@rd.algorithm
def residual(x: rd.f32["n"], p: rd.f32["n"], a: rd.f32):
    r = (x - a * p).named("r")
    return r, rd.sum(r * r, name="norm"), rd.max(rd.abs(r), name="most")


@rd.algorithm
def relaxed(a: rd.f32["n", "m"], b: rd.f32["n", "m"]):
    def iterate(state):
        old, _ = state
        taps = lambda p, q: 0.1 * (p[-1, 0] + p[1, 0] + p[0, -1] + p[0, 1] + q[0, 0])
        new = rd.stencil(taps, old, b, boundary="clamp", name="new")
        return new, rd.max(rd.abs(new - old), name="change")

    return rd.while_loop(lambda state: state[1] > 1e-3, iterate, (a, rd.f32(1)))


@pytest.mark.parametrize(
    ("algorithm", "arguments", "fused"),
    [
        (
            residual,
            (Y, X[0], np.float32(0.5)),
            ('["norm"].compute_with("r", "xi")', '["most"].compute_with("r", "xi")'),
        ),
        (relaxed, (X, X[::-1]), ('["while_1/change"].compute_with("while_1/new", ',)),
    ],
    ids=["residual", "relaxed"],
)
def test_folds_of_a_map_share_its_loops(algorithm: rd.Algorithm, arguments: tuple, fused: tuple[str, ...]) -> None:
    schedule = str(algorithm.schedule().complete())
    assert all(each in schedule for each in fused), schedule
    for a, b in zip(algorithm(*arguments), algorithm.interpret(*arguments), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_folds_of_lines_in_iterations_have_branches_of_their_own() -> None:
    @rd.algorithm
    def forward(a: rd.f32["n", "n"], likely: rd.f32["t", "n"], start: rd.f32["n"]):
        def iterate(i, state):
            new = (state @ a) * likely[i]
            return new / rd.sum(new)

        return rd.loop(likely.shape[0], iterate, start)

    schedule = str(forward.schedule().complete())
    assert "compute_with" not in schedule and ".when(" in schedule


@rd.algorithm
def columns(x: rd.f32["n", "m"]):
    return rd.sum(x, axis=0), rd.min(x, axis=0), rd.mean(x * x, axis=0)


@rd.algorithm
def gradients(x: rd.f32["n", "m"], by: rd.f32["n"]):
    return rd.sum(x * by[:, None], axis=0), rd.sum(x, axis=0)


@rd.algorithm
def planes(x: rd.f32["k", "n", "m"]):
    return rd.sum(x, axis=1), rd.max(x, axis=1)


@pytest.mark.parametrize(
    ("algorithm", "guests", "shapes"),
    [
        (columns, 2, [(300, 70), (37, 130), (9, 5), (20, 1500), (1, 1)]),
        (gradients, 1, [(300, 70), (37, 130), (600, 3)]),
        (planes, 1, [(3, 40, 70), (2, 9, 5)]),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_folds_down_the_same_columns_share_one_loop(algorithm: rd.Algorithm, guests: int, shapes: list) -> None:
    """At all sizes, long rows too, of which a fold alone adds one at a time."""
    assert str(algorithm.schedule().complete()).count("compute_with") == guests
    for shape in shapes:
        arguments = [RANDOM.random(shape, dtype=np.float32)]
        arguments += [RANDOM.random(shape[0], dtype=np.float32)] * (algorithm is gradients)
        for a, b in zip(algorithm(*arguments), algorithm.interpret(*arguments), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@rd.algorithm
def products(a: rd.f32["n", "k"], b: rd.f32["k", "m"], c: rd.f32["k", "m"]):
    return a @ b, a @ c


@rd.algorithm
def dependent(x: rd.f32["n"]):
    mean = rd.mean(x)
    return mean, rd.sum((x - mean) ** 2)


@rd.algorithm
def places(x: rd.f32["n", "m"]):
    return rd.argmin(x, axis=1), rd.argmax(x, axis=1)


@rd.algorithm
def apart(x: rd.f32["n", "m"]):
    return rd.sum(x, axis=0), rd.sum(x, axis=1)


@pytest.mark.parametrize("algorithm", [products, dependent, places, apart], ids=lambda each: each.name)
def test_folds_that_want_loops_of_their_own_have_them(algorithm: rd.Algorithm) -> None:
    assert "compute_with" not in str(algorithm.schedule().complete())


def test_no_more_folds_share_loops_than_registers_hold() -> None:
    @rd.algorithm
    def powers(x: rd.f32["n"]):
        return tuple(rd.sum(x**k) for k in range(1, 7))

    assert len(loops_around_folds(powers)) == 2
    np.testing.assert_allclose(powers(Y), powers.interpret(Y), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(9, 0, 5), (9, 5, 0), (0, 5, 5), (9, 4, 5)])
def test_a_fold_of_a_map_without_elements_has_a_partial_result_for_each_row(shape):
    """Rows of no elements stored partial results that were not there."""

    @rd.algorithm
    def doubled(a: rd.f32["n", "m", "k"]):
        b = a * 2
        return b, rd.sum(b)

    a = np.ones(shape, np.float32)
    nest = doubled.schedule().complete()
    assert 'compute_with("elementwise_1"' in str(nest)
    b, total = doubled(a)
    np.testing.assert_array_equal(b, a * 2)
    assert total == 2 * a.size
    assert "min(1," not in nest.nest_text()
