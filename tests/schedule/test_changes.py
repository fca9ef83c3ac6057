"""Arrays updated in place: rows, slices, successive updates, loops in loops and in maps; and the cases that still copy."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.nest.nodes import Block, Copy, For, If, Produce, Statement, While
from raido.schedule.nest.printer import print_nest
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest


@rd.algorithm
def rows(x: rd.i64["h", "w"]):
    return rd.loop(x.shape[0] - 1, lambda i, b: b.at[i + 1].set(3 * b[i] + b[i + 1]), x)


@rd.algorithm
def columns(x: rd.i64["h", "w"]):
    return rd.loop(x.shape[1] - 1, lambda i, b: b.at[:, i + 1].set(3 * b[:, i] + b[:, i + 1]), x)


@rd.algorithm
def rows_in_maps(x: rd.i64["h", "w"]):
    return rd.map(lambda row: rd.loop(row.shape[0] - 1, lambda i, y: y.at[i + 1].set(y[i + 1] - 2 * y[i]), row), x)


@rd.algorithm
def uneven_rows(x: rd.i64["h", "w"]):
    def one(row, n):
        return rd.loop(n % row.shape[0], lambda i, y: y.at[i + 1].set(y[i + 1] - 2 * y[i]), row)

    return rd.map(one, x, rd.iota(x.shape[0]))


@rd.algorithm
def nested(x: rd.i64["h", "w"]):
    h, w = x.shape
    inner = lambda i: lambda j, m: m.at[i + 1, j + 1].set(m[i, j] + m[i + 1, j])
    return rd.loop(h - 1, lambda i, m: rd.loop(w - 1, inner(i), m), x)


@rd.algorithm
def elimination(x: rd.i64["h", "w"]):
    def step(k, m):
        m = m.at[k + 1 :, k].set(m[k + 1 :, k] - m[k, k])
        return m.at[k + 1 :, k + 1 :].set(m[k + 1 :, k + 1 :] - m[k + 1 :, k][:, None] * m[k, k + 1 :][None, :])

    return rd.loop(rd.minimum(x.shape[0], x.shape[1]) - 1, step, x)


@rd.algorithm
def red_and_black(x: rd.i64["h", "w"]):
    def step(t, m):
        m = m.at[:, 1:-1:2].set(m[:, :-2:2] + m[:, 2::2])
        return m.at[:, 2:-1:2].set(m[:, 1:-2:2] - m[:, 3::2])

    return rd.loop(3, step, x)


@rd.algorithm
def shifted_slice(x: rd.i64["h", "w"]):
    """Steps read what others change: the values are made before, as many as change."""
    return rd.loop(3, lambda t, m: m.at[t, :3].set(m[t, 1:4] + 1), x)


@rd.algorithm
def edges_of_a_stencil(x: rd.i64["h", "w"]):
    def step(t, state):
        before, now = state
        after = rd.stencil(lambda p: p[-1, 0] + p[1, 0] - p[0, 1], now, boundary="clamp") - before
        after = after.at[0, :].set(now[1, :] + after[1, :] - now[0, :])
        after = after.at[-1, :].set(now[-2, :] + after[-2, :] - now[-1, :])
        after = after.at[:, 0].set(now[:, 1] + after[:, 1] - now[:, 0])
        return now, after.at[:, -1].set(now[:, -2] + after[:, -2] - now[:, -1])

    return rd.loop(3, step, (x, x))[1]


@rd.algorithm
def swapped(x: rd.i64["h", "w"], y: rd.i64["h", "w"]):
    return rd.loop(3, lambda t, s: (s[1].at[t].set(s[0][t] + 1), s[0]), (x, y))


@rd.algorithm
def read_crosswise(x: rd.i64["h", "w"], y: rd.i64["h", "w"]):
    """Each of two changes reads what the other one changes: one has its values made before."""

    def step(t, s):
        a, b = s
        return a.at[t].set(a[t] + b[t]), b.at[t].set(b[t] - a[t])

    return rd.loop(3, step, (x, y))


@rd.algorithm
def pairs_of_rows(x: rd.i64["h", "w"], y: rd.i64["h", "w"]):
    def one(a, b):
        step = lambda i, s: (s[0].at[i].set(s[0][i] + s[1][i]), s[1].at[i].set(s[1][i] - s[0][i]))
        return rd.loop(a.shape[0], step, (a, b))

    return rd.map(one, x, y)


@rd.algorithm
def under_a_condition(x: rd.i64["h", "w"]):
    return rd.loop(4, lambda t, m: rd.where(m[0, 0] % 2 == t % 2, m.at[t, 0].add(1), m), x)


@rd.algorithm
def by_comparison(x: rd.i64["h", "w"]):
    return rd.loop(
        4, lambda t, m: rd.tabulate(m.shape, lambda i, j: rd.where((i == t) & (j > 0), m[i, j] * 2, m[i, j])), x
    )


@rd.algorithm
def as_long_as(x: rd.i64["h", "w"]):
    step = lambda s: (s[0] + 1, s[1].at[s[0]].set(s[1][s[0]] + 7))
    return rd.while_loop(lambda s: s[0] < 4, step, (rd.i64(0), x))[1]


@rd.algorithm
def in_branches(x: rd.i64["h", "w"]):
    return rd.loop(4, lambda t, m: rd.cond(m[0, 0] > t, lambda: m.at[t, 1].set(3), lambda: m), x)


@rd.algorithm
def counted(x: rd.i64["h", "w"]):
    def step(t, m):
        i = rd.iota(rd.minimum(t + 1, 3))
        return rd.scatter(m, i, m[i + 1] + 1)

    return rd.loop(4, step, x)


@rd.algorithm
def blocks_of_the_old(x: rd.i64["h", "w"]):
    """The second change reads the array before the first one, where that has left it alone."""

    def step(k, m):
        left = m[k + 1 :, k] - m[k, k]
        right = m[k + 1 :, k + 1 :] - left[:, None] * m[k, k + 1 :][None, :]
        return m.at[k + 1 :, k].set(left).at[k + 1 :, k + 1 :].set(right)

    return rd.loop(rd.minimum(x.shape[0], x.shape[1]) - 1, step, x)


@rd.algorithm
def below_the_diagonal(x: rd.i64["h", "w"]):
    """Conditions that are broadcast, over an element that was changed before."""

    def step(j, m):
        rows, columns = rd.iota(m.shape[0])[:, None], rd.iota(m.shape[1])[None, :]
        column = m[:, j] - rd.sum(rd.where(columns < j, m, 0), axis=1)
        return rd.where((rows > j) & (columns == j), column[:, None], m.at[j, j].set(m[j, j] + 1))

    return rd.loop(rd.minimum(x.shape[0], x.shape[1]), step, x)


@rd.algorithm
def sieve(x: rd.i64["h", "w"]):
    step = lambda p, s: rd.cond(s[0, p] != 1, lambda: s.at[0, p + 2 :: 3].add(p), lambda: s)
    return rd.loop(x.shape[1] - 2, step, x)


@rd.algorithm
def exchanged_rows(x: rd.i64["h", "w"]):
    """An exchange by two changes: the values of the second, which are old ones, are made before the first."""

    def step(k, m):
        p = k + rd.argmax(rd.abs(m[k:, k]))
        return m.at[k].set(m[p]).at[p].set(m[k])

    return rd.loop(4, step, x)


@rd.algorithm
def listed_rows(x: rd.i64["h", "w"]):
    def step(k, m):
        p = k + rd.argmax(rd.abs(m[k:, k]))
        return m.at[[k, p]].set(m[[p, k]])

    return rd.loop(4, step, x)


@rd.algorithm
def gathered_through_moves(x: rd.i64["h", "w"]):
    """The moved array is read where it is: it is not made for the few elements that are wanted."""

    def step(k, m):
        i = m[:3, 0] % m.shape[0]
        return m.at[k, i].set(m.reshape(-1)[i + k] + m[::-1].T[k, i] - rd.concatenate([m[:, 0], m[:, 1]])[i])

    return rd.loop(4, step, x)


@rd.algorithm
def exchanged_or_not(x: rd.i64["h", "w"]):
    return rd.loop(4, lambda t, m: rd.where(m[t, 0] > m[t + 1, 0], m.at[t].set(m[t + 1]).at[t + 1].set(m[t]), m), x)


@rd.algorithm
def one_or_the_other(x: rd.i64["h", "w"]):
    return rd.loop(
        4, lambda t, m: rd.where(rd.sum(m[t]) % 2 == 0, m.at[t].set(m[t + 1]), m.at[t + 1, 1:].add(m[t, 0])), x
    )


@rd.algorithm
def one_of_three(x: rd.i64["h", "w"]):
    def step(t, m):
        changed = rd.where(t % 3 == 1, m, m.at[1:, 2].set(m[:-1, 1]))
        return rd.where(m[0, 0] > 7, m.at[0].set(t), changed).at[t, 1].multiply(3)

    return rd.loop(4, step, x)


@rd.algorithm
def old_beside_new(x: rd.i64["h", "w"]):
    """Old elements that meet the changed array in one expression are read before it changes: a number, and a row."""

    def step(t, s):
        m, total = s
        new = m.at[t].set(m[t] * 2 + total)
        return new.at[t + 1].add(new[t] - m[t]), total + new[t, 0] - m[t, 0]

    return rd.loop(4, step, (x, rd.i64(0)))[0]


@rd.algorithm
def bounded_by_the_old(x: rd.i64["h", "w"]):
    return rd.loop(4, lambda t, m: m.at[t, 0].min(5).at[t + 1, 0].max(m[t, 0]), x)


@rd.algorithm
def sifted_down(x: rd.i64["h", "w"]):
    """A heap in the first row: the place of the second change is found in what changes, and so is whether to go on."""
    last = x.shape[1] - 1

    def step(s):
        m, i, _ = s
        left, right = rd.minimum(2 * i + 1, last), rd.minimum(2 * i + 2, last)
        child = rd.where(m[0, right] > m[0, left], right, left)
        sinks = m[0, child] > m[0, i]
        parent, larger = m[0, i], m[0, child]
        m = rd.where(sinks, m.at[0, i].set(larger).at[0, child].set(parent), m)
        return m, rd.where(sinks, child, i), sinks

    sifted = lambda k, m: rd.while_loop(lambda s: s[2], step, (m, (last + 1) // 2 - 1 - k, True))[0]
    return rd.loop((last + 1) // 2, sifted, x)


IN_PLACE = [
    sifted_down,
    old_beside_new,
    bounded_by_the_old,
    exchanged_or_not,
    one_or_the_other,
    one_of_three,
    exchanged_rows,
    listed_rows,
    gathered_through_moves,
    below_the_diagonal,
    sieve,
    blocks_of_the_old,
    rows,
    columns,
    rows_in_maps,
    uneven_rows,
    nested,
    elimination,
    red_and_black,
    shifted_slice,
    edges_of_a_stencil,
    swapped,
    read_crosswise,
    pairs_of_rows,
    under_a_condition,
    by_comparison,
    as_long_as,
    in_branches,
    counted,
]
MATRIX = np.arange(42).reshape(6, 7) * 13 % 17


def arguments_of(algorithm):
    return (MATRIX, MATRIX * 3 % 11)[: len(algorithm.trace().parameters)]


def lowered(algorithm, schedule=None):
    complete = (schedule or algorithm.schedule()).complete()
    return check_nest(lower(complete.graph, complete.variants()), "scalar")


def in_iterations(block: Block, inside: bool = False) -> list[Statement]:
    """The copies, and the stages, of all iterations of the host's loops."""
    found: list[Statement] = []
    for s in block.statements:
        if isinstance(s, (Copy, Produce)) and inside:
            found.append(s)
        elif isinstance(s, For):
            found += in_iterations(s.body, True)
        elif isinstance(s, While):
            found += in_iterations(s.setup, True) + in_iterations(s.body, True)
        elif isinstance(s, If):
            found += in_iterations(s.then, inside) + (in_iterations(s.orelse, inside) if s.orelse else [])
    return found


