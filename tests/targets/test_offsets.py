"""Wrong offsets of segments: one fault that names the line and the offsets, on every target and by every strategy."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd

K = 5
WRONG = {
    "unsorted": ([0, 3, 1, 5], "offsets 3, 1 must not decrease"),
    "negative": ([-2, 3, 5], "offsets -2, 3 must"),
    "past the end": ([0, 3, 7], "offsets 3, 7 must not decrease and must lie within 0..5"),
    "all past the end": ([8, 8], "offsets 8, 8 must"),
    "one alone, past the end": ([6], "offset 6, the only one, must lie within 0..5"),
    "one alone, negative": ([-1], "offset -1, the only one, must lie within 0..5"),
}
RIGHT = ([5], [0], [3], [0, 5], [2, 2, 4])


def best(a, b):
    return a[0] + b[0], rd.maximum(a[1], b[1])


def wide(a, b):
    """Products of matrices too large for registers, so that segments are folded by loops of their own."""
    return a @ b


PROGRAMS = {
    "sums": lambda v, o: rd.segmented_reduce(rd.add, 0, v, o, name="sums"),
    "pairs": lambda v, o: rd.segmented_reduce(best, (0, 0), (v, v), o, name="sums"),
    "a map of sums": lambda v, o: rd.map(lambda x: 2 * x, rd.segmented_reduce(rd.add, 0, v, o, name="sums")),
    "the largest sum": lambda v, o: rd.max(rd.segmented_reduce(rd.add, 0, v, o, name="sums"), initial=0),
    "prefixes": lambda v, o: rd.segmented_scan(rd.add, 0, v, o, name="sums"),
    "products of matrices": lambda v, o: rd.segmented_reduce(
        wide, rd.replicate((9, 9), 0.0), rd.map(lambda x: rd.replicate((9, 9), x), v), o, name="sums"
    ),
    "rows of offsets": lambda v, o: rd.map(
        lambda own: rd.segmented_reduce(rd.add, 0, v, own, name="sums"), rd.stack([rd.where(o < 0, 0, K), o])
    ),
}


def runs_of(name: str) -> list:
    program = rd.algorithm(v="f64[k]", o="i64[m]")(PROGRAMS[name])
    runs = [program.interpret, program.compile()]
    for strategy in ("rows", "flat"):
        schedule = program.schedule()
        if "flat" in schedule["sums"].strategies():
            schedule["sums"].strategy(strategy)
            runs.append(program.compile(schedule=schedule))
    return runs


@pytest.mark.parametrize("name", PROGRAMS)
def test_wrong_offsets_are_one_fault(name: str) -> None:
    values = np.arange(K, dtype=float)
    for run in runs_of(name):
        for offsets, words in WRONG.values():
            if name == "rows of offsets" and "alone" not in words and len(offsets) > 1:
                words = "offsets [-0-9]+, [-0-9]+ must"
            with pytest.raises(rd.IndexOutOfRange, match=words) as caught:
                run(values, np.array(offsets))
            assert "test_offsets.py" in str(caught.value) and "rd.segmented_" in str(caught.value)
        for offsets in RIGHT:
            run(values, np.array(offsets))


def test_an_exported_library_finds_a_lone_offset_too(tmp_path) -> None:
    program = rd.algorithm(v="f64[k]", o="i64[m]")(PROGRAMS["sums"])
    program.compile().export(tmp_path / "libsums.so")
    sums = rd.load(tmp_path / "libsums.so")
    with pytest.raises(rd.IndexOutOfRange, match="offset 6, the only one"):
        sums(np.arange(K, dtype=float), np.array([6]))
    assert sums(np.arange(K, dtype=float), np.array([5])).shape == (0,)


def test_a_branch_that_is_not_taken_does_not_look_at_its_offsets() -> None:
    @rd.algorithm
    def some(v: rd.f64["k"], o: rd.i64["m"], wanted: rd.bool_):
        sums = lambda: rd.max(rd.segmented_reduce(rd.add, 0, v, o), initial=0)
        return rd.cond(wanted, sums, lambda: rd.f64(-1))

    for run in (some.interpret, some):
        assert run(np.arange(K, dtype=float), np.array([9]), np.False_) == -1
        with pytest.raises(rd.IndexOutOfRange, match="offset 9"):
            run(np.arange(K, dtype=float), np.array([9]), np.True_)


def shifted(v, o):
    return rd.segmented_reduce(rd.add, 0, v, (o + 0 * o[::-1]).named("offsets"), name="sums")


def in_rows(make):
    """The same for rows of offsets, which `make` makes."""

    def program(v, o):
        own = rd.stack([rd.where(o < 0, 0, K), o])
        return rd.map(lambda row: rd.segmented_reduce(rd.add, 0, v, make(row).named("offsets")), own).named("sums")

    return program


copied = in_rows(lambda row: row * 1)
summed = in_rows(lambda row: rd.scan(rd.add, 0, rd.concat([row[:1], row[1:] - row[:-1]]).named("steps")))
changed = in_rows(lambda row: (row * 1).named("before").at[0].add(0))
PLACES = {
    "at the loop over segments": (shifted, lambda s: s["offsets"].compute_at("sums", "s")),
    "a window": (
        shifted,
        lambda s: (s["sums"].split("s", 4), s["offsets"].compute_at("sums", "si").store_at("sums", "so")),
    ),
    "at a loop over rows inside": (
        copied,
        lambda s: (s["sums"].reorder("x", "y"), s["offsets"].compute_at("sums", "y")),
    ),
    "in lanes": (copied, lambda s: (s["sums"].vectorize("y"), s["offsets"].compute_at("sums", "y"))),
    "loops shared": (copied, lambda s: s["sums"].compute_with("offsets", "y")),
    "of what is made further in": (
        summed,
        lambda s: (s["offsets"].compute_at("sums", "y"), s["steps"].compute_at("offsets", "y")),
    ),
    "of what is made beside them": (
        summed,
        lambda s: (s["offsets"].compute_at("sums", "y"), s["steps"].compute_at("sums", "y")),
    ),
    "an update in place": (
        changed,
        lambda s: (s["offsets"].compute_at("sums", "y"), s["before"].compute_at("sums", "y")),
    ),
}


@pytest.mark.parametrize("where", PLACES)
def test_lone_offsets_that_loops_make_are_checked(where: str) -> None:
    """Loops over segments make no iterations where there are none."""
    make, said = PLACES[where]
    program = rd.algorithm(v="f64[k]", o="i64[m]")(make)
    schedule = program.schedule()
    said(schedule)
    executable, values = program.compile(schedule=schedule), np.arange(K, dtype=float)
    for offset in (6, -1):
        for run in (program.interpret, executable):
            with pytest.raises(rd.IndexOutOfRange, match=f"offset {offset}, the only one, must lie within 0..5"):
                run(values, np.array([offset]))
    for offsets in RIGHT:
        np.testing.assert_array_equal(
            executable(values, np.array(offsets)), program.interpret(values, np.array(offsets))
        )


def test_a_loop_over_segments_makes_two_offsets_a_round() -> None:
    program = rd.algorithm(v="f64[k]", o="i64[m]")(shifted)
    schedule = program.schedule()
    schedule["offsets"].compute_at("sums", "s")
    assert "offsets: i64[2] stack" in program.compile(schedule=schedule).source("nest")
