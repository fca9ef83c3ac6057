"""Compositions of combinators have the strategies of their parts: neither producer nor consumer changes one.

Each program is compared with NumPy at many sizes, and its nest with the expected structure of its default schedule.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import raido as rd

rng = np.random.default_rng(11)
SIZES = (0, 1, 2, 3, 15, 16, 17, 1000, 40_000)


def numbers(*shape: int) -> np.ndarray:
    return rng.integers(-9, 10, shape)


def nest_of(algorithm: rd.Algorithm) -> str:
    return algorithm.compile().source("nest")


def vector_bodies(nest: str) -> list[str]:
    """The text inside each loop in lanes."""
    loops = re.finditer(r"^( *)for [^\n]* by vector[^\n]*:\n((?:\1  [^\n]*\n)*)", nest, re.MULTILINE)
    return [loop.group(2) for loop in loops]


CHOSEN = {
    "roll": (lambda a: rd.roll(a, 3), lambda a: np.roll(a, 3)),
    "concatenate": (lambda a: rd.concatenate([a, a + 1]), lambda a: np.concatenate([a, a + 1])),
    "pad": (lambda a: rd.pad(a, 2), lambda a: np.pad(a, 2)),
    "shift": (lambda a: rd.shift(a, 1, fill=7) * 2, lambda a: np.concatenate([[7], a])[: len(a)] * 2),
    "clamped window": (
        lambda a: rd.stencil(lambda p: p[-1] + 2 * p[1], a, boundary="clamp"),
        lambda a: np.pad(a, 1, mode="edge")[:-2] + 2 * np.pad(a, 1, mode="edge")[2:] if len(a) else a,
    ),
    "two choices": (
        lambda a: rd.roll(a, 1) - rd.roll(a, -2),
        lambda a: np.roll(a, 1) - np.roll(a, -2),
    ),
}
IN_ORDER = {
    "cumsum": (rd.cumsum, np.cumsum),
    "filter": (lambda a: rd.filter(lambda x: x % 2 == 1, a), lambda a: a[a % 2 == 1]),
    "mask": (lambda a: a[a > 2], lambda a: a[a > 2]),
    "sort": (rd.sort, np.sort),
    "bincount": (lambda a: rd.bincount(a + 40, 90), lambda a: np.bincount(a + 40, minlength=90)),
}


@pytest.mark.parametrize("reader", IN_ORDER)
@pytest.mark.parametrize("chosen", CHOSEN)
def test_what_goes_in_order_reads_choices_by_position_from_memory(chosen: str, reader: str) -> None:
    (make, make_numpy), (read, read_numpy) = CHOSEN[chosen], IN_ORDER[reader]

    @rd.algorithm
    def program(a: rd.i64["n"]):
        return read(make(a))

    executable = program.compile()
    for body in vector_bodies(executable.source("nest")):
        assert not re.search("wrap|clamp", body), body
    for n in SIZES:
        if n or chosen != "clamped window":
            a = numbers(n)
            np.testing.assert_array_equal(executable(a), read_numpy(make_numpy(a)), f"{n}")


def test_a_mask_by_position_alone_stays_where_it_is():
    """Both sides are read at the element's own index, which lanes do anyway: nothing is made before."""

    @rd.algorithm
    def program(a: rd.i64["n"]):
        return rd.cumsum(rd.where(rd.iota(a.shape[0]) < 5, a, 0))

    assert nest_of(program).count("produce") == 1
    a = numbers(40)
    np.testing.assert_array_equal(program(a), np.cumsum(np.where(np.arange(40) < 5, a, 0)))


def test_arrays_behind_one_another_are_copied_part_by_part():
    @rd.algorithm
    def program(a: rd.i64["n"], b: rd.i64["m"]):
        return rd.concatenate([a, b, a[:3], b])

    assert "clamp" not in nest_of(program) and " where " not in nest_of(program)
    for n in SIZES:
        for m in (0, 1, 33, 20_000):
            a, b = numbers(n), numbers(m)
            np.testing.assert_array_equal(program(a, b), np.concatenate([a, b, a[:3], b]))