@pytest.mark.parametrize("algorithm", IN_PLACE, ids=lambda a: a.name)
def test_it_changes_where_it_is(algorithm):
    nest = lowered(algorithm)
    assert not [s for s in in_iterations(nest.body) if isinstance(s, Copy) or s.stage == "copy"], print_nest(nest)
    whole = "for y in 0..h" if algorithm is not edges_of_a_stencil else "_next_next"
    body = print_nest(nest).split(" for t", 1)[-1]
    assert "_next[y, x] = state" not in body and whole not in body.split("\n  out")[0].replace("parallel y", ""), (
        print_nest(nest)
    )


@pytest.mark.parametrize("algorithm", IN_PLACE, ids=lambda a: a.name)
def test_all_runs_agree(algorithm):
    arguments = arguments_of(algorithm)
    expected = algorithm.interpret(*arguments)
    expected = expected if isinstance(expected, tuple) else (expected,)
    nest = lowered(algorithm)
    for each in (nest, check_nest(form_gangs(nest, 256), "gang")):
        for result, want in zip(interpret_nest(each, list(arguments)), expected, strict=True):
            np.testing.assert_array_equal(result, want)
    before = [a.copy() for a in arguments]
    compiled = algorithm.compile()(*arguments)
    for result, want in zip(compiled if isinstance(compiled, tuple) else (compiled,), expected, strict=True):
        np.testing.assert_array_equal(result, want)
    for a, was in zip(arguments, before, strict=True):
        np.testing.assert_array_equal(a, was)


