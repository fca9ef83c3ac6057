"""Loops of one thread whose indices data decides: the cost of their checks, and the faults at the borders."""

import numpy as np
import pytest
from emission import CPUS, assembly_of
from test_emit_assembly import loops

import raido as rd


@rd.algorithm
def ways(coins: rd.i64["m"], target: rd.size):
    def per_coin(c, ways):
        count = rd.maximum(target + 1 - coins[c], 0)
        return rd.loop(count, lambda i, w: w.at[i + coins[c]].set(w[i + coins[c]] + w[i]), ways)

    return rd.loop(coins.shape[0], per_coin, rd.zeros(target + 1, rd.i64).at[0].set(1))


@pytest.mark.parametrize("cpu", CPUS)
def test_a_check_of_an_index_is_one_comparison_and_a_jump_that_is_not_taken(cpu):
    kernel = assembly_of(ways, cpu).split("raido_ways.loop_2:")[1].split("Lfunc_end")[0]
    body = min(loops(kernel), key=len)
    assert not any("cmpxchg" in i or i.startswith(("set", "or", "call")) for i in body), body
    assert sum(i.startswith("j") for i in body) <= 3, body  # of two indices, and the loop's own


@rd.algorithm
def crossed_out(n: rd.size):
    def cross(p, s):
        count = rd.maximum(0, (n - 1) // p - p + 1)
        multiples = lambda s: rd.loop(count, lambda k, s: s.at[(p + k) * p].set(False), s)
        return rd.cond(s[p], lambda: multiples(s), lambda: s)

    return rd.loop(30, lambda i, s: cross(i + 2, s), rd.full(n, True))


@pytest.mark.parametrize("cpu", CPUS)
def test_an_outer_loop_is_not_copied_at_the_cost_of_the_inner_ones_registers(cpu):
    kernel = assembly_of(crossed_out, cpu).split("raido_crossed_out.loop_2:")[1].split("Lfunc_end")[0]
    stores = [body for body in loops(kernel) if any(i.startswith("movb\t$0") for i in body)]
    assert stores and not any("(%rsp)" in i for i in min(stores, key=len))
    assert [k for k, prime in enumerate(crossed_out(60)) if prime][2:] == [
        k for k in range(2, 60) if all(k % p for p in range(2, k))
    ]


def test_each_border_is_checked():
    @rd.algorithm
    def moved(x: rd.i64["n"], by: rd.i64):
        return rd.loop(x.shape[0], lambda i, w: w.at[i + by].set(x[i]), rd.zeros(x.shape[0] + 3, rd.i64))

    x = np.arange(1, 6)
    assert moved(x, 0).tolist() == [1, 2, 3, 4, 5, 0, 0, 0] and moved(x, 3).tolist() == [0, 0, 0, 1, 2, 3, 4, 5]
    for by, wrong in ((-1, -1), (4, 8), (1 << 40, 1 << 40), (-(1 << 63), -(1 << 63)), ((1 << 63) - 1, (1 << 63) - 1)):
        for run in (moved, moved.interpret):
            with pytest.raises(rd.IndexOutOfRange, match=f"index {wrong} "):
                run(x, by)


def test_all_sums_of_coins_are_counted():
    coins = np.array([1, 2, 5])
    assert ways(coins, 10).tolist() == ways.interpret(coins, 10).tolist() == [1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 10]


@rd.algorithm
def between(values: rd.f32["n", 2], weights: rd.f32["n", 2], at: rd.i64["m"], both: rd.bool_["m"]):
    def line(k):
        sum_of = lambda j: values[j, 0] * weights[j, 0] + values[j, 1] * weights[j, 1]
        return rd.cond(both[k], lambda: sum_of(at[k]), lambda: rd.f32(0.0)) + sum_of(at[k] + 1)

    return rd.tabulate(at.shape[0], line)


def test_what_one_check_has_tested_no_other_tests():
    nest = between.compile().source("nest")
    assert nest.count("check ") == 2, nest  # of at[k], in the branch alone, and of at[k] + 1, whatever is read there
    two = np.ones((5, 2), np.float32)
    for at, wrong in ((4, 5), (-2, -1), (-1, -1)):
        for run in (between, between.interpret):
            with pytest.raises(rd.IndexOutOfRange, match=f"index {wrong} "):
                run(two, two, np.array([at]), np.array([at == -1]))
    assert between(two, two, np.array([3, -1]), np.array([True, False])).tolist() == [4.0, 2.0]