@pytest.mark.parametrize(
    "rows", [lambda a: rd.diff(a, axis=0), lambda a: a[1:-1] * 2, lambda a: rd.outer(a[:20, 0], a[0, :30])]
)
def test_flattened_results_are_made_row_by_row(rows):
    """Whatever the sizes of rows are made of, no index is divided in the loop along them."""

    @rd.algorithm
    def program(a: rd.i64["n", "m"]):
        return rows(a).reshape(-1)

    @rd.algorithm
    def whole(a: rd.i64["n", "m"]):
        return rows(a)

    inside = [line for line in nest_of(program).splitlines() if line.strip().startswith(("out[", "out_2["))]
    assert inside and not any("//" in line or "%" in line for line in inside)
    for shape in ((1, 1), (2, 3), (40, 17), (33, 100), (3, 0)):
        a = numbers(*shape) if 0 not in shape else np.zeros(shape, np.int64)
        if 0 not in shape or "outer" not in str(rows):
            np.testing.assert_array_equal(program(a), np.asarray(whole(a)).reshape(-1))


TURNED = {
    "the rows of the result backwards": (lambda a: rd.flip(a.T, 0), lambda a: a.T[::-1]),
    "an array with a row set": (lambda a: a.at[0].set(1).T, lambda a: np.concatenate([np.ones_like(a[:1]), a[1:]]).T),
    "a clamped stencil": (
        lambda a: rd.stencil(lambda p: p[-1, 0] + p[0, 1], a, boundary="clamp").T,
        lambda a: (np.pad(a, ((1, 0), (0, 0)), mode="edge")[:-1] + np.pad(a, ((0, 0), (0, 1)), mode="edge")[:, 1:]).T,
    ),
}


@pytest.mark.parametrize("name", TURNED)
def test_transpositions_are_made_of_squares_whatever_stands_before_them(name: str) -> None:
    make, make_numpy = TURNED[name]

    @rd.algorithm
    def program(a: rd.i32["n", "m"]):
        return make(a)

    executable = program.compile()
    assert 'unroll("' in str(program.schedule().complete())
    for shape in ((1, 1), (3, 50), (64, 64), (129, 77)):
        a = numbers(*shape).astype(np.int32)
        np.testing.assert_array_equal(executable(a), make_numpy(a))


FOLDED = {
    "a segmented sum and one": lambda v, o: 1 + rd.segmented_reduce(rd.add, 0, v, o),
    "b - A x": lambda v, o: rd.arange(o.shape[0] - 1) - rd.segmented_reduce(rd.add, 0, v * v, o),
    "the sum of segments' roots": lambda v, o: rd.sum(rd.segmented_reduce(rd.maximum, 3, v, o) ** 2),
}


@pytest.mark.parametrize("name", FOLDED)
def test_segments_keep_their_blocks_whoever_reads_them(name: str) -> None:
    @rd.algorithm
    def program(v: rd.i64["n"], o: rd.i64["k"]):
        return FOLDED[name](v, o)

    assert 'strategy("flat"' in str(program.schedule().complete())
    for n in SIZES:
        v, o = numbers(n), np.sort(rng.integers(0, n + 1, 9))
        np.testing.assert_array_equal(program(v, o), program.interpret(v, o))


SLICED = {
    "sum": (lambda x: rd.sum(x), lambda x: x.sum()),
    "largest": (lambda x: rd.max(x, initial=-100), lambda x: x.max(initial=-100)),
    "any": (lambda x: rd.any(x > 8), lambda x: (x > 8).any()),
    "two of them": (lambda x: rd.sum(x * x) - rd.min(x, initial=5), lambda x: (x * x).sum() - x.min(initial=5)),
}


@pytest.mark.parametrize("name", SLICED)
def test_folds_of_slices_run_in_lanes_along_each(name: str) -> None:
    fold, fold_numpy = SLICED[name]

    @rd.algorithm
    def program(v: rd.i64["n"], first: rd.i64["k"], last: rd.i64["k"]):
        return rd.map(lambda lo, hi: fold(v[lo:hi]), first, last)

    complete = str(program.schedule().complete())
    assert 'strategy("rows")' in complete and '.part("fold").vectorize("value", interleave=2)' in complete
    for n in SIZES:
        v, ends = numbers(n), np.sort(rng.integers(0, n + 1, (7, 2)), axis=1)
        want = [fold_numpy(v[lo:hi]) for lo, hi in ends]
        np.testing.assert_array_equal(program(v, ends[:, 0].copy(), ends[:, 1].copy()), want)