@rd.algorithm
def kept_as_well(x: rd.i64["h", "w"]):
    return rd.loop(3, lambda t, s: (s[0].at[t].set(s[0][t] + 1), s[0]), (x, x))


@rd.algorithm
def read_afterwards(x: rd.i64["h", "w"]):
    def step(t, m):
        changed = m.at[t].set(m[t] + 1)
        return changed + rd.stencil(lambda p: p[1, 0], changed, boundary="wrap") - m

    return rd.loop(3, step, x)


@rd.algorithm
def not_of_this_loop(x: rd.i64["h", "w"]):
    """The inner loop changes an array of the outer one in each of its iterations, and begins again with the old one."""
    return rd.loop(3, lambda t, m: rd.loop(2, lambda i, s: s + m.at[i].set(0), m), x)


@pytest.mark.parametrize("algorithm", [kept_as_well, read_afterwards, not_of_this_loop], ids=lambda a: a.name)
def test_who_needs_the_old_contents_has_them(algorithm):
    test_all_runs_agree(algorithm)


@rd.algorithm
def doubled_below(x: rd.i64["h", "w"]):
    return rd.loop(3, lambda t, m: m.at[1:, :].set(m[1:, :] * 2), x)


@rd.algorithm
def loops_in_loops(x: rd.i64["h", "w"]):
    inner = lambda i: lambda j, m: m.at[i + 1, j + 1].set(m[i, j] + m[i + 1, j])
    return rd.loop(x.shape[0] - 1, lambda i, m: rd.loop(x.shape[1] - 1, inner(i), m), x)


