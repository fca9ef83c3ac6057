"""Loops reduced to the elements that they change: stores whose selections keep the other elements, in the nest and against NumPy."""

import random

import numpy as np
import pytest

import raido as rd


def eliminated(a: rd.f64["n", "n"]):
    """LU without pivots by choices alone."""
    n = a.shape[0]

    def step(k, m):
        new = lambda i, j: m[i, j] - m[i, k] / m[k, k] * m[k, j]
        kept = lambda i, j: rd.where((i > k) & (j == k), m[i, j] / m[k, k], m[i, j])
        return rd.tabulate((n, n), lambda i, j: rd.where((i > k) & (j > k), new(i, j), kept(i, j)))

    return rd.loop(n, step, a)


def cholesky(a: rd.f64["n", "n"]):
    """The lower triangle, the mask made once before the loop."""
    n = a.shape[0]
    i, j = rd.iota(n)[:, None], rd.iota(n)[None, :]
    lower = i >= j

    def step(k, m):
        c = m[:, k] / rd.sqrt(m[k, k])
        m = rd.where((i > k) & (j > k) & lower, m - c[:, None] * c[None, :], m)
        return rd.where((j == k) & (i >= k), c[:, None], m)

    return rd.tril(rd.loop(n, step, a))


def numpys_lu(a):
    m = a.copy()
    for k in range(len(m)):
        m[k + 1 :, k] /= m[k, k]
        m[k + 1 :, k + 1 :] -= np.outer(m[k + 1 :, k], m[k, k + 1 :])
    return m


@pytest.mark.parametrize("n", [0, 1, 2, 7, 16, 33, 100])
def test_factorizations_by_choices(n):
    a = np.random.default_rng(n).random((n, n))
    a = a @ a.T + n * np.eye(n)
    np.testing.assert_allclose(rd.algorithm(eliminated)(a), numpys_lu(a), rtol=1e-10)
    np.testing.assert_allclose(rd.algorithm(cholesky)(a), np.linalg.cholesky(a) if n else a, rtol=1e-9)


def test_loops_run_over_the_box_alone():
    text = rd.algorithm(eliminated).compile().source("nest")
    assert "for j in t..t + 1:" in text and "for j in t + 1..n by vector:" in text and "in max(io, t + 1)..min(" in text
    assert "if" not in text.split("for j in t + 1..n by vector:")[1]
    text = rd.algorithm(cholesky).compile().source("nest")
    assert "parallel y in t..n" in text and "for x in t + 1..y + 1 by vector:" in text


def test_borders_are_no_reason_to_begin_elsewhere():
    made = lambda u: rd.loop(3, lambda t, u: rd.tabulate((u.shape[0],), lambda i: rd.where(i > 0, u[i] * 2, u[i])), u)
    algorithm = rd.algorithm(u="f32[n]")(made)
    assert " in 1.." not in algorithm.compile().source("nest")
    assert algorithm(np.ones(5, np.float32)).tolist() == [1, 8, 8, 8, 8]


def condition(chance, depth=2):
    if depth and chance.random() < 0.6:
        one, other = condition(chance, depth - 1), condition(chance, depth - 1)
        return chance.choice((f"({one} & {other})", f"({one} & {other})", f"({one} | {other})", f"~{one}"))
    left, right = (
        chance.choice(("i", "j", "i + k", "j - i", "2 * i")),
        chance.choice(("k", "j", "h // 2", "3", "w - k", "i")),
    )
    return f"({left} {chance.choice(('<', '<=', '>', '>=', '==', '!='))} {right})"


@pytest.mark.parametrize("seed", range(30))
def test_random_choices_are_numpys(seed):
    chance = random.Random(seed)
    tests = [condition(chance) for _ in range(chance.choice((1, 2, 3)))]
    values = chance.sample(("m * 3 + 1", "m + i - j", "m - k"), len(tests))

    def step(where, k, m, i, j):
        h, w = m.shape
        new, known = m, {"i": i, "j": j, "k": k, "h": h, "w": w, "m": m}
        for test, value in zip(tests, values, strict=True):
            new = where(eval(test, known), eval(value, known), new)
        return new

    @rd.algorithm
    def program(a: rd.i64["h", "w"], steps: rd.i64):
        i, j = rd.iota(a.shape[0])[:, None], rd.iota(a.shape[1])[None, :]
        return rd.loop(steps, lambda k, m: step(rd.where, k, m, i, j), a)

    for h, w, steps in ((3, 5, 4), (17, 40, 9), (1, 200, 3), (70, 1, 2)):
        a = np.random.default_rng(seed).integers(-9, 9, (h, w))
        wanted = a
        for k in range(steps):
            wanted = step(np.where, k, wanted, np.arange(h)[:, None], np.arange(w)[None, :])
        np.testing.assert_array_equal(program(a, np.int64(steps)), wanted, err_msg=f"{tests}")
