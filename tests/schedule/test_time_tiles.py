"""`time_tile`: loops of whole arrays, several iterations in each sweep over memory (`schedule/directives/time_tiles.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.schedule.plan import At

NEAR = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))


@rd.algorithm
def heat(a: rd.f32["h", "w"], n: rd.i64):
    return rd.loop(
        n, lambda t, x: rd.stencil(lambda p: sum(p[k] for k in NEAR) * 0.2, x, boundary="clamp", name="u"), a
    )


@rd.algorithm
def wave(u: rd.f32["h", "w"], v: rd.f32["h", "w"], n: rd.i64):
    def body(t: Any, state: Any) -> Any:
        now, before = state
        bend = rd.stencil(lambda p: sum(p[k] for k in NEAR) - 5 * p[0, 0], now, boundary="mirror", name="bend")
        return 2 * now - before + 0.1 * bend, now

    return rd.loop(n, body, (u, v))


@rd.algorithm
def fields(ex: rd.f32["h", "w"], ey: rd.f32["h", "w"], hz: rd.f32["h", "w"], n: rd.i64):
    def body(t: Any, state: Any) -> Any:
        ex, ey, hz = state
        ey = rd.stencil(lambda p, q: p[0, 0] - 0.5 * (q[0, 0] - q[-1, 0]), ey, hz, boundary="clamp", name="ey")
        ex = rd.stencil(lambda p, q: p[0, 0] - 0.5 * (q[0, 0] - q[0, -1]), ex, hz, boundary="clamp", name="ex")
        curl = lambda p, q, r: p[0, 0] - 0.7 * (q[0, 1] - q[0, 0] + r[1, 0] - r[0, 0])
        return ex, ey, rd.stencil(curl, hz, ex, ey, boundary="clamp", name="hz")

    return rd.loop(n, body, (ex, ey, hz))


@rd.algorithm
def cube(a: rd.f32["d", "h", "w"], n: rd.i64):
    six = ((-1, 0, 0), (1, 0, 0), (0, -1, 0), (0, 1, 0), (0, 0, -1), (0, 0, 1))
    mean = lambda p: sum(p[k] for k in six) / 6
    return rd.loop(n, lambda t, x: rd.stencil(mean, x, boundary=rd.constant(0), name="u"), a)


@rd.algorithm
def line(a: rd.f32["w"], n: rd.i64):
    return rd.loop(n, lambda t, x: rd.stencil(lambda p: (p[-1] + p[1]) / 2, x, boundary="clamp", name="u") + t, a)


@rd.algorithm
def inner(a: rd.f32["h", "w"], n: rd.i64):
    change = lambda t, x: x.at[1:-1, 1:-1].set((x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1]) * 0.25)
    return rd.loop(n, change, a)


@rd.algorithm
def life(a: rd.u8["h", "w"], n: rd.i64):
    around = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if (y, x) != (0, 0)]

    def body(t: Any, x: Any) -> Any:
        alive = rd.stencil(lambda p: sum(p[k] for k in around), x, boundary=rd.constant(0))
        return rd.where((alive == 3) | ((x == 1) & (alive == 2)), rd.u8(1), rd.u8(0))

    return rd.loop(n, body, a)


TILES = [
    (heat, {"steps": 3, "y": 16, "x": 32}, 1),
    (heat, {"steps": 4, "y": 8}, 1),
    (heat, {"steps": 4, "x": 8}, 1),
    (wave, {"steps": 4, "y": 16, "x": 32}, 2),
    (fields, {"steps": 3, "y": 16, "x": 32}, 3),
    (cube, {"steps": 4, "y": 8, "x": 16}, 1),
    (cube, {"steps": 2, "z": 8}, 1),
    (line, {"steps": 4, "x": 16}, 1),
    (inner, {"steps": 4, "y": 16, "x": 32}, 1),
    (life, {"steps": 4, "y": 16, "x": 64}, 1),
]


@pytest.mark.parametrize(("algorithm", "tile", "arrays"), TILES, ids=lambda each: getattr(each, "name", str(each)))
def test_tiles_in_time_change_no_bit(algorithm: Any, tile: dict[str, int], arrays: int) -> None:
    s = algorithm.schedule()
    if algorithm is inner:
        s["update_1"].strategy("gather")
    s["loop_1"].time_tile(**tile)
    exe, rng = algorithm.compile(schedule=s), np.random.default_rng(0)
    kind = algorithm.trace().parameters[0]
    rank = len(kind.shape)
    for shape in ((19, 33, 37), (5, 1, 70), (1, 40, 2)):
        for n in (0, 1, 3, 4, 9, -2):
            given = [rng.integers(0, 2, shape[-rank:]).astype(kind.dtype.numpy) for _ in range(arrays)]
            found, wanted = exe(*given, n), algorithm.interpret(*given, n)
            for one, other in zip(
                *((each if isinstance(each, tuple) else (each,)) for each in (found, wanted)), strict=True
            ):
                assert np.array_equal(one, other)
    assert rd.Schedule.from_json(s.to_json(), algorithm) == s


def test_rows_of_all_iterations_slide_along_a_tile() -> None:
    s = heat.schedule()
    s["loop_1"].time_tile(steps=3, y=16, x=32)
    assert s.stages == (
        "loop_1_tiles",
        "loop_1_tiles/u_0",
        "loop_1_tiles/u_1",
        "loop_1_tiles/u_2",
        "loop_1",
        "loop_1/u",
    )
    text = s.nest_text()
    assert "u_0: f32[8, 36] stack" in text and "u_1: f32[4, 34] stack" in text
    assert "for t in 3*(max(0, n)//3)..n:" in text


def test_planes_slide_where_only_rows_and_columns_are_cut() -> None:
    s = cube.schedule()
    s["loop_1"].time_tile(steps=2, y=8, x=16)
    assert s["loop_1_tiles/u_1"].axes == ("yo", "xo", "z", "yi", "xi")
    assert s["loop_1_tiles/u_0"].plan.compute == At("loop_1_tiles/u_1", "z")


def test_stages_of_the_tile_take_directives() -> None:
    s = heat.schedule()
    s["loop_1"].time_tile(steps=2, y=16, x=32)
    s["loop_1_tiles/u_1"].parallel("yo").vectorize("xi", 8)
    s["loop_1_tiles/u_0"].vectorize("x", 4).unroll("y", 2)
    a = np.random.default_rng(1).random((40, 50), "f4")
    assert (heat.compile(schedule=s)(a, 5) == heat.interpret(a, 5)).all()


def tiled(algorithm: Any, **tile: Any) -> Callable[[], object]:
    return lambda: algorithm.schedule()[
        next(name for name in algorithm.schedule().stages if "/" not in name)
    ].time_tile(**tile)


def with_directives() -> object:
    s = heat.schedule()
    s["loop_1/u"].vectorize("x")
    return s["loop_1"].time_tile(steps=2, y=8)


def twice() -> object:
    return heat.schedule()["loop_1"].time_tile(steps=2, y=8).time_tile(steps=2, y=8)


loop_of = lambda body: rd.algorithm(lambda a: rd.loop(6, body, a), a="f32[h, w]")
WRAPPED = loop_of(lambda t, x: rd.stencil(lambda p: p[0, -1] + p[0, 1], x, boundary="wrap"))
SCALED = loop_of(lambda t, x: x / rd.sum(x))
PINNED = loop_of(lambda t, x: x + x[0])
TURNED = loop_of(lambda t, x: (x + x.T) * 0.5)
SUMMED = loop_of(lambda t, x: rd.cumsum(x, axis=0))
UNTIL = rd.algorithm(lambda a: rd.while_loop(lambda x: rd.max(x) > 0.5, lambda x: x * 0.9, a), a="f32[h, w]")


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (tiled(heat), "no axis is cut into tiles"),
        (tiled(heat, steps=1, y=8), "it must be 2 … 64"),
        (tiled(heat, steps=4, q=8), 'has no axis "q"'),
        (tiled(heat, y=8, shape="round"), 'a shape is one of "overlap"'),
        (tiled(WRAPPED, x=8), "needs elements far away"),
        (tiled(SCALED, y=8), "needs elements far away"),
        (tiled(PINNED, y=8), "needs elements far away"),
        (tiled(TURNED, y=8), "needs elements far away"),
        (tiled(SUMMED, y=8), "its elements depend on one another"),
        (tiled(inner, y=8), 'strategy("gather") first'),
        (tiled(UNTIL, y=8), "is not a loop of counted iterations"),
        (with_directives, "time_tile first"),
        (twice, "already names a strategy"),
        (lambda: heat.schedule(target="vulkan")["loop_1"].time_tile(y=8), "a GPU runs each iteration as one launch"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_refusals(act: Callable[[], object], words: str) -> None:
    with pytest.raises(rd.ScheduleError, match="cannot tile time in loop") as error:
        act()
    assert words in str(error.value)


def test_wrapping_is_allowed_along_axes_that_are_not_cut() -> None:
    s = WRAPPED.schedule()
    s[s.stages[0]].time_tile(steps=3, y=8)
    a = np.random.default_rng(2).random((30, 20), "f4")
    assert (WRAPPED.compile(schedule=s)(a) == WRAPPED.interpret(a)).all()


@rd.algorithm
def smoothed(a: rd.f32["h", "w"]):
    return rd.stencil(lambda p: p[0, -1] + p[0, 1], a, boundary="clamp", name="u")


@rd.algorithm
def sharpened(a: rd.f32["h", "w"]):
    return rd.stencil(lambda p: 2 * p[0, 0] - p[1, 0], a, boundary="clamp", name="u")


def test_stages_of_inlined_algorithms_and_states_that_change_places_keep_apart() -> None:
    def step(t: Any, state: Any) -> Any:
        first, second, rate = state
        return second, sharpened(smoothed(first)) * rate, rate

    algorithm = rd.algorithm(lambda a, b, c: rd.loop(7, step, (a, b, c)), a="f32[h, w]", b="f32[h, w]", c="f32[h, w]")
    s = algorithm.schedule()
    s["loop_1"].time_tile(steps=3, y=8, x=16)
    given = [np.random.default_rng(k).integers(0, 3, (20, 33)).astype("f4") for k in range(3)]
    for found, wanted in zip(algorithm.compile(schedule=s)(*given), algorithm.interpret(*given), strict=True):
        assert np.array_equal(found, wanted)