@pytest.mark.parametrize("algorithm", [rows, loops_in_loops, elimination, as_long_as], ids=lambda a: a.name)
def test_states_that_stay_where_they_are_stay_in_the_result(algorithm):
    statements = lowered(algorithm).body.statements
    copies = [s for s in statements if isinstance(s, Copy)]
    whole = [] if algorithm in (rows, loops_in_loops) else ["out"]  # of the others only the first rows and columns
    assert [c.destination.name.rstrip("01") for c in copies if c.destination.shape] == whole
    np.testing.assert_array_equal(algorithm(*arguments_of(algorithm)), algorithm.interpret(*arguments_of(algorithm)))


def test_a_state_that_begins_as_a_stage_s_result_is_made_in_the_result():
    (statement,) = lowered(rows_in_maps).body.statements
    assert isinstance(statement, Produce)


def test_maps_that_choose_rows_by_data_and_read_others_make_a_new_array():
    """The new values of all elements, and where they go, would take more memory than another array, and as many steps."""

    @rd.algorithm
    def chosen(x: rd.i64["h", "w"], at: rd.i64["h"]):
        step = lambda row, i: rd.cond(row[i] > 0, lambda: row[i + 1] + row, lambda: row)
        return rd.loop(5, lambda t, m: rd.map(step, m, at), x)

    x, at = np.arange(-10, 10).reshape(4, 5), np.array([0, 1, 2, 3])
    text = chosen.compile().source("nest")
    assert "update" not in text and text.count("_next: ") == 1
    assert np.array_equal(chosen(x, at), chosen.interpret(x, at))


def test_strips_that_overlap_do_not_change_what_they_read():
    schedule = doubled_below.schedule()
    (update,) = (name for name in schedule.stages if "update" in name)
    schedule[update].split("x", 4).tail("xi", "shift")
    np.testing.assert_array_equal(doubled_below.compile(schedule=schedule)(MATRIX), doubled_below.interpret(MATRIX))
    assert "_next" in print_nest(lowered(doubled_below, schedule))
    assert "_next" not in print_nest(lowered(doubled_below))


