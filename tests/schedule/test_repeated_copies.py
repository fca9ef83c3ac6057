"""Warnings of copies: the name of a state in the loop's body, the lines, and remedies that work."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest

import raido as rd
from raido.algo.language.state_names import state_names
from raido.schedule.lower import lower


def copies_of(algorithm):
    complete = algorithm.schedule().complete()
    return lower(complete.graph, complete.variants()).copies


class Pair(NamedTuple):
    first: Any
    second: Any


def unpacked(i, s):
    a, (b, c) = s
    return a, (b, c)


def kept_for_others(s):
    a, b = s
    return (lambda: a)(), b


def test_states_are_called_what_the_body_calls_them():
    assert state_names(lambda t, m: m, 0) == ["m"]
    assert state_names(lambda s: s, (0, 1)) == ["s[0]", "s[1]"]
    assert state_names(lambda s: s, Pair(0, (1, 2))) == ["s.first", "s.second[0]", "s.second[1]"]
    assert state_names(unpacked, (0, (1, 2))) == ["a", "b", "c"]
    assert state_names(unpacked, (0, 1)) == ["a", "s[1]"]
    assert state_names(kept_for_others, (0, 1)) == ["a", "b"]
    assert state_names(max, 0) == []


@rd.algorithm
def compared(x: rd.i64["n"]):
    def step(s):
        table, count = s
        new = table.at[count].set(7)
        return new, count + rd.sum(new - table)

    return rd.while_loop(lambda s: s[1] < 3, step, (x, 0))[0]


@rd.algorithm
def compared_where_it_changes(x: rd.i64["n"]):
    def step(s):
        table, count = s
        return table.at[count].set(7), count + 7 - table[count]

    return rd.while_loop(lambda s: s[1] < 3, step, (x, 0))[0]


@rd.algorithm
def without_each(x: rd.i64["n"]):
    return rd.loop(3, lambda t, total: total + rd.max(x.at[t].set(0)), rd.i64(0))


@rd.algorithm
def without_each_by_choice(x: rd.i64["n"]):
    return rd.loop(3, lambda t, total: total + rd.max(rd.where(rd.iota(x.shape[0]) == t, 0, x)), rd.i64(0))


@rd.algorithm
def twice_the_same(x: rd.i64["n"]):
    def step(t, s):
        changed = s[0].at[t].set(s[1][t] + 1)
        return changed, changed

    return rd.loop(3, step, (x, x))[1]


@rd.algorithm
def one_state(x: rd.i64["n"]):
    return rd.loop(3, lambda t, m: m.at[t].set(m[t] + 1), x)


@rd.algorithm
def turned(x: rd.i64["n"]):
    def step(t, s):
        part = s[0][t : t + 3]
        new = s[0].at[t : t + 3].set(part[::-1] + 1)
        return new, s[1] + rd.max(new[t : t + 3] - part)

    return rd.loop(2, step, (x, 0))[0]


@rd.algorithm
def turned_before(x: rd.i64["n"]):
    def step(t, s):
        part = s[0][t : t + 3]
        new = part[::-1] + 1
        return s[0].at[t : t + 3].set(new), s[1] + rd.max(new - part)

    return rd.loop(2, step, (x, 0))[0]


@pytest.mark.parametrize(
    ("program", "name", "remedy", "remedied"),
    [
        (turned, "s[0]", "take what is needed of s[0] before the change", turned_before),
        (
            compared,
            "table",
            "take what is needed of table before the change",
            compared_where_it_changes,
        ),
        (without_each, "x", "rd.where(index == i, new, x) makes no array", without_each_by_choice),
        (twice_the_same, "loop_1/update_1", " as one state", one_state),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_remedies_work(program, name, remedy, remedied):
    (copy,) = {str(copy) for copy in copies_of(program)}
    assert f" copies {name} in every iteration: " in copy and remedy in copy
    assert not copies_of(remedied)
    x = np.array([6, 1, 4, 2])
    assert np.array_equal(program.interpret(x), remedied.interpret(x))


def test_the_lines_of_the_change_and_of_the_reader_are_named():
    (copy,) = copies_of(compared)
    assert copy.site.text == "new = table.at[count].set(7)" and copy.reader.line == copy.site.line + 1
    assert f"reads the old contents later, in line {copy.reader.line}; " in str(copy)
    assert f"# line {copy.site.line}: " in compared.schedule().nest_text()


def test_what_a_loop_begins_with_is_no_copy_to_warn_of():
    """The state of a recurrence in a map in a loop begins as zeros, and with what the outer loop does not change."""

    def solved(row, start):
        def step(i, state):
            last, out = state
            new = (row[i] + 0.25 * last) / 2
            return new, out.at[i].set(new)

        return rd.loop(row.shape[0], step, (0.0, start))[1]

    for begin in (rd.zeros_like, lambda row: row):
        sweeps = rd.algorithm(a="f64[n, m]", steps="size")(
            lambda a, steps, *, begin=begin: rd.loop(
                steps, lambda t, u: rd.map(lambda row, first: solved(row, begin(first)), u, a * 2), a
            )
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error", rd.CopyWarning)
            sweeps.compile()
