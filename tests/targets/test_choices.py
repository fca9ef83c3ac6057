"""Selections between integers in scalar loops: by an instruction where no load depends on them, else by LLVM's choice."""

import numpy as np
import pytest
from emission import assembly_of

import raido as rd


@rd.algorithm
def distances(x: rd.u8["n"], y: rd.u8["m"]):
    def row(i, before):
        def cell(j, s):
            left, corner, now = s
            above = now[j + 1]
            best = rd.minimum(rd.minimum(left, above) + 1, corner + rd.where(x[i] == y[j], 0, 1))
            return best, above, now.at[j + 1].set(best)

        return rd.loop(y.shape[0], cell, (i + 1, before[0], before.at[0].set(i + 1)))[2]

    return rd.loop(x.shape[0], row, rd.iota(y.shape[0] + 1))


@rd.algorithm
def common(x: rd.u8["n"], y: rd.u8["m"]):
    def row(i, d):
        cell = lambda j, d: d.at[i + 1, j + 1].set(
            rd.where(x[i] == y[j], d[i, j] + 1, rd.maximum(d[i, j + 1], d[i + 1, j]))
        )
        return rd.loop(y.shape[0], cell, d)

    return rd.loop(x.shape[0], row, rd.zeros((x.shape[0] + 1, y.shape[0] + 1), rd.i32))


@rd.algorithm
def extremes(x: rd.i32["n"], u: rd.u64["n"]):
    def step(i, s):
        low, high, out = s
        low, high = rd.minimum(low + 1, x[i]), rd.maximum(high // 3, u[i])
        return low, high, out.at[i].set(rd.where(low % 2 == 0, rd.u64(x[i] % 7), high))

    return rd.loop(x.shape[0], step, (rd.i32(0), rd.u64(0), rd.zeros(x.shape[0], rd.u64)))[2]


@rd.algorithm
def searches(x: rd.f32["n"], keys: rd.f32["m"]):
    def step(s, key):
        low, high = s
        middle = (low + high) // 2
        return rd.where(x[middle] < key, middle + 1, low), rd.where(x[middle] < key, high, middle)

    def one(k, out):
        going = lambda s: s[0] < s[1]
        return out.at[k].set(rd.while_loop(going, lambda s: step(s, keys[k]), (0, x.shape[0]))[0])

    return rd.loop(keys.shape[0], one, rd.zeros(keys.shape[0], rd.i64))


@pytest.mark.parametrize("cpu", ("znver3", "znver4"))  # of which LLVM thinks that they foresee much
@pytest.mark.parametrize("algorithm", (distances, common), ids=lambda a: a.name)
def test_tables_are_filled_without_branches(algorithm, cpu):
    kernel = assembly_of(algorithm, cpu).split(f"raido_{algorithm.name}.loop_2:")[1].split("Lfunc_end")[0]
    lines = [line.strip() for line in kernel.splitlines()]
    cells = sum(line.startswith("cmpb") for line in lines)
    assert cells and sum(line.startswith("cmov") for line in lines) >= 2 * cells


@pytest.mark.parametrize("algorithm", (distances, common, extremes, searches), ids=lambda a: a.name)
def test_choices_are_what_the_interpreter_makes(algorithm):
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 4, n).astype(np.uint8) for n in (37, 23))
    arguments = {
        extremes: (rng.integers(-9, 9, 50).astype(np.int32), rng.integers(0, 1 << 64, 50, dtype=np.uint64)),
        searches: (np.sort(rng.random(99, np.float32)), rng.random(40, np.float32)),
    }.get(algorithm, (x, y))
    np.testing.assert_array_equal(algorithm(*arguments), algorithm.interpret(*arguments))


def test_where_something_is_read_is_chosen_as_llvm_likes():
    assert "rd.choice" not in searches.compile().source("tir")
    assert "rd.choice.minimum" in distances.compile().source("tir")
