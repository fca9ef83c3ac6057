"""Identical kernels are one function, called with the memory of each; any difference keeps them apart."""

import numpy as np
import pytest

import raido as rd
from raido.targets.compile import Compilation


def functions_of(algorithm, schedule=None, sizes=None):
    return set(Compilation(algorithm.trace(), rd.Target(), schedule, sizes or {}).functions)


@rd.algorithm
def sweeps(a: rd.f32["h", "w"]):
    for k in range(4):
        a = rd.stencil(lambda p: (p[0, -1] + p[0, 0] + p[0, 1]) / 3, a, boundary="clamp", name=f"sweep_{k}")
    return a


def at_root(algorithm, **directives):
    schedule = algorithm.schedule()
    for name in schedule.stages:
        schedule[name].root().vectorize("x", **directives.get(name, {}))
    return schedule


def test_sweeps_are_one_kernel_and_give_the_interpreters_bits():
    schedule = at_root(sweeps)
    assert functions_of(sweeps, schedule) == {"raido_sweeps", "raido_sweeps.sweep_0"}
    a = np.random.default_rng(3).random((7, 37), np.float32)
    np.testing.assert_array_equal(sweeps.compile(schedule=schedule)(a), sweeps.interpret(a))


@rd.algorithm
def factors(a: rd.f32["n"]):
    for k, factor in enumerate((2.0, 3.0, 2.0)):
        a = rd.stencil(lambda p, f=factor: p[-1] * f + p[0], a, boundary="clamp", name=f"part_{k}")
    return a


def test_what_differs_keeps_kernels_apart():
    assert {"raido_factors.part_0", "raido_factors.part_1"} < functions_of(factors, at_root(factors))
    assert "raido_factors.part_2" not in functions_of(factors, at_root(factors))
    lanes = at_root(sweeps, sweep_2={"lanes": 4})
    assert functions_of(sweeps, lanes) == {"raido_sweeps", "raido_sweeps.sweep_0", "raido_sweeps.sweep_2"}


@rd.algorithm
def looked_up(a: rd.f32["n"], i: rd.i64["m"], j: rd.i64["m"]):
    first = rd.map(lambda k: a[k], i, name="first")
    second = rd.map(lambda k: a[k], j, name="second")
    return first, second


def test_kernels_that_name_different_lines_are_apart():
    schedule = at_root(looked_up)
    a, right, wrong = np.arange(3, dtype=np.float32), np.array([0, 2]), np.array([0, 9])
    run = looked_up.compile(schedule=schedule)
    with pytest.raises(rd.IndexOutOfRange, match="first"):
        run(a, wrong, right)
    with pytest.raises(rd.IndexOutOfRange, match="second"):
        run(a, right, wrong)


@rd.algorithm
def sorts(a: rd.f32["n"]):
    return rd.sort(a * 2), rd.sort(a + 1)


def test_parallel_loops_inside_different_kernels_are_one_function():
    """Two sorts differ in the loop that evaluates the keys; all that sorts is there once."""
    functions = functions_of(sorts)
    assert {"raido_sorts.sort_1", "raido_sorts.sort_2"} < functions
    assert sum("loop_chunk" in each for each in functions) == 9
    a, run = np.random.default_rng(3).random(200_000, np.float32), sorts.compile()
    for n in (0, 5, 300, len(a)):
        for found, key in zip(run(a[:n]), (a[:n] * 2, a[:n] + 1), strict=True):
            np.testing.assert_array_equal(found, np.sort(key))


@rd.algorithm
def cells_in_turn(a: rd.i64["n"]):
    return rd.loop(a.shape[0] - 1, lambda i, s: rd.loop(i, lambda j, s: s.at[i + 1].set(s[i + 1] + s[j]), s), a)


@rd.algorithm
def checked_cells(a: rd.i64["n"], at: rd.i64["n"]):
    return rd.loop(a.shape[0], lambda i, s: s.at[at[i]].set(s[i] + 1), a)


def test_a_loop_around_stages_of_one_thread_is_one_kernel():
    assert len(functions_of(cells_in_turn)) == 2
    a = np.arange(7)
    np.testing.assert_array_equal(cells_in_turn(a), cells_in_turn.interpret(a))


def test_a_loop_whose_stages_may_fail_ends_with_the_first_that_does():
    a, at = np.zeros(4, np.int64), np.array([3, 2, 9, 0])
    with pytest.raises(rd.IndexOutOfRange, match="index 9"):
        checked_cells(a, at)
    assert functions_of(checked_cells) == {"raido_checked_cells", "raido_checked_cells.loop_1"}
    kernel = checked_cells.compile().source("tir").split("def raido_checked_cells.loop_1")[-1]
    assert "rd.failed" not in kernel and kernel.count("return 0") > 1


SQUARE = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]


@rd.algorithm
def blurs(a: rd.f32["h", "w"], *, last: float = 0.125):
    for k in range(4):
        weights = [last if t == (1, 1) and k == 2 else 0.125 for t in SQUARE]
        blur = lambda p, weights=weights: sum(p[t] * weight for t, weight in zip(SQUARE, weights, strict=True))
        a = rd.stencil(blur, a, boundary="clamp", name=f"blur_{k}")
    return a


def in_tiles(algorithm):
    schedule = algorithm.schedule()
    schedule["blur_3"].split("y", 8).parallel("yo").vectorize("x").partition_boundaries()
    for k in (2, 1, 0):
        schedule[f"blur_{k}"].compute_at("blur_3", "yo").vectorize("x").partition_boundaries()
    return schedule


def test_stages_of_one_kernel_that_differ_in_their_regions_are_one_function():
    schedule, inside = in_tiles(blurs), {"raido_blurs", "raido_blurs.blur_3", "raido_blurs.blur_3_yo"}
    assert functions_of(blurs, schedule) == {*inside, "raido_blurs.blur_1_y"}
    run, rng = blurs.compile(schedule=schedule), np.random.default_rng(3)
    for shape in ((41, 70), (9, 2), (1, 33)):
        a = rng.random(shape, np.float32)
        np.testing.assert_array_equal(run(a), blurs.interpret(a))


def test_stages_that_differ_in_what_they_compute_are_not():
    other = rd.capture(blurs, last=0.25)
    assert not any("blur_1" in name or "blur_2" in name for name in functions_of(other, in_tiles(other)))


@rd.algorithm
def different(a: rd.f32["h", "w"]):
    taps = [(i, j) for i in range(-2, 3) for j in range(-2, 3)]
    for k in range(40):
        kept = [t for n, t in enumerate(taps) if (k + 1) >> n % 6 & 1 or n == k % 25]
        total = lambda p, kept=kept: sum((p[t] for t in kept[1:]), p[kept[0]]) / len(kept)
        a = rd.stencil(total, a, boundary="clamp", name=f"part_{k}")
    return a


def row_tiles(algorithm, last):
    schedule = algorithm.schedule()
    schedule[last].split("y", 8).vectorize("x").partition_boundaries()
    for name in reversed([name for name in schedule.stages if name != last]):
        schedule[name].compute_at(last, "yo").vectorize("x").partition_boundaries()
    return schedule


def test_loops_of_a_large_kernel_are_functions_though_no_others_are_alike():
    """LLVM takes twice as long for one function of three hundred stages as for its parts."""
    schedule = row_tiles(different, "part_39")
    parts = {symbol for symbol in functions_of(different, schedule) if ".part_" in symbol}
    assert len(parts) > 30
    a = np.random.default_rng(5).random((19, 70), np.float32)
    np.testing.assert_array_equal(different.compile(schedule=schedule)(a), different.interpret(a))
