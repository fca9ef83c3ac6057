"""Operators that divide or index: their faults are reported with the line and the values, by every strategy, and no others are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import raido as rd

N = 37


def times(m):
    """Products modulo `m`, which may be 0."""
    return lambda x, y: x * y % m


def after(table):
    """Compositions of maps of 0 … 2, each the number of a row of `table`, which has a row for each of them: or too few."""
    return lambda x, y: table[x, y]


OFFSETS = (0, 5, 5, 11)
FOLDS = {
    "reduce": lambda op, start, a: rd.reduce(op, start, a, name="all"),
    "scan": lambda op, start, a: rd.scan(op, start, a, name="all"),
    "exclusive scan": lambda op, start, a: rd.scan(op, start, a, exclusive=True, name="all"),
    "bins": lambda op, start, a: rd.reduce_by_index(
        rd.replicate(4, rd.i64(start)), op, 1, rd.iota(a.shape[0]) % 4, a, name="all"
    ),
    "segments": lambda op, start, a: rd.segmented_reduce(op, start, a, rd.array(np.array(OFFSETS)), name="all"),
    "prefixes of segments": lambda op, start, a: rd.segmented_scan(
        op, start, a, rd.array(np.array(OFFSETS)), name="all"
    ),
}


def runs_of(program: rd.Algorithm) -> Iterator:
    """Interpreted, and compiled with every strategy of every stage."""
    yield program.interpret
    yield program.compile()
    for stage in program.schedule().stages:
        for name, strategy in program.schedule()[stage].strategies().items():
            if name in ("atomic", "sorted", "radix"):
                continue
            schedule = program.schedule()
            schedule[stage].strategy(name, **({"block": 4} if "block" in strategy.numbers else {}))
            yield program.compile(schedule=schedule)


@pytest.mark.parametrize("start", [1, 5])
@pytest.mark.parametrize("name", FOLDS)
def test_a_modulus_of_zero_is_told_of(name: str, start: int) -> None:
    program = rd.algorithm(a="i64[n]", m="i64")(lambda a, m: FOLDS[name](times(m), start, a))
    values = np.arange(N) % 9 + 1
    expected = program.interpret(values, np.int64(1009))
    for run in runs_of(program):
        np.testing.assert_array_equal(run(values, np.int64(1009)), expected)
        with pytest.raises(rd.ArithmeticFault, match=r"integer division of [1-9][0-9]* by zero") as fault:
            run(values, np.int64(0))
        assert "test_operator_faults.py" in str(fault.value) and "return lambda x, y: x * y % m" in str(fault.value)


@pytest.mark.parametrize("name", FOLDS)
def test_an_index_out_of_a_table_is_told_of(name: str) -> None:
    """The numbers 0 … 6 with addition modulo 7, by a table: 0 is neutral; 7 is none of them."""
    program = rd.algorithm(a="i64[n]", t="i64[7, 7]")(lambda a, t: FOLDS[name](after(t), 0, a))
    table = np.add.outer(np.arange(7), np.arange(7)) % 7
    values = np.arange(N) % 7
    expected = program.interpret(values, table)
    for run in runs_of(program):
        np.testing.assert_array_equal(run(values, table), expected)
        with pytest.raises(rd.IndexOutOfRange, match=r"index 7 is out of range for dimension [01] of size 7") as fault:
            run(np.where(np.arange(N) == 3, 7, values), table)
        assert "return lambda x, y: table[x, y]" in str(fault.value)


@pytest.mark.parametrize("name", ["reduce", "segments", "prefixes of segments"])
def test_an_operator_is_applied_to_nothing_else(name: str) -> None:
    """A start that fits what comes first alone: the operator takes pairs (a, b), (b, c) to (a, c), and nothing that does not join."""

    def join(x, y):
        return x[0], y[1] // rd.where(x[1] == y[0], 1, 0)

    def chain(first, second):
        fold = rd.reduce if name == "reduce" else rd.segmented_reduce if name == "segments" else rd.segmented_scan
        bounds = () if name == "reduce" else (rd.array(np.array([0, 4, 8])),)
        return fold(join, (rd.i64(-1), rd.i64(0)), (first, second), *bounds)

    program = rd.algorithm(first="i64[n]", second="i64[n]")(chain)
    first = np.arange(8) % 4 if name != "reduce" else np.arange(8)
    for run in (program.interpret, program):
        starts, ends = run(first, first + 1)
        assert (np.asarray(starts) == -1).all()
        np.testing.assert_array_equal(ends, {"reduce": 8, "segments": [4, 4]}.get(name, first + 1))
        with pytest.raises(rd.ArithmeticFault, match="by zero"):
            run(first, first)
        if name == "reduce":
            assert run(first[:0], first[:0]) == (-1, 0)