def test_values_made_before_are_copied_when_they_are_inlined():
    schedule = shifted_slice.schedule()
    (values,) = (name for name in schedule.stages if "/" in name and "update" not in name)
    schedule[values].inline()
    np.testing.assert_array_equal(shifted_slice.compile(schedule=schedule)(MATRIX), shifted_slice.interpret(MATRIX))
    assert "_next" in print_nest(lowered(shifted_slice, schedule))


@pytest.mark.parametrize("algorithm", IN_PLACE, ids=lambda a: a.name)
def test_nothing_is_said_of_what_changes_in_place(algorithm):
    assert not lowered(algorithm).copies


@rd.algorithm
def placed_by_what_changed(x: rd.i64["h", "w"]):
    """A second change whose row the first one decides: not taken, it would be looked for in other contents."""

    def step(t, m):
        first = m.at[0, 0].set(t)
        return rd.where(m[t, 1] % 2 == 0, first.at[first[0, 0] + first[1, 0] // 20, 1].add(1), m)

    return rd.loop(4, step, x)


def test_a_single_step_keeps_its_value_in_a_register():
    text = print_nest(lowered(sifted_down))
    assert "[1] heap" not in text and "index_1" not in text
    assert "heap" not in text[text.index("while") :]


def test_a_change_that_fails_by_what_another_left_is_evaluated_where_it_stands():
    large = MATRIX.copy()
    large[1, 0], large[:, 1] = 999, 1  # out of range in every iteration, and never taken
    for run in (placed_by_what_changed.interpret, placed_by_what_changed):
        assert (run(MATRIX) == placed_by_what_changed.interpret(MATRIX)).all()
        with pytest.raises(rd.IndexOutOfRange):
            run(large)


@rd.algorithm
def the_same_twice(x: rd.i64["h", "w"]):
    def step(t, s):
        changed = s[0].at[t].set(s[1][t])
        return changed, changed

    return rd.loop(3, step, (x, x))


@rd.algorithm
def table_changed_in_rounds(x: rd.i64["h", "w"]):
    return rd.loop(3, lambda t, total: total + rd.sum(x.at[t].set(0)), rd.i64(0))


COPIED = [
    (kept_as_well, "s[0]", "the old contents are a result as well; take what is needed of "),
    (read_afterwards, "m", "reads the old contents later, in line "),
    (the_same_twice, "loop_1/update_1", "the array becomes several states of the loop"),
    (table_changed_in_rounds, "x", "the array does not belong to this loop"),
]


@pytest.mark.parametrize(("algorithm", "array", "why"), COPIED, ids=lambda each: getattr(each, "name", ""))
def test_copies_in_rounds_are_shown_and_warned_of(algorithm, array, why):
    assert f"copies {array} in every iteration: " in print_nest(lowered(algorithm))
    assert why in algorithm.schedule().nest_text().splitlines()[-1]
    for _ in range(2):  # compiled, and found in the cache
        with pytest.warns(rd.CopyWarning, match=why) as caught:
            algorithm.compile()
        assert {warning.filename for warning in caught} == {__file__}
    test_all_runs_agree(algorithm)


def test_a_branch_that_keeps_a_scalar_state_is_no_change_of_a_part():
    @rd.algorithm
    def steps(m: rd.i64["n"], start: rd.i64, k: rd.size):
        def body(_, state):
            count, m = state
            more = rd.cond(count > 2, lambda: count, lambda: rd.i64(1))
            return (count + more) % 11, m.at[more % m.shape[0]].set(count)

        return rd.loop(k, body, (start, m))

    for n in (1, 5):
        m = np.arange(n)
        for got, want in zip(steps(m, 4, 6), steps.interpret(m, 4, 6), strict=True):
            assert (got == want).all()


@pytest.mark.parametrize("name", ["set", "add"])
def test_steps_at_an_axis_and_a_number_from_data_may_meet(name):
    """`r + k[r]` names one element for many steps: no two may run in lanes or on threads, or fold by themselves."""

    @rd.algorithm
    def moved(x: rd.i64["n"], k: rd.i64["n"]):
        return getattr(rd.zeros(2 * x.shape[0], rd.i64).at[rd.arange(x.shape[0]) + k], name)(x)

    x, k = np.arange(100) + 1, np.arange(100)[::-1].copy()
    assert (moved(x, k) == moved.interpret(x, k)).all()
    with pytest.raises(rd.ScheduleError, match="may update the same element"):
        moved.schedule()["update_1"].parallel("r")
