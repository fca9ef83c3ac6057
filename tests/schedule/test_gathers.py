"""Updates that set a box as maps over their results (strategy "gather"): the default's choice, refusals, and results."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import raido as rd

SHAPES = [(0, 0), (0, 5), (1, 1), (1, 9), (2, 2), (2, 40), (3, 3), (4, 70), (33, 3), (65, 66)]


@rd.algorithm
def plate(u: rd.f32["h", "w"]):
    def step(_, t):
        return t.at[1:-1, 1:-1].set((t[:-2, 1:-1] + t[2:, 1:-1] + t[1:-1, :-2] + t[1:-1, 2:]) / 4)

    return rd.loop(3, step, u)


def plate_by_numpy(u: np.ndarray) -> np.ndarray:
    t = u.copy()
    for _ in range(3):
        t[1:-1, 1:-1] = (t[:-2, 1:-1] + t[2:, 1:-1] + t[1:-1, :-2] + t[1:-1, 2:]) / np.float32(4)
    return t


@rd.algorithm
def edge(u: rd.f32["h", "w"]):
    return rd.loop(3, lambda _, t: t.at[:1, :].set(t[1:2, :] + t[:1, :]), u)


@rd.algorithm
def shrinking(u: rd.f32["n", "m"]):
    return rd.loop(3, lambda k, t: t.at[k + 1 :, :].set(t[k:-1, :] + 1), u)


@rd.algorithm
def every_other(u: rd.f32["n"]):
    return rd.loop(3, lambda k, t: t.at[1:-1:2].set(t[:-2:2] + t[2::2]), u)


def gathers(algorithm: rd.Algorithm) -> bool:
    return '.strategy("gather")' in str(algorithm.schedule().complete())


@pytest.mark.parametrize("shape", SHAPES)
def test_a_plate_is_one_pass_and_an_exchange(shape):
    u = np.random.default_rng(1).random(shape, "f4")
    assert (plate(u) == plate_by_numpy(u)).all()


def test_the_default_makes_a_map_of_a_large_box_whose_values_read_it():
    assert gathers(plate)
    nest = plate.compile().source("nest")
    assert nest.count("produce") == 1
    assert "swap" in nest


@rd.algorithm
def lines(u: rd.f64["n", "n"]):
    def averaged(line):
        step = lambda k, s: (0.5 * s[0] + line[k], s[1].at[k].set(0.5 * s[0] + line[k]))
        return rd.loop(line.shape[0], step, (1.0, rd.zeros_like(line)))[1]

    return rd.loop(3, lambda _, t: t.at[1:-1, 1:-1].set(rd.map(averaged, t[1:-1, 1:-1])), u)


def test_a_box_may_be_set_to_what_an_array_loop_computed():
    u = np.random.default_rng(1).random((7, 7))
    assert (lines(u) == lines.interpret(u)).all()


def test_a_border_of_one_column_has_no_lanes_though_the_length_of_rows_is_unknown():
    rows = [line.strip() for line in plate.compile().source("nest").splitlines() if "for x in" in line]
    assert [line.endswith("by vector:") for line in rows[:3]] == [False, True, False]


@pytest.mark.parametrize("algorithm", [edge, shrinking, every_other])
def test_the_default_leaves_updates_that_move_less_in_place(algorithm):
    assert not gathers(algorithm)


def test_a_map_that_makes_what_it_stores_is_no_copy():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plate.compile()


def test_loops_over_steps_keep_them():
    s = plate.schedule()
    s["loop_1/update_1"].parallel("ry").vectorize("rx")
    u = np.random.default_rng(1).random((40, 50), "f4")
    assert "gather" not in str(s.complete())
    assert (plate.compile(schedule=s)(u) == plate_by_numpy(u)).all()


@pytest.mark.parametrize(
    ("say", "why"),
    [
        (lambda s: s["loop_1/update_1"].parallel("ry").strategy("gather"), "then directives for the new loops"),
        (lambda s: s["loop_1/update_1"].strategy("gather").strategy("gather"), "strategies none"),
        (lambda s: s["loop_1/update_1"].when("h > 9").strategy("gather"), "differ only in their loops"),
    ],
)
def test_a_gather_is_refused_with_a_reason(say, why):
    with pytest.raises(rd.ScheduleError, match=why):
        say(plate.schedule())


def test_steps_that_leave_elements_out_have_no_gather():
    assert "gather" not in every_other.schedule()["loop_1/update_1"].strategies()


def test_a_gather_travels_as_text_and_stands_in_branches_of_the_program():
    s = plate.schedule()
    s.when("h > 50")["loop_1/update_1"].strategy("gather").vectorize("x")
    s["loop_1/update_1"].strategy("serial")
    again = rd.Schedule.from_json(s.to_json(), plate)
    assert again == s
    exe = plate.compile(schedule=again)
    for shape in SHAPES:
        u = np.random.default_rng(2).random(shape, "f4")
        assert (exe(u) == plate_by_numpy(u)).all()


@pytest.mark.parametrize("seed", range(24))
def test_random_boxes_are_set_alike_by_steps_and_by_maps(seed):
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    low, less = rng.integers(0, 3, rank), rng.integers(0, 3, rank)
    fixed = rng.random(rank) < 0.2  # one index, not a range
    shifts = [rng.integers(-low, less + 1) for _ in range(2)]
    counts = bool(rng.integers(2))
    dtype, element = [("f4", rd.f32), ("i8", rd.i64), ("f8", rd.f64)][seed % 3]
    array = element[tuple(f"n{d}" for d in range(rank))]

    def part(by: np.ndarray) -> tuple[slice, ...]:
        """The box, moved."""
        return tuple(
            slice(int(a + s), int(a + s) + 1) if f else slice(int(a + s), int(s - b) or None)
            for a, b, s, f in zip(low, less, by, fixed, strict=True)
        )

    own = part(np.zeros(rank, int))

    def step(k, t):
        new = t[part(shifts[0])] + 2 * t[part(shifts[1])]
        return t.at[own].set(new + k if counts else new)

    program = rd.algorithm(lambda u: rd.loop(3, step, u), u=array)
    name = next(each for each in program.schedule().stages if "update" in each)
    executables = [program.compile()]
    for strategy in program.schedule()[name].strategies():
        if strategy in ("serial", "gather"):
            schedule = program.schedule()
            schedule[name].strategy(strategy)
            executables.append(program.compile(schedule=schedule))
    for shape in (rng.integers(5, 20, rank), rng.integers(4, 40, rank), np.full(rank, 5)):
        u = rng.integers(0, 9, shape).astype(dtype)
        wanted = u.copy()
        for k in range(3):
            new = wanted[part(shifts[0])] + 2 * wanted[part(shifts[1])]
            wanted[own] = new + np.asarray(k, dtype) if counts else new
        for exe in executables:
            assert (exe(u) == wanted).all()