def test_sums_of_columns_are_read_by_rows_whatever_is_made_of_them():
    @rd.algorithm
    def program(a: rd.f32["n", "m"]):
        return 1 + rd.sum(a, axis=0)

    @rd.algorithm
    def alone(a: rd.f32["n", "m"]):
        return rd.sum(a, axis=0)

    own = [line for line in str(alone.schedule().complete()).splitlines() if '"reduce_1"' in line]
    assert own and set(own) <= set(str(program.schedule().complete()).splitlines())


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("fold", [rd.min, rd.argmin, lambda d, axis: rd.sum(rd.exp(-d), axis=axis)])
def test_folds_of_short_folds_have_lanes_across_results(dimensions, fold) -> None:
    """Distances to some centres are made where they are folded: lanes along the centres would be combined for each point."""

    @rd.algorithm(p=f"f64[n, {dimensions}]", c=f"f64[k, {dimensions}]")
    def nearest(p, c):
        return fold(rd.sum((p[:, None, :] - c[None, :, :]) ** 2, axis=2), axis=1)

    executable = nearest.compile()
    nest = executable.source("nest")
    assert re.search(r"for xi? in [^\n]* by vector", nest) and not re.search(r"for r in [^\n]* by vector", nest), nest
    for n, k in ((1, 1), (3, 40), (50, 3), (300, 17)):
        p, c = rng.random((n, dimensions)), rng.random((k, dimensions))
        np.testing.assert_allclose(executable(p, c), nearest.interpret(p, c))


@pytest.mark.parametrize("dimensions", [2, 3])
def test_sums_of_short_vectors_share_their_weights(dimensions) -> None:
    """The sums side by side take a weight that is made once, in their loop, from an array of no more than distances."""

    @rd.algorithm(p=f"f64[n, {dimensions}]", m="f64[n]")
    def forces(p, m):
        def of_one(q):
            d = p - q
            squares = rd.sum(d * d, axis=1) + 0.001
            return rd.sum(d * (m / (squares * rd.sqrt(squares)))[:, None], axis=0)

        return rd.map(of_one, p)

    executable = forces.compile()
    nest = executable.source("nest")
    assert nest.count(" heap") == 1 and nest.count("sqrt") == 1, nest
    for n in (1, 3, 50):
        p, m = rng.random((n, dimensions)), rng.random(n)
        np.testing.assert_allclose(executable(p, m), forces.interpret(p, m), rtol=1e-9)


def test_short_folds_that_are_read_once_are_made_where_they_are_read() -> None:
    """Distances of pairs go from a register into their energy, not by the memory of a strip of rows."""

    @rd.algorithm
    def energy(p: rd.f64["n", 3]):
        d = p[:, None, :] - p[None, :, :]
        sixth = 1 / (rd.sum(d * d, axis=2) + rd.eye(p.shape[0])) ** 3
        return rd.sum(sixth * sixth - sixth)

    executable = energy.compile()
    memory = re.findall(r"(\w+): .* (?:heap|stack)\n", executable.source("nest"))
    assert memory == ["partial"], executable.source("nest")
    for n in (1, 2, 17, 60):
        p = rng.random((n, 3)) * n
        np.testing.assert_allclose(executable(p), energy.interpret(p), rtol=1e-9)


CHOSEN_BY_SCANS = {
    "repeat": (lambda a: rd.repeat(a, a % 4), lambda a: np.repeat(a, a % 4)),
    "forward fill": (
        lambda a: a[rd.scan(rd.maximum, 0, rd.where(a > 3, rd.iota(a.shape[0]), 0))],
        lambda a: a[np.maximum.accumulate(np.where(a > 3, np.arange(len(a)), 0))],
    ),
    "keys of runs": (
        lambda a: (a * 2)[rd.cumsum(rd.clip(a, 0, 1)) // 9],
        lambda a: (a * 2)[np.cumsum(np.clip(a, 0, 1)) // 9],
    ),
}


@pytest.mark.parametrize("name", CHOSEN_BY_SCANS)
def test_elements_that_a_scan_chooses_are_read_as_it_chooses_them(name: str) -> None:
    make, make_numpy = CHOSEN_BY_SCANS[name]
    program = rd.algorithm(a=rd.i64["n"])(make)
    executable = program.compile()
    nest = executable.source("nest")
    scanned = "" if name == "repeat" else "prefix = scan"  # of which the scan is made run by run
    assert any(scanned in body and re.search(r"(out|move_2)\[", body) for body in vector_bodies(nest)), nest
    for n in SIZES:
        a = numbers(n)
        np.testing.assert_array_equal(executable(a), make_numpy(a), f"{n}")
